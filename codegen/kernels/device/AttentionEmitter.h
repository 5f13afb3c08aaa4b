// What the kernels of attention share: the problem, its tiles, and what stands at a score.
//
// A block owns a tile of rows and streams tiles of others through shared memory. Values of products lie
// in registers as TileProducts.h says; sums of a warp's 16 rows go from tile to tile.
#pragma once

#include "codegen/kernels/Emit.h"
#include "codegen/kernels/device/TileProducts.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <numeric>

namespace stow {

/// What a kernel is made for: shapes and attributes of the op.
struct AttentionProblem {
  /// Of stow.attention or stow.attention_gradient.
  static AttentionProblem of(mlir::Operation *op);

  int64_t heads, shared; ///< of queries; of these, how many in a row share keys
  int64_t queries, keys, depth, width;
  mlir::FloatType element; ///< of the factors of products
  double scale, ratio;
  std::optional<int64_t> diagonal, window;
  bool zeroRows, isGradient;
  bool isAdded = false; ///< the mask, to the scores
  uint64_t stream;
  /// Numbers of the operands; no seed where nothing is dropped.
  std::optional<unsigned> mask, queryDocuments, keyDocuments, seed;

  bool isNarrow() const { return element.getIntOrFloatBitWidth() == 16; }
  /// An exponent is one multiply-add of a product there: the larger product has the larger score, of all keys.
  bool isScaledLate() const { return isNarrow() && !mask && scale > 0; }
  /// Numbers of a query that the kernels of the gradient share (AttentionEmitter::OfQuery).
  int64_t numbersOfQuery() const { return isScaledLate() ? 2 : 3; }
};

/// What is computed by one kernel. Gradients of keys and of values are one where registers hold the sums of both.
enum class AttentionKernel {
  Forward,
  QueryGradient,
  KeyAndValueGradient,
  ValueGradient,
  KeyGradient
};

/// Those of the op, in the order in which they run.
llvm::SmallVector<AttentionKernel> kernelsOf(const AttentionProblem &problem);

/// Shared memory that a block has without being asked for more, and the most that every chip of compute capability 8.0 or later gives
/// (CUDA C++ Programming Guide, technical specifications per compute capability: 99 KB on 8.6, 8.9 and 12.0).
inline constexpr int64_t kSharedBytes = 48 << 10, kMostSharedBytes = 99 << 10;

/// Warps of a block, and rows that are streamed at a time.
struct AttentionTiles {
  /// As large as shared memory and registers allow; none where rows are too long. Of the same number of warps, in 16 bits, those that
  /// read the fewest matrices from shared memory.
  static std::optional<AttentionTiles> of(const AttentionProblem &problem, AttentionKernel kernel);

  int64_t owned() const { return warps * parts * TileProducts::kRows; }
  int64_t sharedBytes(const AttentionProblem &problem) const;
  /// What sums, held rows and scores take of a thread.
  int64_t registers(const AttentionProblem &problem) const;
  /// Columns of 16 x 16 elements that ldmatrix brings for 16 x 16 scores.
  int64_t matricesRead(const AttentionProblem &problem) const;
  /// The kernel's owned rows are those of two tensors, whose products with two streamed ones it has.
  bool ownsTwo() const {
    return kernel != AttentionKernel::Forward && kernel != AttentionKernel::ValueGradient;
  }
  /// Numbers of a streamed query that it reads.
  int64_t streamedNumbers(const AttentionProblem &problem) const;
  /// These, or ones with fewer warps where few rows are owned.
  AttentionTiles forFew(const AttentionProblem &problem) const;
  /// These, or smaller ones where few rows are streamed.
  AttentionTiles forShort(const AttentionProblem &problem) const;
  /// These, with room for the next of the streamed tiles where that is worth it and fits.
  AttentionTiles inStages(const AttentionProblem &problem) const;

  static std::optional<AttentionTiles> ofWarps(const AttentionProblem &problem,
                                               AttentionKernel kernel, int64_t warps);

