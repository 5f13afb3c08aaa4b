// Folded rows on a device.
//
// A team of threads folds a row. Along rows (the axis is contiguous) the team is a warp, the block where
// rows are long or few, or part of a warp where they are short, and a thread reads vectors of up to 16 bytes:
//
//   row     |<- t0 ->|<- t1 ->| ... |<- t31 ->|<- t0 ->|<- t1 ->| ...
//
// Rows of any length begin anywhere. Their vectors begin where the tensor's do, as if it had no gaps, and
// what lies before the first and behind the last are edges, dealt to threads in pieces of their own:
//
//   tensor  |0 1 2 3|4 5 6 7|8 9 . .|. . . .|. . . .|      rows of 10, vectors of 4
//   row 0   |<-t0-->|<-t1-->|t0|t1|
//   row 1                   .   .|t0|t1|<-t0-->|<-t1-->|   pieces of 2: rows begin at multiples of that
//
// So the order of a row's sum follows from extents and the row's number. A tensor with gaps whose rows begin
// elsewhere is read in smaller pieces, in the same order.
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
#include "codegen/kernels/device/DeviceRows.h"

#include "codegen/kernels/device/DeviceCells.h"
#include "codegen/kernels/device/DeviceFolds.h"
#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Vectors that a thread asks for before it needs the first, of rows that it cannot keep.
constexpr int64_t kUnroll = 4;

/// Registers of a thread where two blocks share a multiprocessor.
constexpr int32_t kRegisters = 128;

/// One row, or `lanes` rows side by side, as the threads of a team see it.
class DeviceRow final : public Row {
public:
  DeviceRow(KernelFrame &frame, const Space &axis, const Team &team, TeamPlace given)
      : Row(frame.lanes), frame(frame), axis(axis), team(team),
        cells(frame, axis, team, std::move(given)), place(cells.where()),
        folds(frame, team, place.member), builder(frame.lanes.getBuilder()),
        location(frame.lanes.getLocation()), math{builder, location} {}

  SmallVector<Value> fold(ArrayRef<Reducer> reducers, CellFold body) override {
    if (frame.stage)
      return foldInParts(reducers, body);
    return folds.joined(foldCells(reducers, body), reducers);
  }

  void each(llvm::function_ref<void(const Cell &)> body) override {
    if (frame.stage)
      llvm::report_fatal_error("a row that is folded in parts is walked again");
    for (const Portions &portions : cells.piecesOfRow()) {
      if (cells.isWrittenOut(portions)) {
        for (int64_t i = 0; i < team.ofMember(portions); ++i)
          cells.withNumber(portions, i, [&](const Cell &cell, Value) { body(cell); });
        continue;
      }
      lanes.loop(cells.first(), cells.end(portions), team.stride(), {},
                 [&](Value number, ValueRange) {
                   cells.withPiece(portions, number, {}, nullptr,
                                   [&](const Cell &cell, Value) { body(cell); });
                   return SmallVector<Value>();
                 });
    }
  }

  Exponentials exponentials(unsigned access, Type element) override {
    if (team.keeps || frame.stage || !team.along)
      return Row::exponentials(access, element);
    return exponentialsOfLongRow(access, element);
  }

  Term load(unsigned access) override {
    Chunk chunk = rowChunk();
    return chunk.term(chunk.load(frame.buffers[access], rowAccess(access))).widened();
  }

