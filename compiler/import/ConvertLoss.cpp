// Losses inside the model: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.
#include "compiler/import/GraphImport.h"
#include "ir/StowReduceOps.h"
#include "passes/autodiff/LossFormulas.h"

#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

/// What the node asks for.
LossSpec readSpec(const NodeImport &node, LossSpec::Kind kind) {
  LossSpec spec;
  spec.kind = kind;
  // Without the attribute no class is ignored.
  spec.ignoreIndex = node.integer("ignore_index", std::numeric_limits<int64_t>::min());
  std::string reduction = node.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    throw Error::badInput("attribute 'reduction' is \"" + reduction +
                          "\"; expected mean, sum or none");
  spec.hasReduction = reduction != "none";
  spec.reduction = reduction == "mean" ? LossSpec::Reduction::Mean : LossSpec::Reduction::Sum;
  return spec;
}

/// The share of label smoothing, which ONNX has no place for; the default exporter of PyTorch writes
/// the operation that the node comes from.
double labelSmoothingOf(const NodeImport &node) {
  const std::string &operation = node.node().fxNode;
  if (operationOf(operation) != "cross_entropy_loss.default")
    return 0;
  double share = 0;
  const std::string text = argumentOf(operation, 5);
  if (!text.empty() && StringRef(text).getAsDouble(share))
    throw Error::badInput("was made with label smoothing '" + text +
                          "', which is no constant number");
  return share;
}

/// Checks scores [N,C,d...], labels [N,d...] and weights [C]; returns the labels' shape.
Shape checkOperands(Value scores, Value labels, Value weight) {
  Shape shape = shapeOf(scores), expected = shape;
  auto element = cast<RankedTensorType>(scores.getType()).getElementType();
  if (shape.size() < 2 || !isa<FloatType>(element))
    throw Error::badInput("expects scores [N,C] or [N,C,d...] of real numbers");
  expected.erase(expected.begin() + 1);
  auto integer = dyn_cast<IntegerType>(cast<RankedTensorType>(labels.getType()).getElementType());
  if (shapeOf(labels) != expected || !integer || integer.getWidth() < 32)
    throw Error::badInput("its labels do not fit its scores: expected a whole number per score "
                          "without the dimension of the classes");
  if (weight && (shapeOf(weight) != Shape{shape[1]} ||
                 cast<RankedTensorType>(weight.getType()).getElementType() != element))
    throw Error::badInput("its weights do not fit its scores: expected one per class");
  return expected;
}

/// Probabilities of the classes [N,C,d...] in place of labels, as PyTorch exports its cross-entropy of
/// them. A mean is over the samples, whatever the classes' weights are.
void convertDistributions(NodeImport &node, const LossSpec &spec, Value scores, Value target,
                          Value weight) {
  Shape shape = shapeOf(scores);
  if (shape.size() < 2)
    throw Error::badInput("expects scores [N,C] or [N,C,d...] of real numbers");
  if (weight) {
    Shape column(shape.size() - 1, 1);
    column[0] = shape[1];
    if (elementCount(shapeOf(weight)) != shape[1])
      throw Error::badInput("its weights do not fit its scores: expected one per class");
    weight = node.reshape(weight, column);
  }
  Formula f(node.builder(), node.place());
  Value losses = distributionLosses(f, spec, scores, target, weight);
  node.bind(0, spec.hasReduction ? reduceLoss(f, spec.reduction, losses) : losses);
}

void convertLoss(NodeImport &node, LossSpec::Kind kind) {
  LossSpec spec = readSpec(node, kind);
  Value scores = node.value(0), labels = node.value(1);
  Value weight = node.has(2) ? node.value(2) : Value();
  spec.labelSmoothing = labelSmoothingOf(node);
  if (kind == LossSpec::Kind::CrossEntropy && isa<FloatType>(elementOf(labels)) &&
      shapeOf(labels) == shapeOf(scores))
    return convertDistributions(node, spec, scores, labels, weight);
  Shape shape = checkOperands(scores, labels, weight);
  Formula f(node.builder(), node.place());
  Value target = f.reshape(labels, {elementCount(shape)});
  Value losses = classLosses(f, spec, classRows(f, scores, /*axis=*/1), target, weight);
  node.bind(0, spec.hasReduction ? reduceClassLosses(f, spec, losses, target, weight)
                                 : f.reshape(losses, shape));
  if (kind == LossSpec::Kind::CrossEntropy && node.isRead(1))
    node.bind(1, f.build<LogSoftmaxOp>(scores, /*axis=*/1).getY());
}

void convertCrossEntropy(NodeImport &node) { convertLoss(node, LossSpec::Kind::CrossEntropy); }

void convertLikelihood(NodeImport &node) {
  convertLoss(node, LossSpec::Kind::NegativeLogLikelihood);
}

} // namespace

void addLossRules(RuleTable &table) {
  table["SoftmaxCrossEntropyLoss"] = {convertCrossEntropy, 2, 3};
  table["NegativeLogLikelihoodLoss"] = {convertLikelihood, 2, 3};
  // Weights of classes are settings.
  takeWeights(table, {OpWeights::Kind::Data, [](UseSite &site) { site.use(2, Use::Setting); }},
              {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"});
}

} // namespace stow::onnx
