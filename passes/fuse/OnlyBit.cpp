#include "passes/fuse/OnlyBit.h"

#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace stow {
namespace {

/// What the body computes from one element and constants alone, in the body's order.
llvm::SetVector<Operation *> madeOf(BlockArgument element) {
  llvm::SetVector<Operation *> made;
  auto isKnown = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return value == element || (op && (made.contains(op) || isa<arith::ConstantOp>(op)));
  };
  auto isBefore = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  std::set<Operation *, decltype(isBefore)> next(isBefore);
  Operation *terminator = element.getOwner()->getTerminator();
  auto follow = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (user != terminator)
        next.insert(user);
  };
  follow(element);
  while (!next.empty()) {
    Operation *op = *next.begin();
    next.erase(next.begin());
    if (llvm::all_of(op->getOperands(), isKnown) && made.insert(op))
      llvm::for_each(op->getResults(), follow);
  }
  return made;
}

} // namespace

Value onlyBitOf(MapOp map, unsigned index) {
  BlockArgument element = map.getBody().front().getArgument(index);
  if (element.getType().isInteger(1))
    return {};
  const llvm::SetVector<Operation *> made = madeOf(element);
  auto isUsedBeside = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return !made.contains(user); });
  };
  if (isUsedBeside(element))
    return {};
  Value bit;
  for (Operation *op : made)
    for (Value result : op->getResults())
      if (isUsedBeside(result)) {
        if (bit || !result.getType().isInteger(1))
          return {};
        bit = result;
      }
  return bit;
}

MapOp computeBit(OpBuilder &builder, MapOp map, unsigned index, Value bit) {
  Value operand = map.getInputs()[index];
  RankedTensorType type = tensorType(operand);
  auto mask = MapOp::create(
      builder, map.getLoc(),
      TypeRange(RankedTensorType::get(type.getShape(), builder.getI1Type(), type.getEncoding())),
      operand, builder.getDenseI64ArrayAttr({}));
  OpBuilder::InsertionGuard guard(builder);
  Block &block = mask.getBody().emplaceBlock();
  BlockArgument element = map.getBody().front().getArgument(index);
  IRMapping values;
  values.map(element, block.addArgument(element.getType(), map.getLoc()));
  builder.setInsertionPointToStart(&block);
  const llvm::SetVector<Operation *> made = madeOf(element);
  for (Operation &op : map.getBody().front().without_terminator()) {
    const bool isRead =
        llvm::any_of(op.getUsers(), [&](Operation *user) { return made.contains(user); });
    if (made.contains(&op) || (isa<arith::ConstantOp>(op) && isRead))
      builder.clone(op, values);
  }
  YieldOp::create(builder, map.getLoc(), ValueRange{values.lookup(bit)});
  return mask;
}

void readBit(MapOp map, unsigned index, Value bit, Value mask) {
  BlockArgument element = map.getBody().front().getArgument(index);
  SmallVector<Operation *> made = madeOf(element).takeVector();
  Block &block = map.getBody().front();
  // The element's uses go with the ops that made the bit of it; the argument then stands for the bit.
  SmallVector<Operation *> constants;
  for (auto constant : block.getOps<arith::ConstantOp>())
    constants.push_back(constant);
  llvm::SmallPtrSet<Operation *, 8> makers(made.begin(), made.end());
  bit.replaceUsesWithIf(element, [&](OpOperand &use) { return !makers.contains(use.getOwner()); });
  for (Operation *op : llvm::reverse(made))
    op->erase();
  for (Operation *op : constants)
    if (op->use_empty())
      op->erase();
  element.setType(tensorType(mask).getElementType());
  map->setOperand(index, mask);
}

} // namespace stow
