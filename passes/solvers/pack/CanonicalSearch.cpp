#include "passes/solvers/pack/Merge.h"
#include "passes/solvers/pack/Search.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stow::pack {

namespace {

constexpr int64_t pollInterval = 100'000;
constexpr size_t maxTrail = 8'000'000; ///< entries of 16 bytes

} // namespace

/// True when placing `item` now would only mirror a packing in which a twin takes its place.
bool Search::isAgainstTwins(int32_t item) {
  if (!options.rules.twins)
    return false;
  const int32_t before = data.twinBefore[item];
  if (before >= 0 && data.size[before] == data.size[item] && !isPlaced(before) &&
      support[before] == support[item]) { // `before` can lie here and was put off
    explainTwin(item, before);
    return true;
  }
  if (data.size[item] % data.alignment[item] != 0)
    return false;
  // Directly on a twin that comes later in the chain?
  for (int32_t after = data.twinAfter[item]; after >= 0; after = data.twinAfter[after])
    if (isPlaced(after) && support[after] + data.size[after] == support[item]) {
      explainTwin(item, after);
      return true;
    }
  return false;
}

/// From `item` to one that nothing can come under: down to lower items in its sections, or to the
/// neighbour that is to lift a deferred item.
int32_t Search::walkDown(int32_t item) {
  for (;;) {
    int32_t better = item;
    work += data.forNeighbours(item, [&](int32_t other) {
      if (isPlaced(other) || lowest[other] >= lowest[item])
        return;
      if (std::tuple(lowest[other], state[other], rank[other]) <
          std::tuple(lowest[better], state[better], rank[better]))
        better = other;
    });
    if (better == item)
      return item;
    item = better;
  }
}

/// An item of the section with the fewest choices for its failures; then the least slack, then the
/// most to come.
int32_t Search::pickTightest(const Frame &frame) {
  int32_t best = -1;
  std::tuple<double, Bytes, uint32_t, Bytes> bestKey;
  for (int32_t s = frame.begin; s < frame.end; ++s) {
    if (coming[s] == 0)
      continue;
    // Forced choices first; others where few choices and many earlier failures come together.
    const double urgency = choices[s] <= 1 ? static_cast<double>(choices[s]) - 2
                                           : static_cast<double>(choices[s]) / (1 + failures[s]);
    const std::tuple key(urgency, ceiling - remaining[s] - floorOf[s], tie[s], -remaining[s]);
    if (best < 0 || key < bestKey) {
      best = s;
      bestKey = key;
    }
  }
  work += frame.end - frame.begin;
  int32_t item = -1;
  const Bytes limit = ceiling - remaining[best];
  Bytes low = 0;
  const int32_t block = best >> data.blockShift;
  for (int64_t e = data.blockStart[block]; e < data.blockStart[block + 1]; ++e) {
    const int32_t other = data.blockItem[e];
    if (isPlaced(other) || lowest[other] > limit || !data.isLive(other, best, low))
      continue;
    if (item < 0 || std::tuple(lowest[other], state[other], rank[other]) <
                        std::tuple(lowest[item], state[item], rank[item]))
      item = other;
  }
  return item < 0 ? pickLowest(frame) : walkDown(item);
}

int32_t Search::pickLowest(const Frame &frame) {
  int32_t best = -1;
  auto consider = [&](int32_t item) {
    if (state[item] == State::Open && (best < 0 || isBetter(item, best)))
      best = item;
  };
  const int32_t first = data.firstFrom[frame.begin], last = data.firstFrom[frame.end];
  for (int32_t i = first; i < last;) {
    const int32_t group = i / groupSize, next = (group + 1) * groupSize;
    if (i % groupSize != 0 || next > last) { // a group that the frame shares with others
      for (; i < std::min(next, last); ++i)
        consider(i);
      continue;
    }
    if (groupIsStale[group]) {
      const int32_t outside = std::exchange(best, -1);
      for (; i < next; ++i)
        consider(i);
      groupBest[group] = std::exchange(best, outside);
      groupIsStale[group] = 0;
      work += groupSize / 4;
    }
    if (groupBest[group] >= 0)
      consider(groupBest[group]);
    i = next;
  }
  work += (last - first) / groupSize + 1;
  return best;
}

int32_t Search::pick(const Frame &frame) {
  if (watching)
    return pickLowest(frame);
  const int32_t item = pickTightest(frame);
  return item >= 0 && state[item] == State::Open ? item : pickLowest(frame);
}

/// Splits what remains of the frame after its item was placed into parts that share no section.
void Search::pushParts(Frame &frame) {
  frame.partsMark = frame.nextPart = parts.size();
  auto add = [&](int32_t begin, int32_t end) {
    for (int32_t s = begin; s < end; ++s)
      if (coming[s] > 0) {
        parts.push_back({s, end});
        return;
      }
  };
  int32_t begin = frame.begin;
  if (cutAppeared && options.rules.decompose) {
    work += frame.end - frame.begin;
    for (int32_t s = frame.begin + 1; s < frame.end; ++s)
      if (crossing[s] == 0) {
        add(begin, s);
        begin = s;
      }
  }
  add(begin, frame.end);
  frame.lastPart = parts.size();
}

