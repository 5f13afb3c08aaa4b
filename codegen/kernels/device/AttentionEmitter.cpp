#include "codegen/kernels/device/AttentionEmitter.h"

#include "codegen/kernels/device/SharedMemory.h"
#include "ir/StowAttentionOps.h"
#include "ir/bodies/Philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;

namespace stow {
namespace {

/// Columns of q and of v whose sums fit into registers, and those whose rows fit into kSharedBytes with a block of as many warps.
constexpr int64_t kMostColumns = 256, kFewColumns = 128;
/// Registers of 255 that values of tensor cores may take (AttentionTiles::registers) where rows have up to kShortRow columns, and how many
/// fewer with each doubling, which takes more addresses. ptxas spills nothing by these on sm_80, sm_89 and sm_90, but 4 bytes of the
/// keys' gradient of heads of 128 that several heads of queries share.
constexpr int64_t kValueRegisters = 208, kShortRow = 64, kFewerRegisters = 24;
/// Blocks that leave no multiprocessor of an H100 without one.
constexpr int64_t kManyBlocks = 132;
/// Registers of a thread where three blocks of four warps share a multiprocessor.
constexpr int32_t kRegisters = 168;
/// Vectors of a tile that a thread asks for before it stores the first.
constexpr int64_t kMostInFlight = 16;
/// Bytes that a copy into shared memory has at least.
constexpr int64_t kLeastCopied = 4;

template <typename Op> AttentionProblem problemOf(Op op) {
  AttentionProblem problem;
  auto q = tensorType(op.getQ()), k = tensorType(op.getK()), v = tensorType(op.getV());
  problem.queries = q.getShape().end()[-2], problem.keys = k.getShape().end()[-2];
  problem.depth = q.getShape().back(), problem.width = v.getShape().back();
  problem.heads = q.getNumElements() / (problem.queries * problem.depth);
  problem.shared = problem.heads / (k.getNumElements() / (problem.keys * problem.depth));
  problem.element = cast<FloatType>(q.getElementType());
  problem.scale = op.getScale().convertToDouble(), problem.ratio = op.getRatio().convertToDouble();
  if (auto diagonal = op.getDiagonal())
    problem.diagonal = static_cast<int64_t>(*diagonal);
  if (auto window = op.getWindow())
    problem.window = static_cast<int64_t>(*window);
  problem.zeroRows = op.getZeroRows(), problem.stream = op.getStream();
  problem.isGradient = std::is_same_v<Op, AttentionGradientOp>;
  unsigned next = problem.isGradient ? 6 : 3;
  if (op.getMask()) {
    problem.mask = next++;
    problem.isAdded = !tensorType(op.getMask()).getElementType().isInteger(1);
  }
  if (op.getKeyDocuments()) {
    problem.queryDocuments = next++;
    problem.keyDocuments = next++;
  }
  if (op.getSeed() && problem.ratio > 0)
    problem.seed = next;
  return problem;
}

} // namespace

AttentionProblem AttentionProblem::of(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return problemOf(attention);
  return problemOf(cast<AttentionGradientOp>(op));
}

static int64_t paddedColumns(const AttentionProblem &problem) {
  return TileProducts::padded(problem.element, problem.depth) +
         TileProducts::padded(problem.element, problem.width);
}

SmallVector<AttentionKernel> kernelsOf(const AttentionProblem &problem) {
  using enum AttentionKernel;
  if (!problem.isGradient)
    return {Forward};
  if (paddedColumns(problem) <= kMostColumns)
    return {QueryGradient, KeyAndValueGradient};
  return {QueryGradient, ValueGradient, KeyGradient};
}

/// Rows of many columns have fewer blocks on a multiprocessor in any case, so that a block takes what every chip gives.
static int64_t mostShared(const AttentionProblem &problem) {
  return std::max(problem.depth, problem.width) > kFewColumns ? kMostSharedBytes : kSharedBytes;
}

std::optional<AttentionTiles> AttentionTiles::of(const AttentionProblem &problem,
                                                 AttentionKernel kernel) {
  if (std::max(problem.depth, problem.width) > kMostColumns)
    return std::nullopt;
  for (int64_t warps : {4, 2, 1})
    if (auto tiles = ofWarps(problem, kernel, warps))
      return tiles->forFew(problem).forShort(problem).inStages(problem);
  return std::nullopt;
}

static int64_t mostRegisters(const AttentionProblem &problem) {
  int64_t most = kValueRegisters;
  for (int64_t row = kShortRow; row < std::max(problem.depth, problem.width); row *= 2)
    most -= kFewerRegisters;
  return most;
}

/// In 16 bits those that read the fewest matrices, of equals those with the longest tiles; in f32, whose products are bound by multiply-adds, the longest tiles alone.
std::optional<AttentionTiles> AttentionTiles::ofWarps(const AttentionProblem &problem,
                                                      AttentionKernel kernel, int64_t warps) {
  std::optional<AttentionTiles> best;
  const bool isNarrow = problem.isNarrow();
  for (int64_t parts = isNarrow ? 2 : 1; parts > 0; --parts)
    for (int64_t held = isNarrow ? 2 : 0; held >= 0; --held)
      for (int64_t streamed = isNarrow ? 64 / parts : 32;
           streamed >= TileProducts::rightRows(problem.element); streamed /= 2) {
        const AttentionTiles tiles{kernel, warps, parts, streamed, held};
        if (held <= (tiles.ownsTwo() ? 2 : 1) &&
            tiles.sharedBytes(problem) <= mostShared(problem) &&
            (!isNarrow || tiles.registers(problem) <= mostRegisters(problem)) &&
            (!best || tiles.matricesRead(problem) < best->matricesRead(problem)))
          best = tiles;
      }
  return best;
}

int64_t AttentionTiles::registers(const AttentionProblem &problem) const {
  using enum AttentionKernel;
  const int64_t depth = TileProducts::padded(problem.element, problem.depth),
                width = TileProducts::padded(problem.element, problem.width);
  // Of scores, and gradients of weights; what they are rounded to lies beside them, two in a register.
  int64_t columns = (ownsTwo() ? 2 : 1) * streamed * 3 / 2;
  if (kernel != Forward && kernel != ValueGradient)
    columns += depth;
  if (kernel != QueryGradient && kernel != KeyGradient)
    columns += width;
  columns += (held > 0 ? depth / 2 : 0) + (held > 1 ? width / 2 : 0);
  return columns * parts * TileProducts::kRows / kWarp;
}

int64_t AttentionTiles::matricesRead(const AttentionProblem &problem) const {
  using enum AttentionKernel;
  int64_t right = problem.depth + problem.width, left = 0;
  if (ownsTwo())
    right += problem.depth;
  if (kernel == KeyAndValueGradient)
    right += problem.width;
  if (held == 0)
    left += problem.depth;
  if (held < 2 && ownsTwo())
    left += problem.width;
  return right / parts + left * TileProducts::kRows / streamed;
}

/// Half the warps where two parts of each would leave multiprocessors without a block: as many rows as with one part. And no more than have
/// rows.
AttentionTiles AttentionTiles::forFew(const AttentionProblem &problem) const {
  const bool ownsKeys =
      kernel != AttentionKernel::Forward && kernel != AttentionKernel::QueryGradient;
  const int64_t rows = ownsKeys ? problem.keys : problem.queries,
                heads = ownsKeys ? problem.heads / problem.shared : problem.heads;
  AttentionTiles tiles = *this;
  if (parts > 1 && warps > 1 && heads * ((rows + owned() - 1) / owned()) < kManyBlocks)
    tiles.warps /= 2;
  while (parts > 1 && tiles.warps > 1 && rows <= tiles.owned() / 2)
    tiles.warps /= 2;
  return tiles;
}

/// In f32 smaller tiles where one would hold all rows: what is beyond them is computed in vain, and of multiply-adds that no
/// loop parts ptxas reads so much ahead that registers are spilled.
AttentionTiles AttentionTiles::forShort(const AttentionProblem &problem) const {
  const int64_t rows = problem.isGradient ? std::max(problem.keys, problem.queries) : problem.keys;
  AttentionTiles tiles = *this;
  while (!problem.isNarrow() && rows <= tiles.streamed &&
         tiles.streamed > TileProducts::rightRows(problem.element))
    tiles.streamed /= 2;
  return tiles;
}

/// In 16 bits the products of a tile take less time than the next one's way from memory. The forward would take
/// registers for it that its fourth block on a multiprocessor needs.
AttentionTiles AttentionTiles::inStages(const AttentionProblem &problem) const {
  AttentionTiles tiles = *this;
  tiles.stages = 2;
  const bool isWorth = problem.isGradient && problem.isNarrow() &&
                       std::max(problem.keys, problem.queries) > streamed;
  return isWorth && tiles.sharedBytes(problem) <= mostShared(problem) ? tiles : *this;
}

int64_t AttentionTiles::streamedNumbers(const AttentionProblem &problem) const {
  using enum AttentionKernel;
  if (kernel == Forward || kernel == QueryGradient)
    return 0;
  return problem.numbersOfQuery() - (kernel == ValueGradient ? 1 : 0); // but dy times y
}

int64_t AttentionTiles::sharedBytes(const AttentionProblem &problem) const {
  auto bytes = [&](int64_t rows, int64_t columns) {
    return TileProducts::tileBytes(problem.element, rows, columns);
  };
  const int64_t rows = stages * streamed;
  int64_t sum = bytes(owned() + rows, problem.depth) + bytes(rows, problem.width);
  if (ownsTwo())
    sum += bytes(owned(), problem.width);
  return sum + streamedNumbers(problem) * rows * int64_t{sizeof(float)};
}

int64_t Matrices::together(Type element, int64_t most) const {
  if (columnStride != 1)
    return 1;
  const int64_t larger = std::max<int64_t>(bytes(1), element.getIntOrFloatBitWidth() / 8);
  int64_t common = std::gcd(std::gcd(columns, rowStride), buffer.alignment / bytes(1));
  for (const Space::Dim &dim : heads.dims)
    common = std::gcd(common, dim.strides[0]);
  return std::gcd(common, std::min(most, kAccessBytes / larger));
}

AttentionEmitter::AttentionEmitter(KernelFrame &frame, const AttentionProblem &problem,
                                   const AttentionTiles &tiles, ArrayRef<Matrices> tensors)
    : frame(frame), problem(problem), tiles(tiles), tensors(tensors), lanes(frame.lanes),
      builder(lanes.getBuilder()), location(lanes.getLocation()), math{builder, location},
      function(cast<gpu::GPUFuncOp>(builder.getInsertionBlock()->getParentOp())),
      threads(tiles.warps * kWarp),
      thread(gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x)),
      products(builder, location, problem.element, thread, tiles.parts),
      warpRow(math.times(math.quotient(thread, kWarp), tiles.parts * TileProducts::kRows)) {
  function.setKnownBlockSizeAttr(
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  // Where one tile holds all rows there is no loop that parts the products.
  if (problem.isGradient && tiles.parts == 1 &&
      std::max(problem.keys, problem.queries) <= tiles.streamed &&
      paddedColumns(problem) <= kMostColumns)
    allowRegisters(function, kRegisters);
  owned[0] = tile(tiles.owned(), problem.depth);
  streamed[0] = tile(tiles.stages * tiles.streamed, problem.depth);
  streamed[1] = tile(tiles.stages * tiles.streamed, problem.width);
  if (tiles.ownsTwo())
    owned[1] = tile(tiles.owned(), problem.width);
  if (problem.isGradient)
    scratch = frame.buffers.back();
  if (problem.seed)
    seed = memref::LoadOp::create(builder, location, tensors[*problem.seed].buffer.memory,
                                  ValueRange{math.constant(0)});
}

//===-- Memory --------------------------------------------------------------------------------===//

Value AttentionEmitter::shared(ArrayRef<int64_t> shape, Type element) {
  if (tiles.sharedBytes(problem) <= kSharedBytes)
    return addSharedMemory(function, shape, element, location);
  Value memory = givenSharedMemory(builder, function, frame.sharedBytes, shape, element, location);
  const int64_t bytes = ShapedType::getNumElements(shape) * element.getIntOrFloatBitWidth() / 8;
  frame.sharedBytes += (bytes + kAccessBytes - 1) / kAccessBytes * kAccessBytes;
  return memory;
}

Value AttentionEmitter::tile(int64_t rows, int64_t columns) {
  return shared({rows, TileProducts::pitch(problem.element, columns)}, problem.element);
}

void AttentionEmitter::takeOwned() {
  factors[0] = {owned[0], warpRow, problem.depth, {}};
  if (tiles.ownsTwo())
    factors[1] = {owned[1], warpRow, problem.width, {}};
  for (TileProducts::Left &factor : MutableArrayRef(factors).take_front(tiles.held))
    factor = products.hold(factor);
}

Value AttentionEmitter::base(const Matrices &matrices, Value head) {
  return rowBases(lanes, matrices.heads, head)[0];
}

Value AttentionEmitter::elementAt(const Matrices &matrices, Value base, Value row, Value column) {
  return math.plus(math.plus(base, math.times(row, matrices.rowStride)),
                   math.times(column, matrices.columnStride));
}

Value AttentionEmitter::load(const Matrices &matrices, Value at, int64_t count, Type element) {
  Value value;
  if (count == 1)
    value = memref::LoadOp::create(builder, location, matrices.buffer.memory, ValueRange{at});
  else
    value =
        vector::LoadOp::create(builder, location, VectorType::get({count}, matrices.buffer.element),
                               matrices.buffer.memory, ValueRange{at}, /*nontemporal=*/false,
                               llvm::MaybeAlign(matrices.bytes(count)));
  return term(value).as(element).get();
}

AttentionEmitter::VectorPlace AttentionEmitter::vectorOfTile(const Matrices &matrices, Value base,
                                                             Value first, int64_t rows,
                                                             Value number, int64_t count) {
  const int64_t padded = TileProducts::padded(problem.element, matrices.columns);
  VectorPlace place;
  place.row = math.quotient(number, padded / count);
  place.column = math.times(math.remainder(number, padded / count), count);
  Value row = math.plus(first, place.row), column = place.column;
  if (matrices.rows % rows != 0) {
    place.exists = math.isBelow(row, math.constant(matrices.rows));
    row = math.smaller(row, math.constant(matrices.rows - 1));
  }
  if (padded != matrices.columns) {
    place.exists = both(place.exists, math.isBelow(column, math.constant(matrices.columns)));
    column = math.smaller(column, math.constant(matrices.columns - count));
  }
  place.from = elementAt(matrices, base, row, column);
  return place;
}

void AttentionEmitter::copyAhead(const Buffer &from, Value element, Value to, ValueRange place,
                                 int64_t count, Value exists) {
  Value read;
  if (exists)
    read =
        arith::SelectOp::create(builder, location, exists, math.constant(count), math.constant(0));
  const bool isWhole = count * from.elementBytes() == kAccessBytes;
  nvgpu::DeviceAsyncCopyOp::create(
      builder, location, nvgpu::DeviceAsyncTokenType::get(builder.getContext()), to, place,
      from.memory, ValueRange{element}, builder.getIndexAttr(count), read,
      isWhole ? builder.getUnitAttr() : UnitAttr());
}

void AttentionEmitter::arrive() {
  NVVM::CpAsyncCommitGroupOp::create(builder, location);
  NVVM::CpAsyncWaitGroupOp::create(builder, location, 0);
  barrier();
}

void AttentionEmitter::loadTile(Value tile, const Matrices &matrices, Value head, Value first,
                                int64_t rows) {
  const int64_t padded = TileProducts::padded(problem.element, matrices.columns);
  const int64_t count = matrices.together(problem.element);
  const int64_t vectors = rows * padded / count, perThread = vectors / threads;
  const bool isCopied =
      matrices.buffer.element == problem.element && matrices.bytes(count) >= kLeastCopied;
  Value from = base(matrices, head);
  auto read = [&](const VectorPlace &place) -> Value {
    Value value = load(matrices, place.from, count, problem.element);
    if (!place.exists)
      return value;
    Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(value.getType()));
    return arith::SelectOp::create(builder, location, place.exists, value, zero);
  };
  auto put = [&](Value vector, const VectorPlace &place) {
    const Value to[] = {place.row, place.column};
    if (count == 1)
      memref::StoreOp::create(builder, location, vector, tile, to);
    else
      vector::StoreOp::create(
          builder, location, vector, tile, to, /*nontemporal=*/false,
          llvm::MaybeAlign(count * problem.element.getIntOrFloatBitWidth() / 8));
  };
  auto placeOf = [&](Value number) {
    return vectorOfTile(matrices, from, first, rows, number, count);
  };
  auto copy = [&](const VectorPlace &place) {
    copyAhead(matrices.buffer, place.from, tile, {place.row, place.column}, count, place.exists);
  };
  if (vectors % threads == 0 && perThread <= kMostInFlight) {
    SmallVector<VectorPlace> places;
    for (int64_t i = 0; i < perThread; ++i)
      places.push_back(placeOf(math.plus(thread, i * threads)));
    if (isCopied) {
      llvm::for_each(places, copy);
      return;
    }
    const Values loaded = llvm::map_to_vector(places, read);
    for (auto [vector, place] : llvm::zip_equal(loaded, places))
      put(vector, place);
    return;
  }
  lanes.loop(thread, math.constant(vectors), threads, {}, [&](Value number, ValueRange) {
    const VectorPlace place = placeOf(number);
    isCopied ? copy(place) : put(read(place), place);
    return Values();
  });
}

