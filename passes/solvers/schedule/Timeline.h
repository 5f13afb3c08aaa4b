// A schedule under local search: runs in slots, bytes per slot beside them.
//
//   slot     0   1   2   3   4   5   6   7       There are four slots per run or more, so that a
//   run      a   .   b   c   .   a   d   .       run can be added between two others. An empty slot
//   a        [-----------]       [---]           has the bytes that are live across it.
//
// Adding or removing one run changes the intervals of its outputs and of its inputs only:
// O(degree * log slots). The tree's root is the peak.
#pragma once

#include "passes/solvers/schedule/Graph.h"

#include <algorithm>
#include <limits>

namespace stow::schedule {

/// Bytes per slot: range add, maximum and its leftmost slot, and the bytes above a limit summed
/// over all slots. The slots lie in blocks; a range adds to whole blocks at once and to the slots
/// of the two it covers in part. Only blocks that reach above the limit are looked into for the
/// sum, in which every block has a weight.
class SlotBytes {
public:
  void reset(int32_t slotCount);
  /// Adds to [first, last], both included.
  void add(int32_t first, int32_t last, Bytes bytes);
  Bytes peak() const {
    if (!peakIsKnown)
      findPeak();
    return highest;
  }
  int32_t peakSlot() const;
  /// Bytes above the limit, times the weight of their block, summed over all slots.
  double excess() const { return excessSum; }
  void setLimit(Bytes bytes);
  /// Multiplies the weights of blocks that reach above the limit by `factor`, divides those of
  /// others by it. They stay in [0.01, 100]; `reset` makes them 1.
  void reweigh(double factor);
  /// The slot at which the excess summed from the left passes `share` of the whole, in [0, 1).
  /// There must be an excess.
  int32_t slotOfExcess(double share) const;
  /// What a range would lose of its excess if `bytes` less were in each of its slots.
  double reliefOf(int32_t first, int32_t last, Bytes bytes) const;

private:
  void addWithin(int32_t first, int32_t last, Bytes bytes);
  void sumExcess(int32_t block);
  void findPeak() const;

  int32_t bits = 6;                     ///< of the slots in a block
  std::vector<Bytes> own;               ///< per slot, without what is added to its block
  std::vector<Bytes> added, top, above; ///< per block: to all its slots, maximum, excess
  Bytes limit = std::numeric_limits<Bytes>::max();
  std::vector<double> weight;
  double excessSum = 0;
  mutable Bytes highest = 0;
  mutable bool peakIsKnown = false;
};

class Timeline {
public:
  static constexpr int32_t none = -1;

  Timeline(const Graph &graph, const Sequence &sequence);

  /// Spreads a sequence evenly over fresh slots.
  void assign(const Sequence &sequence);
  Sequence sequence() const;

  int32_t slotCount() const { return slots; }
  int32_t runAt(int32_t slot) const { return opAt[slot]; }
  const std::vector<int32_t> &runsOf(int32_t op) const { return runs[op]; }
  Bytes peak() const { return graph.baseBytes + slotBytes.peak(); }
  int32_t peakSlot() const { return slotBytes.peakSlot(); }
  Cost time() const { return cost; }
  /// Required overwrites that are not last reads, and runs that take the bytes from below a view
  /// that is still read; a schedule with any is illegal.
  int32_t violations() const { return violated; }

  /// Bytes above the limit, weighted and summed over all slots; the limit is that of the last
  /// `setLimit` since `assign`, pinned bytes included.
  double excess() const { return slotBytes.excess(); }
  void setLimit(Bytes bytes) { slotBytes.setLimit(bytes - graph.baseBytes); }
  void reweigh(double factor) { slotBytes.reweigh(factor); }
  int32_t slotOfExcess(double share) const { return slotBytes.slotOfExcess(share); }
  /// What [first, last] would lose of its excess with `bytes` less in each slot.
  double reliefOf(int32_t first, int32_t last, Bytes bytes) const {
    return slotBytes.reliefOf(first, last, bytes);
  }

  /// Less room, by so many bytes, between the slots in which two ops now run first, both included.
  void withhold(int32_t oneOp, int32_t otherOp, Bytes bytes) {
    const auto [first, last] = std::minmax({runs[oneOp].front(), runs[otherOp].front()});
    slotBytes.add(first, last, bytes);
  }

  /// Puts a run of `op` into an empty slot. The caller sees to it that its inputs exist there.
  void add(int32_t op, int32_t slot);
  /// Takes the run out of a slot. The caller sees to it that an earlier run serves its readers.
  void remove(int32_t slot);

  /// Moves a run to an empty slot of its slack.
  void move(int32_t slot, int32_t target);
  /// The open interval of slots in which the run at `slot` may stand without another supplier of
  /// its inputs or another server of its readers.
  std::pair<int32_t, int32_t> slack(int32_t slot) const;

