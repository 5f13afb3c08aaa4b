// A graph's steps and buffers as the plan states them, and why each buffer takes memory.
#include "ir/KeptSamples.h"
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/Exchanges.h"
#include "passes/memory/FuseBiasGradient.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/memory/PlanWords.h"
#include "passes/memory/Runs.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace stow {
namespace {

std::string opNameOf(Operation *op) { return op->getName().stripDialect().str(); }

/// "conv2d_grad_weight of /layer1/conv1/Conv".
std::string nameOfOp(Operation *op) {
  std::string source = sourceNameOf(op->getLoc());
  return source.empty() ? opNameOf(op) : opNameOf(op) + " of " + source;
}

/// The op that computed the bytes of a result: of what a copy brings, the one that made what was copied.
Operation *makerOf(Operation *op) {
  while (auto in = dyn_cast_or_null<CopyInOp>(op)) {
    if (fetchesState(op))
      break;
    op = copyOutOf(in.getToken()).getX().getDefiningOp();
    if (auto await = dyn_cast_or_null<AwaitInOp>(op))
      op = await.getComing().getDefiningOp();
  }
  return op;
}

/// True for ops of the forward pass, when they run again too.
bool makesActivations(Operation *op) {
  op = makerOf(op);
  return isForward(op) || op->hasAttr(kRecomputeAttr);
}

/// "3 values", "1 value".
std::string countOf(size_t number, const char *what) {
  return absl::StrCat(number, " ", what, number == 1 ? "" : "s");
}

/// What the ranks of a step exchange in a run of the graph.
std::optional<PlannedReductions> reductionsOf(Block &block) {
  PlannedReductions reductions;
  for (Operation &op : block) {
    if (!isCollective(&op))
      continue;
    const bool gathers = isGather(&op);
    ++(gathers ? reductions.gathers : reductions.count);
    (gathers ? reductions.gatheredBytes : reductions.bytes) +=
        storedBytesOf(wholeOf(&op).getType());
    reductions.sentBytes += exchangedBy(&op).sentBytes;
    reductions.started += isStartedCollective(&op);
  }
  return reductions.count + reductions.gathers > 0 ? std::optional(reductions) : std::nullopt;
}

class GraphDescriber {
public:
  GraphDescriber(func::FuncOp graph, OpSeconds known)
      : graph(graph), known(known), liveness(graph), offsets(arenaOffsets(graph)),
        repeated(repeatedOps(graph)) {
    for (auto [again, first] : repeated)
      ++repetitions[first];
  }

  GraphPlan describe() {
    plan.role = graphRoleOf(graph);
    plan.shape = graphShape(graph).str();
    plan.stepCount = liveness.commandCount();
    plan.lowerBoundBytes = bytesAttr(graph, kLowerBoundAttr);
    for (const Storage &storage : liveness.storages())
      plan.buffers.push_back(describeStorage(storage));
    for (Operation &op : graph.getBody().front())
      if (auto command = liveness.commandOf(&op)) {
        if (op.hasAttr(kTogetherAttr))
          joinStep(&op);
        else
          addStep(&op, *command);
      }
    if (plan.steps.empty()) {
      PlannedStep step;
      step.name = "nothing to compute";
      plan.steps.push_back(step);
    }
    describeCopies();
    plan.reductions = reductionsOf(graph.getBody().front());
    const std::vector<Bytes> live = liveness.liveBytes();
    const auto most = std::max_element(live.begin(), live.end());
    plan.livePeakBytes = *most;
    plan.peakStep = most - live.begin();
    return std::move(plan);
  }

private:
  double secondsOf(Operation *op) const { return known ? known(op) : 0; }

