// Elements read and summed by index along a dimension, running sums and the largest elements.
//
// All of them walk the dimension `axis` in sequence for every position of the others; lanes run
// along the innermost of those. take_along, which has no sequence, walks its result as it lies.
#include "codegen/kernels/Emit.h"
#include "ir/StowIndexOps.h"
#include "ir/StowScatterOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace stow {
namespace {

using Strides = SmallVector<int64_t>;

/// Integer arithmetic of one kernel.
struct Math {
  Lanes &lanes;

  Value plus(Value a, Value b) {
    return arith::AddIOp::create(lanes.getBuilder(), lanes.getLocation(), a, b);
  }
  Value minus(Value a, Value b) {
    return arith::SubIOp::create(lanes.getBuilder(), lanes.getLocation(), a, b);
  }
  Value times(Value a, int64_t factor) {
    return arith::MulIOp::create(lanes.getBuilder(), lanes.getLocation(), a, lanes.index(factor));
  }
  Value smaller(Value a, Value b) {
    return arith::MinUIOp::create(lanes.getBuilder(), lanes.getLocation(), a, b);
  }
  Value asIndex(Value value) {
    return arith::IndexCastOp::create(lanes.getBuilder(), lanes.getLocation(),
                                      lanes.getBuilder().getIndexType(), value);
  }
};

/// An index as it is used: counted from the front, 0 where it names no element.
struct Place {
  Term at;    ///< i64
  Term valid; ///< i1
};

Place placeOf(Term index, int64_t extent) {
  index = index.as(index.getBuilder().getI64Type());
  Term zero = index.constantInt(0), end = index.constantInt(extent);
  index = (index < zero).choose(index + end, index);
  Term valid = (index >= zero) & (index < end);
  return {valid.choose(index, zero), valid};
}

/// Strides of indices over the dimensions of the tensor they index.
Strides indexStrides(RankedTensorType indices, ArrayRef<int64_t> strides, ArrayRef<int64_t> shape) {
  return broadcastStrides(indices.getShape(), strides, shape);
}

Term absent(Term like) {
  return like.isFloat() ? like.constant(std::numeric_limits<double>::quiet_NaN())
                        : like.constantInt(0);
}

void emitTake(TakeAlongOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  const Buffer &x = frame.buffers[0], &indices = frame.buffers[1], &y = frame.buffers[2];
  int64_t axis = op.getAxis(), extent = tensorType(op.getX()).getDimSize(axis);
  int64_t pitch = strides[0][axis];
  ArrayRef<int64_t> shape = tensorType(op.getY()).getShape();
  Strides source = strides[0];
  source[axis] = 0;
  Space outer = makeSpace(
      shape, {strides[2], indexStrides(tensorType(op.getIndices()), strides[1], shape), source});
  outer.collapse();
  Space::Dim lane = outer.takeInnermost();
  bool shared = lane.strides[1] == 0; // one index for the whole row
  int64_t width = lanes.chunkLanes(widestBits(shared ? ArrayRef(x) : ArrayRef(frame.buffers)));
  Chunk one(lanes.getBuilder(), lanes.getLocation(), lanes.index(0), 1);
  forRows(frame, outer, lane, {}, [&](const RowPlace &row) {
    std::optional<Place> place;
    Value from = row.bases[2];
    if (shared) {
      place = placeOf(one.term(one.load(indices, {row.bases[1], 0})), extent);
      from = math.plus(from, math.times(math.asIndex(place->at.get()), pitch));
    }
    lanes.forLanes(row.range, width, [&](const Chunk &chunk) {
      if (shared) {
        Term element = chunk.term(chunk.load(x, {from, lane.strides[2]}));
        chunk.store(chunk.term(place->valid.get()).choose(element, absent(element)).get(), y,
                    {row.bases[0], lane.strides[0]});
        return;
      }
      Place own = placeOf(chunk.term(chunk.load(indices, {row.bases[1], lane.strides[1]})), extent);
      Term at = own.at * own.at.constantInt(pitch) +
                chunk.term(chunk.positions({row.bases[2], lane.strides[2]}));
      Term element = chunk.term(chunk.gather(own.valid.get(), x, at.get()));
      chunk.store(own.valid.choose(element, absent(element)).get(), y,
                  {row.bases[0], lane.strides[0]});
    });
  });
}

/// The dimensions but `axis`: one stride per dimension and access.
Space keptSpace(ArrayRef<int64_t> shape, int64_t axis, ArrayRef<Strides> accesses) {
  Space kept = makeSpace(shape, accesses);
  kept.dims.erase(kept.dims.begin() + axis);
  kept.collapse();
  return kept;
}

/// Runs `body` for chunks of positions of `kept`; `bases` and `lane` say where they lie.
void forColumns(KernelFrame &frame, Space kept, int64_t elementsPerLane,
                llvm::function_ref<void(const Chunk &, ArrayRef<Access>)> body) {
  Space::Dim lane = kept.takeInnermost();
  int64_t part = frame.lanes.columnLanes(widestBits(frame.buffers), lane.extent);
  forRows(frame, kept, lane, {part, elementsPerLane}, [&](const RowPlace &place) {
    frame.lanes.forLanes(place.range, part, [&](const Chunk &chunk) {
      SmallVector<Access> accesses;
      for (auto [base, stride] : llvm::zip_equal(place.bases, lane.strides))
        accesses.push_back({base, stride});
      body(chunk, accesses);
    });
  });
}

/// What a scatter reads and writes, as numbers of its operands and result.
struct ScatterOperands {
  std::optional<unsigned> initial; ///< what y starts as; absent: zeros
  unsigned updates, indices, y;
};

/// Fills a column, then joins the updates to it in their order. Every lane has a column of its own.
void emitScatter(int64_t axis, RankedTensorType type, RankedTensorType indexType, int64_t extent,
                 ScatterOperands of, ArrayRef<Strides> strides, KernelFrame &frame,
                 llvm::function_ref<Term(Term held, Term update)> join) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const Buffer &updates = frame.buffers[of.updates], &indices = frame.buffers[of.indices];
  const Buffer &y = frame.buffers[of.y];
  ArrayRef<int64_t> shape = type.getShape();
  int64_t count = shape[axis];
  Strides index = indexStrides(indexType, strides[of.indices], shape);
  int64_t pitch = strides[of.y][axis];
  SmallVector<Strides> accesses = {strides[of.y], index, strides[of.updates]};
  if (of.initial)
    accesses.push_back(strides[*of.initial]);
  Space kept = keptSpace(shape, axis, accesses);
  bool shared = kept.dims.back().strides[1] == 0 || kept.dims.back().extent == 1;
  forColumns(frame, kept, extent + count, [&](const Chunk &chunk, ArrayRef<Access> at) {
    auto moved = [&](Access access, Value position, int64_t stride) {
      return Access{math.plus(access.base, math.times(position, stride)), access.stride};
    };
    Value zero;
    if (!of.initial)
      zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(y.element));
    lanes.loop(lanes.index(0), lanes.index(extent), 1, {}, [&](Value position, ValueRange) {
      Value first = of.initial ? chunk.load(frame.buffers[*of.initial],
                                            moved(at[3], position, strides[*of.initial][axis]))
                               : zero;
      chunk.store(first, y, moved(at[0], position, pitch));
      return SmallVector<Value>();
    });
    Chunk one(builder, location, lanes.index(0), 1);
    lanes.loop(lanes.index(0), lanes.index(count), 1, {}, [&](Value position, ValueRange) {
      Access from = moved(at[1], position, index[axis]);
      auto update = [&] {
        return chunk.term(chunk.load(updates, moved(at[2], position, strides[of.updates][axis])))
            .widened();
      };
      if (shared) {
        Place place = placeOf(one.term(one.load(indices, {from.base, 0})), extent);
        auto branch =
            scf::IfOp::create(builder, location, place.valid.get(), /*withElseRegion=*/false);
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(branch.thenBlock());
        Access to = moved(at[0], math.asIndex(place.at.get()), pitch);
        Term held = chunk.term(chunk.load(y, to)).widened();
        chunk.store(join(held, update()).as(y.element).get(), y, to);
        return SmallVector<Value>();
      }
      Place place = placeOf(chunk.term(chunk.load(indices, from)), extent);
      Term to = place.at * place.at.constantInt(pitch) + chunk.term(chunk.positions(at[0]));
      Term held = chunk.term(chunk.gather(place.valid.get(), y, to.get())).widened();
      chunk.scatter(place.valid.get(), join(held, update()).as(y.element).get(), y, to.get());
      return SmallVector<Value>();
    });
  });
}

