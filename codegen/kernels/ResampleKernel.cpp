// resample: sums of weighted elements along dimensions, the matrices as constants of the program.
//
// Lanes run along a dimension that is not resampled, as channels are: the elements a row sums are
// the same for all its lanes. Where only resampled dimensions are contiguous, the host computes elements
// one at a time. A thread of a device has a vector of results; to a whole number of times the size and back
// all vectors but those at the ends are the same sums of elements side by side, which are read in pieces:
//
//   x        |. a b .|. . . .|         to twice the size: lanes 0 to 7 of vector 1 read elements 3 to 8,
//   y    |0 0 0 0 0 0 0 0|1 1 ...      of vector 2 elements 7 to 12, with the same weights
#include "codegen/kernels/Fold.h"
#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/VectorWalk.h"

#include "ir/Resample.h"
#include "ir/StowResampleOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Rows with no more terms than this are unrolled.
constexpr int64_t kUnrolledTerms = 16;

/// One matrix as the kernel reads it.
struct Matrix {
  Buffer starts;                 ///< where each row begins; unused when `terms` is given
  Buffer offsets;                ///< elements of x to skip for each source
  std::optional<Buffer> weights; ///< none: all are 1
  std::optional<int64_t> terms;  ///< the same number in every row
};

DenseElementsAttr vectorOf(OpBuilder &builder, ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
  return DenseElementsAttr::get(type, values);
}

DenseElementsAttr vectorOf(OpBuilder &builder, Type element, ArrayRef<double> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, element);
  SmallVector<Attribute> numbers;
  for (double value : values)
    numbers.push_back(builder.getFloatAttr(element, value));
  return DenseElementsAttr::get(type, numbers);
}

int64_t mostTerms(const SparseRows &rows) {
  int64_t most = 0;
  for (int64_t row = 0; row < rows.rows(); ++row)
    most = std::max(most, rows.starts[row + 1] - rows.starts[row]);
  return most;
}

/// True when every row sums something and short rows may repeat a source with weight 0.
bool canBeEven(const SparseRows &rows, int64_t most) {
  for (int64_t row = 0; row < rows.rows(); ++row)
    if (rows.starts[row] == rows.starts[row + 1])
      return false;
  return most * rows.rows() <= 2 * static_cast<int64_t>(rows.sources.size());
}

/// The same matrix with `terms` sources in every row.
SparseRows evened(const SparseRows &rows, int64_t terms) {
  SparseRows result;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    int64_t first = rows.starts[row], last = rows.starts[row + 1];
    for (int64_t k = first; k < first + terms; ++k)
      result.add(rows.sources[k < last ? k : first], k < last ? rows.weights[k] : 0);
    result.endRow();
  }
  return result;
}

/// Vectors [first, last) of results along a dimension are the same sums: of vector v, term k of lane j reads
/// source v * step + sources[k][j] with weight weights[k][j].
struct RepeatedRows {
  int64_t lanes = 1, step = 1, first = 0, last = 0;
  SmallVector<SmallVector<int64_t>> sources;
  SmallVector<SmallVector<double>> weights;
};

/// The vectors in the middle of `rows`, which have `terms` sources each, that are alike; nothing where they
/// are fewer than half of all.
std::optional<RepeatedRows> repeatedRows(const SparseRows &rows, int64_t terms, int64_t lanes) {
  const int64_t vectors = rows.rows() / lanes, count = lanes * terms, middle = vectors / 2;
  if (vectors < 2)
    return std::nullopt;
  auto first = [&](int64_t vector) { return vector * count; };
  RepeatedRows repeated{
      lanes,  rows.sources[first(middle + 1) - 1] - rows.sources[first(middle) - 1],
      middle, middle,
      {},     {}};
  auto isAlike = [&](int64_t vector) {
    for (int64_t i = 0; i < count; ++i)
      if (rows.sources[first(vector) + i] !=
              rows.sources[first(middle) + i] + (vector - middle) * repeated.step ||
          static_cast<float>(rows.weights[first(vector) + i]) !=
              static_cast<float>(rows.weights[first(middle) + i]))
        return false;
    return true;
  };
  while (repeated.first > 0 && isAlike(repeated.first - 1))
    --repeated.first;
  while (repeated.last < vectors && isAlike(repeated.last))
    ++repeated.last;
  if (2 * (repeated.last - repeated.first) < vectors)
    return std::nullopt;
  repeated.sources.resize(terms);
  repeated.weights.resize(terms);
  for (int64_t i = 0; i < count; ++i) {
    repeated.sources[i % terms].push_back(rows.sources[first(middle) + i] - middle * repeated.step);
    repeated.weights[i % terms].push_back(rows.weights[first(middle) + i]);
  }
  return repeated;
}

