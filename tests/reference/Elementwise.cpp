#include "ir/StowElementwiseOps.h"
#include "ir/StowFunctionOps.h"
#include "tests/reference/Rules.h"

#include "ir/StowBitwiseOps.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// Applies `formula` to each element of the result, operands broadcast.
std::vector<Tensor> mapElements(Operation *op, Operands operands,
                                const std::function<double(std::span<const double>)> &formula) {
  Tensor result(shapeOf(op->getResult(0)));
  std::vector<double> elements(operands.size());
  forEachIndex(result.shape, [&](const Index &index) {
    for (size_t i = 0; i < operands.size(); ++i)
      elements[i] = operands[i].broadcast(index);
    result(index) = formula(elements);
  });
  return {result};
}

template <double (*Formula)(double)> std::vector<Tensor> unary(Operation *op, Operands operands) {
  return mapElements(op, operands, [](auto e) { return Formula(e[0]); });
}

template <double (*Formula)(double, double)>
std::vector<Tensor> binary(Operation *op, Operands operands) {
  return mapElements(op, operands, [](auto e) { return Formula(e[0], e[1]); });
}

/// Quotients of integers are rounded towards zero, and 0 by 0.
std::vector<Tensor> divide(Operation *op, Operands operands) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  return mapElements(op, operands, [=](auto e) {
    return isFloat ? e[0] / e[1] : e[1] == 0 ? 0 : std::trunc(e[0] / e[1]);
  });
}

std::vector<Tensor> detach(Operation *op, Operands operands) {
  return mapElements(op, operands, [](auto e) { return e[0]; });
}

std::vector<Tensor> round(Operation *op, Operands operands) {
  StringRef mode = cast<RoundOp>(op).getMode();
  return mapElements(op, operands, [=](auto e) {
    return mode == "even"    ? std::nearbyint(e[0])
           : mode == "floor" ? std::floor(e[0])
           : mode == "ceil"  ? std::ceil(e[0])
                             : std::trunc(e[0]);
  });
}

std::vector<Tensor> compare(Operation *op, Operands operands) {
  StringRef predicate = cast<CompareOp>(op).getPredicate();
  return mapElements(op, operands, [=](auto e) -> double {
    return predicate == "eq"   ? e[0] == e[1]
           : predicate == "ne" ? e[0] != e[1]
           : predicate == "lt" ? e[0] < e[1]
           : predicate == "le" ? e[0] <= e[1]
           : predicate == "gt" ? e[0] > e[1]
                               : e[0] >= e[1];
  });
}

/// Bits of whole numbers, which doubles hold up to 2^53.
std::vector<Tensor> bitwise(Operation *op, Operands operands) {
  StringRef kind = cast<BitwiseOp>(op).getKind();
  int64_t bits = getElementTypeOrSelf(op->getResult(0)).getIntOrFloatBitWidth();
  return mapElements(op, operands, [=](auto e) -> double {
    auto a = static_cast<int64_t>(e[0]), b = static_cast<int64_t>(e[1]);
    if (kind == "and" || kind == "or" || kind == "xor")
      return double(kind == "and" ? a & b : kind == "or" ? a | b : a ^ b);
    bool isInside = b >= 0 && b < bits;
    if (kind == "shift_right")
      return double(a >> (isInside ? b : 63));
    auto moved = isInside ? static_cast<uint64_t>(a) << b : 0;
    return double(bits == 32 ? int64_t(int32_t(uint32_t(moved))) : int64_t(moved));
  });
}

