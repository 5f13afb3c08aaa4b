// A timeline under search: changes that can be taken back, and the best schedule they went through.
#pragma once

#include "passes/solvers/schedule/Timeline.h"

#include <vector>

namespace stow::schedule {

/// Changes come in moves. A move is taken back as a whole, or kept; of the kept ones the best schedule is remembered.
///
/// A copy of the timeline per improvement would cost more than the search itself. Instead, kept changes are written down, and
/// the best schedule is the last snapshot and a part of the journal.
class EditedSchedule {
public:
  EditedSchedule(const Graph &graph, const Sequence &start, Bytes budget);

  // -- the move at hand

  void begin() { log.clear(); }
  bool isEmpty() const { return log.empty(); }
  void add(int32_t op, int32_t slot);
  void remove(int32_t slot);
  void move(int32_t slot, int32_t target);
  void undo();
  void keep();

  // -- what was kept

  /// Ops that run more than once.
  const std::vector<int32_t> &opsOfSeveralRuns() const { return many; }
  /// Spreads the runs evenly over new slots; the timeline has no limit then.
  void respread();
  /// The best schedule so far: within the budget first, then fast, then small.
  const Sequence &bestSequence();
  const Measure &bestMeasure() const { return best; }

  Timeline timeline;

private:
  struct Change {
    enum Kind : int8_t { Added, Removed, Moved } kind;
    int32_t op, slot;
    int32_t target = Timeline::none; ///< of a move
  };

  void track(int32_t op);
  void remember();
  void snapshot();
  void settle();

  const Bytes budget;
  Sequence sequence; ///< the best one, as of the last snapshot
  Measure best;
  std::vector<Change> log;     ///< of the move at hand
  std::vector<Change> journal; ///< of kept moves since the snapshot
  std::vector<int32_t> slotsThen;
  size_t bestLength = 0; ///< of the journal at the best schedule; 0: it is older
  std::vector<int32_t> many, placeInMany;
};

} // namespace stow::schedule
