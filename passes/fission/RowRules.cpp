#include "passes/fission/RowRules.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace stow {

std::optional<unsigned> ChainRows::dimensionsOf(RankedTensorType type) const {
  ArrayRef<int64_t> shape = type.getShape();
  int64_t leading = 1;
  for (auto [dim, extent] : llvm::enumerate(areOfMatrix ? shape : shape.take_front(1))) {
    leading *= extent;
    if (leading == count)
      return dim + 1;
  }
  return std::nullopt;
}

RankedTensorType ChainRows::typeOf(RankedTensorType whole, int64_t chunkRows) const {
  SmallVector<int64_t> shape = {chunkRows};
  if (!areOfMatrix)
    llvm::append_range(shape, whole.getShape().drop_front());
  else if (whole.getRank() > 1)
    shape.push_back(whole.getNumElements() / count);
  return RankedTensorType::get(shape, whole.getElementType());
}

bool RowRule::readsRowsOf(unsigned operand) const {
  return llvm::any_of(rows, [&](const Read &read) { return read.operand == operand; });
}

namespace {

/// The rule of one op on one chain's rows.
class RuleMaker {
public:
  RuleMaker(Operation *op, const ChainRows &rows) : op(op), rows(rows), builder(op->getContext()) {}

  std::optional<RowRule> make() {
    if (phaseOf(op) == Phase::Update) // which writes state, that has rows only by chance
      return std::nullopt;
    if (auto product = dyn_cast<MatmulOp>(op))
      ofProduct(product);
    else if (isa<CrossEntropyRowsOp, CrossEntropyRowsGradOp, NllRowsOp, NllRowsGradOp>(op))
      ofLoss();
    else if (isa<ElementwiseOpInterface>(op))
      rows.areOfMatrix ? ofMatrices() : ofImages();
    else if (rows.areOfMatrix)
      ofColumns();
    else
      ofWindows();
    return isRowWise ? std::optional(std::move(rule)) : std::nullopt;
  }

private:
  ArrayRef<int64_t> shapeOf(Value value) const { return tensorType(value).getShape(); }

  /// `operand` is read row by row, as it is.
  void readRows(unsigned operand) {
    isRowWise &= rows.areOf(op->getOperand(operand));
    rule.rows.push_back({operand, SmallVector<int64_t>(shapeOf(op->getOperand(operand)))});
  }

  /// The rule holds, if the results have rows.
  void giveRows() {
    isRowWise = llvm::all_of(op->getResults(), [&](Value result) { return rows.areOf(result); });
  }

  void ofProduct(MatmulOp product) {
    RankedTensorType a = product.getA().getType(), b = product.getB().getType();
    const bool isSum = product.getTransposeA() && !product.getTransposeB() && !product.getBias() &&
                       a.getRank() == 2 && b.getRank() == 2;
    const bool isByRows = !product.getTransposeA() && b.getRank() == 2;
    if (isSum) {
      isRowWise = rows.dimensionsOf(a) == 1;
      rule.results = RowResults::Sums;
      readRows(0);
      return readRows(1);
    }
    if (!isByRows || (rows.areOfMatrix && !isAlongColumns(product.getA(), a.getRank() - 1)))
      return;
    giveRows();
    readRows(0);
    rule.across = {product.getA(), product.getY()};
  }

  void ofLoss() {
    giveRows();
    // Class weights come behind those that have rows.
    for (unsigned operand = 0; operand < (isa<CrossEntropyRowsGradOp>(op) ? 4 : 2); ++operand)
      readRows(operand);
    for (Value value : {op->getOperand(0), Value(op->getResult(0))})
      isRowWise &= rows.dimensionsOf(tensorType(value)) == 1;
    for (const RowRule::Read &read : rule.rows)
      if (isa<FloatType>(getElementTypeOrSelf(op->getOperand(read.operand))))
        rule.through.push_back(op->getOperand(read.operand));
    llvm::append_range(rule.through, op->getResults());
  }

  bool countsElements() const { return isa<DropoutTrainingOp, DrawOp>(op); }

  /// Elementwise ops on images; none whose elements are numbered: chunks would count them anew.
  void ofImages() {
    if (countsElements())
      return;
    giveRows();
    RankedTensorType type = tensorType(op->getResult(0));
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      RankedTensorType read = tensorType(operand);
      if (read.getShape() == type.getShape())
        readRows(number);
      else
        isRowWise &= read.getNumElements() == 1 || read.getRank() < type.getRank() ||
                     read.getDimSize(0) == 1;
    }
    isRowWise &= !rule.rows.empty();
    goOnThroughRows();
  }

  void goOnThroughRows() {
    for (const RowRule::Read &read : rule.rows)
      rule.through.push_back(op->getOperand(read.operand));
    llvm::append_range(rule.through, op->getResults());
  }

