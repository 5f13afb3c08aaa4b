// Types, constraints and folds of the elementwise ops. Bodies are in bodies/, gradients in
// gradients/.
#include "ir/StowElementwiseOps.h"
#include "ir/Broadcast.h"
#include "ir/OpGroup.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_DEFS_0
#include "ir/StowElementwiseOps.cpp.inc"

void stow::addElementwiseOps(StowDialect &dialect) {
  registerStowDialectOperations(&dialect); // generated with the halves, for this group alone
}

namespace stow {
LogicalResult inferBroadcast(std::optional<Location> location, ValueRange operands, Type element,
                             SmallVectorImpl<Type> &types) {
  SmallVector<int64_t> shape;
  for (Value operand : operands) {
    auto type = cast<RankedTensorType>(operand.getType());
    auto joined = broadcastShapes(shape, type.getShape());
    if (failed(joined))
      return emitOptionalError(location,
                               "operand shapes do not broadcast: ", llvm::interleaved_array(shape),
                               " against ", llvm::interleaved_array(type.getShape()));
    shape = *joined;
  }
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

FailureOr<Type> commonElement(std::optional<Location> location, ValueRange operands) {
  Type common = getElementTypeOrSelf(operands.front().getType());
  for (Value operand : operands.drop_front()) {
    Type element = getElementTypeOrSelf(operand.getType());
    Type wider = commonType(common, element);
    if (!wider)
      return emitOptionalError(location, "operands have different element types: ", common, " and ",
                               element);
    common = wider;
  }
  return common;
}

Sharings overwritesOfOneType(Operation *op) {
  Sharings sharings;
  for (OpResult result : op->getResults())
    for (OpOperand &operand : op->getOpOperands())
      if (operand.get().getType() == result.getType())
        sharings.push_back(
            {SharingKind::Overwrite, result.getResultNumber(), operand.getOperandNumber()});
  return sharings;
}

namespace {

template <typename Adaptor>
LogicalResult inferSameElement(std::optional<Location> location, Adaptor adaptor,
                               SmallVectorImpl<Type> &types) {
  auto element = commonElement(location, adaptor.getOperands());
  if (failed(element))
    return failure();
  return inferBroadcast(location, adaptor.getOperands(), *element, types);
}

/// True when `attr` is a splat of `value`.
bool isSplatOf(Attribute attr, double value) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(attr);
  return elements && elements.isSplat() && isa<FloatType>(elements.getElementType()) &&
         elements.getSplatValue<APFloat>().isExactlyValue(value);
}

} // namespace

#define STOW_SAME_ELEMENT(OpName)                                                                  \
  LogicalResult OpName::inferReturnTypes(MLIRContext *, std::optional<Location> location,          \
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {          \
    return inferSameElement(location, adaptor, types);                                             \
  }                                                                                                \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return compatibleTypes(left, right);                                                           \
  }

#define STOW_ELEMENTWISE(OpName)                                                                   \
  STOW_SAME_ELEMENT(OpName)                                                                        \
  Sharings OpName::getSharings() { return overwritesOfOneType(*this); }

STOW_ELEMENTWISE(NegOp)
STOW_ELEMENTWISE(AbsOp)
STOW_ELEMENTWISE(SignOp)
STOW_ELEMENTWISE(ExpOp)
STOW_ELEMENTWISE(LogOp)
STOW_ELEMENTWISE(SqrtOp)
STOW_ELEMENTWISE(ReciprocalOp)
STOW_ELEMENTWISE(SigmoidOp)
STOW_ELEMENTWISE(TanhOp)
STOW_ELEMENTWISE(ErfOp)
STOW_ELEMENTWISE(SoftplusOp)
STOW_ELEMENTWISE(SinOp)
STOW_ELEMENTWISE(CosOp)
STOW_ELEMENTWISE(AtanOp)
STOW_ELEMENTWISE(RoundOp)
STOW_ELEMENTWISE(HardSwishOp)
STOW_ELEMENTWISE(AddOp)
STOW_ELEMENTWISE(SubOp)
STOW_ELEMENTWISE(MulOp)
STOW_ELEMENTWISE(DivOp)
STOW_ELEMENTWISE(MaximumOp)
STOW_ELEMENTWISE(MinimumOp)
STOW_ELEMENTWISE(PowOp)
STOW_ELEMENTWISE(ReluOp)
STOW_ELEMENTWISE(LeakyReluOp)
STOW_ELEMENTWISE(LeakyReluGradOp)
STOW_ELEMENTWISE(ThresholdedReluOp)
STOW_ELEMENTWISE(EluOp)
STOW_ELEMENTWISE(EluGradOp)
STOW_ELEMENTWISE(HardSigmoidOp)
STOW_ELEMENTWISE(ClipOp)
STOW_ELEMENTWISE(RangeGradOp)
STOW_ELEMENTWISE(HardSwishGradOp)
STOW_ELEMENTWISE(SelectGradOp)
STOW_SAME_ELEMENT(DropoutOp)

#undef STOW_ELEMENTWISE
#undef STOW_SAME_ELEMENT

//===-- Ops whose operands differ in element type ---------------------------------------------===//

LogicalResult PositiveMaskOp::inferReturnTypes(MLIRContext *context,
                                               std::optional<Location> location, Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  return inferBroadcast(location, adaptor.getOperands(), IntegerType::get(context, 1), types);
}
bool PositiveMaskOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings PositiveMaskOp::getSharings() { return {}; }

LogicalResult ReluGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                           Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(cast<RankedTensorType>(adaptor.getDy().getType())));
  return success();
}
bool ReluGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings ReluGradOp::getSharings() { return overwritesOfOneType(*this); }
LogicalResult ReluGradOp::verify() {
  auto saved = getSaved().getType(), dy = getDy().getType();
  if (saved.getShape() != dy.getShape()) // C1
    return emitOpError() << "expects saved of shape " << llvm::interleaved_array(dy.getShape())
                         << ", found " << llvm::interleaved_array(saved.getShape());
  if (!saved.getElementType().isInteger(1) &&
      !commonType(saved.getElementType(), dy.getElementType()))
    return emitOpError() << "expects saved of type i1 or " << dy.getElementType() << ", found "
                         << saved.getElementType();
  return success();
}

