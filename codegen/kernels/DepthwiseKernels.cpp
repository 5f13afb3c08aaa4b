// Depthwise convolutions (one input channel per group, one output channel) and their gradients.
//
// Channels are the lanes. A task computes one row of the result image for all channels: for a
// strip of columns it holds the sums in registers and walks the taps, whose weights lie channels
// innermost as the image does ([kh, kw, C]: nothing is padded, whatever the number of channels).
// Columns come in blocks; a block's taps are known when the kernel is written, so that columns at
// the edges have fewer taps instead of comparisons:
//
//   x      . 0 1 2 3 4 5 6 .        three taps, padding 1
//   block  [y0 y1 y2 y3][y4 y5 y6]
//   taps    2  3  3  3   3  3  2    blocks that have all their taps are one loop
//
// The input's gradient is the same with the roles of x and y exchanged; with stride s its columns
// repeat every s, and blocks are multiples of s. The weight's gradient holds the taps of one row of
// the window in registers and walks the images; sums over one image are added to the total.
#include "codegen/kernels/Emit.h"
#include "codegen/kernels/Kernels.h"
#include "ir/StowLinearOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace stow {
namespace {

/// One spatial dimension: which element of the source a tap reads for an element of the result.
struct Axis {
  int64_t results, sources, taps, stride, dilation, pad;
  bool transposed = false; ///< the gradient of the input: the source is the smaller image

  /// Columns after which the pattern of taps repeats.
  int64_t period() const { return transposed ? stride : 1; }

  /// Source position for a result; none outside and between the strides of a transposed one.
  std::optional<int64_t> source(int64_t result, int64_t tap) const {
    int64_t at =
        transposed ? result + pad - tap * dilation : result * stride - pad + tap * dilation;
    if (transposed && at % stride != 0)
      return std::nullopt;
    at = transposed ? at / stride : at;
    return at >= 0 && at < sources ? std::optional(at) : std::nullopt;
  }

  /// Source position that moves with the blocks: that of `result`, a multiple of the period, but
  /// for padding and tap.
  int64_t moving(int64_t result) const { return transposed ? result / stride : result * stride; }
};

/// What one column of a block reads.
struct Tap {
  int64_t column, tap;
  int64_t offset; ///< source position, counted from the block's moving position
  bool operator==(const Tap &) const = default;
};

/// The columns of a row in blocks, those with the same taps as one loop.
struct Blocks {
  struct Run {
    int64_t first, count; ///< blocks
    int64_t columns;      ///< of one block
    SmallVector<Tap> taps;
  };
  int64_t columns; ///< of a block, but for the last
  SmallVector<Run> runs;
};

Blocks blocksOf(const Axis &axis) {
  constexpr int64_t kColumns = 4;
  Blocks blocks;
  blocks.columns = (kColumns + axis.period() - 1) / axis.period() * axis.period();
  for (int64_t start = 0, block = 0; start < axis.results; start += blocks.columns, ++block) {
    Blocks::Run run{block, 1, std::min(blocks.columns, axis.results - start), {}};
    for (int64_t column = 0; column < run.columns; ++column)
      for (int64_t tap = 0; tap < axis.taps; ++tap)
        if (auto source = axis.source(start + column, tap))
          run.taps.push_back({column, tap, *source - axis.moving(start)});
    if (!blocks.runs.empty() && blocks.runs.back().columns == run.columns &&
        blocks.runs.back().taps == run.taps)
      ++blocks.runs.back().count;
    else
      blocks.runs.push_back(std::move(run));
  }
  return blocks;
}

/// Strides of an image [N,C,H,W] or a weight [C,1,kh,kw], and its buffer.
struct Tensor {
  Buffer buffer;
  int64_t outer, channel, row, column;
};

class Emitter {
public:
  Emitter(KernelFrame &frame, Type element)
      : frame(frame), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()), element(element) {}

  Value plus(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }
  Value plus(Value a, int64_t b) { return b == 0 ? a : plus(a, lanes.index(b)); }
  Value times(Value a, int64_t by) {
    return by == 1 ? a : Value(arith::MulIOp::create(builder, location, a, lanes.index(by)));
  }

