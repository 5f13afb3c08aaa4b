#include "passes/memory/Launches.h"

#include "ir/StowShapeOps.h"
#include "passes/memory/Passes.h"

using namespace mlir;

namespace stow {
namespace {

bool anyOverlap(ArrayRef<ArenaRange> a, ArrayRef<ArenaRange> b) {
  return llvm::any_of(a, [&](const ArenaRange &x) {
    return llvm::any_of(b, [&](const ArenaRange &y) { return x.overlaps(y); });
  });
}

void raiseTo(Operation *op, StringRef name, Bytes least) {
  if (bytesAttr(op, name) < least)
    op->setAttr(name, Builder(op).getI64IntegerAttr(least));
}

} // namespace

bool PlacedLaunch::commutesWith(const PlacedLaunch &other) const {
  return !anyOverlap(writes, other.writes) && !anyOverlap(writes, other.reads) &&
         !anyOverlap(reads, other.writes);
}

std::vector<PlacedLaunch> launchesOf(func::FuncOp graph) {
  const Liveness liveness(graph);
  const llvm::DenseMap<Value, Bytes> offsets = arenaOffsets(graph);
  auto rangeOf = [&](Value value) -> ArenaRange {
    const Bytes begin = offsets.lookup(value);
    if (!layoutOf(value.getType()).pitch)
      return {begin, begin + storedBytesOf(value.getType())};
    const Bytes whole = begin - liveness.offsetOf(value);
    return {whole, whole + liveness.storages()[liveness.storageOf(value)].size};
  };
  std::vector<PlacedLaunch> launches;
  for (Operation &op : graph.getBody().front()) {
    if (launchesNothing(&op))
      continue;
    PlacedLaunch launch;
    launch.op = &op;
    for (Value operand : op.getOperands())
      if (!operand.getDefiningOp<ConstantOp>())
        launch.reads.push_back(rangeOf(operand));
    for (Value result : op.getResults())
      launch.writes.push_back(rangeOf(result));
    if (const Bytes bytes = bytesAttr(&op, kWorkspaceAttr)) {
      const Bytes begin = bytesAttr(&op, kWorkspaceOffsetAttr);
      launch.writes.push_back({begin, begin + bytes});
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

LogicalResult requirePlaced(ModuleOp module) {
  auto form = module->getAttrOfType<StringAttr>(kFormAttr);
  if (form && form.getValue() == "placed")
    return success();
  return module.emitError() << "expects stow.form = \"placed\"; run stow-pack-buffers first";
}

void raiseLowerBounds(ModuleOp module) {
  const Bytes persistent = bytesAttr(module, kPersistentBytesAttr);
  for (auto graph : module.getOps<func::FuncOp>()) {
    const Bytes live = persistent + Liveness(graph).transientPeak();
    raiseTo(graph, kLowerBoundAttr, live);
    raiseTo(module, kLowerBoundAttr, live);
  }
}

} // namespace stow
