// Masks of one bit an element: O(ops).
//
// A mask that kernels of the forward make and kernels of the backward read is stored eight elements to a
// byte (`ir/PackedMasks.h`). Writing bits takes whole bytes: the kernel that makes the mask walks its
// tensors as they lie in memory, so they lie alike, without gaps, now and after stow-place-inside, which
// makes parts of concats inside them. Kernels that read bits may walk otherwise.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/PackedMasks.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PACKMASKSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

bool lieAlike(Type type, RankedTensorType mask) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getShape() == mask.getShape() && layoutOf(tensor) == layoutOf(mask);
}

/// Elements that lie in memory without anything between them, as many as bits may be written of.
bool isDense(RankedTensorType mask) {
  const Layout layout = layoutOf(mask);
  return !layout.pitch && storedBytesOf(mask) == mask.getNumElements() &&
         mask.getNumElements() % kPackedElements == 0;
}

/// True for what may come to lie in a larger tensor.
bool mayBePart(Value value) {
  if (auto maker = value.getDefiningOp<AliasOpInterface>())
    for (const Sharing &sharing : maker.getSharings())
      if (sharing.kind == SharingKind::PartOfOperand)
        return true;
  return llvm::any_of(value.getUses(), [](OpOperand &use) { return bool(partOfResult(use)); });
}

/// True when the kernel walks its tensors as they lie, whatever becomes of them.
bool mayWriteBits(MapOp map, RankedTensorType mask) {
  auto isWalkedAlong = [&](Value value) {
    return tensorType(value).getNumElements() == 1 ||
           (lieAlike(value.getType(), mask) && !mayBePart(value));
  };
  return isForward(map) && map.getUpdates().empty() &&
         map.getBody().getOps<ElementIndexOp>().empty() &&
         llvm::all_of(map->getOperands(), isWalkedAlong) &&
         llvm::all_of(map->getResults(), isWalkedAlong);
}

/// True when the reader counts the mask's elements as the kernel that makes it does.
bool mayReadBits(Operation *reader, RankedTensorType mask) {
  auto map = dyn_cast<MapOp>(reader);
  return map && !isForward(map) && lieAlike(spaceOf(map), mask);
}

//===-- --stow-pack-masks --------------------------------------------------------------------===//

struct PackMasksPass : impl::PackMasksPassBase<PackMasksPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto map : graph.getOps<MapOp>())
        for (OpResult result : map->getResults())
          pack(map, result);
  }

private:
  void pack(MapOp map, OpResult result) {
    RankedTensorType mask = tensorType(result);
    if (mask.getElementType().isInteger(1) && isDense(mask) && !result.use_empty() &&
        mayWriteBits(map, mask) && llvm::all_of(result.getUsers(), [&](Operation *reader) {
          return mayReadBits(reader, mask);
        }))
      result.setType(packedMaskOver(mask));
  }
};

} // namespace
} // namespace stow