bool AttentionEmitter::goesThroughTile(const Written &result) const {
  const Matrices &matrices = result.matrices;
  return matrices.buffer.element == problem.element && matrices.together(problem.element) > 2 &&
         TileProducts::padded(problem.element, matrices.columns) <=
             cast<MemRefType>(result.tile.getType()).getDimSize(1);
}

/// All tiles are filled before the first is written: LLVM would move the sums of a second result behind the
/// loop that writes the first, where what they are made of takes more registers than they do.
void AttentionEmitter::store(ArrayRef<Written> results, Value head, Value first) {
  const bool byTile =
      llvm::any_of(results, [&](const Written &result) { return goesThroughTile(result); });
  if (byTile)
    barrier(); // the last product has read its rows
  for (const Written &result : results)
    if (goesThroughTile(result))
      putIntoTile(result);
  if (byTile)
    barrier();
  for (const Written &result : results)
    goesThroughTile(result) ? storeTile(result, head, first) : storeRows(result, head, first);
}

void AttentionEmitter::storeRows(const Written &result, Value head, Value first) {
  const Matrices &matrices = result.matrices;
  Value from = base(matrices, head);
  for (int64_t half = 0; half < products.halves(); ++half) {
    Value row = ownRow(first, half);
    Value exists = matrices.rows % tiles.owned() == 0
                       ? Value()
                       : math.isBelow(row, math.constant(matrices.rows));
    lanes.ifHolds(exists, [&] { storeRow(matrices, from, row, half, result.values); });
  }
}