class Resampling {
public:
  Resampling(ResampleOp op, KernelFrame &frame, ArrayRef<int64_t> xStrides)
      : frame(frame), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()), element(computeType(op.getX().getType())) {
    auto given = axisRowsOf(op);
    int64_t product = 1;
    for (const AxisRows &matrix : given) {
      int64_t most = mostTerms(matrix.rows);
      product *= canBeEven(matrix.rows, most) ? most : kUnrolledTerms + 1;
    }
    isUnrolled = product <= kUnrolledTerms;
    for (const AxisRows &matrix : given)
      addMatrix(matrix.rows, xStrides[matrix.axis]);
    if (isUnrolled)
      last = evened(given.back().rows, *matrices.back().terms);
  }

  /// True where every row is a sum of few terms without a loop.
  bool hasFewTerms() const { return isUnrolled; }

  /// Vectors of `lanes` results along the last axis, where its rows repeat.
  std::optional<RepeatedRows> repeatedAlongLast(int64_t lanes) const {
    return last ? repeatedRows(*last, *matrices.back().terms, lanes) : std::nullopt;
  }

  /// The row whose positions along the axes are `at`: terms for unrolled sums.
  void startRow(Value base, ArrayRef<Value> at) {
    rowBase = base;
    positions.assign(at.begin(), at.end());
    terms.clear();
    if (isUnrolled)
      unroll(0, matrices.size(), base, Value());
  }

  /// The sum for the lanes of `chunk`, which step by `stride` in x and, where that is 1, begin at multiples of
  /// `alignment` bytes.
  Value sum(const Chunk &chunk, int64_t stride, int64_t alignment = 0) {
    Value zero =
        chunk.widen(arith::ConstantOp::create(builder, location, builder.getFloatAttr(element, 0)));
    const Access moving{Value(), stride, alignment};
    if (!isUnrolled)
      return nest(0, rowBase, Value(), zero, chunk, moving);
    std::optional<Term> total;
    for (auto [base, weight] : terms) {
      Term term = weighted(chunk, base, moving, weight);
      total = total ? *total + term : term;
    }
    return total->get();
  }

  /// The same sums for vector `number` along the last axis, one of those that repeat. `base` and `at` are as
  /// startRow's, the last of which is not looked at; x is read in pieces of `pieceLanes`.
  Value sumRepeated(const Chunk &chunk, Value base, ArrayRef<Value> at, const RepeatedRows &rows,
                    Value number, int64_t pieceLanes) {
    positions.assign(at.begin(), at.end());
    terms.clear();
    Value moved = arith::MulIOp::create(builder, location, number, lanes.index(rows.step));
    unroll(0, matrices.size() - 1, plus(base, moved), Value());
    std::optional<Term> total;
    for (auto [line, weight] : terms) {
      RowPieces pieces(builder, location, frame.buffers[0], line, pieceLanes, nullptr);
      for (auto [sources, weights] : llvm::zip_equal(rows.sources, rows.weights)) {
        Term term = chunk.term(pieces.at(sources)).widened();
        std::optional<Term> factor;
        if (weight)
          factor = chunk.term(weight);
        if (matrices.back().weights) {
          Term own = chunk.term(vectorOfLanes(builder, location, constants(weights)));
          factor = factor ? *factor * own : own;
        }
        term = factor ? term * *factor : term;
        total = total ? *total + term : term;
      }
    }
    return total->get();
  }

  int64_t workPerElement(ResampleOp op) {
    return std::max<int64_t>(1, op.getFlops() / (2 * op.getY().getType().getNumElements()));
  }

