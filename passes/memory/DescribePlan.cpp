#include "passes/memory/DescribePlan.h"

#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include <algorithm>
#include <cstdio>

using namespace mlir;

namespace stow {
namespace {

Bytes bytesAttr(Operation *op, StringRef name) {
  auto attr = op->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

/// "conv2d_grad_weight of /layer1/conv1/Conv".
std::string nameOfOp(Operation *op) {
  std::string source = sourceNameOf(op->getLoc());
  std::string what = op->getName().stripDialect().str();
  return source.empty() ? what : what + " of " + source;
}

std::string nameOfValue(func::FuncOp graph, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    return name ? name.str() : "argument";
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  bool isForward = !op->hasAttr(kPhaseAttr) && op->getNumResults() == 1;
  std::string source = sourceNameOf(op->getLoc());
  std::string name = isForward && !source.empty() ? source : nameOfOp(op);
  if (op->getNumResults() > 1)
    name += "#" + std::to_string(result.getResultNumber());
  return name;
}

BufferKind kindOfStorage(func::FuncOp graph, const Storage &storage) {
  Value first = storage.values.front();
  if (auto argument = dyn_cast<BlockArgument>(first)) {
    StringRef kind = kindOfArgument(graph, argument.getArgNumber());
    if (kind == "parameter")
      return BufferKind::Parameter;
    if (kind == "statistic")
      return BufferKind::Statistic;
    if (kind == "optimizer")
      return BufferKind::Optimizer;
    return BufferKind::Input;
  }
  for (Value value : storage.values)
    for (Operation *user : value.getUsers())
      if (user->hasTrait<OpTrait::IsTerminator>())
        return BufferKind::Output;
  Operation *op = first.getDefiningOp();
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  bool isForward = !phase || phase == "forward" || op->hasAttr(kRecomputeAttr);
  return isForward ? BufferKind::Activation : BufferKind::Gradient;
}

/// A storage is named after the first of its values that fill it: a concat's result, not its
/// inputs.
PlannedBuffer describeStorage(func::FuncOp graph, const Liveness &liveness, const Storage &storage,
                              const llvm::DenseMap<Value, Bytes> &offsets) {
  Value first = *llvm::find_if(storage.values, [&](Value v) { return liveness.isWhole(v); });
  auto type = cast<RankedTensorType>(first.getType());
  PlannedBuffer buffer;
  buffer.name = nameOfValue(graph, first);
  buffer.kind = kindOfStorage(graph, storage);
  buffer.dtype = dtypeOf(type.getElementType());
  buffer.shape = Shape(type.getShape().begin(), type.getShape().end());
  buffer.source = sourcePlaceOf(first.getLoc());
  buffer.offset = offsets.lookup(first);
  buffer.size = storage.size;
  buffer.logicalSize = logicalBytesOf(storage);
  buffer.begin = storage.begin;
  buffer.end = storage.end;
  for (Value value : storage.values)
    if (value != first)
      buffer.aliases.push_back(nameOfValue(graph, value));
  Operation *op = first.getDefiningOp();
  buffer.recomputed = op && op->hasAttr(kRecomputeAttr);
  return buffer;
}

GraphPlan describeGraph(func::FuncOp graph) {
  Liveness liveness(graph);
  llvm::DenseMap<Value, Bytes> offsets = arenaOffsets(graph);
  GraphPlan plan;
  plan.name = graph.getSymName().str();
  plan.stepCount = liveness.commandCount();
  plan.lowerBoundBytes = bytesAttr(graph, kLowerBoundAttr);
  for (const Storage &storage : liveness.storages())
    plan.buffers.push_back(describeStorage(graph, liveness, storage, offsets));
  for (Operation &op : graph.getBody().front()) {
    auto command = liveness.commandOf(&op);
    if (!command)
      continue;
    plan.stepNames.push_back(nameOfOp(&op));
    if (op.hasAttr(kReferenceAttr))
      plan.referenceSteps.push_back(*command);
    if (Bytes bytes = bytesAttr(&op, kWorkspaceAttr)) {
      PlannedBuffer buffer;
      buffer.name = "workspace: " + nameOfOp(&op);
      buffer.kind = BufferKind::Workspace;
      buffer.dtype = DType::U8;
      buffer.shape = {bytes};
      buffer.source = sourcePlaceOf(op.getLoc());
      buffer.offset = bytesAttr(&op, kWorkspaceOffsetAttr);
      buffer.size = buffer.logicalSize = bytes;
      buffer.begin = *command;
      buffer.end = *command + 1;
      plan.buffers.push_back(buffer);
    }
  }
  if (plan.stepNames.empty())
    plan.stepNames.push_back("nothing to compute");
  const std::vector<Bytes> live = liveness.liveBytes();
  const auto most = std::max_element(live.begin(), live.end());
  plan.livePeakBytes = *most;
  plan.peakStep = most - live.begin();
  return plan;
}

std::string statusOf(Bytes arena, Bytes bound) {
  if (arena == bound)
    return "optimal";
  char text[64];
  std::snprintf(text, sizeof text, "within %.3g %% of optimal",
                100.0 * static_cast<double>(arena - bound) / static_cast<double>(bound));
  return text;
}

} // namespace

/// What a process needs beside its arena and the files it reads: code, libraries and thread stacks,
/// the library's just-in-time code per call, the initial values in the executable, and the heap of
/// library calls that cannot do without. Measured over the models of the suite, 11 to 1,145 calls:
/// 10 to 15 MiB without calls, and up to 32 KiB per call.
static Bytes bytesOutsideArena(ModuleOp module) {
  constexpr Bytes kProcessBytes = Bytes{24} << 20;
  constexpr Bytes kBytesPerCall = Bytes{32} << 10;
  Bytes initialValues = 0, calls = 0;
  module.walk([&](LibraryOpInterface) { ++calls; });
  for (auto graph : module.getOps<func::FuncOp>())
    if (graph.getSymName() == "train")
      for (BlockArgument argument : graph.getArguments())
        if (isa_and_nonnull<ElementsAttr>(graph.getArgAttr(argument.getArgNumber(), kInitAttr)))
          initialValues += storedBytesOf(argument.getType());
  return kProcessBytes + kBytesPerCall * calls + initialValues +
         bytesAttr(module, kLibraryHeapAttr);
}

Plan describePlan(ModuleOp module) {
  Plan plan;
  if (auto name = module.getSymName())
    plan.model = name->str();
  plan.arenaBytes = bytesAttr(module, kArenaBytesAttr);
  plan.persistentBytes = bytesAttr(module, kPersistentBytesAttr);
  plan.lowerBoundBytes = bytesAttr(module, kLowerBoundAttr);
  plan.logicalBoundBytes = bytesAttr(module, kLogicalBoundAttr);
  plan.alignment = bytesAttr(module, kAlignmentAttr);
  plan.status = statusOf(plan.arenaBytes, plan.lowerBoundBytes);
  plan.withoutRecomputeBytes = plan.arenaBytes;
  plan.outsideArenaBytes = bytesOutsideArena(module);
  if (auto notes = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    for (Attribute note : notes)
      plan.notes.push_back(cast<StringAttr>(note).str());
  for (auto graph : module.getOps<func::FuncOp>()) {
    plan.graphs.push_back(describeGraph(graph));
    plan.livePeakBytes = std::max(plan.livePeakBytes, plan.graphs.back().livePeakBytes);
  }
  return plan;
}

} // namespace stow