double neg(double x) { return -x; }
double absolute(double x) { return std::fabs(x); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }
double exponentialLess1(double x) { return std::expm1(x); }
double logarithmOf1Plus(double x) { return std::log1p(x); }
double root(double x) { return std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double hyperbolicTangent(double x) { return std::tanh(x); }
double errorFunction(double x) { return std::erf(x); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double hardSwish(double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }
double relu(double x) { return std::max(x, 0.0); }
double isPositive(double x) { return x > 0; }

double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double arcTangent(double x) { return std::atan(x); }

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double maximum(double a, double b) { return std::max(a, b); }
double minimum(double a, double b) { return std::min(a, b); }
double power(double a, double b) { return std::pow(a, b); }
double angle(double a, double b) { return std::atan2(a, b); }
double binaryCrossEntropy(double p, double t) {
  return -(t * std::max(std::log(p), -100.0) + (1 - t) * std::max(std::log1p(-p), -100.0));
}
double reluGrad(double dy, double saved) { return saved > 0 ? dy : 0; }
double hardSwishGrad(double dy, double x) { return x <= -3 ? 0 : x >= 3 ? dy : dy * (x / 3 + 0.5); }

std::vector<Tensor> leakyRelu(Operation *op, Operands operands) {
  double alpha = number(cast<LeakyReluOp>(op).getAlpha());
  return mapElements(op, operands, [=](auto e) { return e[0] > 0 ? e[0] : alpha * e[0]; });
}

std::vector<Tensor> thresholdedRelu(Operation *op, Operands operands) {
  double alpha = number(cast<ThresholdedReluOp>(op).getAlpha());
  return mapElements(op, operands, [=](auto e) { return e[0] > alpha ? e[0] : 0.0; });
}

std::vector<Tensor> leakyReluGrad(Operation *op, Operands operands) {
  double alpha = number(cast<LeakyReluGradOp>(op).getAlpha());
  return mapElements(op, operands, [=](auto e) { return e[1] > 0 ? e[0] : alpha * e[0]; });
}

std::vector<Tensor> elu(Operation *op, Operands operands) {
  double alpha = number(cast<EluOp>(op).getAlpha());
  return mapElements(op, operands,
                     [=](auto e) { return e[0] > 0 ? e[0] : alpha * std::expm1(e[0]); });
}

std::vector<Tensor> eluGrad(Operation *op, Operands operands) {
  double alpha = number(cast<EluGradOp>(op).getAlpha());
  return mapElements(op, operands, [=](auto e) { return e[1] > 0 ? e[0] : e[0] * (e[1] + alpha); });
}

std::vector<Tensor> hardSigmoid(Operation *op, Operands operands) {
  auto typed = cast<HardSigmoidOp>(op);
  double alpha = number(typed.getAlpha()), beta = number(typed.getBeta());
  return mapElements(op, operands,
                     [=](auto e) { return std::min(std::max(alpha * e[0] + beta, 0.0), 1.0); });
}

template <typename Op> std::vector<Tensor> between(Operation *op, Operands operands) {
  double low = number(cast<Op>(op).getLow()), high = number(cast<Op>(op).getHigh());
  return mapElements(op, operands, [=](auto e) { return std::min(std::max(e[0], low), high); });
}

std::vector<Tensor> rangeGrad(Operation *op, Operands operands) {
  auto typed = cast<RangeGradOp>(op);
  double low = number(typed.getLow()), high = number(typed.getHigh());
  double slope = number(typed.getSlope());
  bool closed = typed.getClosed();
  return mapElements(op, operands, [=](auto e) {
    bool inside = closed ? low <= e[1] && e[1] <= high : low < e[1] && e[1] < high;
    return inside ? e[0] * slope : 0.0;
  });
}

std::vector<Tensor> selectGrad(Operation *op, Operands operands) {
  return mapElements(op, operands, [](auto e) {
    return e[1] > e[2] ? e[0] : e[1] == e[2] ? e[0] / 2 : 0.0;
  });
}

/// `x` rounded to nearest even with `bits` of mantissa (the hidden one included). Exponent ranges
/// are not modelled: tests stay far from them.
double roundMantissa(double x, int bits) {
  if (x == 0 || !std::isfinite(x))
    return x;
  int exponent;
  double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

std::vector<Tensor> castElements(Operation *op, Operands operands) {
  Type type = getElementTypeOrSelf(op->getResult(0));
  Type from = getElementTypeOrSelf(op->getOperand(0));
  return mapElements(op, operands, [=](auto e) {
    if (type.isInteger(1))
      return double(e[0] != 0);
    if (isa<IntegerType>(type))
      return std::trunc(e[0]);
    if (isa<IntegerType>(from) || type.isF64())
      return e[0];
    return roundMantissa(e[0], type.isF32() ? 24 : type.isF16() ? 11 : 8);
  });
}

std::vector<Tensor> dropoutTraining(Operation *op, Operands operands) {
  auto typed = cast<DropoutTrainingOp>(op);
  double keep = 1 - number(typed.getRatio());
  double threshold = std::floor(keep * 4294967296.0);
  auto seed = uint64_t(int64_t(operands[1].values[0]));
  Tensor result(operands[0].shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    bool isKept = randomWords(i, typed.getStream(), seed)[0] < threshold;
    result.values[i] = isKept ? operands[0].values[i] * (1 / keep) : 0;
  }
  return {result};
}

std::vector<Tensor> select(Operation *op, Operands operands) {
  Tensor y(shapeOf(op->getResult(0)));
  forEachIndex(y.shape, [&](const Index &at) {
    y(at) = operands[operands[0].broadcast(at) != 0 ? 1 : 2].broadcast(at);
  });
  return {y};
}

Tensor drawn(std::vector<int64_t> shape, StringRef distribution, double a, double b,
             uint64_t stream, uint64_t seed) {
  double unit = std::ldexp(1, -24);
  Tensor result(std::move(shape));
  for (int64_t i = 0; i < result.size(); ++i) {
    auto words = randomWords(i, stream, seed);
    double first = words[0] >> 8, second = words[1] >> 8;
    double normal =
        std::sqrt(-2 * std::log((first + 1) * unit)) * std::cos(2 * M_PI * second * unit);
    result.values[i] = distribution == "uniform"     ? a + (b - a) * first * unit
                       : distribution == "bernoulli" ? words[0] < std::floor(a * 4294967296.0)
                                                     : a + b * normal;
  }
  return result;
}

std::vector<Tensor> draw(Operation *op, Operands operands) {
  auto typed = cast<DrawOp>(op);
  return {drawn(shapeOf(op->getResult(0)), typed.getDistribution(), number(typed.getA()),
                number(typed.getB()), typed.getStream(), uint64_t(int64_t(operands[0].values[0])))};
}

/// Of the model form: as in evaluation.
std::vector<Tensor> random(Operation *op, Operands) {
  auto typed = cast<RandomOp>(op);
  std::vector<int64_t> shape = shapeOf(op->getResult(0));
  if (typed.getDistribution() == "bernoulli")
    return {Tensor(shape, number(typed.getA()))};
  return {drawn(shape, typed.getDistribution(), number(typed.getA()), number(typed.getB()),
                typed.getStream(), 0)};
}

/// Of the model form: inference passes everything.
std::vector<Tensor> dropout(Operation *, Operands operands) { return {operands[0]}; }

std::vector<Tensor> inTraining(Operation *, Operands operands) { return {operands[1]}; }

} // namespace

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Counter: element, stream;
// key: seed; low words first.
std::array<uint32_t, 4> randomWords(uint64_t element, uint64_t stream, uint64_t seed) {
  uint32_t c[4] = {uint32_t(element), uint32_t(element >> 32), uint32_t(stream),
                   uint32_t(stream >> 32)};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c[0], p1 = uint64_t(0xCD9E8D57u) * c[2];
    uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1),
                        uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    std::memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c[0], c[1], c[2], c[3]};
}

