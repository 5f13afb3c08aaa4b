#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/HotSpots.h"
#include "passes/solvers/pack/Outward.h"

#include <algorithm>
#include <numeric>

namespace stow::pack {

namespace {

/// The bytes that the band of small items may need, as a share of the load.
constexpr int64_t bandShare = 300; // 1 / 300
constexpr int64_t repairWork = 400'000'000;

/// Items of `model` by whether they have at least `threshold` bytes.
struct Split {
  std::vector<int32_t> small, large;
};

Split splitBySize(const Model &model, Bytes threshold) {
  Split split;
  for (int32_t i = 0; i < static_cast<int32_t>(model.items.size()); ++i)
    (model.items[i].size < threshold ? split.small : split.large).push_back(i);
  return split;
}

/// The largest power of two below which items need no more than their share of the load.
Bytes bandThreshold(const Model &model) {
  const Bytes most = modelLoad(model) / bandShare;
  Bytes threshold = 1;
  for (;; threshold *= 2) {
    const Split split = splitBySize(model, 2 * threshold);
    if (split.large.empty() || modelLoad(restrictTo(model, split.small)) > most)
      return threshold;
  }
}

/// The least common multiple of the alignments; nullopt when it is absurdly large.
std::optional<Bytes> commonAlignment(const Model &model) {
  Bytes common = 1;
  for (const Item &item : model.items)
    if (common = std::lcm(common, item.alignment); common > Bytes(1) << 40)
      return std::nullopt;
  return common;
}

} // namespace

bool isPlain(const Model &model) {
  return std::all_of(model.items.begin(), model.items.end(),
                     [](const Item &item) { return item.isRectangle() && !item.fixedBase; });
}

GreedyResult packLargeScale(const Model &model, Bytes goal, int64_t &work,
                            const std::function<bool()> &stop) {
  GreedyResult result = allocateOutward(model, PeakStack::FirstToDie);
  // Where one stack is far off, the other one is not worth its time.
  if (result.height > goal && result.height - goal <= goal / 20 && !stop())
    if (GreedyResult other = allocateOutward(model, PeakStack::LastBorn);
        other.height < result.height)
      result = std::move(other);
  const std::optional<Bytes> alignment = commonAlignment(model);
  if (result.height - goal <= goal / 100 || !alignment || stop())
    return result;
  const Split split = splitBySize(model, bandThreshold(model));
  const Model small = restrictTo(model, split.small), large = restrictTo(model, split.large);
  std::vector<Bytes> below = placeInOrder(large, greedyOrder(large, GreedyOrder::SizeStart),
                                          GreedyFit::First, {.stop = &stop});
  if (below.empty() && !large.items.empty())
    return result; // told to stop
  below = lowerHotSpots(large, std::move(below), goal, repairWork, work, stop);
  // Where crowds are everywhere, the first percents take the most.
  if (heightOfBases(large, below) > goal + goal / 50)
    below = lowerHotSpots(large, std::move(below), goal + goal / 50, 2 * repairWork, work, stop);
  const std::vector<Bytes> above = allocateOutward(small, PeakStack::FirstToDie).bases;
  const Bytes ground = alignUp(heightOfBases(large, below), *alignment);
  std::vector<Bytes> bases(model.items.size());
  for (size_t k = 0; k < split.large.size(); ++k)
    bases[split.large[k]] = below[k];
  for (size_t k = 0; k < split.small.size(); ++k)
    bases[split.small[k]] = ground + above[k];
  const Bytes height = heightOfBases(model, bases);
  if (height < result.height) {
    result.bases = std::move(bases);
    result.height = height;
    result.method = "bands";
  }
  return result;
}

} // namespace stow::pack
