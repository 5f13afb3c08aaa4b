// Chooses the physical layout of every tensor.
//
// One rule decides the activations: those of four and five dimensions are channels last (NHWC,
// NDHWC). The host library is as fast on it as on its own blocked layouts, every generated kernel
// sees long contiguous rows, and there is no channel padding to pay for. In a graph that multiplies
// four-dimensional stacks of matrices and has no channels, dimension 1 counts the heads of an
// attention: there everything is row-major, as such products want it. Only convolution weights
// get a library layout, chosen by the forward convolution; where a backward convolution wants
// another, a reorder of the (small) weight is inserted. One pass over each graph, in order: O(ops).
#include "passes/layout/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "passes/layout/Passes.h.inc"

namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// True when an op of the graph says that its results of `rank` dimensions have channels.
bool hasChannels(func::FuncOp graph, int64_t rank) {
  return llvm::any_of(graph.getBody().front(), [&](Operation &op) {
    return isa<Conv2dOp, Conv2dGradInputOp, MaxPoolOp, MaxPoolTrainingOp, AvgPoolOp, BatchNormOp,
               BatchNormTrainingOp, PlaneNormalizeOp, ChannelWindowSumOp>(op) &&
           tensorType(op.getResult(0)).getRank() == rank;
  });
}

/// True when four-dimensional tensors of the graph are images: unless there are products of them
/// and nothing that has channels.
bool hasImages(func::FuncOp graph) {
  bool multiplies = llvm::any_of(graph.getBody().front(), [](Operation &op) {
    return isa<MatmulOp>(op) && tensorType(op.getResult(0)).getRank() == 4;
  });
  return !multiplies || hasChannels(graph, 4);
}

/// True when the elements lie in row-major order, extents of 1 ignored.
bool isRowMajorOrder(RankedTensorType type) {
  Layout layout = layoutOf(type);
  if (!layout.blocks.empty())
    return false;
  int64_t last = -1;
  for (int64_t dim : layout.order) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

/// Assigns the layouts of one graph. State arguments whose type an earlier graph has fixed keep it.
class GraphLayout {
public:
  GraphLayout(func::FuncOp graph, const Target &target, llvm::StringMap<RankedTensorType> &state)
      : graph(graph), target(target), state(state), builder(graph.getContext()),
        channelsLast(hasImages(graph)), hasVolumes(hasChannels(graph, 5)) {}

  LogicalResult run() {
    assignArguments();
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front()))
      if (!op.hasTrait<OpTrait::IsTerminator>() && failed(assign(op)))
        return failure();
    return finish();
  }

  unsigned reorders = 0;

