#include "passes/memory/Exchanges.h"

#include "ir/StowCollectiveOps.h"
#include "runtime/format/Reduction.h"

using namespace mlir;

namespace stow {

Exchanged exchangedBy(Operation *collective) {
  const int64_t ranks = collective->getAttrOfType<IntegerAttr>("ranks").getInt();
  const bool isGather = isa<AllGatherOp>(collective);
  const Value whole = isGather ? collective->getResult(0) : collective->getOperand(0);
  const int64_t count = storedBytesOf(whole.getType()) / static_cast<Bytes>(sizeof(float));
  if (isa<AllReduceOp>(collective))
    return {reductionTraffic(count, ranks), reductionExchanges(count)};
  return {shardTraffic(count, ranks), shardExchanges(count, ranks)};
}

} // namespace stow