LogicalResult DropoutTrainingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                  Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(withoutLayout(cast<RankedTensorType>(adaptor.getX().getType())));
  return success();
}
bool DropoutTrainingOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings DropoutTrainingOp::getSharings() { return overwritesOfOneType(*this); }

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto element = commonElement(location, {adaptor.getA(), adaptor.getB()});
  if (failed(element)) // C2
    return failure();
  return inferBroadcast(location, adaptor.getOperands(), *element, types); // C1
}
bool SelectOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings SelectOp::getSharings() { return overwritesOfOneType(*this); }

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (failed(commonElement(location, {adaptor.getA(), adaptor.getB()}))) // C2
    return failure();
  return inferBroadcast(location, adaptor.getOperands(), IntegerType::get(context, 1), types); // C1
}
bool CompareOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings CompareOp::getSharings() { return overwritesOfOneType(*this); }

Sharings CastOp::getSharings() { return {}; }
LogicalResult CastOp::verify() {
  if (getX().getType().getShape() != getY().getType().getShape()) // C1
    return emitOpError() << "expects operand and result of one shape";
  return success();
}

//===-- Constraints ---------------------------------------------------------------------------===//

LogicalResult ClipOp::verify() {
  if (getLow().convertToDouble() > getHigh().convertToDouble()) // C1
    return emitOpError() << "expects low <= high";
  return success();
}

LogicalResult RoundOp::verify() {
  if (!llvm::is_contained({"even", "floor", "ceil", "zero"}, getMode())) // C1
    return emitOpError() << "expects mode even, floor, ceil or zero, found " << getModeAttr();
  return success();
}

LogicalResult CompareOp::verify() {
  bool known = llvm::is_contained({"eq", "ne"}, getPredicate()) ||
               (!getA().getType().getElementType().isInteger(1) &&
                llvm::is_contained({"lt", "le", "gt", "ge"}, getPredicate()));
  if (!known) // C3
    return emitOpError() << "expects predicate eq or ne, or for numbers lt, le, gt or ge, found "
                         << getPredicateAttr();
  return success();
}

// C1 of random and draw.
template <typename Op> static LogicalResult verifyDistribution(Op op) {
  StringRef kind = op.getDistribution();
  double a = op.getA().convertToDouble(), b = op.getB().convertToDouble();
  bool fits = kind == "uniform"     ? a < b
              : kind == "normal"    ? b >= 0
              : kind == "bernoulli" ? a >= 0 && a <= 1
                                    : false;
  if (fits)
    return success();
  return op.emitOpError() << "expects distribution uniform with a < b, normal with b >= 0 or "
                             "bernoulli with a in [0, 1], found "
                          << op.getDistributionAttr() << " with a = " << a << ", b = " << b;
}
LogicalResult RandomOp::verify() { return verifyDistribution(*this); }
LogicalResult DrawOp::verify() { return verifyDistribution(*this); }

LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (ratio < 0 || ratio >= 1)
    return emitOpError() << "expects a ratio in [0, 1), found " << ratio;
  return success();
}

//===-- Folds ---------------------------------------------------------------------------------===//

// `value`, when using it instead of the op's result keeps the result type.
static OpFoldResult foldTo(Operation *op, Value value) {
  return value.getType() == op->getResult(0).getType() ? OpFoldResult(value) : OpFoldResult();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isSplatOf(adaptor.getB(), 0.0))
    return foldTo(*this, getA());
  if (isSplatOf(adaptor.getA(), 0.0))
    return foldTo(*this, getB());
  return {};
}
OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  return isSplatOf(adaptor.getB(), 0.0) ? foldTo(*this, getA()) : OpFoldResult();
}
OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isSplatOf(adaptor.getB(), 1.0))
    return foldTo(*this, getA());
  if (isSplatOf(adaptor.getA(), 1.0))
    return foldTo(*this, getB());
  return {};
}
OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  return isSplatOf(adaptor.getB(), 1.0) ? foldTo(*this, getA()) : OpFoldResult();
}

} // namespace stow
