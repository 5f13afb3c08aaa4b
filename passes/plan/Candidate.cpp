#include "passes/plan/Candidate.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Stages.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace stow {
namespace {

/// What is said instead of success, or nothing.
std::optional<std::string> failureOf(ModuleOp module, llvm::function_ref<LogicalResult()> act) {
  std::string said;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (said.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      said = sourcePlaceOf(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  if (succeeded(act()))
    return std::nullopt;
  return said.empty() ? "a pass failed without a word" : said;
}

/// The same of passes, whose work is verified with the whole candidate.
std::optional<std::string> failureOf(ModuleOp module,
                                     llvm::function_ref<void(PassManager &)> addPasses) {
  return failureOf(module, [&] {
    PassManager manager(module.getContext());
    manager.enableVerifier(false);
    addPasses(manager);
    return manager.run(module);
  });
}

/// The module as text. Initial values, which no check reads and which may be anyone's weights, are
/// zeros.
std::string textWithoutWeights(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  for (auto graph : copy->getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      auto init = graph.getArgAttrOfType<ElementsAttr>(argument.getArgNumber(), kInitAttr);
      if (type && init)
        graph.setArgAttr(argument.getArgNumber(), kInitAttr,
                         DenseElementsAttr::get(cast<ShapedType>(init.getType()),
                                                Builder(graph).getZeroAttr(type.getElementType())));
    }
  std::string text;
  llvm::raw_string_ostream out(text);
  copy->print(out, OpPrintingFlags().enableDebugInfo(true, false));
  return text;
}

} // namespace

StepChoice CandidateMaker::make(const std::string &method, OwningOpRef<ModuleOp> ordered,
                                int64_t packingWork, Bytes wantedLive, Bytes enough) {
  ModuleOp module = *ordered;
  StepChoice choice;
  choice.method = method;
  auto share = [&](PassManager &manager) { addSharePasses(manager, target, wantedLive); };
  if (auto finding = failureOf(module, share))
    return refuse(std::move(choice), module, *finding);
  auto graph = stepGraph(module);
  const CostModel::GraphTime time = costs.timeOf(graph);
  choice.time = time.total();
  choice.exposed = time.exposed;
  Liveness liveness(graph);
  choice.livePeakBytes = liveness.transientPeak() + liveness.stateBytes();
  auto pack = [&](PassManager &manager) {
    PackBuffersPassOptions packing = packingFor(target);
    packing.work = packingWork;
    packing.enough = enough;
    addPackPasses(manager, packing);
  };
  if (auto finding = failureOf(module, pack))
    return refuse(std::move(choice), module, *finding);
  if (options.afterPacking)
    options.afterPacking(module);
  if (auto finding = failureOf(module, [&] { return verify(module); }))
    return refuse(std::move(choice), module, *finding);
  if (auto finding = failureOf(module, addPlacedChecks))
    return refuse(std::move(choice), module, *finding);
  choice.arenaBytes = bytesAttr(module, kArenaBytesAttr);
  choice.placed = std::move(ordered);
  return choice;
}

StepChoice CandidateMaker::refuse(StepChoice choice, ModuleOp module, std::string finding) {
  Refusal refusal = {choice.method, std::move(finding), bytesAttr(module, kArenaBytesAttr), ""};
  if (refused.empty() && !options.refusedPath.empty()) {
    try {
      writeFile(options.refusedPath, textWithoutWeights(module));
      refusal.path = options.refusedPath;
    } catch (const Error &error) {
      refusal.finding +=
          " (and the plan cannot be written to a file: " + std::string(error.what()) + ")";
    }
  }
  refused.push_back(std::move(refusal));
  choice.arenaBytes = StepChoice::refusedBytes;
  return choice;
}

std::string describe(const Refusal &refusal) {
  std::string text = refusal.finding +
                     "\n  this is a defect of the planner and not of the model; please report it";
  if (!refusal.path.empty())
    text += " with the file " + refusal.path +
            ", which holds the refused plan without weights (stowage-opt --stow-verify-placed "
            "shows the same)";
  return text;
}

} // namespace stow
