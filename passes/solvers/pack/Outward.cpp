#include "passes/solvers/pack/Outward.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

/// One way to place, with its own history of what was placed too late.
struct Variant {
  PeakStack stack;
  GreedyFit fit;
  int32_t divisor; ///< of the distance of what was placed too late
  std::vector<int32_t> distances;
};

const char *name(PeakStack stack) {
  return stack == PeakStack::FirstToDie ? "first-to-die" : "last-born";
}

/// Moves items that end above the goal towards the peak; false when there are none to move.
bool moveInward(const Model &model, const std::vector<Bytes> &bases, Bytes goal, int32_t divisor,
                std::vector<int32_t> &distances) {
  bool isMoved = false;
  for (size_t i = 0; i < bases.size(); ++i)
    if (bases[i] + model.items[i].size > goal && distances[i] > 0) {
      distances[i] /= divisor;
      isMoved = true;
    }
  return isMoved;
}

} // namespace

std::vector<int32_t> distancesFromPeak(const Model &model) {
  const std::vector<Bytes> load = sectionLoads(model);
  const auto peak = static_cast<int32_t>(std::max_element(load.begin(), load.end()) - load.begin());
  std::vector<int32_t> distances;
  distances.reserve(model.items.size());
  for (const Item &item : model.items)
    distances.push_back(item.begin > peak  ? item.begin - peak
                        : item.end <= peak ? peak - item.end + 1
                                           : -1);
  return distances;
}

std::vector<int32_t> outwardOrder(const Model &model, PeakStack stack,
                                  const std::vector<int32_t> &distances) {
  auto key = [&](int32_t i) {
    const Item &item = model.items[i];
    if (distances[i] >= 0)
      return std::tuple(distances[i], Time(0), Bytes(0), -item.size, i);
    // On top of the stack no padding is needed.
    return std::tuple(-1, stack == PeakStack::FirstToDie ? item.birth + item.lifetime : -item.birth,
                      alignUp(item.size, item.alignment) - item.size, -item.size, i);
  };
  std::vector<int32_t> sequence(model.items.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::sort(sequence.begin(), sequence.end(),
            [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return sequence;
}

GreedyResult packOutward(const Model &model, Bytes goal, int64_t budget,
                         const std::function<bool()> &stop) {
  constexpr int mostRounds = 10, fewRounds = 1;
  const std::vector<int32_t> distances = distancesFromPeak(model);
  std::vector<Variant> variants = {{PeakStack::FirstToDie, GreedyFit::First, 3, distances},
                                   {PeakStack::LastBorn, GreedyFit::First, 3, distances},
                                   {PeakStack::FirstToDie, GreedyFit::Best, 4, distances}};
  GreedyResult result;
  for (int round = 0; round < mostRounds; ++round) {
    if (round == fewRounds && result.height - goal > goal / 10)
      break; // what is placed too late is everywhere
    for (size_t v = 0; v < variants.size();) {
      Variant &variant = variants[v];
      std::vector<Bytes> bases =
          placeInOrder(model, outwardOrder(model, variant.stack, variant.distances), variant.fit,
                       {.budget = &budget, .stop = &stop});
      if (bases.empty())
        return result;
      const Bytes height = heightOfBases(model, bases);
      const bool isMoved = moveInward(model, bases, goal, variant.divisor, variant.distances);
      if (result.bases.empty() || height < result.height) {
        result.bases = std::move(bases);
        result.height = height;
        result.method = std::string("outward ") + name(variant.stack) + "/" + name(variant.fit);
      }
      if (height <= goal)
        return result;
      if (isMoved)
        ++v;
      else
        variants.erase(variants.begin() + static_cast<int64_t>(v));
    }
  }
  return result;
}

} // namespace stow::pack
