// Chooses the physical layout of every tensor.
//
// Activations have an order of their dimensions and nothing else, no blocks and no padding: which
// order is decided first, for the whole graph (Orders.h). Then the graph is walked once. An op
// whose operand lies otherwise gets a reorder; reshapes and transposes whose sides describe the
// same bytes are views. Convolution weights get a library layout that does not pad them
// (Weights.h); a call that has fast code for padded weights only reads or writes a copy that lives
// for that call. O(ops).
#include "ir/Graphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowShapeOps.h"
#include "passes/layout/Orders.h"
#include "passes/layout/Passes.h"
#include "passes/layout/Weights.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "passes/layout/Passes.h.inc"

namespace {

/// True when a matrix product may read an operand of this type: whole rows or whole columns.
bool isMatrixStack(RankedTensorType type) {
  return isPlain(type) && orderOf(type).back() >= type.getRank() - 2;
}

/// Assigns the layouts of one graph. State arguments whose type an earlier graph has fixed keep it.
class GraphLayout {
public:
  GraphLayout(func::FuncOp graph, const Target &target, llvm::StringMap<RankedTensorType> &state)
      : graph(graph), state(state), target(target), orders(graph, target), weights(target),
        builder(graph.getContext()) {}

  LogicalResult run() {
    assignArguments();
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front()))
      if (!op.hasTrait<OpTrait::IsTerminator>() && failed(assign(op)))
        return failure();
    return finish();
  }