/// Notes how far the frame has come; false when some section cannot hold what is to come above
/// that.
bool Search::advance(const Frame &frame) {
  progress = support[frame.item];
  progressBegin = frame.begin;
  progressEnd = frame.end;
  constexpr int32_t cheap = 4096;
  if (!options.rules.floor || frame.end - frame.begin > cheap)
    return true;
  const auto most =
      std::max_element(remaining.begin() + frame.begin, remaining.begin() + frame.end);
  work += (frame.end - frame.begin) / 4;
  if (progress + *most <= ceiling)
    return true;
  explainSection(static_cast<int32_t>(most - remaining.begin()), ceiling - *most + 1);
  return false;
}

/// Picks an item for a new frame and tries to place it; false when the branch is dead.
bool Search::enter(Frame &frame) {
  frame.trailMark = trailEnd();
  frame.deferredMark = deferredItems.size();
  frame.recordMark = reasons.mark();
  frame.partsMark = frame.nextPart = frame.lastPart = parts.size();
  frame.item = pick(frame);
  if (frame.item >= 0 && watching && !advance(frame)) {
    frame.item = -1; // whatever comes next starts too high
    return false;
  }
  if (frame.item < 0) {
    blameAll();
    return false;
  }
  if (isAgainstTwins(frame.item) || !place(frame.item))
    return false;
  pushParts(frame);
  return true;
}

SearchOutcome Search::descend() {
  if (data.count == 0)
    return SearchOutcome::Found;
  frames.push_back({0, data.sections});
  bool failed = false;  // the branch last left failed
  bool entering = true; // the present frame is new
  while (!frames.empty()) {
    if (work > options.workLimit || nodes > options.nodeLimit)
      return SearchOutcome::Stopped;
    if (work >= nextPoll) {
      nextPoll = work + pollInterval;
      if (stop && stop())
        return SearchOutcome::Stopped;
      if (trail.size() > maxTrail) {
        trail.erase(trail.begin(), trail.begin() + maxTrail / 2);
        forgotten += maxTrail / 2;
      }
    }
    Frame &frame = frames.back();
    if (std::exchange(entering, false))
      failed = !enter(frame);
    if (!failed) {
      if (frame.deferring || frame.nextPart == frame.lastPart) {
        parts.resize(frame.partsMark);
        frames.pop_back(); // everything below is placed
        continue;
      }
      auto [begin, end] = parts[frame.nextPart++];
      frames.push_back({begin, end});
      entering = true;
      continue;
    }
    if (frame.trailMark < forgotten)
      return SearchOutcome::Stopped;
    goBack(frame);
    if (resolveFirst(frame)) {
      frame.deferring = true;
      if (deferIn(frame)) {
        frames.push_back({frame.begin, frame.end});
        entering = true;
        continue;
      }
      goBack(frame);
    }
    resolveSecond(frame);
    frames.pop_back();
  }
  return failed ? SearchOutcome::Exhausted : SearchOutcome::Found;
}

namespace {

std::vector<int32_t> allItems(const Model &model) {
  std::vector<int32_t> items(model.items.size());
  std::iota(items.begin(), items.end(), 0);
  return items;
}

} // namespace

struct SearchInstance::Full {
  Merged merged;
  SearchData data;
  Bytes capacity;

  Full(Merged parts, Bytes ground)
      : merged(std::move(parts)), data(merged.model, allItems(merged.model), ground),
        capacity(ground + merged.load) {}
};

SearchInstance::SearchInstance(const Model &model) : SearchInstance(model, allItems(model)) {}
SearchInstance::SearchInstance(const Model &model, const std::vector<int32_t> &items, Bytes ground)
    : data(std::make_unique<const SearchData>(model, items, ground)) {
  if (std::optional<Merged> merged = mergeFull(model, items))
    full = std::make_unique<const Full>(std::move(*merged), ground);
}
SearchInstance::~SearchInstance() = default;
SearchInstance::SearchInstance(SearchInstance &&) noexcept = default;
bool SearchInstance::isComplete() const { return data->complete; }
int32_t SearchInstance::freeItems() const { return data->count; }

SearchResult SearchInstance::search(Bytes capacity, const SearchOptions &options,
                                    const std::function<bool()> &stop) const {
  const SearchData &searched = dataFor(capacity, options.rules.merge);
  return expand(Search(searched, capacity, options, stop).run(), searched);
}

const SearchData &SearchInstance::dataFor(Bytes capacity, bool merge) const {
  return merge && full && full->capacity == capacity ? full->data : *data;
}

/// The result of a search of `of`, by item of the instance.
SearchResult SearchInstance::expand(SearchResult result, const SearchData &of) const {
  if (&of == data.get() || result.outcome != SearchOutcome::Found)
    return result;
  std::vector<Bytes> bases(data->total);
  for (size_t i = 0; i < full->merged.of.size(); ++i)
    for (int32_t position : full->merged.of[i])
      bases[position] = result.bases[i];
  result.bases = std::move(bases);
  return result;
}

} // namespace stow::pack
