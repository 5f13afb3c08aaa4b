// Greedy packing: items in a fixed order, each into a gap between those already placed.
//
// Six orders and two ways to choose the gap give the classic constructive heuristics: size with
// best fit is TFLite's arena planner, size-then-length and length-then-size are XLA's two, birth
// order with best fit is what caching allocators do. No one of them is best everywhere, so
// packBestOfGreedy runs all twelve.
#pragma once

#include "passes/solvers/pack/Model.h"

#include <functional>
#include <limits>
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

/// An order beside the six, for steps with one crowded instant: items by the largest load of their
/// sections, so that those of the most crowded one come first and stack without a gap; then the
/// largest, then those that live the longest.
std::vector<int32_t> crowdedFirst(const Model &model);

/// When placing is given up.
struct PlaceLimits {
  Bytes below = std::numeric_limits<Bytes>::max(); ///< an item reaches this high
  int64_t *budget = nullptr; ///< range operations: those used are taken off, and none are left
  const std::function<bool()> *stop = nullptr; ///< says so
};

/// Bases of all items when they are placed in the given sequence, fixed ones first. Empty when a
/// fixed item collides with another fixed item, and when a limit was met. O(n log s) range
/// operations.
std::vector<Bytes> placeInOrder(const Model &model, const std::vector<int32_t> &sequence,
                                GreedyFit fit, const PlaceLimits &limits = {});

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
  uint32_t done = 0;  ///< bit 2 * order + fit of every pair that is known not to be lower
};

/// A packing that none of the twelve pairs is lower than: `known`, one of a pair, or that of
/// crowdedFirst; it comes at once when it is as low as `target`. A pair is given up as soon as it
/// reaches as high as what is known, so the cheap ones, with first fit, come first. Not to be
/// stopped without a `budget` (range operations of all pairs together; 1e8 take one to four
/// seconds); with one also by `stop`, and pairs are left out that could hardly finish.
GreedyResult bestOfGreedy(const Model &model, Bytes target, GreedyResult known = {},
                          std::optional<int64_t> budget = std::nullopt,
                          const std::function<bool()> *stop = nullptr);

} // namespace stow::pack