void emitScatterSum(ScatterAlongOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  emitScatter(op.getAxis(), tensorType(op.getUpdates()), tensorType(op.getIndices()),
              op.getExtent(), {std::nullopt, 0, 1, 2}, strides, frame,
              [](Term held, Term update) { return held + update; });
}

void emitScatterMax(ScatterMaxOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  emitScatter(op.getAxis(), tensorType(op.getUpdates()), tensorType(op.getIndices()),
              tensorType(op.getX()).getDimSize(op.getAxis()), {0u, 1, 2, 3}, strides, frame,
              [](Term held, Term update) {
                Term larger = (update > held).choose(update, held);
                return update.isFloat() ? update.isNan().choose(update, larger) : larger;
              });
}

void emitScatterMul(ScatterMulOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  emitScatter(op.getAxis(), tensorType(op.getUpdates()), tensorType(op.getIndices()),
              tensorType(op.getX()).getDimSize(op.getAxis()), {0u, 1, 2, 3}, strides, frame,
              [](Term held, Term update) { return held * update; });
}

void emitCumSum(CumSumOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  OpBuilder &builder = lanes.getBuilder();
  const Buffer &x = frame.buffers[0], &y = frame.buffers[1];
  int64_t axis = op.getAxis();
  ArrayRef<int64_t> shape = tensorType(op.getX()).getShape();
  Space kept = keptSpace(shape, axis, {strides[1], strides[0]});
  forColumns(frame, kept, shape[axis], [&](const Chunk &chunk, ArrayRef<Access> at) {
    Type element = x.element;
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
      element = builder.getF32Type();
    Value zero = chunk.widen(
        arith::ConstantOp::create(builder, lanes.getLocation(), builder.getZeroAttr(element)));
    lanes.loop(
        lanes.index(0), lanes.index(shape[axis]), 1, zero, [&](Value step, ValueRange carried) {
          Value position = op.getReverse() ? math.minus(lanes.index(shape[axis] - 1), step) : step;
          auto moved = [&](Access access, int64_t stride) {
            return Access{math.plus(access.base, math.times(position, stride)), access.stride};
          };
          Term before = chunk.term(carried[0]);
          Term after = before + chunk.term(chunk.load(x, moved(at[1], strides[0][axis]))).widened();
          Term sum = op.getExclusive() ? before : after;
          chunk.store(sum.as(y.element).get(), y, moved(at[0], strides[1][axis]));
          return SmallVector<Value>{after.get()};
        });
  });
}

