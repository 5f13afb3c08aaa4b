#include "passes/solvers/pack/CanonicalSearch.h"
#include "passes/solvers/pack/Explanations.h"
#include "passes/solvers/pack/SearchInstance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace stow::pack {

namespace {

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;
constexpr int64_t pollInterval = 100'000;
constexpr size_t maxTrail = 8'000'000; ///< entries of 16 bytes

/// One search: mutable state over an immutable instance. Every change goes to the trail, so that
/// going back costs what going forward did.
class Search {
public:
  Search(const SearchData &data, Bytes capacity, const SearchOptions &options,
         const std::function<bool()> &stop)
      : data(data), capacity(capacity), ceiling(alignUp(capacity, data.grain)), options(options),
        stop(stop), watching(options.pick == SearchPick::Lowest),
        explaining(options.rules.backjump && data.rectangles && data.count <= smallCount) {}

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
  enum class State : int8_t { Open, Deferred, Placed };

  /// A node: what is still to come in sections [begin, end), and nothing of that crosses the ends.
  struct Frame {
    int32_t begin, end;
    int32_t item = -1;      ///< picked
    bool deferring = false; ///< in the second branch
    size_t trailMark = 0, deferredMark = 0, recordMark = 0;
    size_t partsMark = 0, nextPart = 0, lastPart = 0; ///< parts of the first branch, in `parts`
  };

  /// What undo restores. `index` is an item or a section.
  enum class Change : int8_t { Placing, Support, Lowest, Status, Floor, Choices, Witness };
  struct TrailEntry {
    Change change;
    int32_t index;
    int64_t value;
  };

  bool initialise();
  double keyOf(int32_t item, SearchKey key) const;
  void makeRanks();
  SearchOutcome descend();
  bool advance(const Frame &frame);
  bool enter(Frame &frame);
  void pushParts(Frame &frame);
  bool place(int32_t item);
  bool deferIn(const Frame &frame);
  bool settle();
  bool refreshDeferred(int32_t item);
  void blameAll();
  void explainSection(int32_t section, Bytes tooHigh);
  void explainDeferred(int32_t item, Bytes lifted, Bytes start);
  void explainRaise(int32_t other, int32_t item, Bytes above);
  bool resolveFirst(Frame &frame);
  void resolveSecond(const Frame &frame);
  int32_t levelAt(size_t frame) const {
    return static_cast<int32_t>(std::min(frame, 64 * conflict.size() - 1));
  }
  bool refreshSection(int32_t section);
  bool refreshWitnesses(int32_t item);
  void watch(int32_t section, int32_t item);
  int32_t pick(const Frame &frame);
  int32_t pickTightest(const Frame &frame);
  int32_t pickLowest(const Frame &frame);
  int32_t walkDown(int32_t item);
  bool isAgainstTwins(int32_t item);
  void explainTwin(int32_t item, int32_t twin);
  void shiftSections(int32_t item, int sign);
  void undo(size_t mark);
  void goBack(const Frame &frame) {
    undo(frame.trailMark);
    deferredItems.resize(frame.deferredMark);
    parts.resize(frame.partsMark);
    reasons.forget(frame.recordMark);
  }
  size_t trailEnd() const { return forgotten + trail.size(); }

  bool isPlaced(int32_t item) const { return state[item] == State::Placed; }
  void setState(int32_t item, State value) {
    trail.push_back({Change::Status, item, static_cast<int64_t>(state[item])});
    state[item] = value;
    groupIsStale[item / groupSize] = 1;
  }
  void setSupport(int32_t item, Bytes value) {
    trail.push_back({Change::Support, item, support[item]});
    support[item] = value;
    groupIsStale[item / groupSize] = 1;
  }
  void setLowest(int32_t item, Bytes value) {
    trail.push_back({Change::Lowest, item, lowest[item]});
    lowest[item] = value;
  }
  /// Notes that the lowest start of `item` rose or that it was placed.
  void touch(int32_t item) {
    if (watching) {
      raised.push_back(item);
      return;
    }
    for (int32_t section = data.begin[item]; section < data.end[item]; ++section)
      if (stamp[section] != currentStamp) {
        stamp[section] = currentStamp;
        touched.push_back(section);
      }
    work += data.end[item] - data.begin[item];
  }
  void startChange() {
    ++currentStamp;
    touched.clear();
    raised.clear();
  }
  bool isBetter(int32_t item, int32_t other) const {
    return support[item] != support[other] ? support[item] < support[other]
                                           : rank[item] < rank[other];
  }

