// The compiler as a story: from a model file to the placed form. Its first half ends at the step
// with kernels; what follows, for one plan or for many, is passes/plan.
#pragma once

#include "codegen/Backend.h"
#include "compiler/Options.h"
#include "passes/order/CostModel.h"
#include "passes/plan/Budget.h"
#include "passes/plan/MaxBatch.h"
#include "runtime/format/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stow {

/// Seconds by stage, in the order of their first start.
class StageTimer {
public:
  /// Ends the current stage and starts `name`, again if it has been there.
  void start(const std::string &name);
  void stop();
  const std::vector<std::pair<std::string, double>> &stages() const { return seconds; }

private:
  std::chrono::steady_clock::time_point since;
  std::vector<std::pair<std::string, double>> seconds;
  size_t current = 0;
  bool running = false;
};

struct CompiledPlan {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< the form asked for; Placed for Program
  Plan plan;                                ///< filled in from Placed on
  ImportReport tensors;                     ///< what became of the model's tensors
  std::unique_ptr<Backend> backend;         ///< that the plan is for
};

/// Reads an .onnx or .mlir file; `tensors` is filled in. Throws Error after diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(mlir::MLIRContext &context,
                                            const CompileOptions &options, ImportReport &tensors);

/// The device that a compilation is for. Throws Error(BadInput).
std::unique_ptr<Backend> chooseBackend(const CompileOptions &options);

/// What the ops of a prepared step cost: by `options.profile`, which annotates them, or by a data
/// sheet. Throws Error.
CostModel weighStep(mlir::ModuleOp prepared, const CompileOptions &options, const Backend &backend);

/// Where a plan that the checks refuse is written: beside the output, or in the working folder.
std::string refusedPathOf(const CompileOptions &options);

/// What the checks refused is no plan, but a defect to be reported: a warning, or Error(Internal)
/// where a refused plan might have met the budget that no other met.
void reportRefusals(const std::vector<Refusal> &refusals, std::optional<Bytes> unmetBudget);

/// Writes --save-problem. Throws Error(BadInput).
void saveProblem(const BudgetPlanner &planner, const CompileOptions &options);

/// The model up to the step form. Throws Error after diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> stepForm(mlir::MLIRContext &context,
                                           const CompileOptions &options, const Backend &backend);

/// Rewrites of the model that change neither values nor gradients, rounding aside.
void addModelPasses(mlir::PassManager &manager, const Target &target);

/// From the step form on: layouts, fused kernels, workspaces.
void addKernels(mlir::ModuleOp step, const Target &target);

/// The model up to the step form, fused, with layouts and workspaces: what BudgetPlanner takes. `options` are those of one
/// graph run (perBatch), whose types are not chosen here: nothing but `options.wide` stays in f32.
mlir::OwningOpRef<mlir::ModuleOp>
prepareStep(mlir::MLIRContext &context, const CompileOptions &options, const Backend &backend);

/// A prepared step with a planner of its own.
struct StepWithPlanner {
  CompileOptions options; ///< of one graph run
  std::unique_ptr<Backend> backend;
  mlir::OwningOpRef<mlir::ModuleOp> prepared;
  ImportReport tensors; ///< what became of the model's tensors
  CostModel costs;
  std::unique_ptr<BudgetPlanner> planner;
};

/// The step of `options` as prepareStep takes them. Throws Error after diagnostics.
StepWithPlanner stepWithPlanner(mlir::MLIRContext &context, const CompileOptions &options,
                                StageTimer &timer, BudgetOptions planning = {});

/// What passes/plan asks about other batches of a model: its prepared steps, each with what of it stays in f32.
/// `options` are those of one graph run but for the batch. `context` and they must outlive the question.
BatchQuestion aboutBatches(mlir::MLIRContext &context, const CompileOptions &options, Bytes budget);

/// Runs the pipeline up to `options.stopAfter` (Program stops at Placed: code is the caller's).
/// Throws Error after diagnostics have been printed. `planning` is for tests.
CompiledPlan compileToPlan(mlir::MLIRContext &context, const CompileOptions &options,
                           StageTimer &timer, BudgetOptions planning = {});

} // namespace stow