void addElementwiseRules(Rules &rules) {
  rules["stow.neg"] = unary<neg>;
  rules["stow.abs"] = unary<absolute>;
  rules["stow.sign"] = unary<sign>;
  rules["stow.exp"] = unary<exponential>;
  rules["stow.log"] = unary<logarithm>;
  rules["stow.expm1"] = unary<exponentialLess1>;
  rules["stow.log1p"] = unary<logarithmOf1Plus>;
  rules["stow.sqrt"] = unary<root>;
  rules["stow.reciprocal"] = unary<reciprocal>;
  rules["stow.sigmoid"] = unary<sigmoid>;
  rules["stow.tanh"] = unary<hyperbolicTangent>;
  rules["stow.erf"] = unary<errorFunction>;
  rules["stow.softplus"] = unary<softplus>;
  rules["stow.hard_swish"] = unary<hardSwish>;
  rules["stow.sin"] = unary<sine>;
  rules["stow.cos"] = unary<cosine>;
  rules["stow.atan"] = unary<arcTangent>;
  rules["stow.round"] = round;
  rules["stow.detach"] = detach;
  rules["stow.compare"] = compare;
  rules["stow.bitwise"] = bitwise;
  rules["stow.draw"] = draw;
  rules["stow.random"] = random;
  rules["stow.relu"] = unary<relu>;
  rules["stow.positive_mask"] = unary<isPositive>;
  rules["stow.add"] = binary<add>;
  rules["stow.sub"] = binary<sub>;
  rules["stow.mul"] = binary<mul>;
  rules["stow.div"] = divide;
  rules["stow.maximum"] = binary<maximum>;
  rules["stow.minimum"] = binary<minimum>;
  rules["stow.pow"] = binary<power>;
  rules["stow.atan2"] = binary<angle>;
  rules["stow.binary_cross_entropy"] = binary<binaryCrossEntropy>;
  rules["stow.relu_grad"] = binary<reluGrad>;
  rules["stow.hard_swish_grad"] = binary<hardSwishGrad>;
  rules["stow.leaky_relu"] = leakyRelu;
  rules["stow.thresholded_relu"] = thresholdedRelu;
  rules["stow.leaky_relu_grad"] = leakyReluGrad;
  rules["stow.elu"] = elu;
  rules["stow.elu_grad"] = eluGrad;
  rules["stow.hard_sigmoid"] = hardSigmoid;
  rules["stow.clip"] = between<ClipOp>;
  rules["stow.hard_tanh"] = between<HardTanhOp>;
  rules["stow.range_grad"] = rangeGrad;
  rules["stow.select_grad"] = selectGrad;
  rules["stow.select"] = select;
  rules["stow.cast"] = castElements;
  rules["stow.dropout"] = dropout;
  rules["stow.in_training"] = inTraining;
  rules["stow.dropout_training"] = dropoutTraining;
}

} // namespace stow::reference