  const SearchData &data;
  const Bytes capacity;
  const Bytes ceiling; ///< capacity for rounded sizes: only the topmost bytes need no rounding
  const SearchOptions &options;
  const std::function<bool()> &stop;
  const bool watching;
  const bool explaining; ///< failures are explained, see Explanations

  // By item:
  std::vector<State> state;
  std::vector<Bytes> support;  ///< base on what is placed; final when placed
  std::vector<Bytes> lowest;   ///< proven lower bound of the base, >= support
  std::vector<int32_t> rank;   ///< static order
  std::vector<int32_t> lifter; ///< hint: the neighbour that can lift a deferred item the least
  // By section:
  std::vector<Bytes> remaining;  ///< bytes still to come
  std::vector<int32_t> coming;   ///< number of items still to come
  std::vector<int32_t> crossing; ///< of which also live in the section before
  bool cutAppeared = false;      ///< a crossing count fell to zero
  // By section, for SearchPick::Tightest:
  std::vector<Bytes> floorOf;   ///< ef: min of lowest over items to come
  std::vector<int64_t> choices; ///< items that can be the lowest to come
  std::vector<uint32_t> tie;    ///< pseudo-random section order
  std::vector<int32_t> touched;
  std::vector<int64_t> stamp;
  int64_t currentStamp = 0;
  // SearchPick::Lowest only asks whether some item can still be the lowest in each section. One
  // such item is the section's witness; nothing is done for the section until the witness moves.
  // The sections of a witness form a doubly linked list.
  std::vector<int32_t> witness;      ///< by section; -1 for none
  std::vector<int32_t> firstWatched; ///< by item; -1 ends the list
  std::vector<int32_t> nextWatched, previousWatched;
  std::vector<int32_t> raised;
  // With SearchPick::Lowest bases never fall along a path: nothing to come in the sections of the
  // present frame starts below `progress`.
  // Used for what costs more than constant time only where there are at most smallCount items.
  static constexpr int32_t smallCount = 1000;
  Bytes progress = 0;
  int32_t progressBegin = 0, progressEnd = 0;
  // The best open item of each group of consecutive items, recomputed when the group changed.
  static constexpr int32_t groupSize = 64;
  std::vector<int32_t> groupBest;
  std::vector<char> groupIsStale;

  Explanations reasons;
  LevelSet conflict;                  ///< what the last failure rests on
  std::vector<LevelSet> firstBranch;  ///< by level: what the failure of its first branch rests on
  std::vector<int32_t> levelOf;       ///< by placed item
  std::vector<TrailEntry> trail;
  size_t forgotten = 0; ///< entries dropped from the front; the search cannot go back beyond them
  std::vector<std::pair<int32_t, int32_t>> parts;
  std::vector<Frame> frames;
  std::vector<int32_t> deferredItems; ///< superset of the deferred ones on the current path
  int64_t work = 0, nodes = 0, nextPoll = 0;
};

double Search::keyOf(int32_t item, SearchKey key) const {
  switch (key) {
  case SearchKey::Area:
    return static_cast<double>(data.size[item]) * (data.end[item] - data.begin[item]);
  case SearchKey::Width:
    return static_cast<double>(data.lifetime[item]);
  case SearchKey::Peak:
    return static_cast<double>(data.load[item]);
  case SearchKey::Sections:
    return data.end[item] - data.begin[item];
  case SearchKey::Overlaps:
    return static_cast<double>(data.overlaps[item]);
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
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : data.source[a] < data.source[b];
  });
  rank.resize(data.count);
  for (int32_t i = 0; i < data.count; ++i)
    rank[order[i]] = i;
  tie.assign(data.sections, 0);
  if (options.noise > 0)
    for (uint32_t &value : tie)
      value = static_cast<uint32_t>(next() * 1e6);
}

/// Adds (+1) or removes (-1) `item` to or from what is to come in its sections.
void Search::shiftSections(int32_t item, int sign) {
  for (int32_t p = data.firstPiece[item]; p < data.firstPiece[item + 1]; ++p) {
    const ModelPiece &piece = data.pieces[p];
    const Bytes change = sign * (piece.high - piece.low);
    for (int32_t s = piece.begin; s < piece.end; ++s) {
      remaining[s] += change;
      coming[s] += sign;
    }
  }
  int32_t zeros = 0;
  for (int32_t s = data.begin[item] + 1; s < data.end[item]; ++s) {
    crossing[s] += sign;
    zeros += crossing[s] == 0;
  }
  cutAppeared = zeros > 0;
  work += data.end[item] - data.begin[item];
}

