#include "passes/solvers/pack/Outward.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
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

/// The bytes that nobody holds at one instant, as an allocator keeps them.
class FreeBytes {
public:
  explicit FreeBytes(Bytes from) { add(from, std::numeric_limits<Bytes>::max() / 4); }

  /// Takes the smallest gap that is large enough, padding included.
  Bytes take(Bytes size, Bytes alignment) {
    auto gap = bySize.lower_bound({size, 0});
    while (alignUp(gap->second, alignment) + size > gap->second + gap->first)
      ++gap;
    const Bytes low = gap->second, high = low + gap->first;
    const Bytes base = alignUp(low, alignment);
    drop(low, high);
    if (base > low)
      add(low, base);
    if (base + size < high)
      add(base + size, high);
    return base;
  }

  void give(Bytes low, Bytes high) {
    auto above = byLow.lower_bound(low);
    if (above != byLow.begin())
      if (const auto below = std::prev(above); below->second == low) {
        low = below->first;
        drop(below->first, below->second);
      }
    if (above != byLow.end() && above->first == high) {
      const Bytes from = above->first;
      high = above->second;
      drop(from, high);
    }
    add(low, high);
  }

private:
  void add(Bytes low, Bytes high) {
    byLow[low] = high;
    bySize.insert({high - low, low});
  }
  void drop(Bytes low, Bytes high) {
    byLow.erase(low);
    bySize.erase({high - low, low});
  }

  std::map<Bytes, Bytes> byLow;             ///< low -> high; the last one is open above
  std::set<std::pair<Bytes, Bytes>> bySize; ///< (bytes, low)
};

const char *name(PeakStack stack) {
  return stack == PeakStack::FirstToDie ? "first-to-die" : "last-born";
}

/// The most crowded section, the first of equals.
int32_t findPeak(const Model &model) {
  const std::vector<Bytes> load = sectionLoads(model);
  return static_cast<int32_t>(std::max_element(load.begin(), load.end()) - load.begin());
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

std::vector<int32_t> distancesFrom(const Model &model, int32_t peak) {
  std::vector<int32_t> distances;
  distances.reserve(model.items.size());
  for (const Item &item : model.items)
    distances.push_back(item.begin > peak  ? item.begin - peak
                        : item.end <= peak ? peak - item.end + 1
                                           : -1);
  return distances;
}

} // namespace

std::vector<int32_t> distancesFromPeak(const Model &model) {
  return distancesFrom(model, findPeak(model));
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

GreedyResult allocateOutward(const Model &model, PeakStack stack) {
  const int32_t peak = findPeak(model);
  const std::vector<int32_t> distances = distancesFrom(model, peak);
  const std::vector<int32_t> sequence = outwardOrder(model, stack, distances);
  GreedyResult result;
  result.method = std::string("outward ") + name(stack) + "/best";
  std::vector<Bytes> &bases = result.bases;
  bases.assign(model.items.size(), 0);
  Bytes top = 0;
  size_t atPeak = 0;
  for (; atPeak < sequence.size() && distances[sequence[atPeak]] < 0; ++atPeak) {
    const Item &item = model.items[sequence[atPeak]];
    bases[sequence[atPeak]] = alignUp(top, item.alignment);
    top = bases[sequence[atPeak]] + item.size;
  }
  for (const bool isAfter : {true, false}) {
    // Sections away from the peak, and counted from there.
    auto arrival = [&](int32_t i) { return isAfter ? model.items[i].begin : -model.items[i].end; };
    auto departure = [&](int32_t i) {
      return isAfter ? model.items[i].end : -model.items[i].begin;
    };
    std::vector<int32_t> leaving;
    for (size_t k = 0; k < sequence.size(); ++k)
      if (k < atPeak || (model.items[sequence[k]].begin > peak) == isAfter)
        leaving.push_back(sequence[k]);
    std::vector<int32_t> arriving;
    std::copy_if(leaving.begin(), leaving.end(), std::back_inserter(arriving),
                 [&](int32_t i) { return distances[i] >= 0; });
    std::sort(leaving.begin(), leaving.end(), [&](int32_t a, int32_t b) {
      return std::pair(departure(a), a) < std::pair(departure(b), b);
    });
    FreeBytes free(top);
    size_t gone = 0;
    for (int32_t index : arriving) {
      for (; departure(leaving[gone]) <= arrival(index); ++gone)
        free.give(bases[leaving[gone]], bases[leaving[gone]] + model.items[leaving[gone]].size);
      bases[index] = free.take(model.items[index].size, model.items[index].alignment);
    }
  }
  result.height = heightOfBases(model, bases);
  return result;
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
