// Tables read by index, and the sum of rows by index that is their gradient.
#include "codegen/kernels/RowIndex.h"
#include "codegen/kernels/device/DeviceScatter.h"
#include "codegen/kernels/device/SharedMemory.h"
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowEmbeddingOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {

/// As RowIndex says, of an index that was read.
static RowIndex rowNamed(Lanes &lanes, Value stored, int64_t rows) {
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  Term index = Term(builder, location, stored).as(IntegerType::get(builder.getContext(), 64));
  Term zero = index.constant(0), end = index.constantInt(rows);
  index = (index < zero).choose(index + end, index);
  Term valid = (index >= zero) & (index < end);
  Value row = arith::IndexCastOp::create(builder, location, builder.getIndexType(),
                                         valid.choose(index, zero).get());
  return {row, valid.get()};
}

RowIndex loadIndex(Lanes &lanes, const Buffer &indices, Value position, int64_t rows) {
  Chunk scalar(lanes.getBuilder(), lanes.getLocation(), lanes.index(0), 1);
  return rowNamed(lanes, scalar.load(indices, {position, 0}), rows);
}

namespace {

/// The indices are read, and rows copied, as they lie: everything must be row-major, and is after
/// the assignment of layouts.
LogicalResult checkRowMajor(Operation *op) {
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    auto strides = stridesOf(tensor);
    if (!strides || *strides != rowMajorStrides(tensor.getShape()))
      return op->emitOpError() << "expects row-major tensors, found " << type
                               << "; reorder the operands first";
  }
  return success();
}

Value times(Lanes &lanes, Value a, int64_t factor) {
  return arith::MulIOp::create(lanes.getBuilder(), lanes.getLocation(), a, lanes.index(factor));
}

/// Elements of a table's row as y holds them, NaN where the index names none, or 0 where there is no NaN.
Value elementsOf(const RowIndex &index, const Buffer &table, Access access, const Buffer &y,
                 const Chunk &chunk) {
  Term element = chunk.term(chunk.load(table, access)).as(y.element);
  Term none = element.isFloat() ? element.constant(std::numeric_limits<double>::quiet_NaN())
                                : element.constantInt(0);
  return chunk.term(index.valid).choose(element, none).get();
}

/// On a device: vectors of y's positions, where none reaches over the end of a row. Accesses of the walk:
/// indices, y, and the number of the column.
bool emitVectorGather(KernelFrame &frame, const Space &positions, int64_t rows, int64_t width) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const Buffer &table = frame.buffers[0], &y = frame.buffers[2];
  Space space = positions;
  space.dims.front().strides.push_back(0);
  space.dims.push_back({width, {0, 1, 1}});
  space.offsets.push_back(0);
  VectorWalk walk(frame, space, {1, 2, 3}, 1);
  if (!walk.isUniform(0))
    return false;
  walk.runAlone([&](ArrayRef<VectorSpot> spots) {
    SmallVector<Value> stored, elements;
    for (const VectorSpot &spot : spots)
      stored.push_back(spot.loadUniform(0));
    for (auto [spot, value] : llvm::zip_equal(spots, stored)) {
      const int64_t size = spot.chunk().size();
      RowIndex index = rowNamed(lanes, value, rows);
      Value column = laneOf(builder, location, spot.elements(2), 0);
      column = arith::IndexCastOp::create(builder, location, builder.getIndexType(), column);
      elements.push_back(elementsOf(
          index, table, {times(lanes, index.row, width), 1, accessAlignment(table, size)}, y,
          Chunk(builder, location, column, size)));
    }
    for (auto [spot, value] : llvm::zip_equal(spots, elements))
      spot.store(value, 1);
  });
  return true;
}

LogicalResult emitGather(EmbeddingOp op, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  const Buffer &table = frame.buffers[0], &indices = frame.buffers[1], &y = frame.buffers[2];
  int64_t rows = tensorType(op.getTable()).getDimSize(0);
  int64_t width = tensorType(op.getTable()).getNumElements() / rows;
  Space positions; // accesses: indices, y
  positions.dims.push_back({tensorType(op.getIndices()).getNumElements(), {1, width}});
  positions.offsets = {0, 0};
  if (frame.target == KernelTarget::Device && emitVectorGather(frame, positions, rows, width))
    return success();
  Space::Dim lane{width, {0, 1}};
  forRows(frame, positions, lane, {}, [&](const RowPlace &place) {
    RowIndex index = loadIndex(lanes, indices, place.bases[0], rows);
    Value from = times(lanes, index.row, width);
    lanes.forLanes(place.range, lanes.chunkLanes(widestBits({table})), [&](const Chunk &chunk) {
      chunk.store(elementsOf(index, table, {from, 1}, y, chunk), y, {place.bases[1], 1});
    });
  });
  return success();
}

