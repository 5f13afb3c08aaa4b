// Checks the ordered form: only what launches or is a view, state bound, in-place marks sound.
#include "passes/verify/Passes.h"

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_VERIFYORDEREDPASS
#include "passes/verify/Passes.h.inc"

namespace {

/// Follows which values have been overwritten while the ops of a graph are read in order.
class OverwriteCheck {
public:
  LogicalResult run(func::FuncOp graph) {
    bool ok = true;
    for (Operation &op : graph.getBody().front()) {
      ok &= succeeded(checkKind(op)) && succeeded(checkReads(op)) && succeeded(checkMarks(op));
      for (OpResult result : op.getResults())
        define(op, result);
    }
    return success(ok);
  }

private:
  LogicalResult checkKind(Operation &op) {
    if (isa<ConstantOp>(op) || (isa<ElementwiseOpInterface>(op) && !isa<MapOp>(op))) // O1
      return op.emitOpError() << "does not belong to the ordered form; run stow-fuse-elementwise";
    return success();
  }

  LogicalResult checkReads(Operation &op) { // O2
    for (OpOperand &operand : op.getOpOperands())
      if (Operation *writer = overwrittenBy.lookup(rootOf(operand.get()))) {
        InFlightDiagnostic error = op.emitError() << "reads operand " << operand.getOperandNumber()
                                                  << " after its storage has been overwritten";
        error.attachNote(writer->getLoc()) << "overwritten here";
        return error;
      }
    return success();
  }

  LogicalResult checkMarks(Operation &op) { // O3
    auto pairs = op.getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
    if (!pairs)
      return success();
    auto alias = dyn_cast<AliasOpInterface>(&op);
    if (!alias || pairs.size() % 2 != 0)
      return op.emitError() << "carries stow.in_place but overwrites nothing";
    SmallVector<Value> taken;
    for (int64_t i = 0; i < pairs.size(); i += 2)
      if (failed(checkPair(op, alias, pairs[i], pairs[i + 1], taken)))
        return failure();
    return success();
  }

  /// One pair of stow.in_place; `taken` are the storages that other pairs overwrite.
  LogicalResult checkPair(Operation &op, AliasOpInterface alias, int64_t result, int64_t operand,
                          SmallVectorImpl<Value> &taken) {
    SmallVector<unsigned> allowed;
    if (result >= 0 && result < op.getNumResults())
      allowed = alias.getOverwritableOperands(result);
    if (!llvm::is_contained(allowed, operand))
      return op.emitError() << "result " << result << " may not overwrite operand " << operand;
    if (storedBytesOf(op.getResult(result).getType()) !=
        storedBytesOf(op.getOperand(operand).getType()))
      return op.emitError() << "result " << result << " and operand " << operand
                            << " differ in stored size";
    Value root = rootOf(op.getOperand(operand));
    if (auto name = nameOfState(root))
      return op.emitError() << "result " << result << " overwrites state " << name
                            << "; only its new value may";
    if (llvm::is_contained(taken, root))
      return op.emitError() << "overwrites operand " << operand << " with more than one result";
    taken.push_back(root);
    for (OpOperand &other : op.getOpOperands())
      if (rootOf(other.get()) == root && !llvm::is_contained(allowed, other.getOperandNumber()))
        return op.emitError() << "result " << result << " overwrites operand " << operand
                              << ", which the op also reads as operand "
                              << other.getOperandNumber();
    return success();
  }

  /// Name of the state argument that `value` is, if it is one.
  StringAttr nameOfState(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    auto graph = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
    auto attribute = [&](StringRef name) {
      return graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), name);
    };
    if (!graph || !attribute(kKindAttr))
      return {};
    StringRef kind = attribute(kKindAttr);
    bool isState = kind == "parameter" || kind == "statistic" || kind == "optimizer";
    return isState ? attribute(kNameAttr) : StringAttr();
  }

  void define(Operation &op, OpResult result) {
    auto alias = dyn_cast<AliasOpInterface>(&op);
    if (alias && alias.getViewedOperand()) {
      roots[result] = rootOf(op.getOperand(*alias.getViewedOperand()));
      return;
    }
    roots[result] = result;
    auto overwrite = [&](Value operand) { overwrittenBy[rootOf(operand)] = &op; };
    if (alias)
      if (auto updated = alias.getUpdatedOperand(result.getResultNumber()))
        overwrite(op.getOperand(*updated));
    if (auto pairs = op.getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr))
      for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
        if (pairs[i] == static_cast<int64_t>(result.getResultNumber()))
          overwrite(op.getOperand(pairs[i + 1]));
  }

  Value rootOf(Value value) const {
    auto root = roots.find(value);
    return root == roots.end() ? value : root->second;
  }

  llvm::DenseMap<Value, Value> roots; ///< the value whose bytes a view looks at
  llvm::DenseMap<Value, Operation *> overwrittenBy;
};

/// O4: a state result is produced by an op that updates the argument of that name.
LogicalResult checkState(func::FuncOp graph) {
  Operation *terminator = graph.getBody().front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr);
    if (!name)
      continue;
    auto isArgument = [&](Value value) {
      auto argument = dyn_cast<BlockArgument>(value);
      return argument && graph.getArgAttr(argument.getArgNumber(), kNameAttr) == name;
    };
    if (isArgument(operand.get()))
      continue;
    auto result = dyn_cast<OpResult>(operand.get());
    auto alias = result ? dyn_cast<AliasOpInterface>(result.getOwner()) : nullptr;
    auto updated = alias ? alias.getUpdatedOperand(result.getResultNumber()) : std::nullopt;
    if (!updated || !isArgument(result.getOwner()->getOperand(*updated)))
      return graph.emitError() << "the new value of state " << name
                               << " does not update its argument; run stow-bind-state";
  }
  return success();
}

//===-- --stow-verify-ordered ----------------------------------------------------------------===//

struct VerifyOrderedPass : impl::VerifyOrderedPassBase<VerifyOrderedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto form = module->getAttrOfType<StringAttr>(kFormAttr);
    if (!form || form != "ordered") {
      module.emitError() << "expects stow.form = \"ordered\"; run stow-checkpoint first";
      return signalPassFailure();
    }
    bool ok = true;
    for (auto graph : module.getOps<func::FuncOp>())
      ok &= succeeded(OverwriteCheck().run(graph)) && succeeded(checkState(graph));
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
