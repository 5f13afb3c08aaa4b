// In-place sharing as a pass; the method is in Liveness.cpp because plans are compared by it too.
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SHAREINPLACEPASS
#include "passes/memory/Passes.h.inc"

namespace {

//===-- --stow-share-in-place ----------------------------------------------------------------===//

struct ShareInPlacePass : impl::ShareInPlacePassBase<ShareInPlacePass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      shareInPlace(graph);
  }
};

} // namespace
} // namespace stow
