// Folded rows on a device.
//
// A team of threads folds a row. Along rows (the axis is contiguous) the team is a warp, or the block
// where rows are long or few, and a thread reads vectors of up to 16 bytes:
//
//   row     |<- t0 ->|<- t1 ->| ... |<- t31 ->|<- t0 ->|<- t1 ->| ...
//
// Across rows (each lane is a row, the axis is walked) a block takes some columns and deals the axis'
// positions to groups of its threads:
//
//   position 0   |g0 t0|g0 t1| ... |g0 t7|     columns ->
//   position 1   |g1 t8|g1 t9| ... |g1 t15|
//
// What a thread reads of a row stays in registers where it fits: then a row is read once, however
// often it is folded. A thread always takes the same positions of a row, so what it wrote it may
// read again without a barrier. Every fold associates in an order that static extents decide: within
// threads, by shuffles over the warp, then over warps or groups.
//
// Where a fold is done in parts (FoldParts.h), several teams share a row as one team of as many threads
// would, and each leaves what it has found in the op's workspace:
//
//   row     |<- part 0 t0..t255 ->|<- part 1 t0..t255 ->|<- part 0 t0..t255 ->| ...
#include "codegen/kernels/DeviceRows.h"

#include "codegen/kernels/DeviceVectors.h"
#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Bytes of a row that a thread keeps: 48 registers beside those of the arithmetic.
constexpr int64_t kKeptBytes = 192;
/// Vectors of a row that a thread keeps at most: they are unrolled.
constexpr int64_t kKeptVectors = 16;
/// Warps that keep all multiprocessors of the larger chips busy.
constexpr int64_t kFillingWarps = 1024;
/// Blocks that do so.
constexpr int64_t kFillingBlocks = 256;
/// Vectors that a thread asks for before it needs the first, of rows that it cannot keep.
constexpr int64_t kUnroll = 4;

/// How rows of a kernel are dealt to threads.
struct Team {
  bool along = true;
  int64_t members = kWarp; ///< threads that share the axis of a row
  int64_t lanes = 1;       ///< of a vector: along the axis, or rows side by side
  int64_t units = 1;       ///< vectors, or positions, of the axis
  int64_t parts = 1;       ///< teams that share a row
  bool keeps = false;      ///< what is read stays in registers

  /// Units from one of a thread to its next.
  int64_t stride() const { return members * parts; }
  int64_t unitsPerMember() const { return (units + stride() - 1) / stride(); }
};

/// One row, or `lanes` rows side by side, as the threads of a team see it.
class DeviceRow final : public Row {
public:
  /// Where a thread stands: its number in the team, the row's first elements, and the lane axis when
  /// it runs across rows.
  struct Place {
    Value member;
    Value part; ///< of the row's parts
    Value row;  ///< number of the row; across rows of that of column 0
    SmallVector<Value> bases;
    Value column; ///< position on the lane axis; null along rows
    Value exists; ///< i1: false for threads beyond the last column; null: all exist
    SmallVector<int64_t> laneStrides; ///< across rows
  };

  DeviceRow(KernelFrame &frame, const Space &axis, const Team &team, Place place)
      : Row(frame.lanes), frame(frame), axis(axis), team(team), place(std::move(place)),
        builder(frame.lanes.getBuilder()), location(frame.lanes.getLocation()),
        math{builder, location}, firstUnit(firstUnitOf(this->place)),
        caches(team.keeps ? team.unitsPerMember() : 0) {}

  SmallVector<Value> fold(ArrayRef<Reducer> reducers, CellFold body) override {
    if (frame.stage)
      return foldInParts(reducers, body);
    return joined(foldCells(reducers, body), reducers);
  }

  void each(llvm::function_ref<void(const Cell &)> body) override {
    if (frame.stage)
      llvm::report_fatal_error("a row that is folded in parts is walked again");
    if (team.keeps) {
      for (int64_t i = 0; i < team.unitsPerMember(); ++i)
        withKept(i, [&](const Cell &cell, Value) { body(cell); });
      return;
    }
    lanes.loop(firstUnit, lanes.index(team.units), team.stride(), {}, [&](Value unit, ValueRange) {
      withCell(unit, {}, nullptr, body);
      return SmallVector<Value>();
    });
  }

