// Exponentials and error functions in f32 by a GPU's instruction for powers of two.
//
// The polynomials that stow-expand-math has for both take 20 and 50 instructions, with conversions of a quarter of the
// rate or less and many selections; kernels that compute them are then bound by instructions and not by memory.
//
//   exp(x)   2^(h + l), where h + l is x log2(e) in twice the precision: 2^h + 2^h l ln(2)
//   erf(x)   below 0.95 a polynomial of x^2 times x; above, 1 - 2^p(x), p a polynomial that fits the logarithm of erfc
//
// Coefficients are least maximal errors by Lawson's iteration (C. L. Lawson, 1961) on 4,000 Chebyshev nodes: relative to
// erf 6e-10 and 3e-11 before they are rounded to f32. With an exact power of two the worst error is 1 unit in the last place of exp and 2.4 of
// erf; the instruction adds up to 2 of the power (PTX ISA, ex2). Powers below the least normal number are 0.
#include "codegen/cuda/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <numbers>

using namespace mlir;

namespace stow {
namespace {

/// Writes arithmetic on f32.
struct Numbers {
  OpBuilder &builder;
  Location location;

  Value number(double value) {
    return arith::ConstantOp::create(builder, location,
                                     builder.getF32FloatAttr(static_cast<float>(value)));
  }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, location, a, b, c); }
  Value times(Value a, Value b) { return arith::MulFOp::create(builder, location, a, b); }
  Value power(Value exponent) {
    return LLVM::CallIntrinsicOp::create(builder, location, builder.getF32Type(),
                                         builder.getStringAttr("llvm.nvvm.ex2.approx.ftz.f"),
                                         ValueRange{exponent})
        .getResult(0);
  }
  /// The coefficient of the highest power comes last.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = number(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, number(coefficient));
    return sum;
  }
};

/// Arguments that have other results beyond these: 0 below, and above the least whose power is infinite. Its l is above zero, so
/// that the sum is not infinity minus infinity.
constexpr double kLeastArgument = -104, kMostArgument = 0x1.62e43p+6;

Value exponential(Numbers to, Value x) {
  constexpr double high = 0x1.715476p+0f, low = 0x1.4ae0cp-26; // of log2(e)
  Value inside = arith::MinimumFOp::create(
      to.builder, to.location,
      arith::MaximumFOp::create(to.builder, to.location, x, to.number(kLeastArgument)),
      to.number(kMostArgument));
  Value h = to.times(inside, to.number(high));
  Value minus = arith::NegFOp::create(to.builder, to.location, h);
  Value l = to.fma(inside, to.number(high), minus);
  l = to.fma(inside, to.number(low), l);
  Value power = to.power(h);
  return to.fma(power, to.times(l, to.number(std::numbers::ln2)), power);
}

constexpr double kSmall = 0.95, kOne = 4; ///< erf(4) is 1 in f32
constexpr double kOfSmall[] = {1.12837917e+00, -3.76126323e-01, 1.12836725e-01, -2.68581043e-02,
                               5.19779716e-03, -8.10596506e-04, 8.21542348e-05};
constexpr double kOfLarge[] = {2.63234967e-04, -1.62959913e+00, -9.13618964e-01, -1.56332682e-01,
                               3.63152489e-02, -6.04612901e-03, 6.32665454e-04,  -3.09394573e-05};

Value errorFunction(Numbers to, Value x) {
  OpBuilder &builder = to.builder;
  Value size = math::AbsFOp::create(builder, to.location, x);
  Value small = to.times(x, to.polynomial(to.times(x, x), kOfSmall));
  Value inside = arith::MinimumFOp::create(builder, to.location, size, to.number(kOne));
  Value large = arith::SubFOp::create(builder, to.location, to.number(1),
                                      to.power(to.polynomial(inside, kOfLarge)));
  large = math::CopySignOp::create(builder, to.location, large, x);
  Value isSmall = arith::CmpFOp::create(builder, to.location, arith::CmpFPredicate::OLT, size,
                                        to.number(kSmall));
  return arith::SelectOp::create(builder, to.location, isSmall, small, large);
}

/// A function of numbers in the place of an op on numbers or vectors.
template <typename MathOp> struct ByPowers : OpRewritePattern<MathOp> {
  using Function = Value (*)(Numbers, Value);
  ByPowers(MLIRContext *context, Function function)
      : OpRewritePattern<MathOp>(context), function(function) {}

  LogicalResult matchAndRewrite(MathOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    Numbers to{rewriter, op.getLoc()};
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      rewriter.replaceOp(op, function(to, op.getOperand()));
      return success();
    }
    if (vector.getRank() != 1 || vector.isScalable())
      return failure();
    Value result = arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getZeroAttr(vector));
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      Value element = vector::ExtractOp::create(rewriter, op.getLoc(), op.getOperand(), i);
      result = vector::InsertOp::create(rewriter, op.getLoc(), function(to, element), result, i);
    }
    rewriter.replaceOp(op, result);
    return success();
  }

  Function function;
};

struct DeviceMathPass : PassWrapper<DeviceMathPass, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DeviceMathPass)

  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ByPowers<math::ExpOp>>(&getContext(), exponential);
    patterns.add<ByPowers<math::ErfOp>>(&getContext(), errorFunction);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createDeviceMathPass() { return std::make_unique<DeviceMathPass>(); }

} // namespace stow
