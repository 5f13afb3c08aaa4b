#include "passes/solvers/pack/CanonicalSearch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stow::pack {

namespace {
constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;
constexpr int64_t pollInterval = 100'000;
} // namespace

/// Compressed rows: the entries of row r are [start[r], start[r + 1]).
struct SearchInstance::Data {
  int32_t count = 0;    ///< free items
  int32_t total = 0;    ///< all items of the instance
  int32_t sections = 0; ///< after renumbering from 0
  bool complete = true;
  std::vector<int32_t> source;     ///< free item -> position in the list given to the constructor
  std::vector<Bytes> fixedBases;   ///< by position; -1 for free items
  std::vector<int32_t> begin, end; ///< hulls
  std::vector<Bytes> size, alignment;
  std::vector<Time> lifetime, birth;
  std::vector<int32_t> twin;     ///< previous item with equal sections and alignment, or -1
  std::vector<char> twinIsEqual; ///< ... and equal size
  std::vector<Bytes> ground;     ///< by free item: its lowest base above the fixed items
  std::vector<int64_t> neighbourStart;
  std::vector<int32_t> neighbour;
  std::vector<Bytes> lift; ///< by entry: neighbour's base - own base at least; empty: own size
  std::vector<int64_t> sectionStart;
  std::vector<int32_t> sectionItem;
  std::vector<Bytes> sectionLow; ///< by entry: bytes free under the item there; empty: all 0
  std::vector<int64_t> itemStart;
  std::vector<int32_t> itemSection; ///< sections of each item
  std::vector<Bytes> itemHeight;    ///< by entry: bytes the item takes there; empty: its size
};

namespace {

/// The per-section hull of an item: a search item takes one byte range per section.
struct Slice {
  int32_t section;
  Bytes low, high;
};

void slicesOf(const Model &model, const Item &item, std::vector<Slice> &out, bool &complete) {
  out.clear();
  for (int32_t p = item.firstPiece; p < item.lastPiece; ++p) {
    const ModelPiece &piece = model.pieces[p];
    for (int32_t s = piece.begin; s < piece.end; ++s)
      out.push_back({s, piece.low, piece.high});
  }
  if (item.isRectangle())
    return;
  std::sort(out.begin(), out.end(), [](const Slice &a, const Slice &b) {
    return std::pair(a.section, a.low) < std::pair(b.section, b.low);
  });
  size_t kept = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    complete &= out[i].low == 0;
    if (kept > 0 && out[kept - 1].section == out[i].section)
      out[kept - 1].high = std::max(out[kept - 1].high, out[i].high);
    else
      out[kept++] = out[i];
  }
  out.resize(kept);
}

/// Everything the builder knows about one item.
struct Draft {
  const Item *item;
  int32_t position;
  std::vector<Slice> slices;
};

