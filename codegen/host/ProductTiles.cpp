#include "codegen/host/ProductTiles.h"

#include "codegen/host/LibraryCommand.h"
#include "runtime/host/Library.h"
#include "runtime/host/ProductRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace stow::host {
namespace {

RankedTensorType resultType(ProductMapOp op) { return tensorType(op.getResult(0)); }

/// Up to this many contracted elements the library adds a product as a whole.
constexpr int64_t mostAdded = 256;

/// Up to this many contracted elements, and of the left and the right factor, the host's own loops sum a
/// product: the right one stays in the second cache while all rows are multiplied with it.
constexpr int64_t mostSummed = 256, mostLeft = 1 << 20, mostRight = 1 << 18;

/// 1/rows + 1/columns below which the library packs its operands: with AVX-512, and with less.
constexpr double packsWithAvx512 = 0.0019, packs = 0.0037;
constexpr int64_t leastRows = 28 * 18; ///< as many rows are packed with up to 18 threads

/// The fewest rows of a tile of `columns` columns for which the library packs its operands: more than
/// 28 for each of up to 18 threads, and half of a cache block of the columns. None where no number does.
std::optional<int64_t> leastTileRows(int64_t columns) {
  const double left = packsWithAvx512 - 1.0 / static_cast<double>(columns);
  if (left < 0.0001)
    return std::nullopt;
  return alignUp(static_cast<int64_t>(1 / left) + 1, 64);
}

bool has16Bits(Value value) { return tensorType(value).getElementTypeBitWidth() == 16; }
bool has16Bits(ProductMapOp op) { return has16Bits(op.getA()) || has16Bits(op.getB()); }

bool isTakenAsFactor(Value value) {
  return tensorType(value).getElementType().isF32() || has16Bits(value);
}

/// The extent that the product contracts.
int64_t contractedOf(ProductMapOp op) {
  return op.getA().getType().getShape().end()[op.getTransposeA() ? -2 : -1];
}

/// The rows [first, first + count) of an operand along `dim`.
Operand rowsOf(Operand whole, size_t dim, int64_t first, int64_t count) {
  Shape sizes = whole.shape;
  sizes[dim] = count;
  whole.offset += first * outerStrides(whole.layout, whole.shape)[dim] * sizeOf(whole.dtype);
  whole.layout = *boxLayout(whole.layout, whole.shape, sizes);
  whole.shape = sizes;
  return whole;
}

bool hasRows(RankedTensorType type, int64_t rows) {
  return type.getRank() == 2 && type.getDimSize(0) == rows && rows > 1;
}

RankedTensorType rowsOf(RankedTensorType type, int64_t rows) {
  return RankedTensorType::get({rows, type.getDimSize(1)}, type.getElementType());
}

Command libraryProduct(ProductMapOp op, const std::string &call) {
  Command command;
  command.op = call;
  command.name = sourceNameOf(op.getLoc());
  command.kind = "matmul";
  command.ints["transpose_a"] = {op.getTransposeA()};
  command.ints["transpose_b"] = {op.getTransposeB()};
  command.ints["has_bias"] = {0};
  return command;
}

/// The product of the rows [first, first + count) into a tile at `workspace`.
Command tileProduct(ProductMapOp op, const ProductTiles &tiles, int64_t first, int64_t count,
                    llvm::function_ref<Bytes(Value)> offsetOf, Bytes workspace) {
  Command command = libraryProduct(op, "dnnl.matmul");
  if (!tiles.piece.empty())
    command.ints["piece"] = tiles.piece;
  command.operands = {
      rowsOf(operandOf(op.getA().getType(), offsetOf(op.getA())), op.getTransposeA(), first, count),
      operandOf(op.getB().getType(), offsetOf(op.getB())),
      operandOf(RankedTensorType::get({count, resultType(op).getDimSize(1)},
                                      Float32Type::get(op.getContext())),
                workspace)};
  return command;
}

/// The whole product, or all of them, added to what lies where the result does.
Command addedProduct(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf) {
  Command command = libraryProduct(op, "dnnl.matmul_add");
  for (Value value : {Value(op.getA()), Value(op.getB()), Value(op.getResult(0))})
    command.operands.push_back(operandOf(value.getType(), offsetOf(value)));
  return command;
}

/// A detached op and the block whose arguments are its operands.
class Scratch {
public:
  explicit Scratch(MLIRContext *context) : builder(context) {
    builder.setInsertionPointToStart(&block);
  }
  OpBuilder builder;
  Block block;
};

Command kernelCommand(Operation *op, const KernelInfo &kernel) {
  Command command;
  command.op = "kernel";
  command.kernel = kernel.index;
  command.tasks = kernel.tasks;
  command.kind = op->getName().stripDialect().str();
  return command;
}

/// The kernel that uses up a tile of `count` rows.
FailureOr<Command> tileKernel(ProductMapOp op, int64_t count, KernelModule &kernels) {
  Scratch scratch(op.getContext());
  const int64_t rows = resultType(op).getDimSize(0);
  SmallVector<Value> inputs = {scratch.block.addArgument(
      RankedTensorType::get({count, resultType(op).getDimSize(1)}, scratch.builder.getF32Type()),
      op.getLoc())};
  for (Value input : op.getInputs()) {
    RankedTensorType type = tensorType(input);
    inputs.push_back(
        scratch.block.addArgument(hasRows(type, rows) ? rowsOf(type, count) : type, op.getLoc()));
  }
  SmallVector<Type> results;
  for (Type type : op.getResultTypes())
    results.push_back(rowsOf(cast<RankedTensorType>(type), count));
  auto map = MapOp::create(scratch.builder, op.getLoc(), results, inputs,
                           scratch.builder.getDenseI64ArrayAttr({}));
  IRMapping mapping;
  op.getBody().cloneInto(&map.getBody(), mapping);
  auto kernel = kernels.add(map);
  if (failed(kernel))
    return failure();
  Command command = kernelCommand(map, *kernel);
  command.name = sourceNameOf(op.getLoc());
  return command;
}

/// Copies what the product is added to into the place of the result, where it lies elsewhere.
FailureOr<Command> copyInto(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf,
                            KernelModule &kernels) {
  Scratch scratch(op.getContext());
  Value input = scratch.block.addArgument(op.getInputs()[0].getType(), op.getLoc());
  auto map = MapOp::create(scratch.builder, op.getLoc(), op.getResultTypes(), ValueRange{input},
                           scratch.builder.getDenseI64ArrayAttr({}));
  Block &body = map.getBody().emplaceBlock();
  body.addArgument(tensorType(input).getElementType(), op.getLoc());
  scratch.builder.setInsertionPointToStart(&body);
  YieldOp::create(scratch.builder, op.getLoc(), ValueRange{body.getArgument(0)});
  auto kernel = kernels.add(map);
  if (failed(kernel))
    return failure();
  Command command = kernelCommand(map, *kernel);
  command.name = sourceNameOf(op.getLoc());
  for (Value value : {Value(op.getInputs()[0]), Value(op.getResult(0))})
    command.operands.push_back(operandOf(value.getType(), offsetOf(value)));
  return command;
}

Bytes tileBytes(ProductMapOp op, int64_t rows) {
  return alignUp(rows * resultType(op).getDimSize(1) * Bytes{sizeof(float)}, 64);
}

bool isAddedByLibrary(ProductMapOp op) {
  return addsToProduct(op) && resultType(op).getElementType().isF32() &&
         contractedOf(op) <= mostAdded;
}

/// The smallest of the parts into which pieces of `size` cut `whole`.
int64_t leastPart(int64_t whole, int64_t size) { return whole % size == 0 ? size : whole % size; }

/// True when two tiles or more are large enough for the library to pack their operands.
bool fillsTwoTiles(ProductMapOp op) {
  std::optional<int64_t> least = leastTileRows(resultType(op).getDimSize(1));
  return least && resultType(op).getDimSize(0) >= 2 * *least;
}

/// True when the library packs the operands of all pieces of a product that has `rows` and `columns`.
bool packsPieces(int64_t rows, int64_t columns, int64_t pieceRows, int64_t pieceColumns) {
  const int64_t fewestRows = leastPart(rows, pieceRows);
  return fewestRows > leastRows &&
         1.0 / static_cast<double>(fewestRows) +
                 1.0 / static_cast<double>(leastPart(columns, pieceColumns)) <
             (supportsBf16() ? packsWithAvx512 : packs);
}

/// Tiles of a product of 16-bit factors, which runs in pieces where the library has no code for them.
/// Where it packs all pieces of the whole product, a tile has as few rows as in f32, and pieces of half of
/// its columns at most: with these the tile and its pieces take no more than tile and factors in f32. Else
/// a tile consists of the whole product's pieces. One that is cut along columns alone, into pieces
/// that are not packed, gets other pieces.
ProductTiles tilesOfPieces(ProductMapOp op) {
  const int64_t rows = resultType(op).getDimSize(0), columns = resultType(op).getDimSize(1);
  const int64_t least = *leastTileRows(columns);
  const Command whole = tileProduct(op, {}, 0, rows, [](Value) { return Bytes{0}; }, 0);
  const Shape piece = queryLibrary(whole, {}, 1).piece;
  if (piece.size() != 3) // one call of the library
    return {.rows = least};
  const bool isPacked = packsPieces(rows, columns, piece[0], piece[1]);
  if (!isPacked && piece[0] < rows)
    return {.rows = piece[0] * std::max<int64_t>(1, least / piece[0]),
            .isOfWholePieces = true,
            .piece = piece};
  Shape tile = {2 * least, piece[1], piece[2]}; // all rows of a tile
  for (int64_t fewer : {alignUp((columns + 1) / 2, 16), columns})
    if (!packsPieces(least, columns, least, tile[1]))
      tile[1] = fewer;
  return {.rows = least, .piece = tile};
}

/// Rows of a tile that the host's own loops sum: whole blocks of their registers. More elements than
/// calling the kernel takes the time of, and a 32nd of the product, so that the right factor is read few times.
int64_t summedRows(RankedTensorType product) {
  constexpr int64_t block = 12, leastElements = 1024, mostTiles = 32;
  const int64_t rows = product.getDimSize(0), columns = product.getDimSize(1);
  return alignUp(std::max((leastElements + columns - 1) / columns, rows / mostTiles), block);
}

/// True for products that the library would walk as they lie, of factors with which the host's own loops are
/// as fast (docs/decisions/2026-11-23-small-products.md).
bool isSummedHere(ProductMapOp op) {
  const RankedTensorType type = resultType(op);
  const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1), depth = contractedOf(op);
  return !has16Bits(op) && !op.getTransposeB() && columns >= leastRowColumns &&
         rows > summedRows(type) && depth <= mostSummed && rows * depth <= mostLeft &&
         columns * depth <= mostRight &&
         1 / static_cast<double>(rows) + 1 / static_cast<double>(columns) >= packs;
}