  Value load(const Chunk &chunk, const Tensor &tensor, Value base) {
    return chunk.term(chunk.load(tensor.buffer, {base, tensor.channel})).widened().get();
  }
  void store(const Chunk &chunk, Value value, const Tensor &tensor, Value base) {
    chunk.store(chunk.term(value).as(tensor.buffer.element).get(), tensor.buffer,
                {base, tensor.channel});
  }
  Value multiplyAdd(const Chunk &chunk, Value a, Value b, Value sum) {
    return chunk.term(a).fma(chunk.term(b), chunk.term(sum)).get();
  }
  Value add(const Chunk &chunk, Value a, Value b) { return (chunk.term(a) + chunk.term(b)).get(); }
  Value zero(const Chunk &chunk) {
    return arith::ConstantOp::create(builder, location, builder.getZeroAttr(chunk.type(element)));
  }

  /// Runs `body` with the source row that row tap `tap` reads for result row `result`, where there
  /// is one; carries `sums` on where there is none.
  SmallVector<Value> whereRow(const Axis &axis, Value result, Value tap, ValueRange sums,
                              llvm::function_ref<SmallVector<Value>(Value)> body) {
    Value moved = times(tap, axis.dilation), at, exists;
    if (axis.transposed) {
      at = arith::SubIOp::create(builder, location, plus(result, axis.pad), moved);
      // Positions before the first are huge as unsigned numbers.
      exists = below(at, axis.sources * axis.stride);
      if (axis.stride > 1) {
        Value rest = arith::RemUIOp::create(builder, location, at, lanes.index(axis.stride));
        Value hit = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, rest,
                                          lanes.index(0));
        exists = arith::AndIOp::create(builder, location, exists, hit);
        at = arith::DivUIOp::create(builder, location, at, lanes.index(axis.stride));
      }
    } else {
      at = plus(plus(times(result, axis.stride), moved), -axis.pad);
      exists = below(at, axis.sources);
    }
    auto branch = scf::IfOp::create(builder, location, sums.getTypes(), exists, true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, location, body(at));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, location, sums);
    return SmallVector<Value>(branch.getResults());
  }

  /// Runs `body` for every block of columns: with its run, its first column and its moving source
  /// position. `carried` goes from block to block.
  SmallVector<Value> forBlocks(
      const Axis &axis, const Blocks &blocks, SmallVector<Value> carried,
      llvm::function_ref<SmallVector<Value>(const Blocks::Run &, Value, Value, ValueRange)> body) {
    int64_t columns = blocks.columns, sources = axis.moving(columns);
    for (const Blocks::Run &run : blocks.runs) {
      auto block = [&](Value number, ValueRange values) {
        return body(run, times(number, columns), times(number, sources), values);
      };
      carried = run.count == 1 ? block(lanes.index(run.first), carried)
                               : lanes.loop(lanes.index(run.first),
                                            lanes.index(run.first + run.count), 1, carried, block);
    }
    return carried;
  }

  KernelFrame &frame;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  Type element; ///< sums are of this type

private:
  Value below(Value at, int64_t bound) {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, at,
                                 lanes.index(bound));
  }
};

/// What a window moves over.
struct Planes {
  Axis rows, columns;
  int64_t images, channels;
};

