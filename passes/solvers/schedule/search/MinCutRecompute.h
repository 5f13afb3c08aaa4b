// Schedules read off minimum cuts.
//
// Take a sequence and a position in it. Every value that is live across the position is either kept
// or computed again just before its next reader, together with whatever that needs: SaveOrRerun
// decides. Inserting the reruns gives a new sequence whose bytes at the position are what the cut
// kept. `reduceToBudget` repeats this at the highest position until the whole sequence fits.
#pragma once

#include "passes/solvers/schedule/SaveOrRerun.h"

#include <memory>

namespace stow::schedule {

/// Biases of SequenceCut::solve that are tried: the usual one, next to none, and a strong one.
inline constexpr double kUsualBias = 0.3, kLowBias = 0.02, kHighBias = 4;

/// One position of one sequence, ready to be cut at any price.
class SequenceCut {
public:
  /// `barred`, if given, marks ops that may not run again (see segmentBars in Segments.h).
  SequenceCut(const Graph &graph, const Sequence &sequence, size_t position,
              const std::vector<char> *barred = nullptr);

  struct Plan {
    Cost rerunCost = 0;  ///< unscaled
    Bytes keptBytes = 0; ///< live across the position, inputs of the op there not counted
    std::vector<int32_t> reruns;
  };
  /// The plan at a price in cost per byte. `bias` > 0 makes early values dearer than late ones by
  /// up to that fraction, so that ties between equal layers fall one layer at a time.
  Plan solve(double pricePerByte, double bias);

  /// Bytes live across the position now, inputs of the op there not counted.
  Bytes acrossBytes() const { return across; }

  /// Values that are live across the position.
  const std::vector<int32_t> &liveValues() const { return liveAcross; }
  /// True for values that exist in front of the position.
  bool isWrittenBefore(int32_t value) const { return isWritten[value]; }
  /// False for ops that cannot run again behind the position.
  bool mayRerun(int32_t op) const { return !fixed[op]; }

  /// The sequence with the plan's reruns inserted, each just before its first reader and in front of
  /// the rerun that overwrites what it reads. Reruns that would read what is overwritten for good
  /// are left out. The sequence unchanged if none can be inserted.
  Sequence apply(const Plan &plan);

  int64_t work() const { return cut->work(); }

  /// The cheapest plan found that keeps at most `room` bytes; absent if none is found.
  std::optional<Plan> cheapestWithin(Bytes room, double bias);

private:
  void findLiveness();
  bool isGone(int32_t value) const { return !gone.empty() && gone[value]; }
  std::vector<char> fixedOps(const std::vector<char> *barred) const;

  const Graph &graph;
  const Sequence sequence;
  const size_t position;
  Bytes across = 0;
  int shift = 0;
  std::vector<int32_t> liveAcross;
  std::vector<size_t> nextRead; ///< per value live across: the next reader's position
  std::vector<size_t>
      destroyedAt;        ///< per value that cannot come again: who overwrites it, or never
  std::vector<char> gone; ///< per value: its copy at the position is overwritten; empty: none is
  std::vector<double> biases;
  std::vector<char> isWritten; ///< per value: before the position
  std::vector<char> fixed;     ///< per op: may not run again
  std::unique_ptr<SaveOrRerun> cut;
};

/// Bytes withheld between the first runs of two graph ops, both included (Capacity.h).
struct GraphWindow {
  int32_t first = 0, last = 0;
  Bytes withheldBytes = 0;
};

/// Cuts at the highest position again and again until the sequence fits, at most `rounds` times.
/// Where windows withhold bytes, the highest position is the one that exceeds its room the most.
/// `bias` as in SequenceCut::solve. Absent if some position cannot be brought below the budget, or
/// if the work of the cuts (SaveOrRerun::work) uses up `allowance`, which is counted down.
std::optional<Sequence> reduceToBudget(const Graph &graph, Sequence sequence, Bytes budgetBytes,
                                       int rounds, double bias,
                                       const std::vector<char> *barred = nullptr,
                                       int64_t *allowance = nullptr,
                                       const std::vector<GraphWindow> &windows = {});

/// Removes reruns whose loss keeps the peak within `budgetBytes`, less what the windows withhold,
/// and the sequence legal, by falling cost. O(log runs) per value that a rerun touches.
Sequence dropNeedlessReruns(const Graph &graph, const Sequence &sequence, Bytes budgetBytes,
                            const std::vector<GraphWindow> &windows = {});

/// The same runs, every rerun moved to just before the first run that reads its outputs (reruns
/// that nobody reads are dropped).
Sequence delayReruns(const Graph &graph, const Sequence &sequence);

/// A schedule from one cut, and its figures.
struct SweptCut {
  Bytes peakBytes = 0;
  Cost time = 0;
  Sequence sequence;
};

/// Single cuts of `base` at its peak, at `prices` prices that are spaced geometrically over the range
/// in which anything changes. Fewer are tried when the cuts' work uses up `allowance`, which is
/// counted down.
std::vector<SweptCut> sweepPrices(const Graph &graph, const Sequence &base, int prices,
                                  const std::vector<char> *barred, int64_t *allowance);

} // namespace stow::schedule