  AttentionKernel kernel;
  int64_t warps, parts, streamed; ///< parts: of 16 rows a warp
  int64_t held; ///< of the owned tensors, whose rows lie in registers while others are streamed
  int64_t stages =
      1; ///< streamed tiles in shared memory: the one at hand and, of 2, the one that comes
};

/// A tensor [heads..., rows, columns], and what lies where in it; documents [heads..., rows] have one column.
struct Matrices {
  Buffer buffer;
  Space heads;
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;

  int64_t bytes(int64_t elements) const {
    return elements * buffer.element.getIntOrFloatBitWidth() / 8;
  }
  /// Elements that are read or written at once, in 16 bytes of the larger of their type and `element`,
  /// and at most `most`.
  int64_t together(mlir::Type element, int64_t most = 8) const;
};

class AttentionEmitter {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  /// `tensors`: operands, then results; the gradient's frame has what its kernels share beside. Sets the number
  /// of the kernel's threads.
  AttentionEmitter(KernelFrame &frame, const AttentionProblem &problem, const AttentionTiles &tiles,
                   llvm::ArrayRef<Matrices> tensors);

  void emit();

private:
  void attention();
  void gradientByKeys();
  void gradientByQueries();

  //===-- Memory ----------------------------------------------------------------------------===//

  /// Of the kernel's own memory or, where a block takes more than that may have, of what its launch gives it.
  mlir::Value shared(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value tile(int64_t rows, int64_t columns);
  /// The warp's rows of the owned tiles, which are there: into registers where they are held.
  void takeOwned();
  void barrier() { mlir::gpu::BarrierOp::create(builder, location); }

  /// The first element of matrix `head`.
  mlir::Value base(const Matrices &matrices, mlir::Value head);
  mlir::Value elementAt(const Matrices &matrices, mlir::Value base, mlir::Value row,
                        mlir::Value column);
  /// `count` elements, a number or a vector, as elements of type `element`.
  mlir::Value load(const Matrices &matrices, mlir::Value at, int64_t count, mlir::Type element);
  /// `rows` rows of matrix `head` from `first` on into a tile, by all threads of the block. They are there after arrive(): copied by cp.async where their elements are those of products, and lie so that it can.
  void loadTile(mlir::Value tile, const Matrices &matrices, mlir::Value head, mlir::Value first,
                int64_t rows);
  /// Of a vector of a tile row and column, its first element among the matrices', and whether there is one (i1;
  /// null: always); what is not there is zero.
  struct VectorPlace {
    mlir::Value row, column, from, exists;
  };
  VectorPlace vectorOfTile(const Matrices &matrices, mlir::Value base, mlir::Value first,
                           int64_t rows, mlir::Value number, int64_t count);
  /// `count` elements from `element` on by cp.async.
  void copyAhead(const Buffer &from, mlir::Value element, mlir::Value to, mlir::ValueRange place,
                 int64_t count, mlir::Value exists);
  /// Waits for what the block's threads have asked for, and for their reads before.
  void arrive();
  /// A result, the warp's rows of it in registers, and an owned tile that nobody reads any more.
  struct Written {
    const Matrices &matrices;
    mlir::Value tile;
    mlir::ValueRange values;
  };
  /// Writes rows of results, of the owned tile that begins at row `first`. They go through the tiles where
  /// their elements are the results': a thread then writes 16 bytes.
  void store(llvm::ArrayRef<Written> results, mlir::Value head, mlir::Value first);
  bool goesThroughTile(const Written &result) const;
  void putIntoTile(const Written &result);
  void storeTile(const Written &result, mlir::Value head, mlir::Value first);
  void storeRows(const Written &result, mlir::Value head, mlir::Value first);
  void storeRow(const Matrices &matrices, mlir::Value base, mlir::Value row, int64_t half,
                mlir::ValueRange values);

  //===-- Numbers ---------------------------------------------------------------------------===//

  Term term(mlir::Value value) { return Term(builder, location, value); }
  mlir::Value number(double value);
  /// Exponentials are powers of e in f32, and of 2, by the device's own instruction, where weights are
  /// rounded to 16 bits anyway. Scores are then multiplied with unit(), log2(e), together with the scale;
  /// not where a mask is added to them, whose least value has no such multiple: there their differences are.
  Term power(Term difference);
  double unit() const;
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value sumOverRow(mlir::Value value);

  //===-- Scores ----------------------------------------------------------------------------===//

  enum class Streams { Keys, Queries };

  /// The tile of scores at hand: head, the owned tile's first row, the streamed one's.
  struct Place {
    mlir::Value head, first, from;
    Streams streams;
    bool isSeen;      ///< every score of it
    mlir::Value tile; ///< number of the streamed one
  };
  /// One score.
  struct Score {
    mlir::Value query, key; ///< indices
    mlir::Value isSeen; ///< i1: the query sees the key, and what is streamed exists; null: always
  };
  /// The number of the document of a query, or of a key, of queries' head `head`; that of the last row beyond it.
  mlir::Value documentOf(Streams rows, mlir::Value head, mlir::Value row);
  /// Whether query and key are of one document (i1).
  mlir::Value isOfOneDocument(mlir::Value head, const Score &at);
  /// Where one of the thread's values lies: half of the warp's parts, group of columns, and the first or second of these.
  struct ValuePlace {
    int64_t half, group, i;
  };
  /// Number `number` of the values of a product of `count`.
  ValuePlace placeOf(size_t number, size_t count) const;
  /// `visit`s the numbers and places of those of one half of `count` values.
  void eachOfHalf(int64_t half, size_t count,
                  llvm::function_ref<void(size_t, const ValuePlace &)> visit) const;
  /// One of the tile's scores.
  Score scoreAt(const Place &place, const ValuePlace &at);
  /// Row of the owned tile that is the thread's in a half.
  mlir::Value ownRow(mlir::Value first, int64_t half) {
    return math.plus(math.plus(first, warpRow), products.rowOf(half));
  }
  /// A product with scale and mask, in unit()s.
  Term masked(mlir::Value product, const Place &place, const Score &at);
  /// What dropout multiplies its weight with; nothing without dropout.
  std::optional<Term> dropoutFactor(const Place &place, const Score &at);

  //===-- Walks -----------------------------------------------------------------------------===//

  /// Tasks over tiles of `rows` rows of `heads` matrices: `body` gets head and first row.
  void forTiles(int64_t heads, int64_t rows, bool lastFirst,
                llvm::function_ref<void(mlir::Value, mlir::Value)> body);
  /// Tiles of streamed rows that an owned tile visits, from `low` to `high`: all of the scores are seen between
  /// `seenLow` and `seenHigh`, of which either is null where it is the other's.
  struct Visited {
    mlir::Value low, seenLow, seenHigh, high;
  };
  /// Of keys, for queries from `first` on.
  Visited visitedKeys(mlir::Value first);
  /// Of queries, for keys from `first` on.
  Visited visitedQueries(mlir::Value first);
  Visited inOrder(Visited tiles);
  /// What is streamed of one head: keys and values, or queries and dy with their numbers.
  struct Stream {
    const Matrices &factors, &others;
    mlir::Value head;
    Streams streams;
    mlir::Value ofQueries;   ///< the head that the queries are of
    mlir::Value least, most; ///< numbers of documents of the owned rows, where there are such
  };
  /// Of the head of queries `head`, for the owned tile that begins at `first`.
  Stream streamOf(Streams streams, const Matrices &factors, const Matrices &others,
                  mlir::Value head, mlir::Value first);
  /// Whether a streamed tile may be of a document of the owned one: the same in all threads of the block. Null: always.
  mlir::Value meets(const Stream &stream, mlir::Value tile);
  using TileBody = llvm::function_ref<Values(mlir::Value tile, bool isSeen, mlir::ValueRange)>;
  /// Runs `body` over them, apart for those that are seen whole: a mask takes longer there than in f32.
  /// With two stages the first has been asked for, and each asks for the next.
  Values overTiles(const Stream &stream, const Visited &visited, mlir::ValueRange before,
                   TileBody body);
  void bringFirst(const Stream &stream, const Visited &visited);
  void bring(const Stream &stream, mlir::Value tile);
  /// Where streamed tile number `tile` lies in a memory of all stages.
  mlir::Value stageOf(mlir::Value memory, mlir::Value tile);
  mlir::Value tilesUpTo(mlir::Value rows) {
    return math.quotient(math.plus(rows, tiles.streamed - 1), tiles.streamed);
  }
  /// value - number, or 0 where that is less.
  mlir::Value lessAtLeast0(mlir::Value value, int64_t number);
  /// The number of the keys that queries of `head` have.
  mlir::Value headOfKeys(mlir::Value head) { return math.quotient(head, problem.shared); }
  mlir::Value clamped(mlir::Value row, int64_t rows, int64_t tileRows) {
    return rows % tileRows == 0 ? row : math.smaller(row, math.constant(rows - 1));
  }
  /// Of a row of a tile that is owned or streamed: both have powers of 2.
  mlir::Value clamped(mlir::Value row, int64_t rows) {
    return clamped(row, rows, std::max(tiles.owned(), tiles.streamed));
  }

  //===-- Forward ---------------------------------------------------------------------------===//

  /// Makes the scores of one of the thread's two rows weights, and brings the sums up to them.
  void weigh(const Place &place, int64_t half, Values &scores, Values &carried);
  /// Divides the sums by those of the exponentials, and writes the numbers of the rows.
  void finish(mlir::Value head, mlir::Value first, Values &carried);

  //===-- Backward --------------------------------------------------------------------------===//

  /// What makes weights and gradients of the scores of a query: in unit()s the largest and the logarithm of the
  /// sum of the exponentials, or minus the sum of both where scores are scaled late; and dy times y.
  using OfQuery = llvm::SmallVector<mlir::Value, 3>;
  OfQuery ofQuery(mlir::Value head, mlir::Value row);
  /// Writes those of row `row`, where there is one, for the kernel that streams queries.
  void leave(const OfQuery &numbers, mlir::Value head, mlir::Value row);
  mlir::Value placeLeft(int64_t number, mlir::Value head, mlir::Value row);
  /// Row `row` of dy times that of y: the same in the four threads that share it.
  mlir::Value rowProduct(mlir::Value head, mlir::Value row);
  /// The numbers of the streamed queries, which the kernel before has left, into shared memory.
  void bringNumbers(mlir::Value head, mlir::Value from, mlir::Value tile);
  /// Those of a column of a tile of streamed queries.
  OfQuery numbersOfColumn(const Place &place, mlir::Value column);
  /// Of a tile's scores the weights before dropout.
  Values weightsOf(const Place &place, llvm::function_ref<OfQuery(const ValuePlace &)> ofQuery);
  /// Weights, or gradients of such, as dropout leaves them.
  Values dropped(const Place &place, mlir::ValueRange weights);
  /// Gradients of the products of queries and keys.
  Values scoreGradients(const Place &place, mlir::ValueRange weights,
                        llvm::function_ref<OfQuery(const ValuePlace &)> ofQuery);
  /// Sums of gradients of scores times rows. All but those of f16, which they might leave, are without the scale until
  /// here.
  Values scaled(mlir::ValueRange sums);

  KernelFrame &frame;
  const AttentionProblem &problem;
  const AttentionTiles &tiles;
  const llvm::ArrayRef<Matrices> tensors;
  Lanes &lanes;
  mlir::OpBuilder &builder;
  const mlir::Location location;
  const IndexMath math;
  mlir::gpu::GPUFuncOp function;
  const int64_t threads;
  const mlir::Value thread;
  const TileProducts products;
  const mlir::Value warpRow;         ///< first row of this warp among the block's
  mlir::Value owned[2], streamed[2]; ///< tiles: of q or k, of v or dy
  TileProducts::Left factors[2];     ///< the warp's rows of the owned ones
  Values rowNumbers;                 ///< of the streamed queries: OfQuery
  Buffer scratch;                    ///< of the gradient: the numbers of all queries
  mlir::Value seed;
};

} // namespace stow
