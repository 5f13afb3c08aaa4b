// Joins the training graph's output and a target in a loss. Cross-entropy is split into a row
// kernel and a mean, so that each row saves one number (its log-sum-exp) and the gradient may
// overwrite the logits. O(ops).
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/LossFormulas.h"
#include "passes/autodiff/Passes.h"
#include "passes/autodiff/SpecOptions.h"

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
  auto listNames = [&](InFlightDiagnostic &error) {
    llvm::interleaveComma(outputs, error,
                          [&](const GraphResult *r) { error << '"' << r->get(kNameAttr) << '"'; });
  };
  if (!name.empty()) {
    for (const GraphResult *output : outputs)
      if (output->get(kNameAttr) == name)
        return output->value;
    InFlightDiagnostic error = train.emitError() << "the model has no float output called \""
                                                 << name << "\"; there are ";
    if (outputs.empty())
      return error << "none";
    listNames(error);
    return error;
  }
  if (outputs.size() == 1)
    return outputs.front()->value;
  InFlightDiagnostic error = train.emitError();
  if (outputs.empty())
    return error << "the model has no float output a loss could read";
  error << "the model has " << outputs.size() << " float outputs (";
  listNames(error);
  return error << "); choose one with --loss-output=NAME";
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

Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The op behind `output` if it normalizes over dimension `axis`.
template <typename Op> Op finalOp(Value output, int64_t axis) {
  auto op = skipUnitReshapes(output).getDefiningOp<Op>();
  return op && static_cast<int64_t>(op.getAxis()) == axis ? op : Op();
}

void remarkLeftOut(Operation *op, StringRef loss) {
  op->emitRemark() << op->getName().stripDialect() << " before " << loss
                   << " is left out of the training graph: the loss applies it";
}

