#include "ir/Sharing.h"

#include "ir/Stow.h"

using namespace mlir;

namespace stow {
namespace {

/// The operand that `result` overwrites by stow.in_place of its op; none where it has no pair.
std::optional<unsigned> overwrittenBy(Operation *op, unsigned result) {
  auto pairs = op->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
  for (int64_t i = 0; pairs && i + 1 < pairs.size(); i += 2)
    if (pairs[i] == result)
      return pairs[i + 1];
  return std::nullopt;
}

/// False where no result of the op can be all of `value`, as views and new states of it are: an op
/// of many operands, which a concat of time steps is, need not be asked for each of them.
bool mayBeWholeOf(Operation *op, Value value) {
  const int64_t count = cast<RankedTensorType>(value.getType()).getNumElements();
  return llvm::any_of(op->getResultTypes(), [&](Type type) {
    return cast<RankedTensorType>(type).getNumElements() == count;
  });
}

bool isPlaced(Operation *op, unsigned part) {
  auto inside = op->getAttrOfType<DenseI64ArrayAttr>(kInsideAttr);
  return inside && llvm::is_contained(inside.asArrayRef(), part);
}

} // namespace

Value Sharing::partIn(Operation *op) const {
  return kind == SharingKind::PartOfResult ? op->getOperand(operand) : op->getResult(result);
}

Value Sharing::wholeIn(Operation *op) const {
  return kind == SharingKind::PartOfResult ? op->getResult(result) : op->getOperand(operand);
}

Bytes Sharing::offsetIn(Operation *op) const {
  return isPart() ? offsetInside(wholeIn(op).getType(), starts) : 0;
}

Sharings sharingsOf(Operation *op) {
  auto alias = dyn_cast<AliasOpInterface>(op);
  return alias ? alias.getSharings() : Sharings();
}

Sharings partsOf(Operation *op) {
  Sharings parts = sharingsOf(op);
  llvm::erase_if(parts, [](const Sharing &sharing) { return !sharing.isPart(); });
  return parts;
}

bool isTaken(Operation *op, const Sharing &sharing) {
  switch (sharing.kind) {
  case SharingKind::View:
  case SharingKind::Update:
    return true;
  case SharingKind::PartOfOperand:
  case SharingKind::PartOfResult:
    return isPlaced(op, sharing.partNumber());
  case SharingKind::Overwrite:
    return overwrittenBy(op, sharing.result) == sharing.operand;
  }
  llvm_unreachable("a kind of sharing without a rule");
}

void takePart(Operation *op, const Sharing &part) {
  SmallVector<int64_t> numbers;
  if (auto inside = op->getAttrOfType<DenseI64ArrayAttr>(kInsideAttr))
    llvm::append_range(numbers, inside.asArrayRef());
  numbers.push_back(part.partNumber());
  op->setAttr(kInsideAttr, DenseI64ArrayAttr::get(op->getContext(), numbers));
}

std::optional<Sharing> sharingOf(OpResult result) {
  Operation *op = result.getOwner();
  const std::optional<unsigned> overwritten = overwrittenBy(op, result.getResultNumber());
  for (Sharing &sharing : sharingsOf(op)) {
    if (sharing.result != result.getResultNumber() || sharing.kind == SharingKind::PartOfResult)
      continue;
    if (sharing.kind == SharingKind::Overwrite ? sharing.operand == overwritten
                                               : isTaken(op, sharing))
      return std::move(sharing);
  }
  return std::nullopt;
}

std::optional<unsigned> viewedOperand(Operation *op) {
  for (const Sharing &sharing : sharingsOf(op))
    if (sharing.result == 0 &&
        (sharing.kind == SharingKind::View ||
         (sharing.kind == SharingKind::PartOfOperand && isTaken(op, sharing))))
      return sharing.operand;
  return std::nullopt;
}

std::optional<Sharing> partOfResult(OpOperand &use) {
  for (Sharing &part : partsOf(use.getOwner()))
    if (part.kind == SharingKind::PartOfResult && part.operand == use.getOperandNumber())
      return std::move(part);
  return std::nullopt;
}

bool isUpdate(OpOperand &use) {
  return mayBeWholeOf(use.getOwner(), use.get()) &&
         llvm::any_of(sharingsOf(use.getOwner()), [&](const Sharing &sharing) {
           return sharing.kind == SharingKind::Update && sharing.operand == use.getOperandNumber();
         });
}

static SmallVector<int64_t> inverted(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = static_cast<int64_t>(to);
  return inverse;
}

/// The type of one side of a transposing view, whose own type is `side`, where the other side is `part`:
/// dimension i of `side` is dimension dims[i] there. None where the gaps are no dimension's of several
/// elements.
static std::optional<RankedTensorType> transposedPart(RankedTensorType side, RankedTensorType part,
                                                      ArrayRef<int64_t> dims) {
  side = withoutPitch(side);
  const std::optional<Layout::Pitch> pitch = layoutOf(part).pitch;
  if (!pitch)
    return side;
  if (part.getDimSize(pitch->dim) == 1)
    return std::nullopt;
  Layout layout = layoutOf(side);
  layout.pitch = Layout::Pitch{llvm::find(dims, pitch->dim) - dims.begin(), pitch->extent};
  return withLayout(side, layout);
}

std::optional<std::pair<Value, RankedTensorType>> viewOfPart(OpOperand &use,
                                                             RankedTensorType part) {
  if (!mayBeWholeOf(use.getOwner(), use.get()))
    return std::nullopt;
  for (const Sharing &sharing : sharingsOf(use.getOwner()))
    if (sharing.kind == SharingKind::View && sharing.operand == use.getOperandNumber()) {
      Value result = use.getOwner()->getResult(sharing.result);
      auto side = cast<RankedTensorType>(result.getType());
      auto alias = cast<AliasOpInterface>(use.getOwner());
      auto type = sharing.permutation.empty() ? alias.getViewOfPart(side, part)
                                              : transposedPart(side, part, sharing.permutation);
      if (type)
        return std::pair(result, *type);
    }
  return std::nullopt;
}

std::optional<std::pair<Value, RankedTensorType>> viewedAsPart(Value value, RankedTensorType part) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return std::nullopt;
  for (const Sharing &sharing : sharingsOf(result.getOwner()))
    if (sharing.kind == SharingKind::View && sharing.result == result.getResultNumber()) {
      Value operand = result.getOwner()->getOperand(sharing.operand);
      auto side = cast<RankedTensorType>(operand.getType());
      auto alias = cast<AliasOpInterface>(result.getOwner());
      auto type = sharing.permutation.empty()
                      ? alias.getViewOfPart(side, part)
                      : transposedPart(side, part, inverted(sharing.permutation));
      if (type)
        return std::pair(operand, *type);
    }
  return std::nullopt;
}

} // namespace stow
