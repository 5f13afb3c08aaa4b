// Bodies are compared with the library's functions by value. Exporters write GELU in several ways, automatic
// differentiation and fusion write its gradient in more; and what agrees with a function of few
// operations at several hundred points over all of its range computes it. Bodies of other operations
// than sums, products, powers, maxima and tanh are not looked at.
#include "codegen/cuda/Epilogues.h"

#include "ir/ProductMaps.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <vector>

using namespace mlir;

namespace stow::cuda {
namespace {

/// A body as straight-line code over doubles. Casts between floating-point types are left out: the
/// library computes in f32 throughout.
class Formula {
public:
  /// None where the body holds an operation that the library has nothing of.
  static std::optional<Formula> of(Block &body) {
    Formula formula;
    for (Value argument : body.getArguments())
      formula.number(argument);
    formula.arguments = body.getNumArguments();
    for (Operation &op : body.without_terminator())
      if (!formula.add(op))
        return std::nullopt;
    formula.result = formula.numbers.lookup(body.getTerminator()->getOperand(0));
    return formula;
  }

  double at(ArrayRef<double> values) {
    slots.resize(static_cast<size_t>(count));
    llvm::copy(values, slots.begin());
    for (const Step &step : steps)
      slots[step.target] = compute(step);
    return slots[result];
  }

private:
  enum class Kind : uint8_t {
    Constant,
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Maximum,
    Tanh,
    Power
  };
  struct Step {
    Kind kind = Kind::Constant;
    size_t target = 0, a = 0, b = 0;
    double constant = 0;
  };

  size_t number(Value value) {
    numbers[value] = count;
    return count++;
  }

  bool add(Operation &op) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
      numbers[op.getResult(0)] = numbers.lookup(op.getOperand(0));
      return true;
    }
    auto constant = dyn_cast<arith::ConstantOp>(op);
    auto value = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
    const std::optional<Kind> kind =
        llvm::TypeSwitch<Operation *, std::optional<Kind>>(&op)
            .Case([&](arith::ConstantOp) {
              return value ? std::optional(Kind::Constant) : std::nullopt;
            })
            .Case([](arith::AddFOp) { return Kind::Add; })
            .Case([](arith::SubFOp) { return Kind::Subtract; })
            .Case([](arith::MulFOp) { return Kind::Multiply; })
            .Case([](arith::DivFOp) { return Kind::Divide; })
            .Case([](arith::NegFOp) { return Kind::Negate; })
            .Case<arith::MaximumFOp, arith::MaxNumFOp>([](Operation *) { return Kind::Maximum; })
            .Case([](math::TanhOp) { return Kind::Tanh; })
            .Case([](math::PowFOp) { return Kind::Power; })
            .Default([](Operation *) { return std::nullopt; });
    if (!kind)
      return false;
    Step step = {.kind = *kind};
    if (op.getNumOperands() > 0)
      step.a = numbers.lookup(op.getOperand(0));
    if (op.getNumOperands() > 1)
      step.b = numbers.lookup(op.getOperand(1));
    if (value)
      step.constant = value.getValueAsDouble();
    step.target = number(op.getResult(0));
    steps.push_back(step);
    return true;
  }

  double compute(const Step &step) const {
    const double a = slots[step.a], b = slots[step.b];
    switch (step.kind) {
    case Kind::Constant:
      return step.constant;
    case Kind::Add:
      return a + b;
    case Kind::Subtract:
      return a - b;
    case Kind::Multiply:
      return a * b;
    case Kind::Divide:
      return a / b;
    case Kind::Negate:
      return -a;
    case Kind::Maximum:
      return std::max(a, b);
    case Kind::Tanh:
      return std::tanh(a);
    case Kind::Power:
      return std::pow(a, b);
    }
    llvm_unreachable("all kinds are above");
  }

  llvm::DenseMap<Value, size_t> numbers;
  std::vector<Step> steps;
  std::vector<double> slots;
  size_t count = 0, arguments = 0, result = 0;
};

const double kGeluSlope = std::sqrt(2 / M_PI);
constexpr double kGeluCube = 0.044715;

double gelu(double x) { return x / 2 * (1 + std::tanh(kGeluSlope * (x + kGeluCube * x * x * x))); }

