// Data movement: every such op copies boxes, and pad fills the slabs around one.
#include "codegen/kernels/device/DeviceTiles.h"
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowIndexOps.h"
#include "ir/StowResampleOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
namespace {

using Strides = SmallVector<int64_t>;

/// A box of the result: where it starts there, and where its elements come from.
struct Box {
  SmallVector<int64_t> extents;
  unsigned result; ///< buffer written
  Strides resultStrides;
  int64_t resultOffset = 0;
  std::optional<unsigned> source; ///< buffer read; none: filled with `fill`
  Strides sourceStrides;
  int64_t sourceOffset = 0;
  double fill = 0;
  bool isAlone = false; ///< the kernel copies no other box
};

/// The dimension along which the source is contiguous, when the lane axis is not: such copies go
/// tile by tile, so that every cache line is read and written once.
std::optional<size_t> tiledDim(const Space &space, const Lanes &lanes) {
  int64_t edge = lanes.tileEdge();
  const Space::Dim &lane = space.dims.back();
  if (edge == 0 || lane.strides[0] != 1 || lane.strides[1] <= 1 || lane.extent < edge / 2)
    return std::nullopt;
  for (size_t i = 0; i + 1 < space.dims.size(); ++i)
    if (space.dims[i].strides[1] == 1 && space.dims[i].extent >= edge / 2)
      return i;
  return std::nullopt;
}

/// One tile: loads along the source's contiguous dimension, stores along the result's. `rows` and
/// `columns` say how much of the tile exists; nothing: all of it.
void emitTile(const Box &box, KernelFrame &frame, ArrayRef<Value> bases, int64_t sourceStep,
              int64_t resultStep, Value rows, Value columns) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  int64_t edge = lanes.tileEdge();
  Value zero = lanes.index(0);
  // Line `i` of the tile: `length` elements when i < count, else none.
  auto line = [&](int64_t i, Value count, Value length) {
    if (!count)
      return Chunk(builder, location, zero, edge);
    Value exists =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, lanes.index(i), count);
    Value part = arith::SelectOp::create(builder, location, exists, length, zero);
    auto type = VectorType::get({edge}, builder.getI1Type());
    return Chunk(builder, location, zero, edge,
                 vector::CreateMaskOp::create(builder, location, type, ValueRange{part}));
  };
  auto at = [&](Value base, int64_t offset) {
    return arith::AddIOp::create(builder, location, base, lanes.index(offset)).getResult();
  };
  SmallVector<Value> tile;
  for (int64_t i = 0; i < edge; ++i)
    tile.push_back(
        line(i, columns, rows).load(frame.buffers[*box.source], {at(bases[1], i * sourceStep), 1}));
  tile = lanes.transposeTile(tile);
  for (int64_t i = 0; i < edge; ++i)
    line(i, rows, columns)
        .store(tile[i], frame.buffers[box.result], {at(bases[0], i * resultStep), 1});
}

void emitTiles(const Box &box, KernelFrame &frame, Space space, size_t dim) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  int64_t edge = lanes.tileEdge();
  space.moveInnermost(dim);
  Space::Dim row = space.takeInnermost(), lane = space.takeInnermost();
  // Dimensions that count tiles; accesses 2 and 3 are the tile's first row and column.
  auto tiles = [&](const Space::Dim &whole, int64_t first, int64_t second) {
    SmallVector<int64_t> strides;
    for (int64_t stride : whole.strides)
      strides.push_back(stride * edge);
    strides.append({first, second});
    return Space::Dim{(whole.extent + edge - 1) / edge, strides};
  };
  for (Space::Dim &outer : space.dims)
    outer.strides.append({0, 0});
  space.offsets.append({0, 0});
  space.dims.push_back(tiles(row, edge, 0));
  space.dims.push_back(tiles(lane, 0, edge));
  Space::Dim single{1, {0, 0, 0, 0}};
  bool whole = row.extent % edge == 0 && lane.extent % edge == 0;
  forRows(frame, space, single, {std::nullopt, edge * edge}, [&](const RowPlace &place) {
    auto tile = [&](Value rows, Value columns) {
      emitTile(box, frame, place.bases, lane.strides[1], row.strides[0], rows, columns);
    };
    if (whole)
      return tile({}, {});
    auto left = [&](int64_t extent, Value start) {
      Value rest = arith::SubIOp::create(builder, location, lanes.index(extent), start);
      return arith::MinUIOp::create(builder, location, rest, lanes.index(edge)).getResult();
    };
    tile(left(row.extent, place.bases[2]), left(lane.extent, place.bases[3]));
  });
}

Value fillOf(const Box &box, const Buffer &to, Lanes &lanes) {
  OpBuilder &builder = lanes.getBuilder();
  return arith::ConstantOp::create(
      builder, lanes.getLocation(),
      isa<FloatType>(to.element)
          ? TypedAttr(builder.getFloatAttr(to.element, box.fill))
          : TypedAttr(builder.getIntegerAttr(to.element, static_cast<int64_t>(box.fill))));
}

