// The last product of a classifier and its loss in pieces of rows: O(pieces), and the ops that read
// the loss.
//
//            whole                              in pieces
//   x  ----> logits ----> row losses            x[0:n]  -> logits, loss, dlogits -> dx[0:n], dw
//             |   \.                            x[n:2n] -> logits, loss, dlogits -> dx[n:2n], dw +
//             |    dlogits -> dx, dw            ...
//
// With many classes logits and dlogits are what a step's peak consists of; in pieces one of them exists at a
// time (Wijmans et al., "Cut your losses in large-vocabulary language models", 2024, and the chunked
// losses of Liger, Hsu et al., 2024, do the same in one kernel). A piece's backward runs right after its forward, for which
// the gradient by the row losses must be known before them: of means and sums over rows it is.
#include "passes/fission/Passes.h"

#include "ir/StepGraphs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_CUTHEADPASS
#include "passes/fission/Passes.h.inc"

namespace {

/// What `value` is a reshape of.
Value unshaped(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The ops that read `value` under any shape; the reshapes are left out.
SmallVector<OpOperand *> readersOf(Value value) {
  SmallVector<OpOperand *> readers;
  for (OpOperand &use : value.getUses()) {
    if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
      llvm::append_range(readers, readersOf(reshape.getY()));
    else
      readers.push_back(&use);
  }
  return readers;
}

/// A product with a matrix on its right, so that rows of the left are rows of the result.
bool isRowWise(MatmulOp product) {
  return !product.getTransposeA() && product.getB().getType().getRank() == 2;
}

/// The operand of an elementwise op that has the rows of its result, where all others are the same for
/// every row: biases, numbers. Null for other ops.
Value rowsThrough(Operation *op) {
  if (!op || !isa<ElementwiseOpInterface>(op) || op->getNumResults() != 1)
    return {};
  RankedTensorType type = tensorType(op->getResult(0));
  Value rows;
  for (Value operand : op->getOperands()) {
    RankedTensorType given = tensorType(operand);
    if (given.getShape() == type.getShape() && !rows)
      rows = operand;
    else if (given.getNumElements() != 1 && (given.getNumElements() != type.getShape().back() ||
                                             given.getShape().back() != type.getShape().back()))
      return {};
  }
  return rows;
}

/// A head that can be cut.
struct Head {
  MatmulOp product;
  SmallVector<Operation *> between; ///< elementwise, from the product to the logits
  CrossEntropyRowsOp loss;
  CrossEntropyRowsGradOp grad;
  SmallVector<MatmulOp, 1> byInput;   ///< dlogits times a matrix
  SmallVector<MatmulOp, 1> byWeight;  ///< contracts the rows of dlogits and of another tensor
  SmallVector<ReduceSumOp, 1> byBias; ///< sums the rows of dlogits
  SmallVector<Operation *> behind;    ///< what reads the loss in front of grad, in order

  int64_t rows() { return loss.getLogits().getType().getDimSize(0); }
};

/// Rows of `value` as a matrix or, for what has one element a row, as a vector; null where it has not
/// `rows` of them.
Value asRows(OpBuilder &builder, Location location, Value value, int64_t rows) {
  RankedTensorType type = tensorType(value);
  const int64_t width = type.getNumElements() / rows;
  SmallVector<int64_t> shape = {rows};
  if (type.getRank() > 1)
    shape.push_back(width);
  if (type.getShape() == ArrayRef<int64_t>(shape))
    return value;
  return ReshapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()),
                           value);
}

/// True for what is there where the pieces run, at `op`.
bool isThereAt(Operation *op, Value value) {
  Operation *maker = value.getDefiningOp();
  return !maker || maker->isBeforeInBlock(op);
}

/// Files a reader of dlogits; false for one that does not run by rows where they are made.
bool takeReader(Head &head, OpOperand &use) {
  Operation *op = use.getOwner();
  const int64_t rows = head.rows();
  if (auto sum = dyn_cast<ReduceSumOp>(op)) {
    auto all = llvm::seq<int64_t>(0, tensorType(use.get()).getRank() - 1);
    head.byBias.push_back(sum);
    return !sum.getKeepdims() && llvm::equal(sum.getAxes(), all);
  }
  auto product = dyn_cast<MatmulOp>(op);
  if (!product || product.getBias())
    return false;
  if (use.getOperandNumber() == 0 && isRowWise(product)) {
    head.byInput.push_back(product);
    return isThereAt(head.grad, product.getB());
  }
  head.byWeight.push_back(product);
  Value other = unshaped(product->getOperand(1 - use.getOperandNumber()));
  return isThereAt(head.grad, other) && tensorType(use.get()).getRank() == 2 &&
         product.getTransposeA() && !product.getTransposeB() &&
         product.getA().getType().getRank() == 2 && product.getB().getType().getRank() == 2 &&
         product.getA().getType().getDimSize(0) == rows;
}

class GraphHeads {
public:
  GraphHeads(func::FuncOp graph, int64_t pieces) : graph(graph), pieces(pieces) {}

