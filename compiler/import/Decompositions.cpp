#include "compiler/import/Decompositions.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowFunctionOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

using namespace mlir;

namespace stow::onnx {
namespace {

/// True for a constant all of whose elements are `number`.
bool isConstant(Value value, double number) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat() && isa<FloatType>(elements.getElementType()) &&
         elements.getSplatValue<APFloat>().convertToDouble() == number;
}

/// The other operand of a commutative op one of whose operands is `number` everywhere and repeats nothing.
template <typename Op> Value besideConstant(Value value, double number) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return {};
  for (auto [other, constant] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())})
    if (isConstant(constant, number) && other.getType() == value.getType())
      return other;
  return {};
}

/// z of exp(z) and the like.
template <typename Op> Value argumentOf(Value value) {
  auto op = value ? value.getDefiningOp<Op>() : nullptr;
  return op ? Value(op.getX()) : Value();
}

/// p and t, where a is (t - 1) max(ln(1 - p), -100) and b is t max(ln p, -100).
std::optional<std::pair<Value, Value>> crossEntropyOf(Value a, Value b) {
  auto ofComplement = a.getDefiningOp<MulOp>(), ofTarget = b.getDefiningOp<MulOp>();
  if (!ofComplement || !ofTarget)
    return std::nullopt;
  auto match = [](MulOp left, MulOp right) -> std::optional<std::pair<Value, Value>> {
    Value p = argumentOf<LogOp>(besideConstant<MaximumOp>(right.getB(), -100));
    Value opposite = argumentOf<Log1pOp>(besideConstant<MaximumOp>(left.getB(), -100));
    auto less = left.getA().getDefiningOp<SubOp>();
    bool fits = p && argumentOf<NegOp>(opposite) == p && less && less.getA() == right.getA() &&
                isConstant(less.getB(), 1) && p.getType() == right.getA().getType();
    return fits ? std::optional(std::pair(p, Value(right.getA()))) : std::nullopt;
  };
  return match(ofComplement, ofTarget);
}

/// True for a mean or a sum of squared distances from a mean, and multiples of one.
bool isVariance(Value x) {
  for (int i = 0; i < 2; ++i) { // n / (n - 1) is a product and a quotient
    if (auto product = x.getDefiningOp<MulOp>();
        product && product.getB().getDefiningOp<ConstantOp>())
      x = product.getA();
    else if (auto quotient = x.getDefiningOp<DivOp>();
             quotient && quotient.getB().getDefiningOp<ConstantOp>())
      x = quotient.getA();
  }
  Value squares = argumentOf<ReduceMeanOp>(x);
  if (!squares)
    squares = argumentOf<ReduceSumOp>(x);
  auto square = squares ? squares.getDefiningOp<MulOp>() : nullptr;
  if (!square || square.getA() != square.getB())
    return false;
  auto distance = square.getA().getDefiningOp<SubOp>();
  return distance && argumentOf<ReduceMeanOp>(distance.getB()) == distance.getA();
}

} // namespace

Value logarithmOf(NodeImport &node, Value x) {
  if (!node.spellsItsMeaning()) {
    if (Value z = argumentOf<SigmoidOp>(x))
      return node.emit<NegOp>(node.emit<SoftplusOp>(node.emit<NegOp>(z)));
    if (Value z = besideConstant<AddOp>(x, 1))
      return node.emit<Log1pOp>(z);
  }
  return node.emit<LogOp>(x);
}

Value differenceOf(NodeImport &node, Value a, Value b) {
  if (!node.spellsItsMeaning()) {
    if (Value z = argumentOf<ExpOp>(a);
        z && isConstant(b, 1) && shapeOf(b).size() <= shapeOf(a).size())
      return node.emit<Expm1Op>(z);
    if (auto terms = crossEntropyOf(a, b))
      return node.emit<BinaryCrossEntropyOp>({terms->first, terms->second});
  }
  return node.emit<SubOp>({a, b});
}

Value rootOf(NodeImport &node, Value x) {
  return !node.spellsItsMeaning() && isVariance(x) ? guardedRoot(node, x) : node.emit<SqrtOp>(x);
}

Value guardedRoot(NodeImport &node, Value squares) {
  Value zero = node.scalar(0, squares), isZero = node.compare(squares, zero, "eq");
  Value positive = node.emit<SelectOp>({isZero, node.scalar(1, squares), squares});
  return node.emit<SelectOp>({isZero, zero, node.emit<SqrtOp>(positive)});
}

} // namespace stow::onnx