  std::string nameOfValue(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
      return name ? name.str() : "argument";
    }
    auto result = cast<OpResult>(value);
    Operation *op = result.getOwner();
    bool isNode = phaseOf(op) == Phase::Forward && op->getNumResults() == 1;
    std::string source = sourceNameOf(op->getLoc());
    std::string name = isNode && !source.empty() ? source : nameOfOp(op);
    if (op->getNumResults() > 1)
      absl::StrAppend(&name, "#", result.getResultNumber());
    return name;
  }

  /// The name of what a copy out takes away: the state whose new value it is, or the value.
  std::string nameOfSent(CopyOutOp out) {
    for (OpOperand &use : out.getToken().getUses())
      if (use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        if (auto name = graph.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kStateAttr))
          return name.str();
    return nameOfValue(out.getX());
  }

  PlannedCopy describeCopy(Operation *start) {
    PlannedCopy copy;
    auto out = dyn_cast<CopyOutOp>(start);
    copy.isOut = static_cast<bool>(out);
    const Value source = start->getOperand(0);
    CopyOutOp from = out ? out : copyOutOf(source);
    copy.name = from ? nameOfSent(from) : nameOfValue(source);
    copy.buffer = liveness.storageOf(out ? source : start->getResult(0));
    copy.bytes = copiedBytes(start);
    copy.start = *liveness.commandOf(start);
    for (Operation *user : start->getResult(0).getUsers())
      if (isa<AwaitOutOp, AwaitInOp>(user))
        copy.await = *liveness.commandOf(user);
    return copy;
  }

  /// What travels; seconds are for whoever knows the lanes.
  void describeCopies() {
    PlannedCopies copies;
    std::vector<Bytes> change(liveness.commandCount() + 1, 0);
    for (BlockArgument argument : graph.getArguments())
      if (RankedTensorType type = slowStateOf(argument))
        change[0] += storedBytesOf(type);
    for (Operation &op : graph.getBody().front()) {
      if (isa<CopyOutOp, CopyInOp>(op))
        copies.each.push_back(describeCopy(&op));
      (isa<CopyOutOp>(op) ? copies.bytesOut : copies.bytesIn) += copiedBytes(&op);
      if (auto out = dyn_cast<CopyOutOp>(op); out && !sendsState(out)) {
        const Storage &token = liveness.storages()[liveness.storageOf(out.getToken())];
        change[token.begin] += copiedBytes(&op);
        change[token.end] -= copiedBytes(&op);
      }
    }
    Bytes slow = 0;
    for (Bytes here : change)
      copies.slowPeakBytes = std::max(copies.slowPeakBytes, slow += here);
    if (copies.bytesOut + copies.bytesIn > 0)
      plan.copies = copies;
  }

