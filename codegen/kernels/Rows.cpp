// Rows: how tasks walk an iteration space, and folds along and across the lanes.
#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/device/DeviceRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
SmallVector<Value> rowBases(Lanes &lanes, const Space &outer, Value row) {
  IndexMath math{lanes.getBuilder(), lanes.getLocation()};
  int64_t rank = outer.dims.size();
  SmallVector<Value> coordinates(rank);
  auto coordinate = [&](int64_t dim) {
    if (coordinates[dim])
      return coordinates[dim];
    int64_t inner = 1;
    for (int64_t i = dim + 1; i < rank; ++i)
      inner *= outer.dims[i].extent;
    Value quotient = math.quotient(row, inner);
    return coordinates[dim] =
               dim == 0 ? quotient : math.remainder(quotient, outer.dims[dim].extent);
  };
  SmallVector<Value> bases;
  for (size_t access = 0; access < outer.offsets.size(); ++access) {
    Value base = math.constant(outer.offsets[access]);
    bool linear = true; // one multiplication by the row number is enough
    for (int64_t i = 0; i + 1 < rank; ++i)
      linear &= outer.dims[i].strides[access] ==
                outer.dims[i + 1].strides[access] * outer.dims[i + 1].extent;
    if (linear && rank > 0) {
      if (int64_t stride = outer.dims.back().strides[access])
        base = math.plus(base, math.times(row, stride));
    } else {
      for (int64_t i = 0; i < rank; ++i)
        if (int64_t stride = outer.dims[i].strides[access])
          base = math.plus(base, math.times(coordinate(i), stride));
    }
    bases.push_back(base);
  }
  return bases;
}

unsigned widestBits(ArrayRef<Buffer> buffers) {
  unsigned bits = 8;
  for (const Buffer &buffer : buffers)
    bits = std::max(bits, buffer.element.getIntOrFloatBitWidth());
  return bits;
}

std::pair<Value, Value> taskRange(KernelFrame &frame, int64_t count) {
  IndexMath math{frame.lanes.getBuilder(), frame.lanes.getLocation()};
  int64_t first = frame.tasks;
  frame.tasks += count;
  Value begin = frame.begin, end = frame.end;
  if (first > 0) { // a later part of the kernel: tasks [first, first + count)
    begin = arith::SubIOp::create(
        math.builder, math.location,
        arith::MaxUIOp::create(math.builder, math.location, begin, math.constant(first)),
        math.constant(first));
    end = arith::SubIOp::create(
        math.builder, math.location,
        arith::MaxUIOp::create(math.builder, math.location, end, math.constant(first)),
        math.constant(first));
  }
  return {begin, math.smaller(end, math.constant(count))};
}

void forRows(KernelFrame &frame, const Space &outer, const Space::Dim &lane, RowCut cut,
             llvm::function_ref<void(const RowPlace &)> body) {
  Lanes &lanes = frame.lanes;
  IndexMath math{lanes.getBuilder(), lanes.getLocation()};
  int64_t rows = outer.elements(), taskElements = lanes.taskElements();
  int64_t partLanes = cut.partLanes.value_or(taskElements);
  bool split = lane.extent > (cut.partLanes ? partLanes : 2 * taskElements);
  int64_t parts = split ? (lane.extent + partLanes - 1) / partLanes : 1;
  int64_t units = rows * parts;
  int64_t unitElements = (split ? partLanes : lane.extent) * cut.elementsPerLane;
  int64_t unitsPerTask = std::max<int64_t>(1, taskElements / unitElements);
  auto [begin, end] = taskRange(frame, (units + unitsPerTask - 1) / unitsPerTask);
  lanes.forTasks(begin, end, [&](Value task) {
    auto unit = [&](Value number) {
      RowPlace place;
      place.bases = rowBases(lanes, outer, parts == 1 ? number : math.quotient(number, parts));
      if (parts == 1) {
        place.range = {math.constant(0), math.constant(lane.extent), lane.extent, false};
      } else {
        Value low = math.times(math.remainder(number, parts), partLanes);
        Value high = math.plus(low, math.constant(partLanes));
        bool even = lane.extent % partLanes == 0;
        if (!even)
          high = math.smaller(high, math.constant(lane.extent));
        place.range = {low, high, even ? std::optional(partLanes) : std::nullopt,
                       lane.extent % 64 == 0};
      }
      body(place);
    };
    if (unitsPerTask == 1)
      return unit(task);
    Value low = math.times(task, unitsPerTask);
    Value high = math.smaller(math.plus(low, math.constant(unitsPerTask)), math.constant(units));
    lanes.loop(low, high, 1, {}, [&](Value number, ValueRange) {
      unit(number);
      return SmallVector<Value>();
    });
  });
}