/// Samples per step: dimension 0 of the data. Absent without data or when inputs disagree.
std::optional<int64_t> batchOf(func::FuncOp train) {
  std::optional<int64_t> batch;
  for (BlockArgument argument : train.getArguments()) {
    auto type = tensorType(argument);
    if (kindOfArgument(train, argument.getArgNumber()) != ArgumentKind::Input)
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
    spec = loss.getValue();
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train)
      return signalPassFailure();
    SmallVector<GraphResult> results = resultsOf(train);
    auto scores =
        selectOutput(train, results, spec.kind == LossSpec::Kind::Output ? spec.output : output);
    if (failed(scores))
      return signalPassFailure();
    OpBuilder builder(train.front().getTerminator());
    Formula f(builder, scores->getLoc());
    Value value = buildLoss(f, train, *scores);
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

  Value buildLoss(Formula &f, func::FuncOp train, Value scores) {
    switch (spec.kind) {
    case LossSpec::Kind::Output:
      return ownLoss(f, train, scores);
    case LossSpec::Kind::CrossEntropy:
    case LossSpec::Kind::NegativeLogLikelihood:
      return classLoss(f, train, scores);
    default:
      return elementLoss(f, train, scores);
    }
  }

  /// The model's own loss.
  Value ownLoss(Formula &f, func::FuncOp train, Value value) {
    if (tensorType(value).getNumElements() == 1)
      return f.reshape(value, {});
    if (spec.hasReduction)
      return reduceLoss(f, spec.reduction, value);
    train.emitError() << "output \"" << spec.output << "\" is " << withoutLayout(tensorType(value))
                      << ", a loss is one number; add reduction=mean or reduction=sum";
    return {};
  }

  /// Leaves out what ends the model and the loss applies anyway.
  Value withoutActivation(Formula &f, Value scores, int64_t axis) {
    auto logSoftmax = finalOp<LogSoftmaxOp>(scores, axis);
    if (spec.kind == LossSpec::Kind::NegativeLogLikelihood) {
      if (!logSoftmax)
        return scores;
      // The likelihood of a log_softmax is the cross-entropy of its operand, in less memory.
      spec.kind = LossSpec::Kind::CrossEntropy;
      return logSoftmax.getX();
    }
    // Log_softmax of log_softmax is log_softmax; softmax would be applied twice, which is never
    // meant.
    if (logSoftmax) {
      remarkLeftOut(logSoftmax, "cross-entropy");
      return logSoftmax.getX();
    }
    if (auto softmax = finalOp<SoftmaxOp>(scores, axis)) {
      remarkLeftOut(softmax, "cross-entropy");
      noteActivation("softmax");
      return softmax.getX();
    }
    return scores;
  }

  /// Evaluation reads the model's output, which has been through this.
  void noteActivation(StringRef name) {
    getOperation()->setAttr(kOutputActivationAttr, StringAttr::get(&getContext(), name));
  }

  /// The weights as they enter formulas: null without any, a constant for one number (where
  /// `mayBeOne` allows that), else an argument with `count` numbers.
  FailureOr<Value> weightValue(Formula &f, func::FuncOp train, ArrayRef<double> numbers,
                               StringRef name, Value like, int64_t count, bool mayBeOne) {
    if (numbers.empty())
      return Value();
    if (numbers.size() == 1 && mayBeOne)
      return f.scalar(numbers[0], like);
    if (static_cast<int64_t>(numbers.size()) != count)
      return train.emitError() << "loss " << nameOf(spec.kind) << " has " << numbers.size() << " "
                               << name << " numbers for an output "
                               << withoutLayout(tensorType(like)) << " with " << count
                               << (mayBeOne ? " in its last dimension" : " classes");
    auto element = cast<FloatType>(tensorType(like).getElementType());
    SmallVector<Attribute> values;
    for (double number : numbers)
      values.push_back(f.builder.getFloatAttr(element, number));
    auto type = RankedTensorType::get({count}, element);
    ArgumentNames names(getOperation());
    BlockArgument argument =
        addOwnArgument(train, names, type, ("loss." + name).str(), ArgumentKind::Statistic,
                       DenseElementsAttr::get(type, values), train.getLoc());
    train.setArgAttr(argument.getArgNumber(), kUnsavedAttr, f.builder.getUnitAttr());
    return Value(argument);
  }

  Value classLoss(Formula &f, func::FuncOp train, Value scores) {
    int64_t rank = tensorType(scores).getRank();
    int64_t axis = spec.classAxis < 0 ? spec.classAxis + rank : spec.classAxis;
    if (rank < 2 || axis < 1 || axis >= rank) {
      InFlightDiagnostic error = train.emitError();
      error << nameOf(spec.kind)
            << " expects an output [N,C] or [N,C,d...] with the classes along dimension "
            << spec.classAxis << ", found " << tensorType(scores);
      error << (rank == 0 ? "; --loss=output:NAME minimizes a number that the model computes itself"
                          : "; class-axis names another dimension");
      return {};
    }
    scores = withoutActivation(f, scores, axis);
    auto type = tensorType(scores);
    if (rank == 3 && spec.classAxis == 1)
      emitRemark(scores.getLoc()) << nameOf(spec.kind) << " reads dimension 1 of "
                                  << withoutLayout(type)
                                  << " as the classes, as PyTorch does; class-axis=-1 names the "
                                     "last dimension, where language models have them";
    auto weights = weightValue(f, train, spec.weight, "weight", scores, type.getDimSize(axis),
                               /*mayBeOne=*/false);
    if (failed(weights))
      return {};
    if (type.getDimSize(axis) == 1)
      train.emitWarning() << nameOf(spec.kind) << " over one class, of an output "
                          << withoutLayout(type)
                          << ", is 0 whatever the model computes: nothing is learned; "
                             "bce-with-logits and mse are losses of single numbers";
    int64_t rows = type.getNumElements() / type.getDimSize(axis);
    if (spec.probabilities) {
      Value target = addKnownArgument(train, withoutLayout(type), "target", ArgumentKind::Target,
                                      {}, train.getLoc());
      if (!target)
        return {};
      Value losses = distributionLosses(f, spec, classRows(f, scores, axis),
                                        classRows(f, target, axis), *weights);
      return reduceLoss(f, spec.reduction, losses);
    }
    SmallVector<int64_t> targetShape(type.getShape());
    targetShape.erase(targetShape.begin() + axis);
    if (rows == type.getDimSize(0))
      targetShape.truncate(1);
    // Rows of all samples in one dimension, [N*d,C]: each sample brings its own.
    std::optional<int64_t> batch = batchOf(train);
    if (targetShape.size() == 1 && batch && rows != *batch && rows % *batch == 0)
      targetShape = {*batch, rows / *batch};
    Value target =
        addKnownArgument(train, RankedTensorType::get(targetShape, f.builder.getI64Type()),
                         "target", ArgumentKind::Target, {}, train.getLoc());
    if (!target)
      return {};
    target = f.reshape(target, {rows});
    Value losses = classLosses(f, spec, classRows(f, scores, axis), target, *weights);
    return reduceClassLosses(f, spec, losses, target, *weights);
  }

  Value elementLoss(Formula &f, func::FuncOp train, Value output) {
    if (spec.kind == LossSpec::Kind::BinaryCrossEntropy)
      if (auto sigmoid = skipReshapes(output).getDefiningOp<SigmoidOp>()) {
        remarkLeftOut(sigmoid, "bce-with-logits");
        noteActivation("sigmoid");
        output = f.reshape(sigmoid.getX(), tensorType(output).getShape());
      }
    auto type = withoutLayout(tensorType(output));
    Value target =
        addKnownArgument(train, type, "target", ArgumentKind::Target, {}, train.getLoc());
    if (!target)
      return {};
    int64_t last = type.getRank() == 0 ? 1 : type.getShape().back();
    auto weights = weightValue(f, train, spec.weight, "weight", output, last, /*mayBeOne=*/true);
    if (failed(weights))
      return {};
    auto positive = weightValue(f, train, spec.positiveWeight, "pos-weight", output, last,
                                /*mayBeOne=*/true);
    if (failed(positive))
      return {};
    return reduceLoss(f, spec.reduction,
                      elementLosses(f, spec, output, target, {*weights, *positive}));
  }

  LossSpec spec; ///< what is left of the option after the model's own activation
};

} // namespace
} // namespace stow