private:
  void addMatrix(const SparseRows &given, int64_t stride) {
    Matrix matrix;
    SparseRows rows = given;
    if (isUnrolled) {
      matrix.terms = mostTerms(rows);
      rows = evened(rows, *matrix.terms);
    } else {
      matrix.starts = frame.constant(vectorOf(builder, rows.starts));
      if (rows.sources.empty()) // nothing reads them, but constants have elements
        rows.add(0, 1);
    }
    std::vector<int64_t> offsets;
    for (int64_t source : rows.sources)
      offsets.push_back(source * stride);
    matrix.offsets = frame.constant(vectorOf(builder, offsets));
    if (llvm::any_of(rows.weights, [](double weight) { return weight != 1; }))
      matrix.weights = frame.constant(vectorOf(builder, element, rows.weights));
    matrices.push_back(matrix);
  }

  Value constantAt(const Buffer &buffer, Value position) {
    Chunk scalar(builder, location, lanes.index(0), 1);
    return scalar.load(buffer, {position, 0});
  }
  Value indexAt(const Buffer &buffer, Value position) {
    return arith::IndexCastOp::create(builder, location, builder.getIndexType(),
                                      constantAt(buffer, position));
  }
  Value plus(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }

  /// What term `k` of matrix `number` reads from and with which weight, after those before it.
  std::pair<Value, Value> follow(size_t number, Value k, Value base, Value weight) {
    const Matrix &matrix = matrices[number];
    Value moved = plus(base, indexAt(matrix.offsets, k));
    if (!matrix.weights)
      return {moved, weight};
    Value own = constantAt(*matrix.weights, k);
    if (weight)
      own = arith::MulFOp::create(builder, location, weight, own);
    return {moved, own};
  }

  SmallVector<Value> constants(ArrayRef<double> numbers) {
    return llvm::map_to_vector(numbers, [&](double number) -> Value {
      return arith::ConstantOp::create(builder, location, builder.getFloatAttr(element, number));
    });
  }

  /// The terms of matrices [number, end).
  void unroll(size_t number, size_t end, Value base, Value weight) {
    if (number == end) {
      terms.push_back({base, weight});
      return;
    }
    int64_t count = *matrices[number].terms;
    Value first = arith::MulIOp::create(builder, location, positions[number], lanes.index(count));
    for (int64_t k = 0; k < count; ++k) {
      auto [moved, own] = follow(number, plus(first, lanes.index(k)), base, weight);
      unroll(number + 1, end, moved, own);
    }
  }

  Value nest(size_t number, Value base, Value weight, Value total, const Chunk &chunk,
             const Access &moving) {
    if (number == matrices.size())
      return (chunk.term(total) + weighted(chunk, base, moving, weight)).get();
    const Matrix &matrix = matrices[number];
    Value first = indexAt(matrix.starts, positions[number]);
    Value last = indexAt(matrix.starts, plus(positions[number], lanes.index(1)));
    return lanes.loop(first, last, 1, {total}, [&](Value k, ValueRange carried) {
      auto [moved, own] = follow(number, k, base, weight);
      return SmallVector<Value>{nest(number + 1, moved, own, carried[0], chunk, moving)};
    })[0];
  }

  Term weighted(const Chunk &chunk, Value base, const Access &moving, Value weight) {
    const Access access{base, moving.stride, moving.alignment};
    Term x = chunk.term(chunk.load(frame.buffers[0], access)).widened();
    return weight ? x * chunk.term(weight) : x;
  }

  KernelFrame &frame;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  Type element; ///< of the sums
  bool isUnrolled = false;
  SmallVector<Matrix> matrices;
  std::optional<SparseRows> last; ///< where all are unrolled: of the last axis
  Value rowBase;
  SmallVector<Value> positions;
  SmallVector<std::pair<Value, Value>> terms; ///< base in x and weight (none: 1)
};

//===-- On a device ---------------------------------------------------------------------------===//

/// Sums that a thread has in registers beside what it reads.
constexpr int64_t kMostLanes = 16;

/// Vectors of results. Accesses of the space: y, x without the resampled dimensions, and the position along
/// each of those.
class DeviceResampling {
public:
  DeviceResampling(KernelFrame &frame, Resampling &resampling, const Space &space, ResampleOp op,
                   ArrayRef<int64_t> xStrides)
      : frame(frame), lanes(frame.lanes), resampling(resampling), space(space), x(frame.buffers[0]),
        y(frame.buffers[1]) {
    const Space::Dim &lane = space.dims.back();
    ArrayRef<int64_t> along = ArrayRef(lane.strides).drop_front(2);
    isAlong = llvm::any_of(along, [](int64_t stride) { return stride != 0; });
    if (lane.strides[0] != 1)
      return;
    const int64_t step = stepOf(xStrides), most = std::gcd(accessLanes(y), lane.extent);
    if (!isAlong) {
      width = lane.strides[1] == 1 ? std::gcd(most, step) : 1;
      return;
    }
    if (along.back() == 0 || xStrides[op.getAxes().back()] != 1 || !resampling.hasFewTerms())
      return;
    width = most;
    for (int64_t many = most; many <= kMostLanes && lane.extent % many == 0; many *= 2) {
      const std::optional<RepeatedRows> found = resampling.repeatedAlongLast(many);
      if (!found)
        continue;
      const int64_t extent = op.getX().getType().getDimSize(op.getAxes().back());
      const int64_t read = std::gcd(std::gcd(accessLanes(x), found->step), std::gcd(step, extent));
      if (!repeated || read > pieceLanes)
        repeated = found, pieceLanes = read, width = many;
    }
  }