private:
  bool isState(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && isStateArgument(graph, argument.getArgNumber());
  }

  StringRef nameOfArgument(BlockArgument argument) {
    return graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr).getValue();
  }

  /// Inputs get their order; state the layout fixed before, or none until its first user asks.
  void assignArguments() {
    for (BlockArgument argument : graph.getArguments()) {
      if (!isState(argument)) {
        argument.setType(orders.typeOf(argument));
        continue;
      }
      auto known = state.find(nameOfArgument(argument));
      if (known != state.end()) {
        argument.setType(known->second);
        decided.insert(argument);
        given.insert(argument);
      }
    }
  }

  /// `value` in another layout, made before the builder's place: a view where the bytes are the
  /// same, else a reorder.
  Value converted(Value value, RankedTensorType wanted, Operation *reader) {
    Operation *made;
    if (sameBytes(tensorType(value), wanted))
      made = ReshapeOp::create(builder, reader->getLoc(), wanted, value);
    else
      made = ReorderOp::create(builder, reader->getLoc(), wanted, value);
    copyPhase(reader, made);
    return made->getResult(0);
  }

  /// The operand in the wanted layout: state not yet decided adopts it, else it is converted.
  void require(OpOperand &operand, RankedTensorType wanted) {
    Value value = operand.get();
    if (value.getType() == wanted)
      return;
    if (isState(value) && decided.insert(value).second) {
      value.setType(wanted);
      return;
    }
    builder.setInsertionPoint(operand.getOwner());
    operand.set(converted(value, wanted, operand.getOwner()));
  }

  void requireRowMajor(OpOperand &operand) {
    require(operand, withoutLayout(tensorType(operand.get())));
  }

  /// Undecided state is row-major; what is blocked becomes so.
  void requirePlain(OpOperand &operand) {
    if (isState(operand.get()))
      decided.insert(operand.get());
    if (!isPlain(operand.get().getType()))
      requireRowMajor(operand);
  }

  LogicalResult assign(Operation &op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case<Conv2dOp, Conv2dGradInputOp>(
            [&](auto conv) { return assignConvolution(*conv, conv.getWeightMutable()); })
        .Case<Conv2dGradWeightOp>(
            [&](Conv2dGradWeightOp conv) { return assignConvolutionGradWeight(conv); })
        .Case<DequantizeOp, EmbeddingOp, EmbeddingGradOp, ReduceScatterOp, ShardOp, UnshardOp>(
            [&](auto indexed) { return assignRowMajor(*indexed.getOperation()); })
        .Case<CastOp>([&](CastOp cast) { return assignCast(cast); })
        .Case<MatmulOp>([&](MatmulOp matmul) { return assignMatmul(matmul); })
        .Case<ReshapeOp>([&](ReshapeOp reshape) { return assignReshape(reshape); })
        .Case<TransposeOp>([&](TransposeOp transpose) { return assignTranspose(transpose); })
        .Case<ConstantOp>([&](ConstantOp) { return success(); })
        .Default([&](Operation *other) {
          auto alias = dyn_cast<AliasOpInterface>(other);
          if (alias && other->getNumResults() > 0 && alias.getUpdatedOperand(0))
            return assignUpdate(*other, *alias.getUpdatedOperand(0));
          return assignOrdered(*other);
        });
  }

  //===-- Convolutions -----------------------------------------------------------------------===//

  /// x, dy, y as the target wishes; the weight as the library likes.
  LogicalResult assignConvolution(Operation &op, OpOperand &weight) {
    if (isState(weight.get()) && !decided.contains(weight.get())) {
      if (failed(decideWeight(weight.get())))
        return failure();
    } else if (given.contains(weight.get())) {
      noteGradients(weight.get());
    }
    for (OpOperand &operand : op.getOpOperands())
      if (&operand != &weight)
        require(operand, imageType(target, &op, tensorType(operand.get())));
    auto wanted = weights.forCall(&op, tensorType(weight.get()));
    if (failed(wanted))
      return failure();
    require(weight, *wanted);
    write(op.getResult(0), imageType(target, &op, tensorType(op.getResult(0))));
    return success();
  }

  /// A result that its op writes as `written`; where its order is another, it is copied.
  void write(Value result, RankedTensorType written) {
    RankedTensorType wanted = orders.typeOf(result);
    result.setType(written);
    if (wanted == written)
      return;
    builder.setInsertionPointAfterValue(result);
    Value copy = converted(result, wanted, result.getDefiningOp());
    result.replaceAllUsesExcept(copy, copy.getDefiningOp());
  }

  LogicalResult decideWeight(Value weight) {
    auto layout = weights.forState(weight);
    if (failed(layout))
      return failure();
    weight.setType(*layout);
    decided.insert(weight);
    noteGradients(weight);
    return success();
  }

  /// A cast weight lies as the weight, which lies as its convolutions like, its gradient first; a cast
  /// gradient lies as the gradient.
  LogicalResult assignCast(CastOp cast) {
    Value x = cast.getX(), y = cast.getY();
    const bool isWeight = isState(x) && !WeightLayouts::readersOf(x).empty();
    if (!isWeight && !x.getDefiningOp<Conv2dGradWeightOp>())
      return assignOrdered(*cast);
    if (isWeight && given.contains(x))
      noteGradients(x);
    else if (isWeight && !decided.contains(x) && failed(decideWeight(x)))
      return failure();
    y.setType(withLayout(withoutLayout(tensorType(y)), layoutOf(x.getType())));
    return success();
  }

  /// The gradients of a weight lie as it does.
  void noteGradients(Value weight) {
    for (Operation *reader : WeightLayouts::readersOf(weight))
      if (auto convolution = dyn_cast<Conv2dOp>(reader))
        if (auto gradient = WeightLayouts::gradientOf(convolution))
          gradientLayouts[gradient] = withLayout(withoutLayout(tensorType(gradient.getDweight())),
                                                 layoutOf(weight.getType()));
  }

  /// The gradient lies as its weight does, whatever the call writes.
  LogicalResult assignConvolutionGradWeight(Conv2dGradWeightOp op) {
    for (OpOperand &operand : op->getOpOperands())
      require(operand, imageType(target, op, tensorType(operand.get())));
    Value gradient = op.getDweight();
    auto known = gradientLayouts.find(op);
    RankedTensorType stored =
        known != gradientLayouts.end() ? known->second : withoutLayout(tensorType(gradient));
    auto written = weights.forCall(op, stored);
    if (failed(written))
      return failure();
    gradient.setType(*written);
    if (*written == stored)
      return success();
    builder.setInsertionPointAfter(op);
    Value copy = converted(gradient, stored, op);
    gradient.replaceAllUsesExcept(copy, copy.getDefiningOp());
    return success();
  }

  //===-- Everything else --------------------------------------------------------------------===//

  /// Rows are read and written as wholes.
  LogicalResult assignRowMajor(Operation &op) {
    for (OpOperand &operand : op.getOpOperands())
      requireRowMajor(operand);
    for (Value result : op.getResults())
      write(result, withoutLayout(tensorType(result)));
    return success();
  }

  /// Operands whose rows or columns are whole are read where they lie, unless the library has only
  /// reference code for them.
  LogicalResult assignMatmul(MatmulOp op) {
    for (OpOperand &operand : op->getOpOperands()) {
      requirePlain(operand);
      if (!isMatrixStack(tensorType(operand.get())))
        requireRowMajor(operand);
    }
    Value y = op.getY();
    RankedTensorType wanted = orders.typeOf(y);
    y.setType(orderOf(wanted).back() == wanted.getRank() - 1 ? wanted : withoutLayout(wanted));
    if (!target.libraryCall(op))
      return success();
    auto answer = target.query(op, SmallVector<bool>(op->getNumOperands() + 1, false));
    if (failed(answer))
      return failure();
    if (!answer->isReference)
      return success();
    for (OpOperand &operand : op->getOpOperands())
      requireRowMajor(operand);
    y.setType(withoutLayout(wanted));
    return success();
  }

  /// All tensors of an update lie as what it updates does; a lone gradient fixes the parameter.
  LogicalResult assignUpdate(Operation &op, unsigned updated) {
    OpOperand &parameter = op.getOpOperand(updated);
    if (isState(parameter.get()))
      decided.insert(parameter.get());
    RankedTensorType type = tensorType(parameter.get());
    auto isAlike = [&](Value value) { return tensorType(value).getShape() == type.getShape(); };
    auto like = [&](Value value) {
      return withLayout(withoutLayout(tensorType(value)), layoutOf(type));
    };
    for (OpOperand &operand : op.getOpOperands())
      if (isAlike(operand.get()))
        require(operand, like(operand.get()));
    for (Value result : op.getResults())
      if (isAlike(result))
        result.setType(like(result));
    return success();
  }

  /// A reshape must be a view: its operand lies as the result's order wants it, or the result as
  /// the operand's allows.
  LogicalResult assignReshape(ReshapeOp op) {
    OpOperand &operand = op.getXMutable();
    requirePlain(operand);
    RankedTensorType wanted = orders.typeOf(op.getY());
    RankedTensorType x = tensorType(operand.get());
    if (auto before = reshapedOrder(wanted, x.getShape())) {
      if (!sameBytes(x, withOrder(x, *before)))
        require(operand, withOrder(x, *before));
      op.getY().setType(wanted);
      return success();
    }
    auto seen = reshapedOrder(x, wanted.getShape());
    if (!seen) {
      requireRowMajor(operand);
      seen = rowMajorOrder(wanted.getRank());
    }
    op.getY().setType(withOrder(wanted, *seen));
    return success();
  }

  /// A transpose of state stays the copy that the step form has it for: readers of the copy may
  /// come after the state's update.
  LogicalResult assignTranspose(TransposeOp op) {
    bool wasView = op.getViewedOperand().has_value();
    requirePlain(op.getXMutable());
    op.getY().setType(orders.typeOf(op.getY()));
    Value root = op.getX();
    while (Operation *view = root.getDefiningOp()) {
      auto alias = dyn_cast<AliasOpInterface>(view);
      if (!alias || !alias.getViewedOperand())
        break;
      root = view->getOperand(*alias.getViewedOperand());
    }
    if (!wasView && isState(root) && op.getViewedOperand())
      op.getY().setType(withoutLayout(op.getY().getType()));
    return success();
  }

  /// Everything that reads and writes its tensors in one order. Elementwise ops on tensors that
  /// share a library layout (gradients of weights) keep it; others read such tensors row-major.
  LogicalResult assignOrdered(Operation &op) {
    SmallVector<Value> grouped = Orders::groupedValues(&op);
    auto isGrouped = [&](Value value) { return llvm::is_contained(grouped, value); };
    std::optional<Layout> library;
    if (isa<ElementwiseOpInterface>(op))
      for (Value operand : op.getOperands())
        if (isGrouped(operand) && !isPlain(operand.getType()) && !library)
          library = layoutOf(operand.getType());
    auto wanted = [&](Value value, const Layout &order) {
      auto type = withoutLayout(tensorType(value));
      return withLayout(type, library ? *library : order);
    };
    Layout order;
    for (Value result : op.getResults())
      if (isGrouped(result))
        order = layoutOf(orders.typeOf(result));
    if (op.getNumResults() > 0 && !isGrouped(op.getResult(0)))
      for (Value operand : op.getOperands())
        if (isGrouped(operand) && !isState(operand))
          order = layoutOf(orders.typeOf(operand));
    for (OpOperand &operand : op.getOpOperands()) {
      if (operand.get().getDefiningOp<ConstantOp>())
        continue;
      if (isGrouped(operand.get()))
        require(operand, wanted(operand.get(), order));
      else
        requirePlain(operand);
    }
    for (Value result : op.getResults())
      result.setType(isGrouped(result) ? wanted(result, order) : orders.typeOf(result));
    return success();
  }

  /// Unused state is row-major; results that replace state must lie as it does.
  LogicalResult finish() {
    for (BlockArgument argument : graph.getArguments())
      if (isState(argument))
        state[nameOfArgument(argument)] = tensorType(argument);
    Operation *terminator = graph.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      if (auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr))
        require(operand, state.lookup(name.getValue()));
    graph.setFunctionType(FunctionType::get(graph.getContext(), graph.getBody().getArgumentTypes(),
                                            terminator->getOperandTypes()));
    return success();
  }

  func::FuncOp graph;
  llvm::StringMap<RankedTensorType> &state;
  const Target &target;
  Orders orders;
  WeightLayouts weights;
  llvm::DenseSet<Value> decided;
  llvm::DenseSet<Value> given; ///< state whose layout an earlier graph has fixed
  llvm::DenseMap<Operation *, RankedTensorType> gradientLayouts; ///< of weights
  OpBuilder builder;
};

//===-- --stow-assign-layouts ----------------------------------------------------------------===//

struct AssignLayoutsPass : impl::AssignLayoutsPassBase<AssignLayoutsPass> {
  explicit AssignLayoutsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    llvm::StringMap<RankedTensorType> state;
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      if (failed(GraphLayout(graph, target, state).run()))
        return signalPassFailure();
    }
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createAssignLayoutsPass(const Target &target) {
  return std::make_unique<AssignLayoutsPass>(target);
}

} // namespace stow
