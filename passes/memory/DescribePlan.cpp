#include "passes/memory/DescribePlan.h"

#include "ir/StepGraphs.h"
#include "ir/StowOffloadOps.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <cmath>

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
        if (isa_and_nonnull<ElementsAttr>(graph.getArgAttr(argument.getArgNumber(), kInitAttr))) {
          const RankedTensorType away = slowStateOf(argument); // which the executable has as well
          initialValues += storedBytesOf(away ? Type(away) : argument.getType());
        }
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

/// Where a next batch comes while the step still runs, and beside how much of it.
static std::string noteOnNextInputs(ModuleOp module, const Plan &plan) {
  func::FuncOp graph = stepGraph(module);
  const GraphPlan *planned = findStepGraph(plan);
  if (!graph || !planned)
    return "";
  Bytes bytes = 0;
  for (BlockArgument argument : graph.getArguments())
    if (graph.getArgAttr(argument.getArgNumber(), kNextOffsetAttr))
      bytes += storedBytesOf(argument.getType());
  if (bytes == 0)
    return "";
  size_t first = 0;
  for (Operation &op : graph.getBody().front()) {
    if (op.hasAttr(kNextInputsAttr))
      break;
    first += !opsOfCommand(&op).empty();
  }
  double seconds = 0, beside = 0;
  for (auto [number, step] : llvm::enumerate(planned->steps)) {
    seconds += step.seconds;
    beside += number >= first ? step.seconds : 0;
  }
  std::string text =
      absl::StrCat("the next batch, ", formatBytesExact(bytes), ", comes beside commands ", first,
                   " to ", planned->stepCount - 1, ", in bytes that they leave free");
  if (seconds > 0)
    absl::StrAppend(&text, ": ", std::lround(100 * beside / seconds), " % of the step's time");
  return text;
}

Plan describePlan(ModuleOp module, OpSeconds secondsOf) {
  Plan plan;
  if (auto name = module.getSymName())
    plan.model = name->str();
  plan.batchesPerStep = batchesPerStep(module);
  plan.devices = devicesOf(module);
  plan.arenaBytes = bytesAttr(module, kArenaBytesAttr);
  plan.persistentBytes = bytesAttr(module, kPersistentBytesAttr);
  plan.lowerBoundBytes = bytesAttr(module, kLowerBoundAttr);
  plan.logicalBoundBytes = bytesAttr(module, kLogicalBoundAttr);
  plan.alignment = bytesAttr(module, kAlignmentAttr);
  plan.workspaceAlignment = module->hasAttr(kWorkspaceAlignmentAttr)
                                ? bytesAttr(module, kWorkspaceAlignmentAttr)
                                : plan.alignment;
  plan.status = statusOf(plan.arenaBytes, plan.lowerBoundBytes);
  plan.withoutRecomputeBytes = plan.arenaBytes;
  plan.slowBytes = bytesAttr(module, kSlowBytesAttr);
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
  if (std::string note = noteOnNextInputs(module, plan); !note.empty())
    plan.notes.push_back(std::move(note));
  return plan;
}

} // namespace stow