  /// The number of heads that were cut.
  int64_t run() {
    int64_t count = 0;
    for (auto grad : llvm::to_vector(graph.getOps<CrossEntropyRowsGradOp>())) // the block changes
      if (std::optional<Head> head = headOf(grad)) {
        cut(*head);
        ++count;
      }
    return count;
  }

private:
  std::optional<Head> headOf(CrossEntropyRowsGradOp grad) const {
    Head head;
    head.grad = grad;
    head.loss = grad.getLse().getDefiningOp<CrossEntropyRowsOp>();
    if (!head.loss || !findProduct(head) || !isRowWise(head.product) ||
        grad.getDrow().getType().getRank() != 1 || head.rows() < 2 ||
        !head.loss.getLse().hasOneUse())
      return std::nullopt;
    for (OpOperand *use : readersOf(grad.getDlogits()))
      if (!takeReader(head, *use))
        return std::nullopt;
    if (!findBehind(head))
      return std::nullopt;
    return head;
  }

  /// Finds the product and what is between it and the logits; false where others read any of it.
  static bool findProduct(Head &head) {
    Value made = unshaped(head.grad.getLogits());
    llvm::SmallPtrSet<Operation *, 4> readers = {head.loss, head.grad};
    while (true) {
      for (OpOperand *use : readersOf(made))
        if (!readers.contains(use->getOwner()))
          return false;
      if ((head.product = made.getDefiningOp<MatmulOp>()))
        break;
      Value rows = rowsThrough(made.getDefiningOp());
      if (!rows)
        return false;
      head.between.insert(head.between.begin(), made.getDefiningOp());
      readers = {made.getDefiningOp()};
      made = unshaped(rows);
    }
    return true;
  }

