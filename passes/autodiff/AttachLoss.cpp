// Joins the training graph's output and a target in a loss. Cross-entropy is split into a row
// kernel and a mean, so that each row saves one number (its log-sum-exp) and the gradient may
// overwrite the logits. O(ops).
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_ATTACHLOSSPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

/// The result the loss reads: `name`, or the only float output. Emits an error otherwise.
FailureOr<Value> selectOutput(func::FuncOp train, ArrayRef<GraphResult> results, StringRef name) {
  SmallVector<const GraphResult *> outputs;
  for (const GraphResult &result : results)
    if (result.get(kStateAttr).empty() && isa<FloatType>(getElementTypeOrSelf(result.value)))
      outputs.push_back(&result);
  if (!name.empty()) {
    llvm::erase_if(outputs, [&](const GraphResult *r) { return r->get(kNameAttr) != name; });
    if (outputs.size() == 1)
      return outputs.front()->value;
    return train.emitError() << "has no float output called \"" << name << "\"";
  }
  if (outputs.size() == 1)
    return outputs.front()->value;
  InFlightDiagnostic error = train.emitError();
  if (outputs.empty())
    return error << "has no float output a loss could read";
  error << "has " << outputs.size() << " float outputs (";
  llvm::interleaveComma(outputs, error,
                        [&](const GraphResult *r) { error << '"' << r->get(kNameAttr) << '"'; });
  return error << "); choose one with the option output";
}

/// Looks through reshapes that only add or drop extents of 1 behind [N,C].
Value skipUnitReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    ArrayRef<int64_t> x = tensorType(reshape.getX()).getShape(), y = tensorType(value).getShape();
    if (x.size() < 2 || y.size() < 2 || x.take_front(2) != y.take_front(2) ||
        x[0] * x[1] != tensorType(value).getNumElements())
      break;
    value = reshape.getX();
  }
  return value;
}

/// Takes a softmax or log_softmax over the classes (dimension `axis`) off the end: cross-entropy
/// applies it itself, and log_softmax of log_softmax is log_softmax. (Softmax before cross-entropy
/// would be applied twice, which is never meant.)
Value withoutFinalSoftmax(Value output, int64_t axis) {
  Operation *op = skipUnitReshapes(output).getDefiningOp();
  auto overClasses = [&](auto normalized) {
    return static_cast<int64_t>(normalized.getAxis()) == axis;
  };
  if (auto softmax = dyn_cast_or_null<SoftmaxOp>(op); softmax && overClasses(softmax)) {
    op->emitRemark("softmax before cross-entropy is left out of the training graph: the loss "
                   "applies it");
    return softmax.getX();
  }
  if (auto logSoftmax = dyn_cast_or_null<LogSoftmaxOp>(op); logSoftmax && overClasses(logSoftmax)) {
    op->emitRemark("log_softmax before cross-entropy is left out of the training graph: the loss "
                   "applies it");
    return logSoftmax.getX();
  }
  return output;
}

/// Rows of class scores: a tensor whose dimension `axis` counts the classes as [rows,C].
Value classRows(Formula &f, Value output, int64_t axis) {
  ArrayRef<int64_t> shape = tensorType(output).getShape();
  int64_t classes = shape[axis], rows = tensorType(output).getNumElements() / classes;
  auto rank = static_cast<int64_t>(shape.size());
  bool movesNothing = llvm::all_of(shape.drop_front(axis + 1), [](int64_t n) { return n == 1; });
  if (!movesNothing) {
    SmallVector<int64_t> permutation;
    for (int64_t dim = 0; dim < rank; ++dim)
      if (dim != axis)
        permutation.push_back(dim);
    permutation.push_back(axis);
    output = f.build<TransposeOp>(output, permutation).getY();
  }
  return f.reshape(output, {rows, classes});
}

