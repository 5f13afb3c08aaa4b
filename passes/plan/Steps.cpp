#include "passes/plan/Steps.h"

#include "runtime/base/Error.h"

#include <utility>

using namespace mlir;

namespace stow {

ModelStep::ModelStep(StepVariant variant, PreparedStep prepared, CostModel costs,
                     BudgetOptions planning, std::vector<Diagnostic> said)
    : variant(std::move(variant)), costs(std::move(costs)), prepared(std::move(prepared)),
      planning(std::move(planning)), said(std::move(said)) {
  this->planning.evaluation = this->prepared.evaluation;
}

BudgetPlanner &ModelStep::planner() {
  if (!budgetPlanner)
    budgetPlanner = std::make_unique<BudgetPlanner>(module(), costs, target(), std::move(planning));
  return *budgetPlanner;
}

void ModelStep::say() {
  for (Diagnostic &diagnostic : std::exchange(said, {}))
    module().getContext()->getDiagEngine().emit(std::move(diagnostic));
}

Steps::Steps(MLIRContext &context, StepSource &source, BudgetOptions planning)
    : source(source), context(context), planning(std::move(planning)) {}

std::shared_ptr<ModelStep> Steps::at(const StepVariant &asked, Times times) {
  if (asked.precision == Precision::F32 || asked.shape > 0)
    return exactly(asked, times);
  auto found = storedTypes.find(asked);
  if (found == storedTypes.end()) {
    const std::shared_ptr<ModelStep> chosen = withStoredTypes(asked);
    found = storedTypes.try_emplace(asked, chosen->variant, chosen->leftWide).first;
    if (times == Times::Sheet)
      return chosen;
  }
  std::shared_ptr<ModelStep> step = exactly(found->second.variant, times);
  step->leftWide = found->second.leftWide;
  return step;
}

std::shared_ptr<ModelStep> Steps::inF32(const ModelStep &step) {
  return step.variant.precision == Precision::F32 ? nullptr : inF32(step.variant);
}

std::shared_ptr<ModelStep> Steps::inF32(StepVariant variant) {
  variant.precision = Precision::F32;
  variant.wideNodes.clear();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  try {
    return exactly(variant);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::BadInput)
      throw;
    return nullptr;
  }
}

std::shared_ptr<ModelStep> Steps::exactly(const StepVariant &variant, Times times) {
  std::weak_ptr<ModelStep> &held = known[{variant, times}];
  if (std::shared_ptr<ModelStep> step = held.lock())
    return step;
  std::vector<Diagnostic> said;
  PreparedStep prepared;
  {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      const bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
      if (!isError)
        said.push_back(std::move(diagnostic));
      return success(!isError);
    });
    prepared = source.prepare(variant);
  }
  CostModel costs = source.weigh(prepared, times);
  auto step = std::make_shared<ModelStep>(variant, std::move(prepared), std::move(costs), planning,
                                          std::move(said));
  held = step;
  return step;
}

} // namespace stow
