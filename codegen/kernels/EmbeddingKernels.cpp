// Tables read by index, and the sum of rows by index that is their gradient.
#include "codegen/kernels/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace stow {
namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

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

/// The row an index names, and whether there is such a row. Negative indices count from the end.
struct RowIndex {
  Value row;   ///< an index; 0 where there is none
  Value valid; ///< i1
};

RowIndex loadIndex(Lanes &lanes, const Buffer &indices, Value position, int64_t rows) {
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  Chunk scalar(builder, location, lanes.index(0), 1);
  Term index = scalar.term(scalar.load(indices, {position, 0}))
                   .as(IntegerType::get(builder.getContext(), 64));
  Term zero = index.constant(0), end = index.constantInt(rows);
  index = (index < zero).choose(index + end, index);
  Term valid = (index >= zero) & (index < end);
  Value row = arith::IndexCastOp::create(builder, location, builder.getIndexType(),
                                         valid.choose(index, zero).get());
  return {row, valid.get()};
}

Value times(Lanes &lanes, Value a, int64_t factor) {
  return arith::MulIOp::create(lanes.getBuilder(), lanes.getLocation(), a, lanes.index(factor));
}

LogicalResult emitGather(EmbeddingOp op, KernelFrame &frame) {
  Lanes &lanes = frame.lanes;
  const Buffer &table = frame.buffers[0], &indices = frame.buffers[1], &y = frame.buffers[2];
  int64_t rows = tensorType(op.getTable()).getDimSize(0);
  int64_t width = tensorType(op.getTable()).getNumElements() / rows;
  Space positions; // accesses: indices, y
  positions.dims.push_back({tensorType(op.getIndices()).getNumElements(), {1, width}});
  positions.offsets = {0, 0};
  Space::Dim lane{width, {0, 1}};
  forRows(frame, positions, lane, {}, [&](const RowPlace &place) {
    RowIndex index = loadIndex(lanes, indices, place.bases[0], rows);
    Value from = times(lanes, index.row, width);
    lanes.forLanes(place.range, lanes.chunkLanes(widestBits({table})), [&](const Chunk &chunk) {
      Term element = chunk.term(chunk.load(table, {from, 1}));
      Term none = element.constant(std::numeric_limits<double>::quiet_NaN());
      chunk.store(chunk.term(index.valid).choose(element, none).get(), y, {place.bases[1], 1});
    });
  });
  return success();
}

/// A task owns consecutive rows of the table: it clears them and then walks all indices in order,
/// adding the rows of dy that are its own. So every row is a sum in the order of the indices, and
/// no two tasks write one element. Walking the indices costs each task; it has rows enough that
/// this is little beside clearing them, while at least 64 tasks remain.
LogicalResult emitScatter(EmbeddingGradOp op, KernelFrame &frame) {
  constexpr int64_t elementsPerIndex = 16, leastTasks = 64;
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const Buffer &dy = frame.buffers[0], &indices = frame.buffers[1], &dtable = frame.buffers[2];
  int64_t rows = op.getRows(), count = tensorType(op.getIndices()).getNumElements();
  int64_t width = tensorType(op.getDtable()).getNumElements() / rows;
  auto quotient = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t rowsPerTask =
      std::min(quotient(std::max(lanes.taskElements(), elementsPerIndex * count), width),
               quotient(rows, leastTasks));
  frame.tasks = quotient(rows, rowsPerTask);

  int64_t chunkLanes = lanes.chunkLanes(widestBits({dtable}));
  LaneRange whole{lanes.index(0), lanes.index(width), width, false};
  lanes.forTasks(frame.begin, frame.end, [&](Value task) {
    Value low = times(lanes, task, rowsPerTask);
    Value high = arith::AddIOp::create(builder, location, low, lanes.index(rowsPerTask));
    high = arith::MinUIOp::create(builder, location, high, lanes.index(rows));
    lanes.loop(low, high, 1, {}, [&](Value row, ValueRange) {
      Value base = times(lanes, row, width);
      lanes.forLanes(whole, chunkLanes, [&](const Chunk &chunk) {
        Value zero =
            arith::ConstantOp::create(builder, location, builder.getFloatAttr(dtable.element, 0));
        chunk.store(zero, dtable, {base, 1});
      });
      return SmallVector<Value>();
    });
    lanes.loop(lanes.index(0), lanes.index(count), 1, {}, [&](Value position, ValueRange) {
      RowIndex index = loadIndex(lanes, indices, position, rows);
      using arith::CmpIPredicate;
      Value above = arith::CmpIOp::create(builder, location, CmpIPredicate::uge, index.row, low);
      Value below = arith::CmpIOp::create(builder, location, CmpIPredicate::ult, index.row, high);
      Value own = arith::AndIOp::create(builder, location, above, below);
      own = arith::AndIOp::create(builder, location, own, index.valid);
      if (auto padding = op.getPaddingIndex()) {
        Value other = arith::CmpIOp::create(builder, location, CmpIPredicate::ne, index.row,
                                            lanes.index(static_cast<int64_t>(*padding)));
        own = arith::AndIOp::create(builder, location, own, other);
      }
      auto branch = scf::IfOp::create(builder, location, own, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      Value to = times(lanes, index.row, width), from = times(lanes, position, width);
      lanes.forLanes(whole, chunkLanes, [&](const Chunk &chunk) {
        Term sum = chunk.term(chunk.load(dtable, {to, 1})).widened() +
                   chunk.term(chunk.load(dy, {from, 1})).widened();
        chunk.store(sum.as(dtable.element).get(), dtable, {to, 1});
      });
      return SmallVector<Value>();
    });
  });
  return success();
}

} // namespace

static LogicalResult emitEmbedding(Operation *op, KernelFrame &frame) {
  if (failed(checkRowMajor(op)))
    return failure();
  if (auto gather = dyn_cast<EmbeddingOp>(op))
    return emitGather(gather, frame);
  return emitScatter(cast<EmbeddingGradOp>(op), frame);
}

void addEmbeddingKernels(KernelTable &table) {
  table.add<EmbeddingOp, EmbeddingGradOp>(emitEmbedding);
}

} // namespace stow
