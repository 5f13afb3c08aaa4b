// Batch normalizations that only a max pooling reads: O(ops).
//
//   %y, %m, %v = batch_norm_training %x          %p, %i, %m, %v = batch_norm_max_pool %x
//   %p, %i = max_pool_training %y
//   ...
//   %dy = max_pool_grad %dp, %i                  %dx = batch_norm_max_pool_gradient %x, %dp, %i
//   %dx = batch_norm_grad %x, %m, %v, %dy
//
// %y and %dy are as large as %x, several times the pooled tensors. In the stem of a ResNet they are, beside
// %x, the most of what a step holds that computes everything else again. The right side makes their
// elements where they are read. That is faster, too: they are read two or three times as often as
// they are computed.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowNormOps.h"
#include "ir/StowNormPoolOps.h"
#include "ir/StowPoolOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FUSENORMPOOLPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// A normalization, its pooling and the gradients of both.
struct NormPool {
  BatchNormTrainingOp norm;
  MaxPoolTrainingOp pool;
  MaxPoolGradOp poolGrad;
  BatchNormGradOp normGrad;
};

bool haveEqualElements(Value a, Value b) {
  return tensorType(a).getElementType() == tensorType(b).getElementType();
}

bool haveEqualWindows(MaxPoolTrainingOp a, MaxPoolGradOp b) {
  return a.getKernel() == b.getKernel() && a.getStrides() == b.getStrides() &&
         a.getPads() == b.getPads() && a.getDilations() == b.getDilations();
}

/// The four ops that end in `grad`, where nothing else reads what lies between them.
std::optional<NormPool> match(BatchNormGradOp grad) {
  auto poolGrad = grad.getDy().getDefiningOp<MaxPoolGradOp>();
  if (!poolGrad || !poolGrad.getDx().hasOneUse())
    return std::nullopt;
  auto pool = poolGrad.getSaved().getDefiningOp<MaxPoolTrainingOp>();
  if (!pool || !pool.getSaved().hasOneUse() || !haveEqualWindows(pool, poolGrad))
    return std::nullopt;
  auto norm = pool.getX().getDefiningOp<BatchNormTrainingOp>();
  if (!norm || !norm.getY().hasOneUse() || norm.getX() != grad.getX() ||
      norm.getMean() != grad.getMean() || norm.getVariance() != grad.getVariance() ||
      norm.getScale() != grad.getScale() || norm.getEpsilon() != grad.getEpsilon())
    return std::nullopt;
  // What is not stored is rounded as what is pooled from it.
  if (!haveEqualElements(norm.getY(), pool.getY()) ||
      !haveEqualElements(poolGrad.getDx(), poolGrad.getDy()))
    return std::nullopt;
  return NormPool{norm, pool, poolGrad, grad};
}

//===-- --stow-fuse-norm-pool ----------------------------------------------------------------===//

struct FuseNormPoolPass : impl::FuseNormPoolPassBase<FuseNormPoolPass> {
  explicit FuseNormPoolPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto grad : llvm::make_early_inc_range(graph.getOps<BatchNormGradOp>()))
        if (std::optional<NormPool> found = match(grad))
          fuse(*found);
  }

private:
  static RankedTensorType positionsType(MaxPoolTrainingOp pool) {
    const RankedTensorType saved = tensorType(pool.getSaved());
    const auto shape = positionsShape(saved.getShape(), llvm::product_of(pool.getKernel()));
    return RankedTensorType::get(shape, saved.getElementType(), saved.getEncoding());
  }

  void fuse(NormPool ops) {
    auto [norm, pool, poolGrad, normGrad] = ops;
    OpBuilder builder(norm);
    auto forward = BatchNormMaxPoolOp::create(
        builder, builder.getFusedLoc({norm.getLoc(), pool.getLoc()}), pool.getY().getType(),
        positionsType(pool), norm.getMean().getType(), norm.getVariance().getType(), norm.getX(),
        norm.getScale(), norm.getBias(), norm.getEpsilonAttr(), pool.getKernelAttr(),
        pool.getStridesAttr(), pool.getPadsAttr(), pool.getDilationsAttr());
    copyPhase(norm, forward);
    builder.setInsertionPoint(normGrad);
    auto backward = BatchNormMaxPoolGradientOp::create(
        builder, builder.getFusedLoc({normGrad.getLoc(), poolGrad.getLoc()}),
        normGrad.getDx().getType(), normGrad.getDscale().getType(), normGrad.getDbias().getType(),
        norm.getX(), forward.getMean(), forward.getVariance(), norm.getScale(), poolGrad.getDy(),
        forward.getSaved(), norm.getEpsilonAttr(), pool.getKernelAttr(), pool.getStridesAttr(),
        pool.getPadsAttr(), pool.getDilationsAttr());
    copyPhase(normGrad, backward);
    if (!target.libraryCall(forward) || !target.libraryCall(backward)) {
      backward->erase();
      forward->erase();
      return;
    }
    normGrad->replaceAllUsesWith(backward);
    normGrad->erase();
    poolGrad->erase();
    pool.getY().replaceAllUsesWith(forward.getY());
    pool->erase();
    norm.getMean().replaceAllUsesWith(forward.getMean());
    norm.getVariance().replaceAllUsesWith(forward.getVariance());
    norm->erase();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createFuseNormPoolPass(const Target &target) {
  return std::make_unique<FuseNormPoolPass>(target);
}

} // namespace stow