/// A thread's values, in pairs.
void AttentionEmitter::putIntoTile(const Written &result) {
  auto pair = VectorType::get({2}, builder.getF32Type());
  const int64_t bytes = problem.element.getIntOrFloatBitWidth() / 8;
  for (size_t at = 0; at < result.values.size(); at += 2) {
    const ValuePlace place = placeOf(at, result.values.size());
    Value two = vector::FromElementsOp::create(builder, location, pair, result.values.slice(at, 2));
    vector::StoreOp::create(builder, location, term(two).as(problem.element).get(), result.tile,
                            ValueRange{math.plus(warpRow, products.rowOf(place.half)),
                                       products.columnOf(place.group, 0)},
                            /*nontemporal=*/false, llvm::MaybeAlign(2 * bytes));
  }
}

/// Vectors of whole rows.
void AttentionEmitter::storeTile(const Written &result, Value head, Value first) {
  const Matrices &matrices = result.matrices;
  const int64_t bytes = problem.element.getIntOrFloatBitWidth() / 8;
  const int64_t count = matrices.together(problem.element), perRow = matrices.columns / count;
  auto wide = VectorType::get({count}, problem.element);
  Value from = base(matrices, head);
  lanes.loop(
      thread, math.constant(tiles.owned() * perRow), threads, {}, [&](Value number, ValueRange) {
        Value row = math.quotient(number, perRow),
              column = math.times(math.remainder(number, perRow), count);
        Value to = math.plus(first, row);
        Value exists = matrices.rows % tiles.owned() == 0
                           ? Value()
                           : math.isBelow(to, math.constant(matrices.rows));
        lanes.ifHolds(exists, [&] {
          Value read =
              vector::LoadOp::create(builder, location, wide, result.tile, ValueRange{row, column},
                                     /*nontemporal=*/false, llvm::MaybeAlign(count * bytes));
          vector::StoreOp::create(builder, location, read, matrices.buffer.memory,
                                  ValueRange{elementAt(matrices, from, to, column)},
                                  /*nontemporal=*/false, llvm::MaybeAlign(count * bytes));
        });
        return Values();
      });
}

