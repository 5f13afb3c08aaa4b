// Transposing copies on a device.
//
// Where the result is contiguous along one dimension, its columns, and the source along another, its
// rows, threads that follow one of them touch the other an element a line. A block therefore takes a
// tile of both: it reads the tile as the source lies, leaves it in shared memory, and writes it as the
// result lies.
//
//            positions of the source's rows ->          a tile: 64 x 64 elements of up to 4 bytes, or
//   columns  |<- t0 ->|<- t1 ->| ... |<- t7 ->|         as many in another shape where one extent is
//      |     |<- t8 ->| ...                             short
//      v     a thread: up to 16 bytes, neighbours of a warp: whole lines of 128
//
// A line of the tile ends in 4 bytes that nobody uses, so that what a warp writes, or reads, at once
// lies in different banks, or in two elements of one (of 16 bits with vectors of 8: in two).
#include "codegen/kernels/device/DeviceTiles.h"

#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <bit>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Extents of a tile.
constexpr int64_t kShortestEdge = 32, kEdge = 64;
/// Bytes of its elements.
constexpr int64_t kTileBytes = kEdge * kEdge * 4;
/// Dimensions of fewer elements are not worth a tile.
constexpr int64_t kShortest = 8;
/// What a memory controller moves at once.
constexpr int64_t kLineBytes = 128;
/// Of a bank of shared memory.
constexpr int64_t kBankBytes = 4;

/// One side of the copy: the dimension along which it is contiguous.
struct Side {
  Buffer buffer;
  unsigned access = 0; ///< of the space
  int64_t extent = 1;  ///< of its dimension
  int64_t edge = 1;    ///< of a tile, along it
  int64_t across = 1;  ///< elements from one of its lines to the next
  int64_t lanes = 1;   ///< of a vector

  int64_t alignment() const { return accessAlignment(buffer, lanes); }
};

class TransposingCopy {
public:
  TransposingCopy(KernelFrame &frame, const Space &space, size_t rowDim, Side from, Side to)
      : frame(frame), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()), from(from), to(to) {
    bytes = from.buffer.elementBytes();
    chooseTile();
    this->from.lanes = vectorLanes(space, this->from);
    this->to.lanes = vectorLanes(space, this->to);
    pitch = this->from.edge + std::max<int64_t>(1, kBankBytes / bytes);
    tiles = tilesOf(space, rowDim);
  }

  void emit() {
    auto function =
        cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
    memory = sharedTile(function);
    thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
    auto [begin, end] = taskRange(frame, tiles.elements());
    lanes.forTasks(begin, end, [&](Value task) { emitTile(rowBases(lanes, tiles, task)); });
  }

