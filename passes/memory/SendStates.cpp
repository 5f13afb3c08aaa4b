// State in slow memory: what an optimizer keeps is fetched for its update and sent behind it, weights are fetched where they are read,
// and those that are trained are sent behind their update.
#include "passes/memory/SendStates.h"

#include "ir/StowOffloadOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/SlowCopies.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SENDSTATESPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// A graph's argument, and, of what the graph updates, the op that does so, its new value, and the number of the result that returns it.
struct Use {
  func::FuncOp graph;
  BlockArgument argument;
  Operation *update = nullptr;
  OpResult value;
  unsigned returned = 0;
};

/// A state tensor of all graphs.
struct State {
  Bytes bytes = 0;
  bool isTrained =
      false; ///< a weight: in twice and out once each step, where other state travels twice
  bool mayTravel = true;
  SmallVector<Use> uses;
};

/// What `graph` returns as the new value of `argument`, if anything.
OpOperand *newValueOf(func::FuncOp graph, BlockArgument argument) {
  const Attribute name = graph.getArgAttr(argument.getArgNumber(), kNameAttr);
  for (OpOperand &returned : graph.front().getTerminator()->getOpOperands())
    if (graph.getResultAttr(returned.getOperandNumber(), kStateAttr) == name)
      return &returned;
  return nullptr;
}

/// Where an op that reads `argument` computes its new value, which nothing else reads.
std::optional<Use> updateOf(func::FuncOp graph, BlockArgument argument) {
  OpOperand *returned = newValueOf(graph, argument);
  auto value = returned ? dyn_cast<OpResult>(returned->get()) : OpResult();
  if (!value || !value.hasOneUse() || value.getType() != argument.getType() ||
      !llvm::is_contained(argument.getUsers(), value.getOwner()))
    return std::nullopt;
  return Use{graph, argument, value.getOwner(), value, returned->getOperandNumber()};
}

/// Whether the update writes the new value over the old one, and nothing reads that later.
bool isInPlace(const Use &use) {
  auto alias = dyn_cast<AliasOpInterface>(use.update);
  const auto updated = alias ? alias.getUpdatedOperand(use.value.getResultNumber()) : std::nullopt;
  if (!updated || use.update->getOperand(*updated) != use.argument)
    return false;
  SmallVector<Operation *> readers(use.argument.getUsers());
  while (!readers.empty()) {
    Operation *reader = readers.pop_back_val();
    if (launchesNothing(reader))
      llvm::append_range(readers, reader->getUsers());
    if (use.update->isBeforeInBlock(reader))
      return false;
  }
  return true;
}

bool mayLieInSlowMemory(BlockArgument argument) {
  return storedBytesOf(argument.getType()) >= kSlowAlignment;
}

bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(),
                      [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
}

/// How `argument`, state of `kind`, travels in `graph`, if it may.
std::optional<Use> useOf(func::FuncOp graph, BlockArgument argument, ArgumentKind kind) {
  if (!mayLieInSlowMemory(argument))
    return std::nullopt;
  const std::optional<Use> update = updateOf(graph, argument);
  if (kind == ArgumentKind::Optimizer)
    return argument.hasOneUse() ? update : std::nullopt;
  if (update)
    return isInPlace(*update) ? update : std::nullopt;
  return isReturned(argument) || newValueOf(graph, argument)
             ? std::nullopt
             : std::optional(Use{graph, argument, {}, {}, 0});
}

void setTypes(func::FuncOp graph) {
  graph.setFunctionType(
      FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                        graph.front().getTerminator()->getNumOperands() == graph.getNumResults()
                            ? TypeRange(graph.front().getTerminator()->getOperandTypes())
                            : TypeRange(graph.getResultTypes())));
}

/// Moves views of `value` to where they are read, so that it need not be there before.
void sinkViews(Value value) {
  for (Operation *user : llvm::to_vector(value.getUsers())) {
    if (!launchesNothing(user) || user->hasTrait<OpTrait::IsTerminator>())
      continue;
    for (Value view : user->getResults())
      sinkViews(view);
    Operation *first = nullptr;
    for (Operation *reader : user->getUsers())
      if (!first || reader->isBeforeInBlock(first))
        first = reader;
    if (first)
      user->moveBefore(first);
  }
}

/// A copy in of the state behind `token` and its await, in front of `reader`: what it brings.
Value fetch(BlockArgument token, RankedTensorType type, Operation *reader) {
  OpBuilder builder(reader);
  auto in = CopyInOp::create(builder, token.getLoc(), type, token);
  auto there = AwaitInOp::create(builder, token.getLoc(), type, token, in.getComing());
  for (Operation *op : {in.getOperation(), there.getOperation()})
    setPhase(op, phaseOf(reader));
  return there.getY();
}

void send(const Use &use) {
  const auto type = cast<RankedTensorType>(use.argument.getType());
  BlockArgument token = use.argument;
  func::FuncOp graph = use.graph;
  sinkViews(token);
  Operation *first = nullptr;
  for (Operation *reader : token.getUsers())
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  const SmallVector<OpOperand *> reads =
      llvm::map_to_vector(token.getUses(), [](OpOperand &read) { return &read; });
  token.setType(copyTokenType(graph.getContext()));
  graph.setArgAttr(token.getArgNumber(), kSlowStateAttr, TypeAttr::get(type));
  if (first) {
    const Value there = fetch(token, type, first);
    for (OpOperand *read : reads)
      read->set(there);
  }
  if (use.update) {
    OpBuilder builder(use.update->getContext());
    builder.setInsertionPointAfter(use.update);
    auto out = CopyOutOp::create(builder, token.getLoc(), token.getType(), use.value);
    auto sent = AwaitOutOp::create(builder, token.getLoc(), out.getToken(), use.value);
    for (Operation *op : {out.getOperation(), sent.getOperation()})
      setPhase(op, phaseOf(use.update));
    graph.front().getTerminator()->setOperand(use.returned, out.getToken());
  }
  setTypes(graph);
}

