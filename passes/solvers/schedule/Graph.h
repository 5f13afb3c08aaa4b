// The schedule problem as solvers see it: views folded into the values they show, pinned bytes
// subtracted, one graph op per op that does work.
//
// What is folded, and why that loses nothing:
//  - A view op that is free (cost 0, no workspace, recomputable, no other input that can disappear)
//    needs no decision: it runs right after every run of the op that writes the viewed value. Its
//    readers become readers of the viewed value.
//  - An op that overwrites the only output of another, and is the only one to read it, runs right
//    after every run of that: what it writes takes the same bytes, and a copy that it does not
//    overwrite serves nobody. It must need no more workspace and read nothing else that is computed.
//  - Pinned storages are always resident; their bytes move to `baseBytes` and their values vanish,
//    unless an op overwrites them: then they stay as values of size 0, so that no reader is moved
//    behind the op that destroys them.
//  - Other views stay as values of size 0 whose readers also read the viewed value: what an op
//    writes into a part of a concatenation is one. A new copy of the viewed value is without them:
//    whoever reads such a view then needs a run of its own op behind that of the viewed value's.
//    (The checker lets it read the old copy while that is live; solvers do without.)
#pragma once

#include "ir/plan/schedule/Problem.h"

namespace stow::schedule {

/// A sequence of runs of graph ops. Liveness follows from it: a read is served by the latest run of
/// the value's producer, and a value is live from that run to its last read before the next one.
using Sequence = std::vector<int32_t>;

/// In-place credit: `bytes` less at a run if `input` dies there; `output` is used at most once.
struct Credit {
  int32_t output = 0;
  int32_t input = 0;
  Bytes bytes = 0;
  bool required = false; ///< the input must die there: any later read of that run is illegal
};

struct GraphOp {
  std::vector<int32_t> inputs, outputs; ///< graph values, without repetition
  std::vector<Credit> credits;
  Cost cost = 0; ///< of the alternative in use; bounds use `leastCost`
  Bytes workspaceBytes = 0;
  Cost leastCost = 0;
  Bytes leastWorkspaceBytes = 0;
  Bytes uncertainCreditBytes = 0; ///< credits that the checker may grant, solvers do not count on
  bool recomputable = true;
  OpId op = 0;
  std::vector<OpId> followers; ///< folded ops that run right after
  Cost followersCost = 0;      ///< part of `cost`
};

struct GraphValue {
  Bytes sizeBytes = 0;
  std::optional<int32_t> producer;  ///< graph op; absent: exists from the start
  std::vector<int32_t> readers;     ///< graph ops, ascending, without repetition
  std::vector<int32_t> views;       ///< written into its bytes later: a new copy is without them
  std::vector<int32_t> viewed;      ///< whose view it is
  std::vector<int32_t> overwriters; ///< graph ops whose runs must be the last to read a copy of it
  bool keep = false;
};

struct Graph {
  std::vector<GraphOp> ops; ///< in input order
  std::vector<GraphValue> values;
  std::vector<OpId> openers; ///< folded views of values that exist from the start
  Bytes baseBytes = 0;       ///< pinned
  Cost leastTime = 0;
  Cost costStep = 1; ///< every cost is a multiple of this
  /// A schedule that takes more than `leastTime` takes at least this much more; 0 if none does.
  Cost leastExtra = 0;
  bool hasAlternatives = false;
  bool hasViews = false; ///< of any value
  /// Some op overwrites a value that can be computed again. (Weights that an update overwrites are
  /// gone for good.)
  bool hasOverwrites = false;

  explicit Graph(const Problem &problem);

  /// False for values that exist from the start or whose op runs once.
  bool mayComeAgain(int32_t value) const {
    return values[value].producer && ops[*values[value].producer].recomputable;
  }

  /// For bounds: if no old copy of what this view shows is read any more, a read of the view needs
  /// a later run of its op. Left out where that cannot be told from the run of one op.
  bool goesWithViewed(int32_t value) const;

  /// Bytes in memory while the op runs, whatever else is: inputs, outputs, least workspace, less
  /// every credit that could apply; pinned bytes included.
  Bytes footprint(int32_t op) const;

  Sequence inputOrder() const;
  /// The graph ops among the runs.
  Sequence sequenceOf(const Solution &solution) const;
  /// Switches `cost` and `workspaceBytes` of every op from its fastest to its leanest alternative.
  void useLeanestAlternatives(const Problem &problem);
};

/// Bytes and time of a sequence (pinned bytes included).
struct Measure {
  Cost time = 0;
  Bytes peakBytes = 0;
  size_t peakPosition = 0;
  /// Every read is served, required overwrites are last reads, and views that are read lie in the
  /// latest copy of what they view.
  bool legal = true;
};

/// O(runs + reads). If `bytesAt` is given it receives the bytes at every position.
Measure measure(const Graph &graph, const Sequence &sequence,
                std::vector<Bytes> *bytesAt = nullptr);

/// Writes a graph sequence back as a schedule of the problem: folded views follow their producers,
/// and every run takes the cheapest alternative that fits under `budgetBytes` at its position (the
/// leanest if none fits).
Solution expand(const Problem &problem, const Graph &graph, const Sequence &sequence,
                Bytes budgetBytes);

} // namespace stow::schedule