double geluGradient(double x) {
  const double t = std::tanh(kGeluSlope * (x + kGeluCube * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * kGeluSlope * (1 + 3 * kGeluCube * x * x);
}

/// The function of an element of the product with the bias's and the matrix's added.
double functionOf(ProductFunction function, double sum) {
  return function == ProductFunction::Relu   ? std::max(sum, 0.0)
         : function == ProductFunction::Gelu ? gelu(sum)
                                             : sum;
}

bool agree(double found, double expected, double tolerance, double scale) {
  return std::abs(found - expected) <= tolerance * std::max(1.0, scale);
}

/// What an argument of the body is. The first is the product's element.
struct Roles {
  std::optional<size_t> bias, matrix; ///< numbers of body arguments
};

/// The function that `formula` computes; none where it is none of the library's.
std::optional<ProductFunction> recognize(Formula formula, const Roles &roles) {
  constexpr double kPoints[] = {-300, -20,  -7.5,  -4.1,  -3,  -2.3, -1.7, -1.2, -0.8,
                                -0.5, -0.2, -0.03, -1e-4, 0,   1e-4, 0.04, 0.3,  0.6,
                                0.9,  1.3,  1.9,   2.6,   3.4, 5.2,  9,    24,   280};
  constexpr double kFew[] = {-2.2, -0.35, 0, 0.7, 3.1};
  constexpr double kZero[] = {0};
  using enum ProductFunction;
  SmallVector<ProductFunction> left = {Relu, Gelu};
  if (roles.bias || roles.matrix)
    left.push_back(None);
  if (roles.matrix && !roles.bias)
    left.push_back(GeluGradient);
  for (double p : kPoints)
    for (double b : roles.bias ? ArrayRef(kFew) : ArrayRef(kZero))
      for (double m : roles.matrix ? ArrayRef(kPoints) : ArrayRef(kZero)) {
        SmallVector<double, 3> values = {p, 0, 0};
        if (roles.bias)
          values[*roles.bias] = b;
        if (roles.matrix)
          values[*roles.matrix] = m;
        values.resize(1 + roles.bias.has_value() + roles.matrix.has_value());
        const double found = formula.at(values), sum = p + b + m;
        llvm::erase_if(left, [&](ProductFunction function) {
          if (function == GeluGradient)
            return !agree(found, p * geluGradient(m), 1e-6, std::abs(p));
          return !agree(found, functionOf(function, sum), function == Gelu ? 1e-6 : 1e-12,
                        std::abs(p) + std::abs(b) + std::abs(m));
        });
        if (left.empty())
          return std::nullopt;
      }
  return left.front();
}

/// The function of a body whose arguments behind the first are `roles`.
std::optional<ProductFunction> functionOf(Block &body, const Roles &roles) {
  std::optional<Formula> formula = Formula::of(body);
  return formula ? recognize(std::move(*formula), roles) : std::nullopt;
}

/// From an argument of a body to the operand: of two factors, one is counted as the product's element.
constexpr size_t kBehindFactors = 1;

bool isPlain(RankedTensorType type) { return layoutOf(type).isRowMajor(); }

/// Types that cuBLASLt sums in f32: both factors alike, and a result of their type or in f32.
bool hasTypesOfEpilogues(ProductMapOp op) {
  const Type a = op.getA().getType().getElementType(), b = op.getB().getType().getElementType();
  const Type y = tensorType(op.getResult(0)).getElementType();
  return a == b && (a.isF32() || a.isF16() || a.isBF16()) && (y == a || y.isF32());
}

} // namespace

std::optional<ProductEpilogue> epilogueOf(ProductMapOp op) {
  if (op.getNumResults() != 1 || !op.getUpdates().empty() || !hasTypesOfEpilogues(op))
    return std::nullopt;
  const RankedTensorType y = tensorType(op.getResult(0));
  if (y.getRank() != 2 || !isPlain(y))
    return std::nullopt;
  Roles roles;
  for (auto [number, input] : llvm::enumerate(op.getInputs())) {
    const RankedTensorType type = tensorType(input);
    const bool isVector = type.getRank() == 1 && type.getDimSize(0) == y.getDimSize(1);
    std::optional<size_t> &role = isVector ? roles.bias : roles.matrix;
    if (role || !isPlain(type) || type.getElementType() != y.getElementType() ||
        (!isVector && type.getShape() != y.getShape()))
      return std::nullopt;
    role = number + 1; // behind the product's element
  }
  const std::optional<ProductFunction> function = functionOf(op.getBody().front(), roles);
  if (!function)
    return std::nullopt;
  const bool readsPreactivation = function == ProductFunction::GeluGradient;
  if (readsPreactivation &&
      (y.getDimSize(1) % kPreactivationStep != 0 || !op->hasAttr(kEpilogueAttr)))
    return std::nullopt;
  ProductEpilogue epilogue;
  epilogue.function = *function;
  if (roles.bias)
    epilogue.bias = *roles.bias + kBehindFactors;
  if (roles.matrix)
    (readsPreactivation ? epilogue.preactivation : epilogue.added) = *roles.matrix + kBehindFactors;
  return epilogue;
}

/// cuDNN's engines have a bias, and only with it the rest: a convolution whose sum with another or whose maximum
/// alone is taken has none that is known without a device.
std::optional<ProductEpilogue> epilogueOf(Conv2dMapOp op) {
  const RankedTensorType y = op.getY().getType();
  const Type element = y.getElementType();
  if (!(element.isF32() || element.isF16() || element.isBF16()) ||
      op.getX().getType().getElementType() != element ||
      op.getWeight().getType().getElementType() != element)
    return std::nullopt;
  Roles roles;
  for (auto [number, input] : llvm::enumerate(op.getInputs())) {
    const RankedTensorType type = tensorType(input);
    const bool isVector = isAlongChannels(type, y);
    std::optional<size_t> &role = isVector ? roles.bias : roles.matrix;
    if (role || type.getElementType() != element ||
        (isVector ? !isPlain(type)
                  : type.getShape() != y.getShape() || layoutOf(type) != layoutOf(y)))
      return std::nullopt;
    role = number + 1;
  }
  if (!roles.bias)
    return std::nullopt;
  const std::optional<ProductFunction> function = functionOf(op.getBody().front(), roles);
  if (function != ProductFunction::None && function != ProductFunction::Relu)
    return std::nullopt;
  ProductEpilogue epilogue;
  epilogue.function = *function;
  epilogue.bias = *roles.bias + kBehindFactors;
  if (roles.matrix)
    epilogue.added = *roles.matrix + kBehindFactors;
  return epilogue;
}

} // namespace stow::cuda
