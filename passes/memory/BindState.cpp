// Binds new state values to the storage of the old ones: O(ops).
#include "ir/StowKernelOps.h"
#include "ir/StowOffloadOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_BINDSTATEPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// The last op of the block that reads `value` or a view of it, or null.
Operation *lastReader(Value value) {
  Operation *last = nullptr;
  for (Operation *user : value.getUsers()) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      continue;
    Operation *reader = user;
    if (launchesNothing(user))
      for (Value view : user->getResults())
        if (Operation *through = lastReader(view))
          reader = through;
    if (!last || last->isBeforeInBlock(reader))
      last = reader;
  }
  return last;
}

/// Makes a kernel write the result over `argument`, if it may: the result has no other place yet, the
/// kernel reads the argument in the result's type, and nothing reads the old value later. Where the
/// kernel uses up a product, the argument is no factor of it.
template <typename Kernel>
bool updateInPlace(Kernel kernel, unsigned result, BlockArgument argument) {
  const int64_t operand = llvm::find(kernel->getOperands(), argument) - kernel->operand_begin();
  const int64_t factors = kernel->getNumOperands() - kernel.getInputs().size();
  if (kernel.getUpdatedOperand(result) || operand == kernel->getNumOperands() ||
      operand < factors || kernel->getResult(result).getType() != argument.getType() ||
      lastReader(argument) != kernel)
    return false;
  SmallVector<int64_t> updates(kernel.getUpdates());
  updates.append({result, operand});
  kernel.setUpdates(updates);
  return true;
}

/// A map that copies `value` over `argument`, or to a place of its own where there is none.
Value copied(OpBuilder &builder, Location location, Value value, BlockArgument argument) {
  SmallVector<Value> inputs{value};
  SmallVector<int64_t> updates;
  if (argument) {
    inputs.push_back(argument);
    updates.append({0, 1});
  }
  auto map = MapOp::create(builder, location, TypeRange(value.getType()), inputs,
                           builder.getDenseI64ArrayAttr(updates));
  setPhase(map, Phase::Update);
  Block &block = map.getBody().emplaceBlock();
  for (Value input : map.getInputs())
    block.addArgument(cast<RankedTensorType>(input.getType()).getElementType(), location);
  builder.setInsertionPointToStart(&block);
  YieldOp::create(builder, location, ValueRange{block.getArgument(0)});
  return map.getResult(0);
}

//===-- --stow-bind-state --------------------------------------------------------------------===//

struct BindStatePass : impl::BindStatePassBase<BindStatePass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      Operation *terminator = graph.getBody().front().getTerminator();
      llvm::DenseMap<Attribute, BlockArgument> arguments; // by name
      for (BlockArgument argument : graph.getArguments())
        if (Attribute name = graph.getArgAttr(argument.getArgNumber(), kNameAttr))
          arguments[name] = argument;
      // State that takes over other state's value reads it before that one's new value is written.
      auto isOld = [&](Value value) {
        auto argument = dyn_cast<BlockArgument>(value);
        return argument && isStateArgument(graph, argument.getArgNumber());
      };
      keepExchanged(graph, arguments, isOld);
      for (bool takesOver : {true, false})
        for (OpOperand &operand : terminator->getOpOperands()) {
          auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr);
          if (name && isOld(operand.get()) == takesOver &&
              failed(bind(graph, arguments.lookup(name), operand, name)))
            return signalPassFailure();
        }
    }
    getOperation()->setAttr(kFormAttr, StringAttr::get(&getContext(), "ordered"));
  }

private:
  /// State that takes over the old value of state which takes over another's itself, as where two exchange their values, takes it from a
  /// copy, which is made before either is written.
  static void keepExchanged(func::FuncOp graph,
                            const llvm::DenseMap<Attribute, BlockArgument> &arguments,
                            llvm::function_ref<bool(Value)> isOld) {
    Operation *terminator = graph.getBody().front().getTerminator();
    SmallVector<OpOperand *> takers;
    llvm::SmallPtrSet<Value, 4> written;
    for (OpOperand &operand : terminator->getOpOperands()) {
      Attribute name = graph.getResultAttr(operand.getOperandNumber(), kStateAttr);
      BlockArgument argument = name ? arguments.lookup(name) : BlockArgument();
      if (argument && isOld(operand.get()) && operand.get() != argument) {
        takers.push_back(&operand);
        written.insert(argument);
      }
    }
    OpBuilder builder(terminator);
    for (OpOperand *taker : takers)
      if (Value value = taker->get(); written.contains(value)) {
        builder.setInsertionPoint(terminator);
        taker->set(copied(builder, terminator->getLoc(), value, {}));
      }
  }

  LogicalResult bind(func::FuncOp graph, BlockArgument argument, OpOperand &operand,
                     StringAttr name) {
    if (!argument)
      return graph.emitError() << "state result " << name << " names no argument";
    Value value = operand.get();
    if (value == argument ||
        slowStateOf(argument)) // what is sent to slow memory has its place there
      return success();
    if (auto result = dyn_cast<OpResult>(value)) {
      Operation *producer = result.getOwner();
      if (auto alias = dyn_cast<AliasOpInterface>(producer))
        if (auto updated = alias.getUpdatedOperand(result.getResultNumber()))
          if (producer->getOperand(*updated) == argument)
            return checkNoLaterReader(producer, argument, name);
      if (auto map = dyn_cast<MapOp>(producer))
        if (updateInPlace(map, result.getResultNumber(), argument))
          return success();
      if (auto product = dyn_cast<ProductMapOp>(producer))
        if (updateInPlace(product, result.getResultNumber(), argument))
          return success();
    }
    OpBuilder builder(operand.getOwner());
    Operation *last = lastReader(argument), *producer = value.getDefiningOp();
    if (last && producer && last->isBeforeInBlock(producer))
      last = producer;
    if (last)
      builder.setInsertionPointAfter(last);
    operand.set(copied(builder, operand.getOwner()->getLoc(), value, argument));
    return success();
  }

  LogicalResult checkNoLaterReader(Operation *update, BlockArgument argument, StringAttr name) {
    Operation *last = lastReader(argument);
    if (last != update)
      return last->emitError() << "reads the old value of " << name << " after its update";
    return success();
  }
};

} // namespace
void registerMemoryPasses() {
  registerPass([] { return createSendStatesPass(); });
  registerPass(createBindStatePass);
  registerPass(createShareInPlacePass);
  registerPass([] { return createPackBuffersPass(); });
  registerPass(createGatherUpdatesPass);
  registerPass(createPlaceNextInputsPass);
}

} // namespace stow
