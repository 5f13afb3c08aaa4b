// Pooling on a device.
//
// A thread computes a vector of up to 16 bytes of results side by side. Where channels are innermost
// its lanes share their place in space, and each tap is one access; where the last axis of space is, the
// windows of its lanes overlap, and it reads what they cover together, once:
//
//   x         |. . . a|b c d e|f g h i|...       windows of 3, 2 apart, beginning 1 before the row
//   lane 0           |- - -|
//   lane 1               |- - -|                 pieces of a row are whole inside x or whole outside:
//   lane 2                   |- - -|             rows are multiples of them
//
// A gradient goes over windows instead of taps: of 3 taps 2 apart at most two windows have a position.
// Window number q - i, q = position / stride, has it at tap position % stride + i * stride: with i
// ascending the sums are those of ascending taps, to the bit. Where windows are dilated all taps are
// tried.
//
// Rows that are no whole vectors, and windows of many taps, are computed an element a thread out of shared
// memory, where planes come and go by vectors (DevicePlanes). What is left, such as large planes of odd
// extents, takes an element a thread.
#include "codegen/kernels/device/DevicePools.h"

#include "codegen/kernels/Fold.h"
#include "codegen/kernels/device/DevicePlanes.h"
#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowPoolOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// How the lanes of a vector lie.
struct Grouping {
  int64_t lanes = 1;
  bool alongAxis = false; ///< along the last axis of space; else all at one place
};

int64_t staticNumber(Value index) { return *getConstantIntValue(index); }

/// Parts of rows that the lanes of a vector read together, by number and by where the row is.
struct Piece {
  std::optional<Term> exists; ///< i1; nothing: it does
  Value elements;             ///< zeros where it does not
};
using PieceKey = std::pair<SmallVector<int64_t>, int64_t>;

/// What windows and gradients write with.
struct Scalars {
  OpBuilder &builder;
  Location location;
  Chunk one; ///< a single lane

  explicit Scalars(Lanes &lanes)
      : builder(lanes.getBuilder()), location(lanes.getLocation()),
        one(builder, location, lanes.index(0), 1) {}

  Value plus(Value a, int64_t b) const {
    return b == 0
               ? a
               : Value(arith::AddIOp::create(builder, location, a,
                                             arith::ConstantIndexOp::create(builder, location, b)));
  }
  /// A number, at most of 31 bits, as i32.
  Term narrow(Value index) const {
    return one.term(arith::IndexCastOp::create(builder, location, builder.getI32Type(), index));
  }
  Value toIndex(Term number) const {
    return arith::IndexCastOp::create(builder, location, builder.getIndexType(), number.get());
  }
  /// 0 <= number < bound.
  Term below(Term number, int64_t bound) const {
    return number.with(arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult,
                                             number.get(), number.constant(bound).get()));
  }
  /// A number a lane, as i32.
  Term constants(ArrayRef<int32_t> numbers) const {
    auto type = VectorType::get({static_cast<int64_t>(numbers.size())}, builder.getI32Type());
    return one.term(Value(
        arith::ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, numbers))));
  }
  /// `lanes` elements, zeros where they do not exist.
  Value load(const Buffer &buffer, Value element, int64_t lanes, std::optional<Term> exists) const {
    Chunk chunk(builder, location, arith::ConstantIndexOp::create(builder, location, 0), lanes);
    const Access access{element, 1, accessAlignment(buffer, lanes)};
    return exists ? chunk.loadAllWhere(exists->get(), buffer, access) : chunk.load(buffer, access);
  }
};

//===-- Forward -------------------------------------------------------------------------------===//

/// The windows of lanes at one place of space.
class PlaceWindow final : public Window {
public:
  /// `base`: the element of x at the window's first tap, were there no pads.
  PlaceWindow(const Pooling &pooling, const Chunk &chunk, const Scalars &scalars, Value base,
              const Buffer &x, ArrayRef<int64_t> xStrides)
      : Window(pooling, chunk, scalars.one), scalars(scalars), base(base), x(x),
        xStrides(xStrides) {}

