#include "passes/plan/Halves.h"

#include "ir/StepGraphs.h"
#include "passes/plan/Stages.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

StringAttr nameOf(func::FuncOp graph, unsigned argument) {
  return graph.getArgAttrOfType<StringAttr>(argument, kNameAttr);
}

/// Arguments for state that `graph` lacks, in the order in which the other graphs have it.
void addStateOf(ModuleOp others, func::FuncOp graph) {
  llvm::DenseSet<Attribute> known;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    known.insert(nameOf(graph, i));
  for (auto other : others.getOps<func::FuncOp>())
    for (unsigned i = 0; i < other.getNumArguments(); ++i)
      if (isStateArgument(other, i) && known.insert(nameOf(other, i)).second)
        (void)graph.insertArgument(graph.getNumArguments(), other.getArgument(i).getType(),
                                   other.getArgAttrDict(i), other.getArgument(i).getLoc());
}

/// Where state lies that the graphs of `module` name.
llvm::StringMap<int64_t> stateOffsets(ModuleOp module) {
  llvm::StringMap<int64_t> offsets;
  for (auto graph : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (auto offset = graph.getArgAttrOfType<IntegerAttr>(i, kOffsetAttr))
        if (isStateArgument(graph, i))
          offsets[nameOf(graph, i).getValue()] = offset.getInt();
  return offsets;
}

} // namespace

StepHalves splitHalves(ModuleOp prepared) {
  StepHalves halves = {cast<ModuleOp>(prepared->clone()), cast<ModuleOp>(prepared->clone())};
  for (auto graph : llvm::make_early_inc_range(halves.first->getOps<func::FuncOp>()))
    if (roleOf(graph) != Role::Accumulate)
      graph.erase();
  findGraph(*halves.last, Role::Accumulate).erase();
  addStateOf(*halves.last, stepGraph(*halves.first));
  return halves;
}

void joinGraphs(ModuleOp first, ModuleOp last) {
  const llvm::StringMap<int64_t> known = stateOffsets(last);
  for (const auto &[name, offset] : stateOffsets(first))
    if (known.lookup(name) != offset)
      throw Error::internal("the halves of the step disagree on where \"" + name.str() + "\" lies");
  auto graph = cast<func::FuncOp>(stepGraph(first)->clone());
  OpBuilder builder(last.getContext());
  builder.setInsertionPointAfter(stepGraph(last));
  builder.insert(graph);
}

StepChoice joinChoices(StepChoice first, StepChoice last, int64_t repeats) {
  last.firstSolution = std::move(first.solution);
  last.firstWithCopies = std::move(first.withCopies);
  last.method = last.method == "keep all" ? first.method : last.method;
  last.time += repeats * first.time;
  last.livePeakBytes = std::max(first.livePeakBytes, last.livePeakBytes);
  last.arenaBytes = std::max(first.arenaBytes, last.arenaBytes);
  if (last.isRefused()) {
    last.placed = nullptr;
    return last;
  }
  joinGraphs(*first.placed, *last.placed);
  takeLargerBytes(*first.placed, *last.placed);
  runStage(*last.placed, "order", addPlacedChecks);
  return last;
}

} // namespace stow
