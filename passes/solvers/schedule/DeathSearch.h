// Orders as sequences of deaths: is there a schedule within a budget that pays at most so much
// extra?
//
// Look at the first run of every op. They form an order; a value is written in it once and dies
// with the last of its readers' first runs. Let x1, x2, ... be the values as they die and E_i the
// least set of ops, closed towards ancestors, in which all readers of x1 .. x_i are. When the last
// reader z of x_i+1 runs, nothing else has died yet: every value of E_i that is alive there, and
// every output of C = E_i+1 - E_i, waits for a reader.
//
//   bytes          x dies        So at that moment there are in memory at least
//     |        /|    /|            alive(E_i) + outputs of C + what z needs beside them,
//     |   /|  / |   / |          except values that are written again later, each of which costs a
//     |  / |_/  |__/  |          rerun of its op. If those are too many for the extra time, x_i+1
//     | /                        cannot die next. E_i+1 = E_i and C, alive: less what C kills.
//     +---------------------->
//        C1   C2    C3           A depth-first search over the sets E. All that is counted is a
//                                lower bound, so if no sequence of deaths is left, no schedule is.
//
// The sets E are few: on random layered graphs of 250 ops thousands or ten thousands, where all
// closed sets are beyond counting. What is left out, and why nothing is lost:
//
//  - Of two candidates the one whose C contains the other's: the other dies first, or with it.
//  - All candidates beside one that fits without reruns and leaves no more bytes than there were:
//    bytes alive are a submodular function of the set, so all that follows needs no more with x
//    dead than without. What dies does not count if it may be written again: it may be gone before.
//    If it may be read by a rerun it is kept for that, or the bytes are kept that the rerun would
//    write: only what is more than those counts.
//  - All that is left at a set F, once a later set M is found that needs no more bytes than any set
//    between the two, whatever runs again: from F it is safe to go to M.
//  - All that is left at a set F, once nothing follows from a later set W that is a waist: a
//    schedule that has come to F, run in the same order after W, needs no more bytes. Of a set X
//    on its way let Y be what is in W. If Y needs at least the bytes of W, X and all of W needs
//    at most those of X. If not, all of X beside W is among the ops that can have run while such
//    a Y had, few, and W fits with all that they write.
//
// What a rerun is short of is counted too: inputs that are dead by then are kept for it or written
// again, at the expense of all that may need them, in equal parts.
//
// Related: the hill-valley segments of Liu, "An Application of Generalized Tree Pebbling to Sparse
// Matrix Factorization", 1987; here for any graph and with reruns as a relaxation.
#pragma once

#include "passes/solvers/schedule/CutBound.h"
#include "passes/solvers/schedule/Precedence.h"

namespace stow::schedule {

class DeathSearch {
public:
  /// At most `mostOps` ops; `core` and `bound` must outlive it. O(values * ops).
  DeathSearch(const Core &core, const CutBound &bound);
  static constexpr size_t mostOps = 4000;

  enum class Outcome : int8_t {
    Impossible, ///< no schedule within the budget pays so little: a proof
    Possible,   ///< not excluded
    Unknown,    ///< the work ended
  };
  struct Answer {
    Outcome outcome = Outcome::Unknown;
    Sequence order;  ///< if possible: every op once; if without extra time, it likely fits
    size_t sets = 0; ///< that were looked at
  };
  /// What becomes of ops that leave nothing alive, but need bytes while they run.
  enum class Sinks : int8_t {
    WithDeaths, ///< they run with the first death that needs them, and those bytes are not counted
    Placed,     ///< they may run at any time: more sets, and what is possible fits
  };
  /// Whether a schedule of a peak of at most `budgetBytes` (pinned bytes included) can take at most
  /// `mostExtra` more than the least time. Spends `allowance`; deterministic.
  Answer run(Bytes budgetBytes, Cost mostExtra, Sinks sinks, int64_t &allowance) const;

  struct Bound {
    Cost time = 0;  ///< no schedule within the budget takes less
    Sequence order; ///< one within the budget without extra time, if the search meets it
  };
  /// The most time that is excluded, from `provenTime`, which is a lower bound already.
  /// `knownTime`: of the best schedule known, no need to prove more. Spends `allowance`.
  Bound timeBound(Bytes budgetBytes, Cost provenTime, std::optional<Cost> knownTime,
                  int64_t &allowance) const;

  /// About what a run spends in a second, for limits that are asked for in seconds.
  static constexpr int64_t workPerSecond = 200'000'000;

  /// An order of the ops, each once, with the smallest peak found: `start`, unless the search finds
  /// a better one. It is not looked for at `leastBytes` or less.
  Sequence improveOrder(const Sequence &start, Bytes leastBytes, int64_t allowance) const;

private:
  friend class DeathRun;
  struct Rerun { ///< an op that may run again: what that can free, at what cost
    int32_t op;
    Bytes bytes;
    Cost cost;
  };

  /// A value of some bytes that dies. An op that leaves nothing alive, but needs bytes while it
  /// runs, counts as the reader of one of no bytes.
  struct Mortal {
    Bytes bytes = 0;
    std::optional<int32_t> producer;
    std::vector<int32_t> readers;
    Bytes beside = 0; ///< least bytes of a reader beside its inputs and what it leaves alive
  };
  void addMortal(Mortal mortal);

  const Core &core;
  const Precedence precedence;
  Bytes baseBytes = 0;
  int shift = 0; ///< of scaled costs
  size_t words = 0;
  std::vector<Mortal> mortals; ///< values first
  size_t valueCount = 0;
  std::vector<uint64_t> closures;           ///< per mortal: its readers and all above them
  std::vector<uint8_t> closureOf;           ///< per op, then mortal: is the op in its closure
  std::vector<Bytes> needed;                ///< per mortal: bytes for its death, if it is the first
  std::vector<std::vector<int32_t>> reads;  ///< per op: mortals
  std::vector<std::vector<int32_t>> writes; ///< per op: mortals
  std::vector<int64_t> readsOfOutputs;      ///< per op: by all readers
  std::vector<Bytes> written;               ///< per op: bytes of outputs that are alive after it
  std::vector<Bytes> beside;                ///< per op: other bytes while it runs, without inputs
  std::vector<Rerun> reruns;                ///< the least cost per byte first
};

} // namespace stow::schedule
