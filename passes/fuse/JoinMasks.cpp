// Masks as by-products: O(ops).
//
// A mask that the backward reads is one bit of a value that some kernel of the forward holds anyway:
//
//   x --+--> [0 <= x <= 6] -> mask          x --+--> [min, max; 0 <= x <= 6] -> y, mask
//       +--> [min, max] -> y
//
// The right side reads x once, and where y is computed again for the backward, the mask costs nothing
// beside. Values with other readers stay: they are there for the mask as long as they are read.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_JOINMASKSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

bool isForwardMap(Operation *op) {
  auto map = dyn_cast_or_null<MapOp>(op);
  return map && isForward(map) && map.getUpdates().empty();
}

/// A kernel whose one result is a mask of its one operand, element by element.
bool isMask(MapOp map) {
  return isForwardMap(map) && map->getNumResults() == 1 && map->getNumOperands() == 1 &&
         tensorType(map.getResult(0)).getElementType().isInteger(1) &&
         tensorType(map->getOperand(0)).getShape() == tensorType(map.getResult(0)).getShape() &&
         layoutOf(map->getOperand(0).getType()) == layoutOf(map.getResult(0).getType()) &&
         map.getBody().getOps<ElementIndexOp>().empty();
}

/// The kernel of the forward, over the mask's elements, that alone reads the value beside the mask's
/// kernel, before anything reads the mask; null where there is none.
MapOp hostOf(MapOp mask) {
  Value value = mask->getOperand(0);
  MapOp host;
  for (Operation *user : value.getUsers()) {
    if (user == mask || user == host)
      continue;
    if (host || !isForwardMap(user) ||
        tensorType(user->getResult(0)).getShape() != tensorType(value).getShape())
      return {};
    host = cast<MapOp>(user);
  }
  auto isAfterHost = [&](Operation *user) { return host->isBeforeInBlock(user); };
  return host && llvm::all_of(mask->getUsers(), isAfterHost) ? host : MapOp();
}

/// Adds the mask's body to `host`, whose results get the mask as the last of them.
void join(OpBuilder &builder, MapOp host, MapOp mask) {
  builder.setInsertionPoint(host);
  SmallVector<Type> types(host->getResultTypes());
  types.push_back(mask.getResult(0).getType());
  auto joined = MapOp::create(builder, host.getLoc(), types, host.getInputs(),
                              builder.getDenseI64ArrayAttr({}));
  joined.getBody().takeBody(host.getBody());
  Block &block = joined.getBody().front();
  Operation *yield = block.getTerminator();
  IRMapping values;
  const auto input = llvm::find(host.getInputs(), mask->getOperand(0)) - host.getInputs().begin();
  values.map(mask.getBody().front().getArgument(0), block.getArgument(input));
  builder.setInsertionPoint(yield);
  for (Operation &op : mask.getBody().front().without_terminator())
    builder.clone(op, values);
  Value bit = values.lookupOrDefault(mask.getBody().front().getTerminator()->getOperand(0));
  yield->insertOperands(yield->getNumOperands(), bit);

  mask->replaceAllUsesWith(ValueRange(joined->getResults().take_back()));
  host->replaceAllUsesWith(joined->getResults().drop_back());
  mask->erase();
  host->erase();
}

//===-- --stow-join-masks --------------------------------------------------------------------===//

struct JoinMasksPass : impl::JoinMasksPassBase<JoinMasksPass> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    llvm::SmallPtrSet<Operation *, 8> joined; // hosts that were masks themselves are gone
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (MapOp mask : llvm::filter_to_vector(graph.getOps<MapOp>(), isMask)) {
        MapOp host = joined.contains(mask) ? MapOp() : hostOf(mask);
        if (!host)
          continue;
        joined.insert(host);
        join(builder, host, mask);
      }
  }
};

} // namespace
} // namespace stow
