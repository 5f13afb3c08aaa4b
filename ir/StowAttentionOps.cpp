// Types, constraints and costs of attention.
#include "ir/StowAttentionOps.h"
#include "ir/OpGroup.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowAttentionOps.cpp.inc"

void stow::addAttentionOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowAttentionOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// C1 and C2.
LogicalResult checkFactors(std::optional<Location> location, RankedTensorType q, RankedTensorType k,
                           RankedTensorType v) {
  const int64_t rank = q.getRank();
  if (rank < 2 || k.getRank() != rank || v.getRank() != rank ||
      q.getDimSize(rank - 1) != k.getDimSize(rank - 1) ||
      k.getDimSize(rank - 2) != v.getDimSize(rank - 2))
    return emitOptionalError(
        location, "expects queries [..., T, D], keys [..., S, D] and values [..., S, E], found ", q,
        ", ", k, " and ", v);
  bool fits = k.getShape().drop_back(2) == v.getShape().drop_back(2);
  for (int64_t i = 0; i + 2 < rank; ++i)
    fits &= q.getDimSize(i) == k.getDimSize(i) ||
            (i + 3 == rank && k.getDimSize(i) > 0 && q.getDimSize(i) % k.getDimSize(i) == 0);
  if (!fits)
    return emitOptionalError(location,
                             "expects equal leading extents, or heads of queries that are a "
                             "multiple of those of keys and values, found ",
                             q, ", ", k, " and ", v);
  return success();
}

/// C6. `scores`: their extents.
LogicalResult checkDocuments(std::optional<Location> location, ArrayRef<int64_t> scores,
                             Value queries, Value keys) {
  if (!queries && !keys)
    return success();
  SmallVector<int64_t> ofQueries(scores.drop_back()), ofKeys(scores.drop_back(2));
  ofKeys.push_back(scores.back());
  auto fits = [&](Value numbers, ArrayRef<int64_t> shape) {
    if (!numbers)
      return false;
    auto broadcast = broadcastShapes(tensor(numbers).getShape(), shape);
    return succeeded(broadcast) && *broadcast == shape;
  };
  if (fits(queries, ofQueries) && fits(keys, ofKeys) &&
      tensor(queries).getElementType() == tensor(keys).getElementType())
    return success();
  auto found = [](Value numbers) {
    return numbers ? llvm::formatv("{0}", numbers.getType()).str() : std::string("none");
  };
  return emitOptionalError(
      location,
      "expects documents of queries and of keys, both of i32 or both of i64, that broadcast to [",
      ofQueries, "] and [", ofKeys, "], found ", found(queries), " and ", found(keys));
}

/// Types of y and lse; C1 to C6.
template <typename Adaptor>
FailureOr<SmallVector<Type, 2>> resultTypes(std::optional<Location> location, Adaptor adaptor) {
  auto q = tensor(adaptor.getQ()), k = tensor(adaptor.getK()), v = tensor(adaptor.getV());
  if (failed(checkFactors(location, q, k, v)))
    return failure();
  SmallVector<int64_t> scores(q.getShape());
  scores.back() = k.getShape().end()[-2];
  if (Value mask = adaptor.getMask()) { // C3
    auto broadcast = broadcastShapes(tensor(mask).getShape(), scores);
    const Type element = tensor(mask).getElementType();
    if (failed(broadcast) || *broadcast != scores ||
        !(element.isInteger(1) || isa<FloatType>(element)))
      return emitOptionalError(location, "expects a mask of i1 or floats that broadcasts to ",
                               RankedTensorType::get(scores, q.getElementType()), ", found ",
                               mask.getType());
  }
  if (std::optional<uint64_t> diagonal = adaptor.getDiagonal();
      diagonal && static_cast<int64_t>(*diagonal) < 0) // C4
    return emitOptionalError(location, "expects a diagonal of 0 or more, found ",
                             static_cast<int64_t>(*diagonal));
  if (std::optional<uint64_t> window = adaptor.getWindow()) { // C4
    const auto size = static_cast<int64_t>(*window);
    const int64_t last =
        q.getShape().end()[-2] + static_cast<int64_t>(adaptor.getDiagonal().value_or(0));
    if (!adaptor.getDiagonal() || size < 1 || last - size >= scores.back())
      return emitOptionalError(location, "expects a diagonal, and a window in which all of ",
                               q.getShape().end()[-2], " queries see one of ", scores.back(),
                               " keys, found ", size);
  }
  const double ratio = adaptor.getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1)) // C5
    return emitOptionalError(location, "expects a ratio from 0 to below 1, found ", ratio);
  if (Value seed = adaptor.getSeed(); seed && tensor(seed).getRank() != 0)
    return emitOptionalError(location, "expects a scalar seed, found ", seed.getType());
  if (failed(
          checkDocuments(location, scores, adaptor.getQueryDocuments(), adaptor.getKeyDocuments())))
    return failure();
  SmallVector<int64_t> y(q.getShape()), lse(q.getShape());
  y.back() = v.getShape().back();
  lse.back() = 2;
  const Type sums =
      q.getElementType().isF64() ? q.getElementType() : Type(Float32Type::get(q.getContext()));
  return SmallVector<Type, 2>{RankedTensorType::get(y, q.getElementType()),
                              RankedTensorType::get(lse, sums)};
}

