// Pooling: each element of a result reads its window.
//
//   forward    y[i]  = maximum or mean of x[i * stride - pad + tap * dilation], taps inside x
//   gradient   dx[h] = sum of dy[i] over the taps with i * stride - pad + tap * dilation = h;
//              of maxima only where tap is the saved one
//
// A gradient gathers where the textbook scatters: no two threads write one element, and sums are
// taken in the order of the taps. Short windows are unrolled, others are loops. What max pooling saves
// is the number of the tap, row-major in the window; the first of equal maxima wins, and NaN wins over
// everything, as in PyTorch.
#include "codegen/kernels/Fold.h"
#include "codegen/kernels/device/DevicePools.h"
#include "ir/StowPoolOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;

namespace stow {
namespace {

//===-- Forward -------------------------------------------------------------------------------===//

/// Windows along a row. Accesses behind those of the results: x at the window's first tap, then the
/// position of that tap along each axis.
class RowWindow final : public Window {
public:
  RowWindow(const Pooling &pooling, const Chunk &chunk, const RowPlace &place,
            const Space::Dim &lane, size_t access, const Buffer &x, ArrayRef<int64_t> xStrides)
      : Window(pooling, chunk, chunk), base(place.bases[access]), stride(lane.strides[access]),
        x(x), xStrides(xStrides) {
    for (size_t i = 0; i < pooling.axes.size(); ++i)
      first.push_back(pooling.position(chunk, place, lane, access + 1 + i));
  }

  Term load(ArrayRef<Value> taps, std::optional<Term> inside) const override {
    Value at = base;
    for (auto [i, tap] : llvm::enumerate(taps))
      at = pooling.plus(at, pooling.times(tap, pooling.axes[i].dilation * xStrides[i + 2]));
    const Access access{at, stride};
    return chunk.term(inside ? chunk.loadWhere(inside->get(), x, access) : chunk.load(x, access))
        .widened();
  }

private:
  Value base;
  int64_t stride;
  const Buffer &x;
  ArrayRef<int64_t> xStrides;
};

/// Runs `body` for the chunks of all results of a forward op, whose operand is x: with the window, and
/// a function that stores result `i`.
void forWindows(Operation *op, KernelFrame &frame, ArrayRef<SmallVector<int64_t>> strides,
                Pooling &pooling, WindowBody body) {
  if (frame.target == KernelTarget::Device)
    return forDeviceWindows(op, frame, strides, pooling, body);
  const size_t results = op->getNumResults();
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  SmallVector<SmallVector<int64_t>> accesses(strides.begin() + 1, strides.end());
  SmallVector<int64_t> moving(strides[0]);
  int64_t offset = 0;
  for (auto [i, axis] : llvm::enumerate(pooling.axes)) {
    offset -= axis.pad * moving[i + 2];
    moving[i + 2] *= axis.stride;
  }
  accesses.push_back(moving);
  for (auto [i, axis] : llvm::enumerate(pooling.axes))
    accesses.emplace_back(shape.size(), 0)[i + 2] = axis.stride;
  Space space = makeSpace(shape, accesses);
  space.offsets[results] = offset;
  for (auto [i, axis] : llvm::enumerate(pooling.axes))
    space.offsets[results + 1 + i] = -axis.pad;
  space.collapse();
  Space::Dim lane = space.takeInnermost();
  const int64_t width = frame.lanes.chunkLanes(widestBits(frame.buffers));
  forRows(frame, space, lane, {std::nullopt, windowSize(pooling.axes)}, [&](const RowPlace &place) {
    frame.lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      RowWindow window(pooling, chunk, place, lane, results, frame.buffers[0], strides[0]);
      body(chunk, window, [&](Term value, size_t result) {
        const Buffer &to = frame.buffers[1 + result];
        chunk.store(value.as(to.element).get(), to, {place.bases[result], lane.strides[result]});
      });
    });
  });
}