/// Accesses of `space`: the result, the source.
void emitDeviceBox(const Box &box, KernelFrame &frame, Space space) {
  if (box.source && emitTransposingCopy(frame, space, *box.source, box.result))
    return;
  for (Space::Dim &dim : space.dims)
    std::swap(dim.strides[0], dim.strides[1]); // what is read comes first
  std::swap(space.offsets[0], space.offsets[1]);
  if (!box.source) {
    for (Space::Dim &dim : space.dims)
      dim.strides.erase(dim.strides.begin());
    space.offsets.erase(space.offsets.begin());
  }
  SmallVector<unsigned> buffers;
  if (box.source)
    buffers.push_back(*box.source);
  buffers.push_back(box.result);
  unsigned result = buffers.size() - 1;
  VectorWalk walk(frame, space, buffers, result);
  auto copy = [&](ArrayRef<VectorSpot> spots) {
    SmallVector<Value> values;
    for (const VectorSpot &spot : spots)
      values.push_back(box.source ? spot.load(0)
                                  : fillOf(box, frame.buffers[box.result], frame.lanes));
    for (auto [spot, value] : llvm::zip_equal(spots, values))
      spot.store(value, result);
  };
  box.isAlone ? walk.runAlone(copy) : walk.run(copy);
}

void emitBox(const Box &box, KernelFrame &frame) {
  Strides sources = box.source ? box.sourceStrides : Strides(box.extents.size(), 0);
  Space space = makeSpace(box.extents, {box.resultStrides, sources});
  if (space.elements() == 0)
    return;
  space.offsets = {box.resultOffset, box.sourceOffset};
  space.collapse();
  if (frame.target == KernelTarget::Device)
    return emitDeviceBox(box, frame, space);
  if (auto dim = box.source ? tiledDim(space, frame.lanes) : std::nullopt)
    return emitTiles(box, frame, space, *dim);
  Space::Dim lane = space.takeInnermost();
  const Buffer &to = frame.buffers[box.result];
  Lanes &lanes = frame.lanes;
  int64_t width = lanes.chunkLanes(widestBits(to));
  forRows(frame, space, lane, {}, [&](const RowPlace &place) {
    lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      Value value = box.source
                        ? chunk.load(frame.buffers[*box.source], {place.bases[1], lane.strides[1]})
                        : fillOf(box, to, lanes);
      chunk.store(value, to, {place.bases[0], lane.strides[0]});
    });
  });
}

int64_t positionOf(ArrayRef<int64_t> start, ArrayRef<int64_t> strides) {
  int64_t position = 0;
  for (auto [at, stride] : llvm::zip_equal(start, strides))
    position += at * stride;
  return position;
}

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

void emitConcat(ConcatOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  unsigned result = op->getNumOperands();
  int64_t rank = shapeOf(op.getY()).size(), axis = op.getAxis(), start = 0;
  axis += axis < 0 ? rank : 0;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Box box;
    box.extents = SmallVector<int64_t>(shapeOf(input));
    if (op.isInside(i)) {
      start += box.extents[axis];
      continue;
    }
    box.result = result;
    box.resultStrides = strides[result];
    box.resultOffset = start * strides[result][axis];
    box.source = i;
    box.sourceStrides = strides[i];
    start += box.extents[axis];
    emitBox(box, frame);
  }
}

/// The interior, then two slabs per padded dimension; a slab spans the dimensions before its own
/// inside the interior and those after it whole, so that no element is written twice.
void emitPad(PadOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  SmallVector<int64_t> inner(shapeOf(op.getX())), outer(shapeOf(op.getY()));
  auto before = op.getBefore(), after = op.getAfter();
  Box interior{inner, 1, strides[1], positionOf(before, strides[1]), 0, strides[0], 0, 0};
  emitBox(interior, frame);
  SmallVector<int64_t> start(inner.size(), 0), extents(outer);
  for (size_t dim = 0; dim < inner.size(); ++dim) {
    for (bool low : {true, false}) {
      auto slabStart = start, slab = extents;
      slab[dim] = low ? before[dim] : after[dim];
      slabStart[dim] = low ? 0 : before[dim] + inner[dim];
      Box fill{slab,         1,  strides[1], positionOf(slabStart, strides[1]),
               std::nullopt, {}, 0,          op.getValue().convertToDouble()};
      emitBox(fill, frame);
    }
    start[dim] = before[dim];
    extents[dim] = inner[dim];
  }
}

/// Positions start + i * step, i < count, of a dimension, walked forwards.
struct Progression {
  int64_t start, count, step;
};

