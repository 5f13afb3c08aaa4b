// Moves a relu below the max pooling that reads it: O(ops).
#include "passes/rewrite/Passes.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowPoolOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SINKRELUPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

//===-- --stow-sink-relu ---------------------------------------------------------------------===//

struct SinkReluPass : impl::SinkReluPassBase<SinkReluPass> {
  void runOnOperation() override {
    getOperation().walk([&](MaxPoolOp pool) {
      auto relu = pool.getX().getDefiningOp<ReluOp>();
      if (!relu || !relu.getY().hasOneUse())
        return;
      pool.getXMutable().assign(relu.getX());
      relu->moveAfter(pool);
      relu.getY().setType(pool.getY().getType());
      pool.getY().replaceAllUsesWith(relu.getY());
      relu.getXMutable().assign(pool.getY());
    });
  }
};

} // namespace
} // namespace stow
