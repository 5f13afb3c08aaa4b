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
std::vector<Bytes> placeInOrder(const Model &model, const std::vector<int32_t> &sequence,
                                GreedyFit fit);

/// Height of the bases: the highest byte in use.
Bytes heightOfBases(const Model &model, const std::vector<Bytes> &bases);

/// One pair. nullopt when fixed offsets collide.
std::optional<Solution> packGreedy(const Problem &problem, GreedyOrder order, GreedyFit fit);

/// The lowest packing of all twelve pairs; the first of equals. nullopt when fixed offsets collide.
std::optional<Solution> packBestOfGreedy(const Problem &problem);

/// As packBestOfGreedy on a model. Stops early at `target`, and between pairs once `stop` says so,
/// but never before the first pair is done.
std::vector<Bytes> bestOfGreedy(const Model &model, Bytes target,
                                const std::function<bool()> &stop);

} // namespace stow::pack
