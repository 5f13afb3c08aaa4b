#include "ir/StowBitwiseOps.h"
#include "ir/OpGroup.h"

#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowBitwiseOps.cpp.inc"

void stow::addBitwiseOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowBitwiseOps.cpp.inc"
      >(dialect);
}

namespace stow {

LogicalResult BitwiseOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto a = cast<RankedTensorType>(adaptor.getA().getType());
  auto b = cast<RankedTensorType>(adaptor.getB().getType());
  auto shape = broadcastShapes(a.getShape(), b.getShape());
  if (failed(shape)) // C1
    return emitOptionalError(
        location, "operand shapes do not broadcast: ", llvm::interleaved_array(a.getShape()),
        " against ", llvm::interleaved_array(b.getShape()));
  if (a.getElementType() != b.getElementType()) // C2
    return emitOptionalError(location,
                             "operands have different element types: ", a.getElementType(), " and ",
                             b.getElementType());
  types.push_back(RankedTensorType::get(*shape, a.getElementType()));
  return success();
}

bool BitwiseOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

LogicalResult BitwiseOp::verify() {
  if (!llvm::is_contained({"and", "or", "xor", "shift_left", "shift_right"}, getKind())) // C3
    return emitOpError() << "expects kind and, or, xor, shift_left or shift_right, found "
                         << getKindAttr();
  return success();
}

Sharings BitwiseOp::getSharings() {
  Sharings sharings;
  for (OpOperand &operand : getOperation()->getOpOperands())
    if (operand.get().getType() == getY().getType())
      sharings.push_back({SharingKind::Overwrite, 0, operand.getOperandNumber()});
  return sharings;
}

} // namespace stow