  Term loadAt(unsigned access, Term position, Term exists) override {
    return elementAt(rowChunk(), frame.buffers[access], rowAccess(access),
                     axis.dims.back().strides[access], position, exists);
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
    if (folds.needsBarrier())
      gpu::BarrierOp::create(builder, location);
  }

private:
  /// Runs `body` in one thread of the team, for all rows side by side that there are.
  void onFirst(llvm::function_ref<void()> body) {
    Value first = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, place.member,
                                        lanes.index(0));
    if (place.exists)
      first = arith::AndIOp::create(builder, location, first, place.exists);
    lanes.ifHolds(first, body);
  }

  Type typeOf(const Portions &portions, Type element) const {
    return portions.lanes == 1 ? element : Type(VectorType::get({portions.lanes}, element));
  }

  /// A row's own numbers: one along, one per lane across.
  Chunk rowChunk() const {
    return team.along ? Chunk(builder, location, lanes.index(0), 1)
                      : Chunk(builder, location, place.column, team.vectors.lanes);
  }
  Access rowAccess(unsigned access) const {
    if (team.along)
      return {place.bases[access], 0};
    return {place.bases[access], place.laneStrides[access],
            cells.alignmentOf(team.vectors, access)};
  }

  //===-- Folds -----------------------------------------------------------------------------===//

  /// What each thread finds in its cells.
  SmallVector<Value> foldCells(ArrayRef<Reducer> reducers, CellFold body) {
    SmallVector<Value> found;
    for (const Portions &portions : cells.piecesOfRow()) {
      SmallVector<Type> types;
      for (const Reducer &reducer : reducers)
        types.push_back(typeOf(portions, reducer.element));
      auto partial = cells.isWrittenOut(portions) ? foldNumbers(portions, reducers, types, body)
                                                  : foldLoop(portions, reducers, types, body);
      if (team.along && portions.lanes > 1)
        for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
          value = folds.foldVector(value, reducer);
      found = found.empty() ? partial : lanes.combine(reducers, found, partial);
    }
    return found;
  }

  //===-- Folds in parts --------------------------------------------------------------------===//

  /// The fold whose parts this kernel computes goes to the workspace; those before it are joined from
  /// there. Nobody uses what is behind it.
  SmallVector<Value> foldInParts(ArrayRef<Reducer> reducers, CellFold body) {
    FoldStage &stage = *frame.stage;
    const int64_t fold = stage.foundFolds++, value = stage.foundValues;
    stage.foundValues += static_cast<int64_t>(reducers.size());
    if (fold < stage.number)
      return folds.joined(readParts(reducers, value), reducers);
    if (fold > stage.number) {
      SmallVector<Type> types;
      for (const Reducer &reducer : reducers)
        types.push_back(team.along ? reducer.element : typeOf(team.vectors, reducer.element));
      return lanes.neutrals(reducers, types);
    }
    SmallVector<Value> found = folds.joined(foldCells(reducers, body), reducers);
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
                      : Access{base, 1, std::min<int64_t>(kAccessBytes, 4 * team.vectors.lanes)};
  }

  //===-- Folds of a thread and of a team ---------------------------------------------------===//

  /// What a cell adds to a fold: nothing where it does not exist.
  SmallVector<Value> raw(const Portions &portions, ArrayRef<Term> terms, Value active,
                         ArrayRef<Reducer> reducers, ArrayRef<Type> types) {
    Chunk chunk(builder, location, lanes.index(0), portions.lanes);
    SmallVector<Value> values;
    for (const Term &term : terms)
      values.push_back(chunk.widen(term.get()));
    if (active)
      for (auto [value, neutral] : llvm::zip_equal(values, lanes.neutrals(reducers, types)))
        value = arith::SelectOp::create(builder, location, active, value, neutral);
    return values;
  }

  SmallVector<Value> foldNumbers(const Portions &portions, ArrayRef<Reducer> reducers,
                                 ArrayRef<Type> types, CellFold body) {
    SmallVector<Value> sums;
    for (int64_t i = 0; i < team.ofMember(portions); ++i)
      cells.withNumber(portions, i, [&](const Cell &cell, Value active) {
        auto values = raw(portions, body(cell), active, reducers, types);
        sums = i == 0 ? values : lanes.combine(reducers, sums, values);
      });
    return sums;
  }

  SmallVector<Value> foldLoop(const Portions &portions, ArrayRef<Reducer> reducers,
                              ArrayRef<Type> types, CellFold body) {
    size_t count = reducers.size();
    const int64_t all = team.hasEdges() && cells.isOneRun() ? team.certain : portions.count;
    int64_t round = kUnroll * team.stride(), whole = all / round * round;
    SmallVector<Value> sums;
    for (int64_t i = 0; i < kUnroll; ++i)
      llvm::append_range(sums, lanes.neutrals(reducers, types));
    auto add = [&](Value number, SmallVector<Value> &all, int64_t accumulator) {
      cells.withPiece(portions, number, {}, nullptr, [&](const Cell &cell, Value active) {
        auto joined = lanes.combine(reducers, ValueRange(all).slice(accumulator * count, count),
                                    raw(portions, body(cell), active, reducers, types));
        std::copy(joined.begin(), joined.end(), all.begin() + accumulator * count);
      });
    };
    if (whole > 0) {
      sums = lanes.loop(
          lanes.index(0), lanes.index(whole), round, sums, [&](Value base, ValueRange old) {
            SmallVector<Value> next(old);
            Value number = arith::AddIOp::create(builder, location, base, cells.first());
            for (int64_t i = 0; i < kUnroll; ++i)
              add(arith::AddIOp::create(builder, location, number, lanes.index(i * team.stride())),
                  next, i);
            return next;
          });
      // It has as much on its way as a thread is to ask for.
      keepRolled(sums.front().getDefiningOp());
    }
    if (whole < portions.count) {
      Value first = arith::AddIOp::create(builder, location, cells.first(), lanes.index(whole));
      sums = lanes.loop(first, cells.end(portions), team.stride(), sums,
                        [&](Value number, ValueRange old) {
                          SmallVector<Value> next(old);
                          add(number, next, 0);
                          return next;
                        });
    }
    ValueRange found = sums;
    auto low = lanes.combine(reducers, found.slice(0, count), found.slice(count, count));
    auto high =
        lanes.combine(reducers, found.slice(2 * count, count), found.slice(3 * count, count));
    return lanes.combine(reducers, low, high);
  }

  //===-- Exponentials of rows that are not kept --------------------------------------------===//

  /// What a thread has found: its largest value and, relative to that, sums of exponentials, one a lane.
  struct Running {
    Value maximum, sums;
  };

  /// Takes in cells that a thread reads together: the sums are scaled once for all of them. After M. Milakov,
  /// N. Gimelshein, "Online normalizer calculation for softmax", 2018.
  Running takenIn(const Portions &portions, Running before, ArrayRef<Value> values, Value active) {
    const Reducer max{Reducer::Kind::Max, before.maximum.getType()};
    Value most = values.front();
    for (Value value : values.drop_front())
      most = term(most).maximum(term(value)).get();
    if (portions.lanes > 1)
      most = folds.foldVector(most, max);
    if (active)
      most = term(active).choose(term(most), term(before.maximum)).get();
    const Term maximum = term(before.maximum).maximum(term(most));
    const Term base = finite(maximum);
    Chunk chunk(builder, location, lanes.index(0), portions.lanes);
    Value found;
    for (Value value : values) {
      const Term power = (term(value) - chunk.term(base.get())).unary<math::ExpOp>();
      found = found ? (term(found) + power).get() : power.get();
    }
    if (active)
      found = chunk.term(active).choose(term(found), term(found).constant(0)).get();
    const Term scale = (term(before.maximum) - base).unary<math::ExpOp>();
    return {maximum.get(), (term(before.sums) * chunk.term(scale.get()) + term(found)).get()};
  }

  /// While nothing but minus infinity was found exponentials are those of minus infinity, not NaN.
  Term finite(Term maximum) {
    const Term none = maximum.constant(-std::numeric_limits<double>::infinity());
    return maximum.equals(none).choose(maximum.constant(0), maximum);
  }

  Exponentials exponentialsOfLongRow(unsigned access, Type element) {
    const Reducer max{Reducer::Kind::Max, element}, sum{Reducer::Kind::Sum, element};
    Value maximum, total;
    for (const Portions &portions : cells.piecesOfRow()) {
      const Type type = typeOf(portions, element);
      SmallVector<Value> state = {lanes.neutrals(max, element).front(),
                                  lanes.neutrals(sum, type).front()};
      auto read = [&](Value number, SmallVector<Value> &values, Value &exists) {
        cells.withPiece(portions, number, {}, nullptr, [&](const Cell &cell, Value active) {
          values.push_back(cell.load(access).get());
          exists = active;
        });
      };
      auto step = [&](ValueRange old, ArrayRef<Value> values, Value active) {
        const Running next = takenIn(portions, {old[0], old[1]}, values, active);
        return SmallVector<Value>{next.maximum, next.sums};
      };
      const bool mayLack =
          !cells.isOneRun() || portions.areEdges; // a piece that is counted need not exist
      const int64_t all = team.hasEdges() && cells.isOneRun() ? team.certain : portions.count,
                    round = kUnroll * team.stride(), whole = mayLack ? 0 : all / round * round;
      if (whole > 0) {
        state = lanes.loop(lanes.index(0), lanes.index(whole), round, state,
                           [&](Value base, ValueRange old) {
                             SmallVector<Value> values;
                             Value number = math.plus(base, cells.first()), exists;
                             for (int64_t i = 0; i < kUnroll; ++i)
                               read(math.plus(number, i * team.stride()), values, exists);
                             return step(old, values, {});
                           });
        keepRolled(state.front().getDefiningOp());
      }
      if (whole < portions.count)
        state = lanes.loop(math.plus(cells.first(), whole), cells.end(portions), team.stride(),
                           state, [&](Value number, ValueRange old) {
                             SmallVector<Value> values;
                             Value exists;
                             read(number, values, exists);
                             return step(old, values, exists);
                           });
      Value found = portions.lanes > 1 ? folds.foldVector(state[1], sum) : state[1];
      if (!maximum) {
        maximum = state[0], total = found;
        continue;
      }
      const Term both = term(maximum).maximum(term(state[0])), base = finite(both);
      total = (term(total) * (term(maximum) - base).unary<math::ExpOp>() +
               term(found) * (term(state[0]) - base).unary<math::ExpOp>())
                  .get();
      maximum = both.get();
    }
    Value most = folds.joined({maximum}, max).front();
    const Term scale = (term(maximum) - finite(term(most))).unary<math::ExpOp>();
    return {most, folds.joined({(term(total) * scale).get()}, sum).front()};
  }

  KernelFrame &frame;
  const Space &axis;
  const Team &team;
  TeamCells cells;
  const TeamPlace &place; ///< the cells'
  TeamFolds folds;
  OpBuilder &builder;
  Location location;
  const IndexMath math;
};

