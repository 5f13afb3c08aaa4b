#include "ir/StowShapeOps.h"
#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

std::vector<Tensor> constant(Operation *op, Operands) {
  auto elements = cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
  Tensor y(shapeOf(op->getResult(0)));
  if (isa<FloatType>(elements.getElementType())) {
    for (auto [to, from] : llvm::zip(y.values, elements.getValues<APFloat>()))
      to = number(from);
  } else {
    for (auto [to, from] : llvm::zip(y.values, elements.getValues<APInt>()))
      to = from.getBitWidth() <= 8 ? double(from.getZExtValue()) : double(from.getSExtValue());
  }
  return {y};
}

std::vector<Tensor> reshape(Operation *op, Operands operands) {
  return {Tensor(shapeOf(op->getResult(0)), operands[0].values)};
}

/// Layouts are invisible here.
std::vector<Tensor> reorder(Operation *, Operands operands) { return {operands[0]}; }

std::vector<Tensor> transpose(Operation *op, Operands operands) {
  auto permutation = cast<TransposeOp>(op).getPermutation();
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    Index from(at.size());
    for (size_t dim = 0; dim < at.size(); ++dim)
      from[permutation[dim]] = at[dim];
    y(at) = operands[0](from);
  });
  return {y};
}

/// `index` moved by `sign` times `by`.
Index moved(Index index, ArrayRef<int64_t> by, int64_t sign) {
  for (size_t dim = 0; dim < index.size(); ++dim)
    index[dim] += sign * by[dim];
  return index;
}

std::vector<Tensor> concat(Operation *op, Operands operands) {
  Tensor y(shapeOf(op->getResult(0)));
  SmallVector<int64_t> start(y.rank(), 0);
  int64_t axis = cast<ConcatOp>(op).getAxis();
  for (const Tensor &x : operands) {
    forEachIndex(x.shape, [&](const Index &at) { y(moved(at, start, 1)) = x(at); });
    start[axis] += x.shape[axis];
  }
  return {y};
}

std::vector<Tensor> slice(Operation *op, Operands operands) {
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    y(at) = operands[0](moved(at, cast<SliceOp>(op).getStarts(), 1));
  });
  return {y};
}

std::vector<Tensor> pad(Operation *op, Operands operands) {
  auto typed = cast<PadOp>(op);
  Tensor y(shapeOf(op->getResult(0)), number(typed.getValue()));
  forEachIndex(operands[0].shape,
               [&](const Index &at) { y(moved(at, typed.getBefore(), 1)) = operands[0](at); });
  return {y};
}

std::vector<Tensor> broadcastTo(Operation *op, Operands operands) {
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) { y(at) = operands[0].broadcast(at); });
  return {y};
}

} // namespace

void addShapeRules(Rules &rules) {
  rules["stow.constant"] = constant;
  rules["stow.reshape"] = reshape;
  rules["stow.reorder"] = reorder;
  rules["stow.transpose"] = transpose;
  rules["stow.concat"] = concat;
  rules["stow.slice"] = slice;
  rules["stow.pad"] = pad;
  rules["stow.broadcast_to"] = broadcastTo;
}

} // namespace stow::reference
