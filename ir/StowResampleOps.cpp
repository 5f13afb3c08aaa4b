// Types, constraints and costs of resampling, rearranging and sampling at computed places.
#include "ir/StowResampleOps.h"
#include "ir/OpGroup.h"
#include "ir/Resample.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowResampleOps.cpp.inc"

void stow::addResampleOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowResampleOps.cpp.inc"
      >(dialect);
}

namespace stow {

SparseRows SparseRows::transposed(int64_t columns) const {
  SparseRows result;
  result.starts.assign(columns + 1, 0);
  for (int64_t source : sources)
    ++result.starts[source + 1];
  for (int64_t column = 0; column < columns; ++column)
    result.starts[column + 1] += result.starts[column];
  result.sources.resize(sources.size());
  result.weights.resize(sources.size());
  std::vector<int64_t> next = result.starts;
  for (int64_t row = 0; row < rows(); ++row)
    for (int64_t k = starts[row]; k < starts[row + 1]; ++k) {
      int64_t place = next[sources[k]]++;
      result.sources[place] = row;
      result.weights[place] = weights[k];
    }
  return result;
}

bool SparseRows::isIdentity() const {
  if (static_cast<int64_t>(sources.size()) != rows())
    return false;
  for (int64_t row = 0; row < rows(); ++row)
    if (starts[row] != row || sources[row] != row || weights[row] != 1)
      return false;
  return true;
}

llvm::SmallVector<AxisRows> axisRowsOf(ResampleOp op) {
  llvm::SmallVector<AxisRows> matrices;
  auto starts = op.getStarts(), sources = op.getSources();
  auto weights = op.getWeights();
  for (auto [axis, extent] : llvm::zip_equal(op.getAxes(), op.getExtents())) {
    auto own = starts.take_front(extent + 1);
    starts = starts.drop_front(extent + 1);
    AxisRows &matrix = matrices.emplace_back();
    matrix.axis = axis;
    for (int64_t row = 0; row < extent; ++row) {
      for (int64_t k = own[row]; k < own[row + 1]; ++k)
        matrix.rows.add(sources[k], weights[k]);
      matrix.rows.endRow();
    }
  }
  return matrices;
}

void setAxisRows(ResampleOp::Properties &properties, Builder builder,
                 llvm::ArrayRef<AxisRows> matrices) {
  SmallVector<int64_t> axes, extents, starts, sources;
  SmallVector<double> weights;
  for (const AxisRows &matrix : matrices) {
    axes.push_back(matrix.axis);
    extents.push_back(matrix.rows.rows());
    int64_t first = sources.size();
    for (int64_t start : matrix.rows.starts)
      starts.push_back(first + start);
    llvm::append_range(sources, matrix.rows.sources);
    llvm::append_range(weights, matrix.rows.weights);
  }
  properties.axes = builder.getDenseI64ArrayAttr(axes);
  properties.extents = builder.getDenseI64ArrayAttr(extents);
  properties.starts = builder.getDenseI64ArrayAttr(starts);
  properties.sources = builder.getDenseI64ArrayAttr(sources);
  properties.weights = builder.getDenseF64ArrayAttr(weights);
}

LogicalResult ResampleOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                           Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = cast<RankedTensorType>(adaptor.getX().getType());
  auto axes = adaptor.getAxes(), extents = adaptor.getExtents(), starts = adaptor.getStarts();
  auto sources = adaptor.getSources();
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (axis <= last || axis >= x.getRank()) // C1
      return emitOptionalError(location, "expects ascending axes inside rank ", x.getRank(),
                               ", found ", llvm::interleaved_array(axes));
    last = axis;
  }
  int64_t places = 0;
  for (int64_t extent : extents)
    places += std::max<int64_t>(extent, 0) + 1;
  auto isPositive = [](int64_t extent) { return extent >= 1; };
  bool fits = axes.size() == extents.size() && llvm::all_of(extents, isPositive) &&
              static_cast<int64_t>(starts.size()) == places && llvm::is_sorted(starts) &&
              sources.size() == adaptor.getWeights().size();
  fits = fits && (starts.empty() ||
                  (starts.front() == 0 && starts.back() == static_cast<int64_t>(sources.size())));
  if (!fits) // C2
    return emitOptionalError(location, "expects positive extents, extent + 1 starts for each axis "
                                       "that ascend from 0 to the number of sources, and one "
                                       "weight per source");
  SmallVector<int64_t> shape(x.getShape());
  for (auto [axis, extent] : llvm::zip_equal(axes, extents)) {
    for (int64_t k = starts[0]; k < starts[extent]; ++k)
      if (sources[k] < 0 || sources[k] >= x.getDimSize(axis)) // C3
        return emitOptionalError(location, "source ", sources[k], " lies outside dimension ", axis,
                                 " of ", x);
    int64_t end = starts[extent];
    starts = starts.drop_front(extent + 1);
    if (!starts.empty() && starts.front() != end) // C2
      return emitOptionalError(location, "expects the starts of dimension ", axis,
                               " to end where the next axis' begin");
    shape[axis] = extent;
  }
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}
bool ResampleOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}

