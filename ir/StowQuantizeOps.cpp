#include "ir/StowQuantizeOps.h"
#include "ir/OpGroup.h"

#include "runtime/base/Quantization.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowQuantizeOps.cpp.inc"

void stow::addQuantizeOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowQuantizeOps.cpp.inc"
      >(dialect);
}

namespace stow {

LogicalResult DequantizeOp::verify() {
  const std::optional<Quantization> scheme = quantizationNamed(getScheme());
  if (!scheme) // C1
    return emitOpError() << "expects \"nf4\" or \"int8\" as its scheme, found \"" << getScheme()
                         << "\"";
  const int64_t elements = tensorType(getY()).getNumElements();
  if (!isQuantizable(elements)) // C2
    return emitOpError() << "expects a multiple of " << 2 * kQuantizedBlock << " elements, found "
                         << elements;
  RankedTensorType x = tensorType(getX());
  const int64_t bytes = partsOf(*scheme, elements).size;
  if (!x.getElementType().isInteger(8) || x.getRank() != 1 || x.getNumElements() != bytes) // C3
    return emitOpError() << "expects " << bytes << " elements of i8 for " << elements
                         << " numbers in " << getScheme() << ", found " << x;
  return success();
}

LogicalResult CodedMatmulOp::verify() {
  const std::optional<Quantization> scheme = quantizationNamed(getScheme());
  if (!scheme) // C1
    return emitOpError() << "expects \"nf4\" or \"int8\" as its scheme, found \"" << getScheme()
                         << "\"";
  RankedTensorType a = tensorType(getA()), packed = tensorType(getPacked()), y = tensorType(getY());
  if (a.getRank() < 1 || a.getRank() != y.getRank() ||
      a.getShape().drop_back() != y.getShape().drop_back()) // C3
    return emitOpError() << "expects the leading dimensions of " << a << ", found " << y;
  const int64_t elements = a.getShape().back() * y.getShape().back();
  if (!isQuantizable(elements) || !packed.getElementType().isInteger(8) || packed.getRank() != 1 ||
      packed.getNumElements() != partsOf(*scheme, elements).size) // C2
    return emitOpError() << "expects the bytes of " << a.getShape().back() << " x "
                         << y.getShape().back() << " numbers in " << getScheme() << ", found "
                         << packed;
  return success();
}

/// As of a product.
double CodedMatmulOp::getFlops() {
  return 2.0 * static_cast<double>(tensorType(getY()).getNumElements()) *
         static_cast<double>(tensorType(getA()).getShape().back());
}

DictionaryAttr quantizedAttr(MLIRContext *context, Quantization scheme, RankedTensorType numbers) {
  Builder builder(context);
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("scheme", builder.getStringAttr(nameOf(scheme))),
       builder.getNamedAttr("type", TypeAttr::get(numbers))});
}

std::optional<QuantizedNumbers> quantizedNumbers(Attribute attr) {
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(attr);
  if (!dictionary)
    return std::nullopt;
  auto name = dictionary.getAs<StringAttr>("scheme");
  auto type = dictionary.getAs<TypeAttr>("type");
  auto numbers = type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
  const auto scheme = name ? quantizationNamed(name.getValue()) : std::nullopt;
  if (!scheme || !numbers || !numbers.hasStaticShape() || !isQuantizable(numbers.getNumElements()))
    return std::nullopt;
  return QuantizedNumbers{*scheme, numbers};
}

/// A product for each element; its level is looked up.
double DequantizeOp::getFlops() { return static_cast<double>(tensorType(getY()).getNumElements()); }

/// C1 and C2 of both ops of state.
static LogicalResult verifyState(Operation *op, RankedTensorType numbers, RankedTensorType codes,
                                 RankedTensorType scales) {
  const int64_t elements = numbers.getNumElements();
  if (!codes.getElementType().isInteger(8) || codes.getShape() != numbers.getShape() ||
      elements % kStateBlock != 0) // C1
    return op->emitOpError() << "expects codes of i8 for a multiple of " << kStateBlock
                             << " numbers of the same shape, found " << codes << " for " << numbers;
  if (!scales.getElementType().isF32() || scales.getRank() != 1 ||
      scales.getNumElements() * kStateBlock != elements) // C2
    return op->emitOpError() << "expects " << elements / kStateBlock << " scales of f32, found "
                             << scales;
  return success();
}

LogicalResult DequantizeStateOp::verify() {
  return verifyState(*this, tensorType(getY()), tensorType(getCodes()), tensorType(getScales()));
}

double DequantizeStateOp::getFlops() {
  return static_cast<double>(tensorType(getY()).getNumElements());
}

LogicalResult QuantizeStateOp::verify() {
  if (getNewCodes().getType() != getCodes().getType() ||
      getNewScales().getType() != getScales().getType()) // C1
    return emitOpError() << "expects results of the types that it overwrites, found "
                         << getNewCodes().getType() << " and " << getNewScales().getType();
  return verifyState(*this, tensorType(getX()), tensorType(getCodes()), tensorType(getScales()));
}

bool QuantizeStateOp::isRecomputable() { return false; }

Sharings QuantizeStateOp::getSharings() {
  return {{SharingKind::Update, 0, 1}, {SharingKind::Update, 1, 2}};
}

/// A comparison with eight middles, a maximum and a quotient for each element.
double QuantizeStateOp::getFlops() {
  return 10.0 * static_cast<double>(tensorType(getX()).getNumElements());
}

} // namespace stow
