// Types, constraints and costs of convolution and matrix multiplication.
#include "ir/StowLinearOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowLinearOps.cpp.inc"

void stow::addLinearOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowLinearOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Output type of a convolution; C1 to C3 of conv2d.
FailureOr<RankedTensorType> convolutionType(std::optional<Location> location, RankedTensorType x,
                                            RankedTensorType weight, ArrayRef<int64_t> strides,
                                            ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations,
                                            int64_t groups) {
  if (x.getRank() < 3 || x.getRank() > 5 || weight.getRank() != x.getRank())
    return emitOptionalError(location,
                             "expects x [N,C,H,W] and weight [O,C/groups,kh,kw], or both with one "
                             "or three spatial dimensions, found ",
                             x, " and ", weight);
  if (groups < 1 || x.getDimSize(1) != weight.getDimSize(1) * groups ||
      weight.getDimSize(0) % groups != 0)
    return emitOptionalError(location, "expects C = ", x.getDimSize(1),
                             " channels to be weight dimension 1 (", weight.getDimSize(1),
                             ") times groups (", groups, "), and groups to divide ",
                             weight.getDimSize(0), " outputs");
  auto spatial = windowOutput(location, x.getShape().drop_front(2), weight.getShape().drop_front(2),
                              strides, pads, dilations);
  if (failed(spatial))
    return failure();
  SmallVector<int64_t> shape = {x.getDimSize(0), weight.getDimSize(0)};
  llvm::append_range(shape, *spatial);
  return RankedTensorType::get(shape, x.getElementType());
}

double convolutionFlops(RankedTensorType weight, RankedTensorType y) {
  return 2.0 * y.getNumElements() * weight.getNumElements() / weight.getDimSize(0);
}

template <typename Op> LogicalResult verifyConvolutionGrad(Op op, Value x, Value weight, Value dy) {
  auto expected = convolutionType(op.getLoc(), tensor(x), tensor(weight), op.getStrides(),
                                  op.getPads(), op.getDilations(), op.getGroups());
  if (failed(expected))
    return failure();
  if (!compatibleTypes(*expected, dy.getType()))
    return op.emitOpError() << "expects dy of type " << *expected << ", found " << dy.getType();
  return success();
}

} // namespace

LogicalResult Conv2dOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto type = convolutionType(location, tensor(adaptor.getX()), tensor(adaptor.getWeight()),
                              adaptor.getStrides(), adaptor.getPads(), adaptor.getDilations(),
                              adaptor.getGroups());
  if (failed(type))
    return failure();
  if (Value bias = adaptor.getBias())
    if (tensor(bias).getShape() != ArrayRef<int64_t>{type->getDimSize(1)})
      return emitOptionalError(location, "expects a bias of ", type->getDimSize(1),
                               " elements, found ", bias.getType());
  types.push_back(*type);
  return success();
}
bool Conv2dOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool Conv2dOp::takesLow(unsigned position) { return position != 2 || !getBias(); }
double Conv2dOp::getFlops() { return convolutionFlops(getWeight().getType(), getY().getType()); }

LogicalResult Conv2dGradInputOp::verify() {
  return verifyConvolutionGrad(*this, getDx(), getWeight(), getDy());
}
double Conv2dGradInputOp::getFlops() {
  return convolutionFlops(getWeight().getType(), getDy().getType());
}

LogicalResult Conv2dGradWeightOp::verify() {
  return verifyConvolutionGrad(*this, getX(), getDweight(), getDy());
}
double Conv2dGradWeightOp::getFlops() {
  return convolutionFlops(getDweight().getType(), getDy().getType());
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto a = tensor(adaptor.getA()), b = tensor(adaptor.getB());
  if (a.getRank() < 2 || b.getRank() < 2)
    return emitOptionalError(location, "expects matrices, found ", a, " and ", b);
  auto extents = [](RankedTensorType type, bool transpose) {
    int64_t rows = type.getShape().end()[-2], columns = type.getShape().end()[-1];
    return transpose ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  auto [m, k] = extents(a, adaptor.getTransposeA());
  auto [k2, n] = extents(b, adaptor.getTransposeB());
  if (k != k2) // C1
    return emitOptionalError(location, "inner extents differ: ", k, " of ", a, " and ", k2, " of ",
                             b);
  auto shape = broadcastShapes(a.getShape().drop_back(2), b.getShape().drop_back(2));
  if (failed(shape)) // C2
    return emitOptionalError(location, "leading dimensions do not broadcast: ", a, " and ", b);
  shape->append({m, n});
  if (Value bias = adaptor.getBias())
    if (tensor(bias).getShape() != ArrayRef<int64_t>{n})
      return emitOptionalError(location, "expects a bias of ", n, " elements, found ",
                               bias.getType());
  types.push_back(RankedTensorType::get(*shape, a.getElementType()));
  return success();
}
bool MatmulOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool MatmulOp::takesLow(unsigned position) { return position != 2 || !getBias(); }
double MatmulOp::getFlops() {
  auto a = getA().getType();
  int64_t k = a.getShape().end()[getTransposeA() ? -2 : -1];
  return 2.0 * getY().getType().getNumElements() * k;
}

} // namespace stow
