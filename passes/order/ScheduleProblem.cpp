#include "passes/order/ScheduleProblem.h"

#include "ir/Graphs.h"
#include "ir/StowOffloadOps.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>

using namespace mlir;

namespace stow {

namespace {

/// Builds the problem value by value, in program order.
class Builder {
public:
  Builder(func::FuncOp graph, const CostModel &costs, Bytes alignment)
      : graph(graph), costs(costs), alignment(alignment), liveness(graph) {}

  StepProblem build() {
    Block &block = graph.getBody().front();
    step.problem.name = graph.getSymName().str();
    step.problem.costUnit = "s";
    step.problem.costDenominator = 1'000'000'000;
    for (BlockArgument argument : block.getArguments())
      addValue(argument, isStateArgument(graph, argument.getArgNumber()));
    for (Operation &op : block)
      if (fetchesState(&op) || sendsState(&op))
        addCopyOfState(op);
      else if (!launchesNothing(&op))
        addOp(op);
    for (Value returned : block.getTerminator()->getOperands())
      for (schedule::ValueId id : idsOf(returned))
        step.problem.values[id].keep = true;
    dropOptionsOnKept();
    return std::move(step);
  }

private:
  void addValue(Value value, bool isPinned) {
    Bytes size = alignUp(storedBytesOf(value.getType()), alignment);
    ids[value] = isPinned ? step.problem.addPinned("", size) : step.problem.addValue("", size);
    step.values.push_back(value);
  }

  /// A result that lies inside a larger storage. The first value of a storage brings all of its
  /// bytes; other ops that make the others need it, as they write beside it.
  void addPart(schedule::Op &scheduled, OpResult result) {
    StorageId storage = liveness.storageOf(result);
    auto [first, isNew] = firstOf.try_emplace(storage, step.problem.values.size());
    if (isNew) {
      Bytes size = alignUp(liveness.storages()[storage].size, alignment);
      ids[result] = step.problem.addValue("", size);
    } else {
      ids[result] = step.problem.addValueIn("", step.problem.values[first->second].storage);
      if (!llvm::is_contained(scheduled.inputs, first->second) &&
          !llvm::is_contained(scheduled.outputs, first->second))
        scheduled.inputs.push_back(first->second);
    }
    parts.insert(ids[result]);
    step.values.push_back(result);
  }

  /// What must be there for `value` to be read: itself, what it is a view of, or, for an op that
  /// runs nothing because all of its parts are placed, these.
  SmallVector<schedule::ValueId> idsOf(Value value) const {
    SmallVector<schedule::ValueId> found;
    SmallVector<Value> worklist = {value};
    while (!worklist.empty()) {
      Value root = viewedValue(worklist.pop_back_val());
      if (auto id = ids.find(root); id != ids.end()) {
        if (!llvm::is_contained(found, id->second))
          found.push_back(id->second);
      } else if (Operation *op = root.getDefiningOp()) {
        const Sharings joined = partsOf(op);
        for (const Sharing &part : llvm::reverse(joined))
          if (part.kind == SharingKind::PartOfResult)
            worklist.push_back(part.partIn(op));
      }
    }
    return found;
  }

  void addOp(Operation &op) {
    schedule::Op scheduled;
    scheduled.name = op.getName().getStringRef().str();
    for (Value operand : op.getOperands())
      for (schedule::ValueId id : idsOf(operand))
        if (!llvm::is_contained(scheduled.inputs, id))
          scheduled.inputs.push_back(id);
    scheduled.alternatives = alternativesOf(&op, costs, alignment);
    auto purity = dyn_cast<PurityOpInterface>(&op);
    scheduled.recomputable = purity && purity.isRecomputable();
    auto alias = dyn_cast<AliasOpInterface>(&op);
    for (OpResult result : op.getResults()) {
      auto updated = alias ? alias.getUpdatedOperand(result.getResultNumber()) : std::nullopt;
      if (updated) {
        addUpdate(op, scheduled, result, viewedValue(op.getOperand(*updated)));
        continue;
      }
      if (liveness.storages()[liveness.storageOf(result)].values.front() != result ||
          !liveness.isWhole(result))
        addPart(scheduled, result);
      else
        addValue(result, false);
      scheduled.outputs.push_back(ids[result]);
      if (alias && !parts.contains(ids[result]))
        addOverwriteOptions(op, scheduled, result, alias);
    }
    step.problem.ops.push_back(std::move(scheduled));
    step.ops.push_back(&op);
  }

