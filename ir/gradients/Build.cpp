#include "ir/gradients/Build.h"

#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

using namespace mlir;

namespace stow {

Value Formula::scalar(double value, Value like) {
  auto element = cast<FloatType>(tensorType(like).getElementType());
  APFloat number(value);
  bool losesInfo;
  number.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return build<ConstantOp>(
             DenseElementsAttr::get(RankedTensorType::get({}, element), ArrayRef(number)))
      .getY();
}

Value Formula::reshape(Value x, ArrayRef<int64_t> shape) {
  auto type = tensorType(x);
  if (type.getShape() == shape)
    return x;
  return build<ReshapeOp>(RankedTensorType::get(shape, type.getElementType()), x).getY();
}

Value Formula::broadcast(Value x, ArrayRef<int64_t> shape) {
  auto type = tensorType(x);
  if (type.getShape() == shape)
    return x;
  return build<BroadcastToOp>(RankedTensorType::get(shape, type.getElementType()), x).getY();
}

Value Formula::sum(Value x, ArrayRef<int64_t> axes) {
  return axes.empty() ? x : build<ReduceSumOp>(x, axes, /*keepdims=*/false).getY();
}

Value sumToShape(Formula &f, Value gradient, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> wide = tensorType(gradient).getShape();
  SmallVector<int64_t> axes;
  int64_t added = static_cast<int64_t>(wide.size()) - static_cast<int64_t>(shape.size());
  for (int64_t dim = 0; dim < static_cast<int64_t>(wide.size()); ++dim)
    if (wide[dim] != 1 && (dim < added || shape[dim - added] == 1))
      axes.push_back(dim);
  return f.reshape(f.sum(gradient, axes), shape);
}

} // namespace stow
