// Binds new state values to the storage of the old ones: O(ops).
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

/// A map that copies `value` over `argument`.
Value copyOver(OpBuilder &builder, Location location, Value value, BlockArgument argument) {
  auto map = MapOp::create(builder, location, TypeRange(argument.getType()),
                           ValueRange{value, argument}, builder.getDenseI64ArrayAttr({0, 1}));
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
  LogicalResult bind(func::FuncOp graph, BlockArgument argument, OpOperand &operand,
                     StringAttr name) {
    if (!argument)
      return graph.emitError() << "state result " << name << " names no argument";
    Value value = operand.get();
    if (value == argument)
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
    operand.set(copyOver(builder, operand.getOwner()->getLoc(), value, argument));
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
  registerPass(createBindStatePass);
  registerPass(createShareInPlacePass);
  registerPass([] { return createPackBuffersPass(); });
  registerPass(createGatherUpdatesPass);
  registerPass(createPlaceNextInputsPass);
}

} // namespace stow
