#include "passes/rewrite/AttentionDocuments.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowShapeOps.h"
#include "passes/rewrite/AttentionMask.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
namespace {

int64_t elementsOf(Value value) { return tensorType(value).getNumElements(); }

int64_t lastExtent(Value value) {
  const auto shape = tensorType(value).getShape();
  return shape.empty() ? 1 : shape.back();
}

/// Takes off an integer that is added to `value`, in all of its places.
bool takeSummand(Value &value, int64_t &added) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<AddOp, SubOp>(op) || op->getOperand(0).getType() != value.getType())
    return false;
  const auto number = numberOf(op->getOperand(1));
  if (!number)
    return false;
  const auto summand = static_cast<int64_t>(*number);
  added += isa<AddOp>(op) ? summand : -summand;
  value = op->getOperand(0);
  return true;
}

/// Ones in front of leading dimensions say nothing.
void dropOnes(SmallVector<int64_t> &lead) {
  lead.erase(lead.begin(), llvm::find_if(lead, [](int64_t extent) { return extent != 1; }));
}

/// `value` before reshapes, and before a row of `count` was repeated, which is then a row of its own.
Value sourceOf(Value value, int64_t count, int64_t *added = nullptr) {
  while (Operation *op = value.getDefiningOp()) {
    if (added && takeSummand(value, *added))
      continue;
    const bool isRepeated = isa<BroadcastToOp>(op) && elementsOf(op->getOperand(0)) == count &&
                            lastExtent(op->getOperand(0)) == count && lastExtent(value) == count;
    if (!isa<ReshapeOp>(op) && !isRepeated)
      break;
    value = op->getOperand(0);
  }
  return value;
}

std::optional<RowNumbers> rowNumbersOf(Value value, int64_t rows, int64_t keys) {
  RowNumbers found;
  const Type element = tensorType(value).getElementType();
  if (!element.isInteger(32) && !element.isInteger(64))
    return std::nullopt;
  while (takeSummand(value, found.added) || value.getDefiningOp<BroadcastToOp>())
    if (auto repeat = value.getDefiningOp<BroadcastToOp>())
      value = repeat.getX();
  const auto shape = tensorType(value).getShape();
  const int64_t last = lastExtent(value), before = shape.size() > 1 ? shape.end()[-2] : 1;
  found.isOfQueries = rows > 1 && before == rows && last == 1;
  if (!found.isOfQueries && !(keys > 1 && before == 1 && last == keys))
    return std::nullopt;
  const int64_t count = found.isOfQueries ? rows : keys;
  found.numbers = sourceOf(value, count, &found.added);
  if (elementsOf(found.numbers) != count)
    found.lead.assign(shape.begin(), shape.end() - 2);
  dropOnes(found.lead);
  return found;
}

/// Where a boolean, or a number that counts it, is 0 unless what it compares with 1 is something else: that.
Value comparedWithOne(Value value) {
  bool isWhereUnequal = true;
  while (true) {
    if (auto cast = value.getDefiningOp<CastOp>();
        cast && tensorType(cast.getX()).getElementType().isInteger(1)) {
      value = cast.getX();
      continue;
    }
    auto compare = value.getDefiningOp<CompareOp>();
    const auto number = compare ? numberOf(compare.getB()) : std::nullopt;
    if (!number || (compare.getPredicate() != "eq" && compare.getPredicate() != "ne"))
      return {};
    const bool isEqual = compare.getPredicate() == "eq";
    if (tensorType(compare.getA()).getElementType().isInteger(1) && *number == 0) {
      isWhereUnequal = isWhereUnequal != isEqual;
      value = compare.getA();
      continue;
    }
    return *number == 1 && isWhereUnequal != isEqual ? compare.getA() : Value();
  }
}

/// Rows of `count` that begin at column `first` of what `value` is a part of; null where it is no such part.
Value wholeOf(Value value, int64_t first, int64_t count) {
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice || slice.getStarts().back() != first || slice.getSizes().back() != count ||
      !llvm::all_of(slice.getStarts().drop_back(), [](int64_t start) { return start == 0; }) ||
      tensorType(slice.getX()).getShape().drop_back() != tensorType(value).getShape().drop_back())
    return {};
  return slice.getX();
}

} // namespace

std::optional<RowPair> rowNumbersOf(Value a, Value b, int64_t rows, int64_t keys) {
  auto first = rowNumbersOf(a, rows, keys), second = rowNumbersOf(b, rows, keys);
  if (!first || !second || first->isOfQueries == second->isOfQueries)
    return std::nullopt;
  return RowPair{*first, *second};
}

bool RowNumbers::follow(Value mask, Value inner) {
  SmallVector<Operation *> steps;
  for (; mask != inner; mask = mask.getDefiningOp()->getOperand(0))
    steps.push_back(mask.getDefiningOp());
  for (Operation *step : llvm::reverse(steps)) {
    if (!isa<ReshapeOp>(step) || lead.empty())
      continue;
    auto leadOf = [](Value value) { return tensorType(value).getShape().drop_back(2); };
    const auto from = leadOf(step->getOperand(0)), to = leadOf(step->getResult(0));
    if (llvm::product_of(from) != llvm::product_of(lead))
      return false;
    lead.assign(to.begin(), to.end());
    dropOnes(lead);
  }
  return true;
}

Value RowNumbers::tensor(OpBuilder &builder, Location location) const {
  const auto type = tensorType(numbers);
  SmallVector<int64_t> shape(lead);
  shape.push_back(type.getNumElements() / llvm::product_of(lead));
  return builder.createOrFold<ReshapeOp>(
      location, RankedTensorType::get(shape, type.getElementType()), numbers);
}

bool countWithin(const RowNumbers &positions, const Documents &documents) {
  const Value numbers = documents.queries.numbers;
  auto sum = numbers.getDefiningOp<CumSumOp>();
  const int64_t count = lastExtent(numbers), rank = tensorType(numbers).getRank();
  const bool isOneRow = elementsOf(positions.numbers) == count;
  if (!sum || !documents.areShared() || sum.getExclusive() || sum.getReverse() ||
      static_cast<int64_t>(sum.getAxis()) != rank - 1 ||
      elementsOf(numbers) / llvm::product_of(documents.queries.lead) != count ||
      !(isOneRow || positions.lead == documents.queries.lead))
    return false;
  const Value compared = comparedWithOne(sum.getX());
  auto difference = compared ? compared.getDefiningOp<SubOp>() : nullptr;
  if (!difference)
    return false;
  auto arePositions = [&](Value value) {
    return lastExtent(value) == count && sourceOf(value, count) == positions.numbers;
  };
  const Value before = wholeOf(difference.getB(), 0, count);
  auto joined = before ? before.getDefiningOp<ConcatOp>() : nullptr;
  if (!joined || joined.getInputs().size() != 2 ||
      static_cast<int64_t>(joined.getAxis()) != rank - 1 ||
      lastExtent(joined.getInputs()[0]) != 1 || !arePositions(joined.getInputs()[1]))
    return false;
  return arePositions(difference.getA()) || wholeOf(difference.getA(), 1, count) == before;
}

} // namespace stow
