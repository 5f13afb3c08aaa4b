// Reductions and softmax: rows that are folded. All of them are written against Row and run along
// the lanes where the folded axis is contiguous and across them where it is not.
#include "codegen/kernels/Fold.h"
#include "ir/StowReduceOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;

namespace stow {
//===-- Reductions ----------------------------------------------------------------------------===//

static LogicalResult emitReduction(Operation *op, KernelFrame &frame) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  Strides result(type.getRank(), 0);
  auto reduced = cast<RankedTensorType>(op->getResult(0).getType());
  bool keepdims = reduced.getRank() == type.getRank();
  for (int64_t i = 0, next = 0; i < type.getRank(); ++i) {
    bool folded = llvm::is_contained(axes, i);
    if (!folded)
      result[i] = (*strides)[1][next];
    next += !folded || keepdims;
  }
  auto [kept, axis] = splitSpace(type, axes, {(*strides)[0], result});
  double count = static_cast<double>(axis.elements());
  Type element = computeType(type);
  Reducer reducer = isa<ReduceMaxOp>(op) ? maxOf(element) : sumOf(element);
  bool squares = isa<ReduceSumSquaresOp>(op);
  forFoldedRows(frame, kept, axis, [&](Row &row) {
    auto folded = row.fold({reducer}, [&](const Cell &cell) -> SmallVector<Term> {
      Term x = cell.load(0);
      return {squares ? x * x : x};
    });
    Term value = row.term(folded[0]);
    row.store(isa<ReduceMeanOp>(op) ? value / count : value, 1);
  });
  return success();
}

//===-- Softmax -------------------------------------------------------------------------------===//

namespace {

void softmaxRow(Row &row, Type element, bool wideResult) {
  auto power = [](const Cell &cell, Value maximum) {
    return (cell.load(0) - cell.term(maximum)).unary<math::ExpOp>();
  };
  Exponentials found;
  if (wideResult) { // which holds the exponentials until their sum is known
    found.maximum = row.fold(
        {maxOf(element)}, [](const Cell &cell) -> SmallVector<Term> { return {cell.load(0)}; })[0];
    found.sum = row.fold({sumOf(element)}, [&](const Cell &cell) -> SmallVector<Term> {
      const Term value = power(cell, found.maximum);
      cell.store(value, 1);
      return {value};
    })[0];
  } else {
    found = row.exponentials(0, element);
  }
  Value scale = (1.0 / row.term(found.sum)).get();
  row.each([&](const Cell &cell) {
    cell.store((wideResult ? cell.load(1) : power(cell, found.maximum)) * cell.term(scale), 1);
  });
}

void logSoftmaxRow(Row &row, Type element) {
  const auto norm = row.exponentials(0, element);
  Value logarithm = row.term(norm.sum).unary<math::LogOp>().get();
  row.each([&](const Cell &cell) {
    cell.store((cell.load(0) - cell.term(norm.maximum)) - cell.term(logarithm), 1);
  });
}

/// dx = y (dy - sum(dy y)), or dy - exp(y) sum(dy) for the logarithm. Accesses: dy, y, dx.
void softmaxGradRow(Row &row, Type element, bool logarithm) {
  Value sum = row.fold({sumOf(element)}, [&](const Cell &cell) -> SmallVector<Term> {
    return {logarithm ? cell.load(0) : cell.load(0) * cell.load(1)};
  })[0];
  row.each([&](const Cell &cell) {
    Term dy = cell.load(0), y = cell.load(1);
    cell.store(logarithm ? dy - y.unary<math::ExpOp>() * cell.term(sum) : y * (dy - cell.term(sum)),
               2);
  });
}

} // namespace

static LogicalResult emitSoftmax(Operation *op, KernelFrame &frame) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  int64_t dim = op->getAttrOfType<IntegerAttr>("axis").getInt();
  auto [kept, axis] = splitSpace(type, {dim < 0 ? dim + type.getRank() : dim}, *strides);
  Type element = computeType(type);
  forFoldedRows(frame, kept, axis, [&](Row &row) {
    if (isa<SoftmaxOp>(op))
      softmaxRow(row, element, element == getElementTypeOrSelf(op->getResult(0)));
    else if (isa<LogSoftmaxOp>(op))
      logSoftmaxRow(row, element);
    else
      softmaxGradRow(row, element, isa<LogSoftmaxGradOp>(op));
  });
  return success();
}

/// A fold walks neighbouring dimensions as one. The gaps of a part, which lie outside dimension
/// `pitch.dim` and all that is inside of it, would keep two folded dimensions apart, which changes
/// the order of summation and with it the bits.
static bool foldsPart(Operation *op, unsigned position, RankedTensorType part) {
  const Layout layout = layoutOf(part);
  if (position != 0 || !layout.pitch)
    return position == 0;
  SmallVector<int64_t> order(layout.order.begin(), layout.order.end());
  if (order.empty())
    order = llvm::to_vector(llvm::seq<int64_t>(0, part.getRank()));
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
  auto gap = llvm::find(order, layout.pitch->dim);
  auto isFolded = [&](int64_t dim) { return llvm::is_contained(axes, dim); };
  return !(std::any_of(order.begin(), gap, isFolded) && std::any_of(gap, order.end(), isFolded));
}

void addFoldKernels(KernelTable &table) {
  table.add<ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceSumSquaresOp>(emitReduction,
                                                                        {.takesPart = foldsPart});
  table.add<SoftmaxOp, LogSoftmaxOp, SoftmaxGradOp, LogSoftmaxGradOp>(emitSoftmax);
}

} // namespace stow
