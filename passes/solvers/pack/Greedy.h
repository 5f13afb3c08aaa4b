// Greedy packing: items in a fixed order, each into a gap between those already placed.
//
// Six orders and two ways to choose the gap give the classic constructive heuristics: size with
// best fit is TFLite's arena planner, size-then-length and length-then-size are XLA's two, birth
// order with best fit is what caching allocators do. No one of them is best everywhere, so
// packBestOfGreedy runs all twelve.
#pragma once

#include "passes/solvers/pack/Model.h"

#include <atomic>
#include <functional>
#include <string>

namespace stow::pack {

enum class GreedyOrder {
  SizeStart,  ///< largest first, then earliest
  SizeLength, ///< largest first, then longest-lived
  Length,     ///< longest-lived first, then largest
  Area,       ///< largest size x lifetime first
  Degree,     ///< most overlapping buffers first
  Birth,      ///< earliest first, then largest
};

enum class GreedyFit {
  Best, ///< the smallest gap that is large enough, else on top
  First ///< the lowest gap that is large enough
};

constexpr GreedyOrder greedyOrders[] = {GreedyOrder::SizeStart, GreedyOrder::SizeLength,
                                        GreedyOrder::Length,    GreedyOrder::Area,
                                        GreedyOrder::Degree,    GreedyOrder::Birth};
constexpr GreedyFit greedyFits[] = {GreedyFit::Best, GreedyFit::First};

/// "size-start", "best", ...
const char *name(GreedyOrder order);
const char *name(GreedyFit fit);

/// Item indices in placing order; ties are broken by index.
std::vector<int32_t> greedyOrder(const Model &model, GreedyOrder order);

/// Bases of all items when they are placed in the given sequence, fixed ones first. Empty when a
/// fixed item collides with another fixed item. O(n log s) range operations.
/// Also empty when `budget` range operations did not suffice or `stop` said so.
std::vector<Bytes> placeInOrder(const Model &model, const std::vector<int32_t> &sequence,
                                GreedyFit fit, int64_t *budget = nullptr,
                                const std::function<bool()> *stop = nullptr);

/// Height of the bases: the highest byte in use.
Bytes heightOfBases(const Model &model, const std::vector<Bytes> &bases);

/// One pair. nullopt when fixed offsets collide.
std::optional<Solution> packGreedy(const Problem &problem, GreedyOrder order, GreedyFit fit);

/// The lowest packing of all twelve pairs; the first of equals. nullopt when fixed offsets collide.
std::optional<Solution> packBestOfGreedy(const Problem &problem);

/// What bestOfGreedy found.
struct GreedyResult {
  std::vector<Bytes> bases; ///< empty when fixed offsets collide
  Bytes height = 0;
  std::string method; ///< "greedy area/best"
  uint32_t done = 0;  ///< bit 2 * order + fit of every pair that was run to its end
};

/// With more items than this the pairs share a budget.
constexpr size_t manyItems = 20'000;

/// As packBestOfGreedy on a model, for drivers. Stops early at `target`, and once `stop` says so,
/// but never before one pair is done. With more than `manyItems` items the pairs have a common
/// budget of range operations, best promise first, so that a million buffers take seconds; fewer
/// always get all twelve.
GreedyResult bestOfGreedy(const Model &model, Bytes target, const std::function<bool()> &stop);

/// Runs the pairs that `result` still lacks, without a budget.
void restOfGreedy(const Model &model, Bytes target, const std::function<bool()> &stop,
                  GreedyResult &result);

/// The pair birth/best of rectangles without fixed offsets, by simulating an allocator over time:
/// the same packing as placeInOrder up to ties between equal gaps, in O(n log n) whatever overlaps.
std::vector<Bytes> packByBirth(const Model &model);

} // namespace stow::pack
