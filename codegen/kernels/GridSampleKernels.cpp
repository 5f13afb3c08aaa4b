// grid_sample and its gradients: weighted elements of images at computed places.
//
//   place of the grid --> position along each dimension --> padding --> 2 neighbours, weights
//
// What a place reads is worked out once for all channels. The result and the gradient of the grid
// walk places with the lanes and channels in sequence, elements of x gathered lane by lane. The
// gradient of the images adds into elements that several places share: there lanes are channels,
// and each image walks its places in their order.
#include "codegen/kernels/Fold.h"
#include "ir/StowResampleOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace stow {
namespace {

/// What the three ops say of places and images.
struct Sampling {
  SmallVector<int64_t> extents; ///< of the images, outermost first
  SmallVector<int64_t> strides; ///< of the images, in elements
  int64_t coordinateStride = 1; ///< of the grid's last dimension
  bool isNearest = false, alignsCorners = false;
  StringRef padding;
};

/// An element that a place reads.
struct Corner {
  Term offset; ///< i64, from the image's first element; 0 where there is no such element
  Term valid;  ///< i1
  Term weight;
  SmallVector<Term> slopes; ///< derivatives of the weight by the coordinates, in the grid's order
};

/// A position along one dimension, in elements, and its derivative by the coordinate.
struct Position {
  Term at, slope;
};

/// The position moved onto the image, and which way it moves then.
Position clipped(Position p, int64_t extent) {
  Term zero = p.at.constant(0), last = p.at.constant(static_cast<double>(extent - 1));
  Term inside = (p.at > zero) & (p.at < last);
  return {p.at.maximum(zero).minimum(last), inside.choose(p.slope, zero)};
}

/// The position reflected at both borders as often as it takes.
Position reflected(Position p, double low, double span) {
  if (span == 0)
    return {p.at * 0.0, p.slope * 0.0};
  Term from = p.at - low;
  Term distance = from.unary<math::AbsFOp>();
  Term flips = (distance / span).unary<math::FloorOp>();
  Term rest = distance - flips * span;
  Term isOdd = (flips - (flips / 2.0).unary<math::FloorOp>() * 2.0) > 0.5;
  Term slope = (from < 0.0).choose(-p.slope, p.slope);
  return {isOdd.choose(span - rest, rest) + low, isOdd.choose(-slope, slope)};
}

Position positionOf(Term coordinate, int64_t extent, const Sampling &sampling) {
  const auto size = static_cast<double>(extent);
  const bool aligns = sampling.alignsCorners;
  Position p{aligns ? (coordinate + 1.0) / 2.0 * (size - 1)
                    : ((coordinate + 1.0) * size - 1.0) / 2.0,
             coordinate.constant((aligns ? size - 1 : size) / 2)};
  if (sampling.padding == "reflection")
    p = reflected(p, aligns ? 0 : -0.5, aligns ? size - 1 : size);
  if (sampling.padding != "zeros")
    return clipped(p, extent);
  // Far outside is as outside as next to the image, and its neighbours have numbers.
  return {p.at.maximum(p.at.constant(-2)).minimum(p.at.constant(size + 1)), p.slope};
}

/// The neighbours of a position along one dimension, as corners of an image of that dimension alone.
SmallVector<Corner> neighbours(Position p, int64_t extent, int64_t stride, bool isNearest) {
  auto corner = [&](Term index, Term weight, Term slope) {
    Term valid = (index >= 0.0) & (index < static_cast<double>(extent));
    Term offset = valid.choose(index, index.constant(0)).as(index.getBuilder().getI64Type());
    return Corner{offset * offset.constantInt(stride), valid, weight, {slope}};
  };
  if (isNearest) {
    Term one = p.at.isNan().choose(p.at, p.at.constant(1));
    return {corner(p.at.unary<math::RoundEvenOp>(), one, p.at.constant(0))};
  }
  Term low = p.at.unary<math::FloorOp>();
  Term share = p.at - low;
  return {corner(low, 1.0 - share, -p.slope), corner(low + 1.0, share, p.slope)};
}

/// Integer arithmetic of addresses.
struct Math {
  Lanes &lanes;