void Search::undo(size_t mark) {
  while (trailEnd() > mark) {
    const TrailEntry entry = trail.back();
    trail.pop_back();
    switch (entry.change) {
    case Change::Placing:
      shiftSections(entry.index, 1);
      break;
    case Change::Support:
      support[entry.index] = entry.value;
      groupIsStale[entry.index / groupSize] = 1;
      break;
    case Change::Lowest:
      lowest[entry.index] = entry.value;
      break;
    case Change::Status:
      state[entry.index] = static_cast<State>(entry.value);
      groupIsStale[entry.index / groupSize] = 1;
      break;
    case Change::Floor:
      floorOf[entry.index] = entry.value;
      break;
    case Change::Choices:
      choices[entry.index] = entry.value;
      break;
    case Change::Witness:
      watch(entry.index, static_cast<int32_t>(entry.value));
      break;
    }
  }
}

bool Search::initialise() {
  if (data.fixedTop > capacity)
    return false;
  if (data.weight.empty()) data.weight.assign(data.sections, 1);
  state.assign(data.count, State::Open);
  support = data.ground;
  lowest = support;
  lifter.assign(data.count, -1);
  remaining.assign(data.sections, 0);
  coming.assign(data.sections, 0);
  crossing.assign(data.sections + 1, 0);
  groupBest.assign(data.count / groupSize + 1, -1);
  groupIsStale.assign(groupBest.size(), 1);
  if (watching) {
    witness.assign(data.sections, -1);
    firstWatched.assign(data.count, -1);
    nextWatched.assign(data.sections, -1);
    previousWatched.assign(data.sections, -1);
  } else {
    floorOf.assign(data.sections, 0);
    choices.assign(data.sections, 0);
    stamp.assign(data.sections, 0);
  }
  startChange();
  for (int32_t i = 0; i < data.count; ++i) {
    if (support[i] + data.size[i] > capacity)
      return false;
    shiftSections(i, 1);
  }
  for (int32_t i = 0; i < data.count; ++i) {
    if (watching)
      for (int32_t p = data.firstPiece[i]; p < data.firstPiece[i + 1]; ++p)
        for (int32_t s = data.pieces[p].begin; s < data.pieces[p].end; ++s)
          if (witness[s] < 0)
            watch(s, i);
    touch(i);
  }
  makeRanks();
  if (explaining) {
    reasons.reset(data.ground, 2 * data.count + 2);
    conflict.assign(reasons.wordCount(), 0);
    levelOf.assign(data.count, 0);
  }
  return settle();
}

/// Brings the touched sections and the deferred items up to date; false on a dead end.
bool Search::settle() {
  if (options.rules.support || options.rules.deadline)
    for (int32_t item : deferredItems)
      if (state[item] == State::Deferred && !refreshDeferred(item))
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

/// A deferred item needs a neighbour below it that starts under its present top.
bool Search::refreshDeferred(int32_t item) {
  const bool isInFrame = progressBegin <= data.begin[item] && data.begin[item] < progressEnd;
  const Bytes least = isInFrame && data.count <= smallCount ? progress : 0;
  const Bytes top = support[item] + data.size[item];
  auto liftBy = [&](int32_t other) {
    return std::max(lowest[other], least) + (data.rectangles ? data.step[other] : 1);
  };
  ++work;
  if (const int32_t hint = lifter[item]; hint >= 0 && !isPlaced(hint) && lowest[hint] < top &&
                                         least < top && liftBy(hint) <= lowest[item])
    return true;
  Bytes lifted = unlimited, start = unlimited;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other))
      return;
    start = std::min(start, std::max(lowest[other], least));
    if (liftBy(other) < lifted) {
      lifted = liftBy(other);
      lifter[item] = other;
    }
  });
  if (lifted == unlimited || (options.rules.deadline && start >= top)) {
    explainDeferred(item, unlimited, top);
    return false;
  }
  if (!options.rules.support)
    return true;
  const Bytes raised = alignUp(lifted, data.alignment[item]);
  if (raised <= lowest[item])
    return true;
  explainDeferred(item, lifted, unlimited);
  if (raised + data.size[item] > capacity)
    return false;
  if (explaining)
    reasons.record(item, raised, conflict);
  setLowest(item, raised);
  touch(item);
  return true;
}

/// Everything so far: where a failure has no better explanation.
void Search::blameAll() {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  for (size_t frame = 0; frame < frames.size(); ++frame)
    insert(conflict, levelAt(frame));
}

/// Explains that what is to come in `section` starts too high for the bytes it has.
void Search::explainSection(int32_t section, Bytes tooHigh) {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  for (int64_t e = data.blockStart[section]; e < data.blockStart[section + 1]; ++e)
    if (const int32_t item = data.blockItem[e]; !isPlaced(item)) {
      if (lowest[item] < tooHigh)
        return blameAll();
      reasons.add(item, tooHigh, conflict);
    }
  work += data.blockStart[section + 1] - data.blockStart[section];
}