/// The rows of the tiles, from the first on.
std::vector<int64_t> tilesOf(ProductMapOp op, const ProductTiles &tiles) {
  const int64_t rows = resultType(op).getDimSize(0);
  std::vector<int64_t> counts;
  for (int64_t first = 0; first < rows; first += counts.back()) {
    const int64_t left = rows - first;
    if (tiles.isOfWholePieces || tiles.isSummedHere)
      counts.push_back(std::min(left, tiles.rows));
    else // no tile has fewer rows than the library needs
      counts.push_back(left < 2 * tiles.rows ? left : tiles.rows);
  }
  return counts;
}

/// What the kernel reads and writes beside the tile, in its order, as the rows [first, first + count) have it.
std::vector<Operand> kernelRows(ProductMapOp op, int64_t first, int64_t count,
                                llvm::function_ref<Bytes(Value)> offsetOf) {
  const int64_t rows = resultType(op).getDimSize(0);
  std::vector<Operand> operands;
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op.getInputs()),
                                         SmallVector<Value>(op.getResults()))) {
    const Operand operand = operandOf(value.getType(), offsetOf(value));
    operands.push_back(hasRows(tensorType(value), rows) ? rowsOf(operand, 0, first, count)
                                                        : operand);
  }
  return operands;
}

/// The kernel over a tile at `workspace`, which is that of the rows [first, first + count).
FailureOr<Command> placedKernel(ProductMapOp op, int64_t first, int64_t count,
                                llvm::function_ref<Bytes(Value)> offsetOf, Bytes workspace,
                                KernelModule &kernels) {
  auto kernel = tileKernel(op, count, kernels);
  if (failed(kernel))
    return failure();
  kernel->operands = kernelRows(op, first, count, offsetOf);
  kernel->operands.insert(kernel->operands.begin(),
                          operandOf(RankedTensorType::get({count, resultType(op).getDimSize(1)},
                                                          Float32Type::get(op.getContext())),
                                    workspace));
  return kernel;
}

