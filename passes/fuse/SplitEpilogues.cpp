// The way back from stow-fuse-epilogues: O(ops).
//
//   %y = product_map %x, %w, %b {stow.epilogue} { max(p + b, 0) }     %p = matmul %x, %w
//                                                                    %y = map %p, %b { max(p + b, 0) }
//
// and stow.conv2d_map likewise. The product has the type of the result again, so that 16-bit products are
// rounded before the kernel, which rounds a bias itself where that was cast in front.
#include "passes/fuse/Epilogues.h"

#include "ir/Graphs.h"
#include "ir/ProductMaps.h"
#include "ir/Sharing.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "passes/memory/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace stow {
namespace {

/// The first op that reads `value` or a view of it; adds the views that come before it.
Operation *firstReader(Value value, SmallVectorImpl<Operation *> &views) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    Operation *reader = user;
    if (viewedOperand(user)) {
      views.push_back(user);
      reader = firstReader(user->getResult(0), views);
    }
    if (reader && (!first || reader->isBeforeInBlock(first)))
      first = reader;
  }
  return first;
}

/// Moves a kernel to its first reader, where it most likely stood: what it reads may be computed again
/// on the way.
void sink(MapOp map) {
  SmallVector<Operation *> views;
  Operation *reader = firstReader(map.getResult(0), views);
  if (!reader)
    return;
  map->moveBefore(reader);
  llvm::sort(views, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *view : views)
    if (view->isBeforeInBlock(map))
      view->moveBefore(reader);
}

/// True for a bias that stow-fuse-epilogues cast.
bool isCast(Value value) {
  auto map = value.getDefiningOp<MapOp>();
  return map && map->hasAttr(kEpilogueAttr);
}

Value sourceOf(Value value) {
  return isCast(value) ? value.getDefiningOp<MapOp>().getInputs().front() : value;
}

MatmulOp productOf(OpBuilder &builder, ProductMapOp fused) {
  return MatmulOp::create(builder, fused.getLoc(), TypeRange{fused.getResult(0).getType()},
                          fused.getA(), fused.getB(), Value(), fused.getTransposeA(),
                          fused.getTransposeB());
}

Conv2dOp productOf(OpBuilder &builder, Conv2dMapOp fused) {
  return Conv2dOp::create(builder, fused.getLoc(), TypeRange{fused.getY().getType()}, fused.getX(),
                          fused.getWeight(), Value(), fused.getStrides(), fused.getPads(),
                          fused.getDilations(), fused.getGroups());
}

template <typename Fused> void split(Fused fused) {
  OpBuilder builder(fused);
  Operation *product = productOf(builder, fused);
  const TypeRange types = product->getResultTypes();
  SmallVector<Value> inputs = {product->getResult(0)};
  for (Value input : fused.getInputs())
    inputs.push_back(sourceOf(input));
  auto map =
      MapOp::create(builder, fused.getLoc(), types, inputs, builder.getDenseI64ArrayAttr({}));
  for (Operation *op : {product, map.getOperation()})
    copyPhase(fused, op);
  Block &old = fused.getBody().front(), &body = map.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : inputs)
    body.addArgument(tensorType(input).getElementType(), fused.getLoc());
  builder.setInsertionPointToStart(&body);
  for (auto [argument, element] : llvm::zip(old.getArguments(), body.getArguments()))
    mapping.map(argument, converted(builder, element, argument.getType()));
  for (Operation &op : old)
    builder.clone(op, mapping);
  fused->replaceAllUsesWith(map);
  SmallVector<Operation *> casts;
  for (Value input : fused.getInputs())
    if (isCast(input))
      casts.push_back(input.getDefiningOp());
  fused->erase();
  for (Operation *cast : casts)
    if (cast->use_empty())
      cast->erase();
  sink(map);
}

} // namespace

Value converted(OpBuilder &builder, Value value, Type type) {
  const unsigned from = value.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
  if (from == to)
    return value;
  return from < to ? Value(arith::ExtFOp::create(builder, value.getLoc(), type, value))
                   : Value(arith::TruncFOp::create(builder, value.getLoc(), type, value));
}

OwningOpRef<ModuleOp> splitEpilogues(ModuleOp module, const Target &target) {
  auto isEpilogue = [](Operation *op) {
    return op->hasAttr(kEpilogueAttr) && isa<ProductMapOp, Conv2dMapOp>(op);
  };
  const bool isAny = module
                         .walk([&](Operation *op) {
                           return isEpilogue(op) ? WalkResult::interrupt() : WalkResult::advance();
                         })
                         .wasInterrupted();
  if (!isAny)
    return {};
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  copy->walk([&](Operation *op) {
    if (!isEpilogue(op))
      return;
    if (auto product = dyn_cast<ProductMapOp>(op))
      split(product);
    else
      split(cast<Conv2dMapOp>(op));
  });
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // whoever plans the copy does
  manager.addPass(createPlanWorkspacesPass(target));
  if (failed(manager.run(*copy)))
    return {};
  return copy;
}

} // namespace stow
