// The steps of a model, one per variant: what every question about memory is asked of.
//
//   variant --> StepSource --> prepared step, its costs --> BudgetPlanner     each made when it is first asked for, and
//                                                                             again only where nobody holds it any more
//
// A variant in 16 bits stands for the one whose nodes are left in f32 where that is needed (StoredTypes.cpp).
#pragma once

#include "passes/plan/Budget.h"
#include "passes/plan/StepVariant.h"

#include "mlir/IR/Diagnostics.h"

#include <map>
#include <memory>

namespace stow {

/// A step up to what BudgetPlanner takes: fused, with layouts and workspaces.
struct PreparedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  EvaluationParts evaluation;           ///< the parts in which its evaluation may run
  std::shared_ptr<const Target> target; ///< that it is for, with what it found out about this step
};

/// What plans are weighed by.
enum class Times {
  Sheet, ///< a data sheet
  Asked, ///< what the user wants: that, or times measured in this process
};

/// Where steps come from: the only thing that the planner asks of the compiler.
class StepSource {
public:
  virtual ~StepSource() = default;

  /// Every axis of the variant is settled. Throws Error after diagnostics; Error(BadInput) where the model, or the device, has
  /// no such step.
  virtual PreparedStep prepare(const StepVariant &variant) = 0;

  /// May note measured times in the step.
  virtual CostModel weigh(const PreparedStep &prepared, Times times) = 0;

  /// What the device can do beside the commands of a plan, or with several of them, at the offsets as they are.
  virtual void finish(mlir::ModuleOp placed, const Target &target) = 0;
};

/// What of a step in 16 bits is left in f32, so that it takes no more memory than in f32; nothing where it is faster in 16 bits, on GPUs:
/// where it takes more memory then, both arenas are noted.
struct LeftWide {
  bool all = false;               ///< the step is the one in f32
  std::vector<std::string> nodes; ///< patterns
  Bytes narrowBytes = 0;          ///< the arena with everything kept and nothing left in f32
  Bytes wideBytes = 0;            ///< likewise of the step in f32

  bool isAny() const { return all || !nodes.empty(); }
};

/// The step of a variant with its planner.
class ModelStep {
public:
  ModelStep(StepVariant variant, PreparedStep prepared, CostModel costs, BudgetOptions planning,
            std::vector<mlir::Diagnostic> said);

  /// Made at the first call.
  BudgetPlanner &planner();

  mlir::ModuleOp module() const { return *prepared.module; }
  const EvaluationParts &evaluation() const { return prepared.evaluation; }
  const Target &target() const { return *prepared.target; }

  /// Repeats the warnings and remarks of its preparation, once.
  void say();

  const StepVariant variant;
  const CostModel costs;
  LeftWide leftWide;

private:
  PreparedStep prepared;
  BudgetOptions planning;
  std::vector<mlir::Diagnostic> said;
  std::unique_ptr<BudgetPlanner> budgetPlanner;
};

class Steps {
public:
  /// Both must outlive the steps. `planning` is of every planner but for its evaluation.
  Steps(mlir::MLIRContext &context, StepSource &source, BudgetOptions planning);

  /// The step of `asked`; of one in 16 bits what stays in f32 is chosen, which depends on the step alone: no budget changes what
  /// is rounded, and no shape but the largest: the others leave what that one does. Throws as StepSource::prepare.
  std::shared_ptr<ModelStep> at(const StepVariant &asked, Times times = Times::Sheet);

  /// The same step in f32; null where it is that one, or where the device has no way to run it.
  std::shared_ptr<ModelStep> inF32(const ModelStep &step);

  /// The step of `variant` as it is, whatever its types cost. Throws as StepSource::prepare.
  std::shared_ptr<ModelStep> exactly(const StepVariant &variant, Times times = Times::Sheet);

  StepSource &source;

private:
  struct Stored {
    StepVariant variant;
    LeftWide leftWide;
  };

  std::shared_ptr<ModelStep> inF32(StepVariant variant);

  /// The step to take for `asked`, which is in 16 bits, by a data sheet (StoredTypes.cpp).
  std::shared_ptr<ModelStep> withStoredTypes(const StepVariant &asked);

  mlir::MLIRContext &context;
  const BudgetOptions planning;
  std::map<std::pair<StepVariant, Times>, std::weak_ptr<ModelStep>> known;
  std::map<StepVariant, Stored> storedTypes; ///< by what was asked for in 16 bits
};

} // namespace stow