/// The product in loops of the host's own, with the kernel of a tile and that of a last, smaller one.
FailureOr<Command> productOfRows(ProductMapOp op, const ProductTiles &tiles,
                                 llvm::function_ref<Bytes(Value)> offsetOf, Bytes workspace,
                                 KernelModule &kernels) {
  Command whole;
  whole.op = "product_map";
  whole.name = sourceNameOf(op.getLoc());
  whole.ints["transpose_a"] = {op.getTransposeA()};
  whole.ints["rows"] = {tiles.rows};
  std::vector<int64_t> &steps = whole.ints["steps"];
  for (auto [here, next] : llvm::zip(kernelRows(op, 0, tiles.rows, offsetOf),
                                     kernelRows(op, tiles.rows, tiles.rows, offsetOf)))
    steps.push_back(next.offset - here.offset);
  std::vector<int64_t> counts = tilesOf(op, tiles);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (int64_t count : counts) {
    auto kernel = placedKernel(op, 0, count, offsetOf, workspace, kernels);
    if (failed(kernel))
      return failure();
    whole.parts.push_back(std::move(*kernel));
  }
  return whole;
}

} // namespace

bool addsToProduct(ProductMapOp op) {
  Block &body = op.getBody().front();
  auto sum = dyn_cast<arith::AddFOp>(body.front());
  return sum && op.getInputs().size() == 1 && op.getNumResults() == 1 &&
         body.getTerminator()->getOperand(0) == sum.getResult() &&
         sum->getNextNode() == body.getTerminator() && sum.getLhs() != sum.getRhs() &&
         tensorType(op.getInputs()[0]) == resultType(op);
}