  Term load(unsigned access) override {
    Chunk chunk = rowChunk();
    return chunk.term(chunk.load(frame.buffers[access], rowAccess(access))).widened();
  }

  void store(Term value, unsigned access) override {
    if (frame.stage && !frame.stage->isLast())
      return;
    onFirst([&] {
      const Buffer &buffer = frame.buffers[access];
      rowChunk().store(value.as(buffer.element).get(), buffer, rowAccess(access));
    });
  }

  /// To be called behind the last use of the row: the next row's first fold writes where this one's
  /// only fold read.
  void finish() {
    if (foldsOfWarps == 1)
      gpu::BarrierOp::create(builder, location);
  }

private:
  using UnitCell = llvm::function_ref<void(const Cell &)>;

  /// Runs `body` in one thread of the team, for all rows side by side that there are.
  void onFirst(llvm::function_ref<void()> body) {
    Value first = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, place.member,
                                        lanes.index(0));
    if (place.exists)
      first = arith::AndIOp::create(builder, location, first, place.exists);
    lanes.ifHolds(first, body);
  }

  Value firstUnitOf(const Place &place) {
    if (team.parts == 1)
      return place.member;
    Value before = arith::MulIOp::create(builder, location, place.part, lanes.index(team.members));
    return arith::AddIOp::create(builder, location, before, place.member);
  }

  Type vectorOf(Type element) const {
    return team.lanes == 1 ? element : Type(VectorType::get({team.lanes}, element));
  }

  /// A row's own numbers: one along, one per lane across.
  Chunk rowChunk() const {
    return team.along ? Chunk(builder, location, lanes.index(0), 1)
                      : Chunk(builder, location, place.column, team.lanes);
  }
  Access rowAccess(unsigned access) const {
    if (team.along)
      return {place.bases[access], 0};
    return {place.bases[access], place.laneStrides[access], alignmentOf(access)};
  }

  int64_t alignmentOf(unsigned access) const {
    return accessAlignment(frame.buffers[access], team.lanes);
  }

  //===-- Cells -----------------------------------------------------------------------------===//

  Value quotient(Value value, int64_t by) {
    return by == 1 ? value
                   : narrow(
                         value,
                         [&](Value narrowed, Value divisor) {
                           return arith::DivUIOp::create(builder, location, narrowed, divisor);
                         },
                         by);
  }
  Value remainder(Value value, int64_t by) {
    return narrow(
        value,
        [&](Value narrowed, Value divisor) {
          return arith::RemUIOp::create(builder, location, narrowed, divisor);
        },
        by);
  }
  /// Divisions of 32 bits take a fraction of those of 64.
  Value narrow(Value value, llvm::function_ref<Value(Value, Value)> divide, int64_t by) {
    bool fits = axis.elements() <= std::numeric_limits<int32_t>::max();
    Type type = fits ? builder.getI32Type() : builder.getI64Type();
    Value divisor = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, by));
    Value narrowed = arith::IndexCastUIOp::create(builder, location, type, value);
    return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(),
                                        divide(narrowed, divisor));
  }

  /// Runs `body` at number `unit` of the axis; `active` is null or says whether it exists.
  void withCell(Value unit, Value active, CellCache *cache, UnitCell body) {
    int64_t step = team.along ? team.lanes : 1;
    Value position = unit;
    if (step != 1)
      position = arith::MulIOp::create(builder, location, unit, lanes.index(step));
    SmallVector<Value> at(place.bases);
    int64_t inner = 1, rank = axis.dims.size();
    Value innermost = position;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      Value coordinate = quotient(position, inner);
      if (dim > 0)
        coordinate = remainder(coordinate, axis.dims[dim].extent);
      inner *= axis.dims[dim].extent;
      if (dim == rank - 1)
        innermost = coordinate;
      if (dim == rank - 1 && team.along)
        continue; // the chunk's own
      for (auto [base, stride] : llvm::zip_equal(at, axis.dims[dim].strides))
        if (stride != 0)
          base = arith::AddIOp::create(
              builder, location, base,
              arith::MulIOp::create(builder, location, coordinate, lanes.index(stride)));
    }
    SmallVector<Access> accesses;
    for (auto [access, base] : llvm::enumerate(at))
      accesses.push_back({base,
                          team.along ? axis.dims.back().strides[access] : place.laneStrides[access],
                          alignmentOf(access)});
    Chunk chunk(builder, location, team.along ? innermost : place.column, team.lanes);
    Chunk axisChunk(builder, location, innermost, team.along ? team.lanes : 1);
    body(Cell(chunk, frame.buffers, accesses, axisChunk.positions({lanes.index(0), 1}),
              {cache, joined(active, place.exists)}));
  }

  Value joined(Value a, Value b) {
    if (!a || !b)
      return a ? a : b;
    return arith::AndIOp::create(builder, location, a, b);
  }

  /// Number `i` of what this thread keeps; nothing is read or written where it is beyond the end.
  void withKept(int64_t i, llvm::function_ref<void(const Cell &, Value active)> body) {
    Value unit = firstUnit, active;
    if (i > 0)
      unit = arith::AddIOp::create(builder, location, unit, lanes.index(i * team.stride()));
    if ((i + 1) * team.stride() > team.units) {
      active = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, unit,
                                     lanes.index(team.units));
    }
    withCell(unit, active, &caches[i], [&](const Cell &cell) { body(cell, active); });
  }

  //===-- Folds -----------------------------------------------------------------------------===//

  /// What each thread finds in its cells.
  SmallVector<Value> foldCells(ArrayRef<Reducer> reducers, CellFold body) {
    SmallVector<Type> types;
    for (const Reducer &reducer : reducers)
      types.push_back(vectorOf(reducer.element));
    auto partial = team.keeps ? foldKept(reducers, types, body) : foldLoop(reducers, types, body);
    if (team.along && team.lanes > 1)
      for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
        value = foldVector(value, reducer);
    return partial;
  }

  /// Joins what the threads of the team have found.
  SmallVector<Value> joined(SmallVector<Value> partial, ArrayRef<Reducer> reducers) {
    if (team.along)
      for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
        value = foldOver(value, kWarp, reducer);
    if (team.members == (team.along ? kWarp : 1))
      return partial;
    return team.along ? foldWarps(partial, reducers) : foldGroups(partial, reducers);
  }

  //===-- Folds in parts --------------------------------------------------------------------===//

  /// The fold whose parts this kernel computes goes to the workspace; those before it are joined from
  /// there. Nobody uses what is behind it.
  SmallVector<Value> foldInParts(ArrayRef<Reducer> reducers, CellFold body) {
    FoldStage &stage = *frame.stage;
    const int64_t fold = stage.foundFolds++, value = stage.foundValues;
    stage.foundValues += static_cast<int64_t>(reducers.size());
    if (fold < stage.number)
      return joined(readParts(reducers, value), reducers);
    if (fold > stage.number) {
      SmallVector<Type> types;
      for (const Reducer &reducer : reducers)
        types.push_back(team.along ? reducer.element : vectorOf(reducer.element));
      return lanes.neutrals(reducers, types);
    }
    SmallVector<Value> found = joined(foldCells(reducers, body), reducers);
    onFirst([&] {
      for (auto [i, result] : llvm::enumerate(found))
        rowChunk().store(result, stage.scratch, partAccess(value + i, place.part));
    });
    return found;
  }

  /// Of value `value` and those behind it what the parts that are a thread's share have found.
  SmallVector<Value> readParts(ArrayRef<Reducer> reducers, int64_t value) {
    const int64_t parts = frame.stage->parts.parts;
    SmallVector<Value> shares;
    for (int64_t first = 0; first < parts; first += team.members) {
      Value part = arith::AddIOp::create(builder, location, place.member, lanes.index(first));
      Value active;
      if (first + team.members > parts) {
        active = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, part,
                                       lanes.index(parts));
        part = arith::MinUIOp::create(builder, location, part, lanes.index(parts - 1));
      }
      SmallVector<Value> found;
      for (auto [i, reducer] : llvm::enumerate(reducers)) {
        Value read = rowChunk().load(frame.stage->scratch, partAccess(value + i, part));
        if (active)
          read = arith::SelectOp::create(builder, location, active, read,
                                         lanes.neutrals(reducer, read.getType()).front());
        found.push_back(read);
      }
      shares = first == 0 ? found : lanes.combine(reducers, shares, found);
    }
    return shares;
  }

  /// The row's, or rows', element of the workspace for a value and a part.
  Access partAccess(int64_t value, Value part) {
    const FoldParts &shape = frame.stage->parts;
    Value line = arith::AddIOp::create(builder, location, part, lanes.index(value * shape.parts));
    Value base = arith::AddIOp::create(
        builder, location, arith::MulIOp::create(builder, location, line, lanes.index(shape.rows)),
        place.row);
    return team.along ? Access{base, 0}
                      : Access{base, 1, std::min<int64_t>(kAccessBytes, 4 * team.lanes)};
  }

  //===-- Folds of a thread and of a team ---------------------------------------------------===//

  SmallVector<Value> raw(ArrayRef<Term> terms) const {
    Chunk chunk(builder, location, lanes.index(0), team.lanes);
    SmallVector<Value> values;
    for (const Term &term : terms)
      values.push_back(chunk.widen(term.get()));
    return values;
  }

  SmallVector<Value> foldKept(ArrayRef<Reducer> reducers, ArrayRef<Type> types, CellFold body) {
    SmallVector<Value> sums;
    for (int64_t i = 0; i < team.unitsPerMember(); ++i)
      withKept(i, [&](const Cell &cell, Value active) {
        auto values = raw(body(cell));
        if (active)
          for (auto [value, neutral] : llvm::zip_equal(values, lanes.neutrals(reducers, types)))
            value = arith::SelectOp::create(builder, location, active, value, neutral);
        sums = i == 0 ? values : lanes.combine(reducers, sums, values);
      });
    return sums;
  }

  SmallVector<Value> foldLoop(ArrayRef<Reducer> reducers, ArrayRef<Type> types, CellFold body) {
    size_t count = reducers.size();
    int64_t round = kUnroll * team.stride(), whole = team.units / round * round;
    SmallVector<Value> sums;
    for (int64_t i = 0; i < kUnroll; ++i)
      llvm::append_range(sums, lanes.neutrals(reducers, types));
    auto add = [&](Value unit, SmallVector<Value> &all, int64_t accumulator) {
      withCell(unit, {}, nullptr, [&](const Cell &cell) {
        auto joined = lanes.combine(reducers, ValueRange(all).slice(accumulator * count, count),
                                    raw(body(cell)));
        std::copy(joined.begin(), joined.end(), all.begin() + accumulator * count);
      });
    };
    if (whole > 0) {
      sums = lanes.loop(
          lanes.index(0), lanes.index(whole), round, sums, [&](Value base, ValueRange old) {
            SmallVector<Value> next(old);
            Value unit = arith::AddIOp::create(builder, location, base, firstUnit);
            for (int64_t i = 0; i < kUnroll; ++i)
              add(arith::AddIOp::create(builder, location, unit, lanes.index(i * team.stride())),
                  next, i);
            return next;
          });
      // It has as much on its way as a thread is to ask for.
      keepRolled(sums.front().getDefiningOp());
    }
    if (whole < team.units) {
      Value first = arith::AddIOp::create(builder, location, firstUnit, lanes.index(whole));
      sums = lanes.loop(first, lanes.index(team.units), team.stride(), sums,
                        [&](Value unit, ValueRange old) {
                          SmallVector<Value> next(old);
                          add(unit, next, 0);
                          return next;
                        });
    }
    ValueRange all = sums;
    auto low = lanes.combine(reducers, all.slice(0, count), all.slice(count, count));
    auto high = lanes.combine(reducers, all.slice(2 * count, count), all.slice(3 * count, count));
    return lanes.combine(reducers, low, high);
  }

  Value foldVector(Value vector, const Reducer &reducer) {
    SmallVector<Value> parts;
    for (int64_t lane = 0; lane < team.lanes; ++lane)
      parts.push_back(laneOf(builder, location, vector, lane));
    return foldHalves(parts, reducer);
  }

  /// Joins the second half with the first until one value, of a power of two, is left.
  Value foldHalves(SmallVector<Value> parts, const Reducer &reducer) {
    for (size_t half = parts.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i)
        parts[i] = reducer.combine(term(parts[i]), term(parts[i + half])).get();
    return parts.front();
  }

  /// Over so many neighbouring threads, a power of two.
  Value foldOver(Value partial, int64_t threads, const Reducer &reducer) {
    Term sum = term(partial);
    for (auto distance = static_cast<int32_t>(threads / 2); distance > 0; distance /= 2) {
      auto other = gpu::ShuffleOp::create(builder, location, sum.get(), distance, kWarp,
                                          gpu::ShuffleMode::XOR);
      sum = reducer.combine(sum, sum.with(other.getShuffleResult()));
    }
    return sum.get();
  }

  /// Joins what warps have found: each writes its part, then all threads fold the parts.
  SmallVector<Value> foldWarps(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
    ++foldsOfWarps;
    const int64_t parts = team.members / kWarp;
    Value part = math.quotient(place.member, kWarp),
          isFirst = math.isBelow(math.remainder(place.member, kWarp), lanes.index(1));
    SmallVector<Value> memories;
    for (const Reducer &reducer : reducers)
      memories.push_back(sharedMemory(reducer.element, parts));
    lanes.ifHolds(isFirst, [&] {
      for (auto [partial, memory] : llvm::zip_equal(partials, memories))
        memref::StoreOp::create(builder, location, partial, memory, ValueRange{part});
    });
    gpu::BarrierOp::create(builder, location);
    SmallVector<Value> results;
    for (auto [reducer, memory] : llvm::zip_equal(reducers, memories)) {
      SmallVector<Value> values;
      for (int64_t i = 0; i < parts; ++i)
        values.push_back(
            memref::LoadOp::create(builder, location, memory, ValueRange{lanes.index(i)}));
      results.push_back(foldHalves(values, reducer));
    }
    return results;
  }

  /// Joins what groups of threads have found of rows side by side. As many threads share a row as there are,
  /// neighbours, each of which folds every so many of the parts and then their halves by shuffles; what
  /// they have goes to all through shared memory again. Parts lie so far apart that these reads meet all
  /// banks.
  SmallVector<Value> foldGroups(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
    const int64_t parts = team.members, width = kDeviceBlock / parts, rows = team.lanes * width;
    const int64_t sharers = std::max<int64_t>(1, parts / team.lanes), pitch = rows + rows / 8;
    Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
    Value side = math.remainder(thread, width), first = math.remainder(thread, sharers);
    SmallVector<Value> memories, joined;
    for (const Reducer &reducer : reducers) {
      memories.push_back(sharedMemory(reducer.element, parts * pitch));
      joined.push_back(sharedMemory(reducer.element, rows));
    }
    Value own = math.plus(math.times(place.member, pitch), side);
    for (auto [partial, memory] : llvm::zip_equal(partials, memories))
      for (int64_t lane = 0; lane < team.lanes; ++lane)
        memref::StoreOp::create(builder, location, laneOf(builder, location, partial, lane), memory,
                                ValueRange{math.plus(own, lane * width)});
    gpu::BarrierOp::create(builder, location);
    for (auto [reducer, memory, whole] : llvm::zip_equal(reducers, memories, joined))
      for (int64_t number = 0; number < rows * sharers; number += kDeviceBlock) {
        Value row = math.plus(math.quotient(thread, sharers), number);
        SmallVector<Value> values;
        for (int64_t i = 0; i < parts; i += sharers)
          values.push_back(memref::LoadOp::create(
              builder, location, memory,
              ValueRange{math.plus(math.times(math.plus(first, i), pitch), row)}));
        Value value = foldOver(foldHalves(values, reducer), sharers, reducer);
        lanes.ifHolds(sharers == 1 ? Value() : math.isBelow(first, lanes.index(1)), [&] {
          memref::StoreOp::create(builder, location, value, whole, ValueRange{row});
        });
      }
    gpu::BarrierOp::create(builder, location);
    SmallVector<Value> results;
    for (Value whole : joined) {
      SmallVector<Value> found;
      for (int64_t lane = 0; lane < team.lanes; ++lane)
        found.push_back(memref::LoadOp::create(builder, location, whole,
                                               ValueRange{math.plus(side, lane * width)}));
      results.push_back(vectorOfLanes(builder, location, found));
    }
    return results;
  }

  Value sharedMemory(Type element, int64_t count) {
    auto function =
        cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
    return addSharedMemory(function, {count}, element, location);
  }

  KernelFrame &frame;
  const Space &axis;
  const Team &team;
  Place place;
  OpBuilder &builder;
  Location location;
  const IndexMath math;
  Value firstUnit;               ///< of the axis: the thread's
  std::vector<CellCache> caches; ///< by number of what the thread keeps
  int64_t foldsOfWarps = 0;
};

