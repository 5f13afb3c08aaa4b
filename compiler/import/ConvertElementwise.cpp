// Elementwise operators, several of them by their formula.
#include "compiler/import/Decompositions.h"
#include "ir/StowElementwiseOps.h"

#include <limits>

using namespace mlir;

namespace stow::onnx {
namespace {

template <typename Op> void convertUnary(NodeImport &node) {
  node.bind(0, node.emit<Op>(node.value(0)));
}

/// Operands of a binary op; a bias learns the fan in of the product it is added to.
std::pair<Value, Value> operandsOf(NodeImport &node) {
  Value a = node.value(0, fanInOfProduct(node.slot(1).value));
  return {a, node.value(1, fanInOfProduct(a))};
}

template <typename Op> void convertBinary(NodeImport &node) {
  auto [a, b] = operandsOf(node);
  node.bind(0, node.emit<Op>({a, b}));
}

void convertSub(NodeImport &node) {
  auto [a, b] = operandsOf(node);
  node.bind(0, differenceOf(node, a, b));
}

void convertLog(NodeImport &node) { node.bind(0, logarithmOf(node, node.value(0))); }

void convertSqrt(NodeImport &node) { node.bind(0, rootOf(node, node.value(0))); }

template <typename Op> Value accumulated(NodeImport &node) {
  Value y = node.value(0);
  for (size_t i = 1; i < node.inputCount(); ++i)
    y = node.emit<Op>({y, node.value(i)});
  return y;
}

/// Sum, Max, Min of any number of tensors; of one it is the tensor itself.
template <typename Op> void convertVariadic(NodeImport &node) {
  if (node.inputCount() == 1)
    return node.bindSlot(0, 0);
  node.bind(0, accumulated<Op>(node));
}

void convertMean(NodeImport &node) {
  Value sum = accumulated<AddOp>(node);
  node.bind(0, node.emit<MulOp>({sum, node.scalar(1.0 / double(node.inputCount()), sum)}));
}

/// Powers of integers, in double, which holds them exactly up to 2^53.
void convertWholePow(NodeImport &node, Value x) {
  Type wide = node.builder().getF64Type(), element = elementOf(x);
  Value power = node.emit<PowOp>({node.cast(x, wide), node.cast(node.value(1), wide)});
  node.bind(0, node.cast(power, element));
}

/// Whole and half powers have simpler gradients than the general one.
void convertPow(NodeImport &node) {
  Value x = node.value(0);
  if (!isa<FloatType>(elementOf(x)))
    return convertWholePow(node, x);
  const Literal *exponent = node.literal(1);
  double power = exponent && exponent->size() == 1 ? exponent->number(0) : 0;
  bool keepsShape = exponent && exponent->shape.size() <= shapeOf(x).size();
  if (keepsShape && power == 1)
    return node.bindSlot(0, 0);
  if (keepsShape && power == 2)
    return node.bind(0, node.emit<MulOp>({x, x}));
  if (keepsShape && power == 3)
    return node.bind(0, node.emit<MulOp>({node.emit<MulOp>({x, x}), x}));
  if (keepsShape && power == 0.5)
    return node.bind(0, node.emit<SqrtOp>(x));
  if (keepsShape && power == -1)
    return node.bind(0, node.emit<ReciprocalOp>(x));
  if (keepsShape && exponent->size() == 1)
    return node.bind(0, node.emit<PowOp>({x, node.scalar(power, x)}));
  // Exponents of another type, whole ones among them, are numbers of the data's type.
  Value other = exponent && !exponent->isFloat() ? node.tensor(*exponent, x)
                                                 : node.cast(node.value(1), elementOf(x));
  node.bind(0, node.emit<PowOp>({x, other}));
}

void convertLeakyRelu(NodeImport &node) {
  node.bind(0, node.emit<LeakyReluOp>(node.value(0), [&](LeakyReluOp::Properties &p) {
    p.alpha = node.f64(node.number("alpha", 0.01));
  }));
}

Value elu(NodeImport &node, Value x, double alpha) {
  return node.emit<EluOp>(x, [&](EluOp::Properties &p) { p.alpha = node.f64(alpha); });
}

void convertThresholdedRelu(NodeImport &node) {
  node.bind(0, node.emit<ThresholdedReluOp>(node.value(0), [&](ThresholdedReluOp::Properties &p) {
    p.alpha = node.f64(node.number("alpha", 1));
  }));
}

void convertElu(NodeImport &node) {
  node.bind(0, elu(node, node.value(0), node.number("alpha", 1)));
}

/// gamma * elu(x); the constants are those of Klambauer et al. 2017.
void convertSelu(NodeImport &node) {
  Value y = elu(node, node.value(0), node.number("alpha", 1.6732632423543772));
  node.bind(0, node.emit<MulOp>({y, node.scalar(node.number("gamma", 1.0507009873554805), y)}));
}

/// alpha * elu(x / alpha) with elu's own alpha 1.
void convertCelu(NodeImport &node) {
  double alpha = node.number("alpha", 1);
  if (alpha == 0)
    throw Error::badInput("attribute 'alpha' is 0");
  Value x = node.value(0);
  if (alpha == 1)
    return node.bind(0, elu(node, x, 1));
  Value y = elu(node, node.emit<MulOp>({x, node.scalar(1 / alpha, x)}), 1);
  node.bind(0, node.emit<MulOp>({y, node.scalar(alpha, y)}));
}

/// x where it is positive, else slope * x: so at 0, whose gradient is the slope.
void convertPRelu(NodeImport &node) {
  Value x = node.value(0), slope = node.value(1);
  Value isPositive = node.compare(x, node.scalar(0, x), "gt");
  Value y = node.emit<SelectOp>({isPositive, x, node.emit<MulOp>({slope, x})});
  if (shapeOf(y) != shapeOf(x))
    throw Error::badInput("the slope does not broadcast to the data's shape");
  node.bind(0, y);
}

void convertHardSigmoid(NodeImport &node) {
  node.bind(0, node.emit<HardSigmoidOp>(node.value(0), [&](HardSigmoidOp::Properties &p) {
    p.alpha = node.f64(node.number("alpha", 0.2));
    p.beta = node.f64(node.number("beta", 0.5));
  }));
}

/// Integers, and bounds that are computed.
void clipByComparing(NodeImport &node) {
  Value y = node.value(0);
  if (node.has(1))
    y = node.emit<MaximumOp>({y, node.value(1)});
  if (node.has(2))
    y = node.emit<MinimumOp>({y, node.value(2)});
  node.bind(0, y);
}

/// Bounds are attributes before opset 11 and inputs since.
void convertClip(NodeImport &node) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  // The attributes' defaults are the largest floats: no bounds.
  constexpr double largest = 3.4028234e38;
  bool computed = (node.has(1) && !node.literal(1)) || (node.has(2) && !node.literal(2));
  if (computed || !isa<FloatType>(elementOf(node.value(0))))
    return clipByComparing(node);
  auto bound = [&](size_t input, const char *name, double absent) {
    if (!node.has(input))
      return node.number(name, absent);
    const Literal &given = node.constant(input, name);
    if (given.size() != 1)
      throw Error::badInput(std::string("expects one value as ") + name);
    return given.type == ElementType::Float ? decimal(float(given.number(0))) : given.number(0);
  };
  double low = bound(1, "min", -infinity), high = bound(2, "max", infinity);
  if (low <= -largest)
    low = -infinity;
  if (high >= largest)
    high = infinity;
  if (low == -infinity && high == infinity)
    return node.bindSlot(0, 0);
  if (low == 0 && high == infinity)
    return convertUnary<ReluOp>(node);
  node.bind(0, node.emit<ClipOp>(node.value(0), [&](ClipOp::Properties &p) {
    p.low = node.f64(low);
    p.high = node.f64(high);
  }));
}

/// x / 2 * (1 + erf(x / sqrt 2)), or with tanh of a cubic (Hendrycks & Gimpel 2016).
void convertGelu(NodeImport &node) {
  std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    throw Error::badInput("attribute 'approximate' is '" + approximate + "'");
  Value x = node.value(0), inner;
  auto times = [&](Value a, double factor) {
    return Value(node.emit<MulOp>({a, node.scalar(factor, x)}));
  };
  if (approximate == "none") {
    inner = node.emit<ErfOp>(times(x, 0.70710678118654752));
  } else {
    Value cube = node.emit<MulOp>({node.emit<MulOp>({x, x}), x});
    Value sum = node.emit<AddOp>({x, times(cube, 0.044715)});
    inner = node.emit<TanhOp>(times(sum, 0.79788456080286536));
  }
  Value gate = node.emit<AddOp>({inner, node.scalar(1, x)});
  node.bind(0, node.emit<MulOp>({times(x, 0.5), gate}));
}

/// x * sigmoid(alpha x).
void convertSwish(NodeImport &node) {
  Value x = node.value(0);
  double alpha = node.number("alpha", 1);
  Value inner = alpha == 1 ? x : node.emit<MulOp>({x, node.scalar(alpha, x)});
  node.bind(0, node.emit<MulOp>({x, node.emit<SigmoidOp>(inner)}));
}

/// x moved towards zero by `bias` where |x| > lambd, else 0: PyTorch's hardshrink, and softshrink
/// where the two are equal.
void convertShrink(NodeImport &node) {
  Value x = node.value(0), zero = node.scalar(0, x);
  double bias = node.number("bias", 0), limit = node.number("lambd", 0.5);
  Value above = node.compare(x, node.scalar(limit, x), "gt");
  Value below = node.compare(x, node.scalar(-limit, x), "lt");
  auto moved = [&](double by) -> Value {
    return by == 0 ? x : node.emit<AddOp>({x, node.scalar(by, x)});
  };
  Value low = node.emit<SelectOp>({below, moved(bias), zero});
  node.bind(0, node.emit<SelectOp>({above, moved(-bias), low}));
}

/// x * tanh(softplus(x)).
void convertMish(NodeImport &node) {
  Value x = node.value(0);
  node.bind(0, node.emit<MulOp>({x, node.emit<TanhOp>(node.emit<SoftplusOp>(x))}));
}

/// x / (1 + |x|).
void convertSoftsign(NodeImport &node) {
  Value x = node.value(0);
  Value bound = node.emit<AddOp>({node.emit<AbsOp>(x), node.scalar(1, x)});
  node.bind(0, node.emit<DivOp>({x, bound}));
}

/// The Bernoulli number whose mask `x` is (convertCompare of Less), drawn as a number.
RandomOp bernoulliOf(Value x) {
  auto mask = x.getDefiningOp<CompareOp>();
  auto random = mask ? mask.getA().getDefiningOp<RandomOp>() : nullptr;
  bool isMask = random && random.getDistribution() == "bernoulli" && mask.getPredicate() == "ne";
  return isMask ? random : nullptr;
}

void convertTo(NodeImport &node, ElementType to) {
  if (node.elementType(0) == to)
    return node.bindSlot(0, 0);
  Value x = node.value(0);
  RankedTensorType type = node.typeOf(to, shapeOf(x));
  if (RandomOp random = bernoulliOf(x); random && isFloat(to))
    return node.bind(0, node.cast(random.getY(), type.getElementType()));
  node.bind(0, node.emitAs<CastOp>(x, type));
}

void convertCast(NodeImport &node) {
  convertTo(node, static_cast<ElementType>(node.integer("to", 0)));
}

/// Only the type of the second input counts.
void convertCastLike(NodeImport &node) {
  ElementType to = node.elementType(1);
  if (const Literal *known = node.literal(0))
    return node.bindLiteral(0, castLiteral(*known, to));
  convertTo(node, to);
}

/// Exponents are constants but those that a module has named.
void usesOfPow(UseSite &site) {
  site.use(0, Use::Shift);
  site.use(1, site.isNamedByModule(1) ? Use::Shift : Use::Setting);
}

} // namespace

