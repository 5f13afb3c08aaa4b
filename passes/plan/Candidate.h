// From a step in some order to a candidate plan: shared in place, packed, and checked.
//
//   step in some order --> place inside, share --> check --> pack --> check --> candidate
//                                                    |                  |
//                                                    +---- refused -----+--> never chosen
//
// The checks (passes/verify) share no code with what they check. What they refuse is a defect of
// the planner: it is dropped, whoever chooses goes on to the next candidate, and the first one is
// written to a file that a report can carry.
#pragma once

#include "passes/Target.h"
#include "passes/order/CostModel.h"

#include "ir/plan/schedule/Lanes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// One way to run the step, packed and verified.
struct StepChoice {
  std::string method;                         ///< "keep all", "schedule", "segments" or "copies"
  std::optional<schedule::Solution> solution; ///< where the order is not the step's own
  std::optional<schedule::Solution> firstSolution; ///< likewise of @accumulate
  /// Where something travels to slow memory: the runs of `solution`, and the copies.
  std::optional<schedule::LaneSolution> withCopies, firstWithCopies;
  /// By command of the training graph: the op of the schedule problem that runs there for the first
  /// time. Empty without `solution`.
  std::vector<std::optional<schedule::OpId>> firstRuns;
  /// Of the step in which products and the kernels that they took in are apart (passes/fuse/Epilogues.h).
  bool isSplit = false;
  /// Where collectives are started ahead of their awaits: the most bytes that they hold at once (passes/order/StartCollectives.h).
  std::optional<Bytes> started;
  schedule::Cost time = 0; ///< of the training graph, in nanoseconds; with what it waits for copies
  schedule::Cost exposed = 0; ///< what it waits for other ranks on top
  Bytes livePeakBytes = 0;    ///< state included
  Bytes arenaBytes = 0;
  mlir::OwningOpRef<mlir::ModuleOp> placed; ///< null where the checks refused it

  /// No budget is met by a refused candidate.
  static constexpr Bytes refusedBytes = std::numeric_limits<Bytes>::max();
  bool isRefused() const { return arenaBytes == refusedBytes; }
};

/// A candidate that the checks refused.
struct Refusal {
  std::string method;
  std::string finding;  ///< the checks' first words
  Bytes arenaBytes = 0; ///< what it would have taken; 0 where it was refused before packing
  std::string path;     ///< the file that holds it; empty: none was written
};

struct CandidateOptions {
  std::string refusedPath; ///< where the first refused candidate goes; empty: nowhere
  /// Called with every packed candidate before it is checked: for tests, which put faults there.
  std::function<void(mlir::ModuleOp)> afterPacking = {};
};

class CandidateMaker {
public:
  /// `target` must outlive the maker.
  CandidateMaker(const CostModel &costs, const Target &target, CandidateOptions options)
      : costs(costs), target(target), options(std::move(options)) {}

  /// `ordered` is the ordered form with state bound; `packingWork` and `enough` as in stow-pack-buffers, `wantedLive` as
  /// in addSharePasses.
  StepChoice make(const std::string &method, mlir::OwningOpRef<mlir::ModuleOp> ordered,
                  int64_t packingWork, Bytes wantedLive = std::numeric_limits<Bytes>::max(),
                  Bytes enough = 0);

  const std::vector<Refusal> &refusals() const { return refused; }

private:
  StepChoice refuse(StepChoice choice, mlir::ModuleOp module, std::string finding);

  const CostModel costs;
  const Target &target;
  const CandidateOptions options;
  std::vector<Refusal> refused;
};

/// One sentence per refusal's file, what was found and how to report it.
std::string describe(const Refusal &refusal);

} // namespace stow