//===-- Choosing a team -----------------------------------------------------------------------===//

/// Lanes of a vector whose elements lie side by side in all accesses that move with it: `strides` are
/// those along the vector, `extent` its axis' length, `others` what else moves the access.
int64_t vectorLanes(const KernelFrame &frame, const Space::Dim &axis, ArrayRef<Space::Dim> others,
                    ArrayRef<int64_t> offsets) {
  int64_t narrowest = 0, widest = 1, step = axis.extent;
  for (auto [access, stride] : llvm::enumerate(axis.strides)) {
    if (stride == 0)
      continue;
    if (stride != 1)
      return 1;
    int64_t bytes = frame.buffers[access].elementBytes();
    widest = std::max(widest, bytes);
    if (bytes > 1)
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
    step = std::gcd(step, offsets[access]);
    for (const Space::Dim &dim : others)
      step = std::gcd(step, dim.strides[access]);
  }
  int64_t most =
      std::min(kAccessBytes / std::max<int64_t>(narrowest, 1), 2 * kAccessBytes / widest);
  return std::gcd(step, most);
}

/// Bytes that a row takes of what is read and differs from row to row.
int64_t bytesPerElement(const KernelFrame &frame, const Space &kept, const Space::Dim &axis) {
  int64_t bytes = 0;
  for (size_t access = 0; access < frame.operands; ++access) {
    bool moves = llvm::any_of(kept.dims, [&](auto &dim) { return dim.strides[access] != 0; });
    if (axis.strides[access] != 0 && (moves || kept.elements() == 1))
      bytes += frame.buffers[access].elementBytes();
  }
  return std::max<int64_t>(bytes, 1);
}

