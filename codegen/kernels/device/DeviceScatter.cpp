// Sums of rows by index on a device.
//
// A block owns consecutive rows of the table and a tile of their columns. It walks the indices a
// thousand at a time: its threads pick out those that name its rows, put them in the order of row and
// position by counting, and then teams of threads, one for each column, walk parts of that list:
//
//   indices         7 2 9 2 7 7 1 2 ...      the block has rows 2 and 7
//   list            2@1 2@3 | 2@7 7@0 | 7@4 7@5
//   team 0, thread t   row 2: dy[1][t] + dy[3][t]
//   team 1             the rest of row 2: dy[7][t]; row 7: dy[0][t]
//   team 2             the rest of row 7: dy[4][t] + dy[5][t]
//
// A team leaves the rest of a row that begins in an earlier part to the team that has begun it, which adds such rests up
// in the order of the parts. So a row that many indices name is summed by all teams, of which several addends are on their
// way at once. Threads take places in the list as they come, but the order of the list, and with it that
// of each sum, is that of the indices: of a row in one part as on the host, of others in sums of parts.
#include "codegen/kernels/device/DeviceScatter.h"

#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/RowIndex.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Indices that a thread reads at once.
constexpr int64_t kIndicesPerThread = 4;
/// Rows of dy that a thread asks for before it adds the first.
constexpr int64_t kRowsAhead = 4;
/// Blocks that keep all multiprocessors of the larger chips busy. More would each walk all indices.
constexpr int64_t kBlocks = 1024;
/// Blocks below which vectors are given up for more of them.
constexpr int64_t kFewBlocks = 128;
/// Columns of a team at most, in vectors: a warp reads 512 bytes that lie beside each other.
constexpr int64_t kTeam = 32;
/// Rows of a block at most: shared memory has a number for each.
constexpr int64_t kMostRows = 2048;

class DeviceScatter {
public:
  DeviceScatter(KernelFrame &frame, const ScatterProblem &problem)
      : frame(frame), problem(problem), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()), math{builder, location} {
    chooseShares();
    const bool fits = rowsPerBlock * problem.count <= std::numeric_limits<int32_t>::max();
    number = fits ? builder.getI32Type() : builder.getI64Type();
    constexpr int64_t listed = kIndicesPerThread * kDeviceBlock;
    length = shared(1, builder.getI32Type());
    found = shared(listed, number);
    list = shared(listed, number);
    if (problem.sums)
      firsts = shared(rowsPerBlock, number);
    rests = shared(teams * vectorsPerTile * vectorLanes, restType());
  }

  void emit() {
    thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
    auto [begin, end] =
        taskRange(frame, llvm::divideCeilSigned(problem.rows, rowsPerBlock) * tiles);
    lanes.forTasks(begin, end, [&](Value task) {
      low = math.times(math.quotient(task, tiles), rowsPerBlock);
      high = math.smaller(math.plus(low, rowsPerBlock), math.constant(problem.rows));
      Value tile = tiles == 1 ? math.constant(0) : math.remainder(task, tiles);
      firstVector = math.times(tile, vectorsPerTile);
      if (problem.sums)
        findFirsts();
      else
        clearRows();
      lanes.loop(math.constant(0), math.constant(problem.count), kIndicesPerThread * kDeviceBlock,
                 {}, [&](Value base, ValueRange) {
                   addIndices(base);
                   return SmallVector<Value>();
                 });
      if (problem.sums)
        addToGradient();
    });
  }