/// Explains that a deferred item has no neighbour to come that starts below `start`, or none whose
/// top could lie below `lifted`.
void Search::explainDeferred(int32_t item, Bytes lifted, Bytes start) {
  if (!explaining)
    return;
  conflict.assign(conflict.size(), 0);
  reasons.add(item, support[item] + 1, conflict);
  bool isKnown = true;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other)) {
      insert(conflict, levelOf[other]);
      return;
    }
    const Bytes bound = std::min(start, lifted - data.step[other]);
    isKnown &= lowest[other] >= bound;
    reasons.add(other, std::min(bound, lowest[other]), conflict);
  });
  if (!isKnown)
    blameAll(); // it takes the progress of the whole frame
}

/// Records that `other` lies on `item`, which was just placed, and so at `above` or higher.
void Search::explainRaise(int32_t other, int32_t item, Bytes above) {
  if (!explaining)
    return;
  const Bytes notBelow = support[item] - data.size[other] + 1;
  if (lowest[other] >= notBelow)
    return reasons.record(other, above, levelAt(frames.size() - 1), notBelow);
  blameAll();
  reasons.record(other, above, conflict);
}

/// Recomputes ef and the number of choices of a section; false when its bytes no longer fit.
bool Search::refreshSection(int32_t section) {
  const Bytes limit = ceiling - remaining[section];
  Bytes floor = unlimited, low = 0;
  int64_t count = 0;
  if (coming[section] > 0) {
    const int32_t block = section >> data.blockShift;
    for (int64_t e = data.blockStart[block]; e < data.blockStart[block + 1]; ++e) {
      const int32_t item = data.blockItem[e];
      if (isPlaced(item) || !data.isLive(item, section, low))
        continue;
      floor = std::min(floor, lowest[item] + low);
      count += lowest[item] + low <= limit;
    }
    work += data.blockStart[block + 1] - data.blockStart[block];
  }
  if (floorOf[section] != floor) {
    trail.push_back({Change::Floor, section, floorOf[section]});
    floorOf[section] = floor;
  }
  if (choices[section] != count) {
    trail.push_back({Change::Choices, section, choices[section]});
    choices[section] = count;
  }
  if (!options.rules.floor || floor <= limit || coming[section] == 0)
    return true;
  explainSection(section, limit + 1);
  data.weight[section] += 1;
  return false;
}

