// Losses inside the model: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.
#include "compiler/import/GraphImport.h"
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

void convertLoss(NodeImport &node, LossSpec::Kind kind) {
  LossSpec spec = readSpec(node, kind);
  Value scores = node.value(0), labels = node.value(1);
  Value weight = node.has(2) ? node.value(2) : Value();
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
}

} // namespace stow::onnx
