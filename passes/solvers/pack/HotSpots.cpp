#include "passes/solvers/pack/HotSpots.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/Portfolio.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stow::pack {

namespace {

/// A crowded stretch of time: its items, by index, and the sections they live in.
struct Spot {
  std::vector<int32_t> items;
  int32_t begin = 0, end = 0;
  Bytes load = 0; ///< largest
};

class HotSpots {
public:
  HotSpots(const Model &model, int64_t workLimit, int64_t &work, const std::function<bool()> &stop)
      : model(model), workLimit(work + workLimit), work(work), stop(stop) {
    load = sectionLoads(model);
    byBegin.resize(model.items.size());
    std::iota(byBegin.begin(), byBegin.end(), 0);
    std::sort(byBegin.begin(), byBegin.end(), [&](int32_t a, int32_t b) {
      return std::pair(model.items[a].begin, a) < std::pair(model.items[b].begin, b);
    });
    for (const Item &item : model.items)
      longest = std::max(longest, item.end - item.begin);
  }

  /// Halves the distance to `goal` until that fails; gives the lowest packing found.
  std::vector<Bytes> lower(std::vector<Bytes> lowest, Bytes goal) {
    Bytes height = heightOfBases(model, lowest);
    constexpr Bytes closeParts = 2000;
    const Bytes closeBy = goal / closeParts;
    for (Bytes share = 2; share >= 1 && height > goal;) {
      target = height - goal <= closeBy ? goal : goal + (height - goal) * share / 4;
      bases = lowest;
      if (reachTarget()) {
        lowest = std::move(bases);
        height = heightOfBases(model, lowest);
      } else if (share == 2 && target > goal && work <= workLimit) {
        share = 3; // half way was too far
        continue;
      } else {
        break;
      }
    }
    return lowest;
  }

private:
  bool reachTarget() {
    // Sections count as crowded from this share of the target on; less with every round.
    constexpr double shares[] = {0.97, 0.9, 0.8, 0.7, 0.6, 0.5};
    for (double share : shares) {
      const std::vector<Spot> spots = findSpots(share);
      if (spots.empty())
        return true;
      for (const Spot &spot : spots)
        if (spot.items.size() > mostItems || work > workLimit || stop() || !repair(spot))
          return false;
    }
    return findSpots(1).empty();
  }

  bool isAbove(int32_t index) const { return bases[index] + model.items[index].size > target; }

  /// Items of the sections that are crowded while an item lies above the target, in groups that
  /// share no section.
  std::vector<Spot> findSpots(double share) const {
    const auto crowd = static_cast<Bytes>(share * static_cast<double>(target));
    std::vector<int32_t> hot(model.sections + 1, 0); // then: hot sections before each section
    for (int32_t index = 0; index < static_cast<int32_t>(bases.size()); ++index) {
      if (!isAbove(index))
        continue;
      const Item &item = model.items[index];
      const auto first = load.begin() + item.begin, last = load.begin() + item.end;
      hot[std::max_element(first, last) - load.begin()] = 1;
      for (int32_t s = item.begin; s < item.end; ++s)
        hot[s] |= load[s] >= crowd;
    }
    int32_t before = 0;
    for (int32_t &entry : hot)
      before += std::exchange(entry, before);
    std::vector<Spot> spots;
    for (int32_t index : byBegin) {
      const Item &item = model.items[index];
      if (hot[item.begin] == hot[item.end])
        continue;
      if (spots.empty() || item.begin >= spots.back().end)
        spots.push_back({{}, item.begin, item.end, 0});
      spots.back().items.push_back(index);
      spots.back().end = std::max(spots.back().end, item.end);
    }
    for (Spot &spot : spots)
      spot.load = *std::max_element(load.begin() + spot.begin, load.begin() + spot.end);
    // The most loaded first: if any cannot be packed, it is that one.
    std::sort(spots.begin(), spots.end(), [](const Spot &a, const Spot &b) {
      return std::pair(-a.load, a.begin) < std::pair(-b.load, b.begin);
    });
    return spots;
  }

  /// Items that live in [begin, end), in the order of begin.
  std::vector<int32_t> itemsIn(int32_t begin, int32_t end) const {
    auto it = std::partition_point(byBegin.begin(), byBegin.end(), [&](int32_t index) {
      return model.items[index].begin <= begin - longest;
    });
    std::vector<int32_t> items;
    for (; it != byBegin.end() && model.items[*it].begin < end; ++it)
      if (model.items[*it].end > begin)
        items.push_back(*it);
    return items;
  }