private:
  /// Columns and rows of a tile: nearly square, and longer one way where the other is short.
  void chooseTile() {
    const int64_t most = std::min(kEdge * kEdge, kTileBytes / bytes);
    auto edgeOf = [](int64_t extent, int64_t limit) {
      const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
      return std::clamp(whole, kShortestEdge, limit);
    };
    from.edge = edgeOf(from.extent, kEdge);
    to.edge = edgeOf(to.extent, most / from.edge);
    from.edge = edgeOf(from.extent, most / to.edge);
  }

  /// As many as make an access of 16 bytes, where every line and every tile begins at a multiple of it.
  int64_t vectorLanes(const Space &space, const Side &side) const {
    int64_t step = std::gcd(side.extent, space.offsets[side.access]);
    for (const Space::Dim &dim : space.dims)
      if (dim.strides[side.access] != 1)
        step = std::gcd(step, dim.strides[side.access]);
    return std::gcd(kAccessBytes / bytes, step);
  }

  /// Tiles as a space: accesses as the copy's, then the numbers of the tile's first row and column.
  Space tilesOf(Space space, size_t rowDim) const {
    space.moveInnermost(rowDim);
    const Space::Dim row = space.takeInnermost(), column = space.takeInnermost();
    for (Space::Dim &outer : space.dims)
      outer.strides.append({0, 0});
    space.offsets.append({0, 0});
    auto add = [&](const Space::Dim &whole, int64_t edge, int64_t first, int64_t second) {
      Space::Dim dim{(whole.extent + edge - 1) / edge, {}};
      for (int64_t stride : whole.strides)
        dim.strides.push_back(stride * edge);
      dim.strides.append({first, second});
      space.dims.push_back(dim);
    };
    add(row, from.edge, from.edge, 0);
    add(column, to.edge, 0, to.edge);
    return space;
  }

  Value sharedTile(gpu::GPUFuncOp function) {
    Type element = cast<MemRefType>(from.buffer.memory.getType()).getElementType();
    const int64_t elements = to.edge * pitch;
    for (BlockArgument known : function.getWorkgroupAttributions()) // boxes of one kernel share it
      if (auto type = cast<MemRefType>(known.getType());
          type.getElementType() == element && type.getNumElements() >= elements)
        return known;
    return addSharedMemory(function, {elements}, element, location);
  }

  Value plus(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }
  Value times(Value a, int64_t by) {
    return by == 1 ? a : Value(arith::MulIOp::create(builder, location, a, lanes.index(by)));
  }
  Value quotient(Value a, int64_t by) {
    return by == 1 ? a : Value(arith::DivUIOp::create(builder, location, a, lanes.index(by)));
  }
  Value remainder(Value a, int64_t by) {
    return arith::RemUIOp::create(builder, location, a, lanes.index(by));
  }

  /// What a thread moves on one side: a vector, at a position along the side's dimension, in a line.
  struct Spot {
    Value position, line;
    Value exists; ///< i1; null: it does
  };

  /// Number `round` of a thread's vectors on a side, whose tile has `lineCount` lines. A warp takes 128
  /// bytes of as many lines as it has threads for.
  Spot spotOf(const Side &side, int64_t lineCount, int64_t round) {
    const int64_t ofLine = side.edge / side.lanes;
    const int64_t segment = std::min({kWarp, kLineBytes / (side.lanes * bytes), ofLine});
    const int64_t segments = ofLine / segment, lines = kWarp / segment;
    Value number = plus(thread, lanes.index(round * kDeviceBlock));
    Value unit = quotient(number, kWarp), lane = remainder(number, kWarp);
    Spot spot;
    spot.position = times(plus(times(remainder(unit, segments), segment), remainder(lane, segment)),
                          side.lanes);
    spot.line = plus(times(quotient(unit, segments), lines), quotient(lane, segment));
    if ((round + 1) * kDeviceBlock > ofLine * lineCount)
      spot.exists = below(spot.line, lanes.index(lineCount));
    return spot;
  }

  Value below(Value value, Value limit) {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, value, limit);
  }
  Value both(Value a, Value b) {
    return a ? Value(arith::AndIOp::create(builder, location, a, b)) : b;
  }

  /// Runs `body` with the spots of a side; `left` are the positions and lines that exist, null: all.
  void forSpots(const Side &side, int64_t lineCount, std::pair<Value, Value> left,
                llvm::function_ref<void(const Spot &)> body) {
    const int64_t vectors = side.edge / side.lanes * lineCount;
    for (int64_t round = 0; round * kDeviceBlock < vectors; ++round) {
      Spot spot = spotOf(side, lineCount, round);
      if (left.first)
        spot.exists = both(both(spot.exists, below(spot.position, left.first)),
                           below(spot.line, left.second));
      body(spot);
    }
  }

  Access accessOf(const Side &side, Value base, const Spot &spot) {
    return {plus(base, plus(spot.position, times(spot.line, side.across))), 1, side.alignment()};
  }

  /// Element of the shared tile at a column and a row.
  Value element(Value column, Value row) { return plus(times(column, pitch), row); }

  /// `left`: rows and columns of the tile that exist; null: all.
  void moveTile(ArrayRef<Value> bases, std::pair<Value, Value> left) {
    Value zero = lanes.index(0);
    const Chunk chunk(builder, location, zero, from.lanes);
    SmallVector<std::pair<Spot, Value>> read;
    forSpots(from, to.edge, left, [&](const Spot &spot) {
      const Access access = accessOf(from, bases[1], spot);
      read.emplace_back(spot, spot.exists ? chunk.loadAllWhere(spot.exists, from.buffer, access)
                                          : chunk.load(from.buffer, access));
    });
    for (auto &[spot, value] : read)
      lanes.ifHolds(spot.exists, [&, &spot = spot, &value = value] {
        Value first = element(spot.line, spot.position);
        for (int64_t lane = 0; lane < from.lanes; ++lane)
          memref::StoreOp::create(builder, location, laneOf(builder, location, value, lane), memory,
                                  ValueRange{plus(first, lanes.index(lane))});
      });
    gpu::BarrierOp::create(builder, location);
    forSpots(to, from.edge, {left.second, left.first}, [&](const Spot &spot) {
      lanes.ifHolds(spot.exists, [&] {
        Value first = element(spot.position, spot.line);
        SmallVector<Value> values;
        for (int64_t lane = 0; lane < to.lanes; ++lane)
          values.push_back(memref::LoadOp::create(
              builder, location, memory, ValueRange{plus(first, lanes.index(lane * pitch))}));
        Value whole = values.front();
        if (to.lanes > 1)
          whole = vector::FromElementsOp::create(
              builder, location, VectorType::get({to.lanes}, whole.getType()), values);
        Chunk(builder, location, zero, to.lanes)
            .store(whole, to.buffer, accessOf(to, bases[0], spot));
      });
    });
    gpu::BarrierOp::create(builder, location); // before the next tile is written there
  }

  void emitTile(ArrayRef<Value> bases) {
    if (from.extent % from.edge == 0 && to.extent % to.edge == 0)
      return moveTile(bases, {});
    auto left = [&](int64_t extent, Value first) -> Value {
      return arith::SubIOp::create(builder, location, lanes.index(extent), first);
    };
    Value rows = left(from.extent, bases[2]), columns = left(to.extent, bases[3]);
    auto isWhole = [&](Value rest, int64_t edge) -> Value {
      return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::uge, rest,
                                   lanes.index(edge));
    };
    Value whole = both(isWhole(rows, from.edge), isWhole(columns, to.edge));
    if (from.extent < from.edge || to.extent < to.edge)
      return moveTile(bases, {rows, columns});
    auto branch = scf::IfOp::create(builder, location, whole, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    moveTile(bases, {});
    builder.setInsertionPointToStart(branch.elseBlock());
    moveTile(bases, {rows, columns});
  }

  KernelFrame &frame;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  Side from, to;
  int64_t bytes = 1;
  int64_t pitch = 1; ///< elements from a column of the shared tile to the next
  Space tiles;
  Value memory, thread;
};

} // namespace

bool emitTransposingCopy(KernelFrame &frame, const Space &space, unsigned source, unsigned result) {
  const Space::Dim &column = space.dims.back();
  if (column.strides[0] != 1 || column.strides[1] == 1 || column.extent < kShortest)
    return false;
  for (auto [i, row] : llvm::enumerate(llvm::drop_end(space.dims))) {
    if (row.strides[1] != 1 || row.extent < kShortest)
      continue;
    auto raw = [&](unsigned number) { // elements are moved as they are stored
      Buffer buffer = frame.buffers[number];
      buffer.element = cast<MemRefType>(buffer.memory.getType()).getElementType();
      return buffer;
    };
    Side from{raw(source), 1, row.extent, 1, column.strides[1], 1};
    Side to{raw(result), 0, column.extent, 1, row.strides[0], 1};
    TransposingCopy(frame, space, i, from, to).emit();
    return true;
  }
  return false;
}

} // namespace stow