  /// A copy in and its await are one op of the lane in, which makes what the await hands on; a copy out and its await one of the
  /// lane out. In plain schedules they cost what the copy takes. Weights may be fetched again, as long as what lies there, which the
  /// token stands for, is not overwritten (addUpdate).
  void addCopyOfState(Operation &op) {
    auto await = dyn_cast<AwaitInOp>(op);
    auto out = dyn_cast<CopyOutOp>(op);
    if (!await && !out)
      return;
    schedule::Op scheduled;
    scheduled.name = op.getName().getStringRef().str();
    scheduled.lane = await ? schedule::OpLane::In : schedule::OpLane::Out;
    scheduled.recomputable = await && isWeightInSlowMemory(await.getToken());
    if (scheduled.recomputable)
      scheduled.inputs = {ids.lookup(await.getToken())};
    const Bytes bytes = storedBytesOf(await ? await.getY().getType() : out.getX().getType());
    const schedule::Cost cost =
        costs.slow ? SlowMemory::durationOf(await ? costs.slow->in : costs.slow->out, bytes) : 0;
    scheduled.alternatives.push_back({cost, 0});
    if (out)
      scheduled.inputs = {ids.lookup(out.getX())};
    addValue(op.getResult(0), false);
    scheduled.outputs = {ids[op.getResult(0)]};
    step.problem.ops.push_back(std::move(scheduled));
    step.ops.push_back(&op);
  }

  /// `result` is the next version of the state that `old` holds. Of a weight that was fetched, what lies in slow memory has its next
  /// version with it, so that no fetch comes later.
  void addUpdate(Operation &op, schedule::Op &scheduled, OpResult result, Value old) {
    ids[result] = step.problem.addValueIn("", step.problem.values[ids[old]].storage);
    step.values.push_back(result);
    scheduled.outputs.push_back(ids[result]);
    if (!llvm::is_contained(scheduled.overwrites, ids[old]))
      scheduled.overwrites.push_back(ids[old]);
    scheduled.recomputable = false;
    auto await = old.getDefiningOp<AwaitInOp>();
    if (!await || !isWeightInSlowMemory(await.getToken()))
      return;
    const schedule::ValueId place = ids.lookup(await.getToken());
    scheduled.outputs.push_back(step.problem.addValueIn("", step.problem.values[place].storage));
    step.values.push_back(await.getToken());
    scheduled.inputs.push_back(place);
    scheduled.overwrites.push_back(place);
  }

  /// Operands that stow-share-in-place may give to `result`: whole storages, which a concat that
  /// its inputs lie inside of is as well.
  void addOverwriteOptions(Operation &op, schedule::Op &scheduled, OpResult result,
                           AliasOpInterface alias) {
    const Bytes size = storedBytesOf(result.getType());
    for (unsigned candidate : alias.getOverwritableOperands(result.getResultNumber())) {
      Value value = op.getOperand(candidate);
      const StorageId storage = liveness.storageOf(value);
      const Storage &whole = liveness.storages()[storage];
      if (whole.isState || !liveness.isWhole(value) || storedBytesOf(value.getType()) != size)
        continue;
      // Any value that the op reads of the storage stands for all of it.
      auto inside = llvm::find_if(scheduled.inputs, [&](schedule::ValueId id) {
        return liveness.storageOf(step.values[id]) == storage;
      });
      if (inside == scheduled.inputs.end())
        continue;
      bool readOtherwise = llvm::any_of(op.getOperands(), [&](Value other) {
        return other != value && liveness.storageOf(other) == storage;
      });
      schedule::OverwriteOption option = {ids[result], *inside};
      if (!readOtherwise && !llvm::is_contained(scheduled.mayOverwrite, option))
        scheduled.mayOverwrite.push_back(option);
    }
  }

  /// What the caller reads may not be overwritten by anyone.
  void dropOptionsOnKept() {
    llvm::DenseSet<schedule::StorageId> kept;
    for (const schedule::Value &value : step.problem.values)
      if (value.keep)
        kept.insert(value.storage);
    for (schedule::Op &op : step.problem.ops)
      llvm::erase_if(op.mayOverwrite, [&](const schedule::OverwriteOption &option) {
        return kept.contains(step.problem.values[option.input].storage);
      });
  }

  func::FuncOp graph;
  const CostModel &costs;
  Bytes alignment;
  StepProblem step;
  llvm::DenseMap<Value, schedule::ValueId> ids;
  Liveness liveness;
  llvm::DenseMap<StorageId, schedule::ValueId> firstOf; ///< of storages that hold parts
  llvm::DenseSet<schedule::ValueId> parts;
};

/// Writes a schedule into the block by moving and cloning its ops in front of the terminator.
class Rewriter {
public:
  Rewriter(func::FuncOp graph) : block(graph.getBody().front()) {
    for (Operation &op : block.without_terminator()) {
      operands[&op] = llvm::to_vector(op.getOperands());
      if (auto await = dyn_cast<AwaitOutOp>(op); await && sendsState(&op))
        awaitOf[await.getX()] = &op;
    }
  }

