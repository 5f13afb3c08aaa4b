// @eval is planned apart from the step, once, and joined to whatever plan of the step is chosen.
//
//   prepared          train   eval
//   planned apart     train | -          each module keeps the state of both, in the same order, so that it
//                     -     | eval       lies at the same place; arena: the larger of the two
//   joined            train   eval
//
// Evaluation keeps nothing for a backward and cannot be told to take less by recomputation. What it takes grows
// with its batch, which need not be the step's: where a whole batch does not fit a budget, it runs in parts.
#pragma once

#include "passes/plan/Candidate.h"

#include <map>
#include <vector>

namespace stow {

/// What a note begins with that says in which parts a batch is evaluated.
inline constexpr llvm::StringLiteral kPartsNote = "evaluation runs on ";

/// Evaluation in parts of the step's batch, which only the model's source knows. Asked for where a whole batch
/// does not fit. Default: there is none.
struct EvaluationParts {
  /// Samples of one part by falling size, each a divisor of those of a whole batch and below it.
  std::function<std::vector<int64_t>(int64_t whole)> sizes = [](int64_t) {
    return std::vector<int64_t>();
  };
  /// `prepared` with @eval for `size` samples, and with nothing of the step but its state. Null where the model
  /// has no such part.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp prepared, int64_t size)> at = {};
  /// Why there are no sizes, once they were asked for; empty where there are.
  std::function<std::string()> obstacle = [] { return std::string(); };
};

/// A copy without the ops of the graphs of a step, or of all others.
mlir::OwningOpRef<mlir::ModuleOp> withoutStep(mlir::ModuleOp prepared);
mlir::OwningOpRef<mlir::ModuleOp> withoutEvaluation(mlir::ModuleOp prepared);

/// Puts a copy of the graph `evaluation` in the place of `step`'s @eval.
void replaceEvaluation(mlir::func::FuncOp evaluation, mlir::ModuleOp step);

/// @eval of a module, in the sizes that were asked for.
class EvaluationPlanner {
public:
  /// All must outlive the planner. Throws Error(Internal) where the checks refuse an evaluation.
  EvaluationPlanner(mlir::ModuleOp prepared, const CostModel &costs, const Target &target,
                    EvaluationParts parts, CandidateOptions options);

  /// Of a whole batch; 0 where there is no evaluation.
  Bytes wholeBytes() const { return whole ? whole->arenaBytes : 0; }

  /// True where the evaluation fits, whole or in parts.
  bool fits(Bytes budget) { return !whole || within(budget); }

  /// The smallest budget that is known to suffice and is no smaller than `budget`.
  Bytes leastFrom(Bytes budget);

  /// Where an evaluation that does not fit cannot run in parts: how much it takes, and why. Else empty.
  std::string obstacleTo(Bytes budget);

  /// No evaluation in parts of any size takes less.
  Bytes lowerBound();

  /// `choice`, a step without evaluation, with the one in the largest parts that are within the budget.
  StepChoice joinedWithin(Bytes budget, StepChoice choice);

  /// With that of a whole batch.
  StepChoice joinedWhole(StepChoice choice) const;

  /// Gives `step`, in the ordered form, the evaluation of `placed`.
  void orderLike(mlir::ModuleOp placed, mlir::ModuleOp step) const;

private:
  struct Placed {
    int64_t size = 0; ///< samples
    mlir::OwningOpRef<mlir::ModuleOp> prepared, placed;
    Bytes arenaBytes = 0, lowerBound = 0;
  };

  Placed place(int64_t size, mlir::OwningOpRef<mlir::ModuleOp> prepared) const;
  const Placed *within(Bytes budget);
  const Placed *partOf(int64_t size);
  const std::vector<int64_t> &sizes();
  StepChoice joined(StepChoice choice, const Placed &evaluation) const;

  const CostModel costs;
  const Target &target;
  const EvaluationParts parts;
  const CandidateOptions options;
  mlir::ModuleOp prepared;
  std::optional<Placed> whole;
  std::optional<std::vector<int64_t>> knownSizes;
  std::map<int64_t, std::optional<Placed>> known; ///< by samples; absent: there is no such part
};

} // namespace stow