  static bool isReturned(const Storage &storage) {
    return llvm::any_of(storage.values, [](Value value) {
      return llvm::any_of(value.getUsers(),
                          [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
    });
  }

  /// Where an update has not overwritten what it fetched.
  static bool isStateToSend(const Storage &storage) {
    return llvm::any_of(storage.values,
                        [](Value value) { return llvm::any_of(value.getUsers(), sendsState); });
  }

  BufferKind kindOf(const Storage &storage) {
    Value first = storage.values.front();
    if (auto argument = dyn_cast<BlockArgument>(first)) {
      if (!samplesOf(graph, argument.getArgNumber()).empty())
        return BufferKind::DataSet;
      auto kind = kindOfArgument(graph, argument.getArgNumber());
      return kind ? bufferKindOf(*kind) : BufferKind::Input;
    }
    if (isReturned(storage))
      return BufferKind::Output;
    if (isa<UnshardOp>(first.getDefiningOp()))
      return BufferKind::FetchedWeight;
    if (fetchesState(first.getDefiningOp()))
      return isWeightInSlowMemory(first.getDefiningOp()->getOperand(0))
                 ? BufferKind::FetchedWeight
                 : BufferKind::FetchedOptimizer;
    if (isStateToSend(storage))
      return BufferKind::FetchedOptimizer;
    return makesActivations(first.getDefiningOp()) ? BufferKind::Activation : BufferKind::Gradient;
  }

  /// A storage is named after the first of its values that fill it: a concat's result, not its
  /// inputs.
  PlannedBuffer describeStorage(const Storage &storage) {
    Value first = *llvm::find_if(storage.values, [&](Value v) { return liveness.isWhole(v); });
    auto type = cast<RankedTensorType>(first.getType());
    PlannedBuffer buffer;
    buffer.name = nameOfValue(first);
    buffer.kind = kindOf(storage);
    buffer.dtype = dtypeOf(type.getElementType());
    buffer.shape = Shape(type.getShape().begin(), type.getShape().end());
    buffer.source = sourcePlaceOf(first.getLoc());
    buffer.module = modulePathOf(first.getLoc());
    if (Layout layout = layoutOf(type); !layout.isRowMajor())
      buffer.layout = formatLayout(layout);
    buffer.offset = offsets.lookup(first);
    buffer.size = storage.size;
    buffer.logicalSize = logicalBytesOf(storage);
    buffer.begin = storage.begin;
    buffer.end = storage.end;
    // The result of a concat that joins one value has no kind of its own: it is that value.
    for (Value value : storage.values)
      if (value != first)
        buffer.aliases.push_back(
            {nameOfValue(value), aliasKindOf(value).value_or(AliasKind::View), firstStepOf(value)});
    Operation *op = first.getDefiningOp();
    buffer.recomputed = op && op->hasAttr(kRecomputeAttr);
    buffer.reason = reasonOf(storage, buffer.kind);
    if (buffer.kind == BufferKind::Activation)
      buffer.recomputeSeconds = recomputeSecondsOf(storage);
    return buffer;
  }

  /// The command that writes a value, or the first that reads what no command writes.
  std::optional<int64_t> firstStepOf(Value value) const {
    if (std::optional<int64_t> command = liveness.commandOf(value.getDefiningOp()))
      return command;
    std::optional<int64_t> first;
    for (Operation *user : value.getUsers()) {
      std::optional<int64_t> command = liveness.commandOf(user);
      if (!command && user->getNumResults() == 1) // a view of the view
        command = firstStepOf(user->getResult(0));
      if (command)
        first = std::min(first.value_or(*command), *command);
    }
    return first;
  }

  /// How a value shares the storage that it lies in; none where it makes or fills it.
  std::optional<AliasKind> aliasKindOf(Value value) const {
    auto result = dyn_cast<OpResult>(value);
    if (!result)
      return std::nullopt;
    if (std::optional<Sharing> sharing = sharingOf(result))
      return !isa<AwaitInOp, AwaitReduceOp>(result.getOwner()) &&
                     (sharing->kind == SharingKind::Overwrite ||
                      sharing->kind == SharingKind::Update)
                 ? AliasKind::InPlace
                 : AliasKind::View;
    return liveness.isWhole(value) ? std::nullopt : std::optional(AliasKind::Part);
  }

  /// What the bytes of a quantized tensor stand for; nothing of others.
  std::string quantizedAs(const Storage &storage) const {
    auto argument = dyn_cast<BlockArgument>(storage.values.front());
    if (!argument)
      return "";
    auto owner = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    const auto numbers =
        quantizedNumbers(owner.getArgAttr(argument.getArgNumber(), kQuantizedAttr));
    if (!numbers)
      return "";
    std::string shape;
    for (int64_t extent : numbers->type.getShape())
      absl::StrAppend(&shape, shape.empty() ? "" : "x", extent);
    return absl::StrCat(": ", shape, " numbers in ", std::string(nameOf(numbers->scheme)));
  }

  /// Why a value is there at all, and for how long.
  std::string purposeOf(const Storage &storage, BufferKind kind) const {
    switch (kind) {
    case BufferKind::Parameter:
    case BufferKind::Frozen:
    case BufferKind::Statistic:
    case BufferKind::Optimizer:
      if (RankedTensorType type = slowStateOf(storage.values.front()))
        return absl::StrCat("lies in slow memory, ", storedBytesOf(type), " bytes");
      return "kept from step to step" + quantizedAs(storage);
    case BufferKind::Accumulator:
      return "kept from batch to batch";
    case BufferKind::DataSet:
      return "filled before the first step, and read by row";
    case BufferKind::Input:
      return "filled before the step";
    case BufferKind::Output:
      return "read after the step";
    case BufferKind::Workspace:
      return "scratch space of one library call";
    case BufferKind::FetchedWeight:
      if (isa<UnshardOp>(storage.values.front().getDefiningOp()))
        return "weight put together of the ranks' shards, until its last reader before it is put "
               "together again";
      return "weight fetched from slow memory, until its last reader before it is fetched again, "
             "or its new value has left";
    case BufferKind::FetchedOptimizer:
      return "state fetched from slow memory, updated and sent back";
    case BufferKind::Activation:
    case BufferKind::Gradient:
      break;
    }
    size_t again = 0;
    for (Value value : storage.values) {
      if (auto out = value.getDefiningOp<CopyOutOp>())
        return absl::StrCat("stands for ", copiedBytes(out), " bytes in slow memory");
      if (value.getDefiningOp<CopyInOp>())
        return "fetched from slow memory instead of kept";
      if (llvm::any_of(value.getUsers(), llvm::IsaPred<CopyOutOp>))
        return "copied to slow memory, until the copy has ended";
      if (Operation *op = value.getDefiningOp(); op && op->hasAttr(kRecomputeAttr))
        return "computed again instead of kept";
      again = std::max(again, repetitions.lookup(value.getDefiningOp()));
    }
    if (again > 0)
      return absl::StrCat("dropped early, computed again ",
                          again == 1 ? "once" : absl::StrCat(again, " times"));
    if (llvm::any_of(storage.values,
                     [](Value value) { return value.getDefiningOp<AwaitReduceOp>() != nullptr; }))
      return "gradient, added up over the ranks while other commands run, until its last reader";
    if (kind == BufferKind::Gradient)
      return "gradient, until its last reader";
    return isReadBackward(storage) ? "kept for the backward pass" : "until its last reader";
  }

  bool isReadBackward(const Storage &storage) const {
    return llvm::any_of(storage.values, [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        return phaseOf(user) != Phase::Forward && liveness.commandOf(user);
      });
    });
  }

