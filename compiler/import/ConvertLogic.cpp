// Comparisons, logic, rounding and whole numbers: what masks and positions are computed with.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowFunctionOps.h"

#include <absl/strings/str_cat.h>
#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Comparisons of a uniform random number in [0, 1) with a probability: a Bernoulli number that is
/// not 0, so that evaluation can put its mean there (convertCast takes the mask off again).
Value bernoulliMask(NodeImport &node, Value a, const Literal *b) {
  auto random = a.getDefiningOp<RandomOp>();
  if (!random || random.getDistribution() != "uniform" || !random.getA().isZero() ||
      !random.getB().isExactlyValue(1) || !random->use_empty() || !b || b->size() != 1)
    return {};
  double p = b->type == ElementType::Float ? decimal(float(b->number(0))) : b->number(0);
  if (!(p >= 0 && p <= 1))
    return {};
  Value drawn = node.random("bernoulli", p, 0, random.getY().getType());
  return node.compare(drawn, node.scalar(0, drawn), "ne");
}

void convertCompare(NodeImport &node) {
  const std::string &type = node.node().type;
  const char *predicate = type == "Equal"         ? "eq"
                          : type == "Less"        ? "lt"
                          : type == "LessOrEqual" ? "le"
                          : type == "Greater"     ? "gt"
                                                  : "ge";
  Value a = node.value(0);
  if (Value mask = type == "Less" ? bernoulliMask(node, a, node.literal(1)) : Value())
    return node.bind(0, mask);
  node.bind(0, node.compare(a, node.value(1), predicate));
}

/// And and Or choose, Xor compares.
void convertLogic(NodeImport &node) {
  Value a = node.value(0), b = node.value(1);
  if (!elementOf(a).isInteger(1) || !elementOf(b).isInteger(1))
    throw Error::badInput("works on booleans, found another type");
  const std::string &type = node.node().type;
  if (type == "Xor")
    return node.bind(0, node.compare(a, b, "ne"));
  node.bind(0, type == "And" ? node.emit<SelectOp>({a, b, a}) : node.emit<SelectOp>({a, a, b}));
}

void convertNot(NodeImport &node) {
  Value x = node.value(0);
  if (!elementOf(x).isInteger(1))
    throw Error::badInput("works on booleans, found another type");
  node.bind(0, node.compare(x, node.scalar(0, x), "eq"));
}

/// NaN is what does not equal itself.
void convertIsNaN(NodeImport &node) {
  Value x = node.value(0);
  if (!isa<FloatType>(elementOf(x)))
    throw Error::badInput("looks for NaN among integers");
  node.bind(0, node.compare(x, x, "ne"));
}

void convertIsInf(NodeImport &node) {
  Value x = node.value(0);
  if (!isa<FloatType>(elementOf(x)))
    throw Error::badInput("looks for infinities among integers");
  double infinity = std::numeric_limits<double>::infinity();
  bool positive = node.flag("detect_positive", true), negative = node.flag("detect_negative", true);
  Value size = positive && negative ? node.emit<AbsOp>(x) : x;
  if (!positive && !negative) // nothing is greater than infinity
    return node.bind(0, node.compare(x, node.scalar(infinity, x), "gt"));
  node.bind(0, node.compare(size, node.scalar(positive ? infinity : -infinity, x), "eq"));
}

Value rounded(NodeImport &node, Value x, const char *mode) {
  if (!isa<FloatType>(elementOf(x)))
    return x;
  return node.emit<RoundOp>(
      x, [&](RoundOp::Properties &p) { p.mode = node.builder().getStringAttr(mode); });
}

void convertRound(NodeImport &node) {
  const std::string &type = node.node().type;
  node.bind(0, rounded(node, node.value(0),
                       type == "Floor"  ? "floor"
                       : type == "Ceil" ? "ceil"
                                        : "even"));
}

/// What is left of a behind the largest multiple of b towards zero (fmod), which has the sign of a; else that has b's. Nothing is taken
/// from a where the quotient rounds to 0, however large b is. Quotients of integers are rounded towards zero: a remainder of another
/// sign than b's is one b short. Of floats both are made in double, where they are exact as long as the quotient is below 2^28: in
/// float 1 / 0.1 is 10, and its remainder not the 0.1 that C's fmod finds.
void convertMod(NodeImport &node) {
  Value a = node.value(0), b = node.value(1);
  bool truncates = node.flag("fmod", false);
  Type element = elementOf(a);
  if (isa<FloatType>(element)) {
    Type wide = node.builder().getF64Type();
    a = node.cast(a, wide);
    b = node.cast(b, wide);
    Value quotient = rounded(node, node.emit<DivOp>({a, b}), truncates ? "zero" : "floor");
    Value rest = node.emit<SubOp>({a, node.emit<MulOp>({b, quotient})});
    rest = node.emit<SelectOp>({node.compare(quotient, node.scalar(0, quotient), "eq"), a, rest});
    return node.bind(0, node.cast(rest, element));
  }
  Value quotient = node.emit<DivOp>({a, b});
  Value rest = node.emit<SubOp>({a, node.emit<MulOp>({b, quotient})});
  if (truncates)
    return node.bind(0, rest);
  Value signs = node.emit<MulOp>({node.emit<SignOp>(rest), node.emit<SignOp>(b)});
  Value differ = node.compare(signs, node.scalar(0, signs), "lt");
  node.bind(0, node.emit<SelectOp>({differ, node.emit<AddOp>({rest, b}), rest}));
}