  /// Finds what has to come after the pieces; false where the pieces read some of it.
  bool findBehind(Head &head) const {
    llvm::SmallPtrSet<Operation *, 8> moved = {head.loss};
    for (Operation *op = head.loss->getNextNode(); op != head.grad; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            Operation *maker = operand.getDefiningOp();
            return maker && moved.contains(maker) && operand != head.loss.getLse();
          })) {
        moved.insert(op);
        head.behind.push_back(op);
      }
    return llvm::none_of(head.grad->getOperands(), [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return maker && maker != head.loss && moved.contains(maker);
    });
  }

  /// What the pieces have made so far.
  struct Made {
    SmallVector<Value> losses;
    SmallVector<SmallVector<Value>> byInput;
    SmallVector<Value> byWeight, byBias;
  };

  void cut(Head &head) {
    OpBuilder builder(head.grad);
    Made made;
    made.byInput.resize(head.byInput.size());
    const int64_t rows = head.rows(), size = (rows + pieces - 1) / pieces;
    for (int64_t first = 0; first < rows; first += size)
      runPiece(builder, head, first, std::min(size, rows - first), made);
    Location location = head.grad.getLoc();
    join(builder, location, made.losses, head.loss.getRowLoss());
    for (auto [product, parts] : llvm::zip(head.byInput, made.byInput))
      join(builder, location, parts, product.getY());
    for (auto [product, sum] : llvm::zip(head.byWeight, made.byWeight))
      product.getY().replaceAllUsesWith(sum);
    for (auto [reduced, sum] : llvm::zip(head.byBias, made.byBias))
      reduced.getY().replaceAllUsesWith(sum);
    for (Operation *op : head.behind) {
      op->moveBefore(head.grad);
      setPhase(op, Phase::Backward);
    }
    erase(head);
  }

  /// Rows [first, first + count) of `value`.
  static Value rowsOf(OpBuilder &builder, Location location, Value value, int64_t rows,
                      int64_t first, int64_t count) {
    Value whole = asRows(builder, location, value, rows);
    setBackward(whole.getDefiningOp(), value.getDefiningOp());
    SmallVector<int64_t> starts(tensorType(whole).getRank(), 0),
        sizes(tensorType(whole).getShape());
    starts[0] = first;
    sizes[0] = count;
    auto slice = SliceOp::create(builder, location, whole, starts, sizes);
    setPhase(slice, Phase::Backward);
    return slice.getY();
  }

  /// Marks what `rowsOf` made, which is not `maker`.
  static void setBackward(Operation *op, Operation *maker) {
    if (op && op != maker)
      setPhase(op, Phase::Backward);
  }

  template <typename Op, typename... Args>
  static Op backward(OpBuilder &builder, Location location, Args &&...args) {
    auto op = Op::create(builder, location, std::forward<Args>(args)...);
    setPhase(op, Phase::Backward);
    return op;
  }

  static void addTo(OpBuilder &builder, Location location, SmallVectorImpl<Value> &sums,
                    size_t number, Value piece) {
    if (number == sums.size())
      sums.push_back(piece);
    else
      sums[number] = backward<AddOp>(builder, location, sums[number], piece).getY();
  }

  /// An elementwise op on some rows.
  static Value runBetween(OpBuilder &builder, Operation *op, Value rows) {
    Value through = rowsThrough(op);
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      RankedTensorType type = tensorType(operand);
      if (operand == through)
        mapping.map(operand, rows);
      else if (type.getRank() > 1)
        mapping.map(operand, backward<ReshapeOp>(builder, op->getLoc(),
                                                 RankedTensorType::get({type.getNumElements()},
                                                                       type.getElementType()),
                                                 operand)
                                 .getY());
    }
    Operation *piece = builder.clone(*op, mapping);
    setPhase(piece, Phase::Backward);
    piece->getResult(0).setType(RankedTensorType::get(
        tensorType(rows).getShape(), tensorType(op->getResult(0)).getElementType()));
    return piece->getResult(0);
  }

  void runPiece(OpBuilder &builder, Head &head, int64_t first, int64_t count, Made &made) {
    const int64_t rows = head.rows();
    auto part = [&](Operation *of, Value value) {
      return rowsOf(builder, of->getLoc(), value, rows, first, count);
    };
    MatmulOp product = head.product;
    Value logits =
        backward<MatmulOp>(builder, product.getLoc(), part(product, unshaped(product.getA())),
                           product.getB(), product.getBias(), false, product.getTransposeB())
            .getY();
    for (Operation *op : head.between)
      logits = runBetween(builder, op, logits);
    CrossEntropyRowsOp whole = head.loss;
    Value target = part(whole, whole.getTarget());
    auto loss =
        backward<CrossEntropyRowsOp>(builder, whole.getLoc(), logits, target, whole.getWeight(),
                                     whole.getIgnoreIndex(), whole.getLabelSmoothing());
    made.losses.push_back(loss.getRowLoss());
    CrossEntropyRowsGradOp grad = head.grad;
    Value dlogits =
        backward<CrossEntropyRowsGradOp>(builder, grad.getLoc(), logits, target, loss.getLse(),
                                         part(grad, grad.getDrow()), grad.getWeight(),
                                         grad.getIgnoreIndex(), grad.getLabelSmoothing())
            .getDlogits();
    for (auto [reader, parts] : llvm::zip(head.byInput, made.byInput))
      parts.push_back(backward<MatmulOp>(builder, reader.getLoc(), dlogits, reader.getB(), Value(),
                                         false, reader.getTransposeB())
                          .getY());
    for (auto [number, reader] : llvm::enumerate(head.byWeight)) {
      auto side = [&](Value value) {
        Value whole = unshaped(value);
        return whole == grad.getDlogits() ? dlogits : part(reader, whole);
      };
      Value a = side(reader.getA()), b = side(reader.getB());
      addTo(builder, reader.getLoc(), made.byWeight, number,
            backward<MatmulOp>(builder, reader.getLoc(), a, b, Value(), true, false).getY());
    }
    for (auto [number, reader] : llvm::enumerate(head.byBias))
      addTo(builder, reader.getLoc(), made.byBias, number,
            backward<ReduceSumOp>(builder, reader.getLoc(), dlogits, ArrayRef<int64_t>{0}, false)
                .getY());
  }

  /// The parts below each other in place of `whole`.
  static void join(OpBuilder &builder, Location location, ArrayRef<Value> parts, Value whole) {
    Value joined = backward<ConcatOp>(builder, location, parts, /*axis=*/0).getY();
    if (joined.getType() != whole.getType())
      joined = backward<ReshapeOp>(builder, location, whole.getType(), joined).getY();
    whole.replaceAllUsesWith(joined);
  }

  /// Removes what the pieces have replaced, readers first.
  static void erase(Head &head) {
    auto eraseReshapes = [](Value value) {
      for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
        if (isOpTriviallyDead(user))
          user->erase();
    };
    for (MatmulOp op : head.byInput)
      op.erase();
    for (MatmulOp op : head.byWeight)
      op.erase();
    for (ReduceSumOp op : head.byBias)
      op.erase();
    eraseReshapes(head.grad.getDlogits());
    head.grad.erase();
    head.loss.erase();
    for (Operation *op : llvm::reverse(head.between)) {
      eraseReshapes(op->getResult(0));
      op->erase();
    }
    eraseReshapes(head.product.getY());
    head.product.erase();
  }

  func::FuncOp graph;
  int64_t pieces;
};

//===-- --stow-cut-head ----------------------------------------------------------------------===//

struct CutHeadPass : impl::CutHeadPassBase<CutHeadPass> {
  using CutHeadPassBase::CutHeadPassBase;

  void runOnOperation() override {
    if (pieces < 2)
      return;
    int64_t count = 0;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (isStepGraph(graph))
        count += GraphHeads(graph, pieces).run();
    if (count == 0)
      getOperation().emitWarning()
          << "no head runs in " << int64_t(pieces)
          << " pieces: expected a product of 2 or more rows that the cross-entropy alone reads; "
             "the step stays as it is";
  }
};

} // namespace
} // namespace stow
