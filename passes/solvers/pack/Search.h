// The state of one canonical search; see CanonicalSearch.h for the method.
//
// SearchBounds.cpp keeps bounds and section floors up to date, SearchExplain.cpp says why they
// fail, and CanonicalSearch.cpp picks items and branches.
#pragma once

#include "passes/solvers/pack/CanonicalSearch.h"
#include "passes/solvers/pack/Explanations.h"
#include "passes/solvers/pack/SearchInstance.h"

namespace stow::pack {

constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;

/// One search: mutable state over an immutable instance. Every change goes to the trail, so that
/// going back costs what going forward did.
class Search {
public:
  Search(const SearchData &data, Bytes capacity, const SearchOptions &options,
         const std::function<bool()> &stop)
      : data(data), capacity(capacity), ceiling(alignUp(capacity, data.grain)), options(options),
        stop(stop), watching(options.pick == SearchPick::Lowest),
        explaining(options.rules.backjump && data.rectangles && !data.anchored &&
                   data.count <= smallCount),
        failures(options.failures ? *options.failures : ownFailures) {}

  SearchResult run() {
    SearchResult result;
    result.outcome = initialise() ? descend() : SearchOutcome::Exhausted;
    result.work = work;
    result.nodes = nodes;
    if (result.outcome == SearchOutcome::Found) {
      result.bases = data.fixedBases;
      for (int32_t i = 0; i < data.count; ++i)
        if (!data.isAnchor[i])
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
  void blameSection(int32_t section) { failures[section] += 1; }
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
  std::vector<double> ownFailures;
  std::vector<double> &failures; ///< how often the floor of a section failed
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

  // Decisions are numbered by the frame that takes them.
  Explanations reasons;
  LevelSet conflict;                 ///< what the last failure rests on
  std::vector<LevelSet> firstBranch; ///< by level: what the failure of its first branch rests on
  std::vector<int32_t> levelOf;      ///< by placed item
  std::vector<TrailEntry> trail;
  size_t forgotten = 0; ///< entries dropped from the front; the search cannot go back beyond them
  std::vector<std::pair<int32_t, int32_t>> parts;
  std::vector<Frame> frames;
  std::vector<int32_t> deferredItems; ///< superset of the deferred ones on the current path
  int64_t work = 0, nodes = 0, nextPoll = 0;
};

} // namespace stow::pack
