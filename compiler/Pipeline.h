// The compiler as a story, first half: from a model file to a step with kernels. What follows, for one plan or for many, is
// asked of passes/plan (Compile.h).
#pragma once

#include "codegen/Backend.h"
#include "compiler/MeasuredCosts.h"
#include "compiler/Options.h"
#include "passes/order/CostModel.h"
#include "passes/plan/StepVariant.h"

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

/// Reads an .onnx or .mlir file; `tensors` is filled in. Throws Error after diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(mlir::MLIRContext &context, const std::string &path,
                                            const ImportOptions &import, ImportReport &tensors);

/// The device that a compilation is for. Throws Error(BadInput).
std::unique_ptr<Backend> chooseBackend(const CompileOptions &options);

/// The step that the flags name, with kAny where they leave an axis open.
StepVariant variantOf(const CompileOptions &options);

/// Rewrites of the model that change neither values nor gradients, rounding aside.
void addModelPasses(mlir::PassManager &manager, const Target &target);

/// From the step form on: layouts, fused kernels, workspaces.
void addKernels(mlir::ModuleOp step, const Target &target);

/// From the step form to what BudgetPlanner takes.
void finishStep(mlir::ModuleOp step, const CompileOptions &options, const Backend &backend);

/// Lets so much of the state lie in slow memory, in steps over one state, the largest first. Throws Error(BadInput) where that has no room
/// for it.
void sendStates(llvm::ArrayRef<mlir::ModuleOp> steps, int64_t percent,
                const CompileOptions &options);

/// The model form of a variant, as it is read; `tensors` is filled in. It depends on the variant's shape and samples alone. Throws Error
/// after diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> modelOf(mlir::MLIRContext &context, const CompileOptions &options,
                                          const StepVariant &variant, const Backend &backend,
                                          StageTimer &timer, ImportReport &tensors);

/// From the model form to the form `last`: nothing, the step form, or that fused, with layouts and workspaces, which BudgetPlanner takes.
/// `divisorTerms` as in stow-separate-divisor: of another shape of the same step, whose sums are the same. Throws Error after diagnostics.
void makeStep(mlir::ModuleOp model, const CompileOptions &options, const StepVariant &variant,
              const Backend &backend, Form last, StageTimer &timer, int64_t divisorTerms = 0);

/// Both at once.
mlir::OwningOpRef<mlir::ModuleOp> formOf(mlir::MLIRContext &context, const CompileOptions &options,
                                         const StepVariant &variant, const Backend &backend,
                                         Form last);

/// Throws Error(BadInput) where the variant leaves a choice open that only the search for a plan settles.
void refuseOpenAxes(const StepVariant &variant);

/// Those of the step that the flags name.
mlir::OwningOpRef<mlir::ModuleOp>
prepareStep(mlir::MLIRContext &context, const CompileOptions &options, const Backend &backend);
mlir::OwningOpRef<mlir::ModuleOp> stepForm(mlir::MLIRContext &context,
                                           const CompileOptions &options, const Backend &backend);

/// The data sheet that weighs plans. Throws Error(BadInput).
CostModel sheetOf(const CompileOptions &options, const Backend &backend);

/// What the ops of a prepared step cost: by `options.profile`, which annotates them, or by a data
/// sheet. What is measured now is added to `measured`, that of the command's steps so far. Throws Error.
CostModel weighStep(mlir::ModuleOp prepared, const CompileOptions &options, const Backend &backend,
                    MeasuredCosts &measured);

/// Where a plan that the checks refuse is written: beside the output, or in the working folder.
std::string refusedPathOf(const CompileOptions &options);

} // namespace stow