/// result[n, c, i, j] = bias[c] + the sum over taps of source * weight.
void emitImage(Emitter &emit, const Planes &planes, const Tensor &source, const Tensor &weight,
               const std::optional<Tensor> &bias, const Tensor &result) {
  const auto &[rows, columns, images, channels] = planes;
  Blocks blocks = blocksOf(columns);
  // Accesses: result, source and the number of the result's row.
  Space outer;
  outer.offsets.assign(3, 0);
  outer.dims.push_back({images, {result.outer, source.outer, 0}});
  outer.dims.push_back({rows.results, {result.row, 0, 1}});
  Space::Dim lane{channels, {result.channel, source.channel, 0}};
  int64_t width = emit.lanes.chunkLanes(emit.element.getIntOrFloatBitWidth());
  int64_t work = columns.results * columns.taps * rows.taps;
  forRows(emit.frame, outer, lane, {std::nullopt, work}, [&](const RowPlace &place) {
    emit.lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      Value start = bias ? emit.load(chunk, *bias, emit.lanes.index(0)) : emit.zero(chunk);
      auto block = [&](const Blocks::Run &run, Value column, Value moving, ValueRange) {
        SmallVector<Value> sums(run.columns, start);
        Value base = emit.plus(place.bases[1], emit.times(moving, source.column));
        sums = emit.lanes.loop(
            emit.lanes.index(0), emit.lanes.index(rows.taps), 1, sums,
            [&](Value rowTap, ValueRange carried) {
              return emit.whereRow(rows, place.bases[2], rowTap, carried, [&](Value row) {
                SmallVector<Value> next(carried);
                Value line = emit.plus(base, emit.times(row, source.row));
                Value weights = emit.times(rowTap, weight.row);
                SmallVector<Value> ofTap(columns.taps);
                for (const Tap &tap : run.taps) {
                  if (!ofTap[tap.tap])
                    ofTap[tap.tap] =
                        emit.load(chunk, weight, emit.plus(weights, tap.tap * weight.column));
                  Value x = emit.load(chunk, source, emit.plus(line, tap.offset * source.column));
                  next[tap.column] = emit.multiplyAdd(chunk, x, ofTap[tap.tap], next[tap.column]);
                }
                return next;
              });
            });
        Value to = emit.plus(place.bases[0], emit.times(column, result.column));
        for (auto [i, sum] : llvm::enumerate(sums))
          emit.store(chunk, sum, result, emit.plus(to, static_cast<int64_t>(i) * result.column));
        return SmallVector<Value>();
      };
      emit.forBlocks(columns, blocks, {}, block);
    });
  });
}

/// dweight[c, kh, kw] = the sum over images and positions of x * dy.
void emitWeight(Emitter &emit, const Planes &planes, const Tensor &x, const Tensor &dy,
                const Tensor &dweight) {
  const auto &[rows, columns, images, channels] = planes;
  Blocks blocks = blocksOf(columns);
  // Accesses: dweight and the number of the window's row.
  Space outer;
  outer.offsets.assign(2, 0);
  outer.dims.push_back({rows.taps, {dweight.row, 1}});
  Space::Dim lane{channels, {dweight.channel, 0}};
  // Long rows of taps leave half the registers to each.
  int64_t width = emit.lanes.chunkLanes(emit.element.getIntOrFloatBitWidth());
  width = columns.taps > 6 && width > 8 ? width / 2 : width;
  int64_t part = std::max(width, emit.lanes.columnLanes(32, channels));
  int64_t work = images * rows.results * columns.results * columns.taps;
  forRows(emit.frame, outer, lane, {part, work}, [&](const RowPlace &place) {
    emit.lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      Lanes &lanes = emit.lanes;
      // Few taps: neighbouring columns have sums of their own, so that none waits for the other.
      int64_t sets = columns.taps <= 3 ? 2 : 1;
      SmallVector<Value> none(sets * columns.taps, emit.zero(chunk));
      auto row = [&](Value image, Value number, ValueRange sums) {
        return emit.whereRow(rows, number, place.bases[1], sums, [&](Value source) {
          Value from = emit.plus(emit.times(image, x.outer), emit.times(source, x.row));
          Value at = emit.plus(emit.times(image, dy.outer), emit.times(number, dy.row));
          return emit.forBlocks(
              columns, blocks, SmallVector<Value>(sums),
              [&](const Blocks::Run &run, Value column, Value moving, ValueRange carried) {
                SmallVector<Value> next(carried);
                Value line = emit.plus(from, emit.times(moving, x.column));
                Value gradients = emit.plus(at, emit.times(column, dy.column));
                SmallVector<Value> ofColumn(run.columns);
                for (const Tap &tap : run.taps) {
                  if (!ofColumn[tap.column])
                    ofColumn[tap.column] =
                        emit.load(chunk, dy, emit.plus(gradients, tap.column * dy.column));
                  Value value = emit.load(chunk, x, emit.plus(line, tap.offset * x.column));
                  Value &sum = next[tap.column % sets * columns.taps + tap.tap];
                  sum = emit.multiplyAdd(chunk, value, ofColumn[tap.column], sum);
                }
                return next;
              });
        });
      };
      auto totals = lanes.loop(
          lanes.index(0), lanes.index(images), 1, none, [&](Value image, ValueRange before) {
            auto sums = lanes.loop(
                lanes.index(0), lanes.index(rows.results), 1, none,
                [&](Value number, ValueRange carried) { return row(image, number, carried); });
            for (auto [sum, total] : llvm::zip_equal(sums, before))
              sum = emit.add(chunk, sum, total);
            return sums;
          });
      for (int64_t tap = 0; tap < columns.taps; ++tap) {
        Value total = totals[tap];
        for (int64_t set = 1; set < sets; ++set)
          total = emit.add(chunk, total, totals[set * columns.taps + tap]);
        emit.store(chunk, total, dweight, emit.plus(place.bases[0], tap * dweight.column));
      }
    });
  });
}

