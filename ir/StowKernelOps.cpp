// Constraints, aliases and costs of fused elementwise kernels.
#include "ir/StowKernelOps.h"
#include "ir/OpGroup.h"
#include "ir/PackedMasks.h"
#include "ir/ProductMaps.h"
#include "ir/StowLinearOps.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowKernelOps.cpp.inc"

void stow::addKernelOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowKernelOps.cpp.inc"
      >(dialect);
}

namespace stow {

//===-- Packed masks --------------------------------------------------------------------------===//

bool isPackedMask(MapOp map, unsigned position) {
  Block &block = map.getBody().front();
  const unsigned operands = map->getNumOperands();
  if (position < operands)
    return position < block.getNumArguments() &&
           isPackedMask(map->getOperand(position).getType(), block.getArgument(position).getType());
  Operation *yield = block.getTerminator();
  return position - operands < yield->getNumOperands() &&
         isPackedMask(map->getResult(position - operands).getType(),
                      yield->getOperand(position - operands).getType());
}

RankedTensorType spaceOf(MapOp map) {
  const unsigned operands = map->getNumOperands();
  for (OpResult result : map->getResults())
    if (!isPackedMask(map, operands + result.getResultNumber()))
      return tensorType(result);
  for (OpOperand &operand : map->getOpOperands())
    if (!isPackedMask(map, operand.getOperandNumber()))
      return tensorType(operand.get());
  return tensorType(map->getResult(0));
}

RankedTensorType packedMaskOver(RankedTensorType space) {
  return RankedTensorType::get({space.getNumElements() / 8},
                               IntegerType::get(space.getContext(), 8));
}

namespace {

/// What stow.map, stow.product_map and stow.conv2d_map have in common: results of one shape, to which `inputs`
/// broadcast; a body of scalars, whose arguments have the types `elements`; updates that fit. Packed
/// masks are not looked at.
LogicalResult verifyKernel(Operation *op, ValueRange inputs, TypeRange elements, Block &block,
                           ArrayRef<int64_t> updates) {
  if (op->getNumResults() == 0)
    return op->emitOpError() << "expects at least one result";
  auto map = dyn_cast<MapOp>(op);
  auto isPacked = [&](unsigned position) { return map && isPackedMask(map, position); };
  auto space = map ? spaceOf(map) : cast<RankedTensorType>(op->getResult(0).getType());
  for (OpResult result : op->getResults())
    if (!isPacked(op->getNumOperands() + result.getResultNumber()) &&
        tensorType(result).getShape() != space.getShape())
      return op->emitOpError() << "expects results of one shape, found " << space << " and "
                               << result.getType();
  for (auto [position, input] : llvm::enumerate(inputs)) {
    if (isPacked(position))
      continue;
    auto shape = cast<RankedTensorType>(input.getType()).getShape();
    auto joined = broadcastShapes(shape, space.getShape());
    if (failed(joined) || ArrayRef<int64_t>(*joined) != space.getShape()) // C1
      return op->emitOpError() << "operand " << input.getType() << " does not broadcast to "
                               << space;
  }
  auto fits = [&](TypeRange bodyTypes, TypeRange types, unsigned first) {
    if (bodyTypes.size() != types.size())
      return false;
    for (auto [i, bodyType, type] : llvm::enumerate(bodyTypes, types))
      if (bodyType != getElementTypeOrSelf(type) && !isPacked(first + i))
        return false;
    return true;
  };
  if (!fits(block.getArgumentTypes(), elements, 0) ||
      !fits(block.getTerminator()->getOperandTypes(), op->getResultTypes(),
            op->getNumOperands())) // C2
    return op->emitOpError() << "body arguments and yielded values must have the element types of "
                                "operands and results";
  for (Operation &inner : block.without_terminator()) {
    StringRef dialect = inner.getName().getDialectNamespace();
    if (dialect != "arith" && dialect != "math" && !isa<ElementIndexOp>(inner)) // C3
      return op->emitOpError() << "body may hold arith and math ops only, found "
                               << inner.getName();
  }
  if (updates.size() % 2 != 0)
    return op->emitOpError() << "updates are pairs of result and operand";
  for (size_t i = 0; i + 1 < updates.size(); i += 2) {
    int64_t result = updates[i], operand = updates[i + 1];
    if (result < 0 || result >= op->getNumResults() || operand < 0 ||
        operand >= op->getNumOperands() ||
        op->getResult(result).getType() != op->getOperand(operand).getType())
      return op->emitOpError() << "update of operand " << operand << " by result " << result
                               << " does not fit their types";
  }
  return success();
}

/// The updates, and for results that are no new state the operands from `firstInput` on that have
/// their type.
Sharings kernelSharings(Operation *op, ArrayRef<int64_t> updates, unsigned firstInput) {
  Sharings sharings;
  SmallVector<bool> isUpdated(op->getNumResults(), false);
  for (size_t i = 0; i + 1 < updates.size(); i += 2) {
    sharings.push_back({SharingKind::Update, static_cast<unsigned>(updates[i]),
                        static_cast<unsigned>(updates[i + 1])});
    isUpdated[updates[i]] = true;
  }
  for (OpResult result : op->getResults())
    for (OpOperand &operand : op->getOpOperands().drop_front(firstInput))
      if (!isUpdated[result.getResultNumber()] && operand.get().getType() == result.getType())
        sharings.push_back(
            {SharingKind::Overwrite, result.getResultNumber(), operand.getOperandNumber()});
  return sharings;
}

double bodyFlops(RankedTensorType space, Block &body) {
  size_t operations = llvm::range_size(body.without_terminator());
  return static_cast<double>(space.getNumElements()) * std::max<size_t>(operations, 1);
}

/// An element of a product or a convolution of `factors`, as its body reads it: those of 16-bit factors
/// come as they are summed.
Type summedElement(ArrayRef<RankedTensorType> factors) {
  for (RankedTensorType factor : factors)
    if (factor.getElementTypeBitWidth() == 16)
      return Float32Type::get(factor.getContext());
  return factors.front().getElementType();
}

} // namespace

LogicalResult MapOp::verify() {
  if (failed(verifyKernel(*this, getInputs(), getInputs().getTypes(), getBody().front(),
                          getUpdates())))
    return failure();
  RankedTensorType space = spaceOf(*this);
  for (auto [i, type] : llvm::enumerate(
           llvm::concat<const Type>((*this)->getOperandTypes(), (*this)->getResultTypes())))
    if (isPackedMask(*this, i) &&
        (type != packedMaskOver(space) || space.getNumElements() % kPackedElements != 0))
      return emitOpError() << "expects masks of one bit an element over a multiple of "
                           << kPackedElements << " elements, found " << type << " over " << space;
  return success();
}

/// What is no new state may overwrite any operand of its own type.
Sharings MapOp::getSharings() { return kernelSharings(*this, getUpdates(), 0); }

bool MapOp::isRecomputable() { return getUpdates().empty(); }

double MapOp::getFlops() { return bodyFlops(spaceOf(*this), getBody().front()); }

LogicalResult ProductMapOp::verify() {
  auto a = getA().getType(), b = getB().getType();
  if (a.getRank() < 2 || a.getRank() != b.getRank() ||
      a.getShape().drop_back(2) != b.getShape().drop_back(2)) // C1
    return emitOpError() << "expects matrices, or as many of each, found " << a << " and " << b;
  auto extents = [](RankedTensorType type, bool transposed) {
    const int64_t rows = type.getShape().end()[-2], columns = type.getShape().end()[-1];
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  const auto [m, k] = extents(a, getTransposeA());
  const auto [k2, n] = extents(b, getTransposeB());
  if (k != k2) // C1
    return emitOpError() << "inner extents differ: " << k << " of " << a << " and " << k2 << " of "
                         << b;
  SmallVector<Type> elements = {summedElement({a, b})};
  llvm::append_range(elements, getInputs().getTypes());
  if (failed(verifyKernel(*this, getInputs(), elements, getBody().front(), getUpdates())))
    return failure();
  auto space = cast<RankedTensorType>(getOutputs().front().getType());
  SmallVector<int64_t> shape(a.getShape().drop_back(2));
  shape.append({m, n});
  if (space.getShape() != ArrayRef<int64_t>(shape)) // C2
    return emitOpError() << "expects results of the product's extents "
                         << llvm::interleaved(shape, " x ") << ", found " << space;
  if (!getBody().getOps<ElementIndexOp>().empty()) // C3
    return emitOpError() << "body may not hold stow.element_index";
  for (size_t i = 1; i < getUpdates().size(); i += 2)
    if (getUpdates()[i] < 2) // C4
      return emitOpError() << "updates a factor of its product, operand " << getUpdates()[i];
  return success();
}

/// Tiles of the product are made after others have been used up: what a factor lies in stays.
Sharings ProductMapOp::getSharings() {
  Sharings sharings = kernelSharings(*this, getUpdates(), 2);
  const bool isApart = (*this)->hasAttr(kEpilogueAttr);
  llvm::erase_if(sharings, [&](const Sharing &sharing) {
    Value operand = getOperand(sharing.operand);
    return sharing.kind == SharingKind::Overwrite &&
           (isApart || operand == getA() || operand == getB());
  });
  return sharings;
}

bool ProductMapOp::isRecomputable() { return getUpdates().empty(); }

double ProductMapOp::getFlops() {
  auto space = cast<RankedTensorType>(getOutputs().front().getType());
  return 2.0 * space.getNumElements() *
             getA().getType().getShape().end()[getTransposeA() ? -2 : -1] +
         bodyFlops(space, getBody().front());
}

bool isAlongChannels(RankedTensorType type, RankedTensorType images) {
  const int64_t behind = images.getRank() - 2, inFront = type.getRank() - behind - 1;
  return inFront >= 0 && type.getDimSize(inFront) == images.getDimSize(1) &&
         type.getNumElements() == images.getDimSize(1);
}

LogicalResult Conv2dMapOp::verify() {
  Conv2dOp::Properties window;
  window.strides = getStridesAttr(), window.pads = getPadsAttr();
  window.dilations = getDilationsAttr(), window.groups = getGroupsAttr();
  SmallVector<Type> types;
  if (failed(Conv2dOp::inferReturnTypes(
          getContext(), getLoc(),
          Conv2dOp::Adaptor(ValueRange{getX(), getWeight()}, DictionaryAttr(), window),
          types))) // C1
    return failure();
  SmallVector<Type> elements = {summedElement({getX().getType(), getWeight().getType()})};
  llvm::append_range(elements, getInputs().getTypes());
  if (failed(verifyKernel(*this, getInputs(), elements, getBody().front(), {})))
    return failure();
  const ArrayRef<int64_t> shape = cast<RankedTensorType>(types.front()).getShape();
  if (getY().getType().getShape() != shape) // C2
    return emitOpError() << "expects a result of the convolution's extents "
                         << llvm::interleaved(shape, " x ") << ", found " << getY().getType();
  if (!getBody().getOps<ElementIndexOp>().empty()) // C3
    return emitOpError() << "body may not hold stow.element_index";
  return success();
}

double Conv2dMapOp::getFlops() {
  const RankedTensorType y = getY().getType(), weight = getWeight().getType();
  return 2.0 * y.getNumElements() * weight.getNumElements() / weight.getDimSize(0) +
         bodyFlops(y, getBody().front());
}

} // namespace stow