  /// The latest run of the value's producer before `slot`; `none` if there is none. Values that
  /// exist from the start are served by slot 0's left edge: the result is 0.
  int32_t servedFrom(int32_t value, int32_t slot) const;
  /// The first run of the producer after `slot`; slotCount() if there is none.
  int32_t nextRunAfter(int32_t op, int32_t slot) const;
  /// The first read of the value after `slot`; slotCount() if there is none before the end. Kept
  /// values are read at the end: the result is slotCount() for them too.
  int32_t nextReadAfter(int32_t value, int32_t slot) const;
  /// The last read of the value before `slot`, none if there is none.
  int32_t lastReadBefore(int32_t value, int32_t slot) const;
  /// An empty slot strictly between two slots, as near as possible to `right` (or to `middle`).
  int32_t emptyBefore(int32_t left, int32_t right) const;
  int32_t emptyNear(int32_t left, int32_t middle, int32_t right) const;
  /// True if removing the run leaves every read served.
  bool removable(int32_t slot) const;
  /// True if a run between `from`, the run that serves the value, and `slot` overwrites it.
  bool isGone(int32_t value, int32_t from, int32_t slot) const;
  /// The last slot at which the copy written (or present) at `from` is live.
  int32_t liveUntil(int32_t value, int32_t from) const;
  /// True if the value takes bytes, is live across `slot` and not read there.
  bool isIdleAcross(int32_t value, int32_t slot) const;

private:
  void setInterval(int32_t value, int32_t from, int32_t oldEnd, int32_t newEnd);
  void refresh(int32_t slot);
  void refreshViewed(const GraphOp &op);
  bool diesAt(int32_t value, int32_t slot) const;

  /// What liveness asks of a value, side by side.
  struct Known {
    Bytes sizeBytes;
    int32_t producer; ///< `none`: exists from the start
    bool keep, isView;
  };

  const Graph &graph;
  std::vector<Known> known;
  int32_t slots = 0, violated = 0;
  Cost cost = 0;
  SlotBytes slotBytes;
  std::vector<int32_t> opAt;
  std::vector<std::vector<int32_t>> runs;  ///< per op, ascending slots
  std::vector<std::vector<int32_t>> reads; ///< per value, ascending slots
  std::vector<Bytes> creditAt;
  std::vector<int32_t> violationsAt;
};

// Search asks these of every value that it tries: in place where it does.

inline int32_t Timeline::servedFrom(int32_t value, int32_t slot) const {
  const int32_t producer = known[value].producer;
  if (producer == none)
    return 0;
  const std::vector<int32_t> &list = runs[producer];
  if (list.size() == 1) // most ops run once
    return list.front() < slot ? list.front() : none;
  auto it = std::lower_bound(list.begin(), list.end(), slot);
  return it == list.begin() ? none : *std::prev(it);
}

inline int32_t Timeline::nextRunAfter(int32_t op, int32_t slot) const {
  const std::vector<int32_t> &list = runs[op];
  if (list.size() == 1)
    return list.front() > slot ? list.front() : slots;
  auto it = std::upper_bound(list.begin(), list.end(), slot);
  return it == list.end() ? slots : *it;
}

inline int32_t Timeline::nextReadAfter(int32_t value, int32_t slot) const {
  const std::vector<int32_t> &list = reads[value];
  auto it = std::upper_bound(list.begin(), list.end(), slot);
  return it == list.end() ? slots : *it;
}

inline int32_t Timeline::lastReadBefore(int32_t value, int32_t slot) const {
  const std::vector<int32_t> &list = reads[value];
  if (!list.empty() && list.back() < slot)
    return list.back();
  auto it = std::lower_bound(list.begin(), list.end(), slot);
  return it == list.begin() ? none : *std::prev(it);
}

inline int32_t Timeline::liveUntil(int32_t value, int32_t from) const {
  const Known &info = known[value];
  const int32_t next = info.producer != none ? nextRunAfter(info.producer, from) : slots;
  if (next == slots && info.keep)
    return slots - 1;
  const int32_t last = lastReadBefore(value, next);
  if (info.producer == none)
    return last; // `none` if never read
  return std::max(last, from);
}

inline bool Timeline::isIdleAcross(int32_t value, int32_t slot) const {
  const Known &info = known[value];
  if (info.sizeBytes == 0)
    return false;
  int32_t next = slots; // run of the producer
  if (info.producer != none) {
    const std::vector<int32_t> &list = runs[info.producer];
    if (list.empty() || list.front() >= slot)
      return false;
    if (list.size() > 1) {
      auto it = std::lower_bound(list.begin(), list.end(), slot);
      if (it != list.end())
        next = *it;
    }
  }
  const std::vector<int32_t> &list = reads[value];
  auto read = std::lower_bound(list.begin(), list.end(), slot);
  const int32_t first = read == list.end() ? slots : *read;
  if (first == slot)
    return false;
  return first < next || (info.keep && next == slots && slot < slots - 1);
}

} // namespace stow::schedule