template <typename Op> void convertFunction(NodeImport &node) {
  node.bind(0, node.emit<Op>(node.value(0)));
}

/// Functions by their formula over others, of which each keeps all digits where it is 0.
void convertFormula(NodeImport &node) {
  const std::string &type = node.node().type;
  Value x = node.value(0);
  auto times = [&](Value a, Value b) -> Value { return node.emit<MulOp>({a, b}); };
  auto plus = [&](Value a, double b) -> Value { return node.emit<AddOp>({a, node.scalar(b, x)}); };
  auto sum = [&](Value a, Value b) -> Value { return node.emit<AddOp>({a, b}); };
  auto difference = [&](Value a, Value b) -> Value { return node.emit<SubOp>({a, b}); };
  auto divided = [&](Value a, Value b) -> Value { return node.emit<DivOp>({a, b}); };
  auto half = [&](Value a) -> Value { return times(a, node.scalar(0.5, x)); };
  auto root = [&](Value a) -> Value { return node.emit<SqrtOp>(a); };
  auto negative = [&](Value a) -> Value { return node.emit<NegOp>(a); };
  auto logarithm = [&](Value a) -> Value { return node.emit<Log1pOp>(a); }; // of 1 + a
  auto power = [&](Value a) -> Value { return node.emit<Expm1Op>(a); };     // less 1
  // sqrt(1 - x^2), of which no root's slope meets the other root's 0.
  auto otherLeg = [&] { return times(root(plus(x, 1)), root(plus(negative(x), 1))); };
  if (type == "Tan")
    return node.bind(0, divided(node.emit<SinOp>(x), node.emit<CosOp>(x)));
  if (type == "Asin")
    return node.bind(0, node.emit<Atan2Op>({x, otherLeg()}));
  if (type == "Acos")
    return node.bind(0, node.emit<Atan2Op>({otherLeg(), x}));
  if (type == "Sinh")
    return node.bind(0, half(difference(power(x), power(negative(x)))));
  if (type == "Cosh")
    return node.bind(0, half(sum(node.emit<ExpOp>(x), node.emit<ExpOp>(negative(x)))));
  if (type == "Atanh")
    return node.bind(0, half(difference(logarithm(x), logarithm(negative(x)))));
  if (type == "Acosh") {
    Value above = plus(x, -1);
    return node.bind(0, logarithm(sum(above, times(root(above), root(plus(above, 2))))));
  }
  // Asinh: of |x|, so that nothing cancels, with the sign of x; 0 takes that of the positive numbers, with
  // whose slope it goes through both. Where x^2 may be too large, sqrt(x^2 + 1) is |x|.
  Value sign = node.emit<SelectOp>(
      {node.compare(x, node.scalar(0, x), "lt"), node.scalar(-1, x), node.scalar(1, x)});
  Value size = times(x, sign);
  Value isSmall = node.compare(size, node.scalar(1e9, x), "lt");
  Value rootLess1 = times(size, divided(size, plus(root(plus(times(size, size), 1)), 1)));
  rootLess1 = node.emit<SelectOp>({isSmall, rootLess1, plus(size, -1)});
  node.bind(0, times(logarithm(sum(size, rootLess1)), sign));
}

/// The upper or lower triangle of the last two dimensions, by comparing rows with columns: two
/// small constants instead of a mask.
void convertTrilu(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  if (shape.size() < 2)
    throw Error::badInput(absl::StrCat("takes a triangle of a tensor of rank ", shape.size()));
  int64_t diagonal = 0;
  if (node.has(1)) {
    const Literal &given = node.constant(1, "k");
    if (given.isFloat() || given.size() != 1)
      throw Error::badInput("expects one integer as diagonal");
    diagonal = given.ints[0];
  }
  bool upper = node.flag("upper", true);
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  std::vector<int64_t> row(rows), column(columns);
  for (int64_t i = 0; i < rows; ++i)
    row[i] = i + diagonal;
  for (int64_t i = 0; i < columns; ++i)
    column[i] = i;
  Value kept = node.compare(node.integers(column, {columns}), node.integers(row, {rows, 1}),
                            upper ? "ge" : "le");
  node.bind(0, node.emit<SelectOp>({kept, x, node.scalar(0, x)}));
}

} // namespace

void addLogicRules(RuleTable &table) {
  for (const char *type : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    table[type] = {convertCompare, 2, 2};
  for (const char *type : {"And", "Or", "Xor"})
    table[type] = {convertLogic, 2, 2};
  table["Not"] = {convertNot, 1, 1};
  table["IsNaN"] = {convertIsNaN, 1, 1};
  table["IsInf"] = {convertIsInf, 1, 1};
  for (const char *type : {"Floor", "Ceil", "Round"})
    table[type] = {convertRound, 1, 1};
  table["Mod"] = {convertMod, 2, 2};
  table["Sin"] = {convertFunction<SinOp>, 1, 1};
  table["Cos"] = {convertFunction<CosOp>, 1, 1};
  table["Atan"] = {convertFunction<AtanOp>, 1, 1};
  for (const char *type : {"Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"})
    table[type] = {convertFormula, 1, 1};
  table["Trilu"] = {convertTrilu, 1, 2};
  takeWeights(
      table, {OpWeights::Kind::Function},
      {"Sin", "Cos", "Atan", "Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"});
  takeWeights(table, {OpWeights::Kind::Altered}, {"Trilu"});
}

} // namespace stow::onnx
