#include "passes/memory/DescribePlan.h"

#include "ir/StepGraphs.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Passes.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

std::string statusOf(Bytes arena, Bytes bound) {
  if (arena == bound)
    return "optimal";
  return absl::StrFormat("within %.3g %% of optimal",
                         100.0 * static_cast<double>(arena - bound) / static_cast<double>(bound));
}

} // namespace

/// What a plan adds to the fixed part of the memory beside the arena: the library's code for each call,
/// the initial values in the executable, and the heap of library calls that cannot do without.
static Bytes outsideOfPlan(ModuleOp module) {
  Bytes initialValues = 0, calls = 0;
  module.walk([&](Operation *op) { calls += op->hasAttr(kLibraryCallAttr); });
  for (auto graph : module.getOps<func::FuncOp>())
    if (graph == stepGraph(module))
      for (BlockArgument argument : graph.getArguments())
        if (isa_and_nonnull<ElementsAttr>(graph.getArgAttr(argument.getArgNumber(), kInitAttr)))
          initialValues += storedBytesOf(argument.getType());
  return bytesAttr(module, kOutsidePerCallAttr) * calls + initialValues +
         bytesAttr(module, kLibraryHeapAttr);
}

/// Where the ways to run calls are a choice, they were asked for before anything lay inside a
/// concatenation.
static std::string noteOnGaps(ModuleOp module) {
  size_t calls = 0;
  module.walk([&](Operation *op) {
    auto hasGaps = [](Type type) { return layoutOf(type).pitch.has_value(); };
    calls += op->hasAttr(kImplementationsAttr) && (llvm::any_of(op->getOperandTypes(), hasGaps) ||
                                                   llvm::any_of(op->getResultTypes(), hasGaps));
  });
  return calls == 0
             ? ""
             : absl::StrCat(calls, " library calls read or write inside concatenations; "
                                   "their implementations are those for tensors without gaps");
}

Plan describePlan(ModuleOp module, OpSeconds secondsOf) {
  Plan plan;
  if (auto name = module.getSymName())
    plan.model = name->str();
  plan.batchesPerStep = batchesPerStep(module);
  plan.arenaBytes = bytesAttr(module, kArenaBytesAttr);
  plan.persistentBytes = bytesAttr(module, kPersistentBytesAttr);
  plan.lowerBoundBytes = bytesAttr(module, kLowerBoundAttr);
  plan.logicalBoundBytes = bytesAttr(module, kLogicalBoundAttr);
  plan.alignment = bytesAttr(module, kAlignmentAttr);
  plan.status = statusOf(plan.arenaBytes, plan.lowerBoundBytes);
  plan.withoutRecomputeBytes = plan.arenaBytes;
  plan.outsideArenaBytes = bytesAttr(module, kOutsideBytesAttr);
  if (auto note = module->getAttrOfType<StringAttr>(kOutsideNoteAttr))
    plan.outsideNote = note.str();
  if (module->hasAttr(kOutsidePerCallAttr))
    plan.outsideArenaBytes += outsideOfPlan(module);
  if (auto notes = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    for (Attribute note : notes)
      plan.notes.push_back(cast<StringAttr>(note).str());
  if (std::string note = noteOnGaps(module); !note.empty())
    plan.notes.push_back(std::move(note));
  for (auto graph : module.getOps<func::FuncOp>())
    plan.graphs.push_back(describeGraph(graph, secondsOf));
  for (const GraphPlan &graph : plan.graphs)
    plan.livePeakBytes = std::max(plan.livePeakBytes, fullestBytes(plan, graph));
  return plan;
}

} // namespace stow