  Value plus(Value a, Value b) {
    return arith::AddIOp::create(lanes.getBuilder(), lanes.getLocation(), a, b);
  }
  Value times(Value a, int64_t factor) {
    return arith::MulIOp::create(lanes.getBuilder(), lanes.getLocation(), a, lanes.index(factor));
  }
  Access moved(Access access, Value position, int64_t stride) {
    return {plus(access.base, times(position, stride)), access.stride};
  }
};

/// The elements that the places of `chunk` read; `first` is where the first coordinate of each lies.
SmallVector<Corner> cornersOf(Lanes &lanes, const Chunk &chunk, const Buffer &grid, Access first,
                              const Sampling &sampling) {
  SmallVector<Corner> corners;
  const size_t dims = sampling.extents.size();
  for (size_t k = 0; k < dims; ++k) { // the innermost dimension first, as the grid has them
    const int64_t extent = sampling.extents[dims - 1 - k];
    Access access = Math{lanes}.moved(first, lanes.index(k), sampling.coordinateStride);
    Position p = positionOf(chunk.term(chunk.load(grid, access)).widened(), extent, sampling);
    SmallVector<Corner> along =
        neighbours(p, extent, sampling.strides[dims - 1 - k], sampling.isNearest);
    if (corners.empty()) {
      corners = std::move(along);
      continue;
    }
    SmallVector<Corner> joined;
    for (const Corner &other : along)
      for (const Corner &known : corners) {
        Corner corner{known.offset + other.offset,
                      known.valid & other.valid,
                      known.weight * other.weight,
                      {}};
        for (Term slope : known.slopes)
          corner.slopes.push_back(slope * other.weight);
        corner.slopes.push_back(known.weight * other.slopes[0]);
        joined.push_back(std::move(corner));
      }
    corners = std::move(joined);
  }
  return corners;
}

/// Strides of dimensions [N, places...] of a tensor [N, channels, places...].
Strides placeStrides(ArrayRef<int64_t> strides) {
  Strides places(strides);
  places.erase(places.begin() + 1);
  return places;
}

/// Strides of an image's number over [N, places...].
Strides imageStrides(ArrayRef<int64_t> strides) {
  Strides places(strides.size() - 1, 0);
  places.front() = strides.front();
  return places;
}

/// Runs `body` for chunks of places, which `shape` counts; `at` says where the accesses lie.
void forPlaces(KernelFrame &frame, ArrayRef<int64_t> shape, ArrayRef<Strides> accesses,
               int64_t workPerPlace,
               llvm::function_ref<void(const Chunk &, ArrayRef<Access>)> body) {
  Space space = makeSpace(shape, accesses);
  space.collapse();
  Space::Dim lane = space.takeInnermost();
  int64_t part = frame.lanes.columnLanes(widestBits(frame.buffers), lane.extent);
  forRows(frame, space, lane, {part, workPerPlace}, [&](const RowPlace &place) {
    frame.lanes.forLanes(place.range, part, [&](const Chunk &chunk) {
      SmallVector<Access> at;
      for (auto [base, stride] : llvm::zip_equal(place.bases, lane.strides))
        at.push_back({base, stride});
      body(chunk, at);
    });
  });
}

/// The element of `x` at a corner of each lane's place, 0 where there is none. `image` is the first
/// element of the channel.
Term elementAt(const Chunk &chunk, const Buffer &x, Access image, const Corner &corner) {
  Term at = corner.offset + chunk.term(chunk.positions(image));
  Term element = chunk.term(chunk.gather(corner.valid.get(), x, at.get()));
  return corner.valid.choose(element, element.constant(0)).widened();
}

Sampling samplingOf(Operation *op, ArrayRef<int64_t> extents, ArrayRef<int64_t> imageStrides,
                    ArrayRef<int64_t> gridStrides) {
  Sampling sampling;
  sampling.extents.assign(extents.begin(), extents.end());
  sampling.strides.assign(imageStrides.begin() + 2, imageStrides.end());
  sampling.coordinateStride = gridStrides.back();
  auto mode = op->getAttrOfType<StringAttr>("mode");
  sampling.isNearest = mode && mode.getValue() == "nearest";
  sampling.alignsCorners = op->getAttrOfType<BoolAttr>("align_corners").getValue();
  sampling.padding = op->getAttrOfType<StringAttr>("padding").getValue();
  return sampling;
}

void emitSample(GridSampleOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  const Buffer &x = frame.buffers[0], &grid = frame.buffers[1], &y = frame.buffers[2];
  const Sampling sampling =
      samplingOf(op, tensorType(op.getX()).getShape().drop_front(2), strides[0], strides[1]);
  const int64_t channels = tensorType(op.getX()).getDimSize(1);
  const Type element = computeType(op.getX().getType());
  SmallVector<Strides> accesses = {placeStrides(strides[2]),
                                   Strides(ArrayRef(strides[1]).drop_back()),
                                   imageStrides(strides[0])};
  forPlaces(frame, tensorType(op.getGrid()).getShape().drop_back(), accesses, channels,
            [&](const Chunk &chunk, ArrayRef<Access> at) {
              SmallVector<Corner> corners = cornersOf(lanes, chunk, grid, at[1], sampling);
              lanes.loop(lanes.index(0), lanes.index(channels), 1, {}, [&](Value c, ValueRange) {
                Access image = math.moved(at[2], c, strides[0][1]);
                std::optional<Term> sum;
                for (const Corner &corner : corners) {
                  Term part = elementAt(chunk, x, image, corner) * corner.weight.as(element);
                  sum = sum ? *sum + part : part;
                }
                chunk.store(sum->as(y.element).get(), y, math.moved(at[0], c, strides[2][1]));
                return SmallVector<Value>();
              });
            });
}

void emitGradGrid(GridSampleGradGridOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  const Buffer &dy = frame.buffers[0], &x = frame.buffers[1], &grid = frame.buffers[2],
               &dgrid = frame.buffers[3];
  const Sampling sampling =
      samplingOf(op, tensorType(op.getX()).getShape().drop_front(2), strides[1], strides[2]);
  const int64_t channels = tensorType(op.getX()).getDimSize(1);
  const Type element = computeType(op.getGrid().getType());
  SmallVector<Strides> accesses = {
      Strides(ArrayRef(strides[3]).drop_back()), placeStrides(strides[0]),
      Strides(ArrayRef(strides[2]).drop_back()), imageStrides(strides[1])};
  forPlaces(frame, tensorType(op.getGrid()).getShape().drop_back(), accesses, channels,
            [&](const Chunk &chunk, ArrayRef<Access> at) {
              SmallVector<Corner> corners = cornersOf(lanes, chunk, grid, at[2], sampling);
              Value zero = chunk.widen(
                  arith::ConstantOp::create(lanes.getBuilder(), lanes.getLocation(),
                                            lanes.getBuilder().getFloatAttr(element, 0)));
              SmallVector<Value> sums(sampling.extents.size(), zero);
              sums = lanes.loop(
                  lanes.index(0), lanes.index(channels), 1, sums, [&](Value c, ValueRange carried) {
                    Access image = math.moved(at[3], c, strides[1][1]);
                    Access from = math.moved(at[1], c, strides[0][1]);
                    Term gradient = chunk.term(chunk.load(dy, from)).widened().as(element);
                    SmallVector<Value> next(carried);
                    for (const Corner &corner : corners) {
                      Term part = elementAt(chunk, x, image, corner).as(element) * gradient;
                      for (auto [sum, slope] : llvm::zip_equal(next, corner.slopes))
                        sum = (chunk.term(sum) + part * slope).get();
                    }
                    return next;
                  });
              for (auto [k, sum] : llvm::enumerate(sums))
                chunk.store(chunk.term(sum).as(dgrid.element).get(), dgrid,
                            math.moved(at[0], lanes.index(k), strides[3].back()));
            });
}

/// Loops over all positions of `shape`, outermost first: `body` gets the element of each access.
void forPositions(Lanes &lanes, ArrayRef<int64_t> shape, ArrayRef<Strides> accesses,
                  SmallVector<Value> elements, llvm::function_ref<void(ArrayRef<Value>)> body,
                  size_t dim = 0) {
  if (dim == shape.size())
    return body(elements);
  lanes.loop(lanes.index(0), lanes.index(shape[dim]), 1, {}, [&](Value position, ValueRange) {
    SmallVector<Value> moved;
    for (auto [element, strides] : llvm::zip_equal(elements, accesses))
      moved.push_back(Math{lanes}.plus(element, Math{lanes}.times(position, strides[dim])));
    forPositions(lanes, shape, accesses, moved, body, dim + 1);
    return SmallVector<Value>();
  });
}

/// Clears the images, then adds what each place gives. Lanes are channels, which share the places.
void emitGradInput(GridSampleGradInputOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const Buffer &dy = frame.buffers[0], &grid = frame.buffers[1], &dx = frame.buffers[2];
  const Sampling sampling = samplingOf(op, op.getExtents(), strides[2], strides[1]);
  ArrayRef<int64_t> places = tensorType(op.getGrid()).getShape().drop_front().drop_back();
  Space images; // accesses: dx, dy, grid
  images.dims.push_back(
      {tensorType(op.getDx()).getDimSize(0), {strides[2][0], strides[0][0], strides[1][0]}});
  images.offsets = {0, 0, 0};
  Space::Dim lane{tensorType(op.getDx()).getDimSize(1), {strides[2][1], strides[0][1], 0}};
  int64_t part = lanes.columnLanes(widestBits(frame.buffers), lane.extent);
  int64_t work = llvm::product_of(op.getExtents()) +
                 (llvm::product_of(places) << (sampling.isNearest ? 0 : places.size()));
  forRows(frame, images, lane, {part, work}, [&](const RowPlace &row) {
    lanes.forLanes(row.range, part, [&](const Chunk &chunk) {
      Value zero =
          arith::ConstantOp::create(builder, location, builder.getFloatAttr(dx.element, 0));
      forPositions(lanes, op.getExtents(), {sampling.strides}, {row.bases[0]},
                   [&](ArrayRef<Value> at) { chunk.store(zero, dx, {at[0], lane.strides[0]}); });
      Chunk one(builder, location, lanes.index(0), 1);
      SmallVector<Strides> accesses = {Strides(ArrayRef(strides[0]).drop_front(2)),
                                       Strides(ArrayRef(strides[1]).drop_front().drop_back())};
      forPositions(lanes, places, accesses, {row.bases[1], row.bases[2]}, [&](ArrayRef<Value> at) {
        for (const Corner &corner : cornersOf(lanes, one, grid, {at[1], 0}, sampling)) {
          auto branch =
              scf::IfOp::create(builder, location, corner.valid.get(), /*withElseRegion=*/false);
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPointToStart(branch.thenBlock());
          Value offset = arith::IndexCastOp::create(builder, location, builder.getIndexType(),
                                                    corner.offset.get());
          Access to{Math{lanes}.plus(row.bases[0], offset), lane.strides[0]};
          Term before = chunk.term(chunk.load(dx, to)).widened();
          Term gradient = chunk.term(chunk.load(dy, {at[0], lane.strides[1]})).widened();
          Term weight = chunk.term(corner.weight.as(before.element()).get());
          chunk.store((before + gradient * weight).as(dx.element).get(), dx, to);
        }
      });
    });
  });
}

} // namespace

static LogicalResult emitGridSample(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  if (auto sample = dyn_cast<GridSampleOp>(op))
    emitSample(sample, *strides, frame);
  else if (auto gradient = dyn_cast<GridSampleGradInputOp>(op))
    emitGradInput(gradient, *strides, frame);
  else
    emitGradGrid(cast<GridSampleGradGridOp>(op), *strides, frame);
  return success();
}

void addGridSampleKernels(KernelTable &table) {
  table.add<GridSampleOp, GridSampleGradInputOp, GridSampleGradGridOp>(emitGridSample,
                                                                       {.takesPart = takesAnyPart});
}

} // namespace stow