//===-- Cells and rows ------------------------------------------------------------------------===//

Term Cell::load(unsigned access) const {
  auto read = [&] {
    const Buffer &buffer = buffers[access];
    if (!extra.active)
      return chunk.load(buffer, accesses[access]);
    return chunk.loadAllWhere(extra.active, buffer, accesses[access]);
  };
  if (!extra.cache)
    return chunk.term(read()).widened();
  Value &known = (*extra.cache)[access];
  if (!known)
    known = read();
  return chunk.term(known).widened();
}

void Cell::store(Term value, unsigned access) const {
  Value stored = chunk.widen(value.as(buffers[access].element).get());
  if (extra.cache)
    (*extra.cache)[access] = stored;
  OpBuilder &builder = value.getBuilder();
  OpBuilder::InsertionGuard guard(builder);
  if (extra.active) {
    auto branch = scf::IfOp::create(builder, value.getLocation(), extra.active, false);
    builder.setInsertionPointToStart(branch.thenBlock());
  }
  chunk.store(stored, buffers[access], accesses[access]);
}

Term lookUp(const Chunk &chunk, const Buffer &table, Term index, KernelTarget target) {
  OpBuilder &builder = index.getBuilder();
  Location location = index.getLocation();
  const Term wide = index.as(builder.getI64Type());
  Value always = arith::ConstantIntOp::create(builder, location, 1, 1);
  if (chunk.size() == 1 || target == KernelTarget::Host)
    return index.with(chunk.gather(always, table, wide.get()));
  // A device's thread has no gathers.
  Chunk scalar(builder, location, chunk.getPosition(), 1);
  SmallVector<Value> found;
  for (int64_t lane = 0; lane < chunk.size(); ++lane)
    found.push_back(scalar.gather(always, table, laneOf(builder, location, wide.get(), lane)));
  return index.with(vector::FromElementsOp::create(
      builder, location, cast<VectorType>(chunk.type(table.element)), found));
}

Term elementAt(const Chunk &chunk, const Buffer &buffer, Access row, int64_t stride, Term position,
               Term exists) {
  const Term element = chunk.term(chunk.positions(row)) +
                       position * position.constantInt(static_cast<uint64_t>(stride));
  const Term value = chunk.term(chunk.gather(exists.get(), buffer, element.get())).widened();
  return exists.choose(value, value.constant(0));
}

Exponentials Row::exponentials(unsigned access, Type element) {
  Exponentials result;
  result.maximum =
      fold({{Reducer::Kind::Max, element}},
           [&](const Cell &cell) -> SmallVector<Term> { return {cell.load(access)}; })[0];
  result.sum = fold({{Reducer::Kind::Sum, element}}, [&](const Cell &cell) -> SmallVector<Term> {
    return {(cell.load(access) - cell.term(result.maximum)).unary<math::ExpOp>()};
  })[0];
  return result;
}

Term Row::term(Value value) { return Term(lanes.getBuilder(), lanes.getLocation(), value); }

namespace {

/// What both kinds of rows know: buffers, the axis and where the row begins.
class RowBase : public Row {
public:
  RowBase(KernelFrame &frame, const Space &axis, ArrayRef<Value> bases)
      : Row(frame.lanes), frame(frame), axis(axis), bases(bases) {}

protected:
  using Accumulate = llvm::function_ref<SmallVector<Value>(ArrayRef<Value>)>;

