// The compiler as a story, second half: one question to passes/plan, and its answer as a plan.
#pragma once

#include "compiler/ModelSteps.h"

namespace stow {

struct CompiledPlan {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< the form asked for; Placed for Program
  Plan plan;                                ///< filled in from Placed on
  std::shared_ptr<Backend> backend;         ///< that the plan is for
  std::unique_ptr<ModelSteps> steps;        ///< of the model; outlives `step`
  std::shared_ptr<ModelStep> step;          ///< that was taken, from Ordered on
};

/// What the checks refused is no plan, but a defect to be reported: a warning, or Error(Internal)
/// where a refused plan might have met the budget that no other met.
void reportRefusals(const std::vector<Refusal> &refusals, std::optional<Bytes> unmetBudget);

/// Writes --save-problem. Throws Error(BadInput).
void saveProblem(const BudgetPlanner &planner, const CompileOptions &options);

/// Fills in the batch, the rows of the first input that is data, into how many parts evaluation divides it, and the batches of
/// all shapes, of a program whose graphs have their inputs. Inputs of other sizes are read whole.
void setBatches(Program &program, const CompileOptions &options);

/// Runs the pipeline up to `options.stopAfter` (Program stops at Placed: code is the caller's).
/// Throws Error after diagnostics have been printed. All must outlive the result. `planning` is for tests.
CompiledPlan compileToPlan(mlir::MLIRContext &context, const CompileOptions &options,
                           StageTimer &timer, BudgetOptions planning = {});

} // namespace stow
