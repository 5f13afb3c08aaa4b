// Constraints, aliases and costs of fused elementwise kernels.
#include "ir/Stow.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

namespace stow {

LogicalResult MapOp::verify() {
  if (getOutputs().empty())
    return emitOpError() << "expects at least one result";
  auto space = cast<RankedTensorType>(getOutputs().front().getType());
  for (Type type : getOutputs().getTypes())
    if (cast<RankedTensorType>(type).getShape() != space.getShape())
      return emitOpError() << "expects results of one shape, found " << space << " and " << type;
  for (Value input : getInputs()) {
    auto shape = cast<RankedTensorType>(input.getType()).getShape();
    auto joined = broadcastShapes(shape, space.getShape());
    if (failed(joined) || ArrayRef<int64_t>(*joined) != space.getShape()) // C1
      return emitOpError() << "operand " << input.getType() << " does not broadcast to " << space;
  }
  Block &block = getBody().front();
  auto elements = [](TypeRange types) {
    return llvm::map_range(types, [](Type type) { return getElementTypeOrSelf(type); });
  };
  if (!llvm::equal(block.getArgumentTypes(), elements(getInputs().getTypes())) ||
      !llvm::equal(block.getTerminator()->getOperandTypes(),
                   elements(getOutputs().getTypes()))) // C2
    return emitOpError() << "body arguments and yielded values must have the element types of "
                            "operands and results";
  for (Operation &op : block.without_terminator()) {
    StringRef dialect = op.getName().getDialectNamespace();
    if (dialect != "arith" && dialect != "math" && !isa<ElementIndexOp>(op)) // C3
      return emitOpError() << "body may hold arith and math ops only, found " << op.getName();
  }
  if (getUpdates().size() % 2 != 0)
    return emitOpError() << "updates are pairs of result and operand";
  for (size_t i = 0; i + 1 < getUpdates().size(); i += 2) {
    int64_t result = getUpdates()[i], operand = getUpdates()[i + 1];
    if (result < 0 || result >= getNumResults() || operand < 0 || operand >= getNumOperands() ||
        getResult(result).getType() != getOperand(operand).getType())
      return emitOpError() << "update of operand " << operand << " by result " << result
                           << " does not fit their types";
  }
  return success();
}

/// What is no new state may overwrite any operand of its own type.
Sharings MapOp::getSharings() {
  Sharings sharings;
  SmallVector<bool> isUpdated(getNumResults(), false);
  for (size_t i = 0; i + 1 < getUpdates().size(); i += 2) {
    sharings.push_back({SharingKind::Update, static_cast<unsigned>(getUpdates()[i]),
                        static_cast<unsigned>(getUpdates()[i + 1])});
    isUpdated[getUpdates()[i]] = true;
  }
  for (OpResult result : getOperation()->getResults())
    for (OpOperand &operand : getOperation()->getOpOperands())
      if (!isUpdated[result.getResultNumber()] && operand.get().getType() == result.getType())
        sharings.push_back(
            {SharingKind::Overwrite, result.getResultNumber(), operand.getOperandNumber()});
  return sharings;
}

bool MapOp::isRecomputable() { return getUpdates().empty(); }

double MapOp::getFlops() {
  auto space = cast<RankedTensorType>(getOutputs().front().getType());
  size_t operations = llvm::range_size(getBody().front().without_terminator());
  return static_cast<double>(space.getNumElements()) * std::max<size_t>(operations, 1);
}

} // namespace stow