/// Fills neighbour lists: for each pair that shares a section how far one must be above the other.
void buildNeighbours(SearchInstance::Data &data, const std::vector<Draft> &drafts,
                     bool rectangles) {
  const int32_t count = data.count;
  std::vector<int32_t> byBegin(count);
  std::iota(byBegin.begin(), byBegin.end(), 0);
  std::sort(byBegin.begin(), byBegin.end(), [&](int32_t a, int32_t b) {
    return std::pair(data.begin[a], a) < std::pair(data.begin[b], b);
  });
  // Items that share a section, per item: enumerate pairs by a sweep over begins.
  std::vector<std::pair<int32_t, int32_t>> pairs;
  std::vector<int32_t> active;
  for (int32_t i : byBegin) {
    size_t kept = 0;
    for (int32_t j : active)
      if (data.end[j] > data.begin[i]) {
        active[kept++] = j;
        pairs.push_back({i, j});
      }
    active.resize(kept);
    active.push_back(i);
  }
  std::vector<Bytes> liftUp, liftDown; // i below j, j below i
  if (!rectangles) {
    size_t kept = 0;
    for (auto [i, j] : pairs) {
      Bytes up = -unlimited, down = -unlimited;
      const std::vector<Slice> &a = drafts[i].slices, &b = drafts[j].slices;
      for (size_t x = 0, y = 0; x < a.size() && y < b.size();) {
        if (a[x].section != b[y].section) {
          a[x].section < b[y].section ? ++x : ++y;
          continue;
        }
        up = std::max(up, a[x].high - b[y].low);
        down = std::max(down, b[y].high - a[x].low);
        ++x, ++y;
      }
      if (up == -unlimited)
        continue; // the hulls overlap, the items do not
      pairs[kept++] = {i, j};
      liftUp.push_back(up);
      liftDown.push_back(down);
    }
    pairs.resize(kept);
  }
  data.neighbourStart.assign(count + 1, 0);
  for (auto [i, j] : pairs) {
    ++data.neighbourStart[i + 1];
    ++data.neighbourStart[j + 1];
  }
  std::partial_sum(data.neighbourStart.begin(), data.neighbourStart.end(),
                   data.neighbourStart.begin());
  data.neighbour.resize(2 * pairs.size());
  if (!rectangles)
    data.lift.resize(2 * pairs.size());
  std::vector<int64_t> fill(data.neighbourStart.begin(), data.neighbourStart.end() - 1);
  for (size_t p = 0; p < pairs.size(); ++p) {
    auto [i, j] = pairs[p];
    if (!rectangles) {
      data.lift[fill[i]] = liftUp[p];
      data.lift[fill[j]] = liftDown[p];
    }
    data.neighbour[fill[i]++] = j;
    data.neighbour[fill[j]++] = i;
  }
}

void buildSections(SearchInstance::Data &data, const std::vector<Draft> &drafts, bool rectangles) {
  data.sectionStart.assign(data.sections + 1, 0);
  data.itemStart.assign(data.count + 1, 0);
  for (int32_t i = 0; i < data.count; ++i) {
    data.itemStart[i + 1] = data.itemStart[i] + static_cast<int64_t>(drafts[i].slices.size());
    for (const Slice &slice : drafts[i].slices)
      ++data.sectionStart[slice.section + 1];
  }
  std::partial_sum(data.sectionStart.begin(), data.sectionStart.end(), data.sectionStart.begin());
  const int64_t entries = data.sectionStart.back();
  data.sectionItem.resize(entries);
  data.itemSection.resize(entries);
  if (!rectangles) {
    data.sectionLow.resize(entries);
    data.itemHeight.resize(entries);
  }
  std::vector<int64_t> fill(data.sectionStart.begin(), data.sectionStart.end() - 1);
  int64_t next = 0;
  for (int32_t i = 0; i < data.count; ++i)
    for (const Slice &slice : drafts[i].slices) {
      if (!rectangles) {
        data.sectionLow[fill[slice.section]] = slice.low;
        data.itemHeight[next] = slice.high - slice.low;
      }
      data.sectionItem[fill[slice.section]++] = i;
      data.itemSection[next++] = slice.section;
    }
}

/// Links items that are interchangeable in time: equal sections and alignment, rectangles only.
void buildTwins(SearchInstance::Data &data, const std::vector<Draft> &drafts) {
  std::vector<int32_t> order(data.count);
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int32_t i) {
    return std::tuple(data.begin[i], data.end[i], data.alignment[i], data.ground[i]);
  };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::tuple(key(a), -data.size[a], a) < std::tuple(key(b), -data.size[b], b);
  });
  data.twin.assign(data.count, -1);
  data.twinIsEqual.assign(data.count, 0);
  for (int32_t i = 1; i < data.count; ++i) {
    const int32_t a = order[i - 1], b = order[i];
    if (key(a) != key(b) || !drafts[a].item->isRectangle() || !drafts[b].item->isRectangle())
      continue;
    data.twin[b] = a;
    data.twinIsEqual[b] = data.size[a] == data.size[b];
  }
}

} // namespace