/// Samples per step: dimension 0 of the data. Absent without data or when inputs disagree.
std::optional<int64_t> batchOf(func::FuncOp train) {
  std::optional<int64_t> batch;
  for (BlockArgument argument : train.getArguments()) {
    auto type = tensorType(argument);
    if (argumentAttr(train, argument.getArgNumber(), kKindAttr) != "input")
      continue;
    if (type.getRank() == 0 || (batch && *batch != type.getDimSize(0)))
      return std::nullopt;
    batch = type.getDimSize(0);
  }
  return batch;
}

//===--------------------------------------------------------------------------------------------===//
// --stow-attach-loss
//===--------------------------------------------------------------------------------------------===//

struct AttachLoss : impl::AttachLossPassBase<AttachLoss> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    auto train = findGraph(getOperation(), "train", "run stow-split-train-eval first");
    if (!train)
      return signalPassFailure();
    SmallVector<GraphResult> results = resultsOf(train);
    auto scores = selectOutput(train, results, output);
    if (failed(scores))
      return signalPassFailure();
    OpBuilder builder(train.front().getTerminator());
    Formula f(builder, scores->getLoc());
    Value value = loss == "mse" ? squaredError(f, train, *scores) : crossEntropy(f, train, *scores);
    if (!value)
      return signalPassFailure();
    SmallVector<GraphResult> kept = {
        {value, stringAttributes(train.getContext(), {{kNameAttr, "loss"}})}};
    for (const GraphResult &result : results)
      if (!result.get(kStateAttr).empty())
        kept.push_back(result);
    setResults(train, kept);
    eraseDeadOps(train);
  }

  LogicalResult checkOptions() {
    if (loss != "cross-entropy" && loss != "mse")
      return getOperation().emitError()
             << "unknown loss \"" << loss.getValue() << "\"; expected cross-entropy or mse";
    if (reduction != "mean" && reduction != "sum")
      return getOperation().emitError()
             << "unknown reduction \"" << reduction.getValue() << "\"; expected mean or sum";
    return success();
  }

  Value crossEntropy(Formula &f, func::FuncOp train, Value scores) {
    int64_t rank = tensorType(scores).getRank();
    int64_t axis = classAxis < 0 ? classAxis + rank : classAxis;
    if (rank < 2 || axis < 1 || axis >= rank) {
      train.emitError() << "cross-entropy expects an output [N,C] or [N,C,d...] with the classes "
                           "along dimension "
                        << classAxis.getValue() << ", found " << tensorType(scores)
                        << "; class-axis names another dimension";
      return {};
    }
    scores = withoutFinalSoftmax(scores, axis);
    auto type = tensorType(scores);
    SmallVector<int64_t> targetShape(type.getShape());
    targetShape.erase(targetShape.begin() + axis);
    int64_t rows = type.getNumElements() / type.getDimSize(axis);
    if (rows == type.getDimSize(0))
      targetShape.truncate(1);
    // Rows of all samples in one dimension, [N*d,C]: each sample brings its own.
    std::optional<int64_t> batch = batchOf(train);
    if (targetShape.size() == 1 && batch && rows != *batch && rows % *batch == 0)
      targetShape = {*batch, rows / *batch};
    Value target = addArgument(train, RankedTensorType::get(targetShape, f.builder.getI64Type()),
                               "target", "target", {}, train.getLoc());
    if (!target)
      return {};
    target = f.reshape(target, {rows});
    auto losses = f.build<CrossEntropyRowsOp>(classRows(f, scores, axis), target, ignoreIndex);
    Value sum = f.sum(losses.getRowLoss(), {0});
    if (reduction == "sum")
      return sum;
    return f.div(sum, f.build<CountValidOp>(target, ignoreIndex, type.getElementType()).getCount());
  }

  Value squaredError(Formula &f, func::FuncOp train, Value prediction) {
    auto type = withoutLayout(tensorType(prediction));
    Value target = addArgument(train, type, "target", "target", {}, train.getLoc());
    if (!target)
      return {};
    Value difference = f.sub(prediction, target);
    Value square = f.mul(difference, difference);
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (axes.empty())
      return square;
    if (reduction == "sum")
      return f.sum(square, axes);
    return f.build<ReduceMeanOp>(square, axes, /*keepdims=*/false).getY();
  }
};

} // namespace
} // namespace stow