/// Insertion into the k best so far, which lie in the results: an element passes the slots that
/// hold better ones, and those behind the slot it takes move on. O(extent * k).
void emitTopK(TopKOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  Math math{lanes};
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const Buffer &x = frame.buffers[0], &values = frame.buffers[1], &indices = frame.buffers[2];
  int64_t axis = op.getAxis(), k = op.getK();
  ArrayRef<int64_t> shape = tensorType(op.getX()).getShape();
  Space kept = keptSpace(shape, axis, {strides[1], strides[2], strides[0]});
  forColumns(frame, kept, shape[axis] * k, [&](const Chunk &chunk, ArrayRef<Access> at) {
    auto moved = [&](Access access, Value position, int64_t stride) {
      return Access{math.plus(access.base, math.times(position, stride)), access.stride};
    };
    lanes.loop(lanes.index(0), lanes.index(shape[axis]), 1, {}, [&](Value position, ValueRange) {
      // Types of 16 bits are chosen among in f32: for a choice in bf16 some processors call a function of the compiler's library.
      Value element =
          chunk.term(chunk.load(x, moved(at[2], position, strides[0][axis]))).widened().get();
      Value number = chunk.widen(
          arith::IndexCastOp::create(builder, location, builder.getI64Type(), position));
      Value used = math.smaller(math.plus(position, lanes.index(1)), lanes.index(k));
      Value never =
          chunk.widen(arith::ConstantOp::create(builder, location, builder.getBoolAttr(false)));
      lanes.loop(
          lanes.index(0), used, 1, {element, number, never}, [&](Value slot, ValueRange carried) {
            Access value = moved(at[0], slot, strides[1][axis]);
            Access index = moved(at[1], slot, strides[2][axis]);
            Term held = chunk.term(chunk.load(values, value)).widened();
            Term heldIndex = chunk.term(chunk.load(indices, index));
            Term own = chunk.term(carried[0]), ownIndex = chunk.term(carried[1]);
            Term better = op.getLargest() ? own > held : own < held;
            Value isFree =
                arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, slot, position);
            // Behind the place it takes, every element moves one slot on, equal ones too.
            better = (better.complement() & chunk.term(carried[2]).complement()).complement();
            better = chunk.term(isFree).choose(better.constantInt(1), better);
            chunk.store(better.choose(own, held).as(values.element).get(), values, value);
            chunk.store(better.choose(ownIndex, heldIndex).get(), indices, index);
            return SmallVector<Value>{better.choose(held, own).get(),
                                      better.choose(heldIndex, ownIndex).get(), better.get()};
          });
      return SmallVector<Value>();
    });
  });
}

} // namespace

static LogicalResult emitIndex(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  if (auto take = dyn_cast<TakeAlongOp>(op))
    emitTake(take, *strides, frame);
  else if (auto scatter = dyn_cast<ScatterAlongOp>(op))
    emitScatterSum(scatter, *strides, frame);
  else if (auto scatterMax = dyn_cast<ScatterMaxOp>(op))
    emitScatterMax(scatterMax, *strides, frame);
  else if (auto scatterMul = dyn_cast<ScatterMulOp>(op))
    emitScatterMul(scatterMul, *strides, frame);
  else if (auto sum = dyn_cast<CumSumOp>(op))
    emitCumSum(sum, *strides, frame);
  else
    emitTopK(cast<TopKOp>(op), *strides, frame);
  return success();
}

void addIndexKernels(KernelTable &table) {
  table.add<TakeAlongOp, ScatterAlongOp, ScatterMaxOp, ScatterMulOp, TopKOp, CumSumOp>(emitIndex);
}

} // namespace stow