/// Sums of rows by index on the host; DeviceScatter.h has a device's. A task owns consecutive rows of the
/// table, and the indices that name them: it walks all indices in order and takes its own. So every row
/// is a sum in the order of the indices, and no two tasks write one element. Walking the indices costs
/// each task; it has rows enough that this is little beside writing them, while at least 64 tasks
/// remain.
class Scatter {
public:
  Scatter(KernelFrame &frame, const Buffer &indices, int64_t count, RankedTensorType table,
          std::optional<uint64_t> padding)
      : frame(frame), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()), indices(indices), count(count), rows(table.getDimSize(0)),
        width(table.getNumElements() / rows), padding(padding) {
    constexpr int64_t elementsPerIndex = 16, leastTasks = 64;
    auto quotient = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    rowsPerTask =
        std::min(quotient(std::max(lanes.taskElements(), elementsPerIndex * count), width),
                 quotient(rows, leastTasks));
    frame.tasks = quotient(rows, rowsPerTask);
  }

  void forTasks(llvm::function_ref<void()> body) {
    lanes.forTasks(frame.begin, frame.end, [&](Value task) {
      low = times(lanes, task, rowsPerTask);
      high = arith::AddIOp::create(builder, location, low, lanes.index(rowsPerTask));
      high = arith::MinUIOp::create(builder, location, high, lanes.index(rows));
      body();
    });
  }

  /// Every row of the task, with the number of its first element.
  void forRows(llvm::function_ref<void(Value)> body) {
    lanes.loop(low, high, 1, {}, [&](Value row, ValueRange) {
      body(times(lanes, row, width));
      return SmallVector<Value>();
    });
  }

  /// Every index of the task in order, with its position and row.
  void forOwn(llvm::function_ref<void(Value, Value)> body) {
    lanes.loop(lanes.index(0), lanes.index(count), 1, {}, [&](Value position, ValueRange) {
      RowIndex index = loadIndex(lanes, indices, position, rows);
      using arith::CmpIPredicate;
      Value own = both(compare(CmpIPredicate::uge, index.row, low),
                       compare(CmpIPredicate::ult, index.row, high));
      own = both(own, index.valid);
      if (padding)
        own = both(own, compare(CmpIPredicate::ne, index.row,
                                lanes.index(static_cast<int64_t>(*padding))));
      lanes.ifHolds(own, [&] { body(position, index.row); });
      return SmallVector<Value>();
    });
  }

  /// The first position whose index is `row`: `position`, or one before it.
  Value firstOf(Value position, Value row) {
    return lanes
        .loop(lanes.index(0), position, 1, {position},
              [&](Value other, ValueRange first) {
                RowIndex index = loadIndex(lanes, indices, other, rows);
                Value same = both(compare(arith::CmpIPredicate::eq, index.row, row), index.valid);
                Value earlier = arith::MinUIOp::create(builder, location, first.front(), other);
                return SmallVector<Value>{
                    arith::SelectOp::create(builder, location, same, earlier, first.front())};
              })
        .front();
  }

  void forLanes(const Buffer &written, ChunkBody body) {
    LaneRange whole{lanes.index(0), lanes.index(width), width, false};
    lanes.forLanes(whole, lanes.chunkLanes(widestBits({written})), body);
  }

  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, location, predicate, a, b);
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, location, a, b); }
  Value firstElement(Value row) { return times(lanes, row, width); }

private:
  KernelFrame &frame;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  const Buffer &indices;
  int64_t count, rows, width, rowsPerTask = 0;
  std::optional<uint64_t> padding;
  Value low, high; ///< rows of the task
};

/// Clears the rows and adds those of dy.
LogicalResult emitScatter(EmbeddingGradOp op, KernelFrame &frame) {
  const Buffer &dy = frame.buffers[0], &indices = frame.buffers[1], &dtable = frame.buffers[2];
  Scatter scatter(frame, indices, tensorType(op.getIndices()).getNumElements(),
                  tensorType(op.getDtable()), op.getPaddingIndex());
  OpBuilder &builder = frame.lanes.getBuilder();
  scatter.forTasks([&] {
    scatter.forRows([&](Value base) {
      scatter.forLanes(dtable, [&](const Chunk &chunk) {
        Value zero = arith::ConstantOp::create(builder, frame.lanes.getLocation(),
                                               builder.getFloatAttr(dtable.element, 0));
        chunk.store(zero, dtable, {base, 1});
      });
    });
    scatter.forOwn([&](Value position, Value row) {
      Value to = scatter.firstElement(row), from = scatter.firstElement(position);
      scatter.forLanes(dtable, [&](const Chunk &chunk) {
        Term sum = chunk.term(chunk.load(dtable, {to, 1})).widened() +
                   chunk.term(chunk.load(dy, {from, 1})).widened();
        chunk.store(sum.as(dtable.element).get(), dtable, {to, 1});
      });
    });
  });
  return success();
}