  Term load(ArrayRef<Value> taps, std::optional<Term> inside) const override {
    Value at = base;
    for (auto [axis, tap, stride] : llvm::zip_equal(pooling.axes, taps, xStrides.drop_front(2)))
      at = scalars.plus(pooling.plus(at, pooling.times(tap, axis.dilation * stride)),
                        -axis.pad * stride);
    return chunk.term(scalars.load(x, at, chunk.size(), inside)).widened();
  }

private:
  const Scalars &scalars;
  Value base;
  const Buffer &x;
  ArrayRef<int64_t> xStrides;
};

/// Elements of x that a thread reads at once.
int64_t readLanes(const Grouping &group, const Pooling &pooling, const Buffer &x,
                  ArrayRef<int64_t> xStrides) {
  if (!group.alongAxis)
    return group.lanes;
  const Axis &last = pooling.axes.back();
  return std::gcd(std::gcd(accessLanes(x), group.lanes * last.stride),
                  std::gcd(last.inputs, stepOf(xStrides)));
}

/// The windows of lanes along the last axis.
class AxisWindow final : public Window {
public:
  /// `base` as PlaceWindow's, of lane 0; `start` its position along the last axis.
  AxisWindow(const Pooling &pooling, const Chunk &chunk, const Scalars &scalars, Value base,
             Term start, const Buffer &x, ArrayRef<int64_t> xStrides)
      : Window(pooling, chunk, scalars.one), scalars(scalars), base(base), start(start), x(x),
        xStrides(xStrides), last(pooling.axes.back()) {
    pieceLanes = readLanes({chunk.size(), true}, pooling, x, xStrides);
  }

  std::optional<Term> isInside(ArrayRef<Value> taps) const override {
    if (llvm::none_of(pooling.axes, [](const Axis &axis) { return axis.hasEdges(); }))
      return std::nullopt;
    return chunk.term(
        eachLane(taps, [](const Piece &piece, int64_t) { return piece.exists->get(); }));
  }

  Term load(ArrayRef<Value> taps, std::optional<Term>) const override {
    return chunk
        .term(eachLane(taps,
                       [&](const Piece &piece, int64_t lane) {
                         return laneOf(scalars.builder, scalars.location, piece.elements, lane);
                       }))
        .widened();
  }

private:
  Value eachLane(ArrayRef<Value> taps,
                 llvm::function_ref<Value(const Piece &, int64_t)> value) const {
    SmallVector<Value> values;
    for (int64_t lane = 0; lane < chunk.size(); ++lane) {
      auto [number, at] = pieceOf(
          lane * last.stride + staticNumber(taps.back()) * last.dilation - last.pad, pieceLanes);
      values.push_back(value(piece(taps.drop_back(), number), at));
    }
    return vectorOfLanes(scalars.builder, scalars.location, values);
  }

  /// Piece `number` of the row at these taps of the other axes, counted from lane 0's window.
  const Piece &piece(ArrayRef<Value> outer, int64_t number) const {
    auto [known, isNew] =
        pieces.try_emplace(PieceKey(llvm::map_to_vector(outer, staticNumber), number));
    if (!isNew)
      return known->second;
    Value at = scalars.plus(base, number * pieceLanes);
    std::optional<Term> exists;
    for (auto [axis, tap, begin, stride] :
         llvm::zip(ArrayRef(pooling.axes).drop_back(), outer, first, xStrides.drop_front(2))) {
      const int64_t moved = staticNumber(tap) * axis.dilation;
      at = scalars.plus(at, (moved - axis.pad) * stride);
      if (axis.hasEdges())
        exists = Pooling::both(
            exists, scalars.below(begin + begin.constant(static_cast<double>(moved)), axis.inputs));
    }
    if (last.hasEdges())
      exists = Pooling::both(
          exists, scalars.below(start + start.constant(static_cast<double>(number * pieceLanes)),
                                last.inputs));
    known->second = {exists, scalars.load(x, at, pieceLanes, exists)};
    return known->second;
  }

  const Scalars &scalars;
  Value base;
  Term start;
  const Buffer &x;
  ArrayRef<int64_t> xStrides;
  const Axis &last;
  int64_t pieceLanes = 1;
  mutable std::map<PieceKey, Piece> pieces;
};