  bool repair(const Spot &spot) {
    const std::vector<Bytes> found = packAlone(spot);
    if (found.empty())
      return false;
    // The neighbours move; what they meet outside stays.
    const std::vector<int32_t> near = itemsIn(spot.begin, spot.end);
    int32_t begin = spot.begin, end = spot.end;
    for (int32_t index : near) {
      begin = std::min(begin, model.items[index].begin);
      end = std::max(end, model.items[index].end);
    }
    const std::vector<int32_t> around = itemsIn(begin, end);
    Model part = cutOut(around, begin, end);
    size_t next = 0, hot = 0;
    for (size_t i = 0; i < around.size(); ++i) {
      if (hot < spot.items.size() && spot.items[hot] == around[i])
        part.items[i].fixedBase = found[hot++];
      else if (next >= near.size() || near[next] != around[i])
        part.items[i].fixedBase = bases[around[i]];
      next += next < near.size() && near[next] == around[i];
    }
    std::vector<Bytes> best;
    for (GreedyOrder order : {GreedyOrder::Area, GreedyOrder::SizeStart, GreedyOrder::Length}) {
      std::vector<Bytes> placed =
          placeInOrder(part, greedyOrder(part, order), GreedyFit::First, {.stop = &stop});
      work += static_cast<int64_t>(around.size()) * workPerItem;
      if (!placed.empty() &&
          (best.empty() || heightOfBases(part, placed) < heightOfBases(part, best)))
        best = std::move(placed);
      if (best.empty() || heightOfBases(part, best) <= target)
        break;
    }
    for (size_t i = 0; i < best.size(); ++i)
      bases[around[i]] = best[i];
    return !best.empty();
  }

  /// Bases of the spot's items within the target, as if there were no others; empty when none were
  /// found.
  std::vector<Bytes> packAlone(const Spot &spot) {
    const SearchInstance instance(model, spot.items);
    std::vector<double> failures;
    int tried = 0;
    for (SearchOptions search : searchPortfolio()) {
      if (++tried > maxSettings || work > workLimit)
        break;
      if (search.pick == SearchPick::Tightest && instance.freeItems() > manyItems)
        continue; // a node costs all sections
      search.nodeLimit = instance.freeItems() + effort;
      search.workLimit = workLimit - work;
      search.failures = &failures;
      SearchResult result = instance.search(target, search, stop);
      work += result.work + 1;
      if (result.outcome == SearchOutcome::Found)
        return std::move(result.bases);
      if (result.outcome == SearchOutcome::Exhausted)
        break;
    }
    return {};
  }

  /// A model of some items alone, in sections from 0.
  Model cutOut(const std::vector<int32_t> &items, int32_t begin, int32_t end) const {
    Model part;
    part.sections = end - begin;
    for (int32_t index : items) {
      Item item = model.items[index];
      ModelPiece piece = model.pieces[item.firstPiece];
      item.firstPiece = static_cast<int32_t>(part.pieces.size());
      item.lastPiece = item.firstPiece + 1;
      // What juts out on either side does not matter here.
      item.begin = piece.begin = std::max(item.begin, begin) - begin;
      item.end = piece.end = std::min(item.end, end) - begin;
      part.items.push_back(item);
      part.pieces.push_back(piece);
    }
    return part;
  }

  static constexpr int maxSettings = 8;
  static constexpr int32_t manyItems = 4000;
  static constexpr size_t mostItems = 20'000;
  static constexpr int64_t effort = 2000;
  static constexpr int64_t workPerItem = 200; ///< of a greedy pass, about

  const Model &model;
  std::vector<Bytes> bases;
  Bytes target = 0;
  const int64_t workLimit;
  int64_t &work;
  const std::function<bool()> &stop;
  std::vector<Bytes> load;      ///< by section
  std::vector<int32_t> byBegin; ///< items by (begin, index)
  int32_t longest = 1;          ///< sections of the longest item
};

} // namespace

std::vector<Bytes> lowerHotSpots(const Model &model, std::vector<Bytes> bases, Bytes goal,
                                 int64_t workLimit, int64_t &work,
                                 const std::function<bool()> &stop) {
  return HotSpots(model, workLimit, work, stop).lower(std::move(bases), goal);
}

} // namespace stow::pack