SearchInstance::SearchInstance(const Model &model, const std::vector<int32_t> &items, Bytes ground)
    : data(std::make_unique<Data>()) {
  data->total = static_cast<int32_t>(items.size());
  data->fixedBases.assign(items.size(), -1);
  int32_t first = std::numeric_limits<int32_t>::max(), last = 0;
  for (int32_t index : items) {
    first = std::min(first, model.items[index].begin);
    last = std::max(last, model.items[index].end);
  }
  data->sections = items.empty() ? 0 : last - first;
  std::vector<Draft> drafts;
  std::vector<Bytes> groundOf(data->sections, 0), fixedBytes(data->sections, 0);
  std::vector<Slice> slices;
  bool rectangles = true;
  for (int32_t position = 0; position < data->total; ++position) {
    const Item &item = model.items[items[position]];
    slicesOf(model, item, slices, data->complete);
    for (Slice &slice : slices)
      slice.section -= first;
    if (item.fixedBase) {
      data->fixedBases[position] = *item.fixedBase;
      for (const Slice &slice : slices) {
        groundOf[slice.section] = std::max(groundOf[slice.section], *item.fixedBase + slice.high);
        fixedBytes[slice.section] += slice.high - slice.low;
      }
      continue;
    }
    rectangles &= item.isRectangle();
    drafts.push_back({&item, position, slices});
    data->source.push_back(position);
    data->begin.push_back(item.begin - first);
    data->end.push_back(item.end - first);
    data->size.push_back(item.size);
    data->alignment.push_back(item.alignment);
    data->lifetime.push_back(item.lifetime);
    data->birth.push_back(item.birth);
  }
  data->count = static_cast<int32_t>(drafts.size());
  for (int32_t s = 0; s < data->sections; ++s)
    data->complete &= groundOf[s] == fixedBytes[s];
  data->ground.assign(data->count, 0);
  for (int32_t i = 0; i < data->count; ++i) {
    data->ground[i] = alignUp(ground, data->alignment[i]);
    for (const Slice &slice : drafts[i].slices)
      data->ground[i] =
          std::max(data->ground[i], alignUp(std::max<Bytes>(0, groundOf[slice.section] - slice.low),
                                            data->alignment[i]));
  }
  buildNeighbours(*data, drafts, rectangles);
  buildSections(*data, drafts, rectangles);
  buildTwins(*data, drafts);
}

namespace {
std::vector<int32_t> allItems(const Model &model) {
  std::vector<int32_t> items(model.items.size());
  std::iota(items.begin(), items.end(), 0);
  return items;
}
} // namespace

SearchInstance::SearchInstance(const Model &model) : SearchInstance(model, allItems(model)) {}
SearchInstance::~SearchInstance() = default;
SearchInstance::SearchInstance(SearchInstance &&) noexcept = default;
bool SearchInstance::isComplete() const { return data->complete; }
int32_t SearchInstance::freeItems() const { return data->count; }

namespace {

/// One search: mutable state over an immutable instance.
class Search {
public:
  using Data = SearchInstance::Data;

  Search(const Data &data, Bytes capacity, const SearchOptions &options,
         const std::function<bool()> &stop)
      : data(data), capacity(capacity), options(options), stop(stop) {}

  SearchResult run() {
    SearchResult result;
    result.outcome = initialise() ? descend() : SearchOutcome::Exhausted;
    result.work = work;
    result.nodes = nodes;
    if (result.outcome == SearchOutcome::Found) {
      result.bases = data.fixedBases;
      for (int32_t i = 0; i < data.count; ++i)
        result.bases[data.source[i]] = support[i];
    }
    return result;
  }

private:
  enum State : int64_t { Open, Deferred, Placed };

  /// A node: items open[low, high) live in sections [begin, end) and are still to come.
  struct Frame {
    int32_t low, high, begin, end;
    int32_t item = -1;      ///< picked
    bool deferring = false; ///< in the second branch
    size_t trailMark = 0, deferredMark = 0;
    size_t partsMark = 0, nextPart = 0, lastPart = 0; ///< parts of the first branch, in `parts`
  };
  struct Part {
    int32_t low, high, begin, end;
  };