LogicalResult emitMaxPool(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  auto x = cast<RankedTensorType>(op->getOperand(0).getType());
  Pooling pooling(frame, axesOf(op, x, cast<RankedTensorType>(op->getResult(0).getType())));
  const bool isTraining = op->getNumResults() == 2;
  Type element = computeType(x), index = pooling.builder.getI32Type();
  auto body = [&](const Chunk &chunk, const Window &window, auto store) {
    const double least = -std::numeric_limits<double>::infinity();
    SmallVector<Value> start = {pooling.constant(chunk, element, least).get()};
    if (isTraining) // no tap yet
      start.push_back(pooling.constant(chunk, index, -1).get());
    auto best =
        pooling.overTaps(start, [&](ArrayRef<Value> taps, Value number, ValueRange carried) {
          const auto inside = window.isInside(taps);
          Term value = window.load(taps, inside), old = chunk.term(carried[0]);
          Term loses = (value > old).complement() & value.isNan().complement();
          if (isTraining) // a window of nothing but -inf has its maximum at its first tap
            loses = loses & (chunk.term(carried[1]) >= chunk.term(start[1]).constant(0));
          Term wins = loses.complement();
          if (inside)
            wins = wins & chunk.term(inside->get());
          SmallVector<Value> next = {wins.choose(value, old).get()};
          if (isTraining)
            next.push_back(
                wins.choose(pooling.number(chunk, number, index), chunk.term(carried[1])).get());
          return next;
        });
    for (auto [i, value] : llvm::enumerate(best))
      store(chunk.term(value), i);
  };
  forWindows(op, frame, *strides, pooling, body);
  return success();
}

LogicalResult emitAvgPool(Operation *operation, KernelFrame &frame) {
  auto op = cast<AvgPoolOp>(operation);
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  Pooling pooling(frame, axesOf(op, op.getX().getType(), op.getY().getType()));
  Type element = computeType(op.getX().getType());
  auto body = [&](const Chunk &chunk, const Window &window, auto store) {
    Value zero = pooling.constant(chunk, element, 0).get();
    Value sum = pooling.overTaps(zero, [&](ArrayRef<Value> taps, Value, ValueRange carried) {
      Term value = window.load(taps, window.isInside(taps));
      return SmallVector<Value>{(chunk.term(carried[0]) + value).get()};
    })[0];
    Term mean = chunk.term(sum);
    int64_t whole = 1; // taps along the axes without edges
    for (auto [axis, first] : llvm::zip_equal(pooling.axes, window.first))
      if (op.getCountIncludePad() || !axis.hasEdges())
        whole *= axis.taps;
      else
        mean = mean / chunk.term(pooling.tapsInside(axis, first).as(element).get());
    store(mean / static_cast<double>(whole), 0);
  };
  forWindows(op, frame, *strides, pooling, body);
  return success();
}

//===-- Gradients -----------------------------------------------------------------------------===//

/// Element `at` of the input, counted from the first tap of the first window, as a tap of a window:
/// the window's number, and where there is one.
struct Hit {
  Term window;
  Term exists;
};

Hit hitOf(const Pooling &pooling, const Axis &axis, const Chunk &chunk, Term at, Value tap) {
  Term moved = at - pooling.number(chunk, pooling.times(tap, axis.dilation), at.element());
  Term window = moved;
  if (axis.stride > 1) // numbers below 0 are huge as unsigned ones
    window = moved.with(arith::DivUIOp::create(pooling.builder, pooling.location, moved.get(),
                                               moved.constant(axis.stride).get()));
  Term exists = (window >= window.constant(0)) & (window < window.constant(axis.outputs));
  if (axis.stride > 1)
    exists = exists & (window * window.constant(axis.stride)).equals(moved);
  return {window, exists};
}