  /// Elementwise ops on rows and columns: NumPy's rule, by which an operand may have one number a row, be the same for all rows, or
  /// for some of them.
  void ofMatrices() {
    if (countsElements() || isa<PlaneNormalizeOp>(op)) // whose planes have rank 3 and more
      return;
    giveRows();
    if (!isRowWise)
      return;
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    const size_t split = *rows.dimensionsOf(tensorType(op->getResult(0)));
    auto areOnes = [](ArrayRef<int64_t> extents) {
      return llvm::all_of(extents, [](int64_t extent) { return extent == 1; });
    };
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      SmallVector<int64_t> padded(shape.size() - tensorType(operand).getRank(), 1);
      llvm::append_range(padded, shapeOf(operand));
      ArrayRef<int64_t> leading = ArrayRef(padded).take_front(split),
                        columns = ArrayRef(padded).drop_front(split);
      isRowWise &= areOnes(columns) || columns == shape.drop_front(split);
      if (leading == shape.take_front(split)) {
        rule.rows.push_back({static_cast<unsigned>(number), padded});
      } else if (areOnes(leading)) {
        if (tensorType(operand).getRank() > 1)
          rule.alike.push_back(
              {static_cast<unsigned>(number), {tensorType(operand).getNumElements()}});
      } else {
        isRowWise &= areOnes(columns);
        llvm::copy(shape.take_front(split), padded.begin());
        rule.repeated.push_back({static_cast<unsigned>(number), padded});
      }
    }
    goOnThroughRows();
  }

  void inChunks(StringRef name, Attribute value) {
    rule.attributes.push_back(builder.getNamedAttr(name, value));
  }

  /// True where the dimensions of `x` are rows, some perhaps of 1, and then one of columns, number `axis`.
  bool isAlongColumns(Value x, int64_t axis) const {
    RankedTensorType type = tensorType(x);
    return axis == type.getRank() - 1 && rows.areOf(x) && rows.widthOf(x) == type.getShape().back();
  }

  /// Ops along the columns of each row, and sums over rows.
  void ofColumns() {
    if (isa<SoftmaxOp, LogSoftmaxOp, SoftmaxGradOp, LogSoftmaxGradOp, TopKOp>(op)) {
      const int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
      giveRows();
      isRowWise &= isAlongColumns(op->getOperand(0), axis);
      for (unsigned operand = 0; operand < op->getNumOperands(); ++operand)
        readRows(operand);
      inChunks("axis", builder.getI64IntegerAttr(1));
      goOnThroughRows();
    } else if (isa<TakeAlongOp, ScatterAlongOp>(op)) {
      ofIndices();
    } else if (op->hasTrait<Reduces>()) {
      ofReduction();
    }
  }

  /// Columns read or added to by index: an index of each row's own, or the same of all.
  void ofIndices() {
    giveRows();
    const int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
    isRowWise &= isAlongColumns(op->getOperand(0), axis);
    if (!isRowWise)
      return;
    readRows(0);
    RankedTensorType indices = tensorType(op->getOperand(1));
    const int64_t columns = indices.getShape().back();
    if (indices.getShape().drop_back() == shapeOf(op->getOperand(0)).drop_back())
      readRows(1);
    else if (indices.getNumElements() == columns)
      rule.alike.push_back({1, {1, columns}});
    else
      isRowWise = false;
    inChunks("axis", builder.getI64IntegerAttr(1));
    rule.through = {op->getOperand(0), op->getResult(0)};
  }

  void ofReduction() {
    Value x = op->getOperand(0);
    ArrayRef<int64_t> axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
    const int64_t last = tensorType(x).getRank() - 1;
    if (axes.empty() || last < 1 || !isAlongColumns(x, last))
      return;
    isRowWise = true;
    readRows(0);
    if (axes.back() != last) { // over rows alone
      isRowWise = isa<ReduceSumOp>(op) && !cast<ReduceSumOp>(op).getKeepdims() &&
                  llvm::equal(axes, llvm::seq<int64_t>(0, last));
      rule.results = RowResults::Sums;
      return inChunks("axes", builder.getDenseI64ArrayAttr({0}));
    }
    rule.rowAxes.assign(axes.begin(), axes.end() - 1);
    inChunks("axes", builder.getDenseI64ArrayAttr({1}));
    rule.through = {x};
    if (rule.rowAxes.empty()) {
      isRowWise = rows.areOf(op->getResult(0));
      rule.through.push_back(op->getResult(0));
    } else {
      rule.results = RowResults::Reduced;
    }
    inChunks("keepdims", builder.getBoolAttr(rule.rowAxes.empty() &&
                                             tensorType(op->getResult(0)).getRank() > 1));
  }

  /// Convolutions, pooling and sums over images, whose rows are images.
  void ofWindows() {
    if (auto sum = dyn_cast<ReduceSumOp>(op)) {
      isRowWise = !sum.getKeepdims() && !sum.getAxes().empty() && sum.getAxes().front() == 0;
      rule.results = RowResults::Sums;
      return readRows(0);
    }
    if (isa<Conv2dGradWeightOp>(op)) {
      isRowWise = true;
      rule.results = RowResults::Sums;
      readRows(0);
      return readRows(1);
    }
    if (!isa<Conv2dOp, Conv2dGradInputOp, MaxPoolTrainingOp, MaxPoolGradOp, AvgPoolOp,
             AvgPoolGradOp>(op))
      return;
    giveRows();
    readRows(0);
    if (isa<MaxPoolGradOp>(op))
      readRows(1);
    rule.across = {op->getOperand(0), op->getResult(0)};
  }

  Operation *op;
  const ChainRows &rows;
  Builder builder;
  RowRule rule;
  bool isRowWise = false;
};

} // namespace

std::optional<RowRule> rowRuleOf(Operation *op, const ChainRows &rows) {
  return RuleMaker(op, rows).make();
}

} // namespace stow
