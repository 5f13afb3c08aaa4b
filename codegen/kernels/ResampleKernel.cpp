// resample: sums of weighted elements along dimensions, the matrices as constants of the program.
//
// Lanes run along a dimension that is not resampled, as channels are: the elements a row sums are
// the same for all its lanes. Where only resampled dimensions are contiguous, elements are computed
// one at a time.
#include "codegen/kernels/Fold.h"

#include "ir/Resample.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

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
  }

  /// The row whose positions along the axes are `at`: terms for unrolled sums.
  void startRow(Value base, ArrayRef<Value> at) {
    rowBase = base;
    positions.assign(at.begin(), at.end());
    terms.clear();
    if (isUnrolled)
      unroll(0, base, Value());
  }

  /// The sum for the lanes of `chunk`, which step by `stride` in x.
  Value sum(const Chunk &chunk, int64_t stride) {
    Value zero =
        chunk.widen(arith::ConstantOp::create(builder, location, builder.getFloatAttr(element, 0)));
    if (!isUnrolled)
      return nest(0, rowBase, Value(), zero, chunk, stride);
    std::optional<Term> total;
    for (auto [base, weight] : terms) {
      Term term = weighted(chunk, base, stride, weight);
      total = total ? *total + term : term;
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

  void unroll(size_t number, Value base, Value weight) {
    if (number == matrices.size()) {
      terms.push_back({base, weight});
      return;
    }
    int64_t count = *matrices[number].terms;
    Value first = arith::MulIOp::create(builder, location, positions[number], lanes.index(count));
    for (int64_t k = 0; k < count; ++k) {
      auto [moved, own] = follow(number, plus(first, lanes.index(k)), base, weight);
      unroll(number + 1, moved, own);
    }
  }

  Value nest(size_t number, Value base, Value weight, Value total, const Chunk &chunk,
             int64_t stride) {
    if (number == matrices.size())
      return (chunk.term(total) + weighted(chunk, base, stride, weight)).get();
    const Matrix &matrix = matrices[number];
    Value first = indexAt(matrix.starts, positions[number]);
    Value last = indexAt(matrix.starts, plus(positions[number], lanes.index(1)));
    return lanes.loop(first, last, 1, {total}, [&](Value k, ValueRange carried) {
      auto [moved, own] = follow(number, k, base, weight);
      return SmallVector<Value>{nest(number + 1, moved, own, carried[0], chunk, stride)};
    })[0];
  }

  Term weighted(const Chunk &chunk, Value base, int64_t stride, Value weight) {
    Term x = chunk.term(chunk.load(frame.buffers[0], {base, stride})).widened();
    return weight ? x * chunk.term(weight) : x;
  }

  KernelFrame &frame;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  Type element; ///< of the sums
  bool isUnrolled = false;
  SmallVector<Matrix> matrices;
  Value rowBase;
  SmallVector<Value> positions;
  SmallVector<std::pair<Value, Value>> terms; ///< base in x and weight (none: 1)
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