Team teamAlong(const KernelFrame &frame, const Space &kept, const Space &axis) {
  Team team;
  const int64_t elements = axis.elements(), rows = kept.elements();
  SmallVector<Space::Dim> others(kept.dims);
  llvm::append_range(others, llvm::drop_end(axis.dims));
  team.lanes = vectorLanes(frame, axis.dims.back(), others, axis.offsets);
  while (team.lanes > 1 && elements / team.lanes < kWarp)
    team.lanes /= 2; // rather all threads of a warp than long vectors
  team.units = elements / team.lanes;
  const int64_t bytes = bytesPerElement(frame, kept, axis.dims.back());
  auto keeps = [&] {
    return team.unitsPerMember() <= kKeptVectors &&
           team.unitsPerMember() * team.lanes * bytes <= kKeptBytes;
  };
  const bool areFew = rows < kFillingWarps && team.units >= 2 * kWarp;
  if (frame.stage && !frame.stage->isLast())
    team.parts = frame.stage->parts.parts;
  if (frame.stage || areFew || !keeps())
    team.members = kDeviceBlock;
  team.keeps = keeps();
  return team;
}

Team teamAcross(const KernelFrame &frame, const Space &outer, const Space::Dim &lane,
                const Space &axis) {
  Team team;
  team.along = false;
  team.units = axis.elements();
  team.members = 1;
  while (team.members < kWarp && 4 * team.members < team.units)
    team.members *= 2;
  if (frame.stage && !frame.stage->isLast())
    team.parts = frame.stage->parts.parts;
  const int64_t threads = kDeviceBlock / team.members; // side by side
  SmallVector<Space::Dim> others(outer.dims);
  llvm::append_range(others, axis.dims);
  team.lanes = vectorLanes(frame, lane, others, axis.offsets);
  // Rather many blocks than long vectors, but whole sectors of 32 bytes.
  while (team.lanes > 1 && team.lanes * threads * frame.buffers[0].elementBytes() > 32 &&
         outer.elements() * lane.extent * team.parts / (threads * team.lanes) < kFillingBlocks)
    team.lanes /= 2;
  team.keeps = team.unitsPerMember() <= kKeptVectors &&
               team.unitsPerMember() * team.lanes * 4 <= kKeptBytes / 2;
  return team;
}

} // namespace