  /// Its purpose, and the further values that lie in it.
  std::string reasonOf(const Storage &storage, BufferKind kind) const {
    size_t overwriting = 0, inside = 0, views = 0;
    for (Value value : storage.values)
      if (std::optional<AliasKind> alias = aliasKindOf(value))
        ++(*alias == AliasKind::View ? views : *alias == AliasKind::Part ? inside : overwriting);
    std::string text = purposeOf(storage, kind);
    if (overwriting)
      text += "; " + countOf(overwriting, "result") + " written over it";
    if (inside)
      text += "; " + countOf(inside, "part") + " written in place, never copied";
    if (views)
      text += "; " + countOf(views, "view");
    return text;
  }

  /// All commands that write into the storage, once; absent where a time is missing.
  std::optional<double> recomputeSecondsOf(const Storage &storage) const {
    double seconds = 0;
    llvm::SmallPtrSet<Operation *, 4> counted;
    for (Value value : storage.values) {
      Operation *op = value.getDefiningOp();
      if (!op || !liveness.commandOf(op) || !makesActivations(op) || !counted.insert(op).second)
        continue;
      const double own = secondsOf(op);
      if (own <= 0)
        return std::nullopt;
      seconds += own;
    }
    // Whole nanoseconds, so that the sum does not depend on its order.
    return seconds > 0 ? std::optional(std::round(seconds * 1e9) / 1e9) : std::nullopt;
  }