/// `source` is the access of x; the positions along the axes are those behind it.
Grouping forwardGrouping(const Space &space, const Pooling &pooling, ArrayRef<Buffer> buffers,
                         ArrayRef<int64_t> xStrides, size_t source) {
  const Space::Dim &lane = space.dims.back();
  ArrayRef<int64_t> positions = ArrayRef(lane.strides).drop_front(source + 1);
  const int64_t lanes =
      std::gcd(std::max(accessLanes(buffers[0]), accessLanes(buffers[1])), lane.extent);
  if (llvm::all_of(positions, [](int64_t stride) { return stride == 0; }))
    return {lane.strides[source] == 1 ? std::gcd(lanes, stepOf(xStrides)) : 1};
  if (positions.back() == 0 || xStrides.back() != 1 || lane.strides[0] != 1 ||
      windowSize(pooling.axes) > kUnrolledTaps)
    return {};
  return {lanes, lanes > 1};
}

/// Planes of the operands and of the results.
std::optional<DevicePlanes> planesOf(Operation *op, const KernelFrame &frame,
                                     ArrayRef<SmallVector<int64_t>> strides) {
  SmallVector<PlaneTensor> tensors;
  for (auto [i, type] :
       llvm::enumerate(llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())))
    tensors.push_back(
        {frame.buffers[i], cast<RankedTensorType>(type).getShape(), ArrayRef(strides[i])});
  return DevicePlanes::of(tensors, op->getNumOperands());
}

/// The windows of results one by one, in shared memory.
void forWindowsOfPlanes(Operation *op, KernelFrame &frame, DevicePlanes planes,
                        const Pooling &pooling, WindowBody body) {
  const SmallVector<int64_t> xStrides = planes.sharedStrides(0);
  planes.emit(frame, [&](const PlanePlace &place) {
    const Scalars scalars(frame.lanes);
    Value base = place.bases[0];
    SmallVector<Term> first;
    for (auto [i, axis] : llvm::enumerate(pooling.axes)) {
      Term start = scalars.one.term(place.at[i]);
      start = start * start.constant(static_cast<double>(axis.stride));
      base = pooling.plus(base, pooling.times(scalars.toIndex(start), xStrides[i + 2]));
      first.push_back(start - start.constant(static_cast<double>(axis.pad)));
    }
    PlaceWindow window(pooling, scalars.one, scalars, base, planes.getShared(0), xStrides);
    window.first = std::move(first);
    SmallVector<Value> results(op->getNumResults());
    body(scalars.one, window, [&](Term value, size_t result) {
      results[result] = value.as(frame.buffers[1 + result].element).get();
    });
    return results;
  });
}

} // namespace