void AttentionEmitter::storeRow(const Matrices &matrices, Value base, Value row, int64_t half,
                                ValueRange values) {
  const Type stored = matrices.buffer.element;
  const int64_t count = matrices.together(stored, 2);
  for (int64_t group = 0; group * TileProducts::kGroup < matrices.columns; ++group) {
    const bool isWhole = (group + 1) * TileProducts::kGroup <= matrices.columns;
    for (int64_t i = 0; i < 2; i += count) {
      Value column = products.columnOf(group, i);
      Value exists = isWhole ? Value() : math.isBelow(column, math.constant(matrices.columns));
      lanes.ifHolds(exists, [&] {
        Value at = elementAt(matrices, base, row, column);
        const size_t ofPart = values.size() / static_cast<size_t>(tiles.parts);
        ValueRange own = values.slice(static_cast<size_t>(half / 2) * ofPart +
                                          group * TileProducts::kValues + half % 2 * 2 + i,
                                      count);
        if (count == 1) {
          memref::StoreOp::create(builder, location, term(own[0]).as(stored).get(),
                                  matrices.buffer.memory, ValueRange{at});
          return;
        }
        Value two = vector::FromElementsOp::create(builder, location,
                                                   VectorType::get({2}, builder.getF32Type()), own);
        vector::StoreOp::create(builder, location, term(two).as(stored).get(),
                                matrices.buffer.memory, ValueRange{at}, /*nontemporal=*/false,
                                llvm::MaybeAlign(matrices.bytes(2)));
      });
    }
  }
}

