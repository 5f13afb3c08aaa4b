#include "ir/StowLinearOps.h"
#include "tests/reference/Rules.h"

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// Calls `visit(y, x, w)` with the indices of every product that a convolution sums, over any
/// number of spatial dimensions.
template <typename Op>
void forEachProduct(Op op, const std::vector<int64_t> &x, const std::vector<int64_t> &weight,
                    const std::vector<int64_t> &y,
                    const std::function<void(const Index &, const Index &, const Index &)> &visit) {
  auto strides = op.getStrides(), pads = op.getPads(), dilations = op.getDilations();
  int64_t groups = op.getGroups(), outputsPerGroup = weight[0] / groups;
  Index window(weight.begin() + 1, weight.end()); // [C/groups, kernel...]
  forEachIndex(y, [&](const Index &at) {
    forEachIndex(window, [&](const Index &tap) {
      Index from = {at[0], at[1] / outputsPerGroup * weight[1] + tap[0]}, w = {at[1], tap[0]};
      bool isInside = true;
      for (size_t d = 1; d < tap.size(); ++d) {
        from.push_back(at[d + 1] * strides[d - 1] - pads[d - 1] + tap[d] * dilations[d - 1]);
        w.push_back(tap[d]);
        isInside = isInside && from.back() >= 0 && from.back() < x[d + 1];
      }
      if (isInside)
        visit(at, from, w);
    });
  });
}

std::vector<Tensor> conv2d(Operation *op, Operands operands) {
  const Tensor &x = operands[0], &weight = operands[1];
  Tensor y(shapeOf(op->getResult(0)));
  if (operands.size() == 3)
    forEachIndex(y.shape, [&](const Index &at) { y(at) = operands[2].values[at[1]]; });
  forEachProduct(cast<Conv2dOp>(op), x.shape, weight.shape, y.shape,
                 [&](auto &yAt, auto &xAt, auto &wAt) { y(yAt) += x(xAt) * weight(wAt); });
  return {y};
}

std::vector<Tensor> conv2dGradInput(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &weight = operands[1];
  Tensor dx(shapeOf(op->getResult(0)));
  forEachProduct(cast<Conv2dGradInputOp>(op), dx.shape, weight.shape, dy.shape,
                 [&](auto &yAt, auto &xAt, auto &wAt) { dx(xAt) += dy(yAt) * weight(wAt); });
  return {dx};
}

std::vector<Tensor> conv2dGradWeight(Operation *op, Operands operands) {
  const Tensor &x = operands[0], &dy = operands[1];
  Tensor dweight(shapeOf(op->getResult(0)));
  forEachProduct(cast<Conv2dGradWeightOp>(op), x.shape, dweight.shape, dy.shape,
                 [&](auto &yAt, auto &xAt, auto &wAt) { dweight(wAt) += x(xAt) * dy(yAt); });
  return {dweight};
}

/// Element (row, column) of the matrix that `index`'s leading dimensions pick by NumPy's rule.
double matrixElement(const Tensor &stack, const Index &index, int64_t row, int64_t column,
                     bool isTransposed) {
  Index at = index;
  at[at.size() - 2] = isTransposed ? column : row;
  at[at.size() - 1] = isTransposed ? row : column;
  Index own(stack.rank());
  size_t added = at.size() - own.size();
  for (size_t dim = 0; dim < own.size(); ++dim) {
    bool isLeading = dim + 2 < own.size();
    own[dim] = isLeading && stack.shape[dim] == 1 ? 0 : at[added + dim];
  }
  return stack(own);
}

std::vector<Tensor> matmul(Operation *op, Operands operands) {
  auto typed = cast<MatmulOp>(op);
  const Tensor &a = operands[0], &b = operands[1];
  int64_t inner = a.shape[a.rank() - (typed.getTransposeA() ? 2 : 1)];
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    int64_t row = at[at.size() - 2], column = at[at.size() - 1];
    double sum = operands.size() == 3 ? operands[2].values[column] : 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += matrixElement(a, at, row, k, typed.getTransposeA()) *
             matrixElement(b, at, k, column, typed.getTransposeB());
    y(at) = sum;
  });
  return {y};
}

} // namespace

void addLinearRules(Rules &rules) {
  rules["stow.conv2d"] = conv2d;
  rules["stow.conv2d_grad_input"] = conv2dGradInput;
  rules["stow.conv2d_grad_weight"] = conv2dGradWeight;
  rules["stow.matmul"] = matmul;
}

} // namespace stow::reference