bool runsByTiles(ProductMapOp op) {
  const RankedTensorType type = resultType(op);
  if (!isTakenAsFactor(op.getA()) || !isTakenAsFactor(op.getB()))
    return false;
  if (isAddedByLibrary(op))
    return true;
  auto isWhole = [&](Value value) {
    return tensorType(value).getShape() != type.getShape() ||
           layoutOf(value.getType()).isRowMajor();
  };
  if (!layoutOf(op.getA().getType()).isRowMajor() || !layoutOf(op.getB().getType()).isRowMajor() ||
      !llvm::all_of(op->getOperands().drop_front(2), isWhole) ||
      !llvm::all_of(op->getResults(), isWhole) || type.getRank() != 2)
    return false;
  return fillsTwoTiles(op) || isSummedHere(op);
}

ProductTiles productTilesOf(ProductMapOp op) {
  const RankedTensorType type = resultType(op);
  if (isAddedByLibrary(op))
    return {.rows = type.getDimSize(0), .isAdded = true};
  if (!fillsTwoTiles(op))
    return {.rows = summedRows(type), .isSummedHere = true};
  return has16Bits(op) ? tilesOfPieces(op)
                       : ProductTiles{.rows = *leastTileRows(type.getDimSize(1))};
}

ProductNeeds productNeeds(ProductMapOp op, int64_t threads) {
  const ProductTiles tiles = productTilesOf(op);
  auto nowhere = [](Value) { return Bytes{0}; };
  if (tiles.isAdded) {
    const LibraryRequirements answer = queryLibrary(addedProduct(op, nowhere), {}, threads);
    return {answer.workspaceBytes, answer.heapBytes};
  }
  ProductNeeds needs;
  if (tiles.isSummedHere) {
    const ArrayRef<int64_t> shape = resultType(op).getShape();
    needs.workspaceBytes = productRowsScratchBytes(shape[0], shape[1], tiles.rows, threads);
    return needs;
  }
  for (int64_t rows : tilesOf(op, tiles)) {
    const LibraryRequirements answer =
        queryLibrary(tileProduct(op, tiles, 0, rows, nowhere, 0), {}, threads);
    needs.workspaceBytes =
        std::max(needs.workspaceBytes, tileBytes(op, rows) + answer.workspaceBytes);
    needs.heapBytes = std::max(needs.heapBytes, answer.heapBytes);
  }
  return needs;
}

FailureOr<Command> productCommand(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf,
                                  Bytes workspace, Bytes workspaceBytes, KernelModule &kernels) {
  const ProductTiles tiles = productTilesOf(op);
  Command whole;
  whole.op = "sequence";
  whole.name = sourceNameOf(op.getLoc());
  if (tiles.isAdded) {
    if (offsetOf(op.getInputs()[0]) != offsetOf(op.getResult(0))) {
      auto copy = copyInto(op, offsetOf, kernels);
      if (failed(copy))
        return failure();
      whole.parts.push_back(std::move(*copy));
    }
    whole.parts.push_back(addedProduct(op, offsetOf));
    whole.parts.back().workspaceOffset = workspace;
    whole.parts.back().workspaceBytes = workspaceBytes;
    return whole;
  }
  if (tiles.isSummedHere)
    return productOfRows(op, tiles, offsetOf, workspace, kernels);
  int64_t first = 0;
  for (int64_t count : tilesOf(op, tiles)) {
    Command product = tileProduct(op, tiles, first, count, offsetOf, workspace);
    product.workspaceOffset = workspace + tileBytes(op, count);
    product.workspaceBytes = workspaceBytes - tileBytes(op, count);
    auto kernel = placedKernel(op, first, count, offsetOf, workspace, kernels);
    if (failed(kernel))
      return failure();
    whole.parts.push_back(std::move(product));
    whole.parts.push_back(std::move(*kernel));
    first += count;
  }
  return whole;
}

} // namespace stow::host