//===-- Tasks ---------------------------------------------------------------------------------===//

using RowBody = llvm::function_ref<void(Row &)>;

void runRow(KernelFrame &frame, const Space &axis, const Team &team, TeamPlace place,
            RowBody body) {
  DeviceRow row(frame, axis, team, std::move(place));
  body(row);
  row.finish();
}

/// What of a kernel's tasks, parts of a row side by side, is the row and which of its parts.
std::pair<Value, Value> partOf(const IndexMath &math, Value task, const Team &team) {
  if (team.parts == 1)
    return {task, math.constant(0)};
  return {math.quotient(task, team.parts), math.remainder(task, team.parts)};
}

void forRowsAlong(KernelFrame &frame, Space rows, Space axis, RowBody body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const IndexMath math{builder, location};
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  const Team team = teamAlong(frame, rows, axis);
  SmallVector<Space::Dim> others(rows.dims);
  llvm::append_range(others, llvm::drop_end(axis.dims));
  const int64_t teams = kDeviceBlock / team.members, count = rows.elements();
  auto [begin, end] = taskRange(frame, (count + teams - 1) / teams * team.parts);
  lanes.forTasks(begin, end, [&](Value task) {
    TeamPlace place;
    place.member = thread;
    place.others = others;
    if (teams == 1) {
      std::tie(place.row, place.part) = partOf(math, task, team);
      place.bases = rowBases(lanes, rows, place.row);
      return runRow(frame, axis, team, std::move(place), body);
    }
    place.row = math.plus(math.times(task, teams), math.quotient(thread, team.members));
    place.member = math.remainder(thread, team.members);
    OpBuilder::InsertionGuard guard(builder);
    if (count % teams != 0 && team.members < kWarp) { // all threads of a warp take part in shuffles
      place.exists = math.isBelow(place.row, math.constant(count));
      place.row = math.smaller(place.row, math.constant(count - 1));
    } else if (count % teams != 0) {
      auto branch = scf::IfOp::create(builder, location,
                                      math.isBelow(place.row, math.constant(count)), false);
      builder.setInsertionPointToStart(branch.thenBlock());
    }
    place.bases = rowBases(lanes, rows, place.row);
    runRow(frame, axis, team, std::move(place), body);
  });
}