/// The first key that a query sees.
template <typename Op> int64_t firstSeen(Op op, int64_t query) {
  if (!op.getWindow())
    return 0;
  return std::max<int64_t>(query + static_cast<int64_t>(*op.getDiagonal()) + 1 -
                               static_cast<int64_t>(*op.getWindow()),
                           0);
}

/// Multiplications and additions of one product of the scores' shape with `depth` summands each;
/// those that diagonal and window leave out do not count.
template <typename Op> double productFlops(Op op, int64_t depth) {
  auto q = tensor(op.getQ()), k = tensor(op.getK());
  const int64_t rows = q.getShape().end()[-2], keys = k.getShape().end()[-2];
  double seen = static_cast<double>(rows) * keys;
  if (auto diagonal = op.getDiagonal()) {
    seen = 0;
    for (int64_t row = 0; row < rows; ++row)
      seen +=
          std::min<int64_t>(keys, row + 1 + static_cast<int64_t>(*diagonal)) - firstSeen(op, row);
  }
  const double heads = static_cast<double>(q.getNumElements()) / (rows * q.getShape().back());
  return 2 * heads * seen * depth;
}

template <typename Op> int64_t depthOf(Op op) { return tensor(op.getQ()).getShape().back(); }
template <typename Op> int64_t widthOf(Op op) { return tensor(op.getV()).getShape().back(); }

} // namespace

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto results = resultTypes(location, adaptor);
  if (failed(results))
    return failure();
  types.append(results->begin(), results->end());
  return success();
}
bool AttentionOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
/// Results follow the operands: y may be low, lse never.
bool AttentionOp::takesLow(unsigned position) {
  return position < 3 || position == getNumOperands();
}
double AttentionOp::getFlops() {
  return productFlops(*this, depthOf(*this)) + productFlops(*this, widthOf(*this));
}

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                    Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto forward = resultTypes(location, adaptor);
  if (failed(forward))
    return failure();
  Type y = forward->front(), lse = forward->back();
  if (!compatibleTypes(adaptor.getY().getType(), y) ||
      !compatibleTypes(adaptor.getLse().getType(), lse) ||
      !compatibleTypes(adaptor.getDy().getType(), y)) // C7
    return emitOptionalError(location, "expects y and dy of type ", y, " and lse of type ", lse,
                             ", found ", adaptor.getY().getType(), ", ", adaptor.getDy().getType(),
                             " and ", adaptor.getLse().getType());
  for (Value factor : {adaptor.getQ(), adaptor.getK(), adaptor.getV()})
    types.push_back(withoutLayout(tensor(factor)));
  return success();
}
bool AttentionGradientOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool AttentionGradientOp::takesLow(unsigned position) {
  return position < 4 || position == 5 || position >= getNumOperands();
}
/// The scores again, then dP, dq, dk and dv.
double AttentionGradientOp::getFlops() {
  return 3 * productFlops(*this, depthOf(*this)) + 2 * productFlops(*this, widthOf(*this));
}

} // namespace stow
