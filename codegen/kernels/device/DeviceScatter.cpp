// Sums of rows by index on a device.
//
// A block owns consecutive rows of the table and a tile of their columns. It walks the indices a
// thousand at a time: its threads pick out those that name its rows, put them in the order of row and
// position by counting, and then each thread walks that list for columns of its own:
//
//   indices    7 2 9 2 7 7 1 2 ...      the block has rows 2 and 7
//   list       2@1 2@3 2@7  7@0 7@4 7@5
//   thread t   sum of dy[1][t], dy[3][t], dy[7][t] to row 2, then of dy[0][t] ... to row 7
//
// A row that many indices name is a sum in a register, of which several addends are on their way at
// once. Threads take places in the list as they come, but the order of the list, and with it that
// of each sum, is that of the indices.
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
    auto tilesOf = [&](int64_t lanes) {
      return llvm::divideCeilSigned(width / lanes, kDeviceBlock);
    };
    vectorLanes = std::gcd(kAccessBytes / bytes, width);
    while (vectorLanes > 1 && (2 * width / vectorLanes < kDeviceBlock ||
                               problem.rows * tilesOf(vectorLanes) < kFewBlocks))
      vectorLanes /= 2;
    tiles = tilesOf(vectorLanes);
    vectorsPerTile = std::min(width / vectorLanes, kDeviceBlock);
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

  /// Walks the list: what was summed, 16-bit floats in f32, is stored when another row begins.
  void addListed(Value count) {
    ifColumn(thread, [&](const Chunk &chunk) {
      Value last = math.minus(count, math.constant(1));
      Value none = arith::ConstantOp::create(builder, location,
                                             builder.getFloatAttr(placeOfSums().element, 0));
      Value zero = chunk.term(chunk.widen(none)).widened().get();
      auto ends = lanes.loop(math.constant(0), count, kRowsAhead,
                             {math.constant(rowsPerBlock), zero}, [&](Value base, ValueRange old) {
                               SmallVector<Entry> entries;
                               for (int64_t i = 0; i < kRowsAhead; ++i)
                                 entries.push_back(entryAt(math.plus(base, i), last, chunk));
                               Value row = old[0], sum = old[1];
                               for (const Entry &entry : entries) {
                                 sum = beginRow(entry, row, sum, chunk);
                                 Term more = chunk.term(sum) + chunk.term(entry.dy).widened();
                                 sum = chunk.term(entry.exists).choose(more, chunk.term(sum)).get();
                                 row = entry.row;
                               }
                               return SmallVector<Value>{row, sum};
                             });
      storeSum(ends[1], ends[0], chunk);
    });
  }

  /// Beyond the end of the list the last entry once more, which is not added.
  Entry entryAt(Value place, Value last, const Chunk &chunk) {
    Value key = take(list, math.smaller(place, last));
    Entry entry;
    entry.row = math.quotient(key, problem.count);
    entry.position = math.remainder(key, problem.count);
    entry.exists = compare(arith::CmpIPredicate::ule, place, last);
    entry.dy = chunk.load(problem.dy, rowOf(problem.dy, entry.position));
    return entry;
  }

  /// The sum that the entry is to be added to; where that is another row's than before, the one before
  /// is stored.
  Value beginRow(const Entry &entry, Value row, Value sum, const Chunk &chunk) {
    auto branch = scf::IfOp::create(builder, location, TypeRange{sum.getType()},
                                    compare(arith::CmpIPredicate::ne, entry.row, row), true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    lanes.ifHolds(math.isBelow(row, math.constant(rowsPerBlock)),
                  [&] { storeSum(sum, row, chunk); });
    Value known;
    if (problem.sums) { // nothing is there before the row's first position
      Value later = compare(arith::CmpIPredicate::ne, take(firsts, entry.row), entry.position);
      known = chunk.loadAllWhere(later, placeOfSums(), placeOf(entry.row));
    } else {
      known = chunk.load(placeOfSums(), placeOf(entry.row));
    }
    scf::YieldOp::create(builder, location, chunk.term(known).widened().get());
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, location, sum);
    return branch.getResult(0);
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

  /// Runs `body` for vector `number` of the tile, if it is one.
  void ifColumn(Value number, ChunkBody body) {
    Value vector = math.plus(firstVector, number);
    const int64_t vectors = problem.width / vectorLanes;
    Value exists = math.isBelow(number, math.constant(vectorsPerTile));
    if (tiles > 1)
      exists = math.isBelow(vector, math.constant(vectors));
    lanes.ifHolds(exists, [&] {
      body(Chunk(builder, location, math.times(vector, vectorLanes), vectorLanes));
    });
  }

  /// All rows of the block, as many side by side as there are threads for.
  void forRows(llvm::function_ref<void(Value row, const Chunk &)> body) {
    const int64_t side = kDeviceBlock / vectorsPerTile;
    Value first = math.quotient(thread, vectorsPerTile);
    ifColumn(side == 1 ? thread : math.remainder(thread, vectorsPerTile), [&](const Chunk &chunk) {
      Value inside = math.isBelow(first, math.constant(side));
      lanes.ifHolds(inside, [&] {
        lanes.loop(first, math.minus(high, low), side, {}, [&](Value row, ValueRange) {
          body(row, chunk);
          return SmallVector<Value>();
        });
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
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, location, a, b); }

  KernelFrame &frame;
  const ScatterProblem &problem;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  IndexMath math;

  int64_t vectorLanes = 1, vectorsPerTile = 1, tiles = 1, rowsPerBlock = 1;
  Type number; ///< of what identifies a row of the block and a position: row * count + position
  Value length, found, list; ///< shared: how many of these indices are the block's; which; in order
  Value firsts;              ///< shared: the first position of each row's index
  Value thread;
  Value low, high, firstVector; ///< rows and columns of the task
};

} // namespace

void emitDeviceScatter(KernelFrame &frame, const ScatterProblem &problem) {
  DeviceScatter(frame, problem).emit();
}

} // namespace stow