  void emit() {
    SmallVector<unsigned> buffers(space.offsets.size(), frame.buffers.size());
    buffers[0] = 1;
    VectorWalk walk(frame, space, buffers, 0);
    walk.keepInRows(width);
    walk.runAlone([&](ArrayRef<VectorSpot> spots) { emitVector(spots.front()); });
  }

private:
  void emitVector(const VectorSpot &spot) {
    Value base = spot.element(1);
    SmallVector<Value> at;
    for (size_t access = 2; access < space.offsets.size(); ++access)
      at.push_back(spot.element(access));
    if (!isAlong || width == 1) {
      resampling.startRow(base, at);
      return store(spot, resampling.sum(spot.chunk(), 1, accessAlignment(x, width)));
    }
    if (!repeated)
      return store(spot, sumOfEach(base, at));
    OpBuilder &builder = lanes.getBuilder();
    Location location = lanes.getLocation();
    const IndexMath math{builder, location};
    Value number = math.quotient(at.back(), width);
    auto ofRepeated = [&] {
      store(spot, resampling.sumRepeated(spot.chunk(), base, at, *repeated, number, pieceLanes));
    };
    const int64_t vectors = space.dims.back().extent / width;
    if (repeated->last - repeated->first == vectors)
      return ofRepeated();
    Value isRepeated = math.isBelow(math.minus(number, math.constant(repeated->first)),
                                    math.constant(repeated->last - repeated->first));
    auto branch = scf::IfOp::create(builder, location, isRepeated, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    ofRepeated();
    builder.setInsertionPointToStart(branch.elseBlock());
    storeEach(spot.element(0), base, at);
  }

  /// The sum `lane` results behind that at `at`.
  Value sumOfLane(Value base, ArrayRef<Value> at, Value lane) {
    const IndexMath math{lanes.getBuilder(), lanes.getLocation()};
    SmallVector<Value> moved(at);
    moved.back() = math.plus(moved.back(), lane);
    resampling.startRow(base, moved);
    return resampling.sum(one(), 0);
  }

  Value sumOfEach(Value base, ArrayRef<Value> at) {
    SmallVector<Value> sums;
    for (int64_t lane = 0; lane < width; ++lane)
      sums.push_back(sumOfLane(base, at, lanes.index(lane)));
    return vectorOfLanes(lanes.getBuilder(), lanes.getLocation(), sums);
  }

  /// At the ends of rows, where code is to be short.
  void storeEach(Value first, Value base, ArrayRef<Value> at) {
    lanes.loop(lanes.index(0), lanes.index(width), 1, {}, [&](Value lane, ValueRange) {
      const IndexMath math{lanes.getBuilder(), lanes.getLocation()};
      Term sum = one().term(sumOfLane(base, at, lane));
      one().store(sum.as(y.element).get(), y, {math.plus(first, lane), 0});
      return SmallVector<Value>();
    });
  }

  void store(const VectorSpot &spot, Value sum) {
    spot.store(spot.chunk().term(sum).as(y.element).get(), 0);
  }

  Chunk one() { return Chunk(lanes.getBuilder(), lanes.getLocation(), lanes.index(0), 1); }

  KernelFrame &frame;
  Lanes &lanes;
  Resampling &resampling;
  const Space &space;
  const Buffer &x, &y;
  bool isAlong = false; ///< lanes run along a resampled dimension
  int64_t width = 1, pieceLanes = 1;
  std::optional<RepeatedRows> repeated;
};

} // namespace

static LogicalResult emitResample(Operation *operation, KernelFrame &frame) {
  auto op = cast<ResampleOp>(operation);
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  // Accesses: y, x without the resampled dimensions, and the position along each of those.
  SmallVector<Strides> accesses = {(*strides)[1], (*strides)[0]};
  for (int64_t axis : op.getAxes()) {
    accesses[1][axis] = 0;
    accesses.emplace_back(op.getY().getType().getRank(), 0)[axis] = 1;
  }
  Resampling resampling(op, frame, (*strides)[0]);
  Space space = makeSpace(op.getY().getType().getShape(), accesses);
  space.collapse();
  if (frame.target == KernelTarget::Device) {
    DeviceResampling(frame, resampling, space, op, (*strides)[0]).emit();
    return success();
  }
  const Space::Dim &inner = space.dims.back();
  bool isResampled = llvm::any_of(llvm::drop_begin(inner.strides, 2), [](int64_t s) { return s; });
  Space::Dim lane{1, Strides(accesses.size(), 0)};
  if (!isResampled)
    lane = space.takeInnermost();
  Lanes &lanes = frame.lanes;
  const Buffer &y = frame.buffers[1];
  int64_t width = isResampled ? 1 : lanes.chunkLanes(widestBits(frame.buffers));
  RowCut cut{std::nullopt, resampling.workPerElement(op)};
  forRows(frame, space, lane, cut, [&](const RowPlace &place) {
    resampling.startRow(place.bases[1], ArrayRef(place.bases).drop_front(2));
    lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      Term sum = chunk.term(resampling.sum(chunk, lane.strides[1]));
      chunk.store(sum.as(y.element).get(), y, {place.bases[0], lane.strides[0]});
    });
  });
  return success();
}

void addResampleKernels(KernelTable &table) {
  table.add<ResampleOp>(emitResample, {.takesPart = takesAnyPart});
}

} // namespace stow
