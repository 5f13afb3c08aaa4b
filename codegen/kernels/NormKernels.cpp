// Normalization: rows, channels and planes that are folded (see FoldKernels.cpp).
#include "codegen/kernels/Fold.h"
#include "ir/StowNormOps.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace stow {

//===-- Rows: layer and root-mean-square normalization ----------------------------------------===//

namespace {

/// How a tensor of row normalization lies over x: as x, one number per row, or one row for all.
enum class Coverage { Full, PerRow, Vector };

SmallVector<Coverage> coveragesOf(Operation *op) {
  using enum Coverage;
  if (isa<LayerNormGradOp>(op))
    return {Full, Full, PerRow, PerRow, Vector, Full};
  if (isa<LayerNormScaleGradOp>(op))
    return {Full, Full, PerRow, PerRow, Vector, Vector};
  if (isa<RmsNormOp>(op))
    return {Full, Vector, Full, PerRow};
  if (isa<RmsNormGradOp>(op))
    return {Full, Full, PerRow, Vector, Full};
  if (isa<RmsNormScaleGradOp>(op))
    return {Full, Full, PerRow, Vector};
  SmallVector<Coverage> coverages(op->getNumOperands(), Vector);
  coverages.front() = Full;
  coverages.append({Full, PerRow, PerRow});
  return coverages;
}

/// Strides over the dimensions of x.
SmallVector<Strides> spread(ArrayRef<Strides> tensors, ArrayRef<Coverage> coverages, int64_t rank) {
  SmallVector<Strides> accesses;
  for (auto [tensor, coverage] : llvm::zip_equal(tensors, coverages)) {
    Strides access = tensor;
    if (coverage == Coverage::PerRow)
      access.push_back(0);
    else if (coverage == Coverage::Vector)
      access.insert(access.begin(), rank - 1, 0);
    accesses.push_back(access);
  }
  return accesses;
}

/// Accesses: x, scale, bias where there is one, y, mean, rstd.
void layerNormRow(Row &row, Type element, double epsilon, double count, bool hasBias) {
  Value mean =
      (row.term(row.fold({sumOf(element)},
                         [](const Cell &cell) -> SmallVector<Term> { return {cell.load(0)}; })[0]) /
       count)
          .get();
  Value squares = row.fold({sumOf(element)}, [&](const Cell &cell) -> SmallVector<Term> {
    Term centred = cell.load(0) - cell.term(mean);
    return {centred * centred};
  })[0];
  Value rstd = (1.0 / (row.term(squares) / count + epsilon).unary<math::SqrtOp>()).get();
  unsigned y = hasBias ? 3 : 2;
  row.each([&](const Cell &cell) {
    Term value = (cell.load(0) - cell.term(mean)) * cell.term(rstd) * cell.load(1);
    cell.store(hasBias ? value + cell.load(2) : value, y);
  });
  row.store(row.term(mean), y + 1);
  row.store(row.term(rstd), y + 2);
}

/// Accesses: dy, x, mean, rstd, scale, dx.
void layerNormGradRow(Row &row, Type element, double count) {
  Value mean = row.load(2).get(), rstd = row.load(3).get();
  auto normal = [&](const Cell &cell) {
    return (cell.load(1) - cell.term(mean)) * cell.term(rstd);
  };
  auto sums = row.fold({sumOf(element), sumOf(element)}, [&](const Cell &cell) {
    Term gradient = cell.load(0) * cell.load(4);
    return SmallVector<Term>{gradient, gradient * normal(cell)};
  });
  Value level = (row.term(sums[0]) / count).get(), slope = (row.term(sums[1]) / count).get();
  row.each([&](const Cell &cell) {
    Term gradient = cell.load(0) * cell.load(4);
    cell.store((gradient - cell.term(level) - normal(cell) * cell.term(slope)) * cell.term(rstd),
               5);
  });
}

/// Accesses: dy, x, mean, rstd, dscale, dbias. The axis runs over the rows of x.
void layerNormScaleGradColumn(Row &column, Type element) {
  auto sums = column.fold({sumOf(element), sumOf(element)}, [](const Cell &cell) {
    Term dy = cell.load(0);
    return SmallVector<Term>{dy * ((cell.load(1) - cell.load(2)) * cell.load(3)), dy};
  });
  column.store(column.term(sums[0]), 4);
  column.store(column.term(sums[1]), 5);
}

/// Accesses: x, scale, y, rstd.
void rmsNormRow(Row &row, Type element, double epsilon, double count) {
  Value squares = row.fold({sumOf(element)}, [](const Cell &cell) -> SmallVector<Term> {
    Term x = cell.load(0);
    return {x * x};
  })[0];
  Value rstd = (1.0 / (row.term(squares) / count + epsilon).unary<math::SqrtOp>()).get();
  row.each([&](const Cell &cell) { cell.store(cell.load(0) * cell.term(rstd) * cell.load(1), 2); });
  row.store(row.term(rstd), 3);
}

/// Accesses: dy, x, rstd, scale, dx.
void rmsNormGradRow(Row &row, Type element, double count) {
  Value rstd = row.load(2).get();
  Value sum = row.fold({sumOf(element)}, [&](const Cell &cell) -> SmallVector<Term> {
    return {cell.load(0) * cell.load(3) * (cell.load(1) * cell.term(rstd))};
  })[0];
  Value slope = (row.term(sum) / count).get();
  row.each([&](const Cell &cell) {
    Term gradient = cell.load(0) * cell.load(3), normal = cell.load(1) * cell.term(rstd);
    cell.store((gradient - normal * cell.term(slope)) * cell.term(rstd), 4);
  });
}

/// Accesses: dy, x, rstd, dscale. The axis runs over the rows of x.
void rmsNormScaleGradColumn(Row &column, Type element) {
  Value sum = column.fold({sumOf(element)}, [](const Cell &cell) -> SmallVector<Term> {
    return {cell.load(0) * (cell.load(1) * cell.load(2))};
  })[0];
  column.store(column.term(sum), 3);
}

} // namespace