//===-- Numbers -------------------------------------------------------------------------------===//

Value AttentionEmitter::number(double value) {
  return arith::ConstantOp::create(builder, location,
                                   builder.getF32FloatAttr(static_cast<float>(value)));
}

double AttentionEmitter::unit() const {
  return problem.isNarrow() && !problem.isAdded ? std::numbers::log2e : 1;
}

Term AttentionEmitter::power(Term difference) {
  if (!problem.isNarrow())
    return difference.unary<math::ExpOp>();
  if (problem.isAdded)
    difference = difference * std::numbers::log2e;
  auto name = builder.getStringAttr("llvm.nvvm.ex2.approx.ftz.f");
  return term(LLVM::CallIntrinsicOp::create(builder, location, builder.getF32Type(), name,
                                            ValueRange{difference.get()})
                  .getResult(0));
}

Value AttentionEmitter::both(Value a, Value b) {
  return a && b ? Value(arith::AndIOp::create(builder, location, a, b)) : a ? a : b;
}

Value AttentionEmitter::sumOverRow(Value value) {
  return products.overRow(value, [&](Value a, Value b) { return (term(a) + term(b)).get(); });
}

//===-- Scores --------------------------------------------------------------------------------===//

AttentionEmitter::ValuePlace AttentionEmitter::placeOf(size_t number, size_t count) const {
  const auto ofPart = static_cast<int64_t>(count) / tiles.parts, at = static_cast<int64_t>(number);
  const int64_t i = at % TileProducts::kValues;
  return {at / ofPart * 2 + i / 2, at % ofPart / TileProducts::kValues, i % 2};
}