/// dx of both kinds: operands dy and, for maxima, the saved taps.
LogicalResult emitPoolGrad(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  if (frame.target == KernelTarget::Device) {
    emitDevicePoolGrad(op, frame, *strides);
    return success();
  }
  auto dx = cast<RankedTensorType>(op->getResult(0).getType());
  auto dy = cast<RankedTensorType>(op->getOperand(0).getType());
  Pooling pooling(frame, axesOf(op, dx, dy));
  auto average = dyn_cast<AvgPoolGradOp>(op);
  const size_t operands = op->getNumOperands();
  // Accesses: dx, the operands without their place in space, and the position along each axis.
  SmallVector<SmallVector<int64_t>> accesses = {strides->back()};
  for (size_t i = 0; i < operands; ++i)
    accesses.push_back(withoutSpace((*strides)[i]));
  const size_t positions = accesses.size();
  for (size_t i = 0; i < pooling.axes.size(); ++i)
    accesses.emplace_back(dx.getRank(), 0)[i + 2] = 1;
  Space space = makeSpace(dx.getShape(), accesses);
  for (auto [i, axis] : llvm::enumerate(pooling.axes))
    space.offsets[positions + i] = axis.pad;
  space.collapse();
  Space::Dim lane = space.takeInnermost();
  Type element = computeType(dy);
  int64_t whole = 1; // what every window is divided by
  for (const Axis &axis : pooling.axes)
    whole *= average && (average.getCountIncludePad() || !axis.hasEdges()) ? axis.taps : 1;

  auto total = [&](const Chunk &chunk, const RowPlace &place) {
    SmallVector<Term> at;
    for (size_t i = 0; i < pooling.axes.size(); ++i)
      at.push_back(pooling.position(chunk, place, lane, positions + i));
    auto gather = [&](size_t operand, ArrayRef<Term> windows, Term exists) {
      const size_t access = operand + 1;
      Term where = chunk.term(chunk.positions({place.bases[access], lane.strides[access]}));
      for (auto [i, window] : llvm::enumerate(windows))
        where = where + window.as(where.element()) *
                            where.constant(static_cast<double>((*strides)[operand][i + 2]));
      return chunk.term(chunk.gather(exists.get(), frame.buffers[operand], where.get()));
    };
    Term zero = pooling.constant(chunk, element, 0);
    return pooling.overTaps(
        zero.get(), [&](ArrayRef<Value> taps, Value number, ValueRange carried) {
          SmallVector<Term> windows;
          std::optional<Term> exists;
          for (auto [axis, from, tap] : llvm::zip_equal(pooling.axes, at, taps)) {
            Hit hit = hitOf(pooling, axis, chunk, from, tap);
            windows.push_back(hit.window);
            exists = Pooling::both(exists, hit.exists);
          }
          Term value = gather(0, windows, *exists).widened();
          if (average && !average.getCountIncludePad())
            for (auto [axis, window] : llvm::zip_equal(pooling.axes, windows))
              if (axis.hasEdges()) {
                Term first = window * window.constant(axis.stride) - window.constant(axis.pad);
                value = value / pooling.tapsInside(axis, first).as(element);
              }
          Term counts = *exists;
          if (!average) {
            Term saved = gather(1, windows, *exists);
            counts = counts & saved.equals(pooling.number(chunk, number, saved.element()));
          }
          return SmallVector<Value>{(chunk.term(carried[0]) + counts.choose(value, zero)).get()};
        })[0];
  };
  const int64_t width = frame.lanes.chunkLanes(widestBits(frame.buffers));
  forRows(frame, space, lane, {std::nullopt, windowSize(pooling.axes)}, [&](const RowPlace &place) {
    frame.lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      const Buffer &to = frame.buffers.back();
      Term sum = chunk.term(total(chunk, place)) / static_cast<double>(whole);
      chunk.store(sum.as(to.element).get(), to, {place.bases[0], lane.strides[0]});
    });
  });
  return success();
}

} // namespace

void addPoolKernels(KernelTable &table) {
  const KernelTable::Limits anyPart = {.takesPart = takesAnyPart};
  table.add<MaxPoolOp, MaxPoolTrainingOp>(emitMaxPool, anyPart);
  table.add<AvgPoolOp>(emitAvgPool, anyPart);
  table.add<MaxPoolGradOp, AvgPoolGradOp>(emitPoolGrad, anyPart);
}

} // namespace stow