/// The elements of x, then the zeros around and between them: per dimension those before its first
/// position, behind its last one, and for each remainder of the step those between. A box of zeros
/// spans the dimensions before its own at their positions and those after it whole, so that no
/// element is written twice.
void emitStridedPad(StridedPadOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  ArrayRef<int64_t> inner = shapeOf(op.getX()), outer = shapeOf(op.getY());
  Box data{SmallVector<int64_t>(inner), 1, {}, 0, 0, {}, 0, 0};
  SmallVector<Progression> taken;
  for (auto [dim, extent] : llvm::enumerate(inner)) {
    int64_t start = op.getStarts()[dim], step = op.getSteps()[dim], from = strides[0][dim];
    if (step < 0) { // walked the other way on both sides
      start += (extent - 1) * step;
      data.sourceOffset += (extent - 1) * from;
      from = -from;
      step = -step;
    }
    taken.push_back({start, extent, step});
    data.sourceStrides.push_back(from);
    data.resultStrides.push_back(strides[1][dim] * step);
    data.resultOffset += strides[1][dim] * start;
  }
  emitBox(data, frame);
  Box zeros{SmallVector<int64_t>(outer), 1, strides[1], 0, std::nullopt, {}, 0, 0};
  for (auto [dim, own] : llvm::enumerate(taken)) {
    int64_t stride = strides[1][dim], last = own.start + (own.count - 1) * own.step;
    auto fill = [&](Progression part) {
      Box box = zeros;
      box.extents[dim] = part.count;
      box.resultStrides[dim] = stride * part.step;
      box.resultOffset += stride * part.start;
      emitBox(box, frame);
    };
    fill({0, own.start, 1});
    fill({last + 1, outer[dim] - last - 1, 1});
    for (int64_t between = 1; between < own.step; ++between)
      fill({own.start + between, own.count - 1, own.step});
    zeros.extents[dim] = own.count;
    zeros.resultStrides[dim] = stride * own.step;
    zeros.resultOffset += stride * own.start;
  }
}

/// Strides of a tensor's factors: each factor steps over those after it in its dimension.
Strides factorStrides(ArrayRef<int64_t> factors, ArrayRef<int64_t> shape,
                      ArrayRef<int64_t> strides) {
  Strides result;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides)) {
    int64_t left = extent;
    while (left > 1) {
      left /= factors[result.size()];
      result.push_back(left * stride);
    }
  }
  result.resize(factors.size(), 0); // factors of 1 that no dimension needs
  return result;
}

Box rearranged(RearrangeOp op, ArrayRef<Strides> strides) {
  Strides sources = factorStrides(op.getFactors(), shapeOf(op.getX()), strides[0]);
  Box box;
  for (int64_t from : op.getPermutation()) {
    box.extents.push_back(op.getFactors()[from]);
    box.sourceStrides.push_back(sources[from]);
  }
  box.result = 1;
  box.resultStrides = factorStrides(box.extents, shapeOf(op.getY()), strides[1]);
  box.source = 0;
  box.isAlone = true;
  return box;
}

} // namespace

static LogicalResult emitCopy(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    emitConcat(concat, *strides, frame);
    return success();
  }
  if (auto pad = dyn_cast<PadOp>(op)) {
    emitPad(pad, *strides, frame);
    return success();
  }
  if (auto pad = dyn_cast<StridedPadOp>(op)) {
    emitStridedPad(pad, *strides, frame);
    return success();
  }
  if (auto rearrange = dyn_cast<RearrangeOp>(op)) {
    emitBox(rearranged(rearrange, *strides), frame);
    return success();
  }
  Box box;
  box.extents = SmallVector<int64_t>(shapeOf(op->getResult(0)));
  box.result = 1;
  box.resultStrides = (*strides)[1];
  box.source = 0;
  box.isAlone = true;
  if (auto slice = dyn_cast<SliceOp>(op)) {
    box.sourceStrides = (*strides)[0];
    box.sourceOffset = positionOf(slice.getStarts(), box.sourceStrides);
  } else if (auto strided = dyn_cast<StridedSliceOp>(op)) {
    for (auto [stride, step] : llvm::zip_equal((*strides)[0], strided.getSteps()))
      box.sourceStrides.push_back(stride * step);
    box.sourceOffset = positionOf(strided.getStarts(), (*strides)[0]);
  } else if (isa<ReorderOp>(op)) {
    box.sourceStrides = (*strides)[0];
  } else {
    for (int64_t dim : cast<TransposeOp>(op).getPermutation())
      box.sourceStrides.push_back((*strides)[0][dim]);
  }
  emitBox(box, frame);
  return success();
}

/// Tensors without blocks: what strides walk.
static bool isStrided(Operation *reorder) {
  return llvm::all_of(
      llvm::concat<const Type>(reorder->getOperandTypes(), reorder->getResultTypes()),
      [](Type type) { return stridesOf(cast<RankedTensorType>(type)).has_value(); });
}

/// A transpose that is a view of a whole tensor would have to run for one with gaps.
static bool transposesPart(Operation *op, unsigned, RankedTensorType) { return !viewedOperand(op); }

void addCopyKernels(KernelTable &table) {
  table.add<ConcatOp, SliceOp, PadOp, RearrangeOp>(emitCopy, {.takesPart = takesAnyPart});
  table.add<TransposeOp>(emitCopy, {.takesPart = transposesPart});
  table.add<StridedSliceOp, StridedPadOp>(emitCopy);
  table.add<ReorderOp>(emitCopy, {.takes = isStrided});
}

} // namespace stow