void AttentionEmitter::eachOfHalf(
    int64_t half, size_t count, llvm::function_ref<void(size_t, const ValuePlace &)> visit) const {
  for (size_t number = 0; number < count; ++number)
    if (const ValuePlace place = placeOf(number, count); place.half == half)
      visit(number, place);
}

/// What is seen are columns between two bounds. Counted from those of this thread, which are constants,
/// they are the same for all columns of a row.
AttentionEmitter::Score AttentionEmitter::scoreAt(const Place &place, const ValuePlace &at) {
  const bool streamsKeys = place.streams == Streams::Keys;
  const int64_t extent = streamsKeys ? problem.keys : problem.queries;
  Value own = ownRow(place.first, at.half),
        other = math.plus(place.from, products.columnOf(at.group, at.i));
  Score score = streamsKeys ? Score{own, other, {}} : Score{other, own, {}};
  if (problem.keyDocuments)
    score.isSeen = isOfOneDocument(place.head, score);
  if (place.isSeen)
    return score;
  Value start = math.plus(place.from, products.columnOf(0, 0)); // of the thread's columns
  Value column = arith::ConstantOp::create(
      builder, location, builder.getI32IntegerAttr(at.group * TileProducts::kGroup + at.i));
  auto compare = [&](arith::CmpIPredicate predicate, Value bound) {
    Value narrow = arith::IndexCastOp::create(builder, location, builder.getI32Type(),
                                              math.minus(bound, start));
    Value holds = arith::CmpIOp::create(builder, location, predicate, column, narrow);
    score.isSeen = both(score.isSeen, holds);
  };
  Value end = extent % tiles.streamed == 0 ? Value() : math.constant(extent);
  if (problem.diagonal && streamsKeys) {
    Value seen = math.plus(own, *problem.diagonal + 1);
    end = end ? math.smaller(seen, end) : seen;
  }
  if (problem.window && !streamsKeys)
    compare(arith::CmpIPredicate::slt, math.plus(own, *problem.window - *problem.diagonal));
  if (end)
    compare(arith::CmpIPredicate::slt, end);
  if (problem.window && streamsKeys)
    compare(arith::CmpIPredicate::sge, math.plus(own, *problem.diagonal + 1 - *problem.window));
  if (problem.diagonal && !streamsKeys)
    compare(arith::CmpIPredicate::sge, math.minus(own, math.constant(*problem.diagonal)));
  return score;
}

Value AttentionEmitter::documentOf(Streams rows, Value head, Value row) {
  const bool isOfQuery = rows == Streams::Queries;
  const Matrices &numbers = tensors[isOfQuery ? *problem.queryDocuments : *problem.keyDocuments];
  const int64_t last = (isOfQuery ? problem.queries : problem.keys) - 1;
  Value place = elementAt(numbers, base(numbers, head), math.smaller(row, math.constant(last)),
                          math.constant(0));
  return memref::LoadOp::create(builder, location, numbers.buffer.memory, ValueRange{place});
}

Value AttentionEmitter::isOfOneDocument(Value head, const Score &at) {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                               documentOf(Streams::Queries, head, at.query),
                               documentOf(Streams::Keys, head, at.key));
}

Term AttentionEmitter::masked(Value product, const Place &place, const Score &at) {
  Term score = term(product) * (problem.scale * unit());
  if (!problem.mask)
    return score;
  const Matrices &mask = tensors[*problem.mask];
  // What is outside is read somewhere, and not used.
  Value query = clamped(at.query, problem.queries), key = clamped(at.key, problem.keys);
  Value element = elementAt(mask, base(mask, place.head), query, key);
  if (problem.isAdded)
    return score + term(load(mask, element, 1, builder.getF32Type()));
  Value byte = memref::LoadOp::create(builder, location, mask.buffer.memory, ValueRange{element});
  Value zero = arith::ConstantOp::create(builder, location, builder.getZeroAttr(byte.getType()));
  Value passes = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, byte, zero);
  return term(passes).choose(score, score.constant(-std::numeric_limits<double>::infinity()));
}