static LogicalResult emitRowNorm(Operation *op, KernelFrame &frame) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  int64_t rank = type.getRank();
  auto accesses = spread(*strides, coveragesOf(op), rank);
  Type element = computeType(type);
  if (isa<LayerNormScaleGradOp, RmsNormScaleGradOp>(op)) {
    auto rows = llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
    auto [kept, axis] = splitSpace(type, rows, accesses);
    forFoldedRows(frame, kept, axis, [&](Row &row) {
      if (isa<LayerNormScaleGradOp>(op))
        layerNormScaleGradColumn(row, element);
      else
        rmsNormScaleGradColumn(row, element);
    });
    return success();
  }
  auto [kept, axis] = splitSpace(type, {rank - 1}, accesses);
  auto count = static_cast<double>(type.getShape().back());
  forFoldedRows(frame, kept, axis, [&](Row &row) {
    if (auto norm = dyn_cast<LayerNormOp>(op))
      layerNormRow(row, element, norm.getEpsilon().convertToDouble(), count,
                   norm.getBias() != nullptr);
    else if (auto rms = dyn_cast<RmsNormOp>(op))
      rmsNormRow(row, element, rms.getEpsilon().convertToDouble(), count);
    else if (isa<RmsNormGradOp>(op))
      rmsNormGradRow(row, element, count);
    else
      layerNormGradRow(row, element, count);
  });
  return success();
}

//===-- Channels and planes -------------------------------------------------------------------===//

namespace {

/// Accesses: x, mean, variance. The axis is all that a channel or plane has.
void momentsOfChannel(Row &channel, Type element, double count) {
  Value mean = (channel.term(channel.fold(
                    {sumOf(element)},
                    [](const Cell &cell) -> SmallVector<Term> { return {cell.load(0)}; })[0]) /
                count)
                   .get();
  Value squares = channel.fold({sumOf(element)}, [&](const Cell &cell) -> SmallVector<Term> {
    Term centred = cell.load(0) - cell.term(mean);
    return {centred * centred};
  })[0];
  channel.store(channel.term(mean), 1);
  channel.store(channel.term(squares) / count, 2);
}

/// Accesses: dy, x, mean, variance, dscale, dbias.
void scaleGradOfChannel(Row &channel, Type element, double epsilon) {
  Value mean = channel.load(2).get();
  auto sums = channel.fold({sumOf(element), sumOf(element)}, [&](const Cell &cell) {
    Term dy = cell.load(0);
    return SmallVector<Term>{dy * (cell.load(1) - cell.term(mean)), dy};
  });
  Term deviation = (channel.load(3) + epsilon).unary<math::SqrtOp>();
  channel.store(channel.term(sums[0]) / deviation, 4);
  channel.store(channel.term(sums[1]), 5);
}

/// Accesses: dy, x, mean, product, sum.
void productsOfPlane(Row &plane, Type element) {
  Value mean = plane.load(2).get();
  auto sums = plane.fold({sumOf(element), sumOf(element)}, [&](const Cell &cell) {
    Term dy = cell.load(0);
    return SmallVector<Term>{dy * (cell.load(1) - cell.term(mean)), dy};
  });
  plane.store(plane.term(sums[0]), 3);
  plane.store(plane.term(sums[1]), 4);
}

} // namespace

static LogicalResult emitChannelNorm(Operation *op, KernelFrame &frame) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  bool perPlane = isa<PlaneMomentsOp, PlaneProductsOp>(op);
  SmallVector<Strides> accesses;
  for (const Strides &tensor : *strides) {
    accesses.push_back(tensor);
    if (perPlane && tensor.size() == 2) { // one number a plane
      accesses.back().resize(type.getRank(), 0);
    } else if (tensor.size() == 1) { // one number a channel
      accesses.back().assign(type.getRank(), 0);
      accesses.back()[1] = tensor[0];
    }
  }
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, type.getRank()));
  if (!perPlane)
    axes.push_back(0);
  auto [kept, axis] = splitSpace(type, axes, accesses);
  double count = static_cast<double>(axis.elements());
  Type element = computeType(type);
  forFoldedRows(frame, kept, axis, [&](Row &channel) {
    if (auto gradient = dyn_cast<BatchNormScaleGradOp>(op))
      scaleGradOfChannel(channel, element, gradient.getEpsilon().convertToDouble());
    else if (isa<PlaneProductsOp>(op))
      productsOfPlane(channel, element);
    else
      momentsOfChannel(channel, element, count);
  });
  return success();
}

/// Folds all dimensions but the channels. Gaps between channels and what is inside of them would
/// keep apart dimensions that are folded as one (see reductions).
static bool foldsAroundChannels(Operation *, unsigned, RankedTensorType part) {
  const Layout layout = layoutOf(part);
  if (part.getRank() < 2 || !layout.pitch)
    return true;
  return layout.pitch->dim == 1 && !layout.order.empty() && layout.order.back() == 1;
}

void addNormKernels(KernelTable &table) {
  table.add<LayerNormOp, LayerNormGradOp, LayerNormScaleGradOp, RmsNormOp, RmsNormGradOp,
            RmsNormScaleGradOp>(emitRowNorm);
  table.add<ChannelMomentsOp, BatchNormScaleGradOp, PlaneMomentsOp, PlaneProductsOp>(
      emitChannelNorm, {.takesPart = foldsAroundChannels});
}

} // namespace stow