void forDeviceWindows(Operation *op, KernelFrame &frame, ArrayRef<SmallVector<int64_t>> strides,
                      const Pooling &pooling, WindowBody body) {
  const size_t results = op->getNumResults(), axes = pooling.axes.size();
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  // Accesses: the results, x, the positions along the axes; the last two without pads.
  SmallVector<SmallVector<int64_t>> accesses(strides.begin() + 1, strides.end());
  accesses.push_back(strides[0]);
  for (auto [i, axis] : llvm::enumerate(pooling.axes))
    accesses.back()[i + 2] *= axis.stride;
  for (auto [i, axis] : llvm::enumerate(pooling.axes))
    accesses.emplace_back(shape.size(), 0)[i + 2] = axis.stride;
  Space space = makeSpace(shape, accesses);
  space.collapse();
  const Buffer &x = frame.buffers[0];
  const Grouping group = forwardGrouping(space, pooling, frame.buffers, strides[0], results);
  if (std::min(group.lanes, readLanes(group, pooling, x, strides[0])) < accessLanes(x))
    if (auto planes = planesOf(op, frame, strides))
      return forWindowsOfPlanes(op, frame, std::move(*planes), pooling, body);
  SmallVector<unsigned> buffers;
  for (unsigned access = 0; access < accesses.size(); ++access)
    buffers.push_back(access < results ? 1 + access : frame.buffers.size());
  VectorWalk walk(frame, space, buffers, 0);
  walk.keepInRows(group.lanes);
  walk.runAlone([&](ArrayRef<VectorSpot> spots) {
    const VectorSpot &spot = spots.front();
    const Scalars scalars(frame.lanes);
    const Chunk chunk = spot.chunk();
    auto store = [&](Term value, size_t result) {
      spot.store(value.as(frame.buffers[1 + result].element).get(), result);
    };
    Value base = spot.element(results);
    SmallVector<Term> starts;
    for (size_t i = 0; i < axes; ++i)
      starts.push_back(scalars.narrow(spot.element(results + 1 + i)));
    auto run = [&](Window &window) {
      for (auto [start, axis] : llvm::zip_equal(starts, pooling.axes))
        window.first.push_back(start - start.constant(static_cast<double>(axis.pad)));
      if (group.alongAxis) {
        SmallVector<int32_t> steps;
        for (int64_t lane = 0; lane < group.lanes; ++lane)
          steps.push_back(static_cast<int32_t>(lane * pooling.axes.back().stride));
        window.first.back() = chunk.term(window.first.back().get()) + scalars.constants(steps);
      }
      body(chunk, window, store);
    };
    if (group.alongAxis) {
      AxisWindow window(pooling, chunk, scalars, base, starts.back(), x, strides[0]);
      return run(window);
    }
    PlaceWindow window(pooling, chunk, scalars, base, x, strides[0]);
    run(window);
  });
}

//===-- Gradients -----------------------------------------------------------------------------===//

namespace {

class DevicePoolGrad {
public:
  DevicePoolGrad(Operation *op, KernelFrame &frame, ArrayRef<SmallVector<int64_t>> strides)
      : op(op), frame(frame), strides(strides), sources(ArrayRef(frame.buffers).drop_back()),
        dx(cast<RankedTensorType>(op->getResult(0).getType())),
        pooling(frame, axesOf(op, dx, cast<RankedTensorType>(op->getOperand(0).getType()))),
        average(dyn_cast<AvgPoolGradOp>(op)), operands(op->getNumOperands()),
        element(computeType(op->getOperand(0).getType())) {
    for (const Axis &axis : pooling.axes)
      counts.push_back(axis.dilation == 1 ? llvm::divideCeil(axis.taps, axis.stride) : axis.taps);
  }

  void emit() {
    // Accesses: dx, the operands without their place in space, and the position along each axis.
    SmallVector<SmallVector<int64_t>> accesses = {strides.back()};
    for (size_t i = 0; i < operands; ++i)
      accesses.push_back(withoutSpace(strides[i]));
    for (size_t i = 0; i < pooling.axes.size(); ++i)
      accesses.emplace_back(dx.getRank(), 0)[i + 2] = 1;
    Space space = makeSpace(dx.getShape(), accesses);
    space.collapse();
    group = groupingOf(space);
    if (std::min(group.lanes, group.alongAxis ? pieceLanes(0) : group.lanes) <
        accessLanes(frame.buffers.front()))
      if (auto planes = planesOf(op, frame, strides))
        return emitPlanes(std::move(*planes));
    SmallVector<unsigned> buffers(accesses.size(), frame.buffers.size());
    buffers[0] = frame.buffers.size() - 1;
    VectorWalk walk(frame, space, buffers, 0);
    walk.keepInRows(group.lanes);
    walk.runAlone([&](ArrayRef<VectorSpot> spots) { emitSpot(spots.front()); });
  }

private:
  /// What is known of a vector.
  struct Place {
    const Scalars &scalars;
    Chunk chunk;
    SmallVector<Value> bases;          ///< of the operands, at the origin of space
    SmallVector<Term> first, quotient; ///< position and pad of lane 0, divided by the stride
    std::map<std::pair<size_t, PieceKey>, Piece> pieces; ///< by operand
  };

  /// A tap of a window, or none, in each lane.
  struct Candidate {
    SmallVector<Term> windows; ///< by axis
    Term exists, number;       ///< of the tap in its window
    Term dy;
    std::optional<Term> saved;
  };

