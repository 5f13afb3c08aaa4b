// The steps of one model: what passes/plan asks the compiler for, and what the command line asks passes/plan.
#pragma once

#include "compiler/Pipeline.h"
#include "passes/plan/MaxBatch.h"
#include "passes/plan/Question.h"

namespace stow {

/// The step that the flags name: kAny where they leave an axis open. Of several batches the samples are known, and divide; throws
/// Error(BadInput) where they do not, or where the model's batch cannot be chosen.
StepVariant askedVariant(mlir::MLIRContext &context, const CompileOptions &options);

/// All that the flags ask about it. Throws as askedVariant. `options` must outlive the question.
StepQuestion questionOf(mlir::MLIRContext &context, const CompileOptions &options);

/// What threads that copy to slow memory take beside the arena, of all graphs of `placed` together; 0 where nothing travels, or where
/// what lies outside is stated.
Bytes outsideOfCopies(mlir::ModuleOp placed, const CompileOptions &options);

class ModelSteps : public StepSource {
public:
  /// All must outlive the steps.
  ModelSteps(mlir::MLIRContext &context, const CompileOptions &options, StageTimer &timer,
             BudgetOptions planning = {});

  PreparedStep prepare(const StepVariant &variant) override;
  CostModel weigh(const PreparedStep &prepared, Times times) override;
  void finish(mlir::ModuleOp placed, const Target &target) override;

  /// A variant up to its model or step form, without kernels. Throws Error after diagnostics.
  mlir::OwningOpRef<mlir::ModuleOp> form(const StepVariant &variant, Form last);

  /// That a step was prepared for: one for each, as it learns about the calls of its step.
  std::shared_ptr<Backend> backendOf(const Target &target) const;

  /// What became of the model's tensors in that step.
  const ImportReport &tensorsOf(const Target &target) const { return held(target).tensors; }

  /// Samples of a step in a shape: those of its batch axis, or else `given`, that all shapes have.
  std::optional<int64_t> samplesIn(int64_t shape, std::optional<int64_t> given) const;

  Steps steps;

private:
  struct Held {
    std::weak_ptr<Backend> backend;
    ImportReport tensors;
  };
  const Held &held(const Target &target) const;

  struct Said {
    mlir::Location location;
    mlir::DiagnosticSeverity severity;
    std::string text;
  };

  /// What was read of the model for a shape and its samples per run, from which variants that differ in other things all begin.
  struct Model {
    std::pair<int64_t, std::optional<int64_t>> key; ///< shape and samples
    mlir::OwningOpRef<mlir::ModuleOp> form;
    ImportReport tensors;
    std::vector<Said>
        said; ///< warnings and remarks, which every variant repeats: what the chosen one says is shown
  };
  const Model &model(const StepVariant &variant, const Backend &backend);
  /// A variant up to the form `last`; the rest as makeStep has it.
  mlir::OwningOpRef<mlir::ModuleOp> formOf(const StepVariant &variant, const Backend &backend,
                                           Form last, int64_t divisorTerms = 0);

  /// The steps of all shapes, over one state: prepared together, since each holds what any of them keeps.
  struct Family {
    std::shared_ptr<Backend> backend;
    std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules; ///< by shape
  };
  Family prepareFamily(const StepVariant &largest);
  PreparedStep ofFamily(const StepVariant &variant);

  mlir::MLIRContext &context;
  const CompileOptions &options;
  StageTimer &timer;
  std::optional<Model> latest;
  std::vector<Held> heldSteps;
  std::map<StepVariant, Family> families; ///< by the variant in the largest shape
  MeasuredCosts measured;                 ///< of the steps weighed so far, each kernel once
};

} // namespace stow