/// Makes `item` the witness of `section`.
void Search::watch(int32_t section, int32_t item) {
  if (const int32_t old = witness[section]; old >= 0) {
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
  Bytes low = 0;
  for (int32_t section = firstWatched[item]; section >= 0;) {
    const int32_t next = nextWatched[section];
    const Bytes limit = ceiling - remaining[section];
    ++work;
    if (coming[section] > 0 &&
        (isPlaced(item) || !data.isLive(item, section, low) || lowest[item] + low > limit)) {
      const int32_t block = section >> data.blockShift;
      const int64_t first = data.blockStart[block], last = data.blockStart[block + 1];
      int64_t e = first;
      for (; e < last; ++e) {
        const int32_t other = data.blockItem[e];
        if (!isPlaced(other) && lowest[other] <= limit && data.isLive(other, section, low) &&
            lowest[other] + low <= limit)
          break;
      }
      work += e - first;
      if (e == last) {
        explainSection(section, limit + 1);
        return false;
      }
      trail.push_back({Change::Witness, section, item});
      watch(section, data.blockItem[e]);
    }
    section = next;
  }
  return true;
}

bool Search::place(int32_t item) {
  ++nodes;
  startChange();
  setState(item, State::Placed);
  if (explaining)
    levelOf[item] = levelAt(frames.size() - 1);
  trail.push_back({Change::Placing, item, 0});
  shiftSections(item, -1);
  touch(item);
  const Bytes base = support[item], top = base + data.step[item];
  bool fits = true;
  work += data.forNeighbours(item, [&](int32_t other) {
    if (isPlaced(other))
      return;
    Bytes above = top;
    if (!data.rectangles) {
      const std::optional<Bytes> lift = data.lift(item, other);
      if (!lift)
        return;
      above = base + *lift;
    }
    if (above <= support[other])
      return;
    above = alignUp(above, data.alignment[other]);
    if (above > lowest[other])
      explainRaise(other, item, above);
    if (fits && above + data.size[other] > capacity) {
      fits = false;
      if (explaining) {
        conflict.assign(conflict.size(), 0);
        reasons.add(other, capacity - data.size[other] + 1, conflict);
      }
    }
    setSupport(other, above);
    if (state[other] == State::Deferred)
      setState(other, State::Open);
    if (above > lowest[other]) {
      setLowest(other, above);
      touch(other);
    }
  });
  return fits && settle();
}

bool Search::deferIn(const Frame &frame) {
  if (watching) {
    progress = support[frame.item];
    progressBegin = frame.begin;
    progressEnd = frame.end;
  }
  startChange();
  setState(frame.item, State::Deferred);
  if (explaining)
    reasons.record(frame.item, support[frame.item] + 1, levelAt(frames.size() - 1), 0);
  deferredItems.push_back(frame.item);
  return settle();
}

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

/// Explains that exchanging `item` and its twin turns every packing of this branch into one that
/// was refuted earlier or is yet to be looked for.
void Search::explainTwin(int32_t item, int32_t twin) {
  if (!explaining)
    return;
  auto deferralOf = [&](int32_t other) -> const Frame * {
    for (size_t i = frames.size(); i-- > 0;)
      if (frames[i].item == other && frames[i].deferring)
        return &frames[i];
    return nullptr;
  };
  const bool lies = isPlaced(twin);
  const Frame *deferral = deferralOf(lies ? item : twin);
  if (lies && deferral)
    return blameAll(); // the exchange may undo the deferral
  conflict.assign(conflict.size(), 0);
  if (lies)
    insert(conflict, levelOf[twin]);
  else if (deferral) // what refuted the twin in the place of `item`
    conflict = firstBranch[static_cast<size_t>(deferral - frames.data())];
  if (!lies)
    reasons.add(twin, support[twin], conflict);
  if (deferral) {
    const auto index = static_cast<size_t>(deferral - frames.data());
    if (index < 64 * conflict.size())
      conflict[index / 64] &= ~(uint64_t(1) << (index % 64));
  }
  insert(conflict, levelAt(frames.size() - 1));
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

/// An item of the section with the fewest choices; then the least slack, then the most to come.
static const bool wdeg = getenv("WDEG");
int32_t Search::pickTightest(const Frame &frame) {
  int32_t best = -1;
  std::tuple<double, Bytes, uint32_t, Bytes> bestKey;
  for (int32_t s = frame.begin; s < frame.end; ++s) {
    if (coming[s] == 0)
      continue;
    const std::tuple key(wdeg ? choices[s] <= 1 ? choices[s]-2.0 : choices[s] / data.weight[s] : double(choices[s]), ceiling - remaining[s] - floorOf[s], tie[s], -remaining[s]);
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

/// After a failure of the first branch: false when it stands whatever becomes of the item.
bool Search::resolveFirst(Frame &frame) {
  if (frame.item < 0 || frame.deferring)
    return false;
  if (!explaining)
    return true;
  const size_t index = frames.size() - 1;
  if (!contains(conflict, levelAt(index)))
    return false;
  if (firstBranch.size() <= index)
    firstBranch.resize(index + 1);
  firstBranch[index] = conflict;
  return true;
}

/// After a failure of the second branch: what both together rest on.
void Search::resolveSecond(const Frame &frame) {
  if (!explaining || frame.item < 0 || !frame.deferring)
    return;
  const size_t index = frames.size() - 1;
  if (!contains(conflict, levelAt(index)))
    return;
  for (size_t w = 0; w < conflict.size(); ++w)
    conflict[w] |= firstBranch[index][w];
  reasons.add(frame.item, support[frame.item], conflict);
  if (index < 64 * conflict.size() - 1 + 1)
    conflict[index / 64] &= ~(uint64_t(1) << (index % 64));
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

std::vector<int32_t> allItems(const Model &model) {
  std::vector<int32_t> items(model.items.size());
  std::iota(items.begin(), items.end(), 0);
  return items;
}

} // namespace

SearchInstance::SearchInstance(const Model &model) : SearchInstance(model, allItems(model)) {}
SearchInstance::SearchInstance(const Model &model, const std::vector<int32_t> &items, Bytes ground)
    : data(std::make_unique<const SearchData>(model, items, ground)) {}
SearchInstance::~SearchInstance() = default;
SearchInstance::SearchInstance(SearchInstance &&) noexcept = default;
bool SearchInstance::isComplete() const { return data->complete; }
int32_t SearchInstance::freeItems() const { return data->count; }

SearchResult SearchInstance::search(Bytes capacity, const SearchOptions &options,
                                    const std::function<bool()> &stop) const {
  return Search(*data, capacity, options, stop).run();
}

} // namespace stow::pack