bool isOfKinds(std::optional<ArgumentKind> kind, StringRef kinds) {
  return (kind == ArgumentKind::Optimizer && (kinds == "optimizer" || kinds == "all")) ||
         (kind == ArgumentKind::Frozen && (kinds == "frozen" || kinds == "all")) ||
         (kind == ArgumentKind::Parameter && (kinds == "parameters" || kinds == "all"));
}

/// Of the kinds that are asked for, by name.
llvm::MapVector<Attribute, State> stateOf(ArrayRef<ModuleOp> steps, StringRef kinds) {
  llvm::MapVector<Attribute, State> states;
  for (ModuleOp step : steps)
    for (auto graph : step.getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments()) {
        const auto kind = kindOfArgument(graph, argument.getArgNumber());
        if (!isOfKinds(kind, kinds))
          continue;
        State &state = states[graph.getArgAttr(argument.getArgNumber(), kNameAttr)];
        state.bytes = storedBytesOf(argument.getType());
        state.isTrained = kind == ArgumentKind::Parameter;
        if (auto use = useOf(graph, argument, *kind))
          state.uses.push_back(*use);
        else
          state.mayTravel = false;
      }
  return states;
}

//===-- --stow-send-states -------------------------------------------------------------------===//

struct SendStatesPass : impl::SendStatesPassBase<SendStatesPass> {
  using SendStatesPassBase::SendStatesPassBase;

  void runOnOperation() override {
    if (percent < 0 || percent > 100) {
      getOperation().emitError() << "percent is " << int64_t(percent) << "; expected 0 to 100";
      return signalPassFailure();
    }
    if (kinds != "optimizer" && kinds != "parameters" && kinds != "frozen" && kinds != "all") {
      getOperation().emitError() << "kinds is \"" << kinds
                                 << "\"; expected optimizer, parameters, frozen or all";
      return signalPassFailure();
    }
    sendStates(getOperation(), percent, kinds);
  }
};

} // namespace

void sendStates(ArrayRef<ModuleOp> steps, int64_t percent, StringRef kinds) {
  llvm::MapVector<Attribute, State> states = stateOf(steps, kinds);
  states.remove_if([](const auto &known) { return !known.second.mayTravel; });
  Bytes all = 0, taken = 0;
  for (const auto &[name, state] : states)
    all += state.bytes;
  auto ordered = states.takeVector();
  llvm::stable_sort(ordered, [](const auto &a, const auto &b) {
    return std::pair(a.second.isTrained, -a.second.bytes) <
           std::pair(b.second.isTrained, -b.second.bytes);
  });
  for (const auto &[name, state] : ordered) {
    if (static_cast<double>(taken) * 100 >= static_cast<double>(all) * static_cast<double>(percent))
      break;
    taken += state.bytes;
    llvm::for_each(state.uses, send);
  }
}

bool fetchWeightsLike(func::FuncOp like, func::FuncOp graph) {
  llvm::DenseMap<Attribute, Type> away;
  for (BlockArgument argument : like.getArguments())
    if (RankedTensorType type = slowStateOf(argument))
      away[like.getArgAttr(argument.getArgNumber(), kNameAttr)] = type;
  for (BlockArgument argument : graph.getArguments()) {
    auto known = away.find(graph.getArgAttr(argument.getArgNumber(), kNameAttr));
    if (known == away.end())
      continue;
    const auto use = useOf(graph, argument, ArgumentKind::Frozen); // which it does not update
    if (!use || argument.getType() != known->second)
      return false;
    send(*use);
  }
  return true;
}

namespace {

void setInArena(func::FuncOp graph, BlockArgument argument) {
  argument.setType(slowStateOf(argument));
  graph.removeArgAttr(argument.getArgNumber(), kSlowStateAttr);
}

} // namespace

void withStateInArena(func::FuncOp graph) {
  for (OpOperand &returned : graph.front().getTerminator()->getOpOperands())
    if (CopyOutOp out = copyOutOf(returned.get()); out && sendsState(out)) {
      returned.set(out.getX());
      for (Operation *await : llvm::to_vector(out.getToken().getUsers()))
        await->erase();
      out.erase();
    }
  for (BlockArgument argument : graph.getArguments()) {
    if (!slowStateOf(argument))
      continue;
    setInArena(graph, argument);
    SmallVector<AwaitInOp> awaits;
    for (Operation *user : argument.getUsers())
      if (auto await = dyn_cast<AwaitInOp>(user))
        awaits.push_back(await);
    for (AwaitInOp await : awaits) {
      Operation *in = await.getComing().getDefiningOp();
      await.getY().replaceAllUsesWith(argument);
      await.erase();
      in->erase();
    }
  }
  setTypes(graph);
}

void withWeightsInArena(func::FuncOp graph) {
  for (BlockArgument argument : graph.getArguments())
    if (isWeightInSlowMemory(argument))
      setInArena(graph, argument);
  setTypes(graph);
}

} // namespace stow