/// The axes are walked as nested loops.
double ResampleOp::getFlops() {
  double products = 2.0 * getY().getType().getNumElements();
  for (const AxisRows &matrix : axisRowsOf(*this))
    products *=
        static_cast<double>(matrix.rows.sources.size()) / static_cast<double>(matrix.rows.rows());
  return products;
}

//===-- Rearrange -----------------------------------------------------------------------------===//

namespace {

/// True when `factors`, taken in order, multiply to the extents of `shape`.
bool refines(ArrayRef<int64_t> factors, ArrayRef<int64_t> shape) {
  for (int64_t extent : shape) {
    int64_t product = 1;
    while (product < extent && !factors.empty()) {
      product *= factors.front();
      factors = factors.drop_front();
    }
    if (product != extent)
      return false;
  }
  return llvm::all_of(factors, [](int64_t factor) { return factor == 1; });
}

} // namespace

LogicalResult RearrangeOp::verify() {
  auto x = getX().getType(), y = getY().getType();
  auto isPositive = [](int64_t factor) { return factor >= 1; };
  if (!llvm::all_of(getFactors(), isPositive) || !refines(getFactors(), x.getShape())) // C1
    return emitOpError() << "expects factors of " << x << ", found "
                         << llvm::interleaved_array(getFactors());
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, getFactors().size()))) // C2
    return emitOpError() << "expects a permutation of " << getFactors().size() << " factors, found "
                         << llvm::interleaved_array(getPermutation());
  SmallVector<int64_t> permuted;
  for (int64_t from : getPermutation())
    permuted.push_back(getFactors()[from]);
  if (!refines(permuted, y.getShape()) || x.getElementType() != y.getElementType()) // C3
    return emitOpError() << "expects a result whose extents are products of "
                         << llvm::interleaved_array(permuted) << ", of x's element type, found "
                         << y;
  return success();
}

//===-- Sampling at computed places -----------------------------------------------------------===//

namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Constraints C1 to C3 of the sampling ops; `spatial` are the extents of the images.
LogicalResult checkSampling(std::optional<Location> location, ArrayRef<int64_t> spatial,
                            int64_t images, RankedTensorType grid, StringRef mode,
                            StringRef padding) {
  const int64_t rank = static_cast<int64_t>(spatial.size()) + 2;
  if (rank < 3 || rank > 5) // C1
    return emitOptionalError(location, "expects images of rank 3 to 5, found rank ", rank);
  if (grid.getRank() != rank || grid.getDimSize(0) != images ||
      grid.getShape().back() != rank - 2) // C2
    return emitOptionalError(location, "expects a grid of rank ", rank, " whose first extent is ",
                             images, " and whose last is ", rank - 2, ", found ", grid);
  if (mode != "linear" && mode != "nearest") // C3
    return emitOptionalError(location, "expects mode linear or nearest, found ", mode);
  if (padding != "zeros" && padding != "border" && padding != "reflection") // C3
    return emitOptionalError(location, "expects padding zeros, border or reflection, found ",
                             padding);
  return success();
}

