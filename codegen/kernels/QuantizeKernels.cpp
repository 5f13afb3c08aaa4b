// Quantized weights as numbers: a vector of bytes gives one vector of elements, or two; and what an optimizer keeps, to and from 8
// bits (runtime/base/Quantization.h).
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowQuantizeOps.h"
#include "runtime/base/Quantization.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
namespace {

template <size_t count>
Buffer tableOf(KernelFrame &frame, const std::array<float, count> &numbers) {
  Builder &builder = frame.lanes.getBuilder();
  auto type = RankedTensorType::get({static_cast<int64_t>(count)}, builder.getF32Type());
  return frame.constant(DenseElementsAttr::get(type, ArrayRef(numbers)));
}

/// The levels that codes stand for, and the scales of blocks.
class Decoder {
public:
  Decoder(KernelFrame &frame, Quantization scheme, int64_t elements)
      : builder(frame.lanes.getBuilder()), location(frame.lanes.getLocation()), lanes(frame.lanes),
        stored(frame.buffers[0]), scheme(scheme), parts(partsOf(scheme, elements)) {
    if (scheme == Quantization::Nf4)
      levels = tableOf(frame, scaleLevels());
  }

  /// What elements of one block stand for, in f32: `bytes` are those of their codes, whose bits begin with number `shift`; the
  /// first element is number `element`.
  Term decode(Term bytes, unsigned shift, Value element) const {
    Value block = arith::DivUIOp::create(builder, location, element, lanes.index(kQuantizedBlock));
    if (scheme == Quantization::Int8)
      return whole(bytes) * spread(bytes, floatAt(parts.scales, block));
    return level(bytes, shift) * spread(bytes, scaleOf(block));
  }

private:
  Term whole(Term bytes) const { return bytes.as(builder.getF32Type()); }

  Term spread(Term like, Value scalar) const {
    auto vector = dyn_cast<VectorType>(like.get().getType());
    return Term(builder, location,
                vector ? Value(vector::BroadcastOp::create(
                             builder, location, vector.clone(builder.getF32Type()), scalar))
                       : scalar);
  }

  /// The level of four bits: chosen by the lowest bit among neighbours, then by the next one among those chosen, ...
  Term level(Term bytes, unsigned shift) const {
    Term zero = whole(bytes).constant(0);
    SmallVector<Term> candidates;
    for (float number : normalLevels())
      candidates.push_back(zero.constant(number));
    for (unsigned bit = 0; candidates.size() > 1; ++bit) {
      Term isSet = (bytes & bytes.constantInt(uint64_t(1) << (shift + bit)))
                       .equals(bytes.constantInt(0))
                       .complement();
      SmallVector<Term> chosen;
      for (size_t i = 0; i < candidates.size(); i += 2)
        chosen.push_back(isSet.choose(candidates[i + 1], candidates[i]));
      candidates = std::move(chosen);
    }
    return candidates.front();
  }

  /// Scale of a block of nf4.
  Value scaleOf(Value block) const {
    Chunk scalar(builder, location, lanes.index(0), 1);
    Value at = arith::AddIOp::create(builder, location, block, lanes.index(parts.scales));
    Value code = arith::IndexCastUIOp::create(builder, location, builder.getIndexType(),
                                              scalar.load(stored, {at, 0}));
    Value outerBlock = arith::DivUIOp::create(builder, location, block, lanes.index(kScaleBlock));
    Term level(builder, location, scalar.load(levels, {code, 0}));
    Term outer = level.with(floatAt(parts.outerScales, outerBlock));
    return (level * outer + level.with(floatAt(parts.mean, lanes.index(0)))).get();
  }