std::optional<Term> AttentionEmitter::dropoutFactor(const Place &place, const Score &at) {
  if (!problem.seed)
    return std::nullopt;
  const double keep = 1 - problem.ratio;
  Value row = math.plus(math.times(place.head, problem.queries), at.query);
  Value index = arith::IndexCastOp::create(builder, location, builder.getI64Type(),
                                           math.plus(math.times(row, problem.keys), at.key));
  Term word = philoxWords(term(index), term(seed), problem.stream)[0];
  Term kept = isBelow(word, static_cast<uint64_t>(std::floor(keep * 4294967296.0)));
  return kept.choose(term(number(1 / keep)), term(number(0)));
}

//===-- Walks ---------------------------------------------------------------------------------===//

void AttentionEmitter::forTiles(int64_t heads, int64_t rows, bool lastFirst,
                                llvm::function_ref<void(Value, Value)> body) {
  const int64_t count = (rows + tiles.owned() - 1) / tiles.owned();
  auto [begin, end] = taskRange(frame, heads * count);
  lanes.forTasks(begin, end, [&](Value task) {
    Value number = math.quotient(task, heads);
    if (lastFirst) // the longest tasks begin the earliest
      number = math.minus(math.constant(count - 1), number);
    barrier(); // the task before has read what it owns
    body(math.remainder(task, heads), math.times(number, tiles.owned()));
  });
}

Value AttentionEmitter::lessAtLeast0(Value value, int64_t number) {
  if (number <= 0)
    return math.plus(value, -number);
  Value least = math.constant(number);
  return math.minus(math.larger(value, least), least);
}

AttentionEmitter::Visited AttentionEmitter::inOrder(Visited visited) {
  if (visited.seenLow)
    visited.seenLow = math.smaller(visited.seenLow, visited.high);
  if (visited.seenHigh)
    visited.seenHigh =
        math.larger(visited.seenHigh, visited.seenLow ? visited.seenLow : visited.low);
  return visited;
}

AttentionEmitter::Visited AttentionEmitter::visitedKeys(Value first) {
  Visited visited{math.constant(0), {}, {}, math.constant(problem.keys)};
  if (problem.keys % tiles.streamed != 0)
    visited.seenHigh = visited.high;
  if (problem.diagonal) { // to query + diagonal
    visited.seenHigh = math.smaller(visited.high, math.plus(first, *problem.diagonal + 1));
    visited.high = math.smaller(visited.high, math.plus(first, tiles.owned() + *problem.diagonal));
  }
  if (problem.window) { // from query + diagonal + 1 - window
    const int64_t before = *problem.window - *problem.diagonal;
    visited.low = math.quotient(lessAtLeast0(first, before - 1), tiles.streamed);
    visited.seenLow = tilesUpTo(lessAtLeast0(math.plus(first, tiles.owned()), before));
  }
  if (visited.seenHigh)
    visited.seenHigh = math.quotient(visited.seenHigh, tiles.streamed);
  visited.high = tilesUpTo(visited.high);
  return inOrder(visited);
}

AttentionEmitter::Visited AttentionEmitter::visitedQueries(Value first) {
  Visited visited{math.constant(0), {}, {}, math.constant(problem.queries)};
  Value last = math.plus(first, tiles.owned() - 1);
  if (problem.queries % tiles.streamed != 0)
    visited.seenHigh = visited.high;
  if (problem.diagonal) { // from key - diagonal
    visited.low = math.quotient(lessAtLeast0(first, *problem.diagonal), tiles.streamed);
    visited.seenLow = tilesUpTo(lessAtLeast0(last, *problem.diagonal));
  }
  if (problem.window) { // to key - diagonal + window - 1
    const int64_t before = *problem.diagonal - *problem.window;
    visited.seenHigh = math.smaller(visited.high, lessAtLeast0(first, before));
    visited.high = math.smaller(visited.high, lessAtLeast0(last, before));
  }
  if (visited.seenHigh)
    visited.seenHigh = math.quotient(visited.seenHigh, tiles.streamed);
  visited.high = tilesUpTo(visited.high);
  return inOrder(visited);
}

AttentionEmitter::Stream AttentionEmitter::streamOf(Streams streams, const Matrices &factors,
                                                    const Matrices &others, Value head,
                                                    Value first) {
  Stream stream{factors, others, streams == Streams::Keys ? headOfKeys(head) : head, streams, head,
                {},      {}};
  if (!problem.keyDocuments)
    return stream;
  const Streams owns = streams == Streams::Keys ? Streams::Queries : Streams::Keys;
  Value number = documentOf(owns, head, first);
  const Values ends = lanes.loop(
      math.constant(1), math.constant(tiles.owned()), 1, {number, number},
      [&](Value row, ValueRange old) {
        Value other = documentOf(owns, head, math.plus(first, row));
        return Values{arith::MinSIOp::create(builder, location, old[0], other).getResult(),
                      arith::MaxSIOp::create(builder, location, old[1], other).getResult()};
      });
  stream.least = ends[0], stream.most = ends[1];
  return stream;
}