  unsigned run(const StepProblem &step, const schedule::LaneSolution &solution) {
    llvm::SmallVector<Operation *> views;
    for (Operation &op : block.without_terminator())
      if (isView(&op))
        views.push_back(&op);
    Operation *terminator = block.getTerminator();
    SmallVector<Value> returned(terminator->getOperands());
    for (const schedule::Step &next : solution.steps)
      if (next.kind == schedule::Step::Kind::Run)
        execute(step.ops[next.id], next.alternative);
      else
        copy(next.kind, step.values[next.id]);
    for (auto [index, value] : llvm::enumerate(returned))
      terminator->setOperand(index, resolve(value));
    for (Operation *view : llvm::reverse(views))
      if (!placed.contains(view))
        view->erase();
    eraseUnread();
    return clones;
  }

private:
  static bool isView(Operation *op) { return launchesNothing(op) && op->getNumOperands() > 0; }

  /// A schedule may run an op for a reader that another run serves in the end.
  void eraseUnread() {
    SmallVector<Operation *> ops =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    for (Operation *op : llvm::reverse(ops)) {
      if (!isUnread(op))
        continue;
      if (!isView(op) && !op->hasAttr(kRecomputeAttr) && !isCopyOrAwait(op)) {
        runInPlaceOfClone(op);
        continue;
      }
      if (auto original = originalOf.find(op); original != originalOf.end()) {
        llvm::erase(clonesOf[original->second], op);
        --clones;
      }
      op->erase();
    }
  }

  /// An await of a copy out is of use as long as somebody fetches what was copied.
  static bool isUnread(Operation *op) {
    auto await = dyn_cast<AwaitOutOp>(op);
    return await ? await.getToken().hasOneUse() : op->use_empty();
  }

  /// Puts an op whose first run nobody reads in the place of its first clone, if it has one.
  void runInPlaceOfClone(Operation *op) {
    auto found = clonesOf.find(op);
    if (found == clonesOf.end() || found->second.empty())
      return;
    Operation *clone = found->second.front();
    const Phase phase = phaseOf(op);
    op->moveBefore(clone);
    op->setAttrs(clone->getAttrDictionary());
    op->removeAttr(kRecomputeAttr);
    setPhase(op, phase);
    op->setOperands(clone->getOperands());
    clone->replaceAllUsesWith(op);
    clone->erase();
    --clones;
  }

  /// A copy of `value` or the await of one: of the phase that it stands in.
  void copy(schedule::Step::Kind kind, Value value) {
    if (kind == schedule::Step::Kind::AwaitIn && fetchesStateAsIs(value))
      return arrive(value.getDefiningOp());
    if (Operation *await = awaitOf.lookup(value); await && kind == schedule::Step::Kind::AwaitOut) {
      place(await, {resolve(operands[await][0]), resolve(value)});
      return;
    }
    OpBuilder builder(block.getTerminator());
    const Location at = value.getLoc();
    Travel &travel = travels[value];
    Operation *op = nullptr;
    switch (kind) {
    case schedule::Step::Kind::Out:
      travel.left = resolve(value);
      op = CopyOutOp::create(builder, at, copyTokenType(value.getContext()), travel.left);
      travel.token = op->getResult(0);
      break;
    case schedule::Step::Kind::AwaitOut:
      op = AwaitOutOp::create(builder, at, travel.token, travel.left);
      break;
    case schedule::Step::Kind::In:
      op = CopyInOp::create(builder, at, travel.left.getType(), travel.token);
      travel.coming = op->getResult(0);
      break;
    case schedule::Step::Kind::AwaitIn:
      op = AwaitInOp::create(builder, at, travel.left.getType(), travel.token, travel.coming);
      current[value] = op->getResult(0);
      break;
    case schedule::Step::Kind::Run:
      return;
    }
    setPhase(op, phase);
  }

  static bool fetchesStateAsIs(Value value) {
    Operation *op = value.getDefiningOp();
    return op && fetchesState(op);
  }

  /// The await of a fetch of state, whose copy `execute` has started.
  void arrive(Operation *await) {
    Operation *in = operands[await][1].getDefiningOp();
    Operation *instance = place(await, {operands[await][0], current.lookup(in->getResult(0))});
    if (instance != await)
      setPhase(instance, phase);
    current[await->getResult(0)] = instance->getResult(0);
  }

  void execute(Operation *op, unsigned alternative) {
    if (auto await = dyn_cast<AwaitInOp>(op)) { // a fetch of state begins
      Operation *in = operands[op][1].getDefiningOp(), *instance = place(in, operands[in]);
      if (instance != in) // again
        setPhase(instance, phase);
      current[in->getResult(0)] = instance->getResult(0);
      return;
    }
    SmallVector<Value> inputs =
        llvm::map_to_vector(operands[op], [&](Value v) { return resolve(v); });
    Operation *instance = place(op, inputs);
    chooseImplementation(instance, alternative);
    if (instance != op) {
      ++clones;
      originalOf[instance] = op;
      clonesOf[op].push_back(instance);
      OpBuilder builder(instance);
      setPhase(instance, Phase::Backward);
      instance->setAttr(kRecomputeAttr, builder.getUnitAttr());
    }
    if (phaseOf(instance) != Phase::Update)
      phase = phaseOf(instance);
    for (auto [result, now] : llvm::zip(op->getResults(), instance->getResults()))
      current[result] = now;
  }