/// [N, channels, places...]
SmallVector<int64_t> sampledShape(RankedTensorType grid, int64_t channels) {
  SmallVector<int64_t> shape(grid.getShape().drop_back());
  shape.insert(shape.begin() + 1, channels);
  return shape;
}

/// The weighted elements that y consists of: 2 neighbours in each dimension.
double sampledElements(Value y) {
  return static_cast<double>(int64_t(1) << (tensor(y).getRank() - 2)) * tensor(y).getNumElements();
}

} // namespace

LogicalResult GridSampleOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX()), grid = tensor(adaptor.getGrid());
  if (x.getRank() < 3) // C1
    return emitOptionalError(location, "expects images of rank 3 to 5, found rank ", x.getRank());
  if (failed(checkSampling(location, x.getShape().drop_front(2), x.getDimSize(0), grid,
                           adaptor.getMode(), adaptor.getPadding())))
    return failure();
  types.push_back(RankedTensorType::get(sampledShape(grid, x.getDimSize(1)), x.getElementType()));
  return success();
}
bool GridSampleOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
/// 16 bits do not tell the places of a grid apart.
bool GridSampleOp::takesLow(unsigned position) { return position != 1; }
double GridSampleOp::getFlops() { return 2 * sampledElements(getY()); }

LogicalResult GridSampleGradInputOp::inferReturnTypes(MLIRContext *,
                                                      std::optional<Location> location,
                                                      Adaptor adaptor,
                                                      SmallVectorImpl<Type> &types) {
  auto dy = tensor(adaptor.getDy()), grid = tensor(adaptor.getGrid());
  ArrayRef<int64_t> extents = adaptor.getExtents();
  if (failed(checkSampling(location, extents, grid.getRank() > 0 ? grid.getDimSize(0) : 0, grid,
                           adaptor.getMode(), adaptor.getPadding())))
    return failure();
  if (dy.getRank() != grid.getRank() ||
      dy.getShape() != ArrayRef<int64_t>(sampledShape(grid, dy.getDimSize(1)))) // C4
    return emitOptionalError(location, "expects dy with the places of ", grid, ", found ", dy);
  if (!llvm::all_of(extents, [](int64_t extent) { return extent >= 1; })) // C5
    return emitOptionalError(location, "expects positive extents, found ",
                             llvm::interleaved_array(extents));
  SmallVector<int64_t> shape(dy.getShape().take_front(2));
  llvm::append_range(shape, extents);
  types.push_back(RankedTensorType::get(shape, dy.getElementType()));
  return success();
}
bool GridSampleGradInputOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool GridSampleGradInputOp::takesLow(unsigned position) { return position == 0; }
double GridSampleGradInputOp::getFlops() { return 2 * sampledElements(getDy()); }

LogicalResult GridSampleGradGridOp::inferReturnTypes(MLIRContext *,
                                                     std::optional<Location> location,
                                                     Adaptor adaptor,
                                                     SmallVectorImpl<Type> &types) {
  auto dy = tensor(adaptor.getDy()), x = tensor(adaptor.getX()), grid = tensor(adaptor.getGrid());
  if (x.getRank() < 3) // C1
    return emitOptionalError(location, "expects images of rank 3 to 5, found rank ", x.getRank());
  if (failed(checkSampling(location, x.getShape().drop_front(2), x.getDimSize(0), grid, "linear",
                           adaptor.getPadding())))
    return failure();
  if (dy.getShape() != ArrayRef<int64_t>(sampledShape(grid, x.getDimSize(1)))) // C4
    return emitOptionalError(location, "expects dy with the channels of ", x, " and the places of ",
                             grid, ", found ", dy);
  types.push_back(withoutLayout(grid));
  return success();
}
bool GridSampleGradGridOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return compatibleTypes(left, right);
}
bool GridSampleGradGridOp::takesLow(unsigned position) { return position < 2; }
double GridSampleGradGridOp::getFlops() {
  return 2 * sampledElements(getDy()) * (tensor(getDy()).getRank() - 2);
}

} // namespace stow