  bool initialise();
  void makeRanks();
  double keyOf(int32_t item, SearchKey key) const;
  SearchOutcome descend();
  void pushParts(Frame &frame);
  bool place(int32_t item);
  bool defer(int32_t item);
  bool settle();
  bool refreshDeferred(int32_t item);
  bool refreshSection(int32_t section);
  bool refreshWitnesses(int32_t item);
  void watch(int32_t section, int32_t item);
  int32_t pick(const Frame &frame);
  int32_t pickTightest(const Frame &frame);
  int32_t pickLowest(const Frame &frame) const;
  int32_t walkDown(int32_t item);
  bool isAgainstTwins(int32_t item) const;

  void set(int64_t &slot, int64_t value) {
    trail.push_back({&slot, slot});
    slot = value;
  }
  void undo(size_t mark) {
    while (trail.size() > mark) {
      auto [slot, value] = trail.back();
      trail.pop_back();
      if (slot >= witness.data() && slot < witness.data() + witness.size())
        watch(static_cast<int32_t>(slot - witness.data()), static_cast<int32_t>(value));
      else
        *slot = value;
    }
  }
  /// Notes that the lowest start of `item` rose or that it was placed.
  void touch(int32_t item) {
    if (options.pick == SearchPick::Lowest) {
      raised.push_back(item);
      return;
    }
    for (int64_t e = data.itemStart[item]; e < data.itemStart[item + 1]; ++e) {
      const int32_t section = data.itemSection[e];
      if (stamp[section] != currentStamp) {
        stamp[section] = currentStamp;
        touched.push_back(section);
      }
    }
    work += data.itemStart[item + 1] - data.itemStart[item];
  }
  Bytes heightAt(int32_t item, int64_t entry) const {
    return data.itemHeight.empty() ? data.size[item] : data.itemHeight[entry];
  }

  const Data &data;
  const Bytes capacity;
  const SearchOptions &options;
  const std::function<bool()> &stop;