  Grouping groupingOf(const Space &space) const {
    const Space::Dim &lane = space.dims.back();
    ArrayRef<int64_t> positions = ArrayRef(lane.strides).drop_front(1 + operands);
    const int64_t wide =
        std::max(accessLanes(frame.buffers.front()), accessLanes(frame.buffers.back()));
    auto areContiguous = [](ArrayRef<int64_t> strides) {
      return llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
    };
    if (llvm::all_of(positions, [](int64_t stride) { return stride == 0; })) {
      int64_t lanes = std::gcd(wide, lane.extent);
      for (size_t i = 0; i < operands; ++i)
        lanes = std::gcd(lanes, stepOf(strides[i]));
      return {areContiguous(ArrayRef(lane.strides).take_front(1 + operands)) ? lanes : 1};
    }
    const Axis &last = pooling.axes.back();
    int64_t all = 1;
    for (int64_t count : counts)
      all *= count;
    bool contiguous = positions.back() != 0 && lane.strides[0] == 1;
    for (size_t i = 0; i < operands; ++i)
      contiguous &= strides[i].back() == 1;
    if (!contiguous || last.dilation != 1 || all > kUnrolledTaps)
      return {};
    // Windows that lie apart: as many positions as make whole vectors of windows, too.
    const int64_t lanes = std::gcd(last.stride == 2 ? 2 * wide : wide, lane.extent);
    return lanes > 1 && lanes % last.stride == 0 ? Grouping{lanes, true} : Grouping{};
  }

  void emitSpot(const VectorSpot &spot) {
    const Scalars scalars(frame.lanes);
    Place place{scalars, spot.chunk(), {}, {}, {}, {}};
    for (size_t i = 0; i < operands; ++i)
      place.bases.push_back(spot.element(1 + i));
    for (size_t i = 0; i < pooling.axes.size(); ++i)
      addPosition(place, scalars.narrow(spot.element(1 + operands + i)));
    spot.store(total(place), 0);
  }

  /// Positions one by one, of operands in shared memory.
  void emitPlanes(DevicePlanes planes) {
    group = {};
    SmallVector<SmallVector<int64_t>> sharedStrides;
    for (size_t i = 0; i < operands; ++i)
      sharedStrides.push_back(planes.sharedStrides(i));
    strides = sharedStrides;
    planes.emit(frame, [&](const PlanePlace &at) {
      for (size_t i = 0; i < operands; ++i)
        sources[i] = planes.getShared(i);
      const Scalars scalars(frame.lanes);
      Place place{scalars, scalars.one, at.bases, {}, {}, {}};
      for (Value position : at.at)
        addPosition(place, scalars.one.term(position));
      return SmallVector<Value>{total(place)};
    });
  }

  /// Along the next axis.
  void addPosition(Place &place, Term at) const {
    const size_t i = place.first.size();
    const Axis &axis = pooling.axes[i];
    if (!group.alongAxis || i + 1 < pooling.axes.size())
      at = at + at.constant(static_cast<double>(axis.pad));
    place.first.push_back(at);
    place.quotient.push_back(divided(at, axis.stride));
  }

  /// The gradient, as dx holds it.
  Value total(Place &place) {
    const Chunk &chunk = place.chunk;
    Term zero = pooling.constant(chunk, element, 0);
    Value sums =
        pooling.over(counts, zero.get(), [&](ArrayRef<Value> numbers, Value, ValueRange carried) {
          Candidate found = group.alongAxis ? alongAxis(place, numbers) : atPlace(place, numbers);
          Term value = found.dy.widened(), isCounted = found.exists;
          if (average && !average.getCountIncludePad())
            for (auto [axis, window] : llvm::zip_equal(pooling.axes, found.windows))
              if (axis.hasEdges())
                value = value / chunk.term(tapsOf(axis, window).as(element).get());
          if (found.saved)
            isCounted = isCounted & widened(*found.saved).equals(found.number);
          return SmallVector<Value>{(chunk.term(carried[0]) + isCounted.choose(value, zero)).get()};
        })[0];
    int64_t whole = 1; // what every window is divided by
    for (const Axis &axis : pooling.axes)
      whole *= average && (average.getCountIncludePad() || !axis.hasEdges()) ? axis.taps : 1;
    Term sum = chunk.term(sums) / static_cast<double>(whole);
    return sum.as(frame.buffers.back().element).get();
  }

