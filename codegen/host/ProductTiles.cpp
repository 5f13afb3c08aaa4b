#include "codegen/host/ProductTiles.h"

#include "codegen/host/LibraryAnswers.h"
#include "codegen/program/LibraryCommand.h"
#include "ir/ProductMaps.h"
#include "ir/StowKernelOps.h"
#include "runtime/host/loops/PanelProduct.h"
#include "runtime/host/loops/ProductRows.h"

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

constexpr int64_t leastRows = 28 * 18; ///< as many rows are packed with up to 18 threads

/// The fewest rows of a tile of `columns` columns for which the library packs its operands: more than
/// 28 for each of up to 18 threads, and half of a cache block of the columns. None where no number does.
std::optional<int64_t> leastTileRows(int64_t columns) {
  const double left = packsBelowWithAvx512 - 1.0 / static_cast<double>(columns);
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

/// Tiles of rows. The last one has up to twice as many as the others, unless it may have few.
struct Tiles {
  int64_t rows = 0;           ///< of a tile
  bool isLastSmaller = false; ///< the last tile has the rows that are left, however few
  Shape piece =
      {}; ///< rows, columns and contracted elements of a tile's pieces; empty: as they come

  /// The rows of the tiles of a product that has `all`, from the first on.
  std::vector<int64_t> counts(int64_t all) const {
    std::vector<int64_t> counts;
    for (int64_t left = all; left > 0; left -= counts.back()) {
      if (isLastSmaller)
        counts.push_back(std::min(left, rows));
      else // no tile has fewer rows than the library needs
        counts.push_back(left < 2 * rows ? left : rows);
    }
    return counts;
  }
};

/// What the library multiplies.
struct Factors {
  Operand a, b;
  bool transposeA, transposeB;
  std::string name;

  int64_t rows() const { return a.shape.end()[transposeA ? -1 : -2]; }
  int64_t columns() const { return b.shape.end()[transposeB ? -2 : -1]; }

  /// The product of both into `result`; `call` may add it to that.
  Command product(CommandOp call, Operand result) const {
    Command command;
    command.op = call;
    command.name = name;
    command.kind = "matmul";
    command.ints["transpose_a"] = {transposeA};
    command.ints["transpose_b"] = {transposeB};
    command.ints["has_bias"] = {0};
    command.operands = {a, b, std::move(result)};
    return command;
  }

  /// The product of the rows [first, first + count) into a tile at `offset`.
  Command tile(const Tiles &tiles, int64_t first, int64_t count, Bytes offset) const {
    Command command = product(CommandOp::DnnlMatmul, {offset, DType::F32, {count, columns()}, {}});
    command.operands[0] = rowsOf(a, transposeA, first, count);
    if (!tiles.piece.empty())
      command.ints["piece"] = tiles.piece;
    return command;
  }
};

Factors factorsOf(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf) {
  return {operandOf(op.getA().getType(), offsetOf(op.getA())),
          operandOf(op.getB().getType(), offsetOf(op.getB())), op.getTransposeA(),
          op.getTransposeB(), sourceNameOf(op.getLoc())};
}

Bytes nowhere(Value) { return 0; }

/// The whole product, or all of them, added to what lies where the result does.
Command addedProduct(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf) {
  const Value result = op.getResult(0);
  return factorsOf(op, offsetOf)
      .product(CommandOp::DnnlMatmulAdd, operandOf(result.getType(), offsetOf(result)));
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
  command.op = CommandOp::Kernel;
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
  return fewestRows > leastRows && packsFactors(fewestRows, leastPart(columns, pieceColumns),
                                                supportsBf16() ? packsBelowWithAvx512 : packsBelow);
}

/// Tiles of a product of 16-bit factors, which runs in pieces where the library has no code for them.
/// Where it packs all pieces of the whole product, a tile has as few rows as in f32, and pieces of half of
/// its columns at most: with these the tile and its pieces take no more than tile and factors in f32. Else
/// a tile consists of the whole product's pieces. One that is cut along columns alone, into pieces
/// that are not packed, gets other pieces.
Tiles tilesOfPieces(ProductMapOp op) {
  const int64_t rows = resultType(op).getDimSize(0), columns = resultType(op).getDimSize(1);
  const int64_t least = *leastTileRows(columns);
  const Command whole = factorsOf(op, nowhere).tile({}, 0, rows, 0);
  const Shape piece = askLibrary(whole, {}, 1).piece;
  if (piece.size() != 3) // one call of the library
    return {.rows = least};
  const bool isPacked = packsPieces(rows, columns, piece[0], piece[1]);
  if (!isPacked && piece[0] < rows)
    return {.rows = piece[0] * std::max<int64_t>(1, least / piece[0]),
            .isLastSmaller = true,
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
         columns * depth <= mostRight && !packsFactors(rows, columns, packsBelow);
}

/// The tiles of an op that runs in them.
Tiles tilesOf(ProductMapOp op, ProductForm form) {
  if (form == ProductForm::Rows)
    return {.rows = summedRows(resultType(op)), .isLastSmaller = true};
  return has16Bits(op) ? tilesOfPieces(op)
                       : Tiles{.rows = *leastTileRows(resultType(op).getDimSize(1))};
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
FailureOr<Command> productOfRows(ProductMapOp op, llvm::function_ref<Bytes(Value)> offsetOf,
                                 Bytes workspace, KernelModule &kernels) {
  const Tiles tiles = tilesOf(op, ProductForm::Rows);
  Command whole;
  whole.op = CommandOp::ProductMap;
  whole.name = sourceNameOf(op.getLoc());
  whole.ints["transpose_a"] = {op.getTransposeA()};
  whole.ints["rows"] = {tiles.rows};
  std::vector<int64_t> &steps = whole.ints["steps"];
  for (auto [here, next] : llvm::zip(kernelRows(op, 0, tiles.rows, offsetOf),
                                     kernelRows(op, tiles.rows, tiles.rows, offsetOf)))
    steps.push_back(next.offset - here.offset);
  std::vector<int64_t> counts = tiles.counts(resultType(op).getDimSize(0));
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (int64_t count : counts) {
    auto kernel = placedKernel(op, 0, count, offsetOf, workspace, kernels);
    if (failed(kernel))
      return failure();
    whole.parts.push_back(std::move(*kernel));
  }
  return whole;
}

/// The product with `rows` rows of its own, packed.
Factors withRows(Factors factors, int64_t rows) {
  factors.a.shape.end()[factors.transposeA ? -1 : -2] = rows;
  return factors;
}

double workOf(const Factors &factors) {
  const double rows = static_cast<double>(factors.rows()),
               columns = static_cast<double>(factors.columns()),
               depth = static_cast<double>(elementCount(factors.a.shape)) / rows;
  constexpr double perElement = 128; // 250 MiB where the most is 8e9
  return std::max({rows * columns * depth, perElement * rows * columns, perElement * rows * depth,
                   perElement * columns * depth});
}

std::optional<ProductTrial> trialOfAdding(ProductMapOp op, double most) {
  const Factors factors = factorsOf(op, nowhere);
  const Operand result = operandOf(op.getResult(0).getType(), 0);
  if (workOf(factors) > most ||
      storedElementCount(result.layout, result.shape) != elementCount(result.shape))
    return std::nullopt;
  return ProductTrial{factors.product(CommandOp::DnnlMatmul, result),
                      {factors.product(CommandOp::DnnlMatmulAdd, result)},
                      {0},
                      factors.rows()};
}

/// A tile of each kind: the first and the one behind it, which begins elsewhere, and the last.
std::optional<ProductTrial> trialOfTiles(ProductMapOp op, double most) {
  const Tiles tiles = tilesOf(op, ProductForm::Tiles);
  Factors factors = factorsOf(op, nowhere);
  const int64_t ofRows = factors.rows();
  while (workOf(factors) > most) { // half of the tiles, and the last one as it is
    const std::vector<int64_t> counts = tiles.counts(factors.rows());
    if (counts.size() <= 2)
      return std::nullopt;
    const auto fewer = static_cast<int64_t>(counts.size() / 2);
    factors = withRows(std::move(factors), fewer * tiles.rows + counts.back());
  }
  const Operand result = {0, DType::F32, {factors.rows(), factors.columns()}, {}};
  ProductTrial trial{factors.product(CommandOp::DnnlMatmul, result), {}, {}, ofRows};
  const std::vector<int64_t> counts = tiles.counts(factors.rows());
  int64_t first = 0;
  for (size_t i = 0; i < counts.size(); first += counts[i++])
    if (i < 2 || i + 1 == counts.size()) {
      trial.parts.push_back(factors.tile(tiles, first, counts[i], 0));
      trial.firstRows.push_back(first);
    }
  return trial;
}

} // namespace

CommandOp callOf(ProductForm form) {
  return form == ProductForm::Rows ? CommandOp::ProductMap : CommandOp::Sequence;
}

SmallVector<ProductForm> formsOf(ProductMapOp op) {
  const RankedTensorType type = resultType(op);
  if (!isTakenAsFactor(op.getA()) || !isTakenAsFactor(op.getB()))
    return {};
  SmallVector<ProductForm> forms;
  const bool takesRows = op->hasAttr(kSumsAlikeAttr) && isSummedHere(op);
  if (isAddedByLibrary(op) && !takesRows)
    forms.push_back(ProductForm::Added);
  auto isWhole = [&](Value value) {
    return tensorType(value).getShape() != type.getShape() ||
           layoutOf(value.getType()).isRowMajor();
  };
  if (!layoutOf(op.getA().getType()).isRowMajor() || !layoutOf(op.getB().getType()).isRowMajor() ||
      !llvm::all_of(op->getOperands().drop_front(2), isWhole) ||
      !llvm::all_of(op->getResults(), isWhole) || type.getRank() != 2)
    return forms;
  if (fillsTwoTiles(op))
    forms.push_back(ProductForm::Tiles);
  else if (isSummedHere(op))
    forms.push_back(ProductForm::Rows);
  return forms;
}

std::optional<ProductTrial> trialOf(ProductMapOp op, ProductForm form, double most) {
  return form == ProductForm::Added ? trialOfAdding(op, most) : trialOfTiles(op, most);
}

ProductNeeds productNeeds(ProductMapOp op, ProductForm form, int64_t threads) {
  ProductNeeds needs;
  if (form == ProductForm::Added) {
    const LibraryRequirements answer = askLibrary(addedProduct(op, nowhere), {}, threads);
    return {answer.workspaceBytes, answer.heapBytes};
  }
  const Tiles tiles = tilesOf(op, form);
  const int64_t all = resultType(op).getDimSize(0), columns = resultType(op).getDimSize(1);
  if (form == ProductForm::Rows) {
    needs.workspaceBytes = productRowsScratchBytes(all, columns, tiles.rows, threads);
    return needs;
  }
  const Factors factors = factorsOf(op, nowhere);
  for (int64_t rows : tiles.counts(all)) {
    const LibraryRequirements answer = askLibrary(factors.tile(tiles, 0, rows, 0), {}, threads);
    needs.workspaceBytes =
        std::max(needs.workspaceBytes, tileBytes(op, rows) + answer.workspaceBytes);
    needs.heapBytes = std::max(needs.heapBytes, answer.heapBytes);
  }
  return needs;
}

FailureOr<Command> productCommand(ProductMapOp op, ProductForm form,
                                  llvm::function_ref<Bytes(Value)> offsetOf, Bytes workspace,
                                  Bytes workspaceBytes, KernelModule &kernels) {
  if (form == ProductForm::Rows)
    return productOfRows(op, offsetOf, workspace, kernels);
  Command whole;
  whole.op = CommandOp::Sequence;
  whole.name = sourceNameOf(op.getLoc());
  if (form == ProductForm::Added) {
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
  const Tiles tiles = tilesOf(op, form);
  const Factors factors = factorsOf(op, offsetOf);
  int64_t first = 0;
  for (int64_t count : tiles.counts(resultType(op).getDimSize(0))) {
    Command product = factors.tile(tiles, first, count, workspace);
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