void forDeviceRows(KernelFrame &frame, const Space &rows, const Space &axis, bool along,
                   llvm::function_ref<void(Row &)> body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  auto below = [&](Value value, int64_t limit) -> Value {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, value,
                                 lanes.index(limit));
  };
  /// What of a kernel's tasks, parts of a row side by side, is the row and which of its parts.
  auto partOf = [&](Value task, const Team &team) -> std::pair<Value, Value> {
    if (team.parts == 1)
      return {task, lanes.index(0)};
    Value parts = lanes.index(team.parts);
    return {arith::DivUIOp::create(builder, location, task, parts),
            arith::RemUIOp::create(builder, location, task, parts)};
  };
  auto run = [&](const Team &team, DeviceRow::Place place) {
    DeviceRow row(frame, axis, team, std::move(place));
    body(row);
    row.finish();
  };
  if (along) {
    const Team team = teamAlong(frame, rows, axis);
    const int64_t teams = kDeviceBlock / team.members, count = rows.elements();
    auto [begin, end] = taskRange(frame, (count + teams - 1) / teams * team.parts);
    lanes.forTasks(begin, end, [&](Value task) {
      if (teams == 1) {
        auto [row, part] = partOf(task, team);
        return run(team, {thread, part, row, rowBases(lanes, rows, row), {}, {}, {}});
      }
      Value number = arith::AddIOp::create(
          builder, location, arith::MulIOp::create(builder, location, task, lanes.index(teams)),
          arith::DivUIOp::create(builder, location, thread, lanes.index(team.members)));
      Value member = arith::RemUIOp::create(builder, location, thread, lanes.index(team.members));
      OpBuilder::InsertionGuard guard(builder);
      if (count % teams != 0) {
        auto branch = scf::IfOp::create(builder, location, below(number, count), false);
        builder.setInsertionPointToStart(branch.thenBlock());
      }
      run(team, {member, {}, number, rowBases(lanes, rows, number), {}, {}, {}});
    });
    return;
  }
  Space outer = rows;
  const Space::Dim lane = outer.takeInnermost();
  const Team team = teamAcross(frame, outer, lane, axis);
  const int64_t threads = kDeviceBlock / team.members, vectors = lane.extent / team.lanes;
  const int64_t tiles = (vectors + threads - 1) / threads;
  auto [begin, end] = taskRange(frame, outer.elements() * tiles * team.parts);
  lanes.forTasks(begin, end, [&](Value task) {
    auto [tile, part] = partOf(task, team);
    Value number = tile;
    if (tiles == 1) {
      tile = lanes.index(0);
    } else {
      number = arith::DivUIOp::create(builder, location, tile, lanes.index(tiles));
      tile = arith::RemUIOp::create(builder, location, tile, lanes.index(tiles));
    }
    Value side = arith::RemUIOp::create(builder, location, thread, lanes.index(threads));
    Value vector = arith::AddIOp::create(
        builder, location, arith::MulIOp::create(builder, location, tile, lanes.index(threads)),
        side);
    DeviceRow::Place place;
    place.member = arith::DivUIOp::create(builder, location, thread, lanes.index(threads));
    if (vectors % threads != 0) {
      place.exists = below(vector, vectors);
      vector = arith::MinUIOp::create(builder, location, vector, lanes.index(vectors - 1));
    }
    place.column = arith::MulIOp::create(builder, location, vector, lanes.index(team.lanes));
    place.bases = rowBases(lanes, outer, number);
    place.part = part;
    place.row = arith::MulIOp::create(builder, location, number, lanes.index(lane.extent));
    place.laneStrides = lane.strides;
    run(team, std::move(place));
  });
}

} // namespace stow
