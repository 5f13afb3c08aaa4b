// Random numbers in the data's path. Every node gets a stream of its own; the seed attribute of the
// file is left aside, as the run's --seed decides.
#include "compiler/import/GraphImport.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_format.h>

using namespace mlir;

namespace stow::onnx {
namespace {

/// `x` as the type that attribute dtype names; without it, as `fallback`.
Value typed(NodeImport &node, Value x, ElementType fallback) {
  auto type = static_cast<ElementType>(node.integer("dtype", static_cast<int64_t>(fallback)));
  return node.cast(x, node.typeOf(type, {1}).getElementType());
}

/// A float type that the random numbers of element type `type` are drawn in.
RankedTensorType drawnType(NodeImport &node, ElementType type, const Shape &shape) {
  return node.typeOf(isFloat(type) ? type : ElementType::Float, shape);
}

Value drawn(NodeImport &node, ElementType type, const Shape &shape) {
  bool isNormal = node.node().type.rfind("RandomNormal", 0) == 0;
  double a = isNormal ? node.number("mean", 0) : node.number("low", 0);
  double b = isNormal ? node.number("scale", 1) : node.number("high", 1);
  return node.random(isNormal ? "normal" : "uniform", a, b, drawnType(node, type, shape));
}

/// RandomNormal and RandomUniform; at a weight position they were bound as parameters.
void convertRandom(NodeImport &node) {
  auto shape = node.integers("shape");
  if (!shape)
    throw Error::badInput("lacks attribute 'shape'");
  auto type = static_cast<ElementType>(node.integer("dtype", 1));
  node.bind(0, typed(node, drawn(node, type, node.drawnShape(*shape)), type));
}

/// The shape of input 0, for random numbers of that shape.
Shape shapeLike(NodeImport &node) {
  return node.isFromData(0) ? node.shape(0) : node.drawnShape(node.shape(0));
}

void convertRandomLike(NodeImport &node) {
  auto type =
      static_cast<ElementType>(node.integer("dtype", static_cast<int64_t>(node.elementType(0))));
  if (!isFloat(type)) // PyTorch's exporter leaves the type out where the data is float
    type = ElementType::Float;
  node.bind(0, typed(node, drawn(node, type, shapeLike(node)), type));
}

/// The value of a splat constant, or none.
std::optional<double> splatOf(Value value) {
  while (auto repeat = value.getDefiningOp<BroadcastToOp>())
    value = repeat.getX();
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat() || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APFloat>().convertToDouble();
}

/// 1 with the probability that the input says. One probability for all is a distribution of its
/// own, which evaluation replaces by its mean.
void convertBernoulli(NodeImport &node) {
  ElementType given = node.elementType(0);
  if (!isFloat(given))
    throw Error::badInput("takes probabilities of type " + nameOf(given));
  Value p = node.value(0);
  auto type = cast<RankedTensorType>(p.getType());
  if (std::optional<double> same = splatOf(p)) {
    if (!(*same >= 0 && *same <= 1))
      throw Error::badInput(absl::StrFormat("probability %f lies outside [0, 1]", *same));
    double exact = elementOf(p).isF32() ? decimal(float(*same)) : *same;
    auto drawn = type.clone(shapeLike(node));
    return node.bind(0, typed(node, node.random("bernoulli", exact, 0, drawn), given));
  }
  Value mask = node.compare(node.random("uniform", 0, 1, type), p, "lt");
  node.bind(0, typed(node, mask, given));
}

} // namespace

void addRandomRules(RuleTable &table) {
  table["RandomNormal"] = {convertRandom, 0, 0};
  table["RandomUniform"] = {convertRandom, 0, 0};
  table["RandomNormalLike"] = {convertRandomLike, 1, 1};
  table["RandomUniformLike"] = {convertRandomLike, 1, 1};
  table["Bernoulli"] = {convertBernoulli, 1, 1};
  takeWeights(table, {OpWeights::Kind::Settings},
              {"RandomNormalLike", "RandomUniformLike", "Bernoulli"});
}

} // namespace stow::onnx