  Term tapsOf(const Axis &axis, Term window) const {
    return pooling.tapsInside(axis, window * window.constant(static_cast<double>(axis.stride)) -
                                        window.constant(static_cast<double>(axis.pad)));
  }

  /// Taps that are saved in bytes, as i32.
  Term widened(Term saved) const {
    const Type number = pooling.builder.getI32Type();
    if (saved.element() == number)
      return saved;
    auto lanes = dyn_cast<VectorType>(saved.get().getType());
    return saved.with(arith::ExtUIOp::create(pooling.builder, pooling.location,
                                             lanes ? Type(lanes.clone(number)) : number,
                                             saved.get()));
  }

  Term divided(Term number, int64_t by) const {
    if (by == 1)
      return number;
    return number.with(arith::DivUIOp::create(pooling.builder, pooling.location, number.get(),
                                              number.constantInt(by).get()));
  }

  /// One axis of a candidate, in one lane.
  struct Hit {
    Term window, tap, exists;
  };

  /// Number `number` of the windows that may have the position, or, where they are dilated, of the taps.
  Hit hitOf(const Place &place, size_t i, Value number) const {
    const Axis &axis = pooling.axes[i];
    Term at = place.first[i], n = place.scalars.narrow(number);
    Term stride = at.constant(static_cast<double>(axis.stride));
    if (axis.dilation == 1) {
      Term window = place.quotient[i] - n;
      Term tap = at - place.quotient[i] * stride + n * stride;
      Term exists = place.scalars.below(window, axis.outputs);
      if (axis.taps % axis.stride != 0)
        exists = exists & (tap < tap.constant(static_cast<double>(axis.taps)));
      return {window, tap, exists};
    }
    Term moved = at - n * at.constant(static_cast<double>(axis.dilation));
    Term window = divided(moved, axis.stride); // numbers below 0 are huge as unsigned ones
    Term exists = place.scalars.below(window, axis.outputs);
    if (axis.stride > 1)
      exists = exists & (window * stride).equals(moved);
    return {window, n, exists};
  }

  /// Along the first axes, as many as there are numbers.
  SmallVector<Hit> hitsOf(const Place &place, ArrayRef<Value> numbers) const {
    SmallVector<Hit> hits;
    for (auto [i, number] : llvm::enumerate(numbers))
      hits.push_back(hitOf(place, i, number));
    return hits;
  }

  /// Lanes at one place.
  Candidate atPlace(const Place &place, ArrayRef<Value> numbers) const {
    const Chunk &chunk = place.chunk;
    SmallVector<Hit> hits = hitsOf(place, numbers);
    Term exists = hits[0].exists, number = hits[0].tap;
    SmallVector<Term> windows = {hits[0].window};
    for (auto [axis, hit] : llvm::drop_begin(llvm::zip_equal(pooling.axes, hits))) {
      exists = exists & hit.exists;
      number = number * number.constant(static_cast<double>(axis.taps)) + hit.tap;
      windows.push_back(hit.window);
    }
    auto load = [&](size_t operand) {
      Value at = place.bases[operand];
      for (auto [i, window] : llvm::enumerate(windows))
        at =
            pooling.plus(at, pooling.times(place.scalars.toIndex(window), strides[operand][i + 2]));
      return chunk.term(place.scalars.load(sources[operand], at, chunk.size(), exists));
    };
    Candidate found{windows, chunk.term(exists.get()), chunk.term(number.get()), load(0), {}};
    if (!average)
      found.saved = load(1);
    return found;
  }