private:
  /// Rows, columns and lanes of a block and its threads.
  void chooseShares() {
    const int64_t width = problem.width;
    const int64_t bytes = problem.dtable.element.getIntOrFloatBitWidth() / 8;
    auto tilesOf = [&](int64_t lanes) { return llvm::divideCeilSigned(width / lanes, kTeam); };
    vectorLanes = std::gcd(kAccessBytes / bytes, width);
    while (vectorLanes > 1 &&
           (2 * width / vectorLanes < kTeam || problem.rows * tilesOf(vectorLanes) < kFewBlocks))
      vectorLanes /= 2;
    tiles = tilesOf(vectorLanes);
    vectorsPerTile = std::min(width / vectorLanes, kTeam);
    teams = kDeviceBlock / vectorsPerTile;
    rowsPerBlock = std::min(
        llvm::divideCeilSigned(problem.rows, std::max<int64_t>(1, kBlocks / tiles)), kMostRows);
  }

  //===-- The parts of a task ---------------------------------------------------------------===//

  /// The first position of every row's index, or `none`.
  void findFirsts() {
    lanes.loop(thread, math.constant(rowsPerBlock), kDeviceBlock, {}, [&](Value row, ValueRange) {
      put(none(), firsts, row);
      return SmallVector<Value>();
    });
    barrier();
    lanes.loop(thread, math.constant(problem.count), kDeviceBlock, {},
               [&](Value position, ValueRange) {
                 ifOwn(position, [&](Value row) {
                   memref::AtomicRMWOp::create(builder, location, arith::AtomicRMWKind::minu,
                                               toNumber(position), firsts, ValueRange{row});
                 });
                 return SmallVector<Value>();
               });
    barrier();
  }

  void clearRows() {
    forRows([&](Value row, const Chunk &chunk) {
      Value zero = arith::ConstantOp::create(builder, location,
                                             builder.getFloatAttr(problem.dtable.element, 0));
      chunk.store(zero, problem.dtable, rowOf(problem.dtable, math.plus(low, row)));
    });
  }

  /// Adds the rows of dy at positions from `base` on. Barriers part the uses of shared memory; the
  /// first of them also what clearRows wrote from what is read of it.
  void addIndices(Value base) {
    lanes.ifHolds(compare(arith::CmpIPredicate::eq, thread, math.constant(0)), [&] {
      put(arith::ConstantIntOp::create(builder, location, 0, 32), length, math.constant(0));
    });
    barrier();
    for (int64_t i = 0; i < kIndicesPerThread; ++i) {
      Value position = math.plus(math.plus(base, i * kDeviceBlock), thread);
      lanes.ifHolds(math.isBelow(position, math.constant(problem.count)), [&] {
        ifOwn(position, [&](Value row) {
          Value one = arith::ConstantIntOp::create(builder, location, 1, 32);
          Value place = memref::AtomicRMWOp::create(builder, location, arith::AtomicRMWKind::addi,
                                                    one, length, ValueRange{math.constant(0)});
          put(toNumber(math.plus(math.times(row, problem.count), position)), found,
              arith::IndexCastUIOp::create(builder, location, builder.getIndexType(), place));
        });
      });
    }
    barrier();
    Value count = take(length, math.constant(0));
    lanes.ifHolds(compare(arith::CmpIPredicate::ne, count, math.constant(0)), [&] {
      sortFound(count);
      barrier();
      addListed(count);
    });
    barrier();
  }

  /// What was found, into its place in the list: the number of smaller ones.
  void sortFound(Value count) {
    lanes.loop(thread, count, kDeviceBlock, {}, [&](Value mine, ValueRange) {
      Value key = memref::LoadOp::create(builder, location, found, ValueRange{mine});
      Value place =
          lanes
              .loop(math.constant(0), count, 1, {math.constant(0)},
                    [&](Value other, ValueRange old) {
                      Value its =
                          memref::LoadOp::create(builder, location, found, ValueRange{other});
                      Value smaller = math.isBelow(its, key);
                      return SmallVector<Value>{math.plus(
                          old.front(), arith::IndexCastUIOp::create(
                                           builder, location, builder.getIndexType(), smaller))};
                    })
              .front();
      put(key, list, place);
      return SmallVector<Value>();
    });
  }

  /// One entry of the list: the row of the block, the position, and dy's elements there.
  struct Entry {
    Value row, position, dy, exists;
  };

  /// Entries of one row beside each other in a part: the row, or rowsPerBlock before the first; whether it began in an earlier part; their sum.
  struct Run {
    Value row, isRest, sum;
  };

  /// A team's part of the list, for a column of one of its threads; empty for threads that have none.
  struct Part {
    Value team, begin, end;
    Chunk chunk, rest; ///< the thread's columns of the table, and of what is left to another team
    Value continues;   ///< its first row began in an earlier part
  };

  Part partOf(Value count) {
    Value team = math.quotient(thread, vectorsPerTile),
          column = math.remainder(thread, vectorsPerTile);
    Value vector = math.plus(firstVector, column);
    Value works = hasColumn(team, vector);
    Value length = math.quotient(math.plus(count, teams - 1), teams);
    auto where = [&](Value begin) {
      return arith::SelectOp::create(builder, location, works, math.smaller(begin, count), count);
    };
    Value begin = where(product(team, length)), end = where(product(math.plus(team, 1), length));
    return {team,
            begin,
            end,
            chunkAt(vector),
            chunkAt(column),
            both(math.isBelow(begin, end), continuesAt(begin, count))};
  }

  /// Whether the entry at `place`, where there is one, is of the row of the one before it.
  Value continuesAt(Value place, Value count) {
    Value last = math.minus(count, math.constant(1)); // the list is not empty
    Value before = math.minus(math.larger(place, math.constant(1)), math.constant(1));
    Value same = compare(arith::CmpIPredicate::eq, rowAt(math.smaller(place, last)), rowAt(before));
    return both(both(compare(arith::CmpIPredicate::ne, place, math.constant(0)),
                     math.isBelow(place, count)),
                same);
  }

  /// Walks the parts of the list: what was summed, 16-bit floats in f32, is stored when another row begins, and where a row goes on in
  /// later parts with what they have left.
  void addListed(Value count) {
    const Part part = partOf(count);
    const Chunk &chunk = part.chunk;
    Value last = math.minus(math.larger(part.end, math.constant(1)), math.constant(1));
    Value zero = chunk.widen(
        arith::ConstantOp::create(builder, location, builder.getFloatAttr(restType(), 0)));
    auto ends = lanes.loop(
        part.begin, part.end, kRowsAhead, {math.constant(rowsPerBlock), part.continues, zero},
        [&](Value base, ValueRange old) {
          SmallVector<Entry> entries;
          for (int64_t i = 0; i < kRowsAhead; ++i)
            entries.push_back(entryAt(math.plus(base, i), last, chunk));
          Run run{old[0], old[1], old[2]};
          for (const Entry &entry : entries) {
            run = beginRow(entry, run, part);
            Term more = chunk.term(run.sum) + chunk.term(entry.dy).widened();
            run.sum = chunk.term(entry.exists).choose(more, chunk.term(run.sum)).get();
          }
          return SmallVector<Value>{run.row, run.isRest, run.sum};
        });
    const Run run{ends[0], ends[1], ends[2]};
    lanes.ifHolds(run.isRest, [&] { leaveRest(run.sum, part); });
    barrier(); // the rests are there
    Value begun = both(math.isBelow(run.row, math.constant(rowsPerBlock)), isNot(run.isRest));
    lanes.ifHolds(begun, [&] { storeSum(withRests(run, part, count), run.row, chunk); });
  }

  /// What later parts have left of the run's row, added in their order.
  Value withRests(const Run &run, const Part &part, Value count) {
    const Chunk &chunk = part.rest;
    Value length = math.quotient(math.plus(count, teams - 1), teams);
    return lanes
        .loop(math.plus(part.team, 1), math.constant(teams), 1, {run.sum},
              [&](Value team, ValueRange old) {
                Value begin = product(team, length);
                Value last = math.minus(count, math.constant(1));
                Value isMore = both(
                    math.isBelow(begin, count),
                    compare(arith::CmpIPredicate::eq, rowAt(math.smaller(begin, last)), run.row));
                Value rest = chunk.loadAllWhere(isMore, restBuffer(), restOf(team));
                Term more = chunk.term(old.front()) + chunk.term(rest);
                return SmallVector<Value>{
                    chunk.term(isMore).choose(more, chunk.term(old.front())).get()};
              })
        .front();
  }

  /// Beyond the end of a part its last entry once more, which is not added.
  Entry entryAt(Value place, Value last, const Chunk &chunk) {
    Value key = take(list, math.smaller(place, last));
    Entry entry;
    entry.row = math.quotient(key, problem.count);
    entry.position = math.remainder(key, problem.count);
    entry.exists = compare(arith::CmpIPredicate::ule, place, last);
    entry.dy = chunk.load(problem.dy, rowOf(problem.dy, entry.position));
    return entry;
  }

  /// The run that the entry is to be added to; where it is of another row than before, what was summed before is stored, or left.
  Run beginRow(const Entry &entry, const Run &run, const Part &part) {
    const Chunk &chunk = part.chunk;
    auto branch =
        scf::IfOp::create(builder, location, TypeRange{run.isRest.getType(), run.sum.getType()},
                          compare(arith::CmpIPredicate::ne, entry.row, run.row), true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value hasBegun = math.isBelow(run.row, math.constant(rowsPerBlock));
    lanes.ifHolds(both(hasBegun, run.isRest), [&] { leaveRest(run.sum, part); });
    lanes.ifHolds(both(hasBegun, isNot(run.isRest)), [&] { storeSum(run.sum, run.row, chunk); });
    Value isRest = both(isNot(hasBegun), run.isRest);
    Value isKnown = isNot(isRest);
    if (problem.sums) // nothing is there before the row's first position
      isKnown =
          both(isKnown, compare(arith::CmpIPredicate::ne, take(firsts, entry.row), entry.position));
    Value known = chunk.loadAllWhere(isKnown, placeOfSums(), placeOf(entry.row));
    scf::YieldOp::create(builder, location, ValueRange{isRest, chunk.term(known).widened().get()});
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, location, ValueRange{run.isRest, run.sum});
    return {entry.row, branch.getResult(0), branch.getResult(1)};
  }

  //===-- What teams leave to others ---------------------------------------------------------===//

  Type restType() const {
    Type element = problem.dtable.element;
    return element.getIntOrFloatBitWidth() < 32 ? Type(builder.getF32Type()) : element;
  }
  Buffer restBuffer() const { return {rests, restType(), kAccessBytes}; }
  Access restOf(Value team) {
    return {math.times(team, vectorsPerTile * vectorLanes), 1,
            accessAlignment(restBuffer(), vectorLanes)};
  }
  void leaveRest(Value sum, const Part &part) {
    part.rest.store(sum, restBuffer(), restOf(part.team));
  }

  void storeSum(Value sum, Value row, const Chunk &chunk) {
    chunk.store(chunk.term(sum).as(placeOfSums().element).get(), placeOfSums(), placeOf(row));
  }

  /// Where the sum of a row waits for more.
  const Buffer &placeOfSums() const { return problem.sums ? *problem.sums : problem.dtable; }
  Access placeOf(Value row) {
    return rowOf(placeOfSums(), problem.sums ? take(firsts, row) : math.plus(low, row));
  }

  /// Rows that no index names get a zero: -0 becomes 0, as where a table of sums is added.
  void addToGradient() {
    barrier(); // the sums are stored by the threads of their columns
    forRows([&](Value row, const Chunk &chunk) {
      Access place = rowOf(problem.dtable, math.plus(low, row));
      Value first = memref::LoadOp::create(builder, location, firsts, ValueRange{row});
      Value named = compare(arith::CmpIPredicate::ne, first, none());
      Value sum = chunk.loadAllWhere(named, *problem.sums, rowOf(*problem.sums, toIndex(first)));
      Term both =
          chunk.term(chunk.load(*problem.gradient, place)).widened() + chunk.term(sum).widened();
      chunk.store(both.as(problem.dtable.element).get(), problem.dtable, place);
    });
    barrier(); // before the next task's firsts
  }

  //===-- Rows and columns ------------------------------------------------------------------===//

  /// Whether the thread has a column: teams of fewer threads than a block's, tiles at the end of a row.
  Value hasColumn(Value team, Value vector) {
    return both(math.isBelow(team, math.constant(teams)),
                math.isBelow(vector, math.constant(problem.width / vectorLanes)));
  }

  /// All rows of the block, one a team.
  void forRows(llvm::function_ref<void(Value row, const Chunk &)> body) {
    Value team = math.quotient(thread, vectorsPerTile);
    Value vector = math.plus(firstVector, math.remainder(thread, vectorsPerTile));
    lanes.ifHolds(hasColumn(team, vector), [&] {
      lanes.loop(team, math.minus(high, low), teams, {}, [&](Value row, ValueRange) {
        body(row, chunkAt(vector));
        return SmallVector<Value>();
      });
    });
  }

  Access rowOf(const Buffer &buffer, Value row) {
    return {math.times(row, problem.width), 1, accessAlignment(buffer, vectorLanes)};
  }

  /// Runs `body` with the number, in the block, of the row that the index at `position` names.
  void ifOwn(Value position, llvm::function_ref<void(Value)> body) {
    RowIndex index = loadIndex(lanes, problem.indices, position, problem.rows);
    Value own =
        both(compare(arith::CmpIPredicate::uge, index.row, low), math.isBelow(index.row, high));
    own = both(own, index.valid);
    if (problem.padding)
      own = both(own, compare(arith::CmpIPredicate::ne, index.row,
                              math.constant(static_cast<int64_t>(*problem.padding))));
    lanes.ifHolds(own, [&] { body(math.minus(index.row, low)); });
  }

  //===-- Values and shared memory ----------------------------------------------------------===//

  Value shared(int64_t count, Type element) {
    auto function =
        cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
    return addSharedMemory(function, {count}, element, location);
  }
  void barrier() { gpu::BarrierOp::create(builder, location); }
  void put(Value value, Value memory, Value place) {
    memref::StoreOp::create(builder, location, value, memory, ValueRange{place});
  }
  Value take(Value memory, Value place) {
    return toIndex(memref::LoadOp::create(builder, location, memory, ValueRange{place}));
  }
  Value toIndex(Value value) {
    return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(), value);
  }
  Value toNumber(Value index) {
    return arith::IndexCastUIOp::create(builder, location, number, index);
  }
  Value none() {
    return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(number, -1));
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, location, predicate, a, b);
  }
  Value product(Value a, Value b) { return arith::MulIOp::create(builder, location, a, b); }
  Value isNot(Value holds) {
    return arith::XOrIOp::create(builder, location, holds,
                                 arith::ConstantIntOp::create(builder, location, 1, 1));
  }
  /// The row, in the block, of the entry at `place` of the list.
  Value rowAt(Value place) { return math.quotient(take(list, place), problem.count); }
  Chunk chunkAt(Value vector) {
    return Chunk(builder, location, math.times(vector, vectorLanes), vectorLanes);
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, location, a, b); }

  KernelFrame &frame;
  const ScatterProblem &problem;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  IndexMath math;

  int64_t vectorLanes = 1, vectorsPerTile = 1, tiles = 1, rowsPerBlock = 1;
  int64_t teams = 1; ///< of vectorsPerTile threads each
  Type number; ///< of what identifies a row of the block and a position: row * count + position
  Value length, found, list; ///< shared: how many of these indices are the block's; which; in order
  Value firsts;              ///< shared: the first position of each row's index
  Value rests;               ///< shared: what each team has left to an earlier one
  Value thread;
  Value low, high, firstVector; ///< rows and columns of the task
};

} // namespace

void emitDeviceScatter(KernelFrame &frame, const ScatterProblem &problem) {
  DeviceScatter(frame, problem).emit();
}

} // namespace stow
