// A chain of reruns for one evicted value, planned before anything is changed.
//
// A value that is idle across the peak is to be computed again just before its next reader. What
// its op reads must exist there: an input that is not live behind the peak anyway is either kept
// across it or computed again, too, and so on; an input that is overwritten must be. Views of what
// is computed again that are read later are written again, too. The plan tells what that costs and
// what it does to the bytes at the peak, so that most proposals are refused without touching the
// timeline.
#pragma once

#include "ir/plan/Random.h"
#include "passes/solvers/schedule/Timeline.h"

namespace stow::schedule {

class RerunPlan {
public:
  RerunPlan(const Graph &graph, const Timeline &timeline, Random &random)
      : graph(graph), timeline(timeline), random(random), seen(graph.values.size(), 0),
        touches(graph.values.size()) {}

  /// Plans a run of `op` in a slot of (peak, right), as late as possible, and its inputs. False if
  /// it costs more than `mostCost` or cannot be done.
  bool make(int32_t op, int32_t peak, int32_t right, double mostCost);

  struct Run {
    int32_t op, slot;
  };
  /// Readers before what they read.
  const std::vector<Run> &runs() const { return planned; }
  Cost cost() const { return sum; }
  /// What the plan adds to the bytes at the peak, credits not counted.
  Bytes peakBytes() const { return change; }
  /// True if the last plan failed for want of an empty slot.
  bool isCrowded() const { return crowded; }

private:
  struct Input {
    int32_t value;
    bool mayFollow; ///< may be computed again
    bool isGone;    ///< and must be
  };
  /// The first planned runs that read and write a value, or slotCount().
  struct Touched {
    int32_t reader, writer;
  };
  bool add(int32_t op, int32_t right, int depth);
  bool addViews(int32_t op, int32_t &right, int depth);
  std::optional<int32_t> lostRead(int32_t view) const;
  int32_t freeSlotBefore(int32_t right) const;
  bool isPlanned(int32_t op) const;
  void findInputs(int32_t op, int32_t slot);
  double oddsOf(int32_t value, int32_t slot, size_t first, double share) const;
  bool isLive(int32_t value, const Touched &planned) const;
  void weigh();

  const Graph &graph;
  const Timeline &timeline;
  Random &random;
  std::vector<Run> planned;
  std::vector<int32_t> beginning; ///< ops whose own run is planned after those of their views
  std::vector<Input> inputs;      ///< of the runs that are being planned, a stack
  std::vector<int64_t> seen;      ///< per value: the last plan that weighed it
  std::vector<Touched> touches;   ///< per value, if seen by this plan
  std::vector<int32_t> touched;
  int64_t stamp = 0;
  int32_t peak = 0;
  double mostCost = 0;
  Cost sum = 0;
  Bytes change = 0;
  bool crowded = false;
};

} // namespace stow::schedule