private:
  /// The house layout of a type.
  RankedTensorType houseType(RankedTensorType type) const {
    if (channelsLast && type.getRank() == 4)
      return withLayout(type, Layout{1, {0, 2, 3, 1}, {}, {}});
    if (hasVolumes && type.getRank() == 5)
      return withLayout(type, Layout{1, {0, 2, 3, 4, 1}, {}, {}});
    return withoutLayout(type);
  }

  bool isState(BlockArgument argument) {
    auto kind = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
    return kind && (kind == "parameter" || kind == "statistic" || kind == "optimizer");
  }

  StringRef nameOfArgument(BlockArgument argument) {
    return graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr).getValue();
  }

  /// Inputs get the house layout; state the one fixed before, or none until its first user asks.
  void assignArguments() {
    for (BlockArgument argument : graph.getArguments()) {
      if (!isState(argument)) {
        argument.setType(houseType(tensorType(argument)));
        continue;
      }
      auto known = state.find(nameOfArgument(argument));
      if (known != state.end()) {
        argument.setType(known->second);
        decided.insert(argument);
      }
    }
  }

  /// The operand in the wanted layout: state not yet decided adopts it, else a reorder is inserted.
  void require(OpOperand &operand, RankedTensorType wanted) {
    Value value = operand.get();
    if (value.getType() == wanted)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (isState(argument) && decided.insert(argument).second) {
        argument.setType(wanted);
        return;
      }
    Operation *op = operand.getOwner();
    builder.setInsertionPoint(op);
    auto reorder = ReorderOp::create(builder, op->getLoc(), wanted, value);
    if (Attribute phase = op->getAttr(kPhaseAttr))
      reorder->setAttr(kPhaseAttr, phase);
    operand.set(reorder);
    ++reorders;
  }

  void requireHouse(OpOperand &operand) { require(operand, houseType(tensorType(operand.get()))); }

  /// Undecided state read by anything but a convolution gets the house layout.
  void decideOperands(Operation &op) {
    for (OpOperand &operand : op.getOpOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand.get()))
        if (isState(argument) && decided.insert(argument).second)
          argument.setType(houseType(tensorType(argument)));
  }

  void setResults(Operation &op) {
    for (Value result : op.getResults())
      result.setType(houseType(tensorType(result)));
  }

  LogicalResult assign(Operation &op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case<Conv2dOp, Conv2dGradInputOp>(
            [&](auto conv) { return assignConvolution(*conv, conv.getWeightMutable()); })
        .Case<Conv2dGradWeightOp>(
            [&](Conv2dGradWeightOp conv) { return assignConvolutionGradWeight(conv); })
        .Case<SgdOp, AdamOp>([&](auto update) { return assignUpdate(*update); })
        .Case<EmbeddingOp, EmbeddingGradOp>(
            [&](auto indexed) { return assignRowMajor(*indexed.getOperation()); })
        .Case<ReshapeOp>([&](ReshapeOp reshape) { return assignReshape(reshape); })
        .Case<ConstantOp>([&](ConstantOp) { return success(); })
        .Default([&](Operation *other) {
          decideOperands(*other);
          if (isa<ElementwiseOpInterface>(other))
            return assignElementwise(*other);
          for (OpOperand &operand : other->getOpOperands())
            requireHouse(operand);
          setResults(*other);
          return success();
        });
  }

  /// x, dy, y channels last; the weight as the library likes.
  LogicalResult assignConvolution(Operation &op, OpOperand &weight) {
    for (OpOperand &operand : op.getOpOperands())
      if (&operand != &weight)
        requireHouse(operand);
    setResults(op);
    auto layout = weightLayout(op, weight);
    if (failed(layout))
      return failure();
    require(weight, withLayout(withoutLayout(tensorType(weight.get())), *layout));
    return success();
  }

  /// The layout that suits the weight of a convolution best. A trained weight takes the layout of
  /// its gradient where the forward is fast on it, so that neither has to be reordered; a weight
  /// whose layout is settled keeps it where that is fast.
  FailureOr<Layout> weightLayout(Operation &op, OpOperand &weight) {
    auto library = cast<LibraryOpInterface>(&op);
    RankedTensorType plain = withoutLayout(tensorType(weight.get()));
    SmallVector<RankedTensorType> candidates;
    if (auto argument = dyn_cast<BlockArgument>(weight.get());
        argument && isState(argument) && !decided.contains(argument)) {
      if (auto conv = dyn_cast<Conv2dOp>(&op))
        for (Operation *user : conv.getX().getUsers())
          if (auto gradient = dyn_cast<Conv2dGradWeightOp>(user);
              gradient && withoutLayout(gradient.getDweight().getType()) == plain) {
            // The gradient is visited later: its types are still the step form's.
            auto wanted = gradWeightLayout(gradient, houseType(conv.getX().getType()),
                                           houseType(gradient.getDy().getType()));
            if (failed(wanted))
              return failure();
            candidates.push_back(withLayout(plain, *wanted));
          }
    } else {
      candidates.push_back(tensorType(weight.get()));
    }
    SmallVector<bool> fixed(op.getNumOperands() + op.getNumResults(), false);
    for (RankedTensorType candidate : candidates) {
      RankedTensorType before = tensorType(weight.get());
      weight.get().setType(candidate);
      auto requirements = target.query(library, fixed);
      weight.get().setType(before);
      if (succeeded(requirements) && !requirements->isReference)
        return layoutOf(candidate);
    }
    SmallVector<bool> free = fixed;
    free[weight.getOperandNumber()] = true;
    auto requirements = target.query(library, free);
    if (failed(requirements))
      return failure();
    return requirements->layouts[weight.getOperandNumber()];
  }

  /// The layout the weight gradient likes, for operands of the given types.
  FailureOr<Layout> gradWeightLayout(Conv2dGradWeightOp op, RankedTensorType x,
                                     RankedTensorType dy) {
    Type xBefore = op.getX().getType(), dyBefore = op.getDy().getType();
    op.getX().setType(x);
    op.getDy().setType(dy);
    auto requirements =
        target.query(cast<LibraryOpInterface>(op.getOperation()), {false, false, true});
    op.getX().setType(cast<RankedTensorType>(xBefore));
    op.getDy().setType(cast<RankedTensorType>(dyBefore));
    if (failed(requirements))
      return failure();
    return requirements->layouts[2];
  }

  LogicalResult assignConvolutionGradWeight(Conv2dGradWeightOp op) {
    for (OpOperand &operand : op->getOpOperands())
      requireHouse(operand);
    auto layout = gradWeightLayout(op, op.getX().getType(), op.getDy().getType());
    if (failed(layout))
      return failure();
    op.getDweight().setType(withLayout(withoutLayout(op.getDweight().getType()), *layout));
    return success();
  }

  /// All tensors of an update lie as the parameter does; a lone gradient fixes the parameter.
  LogicalResult assignUpdate(Operation &op) {
    OpOperand &parameter = op.getOpOperand(0);
    if (auto argument = dyn_cast<BlockArgument>(parameter.get()))
      if (isState(argument) && decided.insert(argument).second)
        argument.setType(houseType(tensorType(argument)));
    RankedTensorType type = tensorType(parameter.get());
    for (OpOperand &operand : llvm::drop_begin(op.getOpOperands()))
      if (tensorType(operand.get()).getShape() == type.getShape() &&
          tensorType(operand.get()).getElementType() == type.getElementType())
        require(operand, type);
    for (Value result : op.getResults())
      result.setType(type);
    return success();
  }

  /// Rows are read and written as wholes.
  LogicalResult assignRowMajor(Operation &op) {
    for (OpOperand &operand : op.getOpOperands())
      require(operand, withoutLayout(tensorType(operand.get())));
    for (Value result : op.getResults())
      result.setType(withoutLayout(tensorType(result)));
    return success();
  }

  /// A reshape must be a view: its operand in row-major order first.
  LogicalResult assignReshape(ReshapeOp op) {
    decideOperands(*op);
    OpOperand &operand = op.getXMutable();
    if (!isRowMajorOrder(tensorType(operand.get())))
      require(operand, withoutLayout(tensorType(operand.get())));
    RankedTensorType house = houseType(op.getY().getType());
    op.getY().setType(isRowMajorOrder(house) ? house : withoutLayout(house));
    return success();
  }

  /// Results lie as the first operand of their shape does, if that is not a library layout meant
  /// for others; all operands of that shape follow.
  LogicalResult assignElementwise(Operation &op) {
    RankedTensorType space = tensorType(op.getResult(0));
    Layout layout = layoutOf(houseType(space));
    for (Value operand : op.getOperands())
      if (tensorType(operand).getShape() == space.getShape() &&
          !operand.getDefiningOp<ConstantOp>()) {
        layout = layoutOf(operand.getType());
        break;
      }
    for (OpOperand &operand : op.getOpOperands()) {
      if (operand.get().getDefiningOp<ConstantOp>())
        continue;
      if (tensorType(operand.get()).getShape() == space.getShape())
        require(operand, withLayout(withoutLayout(tensorType(operand.get())), layout));
      else
        requireHouse(operand);
    }
    for (Value result : op.getResults())
      result.setType(withLayout(withoutLayout(tensorType(result)), layout));
    return success();
  }

  /// Unused state gets the house layout; results that replace state must lie as it does.
  LogicalResult finish() {
    for (BlockArgument argument : graph.getArguments()) {
      if (!isState(argument))
        continue;
      if (decided.insert(argument).second)
        argument.setType(houseType(tensorType(argument)));
      state[nameOfArgument(argument)] = tensorType(argument);
    }
    Operation *terminator = graph.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      if (auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr))
        require(operand, state.lookup(name.getValue()));
    graph.setFunctionType(FunctionType::get(graph.getContext(), graph.getBody().getArgumentTypes(),
                                            terminator->getOperandTypes()));
    return success();
  }

  func::FuncOp graph;
  const Target &target;
  llvm::StringMap<RankedTensorType> &state;
  llvm::DenseSet<Value> decided;
  OpBuilder builder;
  const bool channelsLast, hasVolumes;
};

//===-- --stow-assign-layouts ----------------------------------------------------------------===//

struct AssignLayoutsPass : impl::AssignLayoutsPassBase<AssignLayoutsPass> {
  explicit AssignLayoutsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    llvm::StringMap<RankedTensorType> state;
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      GraphLayout layout(graph, target, state);
      if (failed(layout.run()))
        return signalPassFailure();
      reorders += layout.reorders;
    }
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createAssignLayoutsPass(const Target &target) {
  return std::make_unique<AssignLayoutsPass>(target);
}

} // namespace stow
