#include "codegen/kernels/Pooling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <numeric>

using namespace mlir;

namespace stow {

SmallVector<Axis> axesOf(Operation *op, RankedTensorType input, RankedTensorType output) {
  auto ints = [&](StringRef name) {
    return op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
  };
  SmallVector<Axis> axes;
  for (auto [i, taps] : llvm::enumerate(ints("kernel")))
    axes.push_back({input.getDimSize(i + 2), output.getDimSize(i + 2), taps, ints("strides")[i],
                    ints("pads")[i], ints("dilations")[i]});
  return axes;
}

int64_t windowSize(ArrayRef<Axis> axes) {
  int64_t size = 1;
  for (const Axis &axis : axes)
    size *= axis.taps;
  return size;
}

SmallVector<int64_t> withoutSpace(ArrayRef<int64_t> from) {
  SmallVector<int64_t> strides(from);
  std::fill(strides.begin() + 2, strides.end(), 0);
  return strides;
}

SmallVector<Value> Pooling::overTaps(ValueRange start, Body body) {
  return over(llvm::map_to_vector(axes, [](const Axis &axis) { return axis.taps; }), start, body);
}

SmallVector<Value> Pooling::over(ArrayRef<int64_t> counts, ValueRange start, Body body) {
  Numbers taps;
  const int64_t all =
      std::accumulate(counts.begin(), counts.end(), int64_t{1}, std::multiplies<>());
  if (all <= kUnrolledTaps)
    return unrolled(counts, taps, 0, Numbers(start), body);
  return nested(counts, taps, lanes.index(0), start, body);
}

SmallVector<Value> Pooling::unrolled(ArrayRef<int64_t> counts, Numbers &taps, int64_t number,
                                     Numbers values, Body body) {
  if (taps.size() == axes.size())
    return body(taps, lanes.index(number), values);
  const int64_t count = counts[taps.size()];
  for (int64_t tap = 0; tap < count; ++tap) {
    taps.push_back(lanes.index(tap));
    values = unrolled(counts, taps, number * count + tap, std::move(values), body);
    taps.pop_back();
  }
  return values;
}

SmallVector<Value> Pooling::nested(ArrayRef<int64_t> counts, Numbers &taps, Value number,
                                   ValueRange values, Body body) {
  if (taps.size() == axes.size())
    return body(taps, number, values);
  const int64_t count = counts[taps.size()];
  return lanes.loop(
      lanes.index(0), lanes.index(count), 1, values, [&](Value tap, ValueRange carried) {
        taps.push_back(tap);
        auto next = nested(counts, taps, plus(times(number, count), tap), carried, body);
        taps.pop_back();
        return next;
      });
}

Term Pooling::position(const Chunk &chunk, const RowPlace &place, const Space::Dim &lane,
                       size_t access) const {
  return chunk.term(chunk.positions({place.bases[access], lane.strides[access]}))
      .as(builder.getI32Type());
}

Term Pooling::number(const Chunk &chunk, Value index, Type type) const {
  return chunk.term(arith::IndexCastOp::create(builder, location, type, index));
}

Value Pooling::plus(Value a, Value b) const {
  return arith::AddIOp::create(builder, location, a, b);
}

Value Pooling::times(Value a, int64_t by) const {
  return arith::MulIOp::create(builder, location, a, lanes.index(by));
}

Term Pooling::constant(const Chunk &chunk, Type element, double value) const {
  auto attribute = isa<FloatType>(element)
                       ? TypedAttr(builder.getFloatAttr(element, value))
                       : TypedAttr(builder.getIntegerAttr(element, static_cast<int64_t>(value)));
  return chunk.term(arith::ConstantOp::create(builder, location, attribute));
}

Term Pooling::tapsInside(const Axis &axis, Term first) const {
  Term end = first + first.constant(axis.taps), last = end.constant(axis.inputs);
  Term zero = first.constant(0);
  return (end > last).choose(last, end) - (first < zero).choose(zero, first);
}

std::optional<Term> Window::isInside(ArrayRef<Value> taps) const {
  std::optional<Term> inside;
  for (auto [axis, tap, begin] : llvm::zip_equal(pooling.axes, taps, first)) {
    if (!axis.hasEdges())
      continue;
    Term at = begin + pooling.number(places, pooling.times(tap, axis.dilation), begin.element());
    inside = Pooling::both(inside, (at >= at.constant(0)) & (at < at.constant(axis.inputs)));
  }
  return inside;
}

} // namespace stow
