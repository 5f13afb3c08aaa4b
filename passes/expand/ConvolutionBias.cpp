// Convolutions and products with a bias as themselves and a sum, where the target says so: O(ops).
#include "passes/expand/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_CONVOLUTIONBIASPASS
#include "passes/expand/Passes.h.inc"

namespace {

void addBehind(Conv2dOp convolution) {
  OpBuilder builder(convolution.getContext());
  builder.setInsertionPointAfter(convolution);
  const Location location = convolution.getLoc();
  TypedValue<RankedTensorType> y = convolution.getY(), bias = convolution.getBias();
  SmallVector<int64_t> shape(y.getType().getRank() - 1, 1);
  shape[0] = y.getType().getDimSize(1);
  auto spread = ReshapeOp::create(
      builder, location, RankedTensorType::get(shape, bias.getType().getElementType()), bias);
  auto sum = AddOp::create(builder, location, y.getType(), y, spread.getY());
  copyPhase(convolution, spread);
  copyPhase(convolution, sum);
  y.replaceAllUsesExcept(sum.getY(), sum);
  convolution.getBiasMutable().clear();
}

void addBehind(MatmulOp product) {
  OpBuilder builder(product.getContext());
  builder.setInsertionPointAfter(product);
  TypedValue<RankedTensorType> y = product.getY();
  auto sum = AddOp::create(builder, product.getLoc(), y.getType(), y, product.getBias());
  copyPhase(product, sum);
  y.replaceAllUsesExcept(sum.getY(), sum);
  product.getBiasMutable().clear();
}

//===-- --stow-convolution-bias --------------------------------------------------------------===//

struct ConvolutionBiasPass : impl::ConvolutionBiasPassBase<ConvolutionBiasPass> {
  explicit ConvolutionBiasPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    getOperation().walk([&](Conv2dOp convolution) {
      if (convolution.getBias() && target.decomposes(convolution))
        addBehind(convolution);
    });
    getOperation().walk([&](MatmulOp product) {
      if (product.getBias() && target.decomposes(product))
        addBehind(product);
    });
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createConvolutionBiasPass(const Target &target) {
  return std::make_unique<ConvolutionBiasPass>(target);
}

} // namespace stow