  /// Number `index` of the f32 that begin at byte `begin`.
  Value floatAt(Bytes begin, Value index) const {
    constexpr int64_t bytes = 4;
    Value at =
        arith::AddIOp::create(builder, location, lanes.index(begin),
                              arith::MulIOp::create(builder, location, index, lanes.index(bytes)));
    Value raw = vector::LoadOp::create(
        builder, location, VectorType::get({bytes}, stored.element), stored.memory, ValueRange{at},
        /*nontemporal=*/false, llvm::MaybeAlign(std::min<int64_t>(bytes, stored.alignment)));
    Value number = vector::BitCastOp::create(builder, location,
                                             VectorType::get({1}, builder.getF32Type()), raw);
    return vector::ExtractOp::create(builder, location, number, ArrayRef<int64_t>{0});
  }

  OpBuilder &builder;
  Location location;
  Lanes &lanes;
  const Buffer &stored;
  const Quantization scheme;
  const QuantizedParts parts;
  Buffer levels; ///< of nf4's scales
};

/// Elements that bytes give from bit `shift` on, `offset` elements behind those of the same bytes in the first place.
struct Plane {
  unsigned shift;
  int64_t offset;
};

LogicalResult emitDequantize(Operation *op, KernelFrame &frame) {
  auto dequantize = cast<DequantizeOp>(op);
  auto strides = stridesOf(tensorType(dequantize.getY()));
  if (!strides || *strides != rowMajorStrides(tensorType(dequantize.getY()).getShape()))
    return op->emitOpError() << "expects a row-major result, found " << dequantize.getY().getType();
  const Quantization scheme = *quantizationNamed(dequantize.getScheme());
  const int64_t elements = tensorType(dequantize.getY()).getNumElements();
  SmallVector<Plane> planes = {{0, 0}};
  if (scheme == Quantization::Nf4)
    planes.push_back({4, elements / 2});
  const Decoder decoder(frame, scheme, elements);
  const Buffer &stored = frame.buffers[0], &y = frame.buffers[1];
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  // Accesses: the codes, then each plane of elements.
  Space space;
  space.dims.push_back(
      {elements / static_cast<int64_t>(planes.size()), SmallVector<int64_t>(1 + planes.size(), 1)});
  space.offsets = {0};
  SmallVector<unsigned> buffers = {0};
  for (const Plane &plane : planes) {
    space.offsets.push_back(plane.offset);
    buffers.push_back(1);
  }
  auto decoded = [&](Value bytes, const Plane &plane, Value position) {
    Value element = arith::AddIOp::create(builder, location, position, lanes.index(plane.offset));
    return decoder.decode(Term(builder, location, bytes), plane.shift, element).as(y.element).get();
  };
  if (frame.target == KernelTarget::Device) {
    VectorWalk walk(frame, space, buffers, 1);
    walk.runAlone([&](ArrayRef<VectorSpot> spots) {
      SmallVector<Value> codes;
      for (const VectorSpot &spot : spots)
        codes.push_back(spot.load(0));
      for (auto [spot, bytes] : llvm::zip_equal(spots, codes))
        for (auto [number, plane] : llvm::enumerate(planes))
          spot.store(decoded(bytes, plane, spot.element(0)), 1 + number);
    });
    return success();
  }
  Space outer;
  outer.dims.push_back({1, SmallVector<int64_t>(space.offsets.size(), 0)});
  outer.offsets = space.offsets;
  forRows(frame, outer, space.dims.front(), {}, [&](const RowPlace &place) {
    lanes.forLanes(place.range, lanes.chunkLanes(32), [&](const Chunk &chunk) {
      Value bytes = chunk.load(stored, {place.bases[0], 1});
      for (auto [number, plane] : llvm::enumerate(planes))
        chunk.store(decoded(bytes, plane, chunk.getPosition()), y, {place.bases[1 + number], 1});
    });
  });
  return success();
}

//===-- State in 8 bits -----------------------------------------------------------------------===//

/// Rows are blocks, along which numbers and codes lie; scales have one element a row.
std::pair<Space, Space> blocks(int64_t elements, ArrayRef<bool> isOfScales) {
  Space kept, axis;
  kept.dims.push_back({elements / kStateBlock, {}});
  axis.dims.push_back({kStateBlock, {}});
  for (bool scales : isOfScales) {
    kept.dims.front().strides.push_back(scales ? 1 : kStateBlock);
    axis.dims.front().strides.push_back(scales ? 0 : 1);
  }
  kept.offsets.assign(isOfScales.size(), 0);
  axis.offsets = kept.offsets;
  return {kept, axis};
}

/// Buffers: codes, scales, y.
LogicalResult emitDequantizeState(Operation *op, KernelFrame &frame) {
  auto state = cast<DequantizeStateOp>(op);
  const Buffer levels = tableOf(frame, StateLevels::of(state.getNonnegative()).levels);
  Type wide = frame.lanes.getBuilder().getI32Type();
  auto [kept, axis] = blocks(tensorType(state.getY()).getNumElements(), {false, true, false});
  forFoldedRows(frame, kept, axis, [&](Row &row) {
    const Value scale = row.load(1).get();
    row.each([&](const Cell &cell) {
      const Term code = cell.load(0).as(wide);
      const Term level = cell.lookUp(levels, code & code.constantInt(255), frame.target);
      cell.store(level * cell.term(scale), 2);
    });
  });
  return success();
}

/// The code of the level nearest to x, as quantizeState has it.
Term codeOf(Term x, const StateLevels &levels, Type wide) {
  const Term size = x.unary<math::AbsFOp>();
  Term count = x.constant(levels.fewest), power = x.constant(1e6);
  double counted = levels.fewest, raised = 1e6;
  for (float edge : levels.edges) {
    const Term isAbove = size > edge;
    count = isAbove.choose(x.constant(counted *= 2), count);
    power = isAbove.choose(x.constant(raised /= 10), power);
  }
  const Term part = (size * power - x.constant(0.1f)) * (count * x.constant(kPartsOfDecade));
  const Term place = part.maximum(x.constant(0)).minimum(count - 1);
  Term above = place.as(wide) + count.as(wide);
  above = above + above.constantInt(static_cast<uint64_t>(1 - static_cast<int64_t>(levels.fewest)));
  above = above + ((size > levels.one) & (x > 0)).as(wide);
  above = (size > levels.nothing).choose(above, above.constantInt(0));
  const Term zero = above.constantInt(static_cast<uint64_t>(levels.zero));
  return (x < 0).choose(zero - above, zero + above);
}

/// Buffers: x, codes and scales that are overwritten, new codes, new scales.
LogicalResult emitQuantizeState(Operation *op, KernelFrame &frame) {
  auto state = cast<QuantizeStateOp>(op);
  const StateLevels &levels = StateLevels::of(state.getNonnegative());
  OpBuilder &builder = frame.lanes.getBuilder();
  auto [kept, axis] =
      blocks(tensorType(state.getX()).getNumElements(), {false, false, true, false, true});
  const Reducer largest{Reducer::Kind::Max, builder.getF32Type()};
  forFoldedRows(frame, kept, axis, [&](Row &row) {
    const Value scale = row.fold({largest}, [](const Cell &cell) -> SmallVector<Term> {
      return {cell.load(0).unary<math::AbsFOp>()};
    })[0];
    row.store(row.term(scale), 4);
    row.each([&](const Cell &cell) {
      const Term size = cell.term(scale), x = cell.load(0);
      const Term part = (size > 0).choose(x / size, x.constant(0));
      cell.store(codeOf(part, levels, builder.getI32Type()), 3);
    });
  });
  return success();
}

} // namespace

void addQuantizeKernels(KernelTable &table) {
  table.add<DequantizeOp>(emitDequantize);
  table.add<DequantizeStateOp>(emitDequantizeState);
  table.add<QuantizeStateOp>(emitQuantizeState);
}

} // namespace stow