  /// Lanes along the last axis: there the windows and taps of each are known but for lane 0's window.
  Candidate alongAxis(Place &place, ArrayRef<Value> numbers) const {
    const Axis &last = pooling.axes.back();
    const Chunk &chunk = place.chunk;
    const Scalars &scalars = place.scalars;
    SmallVector<Hit> outer = hitsOf(place, numbers.drop_back());
    const int64_t number = staticNumber(numbers.back());
    SmallVector<int32_t> windows, taps;
    for (int64_t lane = 0; lane < group.lanes; ++lane) {
      windows.push_back(static_cast<int32_t>((lane + last.pad) / last.stride - number));
      taps.push_back(static_cast<int32_t>((lane + last.pad) % last.stride + number * last.stride));
    }
    Term inWindow = scalars.constants(taps);
    for (auto [i, hit] : llvm::enumerate(outer)) {
      int64_t size = 1; // taps of the axes behind
      for (const Axis &axis : llvm::drop_begin(pooling.axes, i + 1))
        size *= axis.taps;
      inWindow =
          inWindow + chunk.term((hit.tap * hit.tap.constant(static_cast<double>(size))).get());
    }
    auto read = [&](size_t operand) {
      const int64_t lanes = pieceLanes(operand);
      SmallVector<Value> values, exist;
      Value never = arith::ConstantIntOp::create(pooling.builder, pooling.location, 0, 1);
      for (int64_t lane = 0; lane < group.lanes; ++lane) {
        auto [piece, at] = pieceOf(windows[lane], lanes);
        const bool isTap = taps[lane] < last.taps;
        const Piece &known = pieceAt(place, operand, numbers.drop_back(), outer, piece);
        values.push_back(laneOf(scalars.builder, scalars.location, known.elements, at));
        exist.push_back(isTap ? known.exists->get() : never);
      }
      return std::pair(chunk.term(vectorOfLanes(scalars.builder, scalars.location, values)),
                       chunk.term(vectorOfLanes(scalars.builder, scalars.location, exist)));
    };
    auto [dy, exists] = read(0);
    SmallVector<Term> places;
    for (const Hit &hit : outer)
      places.push_back(hit.window);
    places.push_back(chunk.term(place.quotient.back().get()) + scalars.constants(windows));
    Candidate found{places, exists, inWindow, dy, {}};
    if (!average)
      found.saved = read(1).first;
    return found;
  }

  int64_t pieceLanes(size_t operand) const {
    const Axis &last = pooling.axes.back();
    return std::gcd(std::gcd(accessLanes(frame.buffers[operand]), group.lanes / last.stride),
                    std::gcd(last.outputs, stepOf(strides[operand])));
  }

  /// Piece `number` of an operand's row at these windows of the other axes, counted from lane 0's.
  const Piece &pieceAt(Place &place, size_t operand, ArrayRef<Value> numbers, ArrayRef<Hit> outer,
                       int64_t number) const {
    auto [known, isNew] = place.pieces.try_emplace(
        {operand, PieceKey(llvm::map_to_vector(numbers, staticNumber), number)});
    if (!isNew)
      return known->second;
    const int64_t lanes = pieceLanes(operand);
    const Term start = place.quotient.back();
    Value at = pooling.plus(place.bases[operand], place.scalars.toIndex(start));
    at = place.scalars.plus(at, number * lanes);
    Term exists = place.scalars.below(start + start.constant(static_cast<double>(number * lanes)),
                                      pooling.axes.back().outputs);
    for (auto [i, hit] : llvm::enumerate(outer)) {
      exists = exists & hit.exists;
      at = pooling.plus(at,
                        pooling.times(place.scalars.toIndex(hit.window), strides[operand][i + 2]));
    }
    known->second = {exists, place.scalars.load(sources[operand], at, lanes, exists)};
    return known->second;
  }

  Operation *op;
  KernelFrame &frame;
  ArrayRef<SmallVector<int64_t>> strides; ///< of the operands as they are read
  SmallVector<Buffer> sources;            ///< the operands
  RankedTensorType dx;
  Pooling pooling;
  AvgPoolGradOp average;
  size_t operands;
  Type element;
  SmallVector<int64_t> counts; ///< of the candidates along each axis
  Grouping group;
};

} // namespace

void emitDevicePoolGrad(Operation *op, KernelFrame &frame, ArrayRef<SmallVector<int64_t>> strides) {
  DevicePoolGrad(op, frame, strides).emit();
}

} // namespace stow