  std::vector<int64_t> state;     ///< State, by item
  std::vector<int64_t> support;   ///< base on what is placed, by item; final when placed
  std::vector<int64_t> lowest;    ///< proven lower bound of the base, >= support
  std::vector<int64_t> remaining; ///< bytes still to come, by section
  std::vector<int64_t> coming;    ///< number of items still to come, by section
  std::vector<int64_t> crossing;  ///< of which also live in the section before
  std::vector<int64_t> floorOf;   ///< ef: min of lowest over items to come, by section
  std::vector<int64_t> choices;   ///< items that can be the lowest to come, by section
  std::vector<int64_t> top;       ///< last item placed, by section; -1 for none
  // SearchPick::Lowest only asks whether some item can still be the lowest in each section. One
  // such item is the section's witness; nothing is done for the section until the witness moves.
  // The sections of a witness form a doubly linked list.
  std::vector<int64_t> witness;                      ///< by section; -1 for none
  std::vector<int32_t> firstWatched;                 ///< by item; -1 ends the list
  std::vector<int32_t> nextWatched, previousWatched; ///< by section
  std::vector<int32_t> raised;
  std::vector<int32_t> rank; ///< static order
  std::vector<uint32_t> tie; ///< pseudo-random section order
  std::vector<std::pair<int64_t *, int64_t>> trail;
  std::vector<int32_t> open; ///< items; frames own disjoint sub-ranges
  std::vector<Part> parts;
  std::vector<Frame> frames;
  std::vector<int32_t> touched;
  std::vector<int64_t> stamp;
  int64_t currentStamp = 0;
  std::vector<int32_t> deferredItems; ///< superset of the deferred ones on the current path
  int64_t work = 0, nodes = 0, nextPoll = 0;
};

double Search::keyOf(int32_t item, SearchKey key) const {
  switch (key) {
  case SearchKey::Area:
    return static_cast<double>(data.size[item]) * (data.end[item] - data.begin[item]);
  case SearchKey::Width:
    return static_cast<double>(data.lifetime[item]);
  case SearchKey::Peak: {
    int64_t peak = 0;
    for (int64_t e = data.itemStart[item]; e < data.itemStart[item + 1]; ++e)
      peak = std::max(peak, remaining[data.itemSection[e]]);
    return static_cast<double>(peak);
  }
  case SearchKey::Sections:
    return data.end[item] - data.begin[item];
  case SearchKey::Overlaps:
    return static_cast<double>(data.neighbourStart[item + 1] - data.neighbourStart[item]);
  case SearchKey::Size:
    return static_cast<double>(data.size[item]);
  case SearchKey::Early:
    return -static_cast<double>(data.birth[item]);
  case SearchKey::Late:
    return static_cast<double>(data.birth[item] + data.lifetime[item]);
  }
  return 0;
}

void Search::makeRanks() {
  uint64_t random = options.seed * 0x9E3779B97F4A7C15ull + 0x1234567;
  auto next = [&] { // xorshift
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return static_cast<double>(random >> 11) * 0x1.0p-53;
  };
  std::vector<std::array<double, 4>> keys(data.count);
  for (int32_t i = 0; i < data.count; ++i) {
    for (size_t k = 0; k < options.order.size(); ++k)
      keys[i][k] = keyOf(i, options.order[k]);
    keys[i][3] = keyOf(i, SearchKey::Area);
    if (options.noise > 0)
      keys[i][0] *= std::exp2(options.noise * (2 * next() - 1));
  }
  std::vector<int32_t> order(data.count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  rank.resize(data.count);
  for (int32_t i = 0; i < data.count; ++i)
    rank[order[i]] = i;
  tie.resize(data.sections);
  for (uint32_t &value : tie)
    value = options.noise == 0 ? 0 : static_cast<uint32_t>(next() * 1e6);
}

bool Search::initialise() {
  state.assign(data.count, Open);
  support.assign(data.ground.begin(), data.ground.end());
  lowest = support;
  remaining.assign(data.sections, 0);
  coming.assign(data.sections, 0);
  crossing.assign(data.sections + 1, 0);
  floorOf.assign(data.sections, 0);
  choices.assign(data.sections, 0);
  top.assign(data.sections, -1);
  stamp.assign(data.sections, 0);
  witness.assign(data.sections, -1);
  firstWatched.assign(data.count, -1);
  nextWatched.assign(data.sections, -1);
  previousWatched.assign(data.sections, -1);
  open.resize(data.count);
  std::iota(open.begin(), open.end(), 0);
  currentStamp = 1;
  for (int32_t i = 0; i < data.count; ++i) {
    if (support[i] + data.size[i] > capacity)
      return false;
    for (int64_t e = data.itemStart[i]; e < data.itemStart[i + 1]; ++e) {
      remaining[data.itemSection[e]] += heightAt(i, e);
      ++coming[data.itemSection[e]];
    }
    for (int32_t s = data.begin[i] + 1; s < data.end[i]; ++s)
      ++crossing[s];
  }
  for (int32_t i = 0; i < data.count; ++i) {
    for (int64_t e = data.itemStart[i]; e < data.itemStart[i + 1]; ++e)
      if (witness[data.itemSection[e]] < 0)
        watch(data.itemSection[e], i);
    touch(i);
  }
  for (int32_t position = 0; position < data.total; ++position)
    if (data.fixedBases[position] > capacity)
      return false;
  makeRanks();
  return settle();
}

/// Brings the touched sections and the deferred items up to date; false on a dead end.
bool Search::settle() {
  if (options.rules.support || options.rules.deadline)
    for (int32_t item : deferredItems)
      if (state[item] == Deferred && !refreshDeferred(item))
        return false;
  for (int32_t section : touched)
    if (!refreshSection(section))
      return false;
  if (options.rules.floor)
    for (int32_t item : raised)
      if (!refreshWitnesses(item))
        return false;
  return true;
}

/// Makes `item` the witness of `section`.
void Search::watch(int32_t section, int32_t item) {
  if (const auto old = static_cast<int32_t>(witness[section]); old >= 0) {
    const int32_t next = nextWatched[section], previous = previousWatched[section];
    (previous >= 0 ? nextWatched[previous] : firstWatched[old]) = next;
    if (next >= 0)
      previousWatched[next] = previous;
  }
  witness[section] = item;
  previousWatched[section] = -1;
  nextWatched[section] = firstWatched[item];
  if (firstWatched[item] >= 0)
    previousWatched[firstWatched[item]] = section;
  firstWatched[item] = section;
}

/// Looks for other witnesses where `item` can no longer be the lowest; false where there is none.
bool Search::refreshWitnesses(int32_t item) {
  for (int32_t section = firstWatched[item]; section >= 0;) {
    const int32_t next = nextWatched[section];
    const Bytes limit = capacity - remaining[section];
    ++work;
    if (coming[section] > 0 &&
        (state[item] == Placed || !data.sectionLow.empty() || lowest[item] > limit)) {
      int64_t e = data.sectionStart[section];
      const int64_t last = data.sectionStart[section + 1];
      const int64_t first = e;
      for (; e < last; ++e) {
        const int32_t other = data.sectionItem[e];
        if (state[other] != Placed &&
            lowest[other] + (data.sectionLow.empty() ? 0 : data.sectionLow[e]) <= limit)
          break;
      }
      work += e - first;
      if (e == last)
        return false;
      if (data.sectionItem[e] != item) {
        trail.push_back({&witness[section], witness[section]});
        watch(section, data.sectionItem[e]);
      }
    }
    section = next;
  }
  return true;
}

/// A deferred item needs a neighbour below it that starts under its present top.
bool Search::refreshDeferred(int32_t item) {
  Bytes lifted = unlimited, start = unlimited;
  for (int64_t e = data.neighbourStart[item]; e < data.neighbourStart[item + 1]; ++e) {
    const int32_t other = data.neighbour[e];
    if (state[other] == Placed)
      continue;
    start = std::min(start, lowest[other]);
    lifted = std::min(lifted, lowest[other] + (data.lift.empty() ? data.size[other] : 1));
  }
  work += data.neighbourStart[item + 1] - data.neighbourStart[item];
  if (lifted == unlimited || (options.rules.deadline && start >= support[item] + data.size[item]))
    return false;
  if (!options.rules.support)
    return true;
  lifted = alignUp(lifted, data.alignment[item]);
  if (lifted <= lowest[item])
    return true;
  if (lifted + data.size[item] > capacity)
    return false;
  set(lowest[item], lifted);
  touch(item);
  return true;
}

/// Recomputes ef and the number of choices of a section; false when its bytes no longer fit.
bool Search::refreshSection(int32_t section) {
  const int64_t first = data.sectionStart[section], last = data.sectionStart[section + 1];
  work += last - first;
  if (coming[section] == 0) {
    if (floorOf[section] != unlimited)
      set(floorOf[section], unlimited);
    return true;
  }
  const Bytes limit = capacity - remaining[section];
  Bytes floor = unlimited;
  int64_t count = 0;
  for (int64_t e = first; e < last; ++e) {
    const int32_t item = data.sectionItem[e];
    if (state[item] == Placed)
      continue;
    const Bytes start = lowest[item] + (data.sectionLow.empty() ? 0 : data.sectionLow[e]);
    floor = std::min(floor, start);
    count += start <= limit;
  }
  if (floorOf[section] != floor)
    set(floorOf[section], floor);
  if (choices[section] != count)
    set(choices[section], count);
  return !options.rules.floor || floor <= limit;
}

bool Search::place(int32_t item) {
  ++nodes;
  ++currentStamp;
  touched.clear();
  raised.clear();
  set(state[item], Placed);
  const Bytes base = support[item];
  for (int64_t e = data.itemStart[item]; e < data.itemStart[item + 1]; ++e) {
    const int32_t section = data.itemSection[e];
    set(remaining[section], remaining[section] - heightAt(item, e));
    set(coming[section], coming[section] - 1);
    set(top[section], item);
  }
  for (int32_t s = data.begin[item] + 1; s < data.end[item]; ++s)
    set(crossing[s], crossing[s] - 1);
  touch(item);
  for (int64_t e = data.neighbourStart[item]; e < data.neighbourStart[item + 1]; ++e) {
    const int32_t other = data.neighbour[e];
    if (state[other] == Placed)
      continue;
    const Bytes lift = data.lift.empty() ? data.size[item] : data.lift[e];
    const Bytes lifted = alignUp(base + lift, data.alignment[other]);
    if (lifted <= support[other])
      continue;
    if (lifted + data.size[other] > capacity)
      return false;
    set(support[other], lifted);
    if (state[other] == Deferred)
      set(state[other], Open);
    if (lifted > lowest[other]) {
      set(lowest[other], lifted);
      touch(other);
    }
  }
  work += data.neighbourStart[item + 1] - data.neighbourStart[item];
  return settle();
}

bool Search::defer(int32_t item) {
  ++currentStamp;
  touched.clear();
  raised.clear();
  set(state[item], Deferred);
  deferredItems.push_back(item);
  return settle();
}

/// True when placing `item` now would only mirror a packing in which a twin takes its place.
bool Search::isAgainstTwins(int32_t item) const {
  if (!options.rules.twins)
    return false;
  const int32_t before = data.twin[item];
  if (before >= 0 && data.twinIsEqual[item] && state[before] != Placed &&
      support[before] == support[item])
    return true; // `before` can lie here and was put off
  const int64_t below = top[data.begin[item]];
  if (below < 0 || support[below] + data.size[below] != support[item] ||
      data.size[item] % data.alignment[item] != 0)
    return false;
  // Directly on an item with the same lifetime that comes later in the chain of twins?
  for (int32_t other = data.twin[below]; other >= 0; other = data.twin[other])
    if (other == item)
      return true;
  return false;
}

/// From `item` to one that nothing can come under: down to lower items in its sections, or to the
/// neighbour that is to lift a deferred item.
int32_t Search::walkDown(int32_t item) {
  for (;;) {
    int32_t better = item;
    auto consider = [&](int32_t other) {
      if (std::tuple(lowest[other], state[other] == Deferred, rank[other]) <
          std::tuple(lowest[better], state[better] == Deferred, rank[better]))
        better = other;
    };
    for (int64_t e = data.neighbourStart[item]; e < data.neighbourStart[item + 1]; ++e)
      if (state[data.neighbour[e]] != Placed && lowest[data.neighbour[e]] < lowest[item])
        consider(data.neighbour[e]);
    work += data.neighbourStart[item + 1] - data.neighbourStart[item];
    if (better == item)
      return item;
    item = better;
  }
}

int32_t Search::pickTightest(const Frame &frame) {
  // The section with the fewest choices; then the least slack, then the most bytes to come.
  int32_t best = -1;
  std::tuple<int64_t, Bytes, uint32_t, int64_t> bestKey;
  for (int32_t s = frame.begin; s < frame.end; ++s) {
    if (coming[s] == 0)
      continue;
    const std::tuple key(choices[s], capacity - remaining[s] - floorOf[s], tie[s], -remaining[s]);
    if (best < 0 || key < bestKey) {
      best = s;
      bestKey = key;
    }
  }
  work += frame.end - frame.begin;
  int32_t item = -1;
  const Bytes limit = capacity - remaining[best];
  for (int64_t e = data.sectionStart[best]; e < data.sectionStart[best + 1]; ++e) {
    const int32_t other = data.sectionItem[e];
    if (state[other] == Placed || lowest[other] > limit)
      continue;
    if (item < 0 || std::tuple(lowest[other], state[other] == Deferred, rank[other]) <
                        std::tuple(lowest[item], state[item] == Deferred, rank[item]))
      item = other;
  }
  return item < 0 ? pickLowest(frame) : walkDown(item);
}

int32_t Search::pickLowest(const Frame &frame) const {
  int32_t best = -1;
  for (int32_t i = frame.low; i < frame.high; ++i) {
    const int32_t item = open[i];
    if (state[item] == Open &&
        (best < 0 || std::pair(support[item], rank[item]) < std::pair(support[best], rank[best])))
      best = item;
  }
  return best;
}

int32_t Search::pick(const Frame &frame) {
  if (options.pick == SearchPick::Lowest) {
    work += frame.high - frame.low;
    return pickLowest(frame);
  }
  const int32_t item = pickTightest(frame);
  return state[item] == Open ? item : pickLowest(frame);
}

/// Splits what remains of the frame after its item was placed into parts that share no section.
void Search::pushParts(Frame &frame) {
  // The placed item leaves the frame's range of `open`.
  int32_t where = frame.low;
  while (open[where] != frame.item)
    ++where;
  std::swap(open[where], open[frame.high - 1]);
  frame.partsMark = frame.nextPart = parts.size();
  const int32_t high = frame.high - 1;
  int32_t cuts = 0;
  if (options.rules.decompose)
    for (int32_t s = frame.begin + 1; s < frame.end; ++s)
      cuts += crossing[s] == 0;
  work += frame.end - frame.begin;
  if (cuts == 0) {
    if (frame.low < high)
      parts.push_back({frame.low, high, frame.begin, frame.end});
  } else {
    std::sort(open.begin() + frame.low, open.begin() + high, [&](int32_t a, int32_t b) {
      return std::pair(data.begin[a], a) < std::pair(data.begin[b], b);
    });
    work += 8 * (high - frame.low);
    int32_t low = frame.low, begin = frame.begin;
    for (int32_t s = frame.begin + 1; s <= frame.end && low < high; ++s) {
      if (s < frame.end && crossing[s] != 0)
        continue;
      int32_t next = low;
      while (next < high && data.begin[open[next]] < s)
        ++next;
      if (next > low)
        parts.push_back({low, next, begin, s});
      low = next;
      begin = s;
    }
  }
  frame.lastPart = parts.size();
}

SearchOutcome Search::descend() {
  if (data.count == 0)
    return SearchOutcome::Found;
  frames.push_back({0, data.count, 0, data.sections});
  bool failed = false;  // the frame above the present one failed
  bool entering = true; // the present frame is new
  while (!frames.empty()) {
    if (work > options.workLimit || nodes > options.nodeLimit)
      return SearchOutcome::Stopped;
    if (work >= nextPoll) {
      nextPoll = work + pollInterval;
      if (stop && stop())
        return SearchOutcome::Stopped;
    }
    Frame &frame = frames.back();
    if (entering) {
      frame.item = pick(frame);
      frame.trailMark = trail.size();
      frame.deferredMark = deferredItems.size();
      if (frame.item < 0) { // only deferred items are left: nothing can lift them
        frames.pop_back();
        failed = true;
        entering = false;
        continue;
      }
      failed = isAgainstTwins(frame.item) || !place(frame.item);
      if (!failed)
        pushParts(frame);
      else
        frame.partsMark = frame.nextPart = frame.lastPart = parts.size();
      entering = false;
    }
    if (!failed) {
      if (frame.deferring || frame.nextPart == frame.lastPart) {
        parts.resize(frame.partsMark);
        frames.pop_back(); // everything below is placed
        continue;
      }
      const Part &part = parts[frame.nextPart++];
      frames.push_back({part.low, part.high, part.begin, part.end});
      entering = true;
      continue;
    }
    undo(frame.trailMark);
    deferredItems.resize(frame.deferredMark);
    parts.resize(frame.partsMark);
    if (frame.deferring || !defer(frame.item)) {
      undo(frame.trailMark);
      deferredItems.resize(frame.deferredMark);
      frames.pop_back();
      continue; // failed stays true
    }
    frame.deferring = true;
    frames.push_back({frame.low, frame.high, frame.begin, frame.end});
    entering = true;
  }
  return failed ? SearchOutcome::Exhausted : SearchOutcome::Found;
}

} // namespace

SearchResult SearchInstance::search(Bytes capacity, const SearchOptions &options,
                                    const std::function<bool()> &stop) const {
  return Search(*data, capacity, options, stop).run();
}

} // namespace stow::pack