  /// Sums `inner` over the outer axis dimensions [dim, rank - 1) in sequence.
  SmallVector<Value> foldOuter(size_t dim, ArrayRef<Value> at, ArrayRef<Reducer> reducers,
                               ArrayRef<Type> types, Accumulate inner) {
    if (dim + 1 == axis.dims.size())
      return inner(at);
    const Space::Dim &outer = axis.dims[dim];
    return lanes.loop(lanes.index(0), lanes.index(outer.extent), 1, lanes.neutrals(reducers, types),
                      [&](Value position, ValueRange old) {
                        auto moved = advance(at, outer, position);
                        return lanes.combine(reducers, old,
                                             foldOuter(dim + 1, moved, reducers, types, inner));
                      });
  }

  void eachOuter(size_t dim, ArrayRef<Value> at, llvm::function_ref<void(ArrayRef<Value>)> inner) {
    if (dim + 1 == axis.dims.size())
      return inner(at);
    const Space::Dim &outer = axis.dims[dim];
    lanes.loop(lanes.index(0), lanes.index(outer.extent), 1, {}, [&](Value position, ValueRange) {
      eachOuter(dim + 1, advance(at, outer, position), inner);
      return SmallVector<Value>();
    });
  }

  SmallVector<Value> advance(ArrayRef<Value> at, const Space::Dim &dim, Value position) {
    IndexMath math{lanes.getBuilder(), lanes.getLocation()};
    SmallVector<Value> moved(at);
    for (auto [base, stride] : llvm::zip_equal(moved, dim.strides))
      if (stride != 0)
        base = math.plus(base, math.times(position, stride));
    return moved;
  }

  SmallVector<Value> raw(ArrayRef<Term> terms) {
    SmallVector<Value> values;
    for (const Term &value : terms)
      values.push_back(value.get());
    return values;
  }

  SmallVector<Access> accesses(ArrayRef<Value> at, const Space::Dim &dim) {
    SmallVector<Access> result;
    for (auto [base, stride] : llvm::zip_equal(at, dim.strides))
      result.push_back({base, stride});
    return result;
  }

  KernelFrame &frame;
  const Space &axis;
  SmallVector<Value> bases;
};

/// The axis' innermost dimension is the lane axis.
class AlongRow final : public RowBase {
public:
  using RowBase::RowBase;

  SmallVector<Value> fold(ArrayRef<Reducer> reducers, CellFold body) override {
    SmallVector<Type> types;
    for (const Reducer &reducer : reducers)
      types.push_back(lanes.partialType(reducer.element, width()));
    auto partial = foldOuter(0, bases, reducers, types, [&](ArrayRef<Value> at) {
      return lanes.foldLanes(axis.dims.back().extent, width(), reducers,
                             [&](const Chunk &chunk) { return raw(body(cell(chunk, at))); });
    });
    for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
      value = lanes.combineLanes(value, reducer);
    return partial;
  }

  void each(llvm::function_ref<void(const Cell &)> body) override {
    eachOuter(0, bases, [&](ArrayRef<Value> at) {
      int64_t extent = axis.dims.back().extent;
      LaneRange range{lanes.index(0), lanes.index(extent), extent, false};
      lanes.forLanes(range, width(), [&](const Chunk &chunk) { body(cell(chunk, at)); });
    });
  }

  Term load(unsigned access) override {
    return scalar().term(scalar().load(frame.buffers[access], {bases[access], 0})).widened();
  }

  void store(Term value, unsigned access) override {
    lanes.once([&] {
      const Buffer &buffer = frame.buffers[access];
      scalar().store(value.as(buffer.element).get(), buffer, {bases[access], 0});
    });
  }

