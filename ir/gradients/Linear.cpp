// Gradients of convolution and matrix multiplication. The weight gradient comes first: the update
// it feeds then runs as early as it can.
#include "ir/StowLinearOps.h"
#include "ir/gradients/Build.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {

LogicalResult Conv2dOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  Location location = getLoc();
  if (gradients.isNeeded(getWeight()))
    gradients.add(builder, location, getWeight(),
                  f.build<Conv2dGradWeightOp>(withoutLayout(getWeight().getType()), getX(), dy,
                                              getStrides(), getPads(), getDilations(), getGroups())
                      .getDweight());
  if (getBias() && gradients.isNeeded(getBias())) {
    SmallVector<int64_t> axes = {0};
    llvm::append_range(axes, llvm::seq<int64_t>(2, tensorType(dy).getRank()));
    gradients.add(builder, location, getBias(), f.sum(dy, axes));
  }
  if (gradients.isNeeded(getX()))
    gradients.add(builder, location, getX(),
                  f.build<Conv2dGradInputOp>(withoutLayout(getX().getType()), dy, getWeight(),
                                             getStrides(), getPads(), getDilations(), getGroups())
                      .getDx());
  return success();
}

/// The op is linear in dy and in the weight; seen from its result, a convolution of it by the
/// weight gives dy, and its weight gradient that of the weight.
LogicalResult Conv2dGradInputOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value gradient = gradients.of(getDx());
  if (!gradient)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(getWeight()))
    gradients.add(builder, getLoc(), getWeight(),
                  f.build<Conv2dGradWeightOp>(withoutLayout(getWeight().getType()), gradient,
                                              getDy(), getStrides(), getPads(), getDilations(),
                                              getGroups())
                      .getDweight());
  if (gradients.isNeeded(getDy()))
    gradients.add(builder, getLoc(), getDy(),
                  f.build<Conv2dOp>(gradient, getWeight(), Value(), getStrides(), getPads(),
                                    getDilations(), getGroups())
                      .getY());
  return success();
}

/// Gradient of the right factor, in its stored orientation. A plain matrix that multiplied a stack
/// of matrices gets it from one product over all rows instead of a stack of products and a sum.
static Value rightFactorGradient(Formula &f, MatmulOp op, Value dy) {
  Value a = op.getA();
  bool isMatrix = op.getB().getType().getRank() == 2;
  if (isMatrix && op.getA().getType().getRank() > 2 && !op.getTransposeA()) {
    auto rows = [&](Value x) {
      int64_t columns = tensorType(x).getShape().back();
      return f.reshape(x, {tensorType(x).getNumElements() / columns, columns});
    };
    a = rows(a);
    dy = rows(dy);
  }
  if (op.getTransposeB())
    return f.build<MatmulOp>(dy, a, Value(), /*transpose_a=*/true, op.getTransposeA()).getY();
  return f.build<MatmulOp>(a, dy, Value(), !op.getTransposeA(), /*transpose_b=*/false).getY();
}

/// Gradient of the left factor, in its stored orientation.
static Value leftFactorGradient(Formula &f, MatmulOp op, Value dy) {
  if (op.getTransposeA())
    return f.build<MatmulOp>(op.getB(), dy, Value(), op.getTransposeB(), /*transpose_b=*/true)
        .getY();
  return f.build<MatmulOp>(dy, op.getB(), Value(), /*transpose_a=*/false, !op.getTransposeB())
      .getY();
}

LogicalResult MatmulOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy)
    return success();
  Formula f(builder, getLoc());
  if (gradients.isNeeded(getB()))
    gradients.add(builder, getLoc(), getB(), rightFactorGradient(f, *this, dy));
  if (getBias() && gradients.isNeeded(getBias()))
    gradients.add(builder, getLoc(), getBias(),
                  f.sum(dy, llvm::to_vector(llvm::seq<int64_t>(0, tensorType(dy).getRank() - 1))));
  if (gradients.isNeeded(getA()))
    gradients.add(builder, getLoc(), getA(), leftFactorGradient(f, *this, dy));
  return success();
}

} // namespace stow