void addElementwiseRules(RuleTable &table) {
  table["Neg"] = {convertUnary<NegOp>, 1, 1};
  table["Abs"] = {convertUnary<AbsOp>, 1, 1};
  table["Sign"] = {convertUnary<SignOp>, 1, 1};
  table["Exp"] = {convertUnary<ExpOp>, 1, 1};
  table["Log"] = {convertLog, 1, 1};
  table["Sqrt"] = {convertSqrt, 1, 1};
  table["Reciprocal"] = {convertUnary<ReciprocalOp>, 1, 1};
  table["Sigmoid"] = {convertUnary<SigmoidOp>, 1, 1};
  table["Tanh"] = {convertUnary<TanhOp>, 1, 1};
  table["Erf"] = {convertUnary<ErfOp>, 1, 1};
  table["Softplus"] = {convertUnary<SoftplusOp>, 1, 1};
  table["HardSwish"] = {convertUnary<HardSwishOp>, 1, 1};
  table["Relu"] = {convertUnary<ReluOp>, 1, 1};
  table["Add"] = {convertBinary<AddOp>, 2, 2};
  table["Sub"] = {convertSub, 2, 2};
  table["Mul"] = {convertBinary<MulOp>, 2, 2};
  table["Div"] = {convertBinary<DivOp>, 2, 2};
  table["Pow"] = {convertPow, 2, 2};
  table["Sum"] = {convertVariadic<AddOp>, 1, SIZE_MAX};
  table["Max"] = {convertVariadic<MaximumOp>, 1, SIZE_MAX};
  table["Min"] = {convertVariadic<MinimumOp>, 1, SIZE_MAX};
  table["Mean"] = {convertMean, 1, SIZE_MAX};
  table["LeakyRelu"] = {convertLeakyRelu, 1, 1};
  table["ThresholdedRelu"] = {convertThresholdedRelu, 1, 1};
  table["Elu"] = {convertElu, 1, 1};
  table["Selu"] = {convertSelu, 1, 1};
  table["Celu"] = {convertCelu, 1, 1};
  table["PRelu"] = {convertPRelu, 2, 2};
  table["HardSigmoid"] = {convertHardSigmoid, 1, 1};
  table["Clip"] = {convertClip, 1, 3};
  table["Gelu"] = {convertGelu, 1, 1};
  table["Mish"] = {convertMish, 1, 1};
  table["Shrink"] = {convertShrink, 1, 1};
  table["Swish"] = {convertSwish, 1, 1};
  table["Softsign"] = {convertSoftsign, 1, 1};
  table["Cast"] = {convertCast, 1, 1};
  table["CastLike"] = {convertCastLike, 2, 2};
  takeWeights(
      table, {OpWeights::Kind::Function},
      {"Neg",       "Abs",  "Exp",  "Log",  "Sqrt",     "Reciprocal",      "Sigmoid", "Tanh",
       "Erf",       "Relu", "Elu",  "Selu", "Softplus", "HardSwish",       "Celu",    "HardSigmoid",
       "LeakyRelu", "Clip", "Gelu", "Mish", "Shrink",   "ThresholdedRelu", "Swish",   "Softsign"});
  takeWeights(table, {OpWeights::Kind::Sum}, {"Add", "Sub", "Sum", "Mean"});
  takeWeights(table, {OpWeights::Kind::Scaling}, {"Mul", "Div"});
  takeWeights(table, {OpWeights::Kind::View}, {"Cast", "CastLike"});
  takeWeights(table, {OpWeights::Kind::Function, usesOfPow}, {"Pow"});
  takeWeights(table, {OpWeights::Kind::Layer, [](UseSite &site) { site.use(1, Use::Slope); }},
              {"PRelu"});
}

} // namespace stow::onnx