void forRowsAcross(KernelFrame &frame, const Space &rows, const Space &axis, RowBody body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const IndexMath math{builder, location};
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  Space outer = rows;
  const Space::Dim lane = outer.takeInnermost();
  const Team team = teamAcross(frame, outer, lane, axis);
  if (team.members > kWarp) // few columns by long vectors
    allowRegisters(functionOf(frame), kRegisters);
  const int64_t threads = kDeviceBlock / team.members, vectors = lane.extent / team.vectors.lanes;
  const int64_t tiles = (vectors + threads - 1) / threads;
  auto [begin, end] = taskRange(frame, outer.elements() * tiles * team.parts);
  lanes.forTasks(begin, end, [&](Value task) {
    auto [tile, part] = partOf(math, task, team);
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
    TeamPlace place;
    place.member = arith::DivUIOp::create(builder, location, thread, lanes.index(threads));
    if (vectors % threads != 0) {
      place.exists = math.isBelow(vector, lanes.index(vectors));
      vector = arith::MinUIOp::create(builder, location, vector, lanes.index(vectors - 1));
    }
    place.column =
        arith::MulIOp::create(builder, location, vector, lanes.index(team.vectors.lanes));
    place.bases = rowBases(lanes, outer, number);
    place.part = part;
    place.row = arith::MulIOp::create(builder, location, number, lanes.index(lane.extent));
    place.laneStrides = lane.strides;
    runRow(frame, axis, team, std::move(place), body);
  });
}

} // namespace

void forDeviceRows(KernelFrame &frame, const Space &rows, const Space &axis, bool along,
                   llvm::function_ref<void(Row &)> body) {
  if (along)
    forRowsAlong(frame, rows, axis, body);
  else
    forRowsAcross(frame, rows, axis, body);
}

} // namespace stow