/// Each warp looks at all of the tile's numbers.
Value AttentionEmitter::meets(const Stream &stream, Value tile) {
  if (!problem.keyDocuments)
    return {};
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, location, predicate, a, b);
  };
  Value lane = math.plus(math.times(tile, tiles.streamed), math.remainder(thread, kWarp)), found;
  for (int64_t row = 0; row < tiles.streamed; row += kWarp) {
    Value number = documentOf(stream.streams, stream.ofQueries, math.plus(lane, row));
    Value isBetween = both(compare(arith::CmpIPredicate::sge, number, stream.least),
                           compare(arith::CmpIPredicate::sle, number, stream.most));
    found = found ? Value(arith::OrIOp::create(builder, location, found, isBetween)) : isBetween;
  }
  found = arith::ExtUIOp::create(builder, location, builder.getI32Type(), found);
  for (int32_t distance = 1; distance < kWarp; distance *= 2) {
    auto other =
        gpu::ShuffleOp::create(builder, location, found, distance, kWarp, gpu::ShuffleMode::XOR);
    found = arith::OrIOp::create(builder, location, found, other.getShuffleResult());
  }
  Value none = arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(0));
  return compare(arith::CmpIPredicate::ne, found, none);
}

AttentionEmitter::Values AttentionEmitter::overTiles(const Stream &stream, const Visited &visited,
                                                     ValueRange before, TileBody body) {
  auto over = [&](Value low, Value high, bool isSeen, ValueRange carried) {
    return lanes.loop(low, high, 1, carried, [&](Value tile, ValueRange old) {
      Value isMet = meets(stream, tile);
      if (tiles.stages == 1) {
        barrier(); // the tile before has been read
        lanes.ifHolds(isMet, [&] { bring(stream, tile); });
      }
      arrive(); // and has been read, by now
      if (tiles.stages > 1) {
        Value next = math.plus(tile, 1);
        lanes.ifHolds(math.isBelow(next, visited.high),
                      [&] { lanes.ifHolds(meets(stream, next), [&] { bring(stream, next); }); });
      }
      if (!isMet)
        return body(tile, isSeen, old);
      auto met = scf::IfOp::create(builder, location, old.getTypes(), isMet, /*withElse=*/true);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(met.elseBlock());
      scf::YieldOp::create(builder, location, old);
      builder.setInsertionPointToEnd(met.thenBlock());
      scf::YieldOp::create(builder, location, body(tile, isSeen, old));
      return Values(met.getResults());
    });
  };
  if (!problem.isNarrow())
    return over(visited.low, visited.high, false, before);
  Values carried(before);
  Value low = visited.seenLow ? visited.seenLow : visited.low,
        high = visited.seenHigh ? visited.seenHigh : visited.high;
  if (visited.seenLow)
    carried = over(visited.low, low, false, carried);
  carried = over(low, high, true, carried);
  if (visited.seenHigh)
    carried = over(high, visited.high, false, carried);
  return carried;
}

Value AttentionEmitter::stageOf(Value memory, Value tile) {
  if (tiles.stages == 1)
    return memory;
  auto whole = cast<MemRefType>(memory.getType());
  SmallVector<int64_t> shape(whole.getShape()), strides(whole.getStridesAndOffset().first);
  shape[0] = tiles.streamed;
  auto layout = StridedLayoutAttr::get(builder.getContext(), ShapedType::kDynamic, strides);
  auto type = MemRefType::get(shape, whole.getElementType(), layout, whole.getMemorySpace());
  Value begin = math.times(math.remainder(tile, tiles.stages), tiles.streamed * strides[0]);
  return memref::ReinterpretCastOp::create(builder, location, type, memory, OpFoldResult(begin),
                                           getAsIndexOpFoldResult(builder.getContext(), shape),
                                           getAsIndexOpFoldResult(builder.getContext(), strides));
}

void AttentionEmitter::bring(const Stream &stream, Value tile) {
  Value from = math.times(tile, tiles.streamed);
  loadTile(stageOf(streamed[0], tile), stream.factors, stream.head, from, tiles.streamed);
  loadTile(stageOf(streamed[1], tile), stream.others, stream.head, from, tiles.streamed);
  if (!rowNumbers.empty())
    bringNumbers(stream.head, from, tile);
}

void AttentionEmitter::bringFirst(const Stream &stream, const Visited &visited) {
  if (tiles.stages > 1)
    lanes.ifHolds(math.isBelow(visited.low, visited.high), [&] {
      lanes.ifHolds(meets(stream, visited.low), [&] { bring(stream, visited.low); });
    });
}

} // namespace stow