/// The same sums, each in the place of the first of its rows of dy, and then added to the gradient, of
/// which every row gets a zero added as well: the bits are those of the sums in a table of their own.
LogicalResult emitScatterAdd(EmbeddingGradAddOp op, KernelFrame &frame) {
  const Buffer &gradient = frame.buffers[0], &dy = frame.buffers[1], &indices = frame.buffers[2],
               &dtable = frame.buffers[3], &sums = frame.buffers[4];
  Scatter scatter(frame, indices, tensorType(op.getIndices()).getNumElements(),
                  tensorType(op.getDtable()), op.getPaddingIndex());
  auto add = [&](const Buffer &to, Value toBase, Term a, Term b, const Chunk &chunk) {
    chunk.store((a.widened() + b.widened()).as(to.element).get(), to, {toBase, 1});
  };
  scatter.forTasks([&] {
    scatter.forRows([&](Value base) {
      scatter.forLanes(dtable, [&](const Chunk &chunk) {
        Term old = chunk.term(chunk.load(gradient, {base, 1}));
        add(dtable, base, old, old.constant(0), chunk);
      });
    });
    scatter.forOwn([&](Value position, Value row) {
      Value first = scatter.firstOf(position, row), to = scatter.firstElement(first);
      Value from = scatter.firstElement(position);
      Value isFirst = scatter.compare(arith::CmpIPredicate::eq, first, position);
      scatter.forLanes(dtable, [&](const Chunk &chunk) {
        Term known = chunk.term(chunk.load(sums, {to, 1}));
        Term so = chunk.term(isFirst).choose(known.constant(0), known);
        add(sums, to, so, chunk.term(chunk.load(dy, {from, 1})), chunk);
      });
    });
    scatter.forOwn([&](Value position, Value row) {
      Value isFirst =
          scatter.compare(arith::CmpIPredicate::eq, scatter.firstOf(position, row), position);
      frame.lanes.ifHolds(isFirst, [&] {
        Value to = scatter.firstElement(row), from = scatter.firstElement(position);
        scatter.forLanes(dtable, [&](const Chunk &chunk) {
          add(dtable, to, chunk.term(chunk.load(dtable, {to, 1})),
              chunk.term(chunk.load(sums, {from, 1})), chunk);
        });
      });
    });
  });
  return success();
}

LogicalResult emitOnDevice(Operation *op, KernelFrame &frame) {
  auto sum = dyn_cast<EmbeddingGradAddOp>(op);
  auto table = tensorType(op->getResult(0));
  ArrayRef<Buffer> buffers(frame.buffers);
  ScatterProblem problem;
  if (sum) {
    problem.gradient = buffers.front();
    problem.sums = buffers.back();
    buffers = buffers.slice(1, 3);
  }
  problem.dy = buffers[0], problem.indices = buffers[1], problem.dtable = buffers[2];
  problem.count = tensorType(op->getOperand(sum ? 2 : 1)).getNumElements();
  problem.rows = table.getDimSize(0);
  problem.width = table.getNumElements() / problem.rows;
  problem.padding = sum ? sum.getPaddingIndex() : cast<EmbeddingGradOp>(op).getPaddingIndex();
  emitDeviceScatter(frame, problem);
  return success();
}

} // namespace

static LogicalResult emitEmbedding(Operation *op, KernelFrame &frame) {
  if (failed(checkRowMajor(op)))
    return failure();
  if (auto gather = dyn_cast<EmbeddingOp>(op))
    return emitGather(gather, frame);
  if (frame.target == KernelTarget::Device)
    return emitOnDevice(op, frame);
  if (auto sum = dyn_cast<EmbeddingGradAddOp>(op))
    return emitScatterAdd(sum, frame);
  return emitScatter(cast<EmbeddingGradOp>(op), frame);
}

void addEmbeddingKernels(KernelTable &table) {
  table.add<EmbeddingOp, EmbeddingGradOp, EmbeddingGradAddOp>(emitEmbedding);
}

} // namespace stow