  Term loadAt(unsigned access, Term position, Term exists) override {
    return elementAt(scalar(), frame.buffers[access], {bases[access], 0},
                     axis.dims.back().strides[access], position, exists);
  }

private:
  int64_t width() { return lanes.chunkLanes(widestBits(floats())); }
  SmallVector<Buffer> floats() {
    SmallVector<Buffer> result;
    for (const Buffer &buffer : frame.buffers)
      if (isa<FloatType>(buffer.element))
        result.push_back(buffer);
    return result;
  }
  Chunk scalar() { return Chunk(lanes.getBuilder(), lanes.getLocation(), lanes.index(0), 1); }
  Cell cell(const Chunk &chunk, ArrayRef<Value> at) {
    return Cell(chunk, frame.buffers, accesses(at, axis.dims.back()),
                chunk.positions({lanes.index(0), 1}));
  }
};

/// Each lane is a row; the axis is walked in sequence.
class AcrossRow final : public RowBase {
public:
  AcrossRow(KernelFrame &frame, const Space &axis, ArrayRef<Value> bases, const Space::Dim &lane,
            const Chunk &chunk)
      : RowBase(frame, axis, bases), lane(lane), chunk(chunk) {}

  SmallVector<Value> fold(ArrayRef<Reducer> reducers, CellFold body) override {
    SmallVector<Type> types;
    for (const Reducer &reducer : reducers)
      types.push_back(chunk.type(reducer.element));
    return foldOuter(0, bases, reducers, types, [&](ArrayRef<Value> at) {
      return lanes.foldUnits(axis.dims.back().extent, reducers, types,
                             [&](Value unit) { return raw(body(cell(at, unit))); });
    });
  }

  void each(llvm::function_ref<void(const Cell &)> body) override {
    eachOuter(0, bases, [&](ArrayRef<Value> at) {
      lanes.loop(lanes.index(0), lanes.index(axis.dims.back().extent), 1, {},
                 [&](Value unit, ValueRange) {
                   body(cell(at, unit));
                   return SmallVector<Value>();
                 });
    });
  }

  Term load(unsigned access) override {
    return chunk.term(chunk.load(frame.buffers[access], {bases[access], lane.strides[access]}))
        .widened();
  }

  void store(Term value, unsigned access) override {
    const Buffer &buffer = frame.buffers[access];
    chunk.store(value.as(buffer.element).get(), buffer, {bases[access], lane.strides[access]});
  }

  Term loadAt(unsigned access, Term position, Term exists) override {
    return elementAt(chunk, frame.buffers[access], {bases[access], lane.strides[access]},
                     axis.dims.back().strides[access], position, exists);
  }

private:
  Cell cell(ArrayRef<Value> at, Value unit) {
    auto moved = advance(at, axis.dims.back(), unit);
    Chunk scalar(lanes.getBuilder(), lanes.getLocation(), unit, 1);
    return Cell(chunk, frame.buffers, accesses(moved, lane), scalar.positions({lanes.index(0), 1}));
  }

  const Space::Dim &lane;
  const Chunk &chunk;
};

} // namespace

void forFoldedRows(KernelFrame &frame, Space kept, Space axis,
                   llvm::function_ref<void(Row &)> body) {
  kept.collapse();
  axis.collapse();
  // Lanes run along the axis when that is where memory is contiguous; single rows always do.
  bool along = kept.elements() == 1 || axis.dims.back().strides[0] == 1;
  if (frame.target == KernelTarget::Device)
    return forDeviceRows(frame, kept, axis, along, body);
  if (along) {
    Space::Dim single{1, SmallVector<int64_t>(kept.offsets.size(), 0)};
    forRows(frame, kept, single, {std::nullopt, axis.elements()}, [&](const RowPlace &place) {
      AlongRow row(frame, axis, place.bases);
      body(row);
    });
    return;
  }
  Space::Dim lane = kept.takeInnermost();
  unsigned bits = widestBits(frame.buffers);
  int64_t part = frame.lanes.columnLanes(bits, lane.extent);
  forRows(frame, kept, lane, {part, axis.elements()}, [&](const RowPlace &place) {
    frame.lanes.forLanes(place.range, part, [&](const Chunk &chunk) {
      AcrossRow row(frame, axis, place.bases, lane, chunk);
      body(row);
    });
  });
}

} // namespace stow