  void addStep(Operation *op, int64_t command) {
    PlannedStep step;
    step.name = nameOfOp(op);
    const bool isWithSum = static_cast<bool>(sumBeside(op));
    if (const size_t others = opsOfCommand(op).size() - 1; others > 0 && !isWithSum)
      absl::StrAppend(&step.name, " and ", others, " more");
    step.op = opNameOf(op);
    step.source = sourcePlaceOf(op->getLoc());
    step.module = modulePathOf(op->getLoc());
    step.phase = stepPhaseOf(phaseOf(op));
    step.seconds = secondsOf(op);
    if (const auto ways = implementationsOf(op); !ways.empty())
      step.implementation =
          ways[chosenImplementation(op)].name + (isWithSum ? " and sums of rows" : "");
    addUses(op, step);
    if (Operation *first = repeated.lookup(op))
      step.recomputes = liveness.commandOf(first);
    if (op->hasAttr(kReferenceAttr))
      plan.referenceSteps.push_back(command);
    if (bytesAttr(op, kWorkspaceAttr)) {
      step.writes.push_back(static_cast<int64_t>(plan.buffers.size()));
      addWorkspace(op, command);
    }
    sortUses(step);
    plan.steps.push_back(std::move(step));
  }

  /// An op that runs in the last step's launch.
  void joinStep(Operation *op) {
    PlannedStep &step = plan.steps.back();
    step.seconds += secondsOf(op);
    addUses(op, step);
    sortUses(step);
  }

  void addUses(Operation *op, PlannedStep &step) const {
    for (Value value : op->getOperands())
      if (!value.getDefiningOp<ConstantOp>())
        step.reads.push_back(liveness.storageOf(value));
    for (Value value : op->getResults())
      step.writes.push_back(liveness.storageOf(value));
  }

  static void sortUses(PlannedStep &step) {
    for (std::vector<int64_t> *list : {&step.reads, &step.writes}) {
      llvm::sort(*list);
      list->erase(llvm::unique(*list), list->end());
    }
  }

  /// What was taken, and what the ways with less scratch are thought to cost.
  std::string choiceOf(Operation *op) const {
    const auto ways = implementationsOf(op);
    if (ways.empty())
      return "";
    const unsigned chosen = chosenImplementation(op);
    std::string text = ", " + ways[chosen].name;
    for (const auto &way : llvm::drop_begin(ways, chosen + 1))
      absl::StrAppend(&text, "; ", way.workspaceBytes, " bytes in ",
                      std::lround(100 * way.slowdown / ways[chosen].slowdown), " % of its time");
    return text;
  }

  void addWorkspace(Operation *op, int64_t command) {
    PlannedBuffer buffer;
    buffer.name = "workspace: " + nameOfOp(op);
    buffer.kind = BufferKind::Workspace;
    buffer.dtype = DType::U8;
    buffer.size = buffer.logicalSize = bytesAttr(op, kWorkspaceAttr);
    buffer.shape = {buffer.size};
    buffer.source = sourcePlaceOf(op->getLoc());
    buffer.module = modulePathOf(op->getLoc());
    buffer.offset = bytesAttr(op, kWorkspaceOffsetAttr);
    buffer.begin = command;
    buffer.end = command + 1;
    buffer.reason = purposeOf({}, BufferKind::Workspace) + choiceOf(op);
    plan.buffers.push_back(std::move(buffer));
  }

  func::FuncOp graph;
  OpSeconds known;
  Liveness liveness;
  llvm::DenseMap<Value, Bytes> offsets;
  llvm::DenseMap<Operation *, Operation *> repeated; ///< first runs by clone
  llvm::DenseMap<Operation *, size_t> repetitions;   ///< by first run
  GraphPlan plan;
};

} // namespace

GraphPlan describeGraph(func::FuncOp graph, OpSeconds secondsOf) {
  return GraphDescriber(graph, secondsOf).describe();
}

} // namespace stow
