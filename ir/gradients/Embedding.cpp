// Gradient of tables that are read by index.
#include "ir/StowEmbeddingOps.h"
#include "ir/gradients/Build.h"

using namespace mlir;

namespace stow {

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, Gradients &gradients) {
  Value dy = gradients.of(getY());
  if (!dy || !gradients.isNeeded(getTable()))
    return success();
  Formula f(builder, getLoc());
  gradients.add(builder, getLoc(), getTable(),
                f.build<EmbeddingGradOp>(dy, getIndices(), getTable().getType().getDimSize(0),
                                         getPaddingIndexAttr())
                    .getDtable());
  return success();
}

} // namespace stow