/// Positions of image, weight and result among operands and results, whatever the op.
struct Positions {
  unsigned x, weight, y;
};

Positions positionsOf(Operation *op) {
  if (isa<Conv2dOp>(op))
    return {0, 1, op->getNumOperands()};
  if (isa<Conv2dGradInputOp>(op))
    return {2, 1, 0};
  return {0, 2, 1};
}

RankedTensorType typeAt(Operation *op, unsigned position) {
  Type type = position < op->getNumOperands()
                  ? op->getOperand(position).getType()
                  : op->getResult(position - op->getNumOperands()).getType();
  return cast<RankedTensorType>(type);
}

} // namespace

static bool isDepthwise(Operation *op) {
  if (!isa<Conv2dOp, Conv2dGradInputOp, Conv2dGradWeightOp>(op))
    return false;
  auto [x, weight, y] = positionsOf(op);
  auto shape = typeAt(op, weight).getShape();
  return shape.size() == 4 && shape[0] > 1 && shape[1] == 1 &&
         op->getAttrOfType<IntegerAttr>("groups").getInt() == shape[0];
}

static LogicalResult emitDepthwise(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  auto [xAt, weightAt, yAt] = positionsOf(op);
  auto tensor = [&](unsigned position) {
    ArrayRef<int64_t> s = (*strides)[position];
    return Tensor{frame.buffers[position], s[0], s[1], s[2], s[3]};
  };
  Tensor x = tensor(xAt), y = tensor(yAt), weight = tensor(weightAt);
  weight.channel = weight.outer; // [C,1,kh,kw]
  auto xShape = typeAt(op, xAt).getShape(), yShape = typeAt(op, yAt).getShape(),
       window = typeAt(op, weightAt).getShape();
  auto ints = [&](StringRef name) {
    return op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
  };
  auto axis = [&](int64_t dim, bool transposed) {
    int64_t in = xShape[dim + 2], out = yShape[dim + 2];
    return Axis{
        transposed ? in : out,  transposed ? out : in, window[dim + 2], ints("strides")[dim],
        ints("dilations")[dim], ints("pads")[dim],     transposed};
  };
  Type element = getElementTypeOrSelf(typeAt(op, yAt));
  if (element.getIntOrFloatBitWidth() < 32)
    element = Float32Type::get(op->getContext());
  Emitter emit(frame, element);
  const bool transposed = isa<Conv2dGradInputOp>(op);
  const Planes planes{axis(0, transposed), axis(1, transposed), xShape[0], xShape[1]};
  if (isa<Conv2dGradWeightOp>(op)) {
    emitWeight(emit, planes, x, y, weight);
    return success();
  }
  std::optional<Tensor> bias;
  if (!transposed && op->getNumOperands() == 3)
    bias = Tensor{frame.buffers[2], 0, (*strides)[2][0], 0, 0};
  emitImage(emit, planes, transposed ? y : x, weight, bias, transposed ? x : y);
  return success();
}

void addDepthwiseKernels(KernelTable &table) {
  table.add<Conv2dOp, Conv2dGradInputOp, Conv2dGradWeightOp>(emitDepthwise, {.takes = isDepthwise});
}

} // namespace stow
