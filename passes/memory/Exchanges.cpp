#include "passes/memory/Exchanges.h"

#include "ir/StowCollectiveOps.h"
#include "runtime/format/Reduction.h"

using namespace mlir;

namespace stow {

namespace {

int64_t floatsOf(Value value) {
  return storedBytesOf(value.getType()) / static_cast<Bytes>(sizeof(float));
}

} // namespace

SmallVector<Operation *> exchangedTogether(Operation *last) {
  SmallVector<Operation *> members = {last};
  for (Operation *op = last->getPrevNode(); op && isa<AllReduceOp>(last); op = op->getPrevNode()) {
    if (!isCollective(op))
      continue;
    if (!op->hasAttr(kWithNextAttr))
      break;
    members.push_back(op);
  }
  return members;
}

Exchanged exchangedBy(Operation *collective) {
  if (collective->hasAttr(kWithNextAttr))
    return {};
  const int64_t ranks = collective->getAttrOfType<IntegerAttr>("ranks").getInt();
  int64_t count = floatsOf(wholeOf(collective));
  if (isStartedCollective(collective))
    for (Operation *member : exchangedTogether(collective))
      count += member == collective ? 0 : floatsOf(wholeOf(member));
  if (isa<AllReduceOp>(collective))
    return {reductionTraffic(count, ranks), reductionExchanges(count)};
  return {shardTraffic(count, ranks), shardExchanges(count, ranks)};
}

} // namespace stow
