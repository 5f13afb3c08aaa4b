// Types, constraints and costs of tables that are read by index.
#include "ir/StowEmbeddingOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowEmbeddingOps.cpp.inc"

void stow::addEmbeddingOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowEmbeddingOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {
RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult checkPadding(std::optional<Location> location, std::optional<uint64_t> padding,
                           int64_t rows) {
  if (!padding || *padding < static_cast<uint64_t>(rows))
    return success();
  return emitOptionalError(location, "expects a padding_index from 0 to ", rows - 1, ", found ",
                           static_cast<int64_t>(*padding));
}
} // namespace

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                            Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto table = tensor(adaptor.getTable());
  if (table.getRank() < 2) // C1
    return emitOptionalError(location, "expects a table of rank 2 or more, found ", table);
  if (failed(checkPadding(location, adaptor.getPaddingIndex(), table.getDimSize(0)))) // C2
    return failure();
  SmallVector<int64_t> shape(tensor(adaptor.getIndices()).getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}
bool EmbeddingOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double EmbeddingOp::getFlops() { return 0; }
/// The rows it reads, not the whole table.
int64_t EmbeddingOp::getBytesMoved() {
  return storedBytesOf(getIndices().getType()) + 2 * storedBytesOf(getY().getType());
}

LogicalResult EmbeddingGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto dy = tensor(adaptor.getDy()), indices = tensor(adaptor.getIndices());
  if (dy.getRank() <= indices.getRank() ||
      dy.getShape().take_front(indices.getRank()) != indices.getShape()) // C1
    return emitOptionalError(location,
                             "expects dy of the shape of the indices, then that of a row, "
                             "found ",
                             dy, " for indices ", indices);
  auto rows = static_cast<int64_t>(adaptor.getRows());
  if (rows < 1) // C2
    return emitOptionalError(location, "expects a positive number of rows, found ", rows);
  if (failed(checkPadding(location, adaptor.getPaddingIndex(), rows))) // C3
    return failure();
  SmallVector<int64_t> shape = {rows};
  llvm::append_range(shape, dy.getShape().drop_front(indices.getRank()));
  types.push_back(RankedTensorType::get(shape, dy.getElementType()));
  return success();
}
bool EmbeddingGradOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
double EmbeddingGradOp::getFlops() {
  return static_cast<double>(getDy().getType().getNumElements());
}
/// Zeros for the whole table; then every row of dy is read, and added to a row.
int64_t EmbeddingGradOp::getBytesMoved() {
  return storedBytesOf(getIndices().getType()) + 3 * storedBytesOf(getDy().getType()) +
         storedBytesOf(getDtable().getType());
}

LogicalResult EmbeddingGradAddOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                                   Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto gradient = tensor(adaptor.getGradient()), dy = tensor(adaptor.getDy()),
       indices = tensor(adaptor.getIndices());
  SmallVector<int64_t> shape(indices.getShape());
  if (gradient.getRank() > 0)
    llvm::append_range(shape, gradient.getShape().drop_front());
  if (gradient.getRank() < 2 || dy.getShape() != ArrayRef<int64_t>(shape)) // C1
    return emitOptionalError(location,
                             "expects dy of the shape of the indices, then that of a row of the "
                             "gradient, found ",
                             dy, " for indices ", indices, " and ", gradient);
  if (failed(checkPadding(location, adaptor.getPaddingIndex(), gradient.getDimSize(0)))) // C2
    return failure();
  types.assign({gradient, dy});
  return success();
}
bool EmbeddingGradAddOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
Sharings EmbeddingGradAddOp::getSharings() {
  Sharings sharings;
  for (unsigned i = 0; i < 2; ++i)
    if (getOperand(i).getType() == getResult(i).getType())
      sharings.push_back({SharingKind::Overwrite, i, i});
  return sharings;
}
double EmbeddingGradAddOp::getFlops() {
  return static_cast<double>(getGradient().getType().getNumElements()) +
         2.0 * static_cast<double>(getDy().getType().getNumElements());
}
/// The gradient is read and written once; so are the sums, which are then read and added.
int64_t EmbeddingGradAddOp::getBytesMoved() {
  return storedBytesOf(getIndices().getType()) + 5 * storedBytesOf(getDy().getType()) +
         2 * storedBytesOf(getDtable().getType());
}

} // namespace stow