  /// Puts `op`, or a clone of it if it has been put already, at the end.
  Operation *place(Operation *op, ArrayRef<Value> inputs) {
    Operation *instance = op;
    if (placed.insert(op).second) {
      op->moveBefore(block.getTerminator());
    } else {
      instance = op->clone();
      block.getOperations().insert(Block::iterator(block.getTerminator()), instance);
    }
    instance->setOperands(inputs);
    return instance;
  }

  /// The value that a reader placed now gets for `value` of the original graph.
  Value resolve(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return value;
    if (!isView(op)) {
      auto found = current.find(value);
      return found == current.end() ? value : found->second;
    }
    SmallVector<Value> inputs =
        llvm::map_to_vector(operands[op], [&](Value v) { return resolve(v); });
    auto &known = viewOf[op];
    if (!known || !llvm::equal(known->getOperands(), inputs))
      known = place(op, inputs);
    return known->getResult(cast<OpResult>(value).getResultNumber());
  }

  /// The last copies of a value.
  struct Travel {
    Value left, token; ///< what was copied out, and its copy
    Value coming;
  };

  Block &block;
  llvm::DenseMap<Operation *, SmallVector<Value>> operands; ///< of the original graph
  llvm::DenseMap<Value, Operation *>
      awaitOf; ///< by value: the await of the copy that sends it as state
  llvm::DenseMap<Value, Travel> travels;
  Phase phase = Phase::Forward;                    ///< of what was placed last, updates aside
  llvm::DenseMap<Value, Value> current;            ///< the latest production of each value
  llvm::DenseMap<Operation *, Operation *> viewOf; ///< the latest copy of each view
  llvm::DenseSet<Operation *> placed;
  llvm::DenseMap<Operation *, Operation *> originalOf;            ///< by clone
  llvm::DenseMap<Operation *, SmallVector<Operation *>> clonesOf; ///< that run, in their order
  unsigned clones = 0;
};

} // namespace

std::vector<schedule::Alternative> alternativesOf(Operation *op, const CostModel &costs,
                                                  Bytes alignment) {
  std::vector<schedule::Alternative> alternatives;
  for (const auto &[number, way] : llvm::enumerate(implementationsOf(op)))
    alternatives.push_back({costs.costOf(op, number), alignUp(way.workspaceBytes, alignment)});
  if (alternatives.empty())
    alternatives.push_back({costs.costOf(op), alignUp(bytesAttr(op, kWorkspaceAttr), alignment)});
  return alternatives;
}

StepProblem buildStepProblem(func::FuncOp graph, const CostModel &costs, Bytes alignment) {
  return Builder(graph, costs, alignment).build();
}

Bytes placementSlack(const schedule::Problem &problem, Bytes bytes) {
  std::vector<char> isTaken(problem.storages.size(), 0);
  const bool hasParts = llvm::any_of(problem.values, [&](const schedule::Value &value) {
    return !problem.storages[value.storage].pinned && std::exchange(isTaken[value.storage], 1);
  });
  return hasParts ? bytes / 20 : 0;
}

std::vector<schedule::StorageId> stayingStorages(const StepProblem &step) {
  const schedule::Problem &problem = step.problem;
  std::vector<int> values(problem.storages.size(), 0);
  std::vector<char> stays(problem.storages.size(), 0);
  for (const auto &[id, value] : llvm::enumerate(problem.values)) {
    const Value known = step.values[id];
    const schedule::StorageId storage = value.storage;
    stays[storage] |= problem.storages[storage].pinned || ++values[storage] > 1 ||
                      isa<BlockArgument>(known) || layoutOf(known.getType()).pitch ||
                      problem.storages[storage].sizeBytes < kSlowAlignment;
  }
  std::vector<schedule::StorageId> staying;
  for (size_t i = 0; i < stays.size(); ++i)
    if (stays[i])
      staying.push_back(static_cast<schedule::StorageId>(i));
  return staying;
}

unsigned applySchedule(func::FuncOp graph, const StepProblem &step,
                       const schedule::Solution &solution) {
  return applySchedule(graph, step, schedule::withoutCopies(step.problem, solution));
}

unsigned applySchedule(func::FuncOp graph, const StepProblem &step,
                       const schedule::LaneSolution &solution) {
  return Rewriter(graph).run(step, solution);
}

} // namespace stow
