// stow-expand-math: math functions as polynomials.
//
// Calls into a math library handle one number at a time and stop vectorization; the polynomials
// work on vectors of any length. Only f32 is expanded: f64 keeps the library's accuracy.
#include "codegen/kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace stow {
namespace {

//===-- --stow-expand-math --------------------------------------------------------------------===//

struct ExpandMathPass : PassWrapper<ExpandMathPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  ExpandMathPass() = default;
  ExpandMathPass(const ExpandMathPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "stow-expand-math"; }
  StringRef getDescription() const override { return "Replace f32 math functions by polynomials"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    if (bf16)
      arith::populateExpandBFloat16Patterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }

  Option<bool> bf16{*this, "bf16", llvm::cl::desc("Expand conversions to bf16"),
                    llvm::cl::init(false)};
};

} // namespace

std::unique_ptr<Pass> createExpandMathPass(bool bf16) {
  auto pass = std::make_unique<ExpandMathPass>();
  pass->bf16 = bf16;
  return pass;
}

} // namespace stow
