#include "compiler/import/ScalarBody.h"

#include "codegen/kernels/Passes.h"
#include "compiler/import/Literal.h"
#include "ir/StowShapeOps.h"
#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Elements that one operation computes before the next one runs.
constexpr size_t kLanes = 256;

/// The value of one operation for some elements: floats, or integers with their sign (booleans 0 or 1).
struct Register {
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

ElementType elementTypeOf(Type type) {
  return type.isF16()    ? ElementType::Float16
         : type.isBF16() ? ElementType::BFloat16
         : type.isF32()  ? ElementType::Float
                         : ElementType::Double;
}

bool holds(arith::CmpFPredicate predicate, double a, double b) {
  using P = arith::CmpFPredicate;
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::OEQ:
    return a == b;
  case P::OGT:
    return a > b;
  case P::OGE:
    return a >= b;
  case P::OLT:
    return a < b;
  case P::OLE:
    return a <= b;
  case P::ONE:
    return !unordered && a != b;
  case P::ORD:
    return !unordered;
  case P::UEQ:
    return unordered || a == b;
  case P::UGT:
    return unordered || a > b;
  case P::UGE:
    return unordered || a >= b;
  case P::ULT:
    return unordered || a < b;
  case P::ULE:
    return unordered || a <= b;
  case P::UNE:
    return unordered || a != b;
  case P::UNO:
    return unordered;
  case P::AlwaysTrue:
    return true;
  }
  return false;
}

bool holds(arith::CmpIPredicate predicate, int64_t a, int64_t b, uint64_t mask) {
  using P = arith::CmpIPredicate;
  const uint64_t p = static_cast<uint64_t>(a) & mask, q = static_cast<uint64_t>(b) & mask;
  switch (predicate) {
  case P::eq:
    return a == b;
  case P::ne:
    return a != b;
  case P::slt:
    return a < b;
  case P::sle:
    return a <= b;
  case P::sgt:
    return a > b;
  case P::sge:
    return a >= b;
  case P::ult:
    return p < q;
  case P::ule:
    return p <= q;
  case P::ugt:
    return p > q;
  case P::uge:
    return p >= q;
  }
  return false;
}

template <typename T> T larger(T a, T b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN()
         : a == b                       ? (std::signbit(a) ? b : a)
                                        : std::max(a, b);
}
template <typename T> T smaller(T a, T b) { return -larger(-a, -b); }

} // namespace

/// The operations in their order, and a register for each value.
struct ScalarBody::Program {
  OwningOpRef<ModuleOp> module;
  Block *block = nullptr;
  Value result;
  std::unordered_map<void *, Register> registers;

  Register &of(Value value) {
    Register &found = registers[value.getAsOpaquePointer()];
    if (isa<FloatType>(value.getType()))
      found.floats.resize(kLanes);
    else
      found.ints.resize(kLanes);
    return found;
  }

  bool run(Operation *op);

private:
  /// `f` of the operands, in their own type, rounded to the result's.
  template <typename F> bool floats(Operation *op, F f) {
    const ElementType type = elementTypeOf(op->getResult(0).getType());
    auto in = [&](unsigned i) -> const std::vector<double> & {
      return of(op->getOperand(std::min(i, op->getNumOperands() - 1))).floats;
    };
    const std::vector<double> &a = in(0), &b = in(1), &c = in(2);
    std::vector<double> &y = of(op->getResult(0)).floats;
    auto each = [&](auto number) {
      using T = decltype(number);
      for (size_t i = 0; i < kLanes; ++i) {
        if constexpr (std::is_invocable_v<F, T, T, T>)
          y[i] = f(T(a[i]), T(b[i]), T(c[i]));
        else if constexpr (std::is_invocable_v<F, T, T>)
          y[i] = f(T(a[i]), T(b[i]));
        else
          y[i] = f(T(a[i]));
      }
    };
    if (type == ElementType::Float)
      each(float());
    else
      each(double());
    if (type != ElementType::Float && type != ElementType::Double)
      for (double &value : y)
        value = rounded(value, type);
    return true;
  }

  /// `f` of the operands, cut to the result's bits.
  template <typename F> bool ints(Operation *op, F f) {
    const unsigned width = op->getResult(0).getType().getIntOrFloatBitWidth();
    const std::vector<int64_t> &a = of(op->getOperand(0)).ints;
    const std::vector<int64_t> &b = of(op->getOperands().back()).ints;
    std::vector<int64_t> &y = of(op->getResult(0)).ints;
    for (size_t i = 0; i < kLanes; ++i)
      y[i] = cut(f(uint64_t(a[i]), uint64_t(b[i])), width);
    return true;
  }

  static uint64_t maskOf(unsigned width) {
    return width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
  }

  static int64_t cut(uint64_t bits, unsigned width) {
    return width == 1 ? int64_t(bits & 1) : llvm::SignExtend64(bits, width);
  }

  bool constant(arith::ConstantOp op);
  bool bitcast(arith::BitcastOp op);
  bool select(arith::SelectOp op);
  bool compare(Operation *op);
  bool convert(Operation *op);
};

bool ScalarBody::Program::constant(arith::ConstantOp op) {
  Register &y = of(op.getResult());
  if (auto number = dyn_cast<FloatAttr>(op.getValue()))
    y.floats.assign(kLanes, [&] {
      APFloat value = number.getValue();
      bool lost;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      return value.convertToDouble();
    }());
  else if (auto whole = dyn_cast<IntegerAttr>(op.getValue()))
    y.ints.assign(kLanes, cut(whole.getValue().getZExtValue(), whole.getValue().getBitWidth()));
  else
    return false;
  return true;
}

bool ScalarBody::Program::bitcast(arith::BitcastOp op) {
  const Type from = op.getIn().getType(), to = op.getType();
  const unsigned width = to.getIntOrFloatBitWidth();
  if (isa<FloatType>(from) == isa<FloatType>(to) || (width != 32 && width != 64))
    return false;
  const Register &x = of(op.getIn());
  Register &y = of(op.getResult());
  for (size_t i = 0; i < kLanes; ++i) {
    if (isa<FloatType>(from))
      y.ints[i] = width == 32 ? std::bit_cast<int32_t>(float(x.floats[i]))
                              : std::bit_cast<int64_t>(x.floats[i]);
    else
      y.floats[i] =
          width == 32 ? std::bit_cast<float>(int32_t(x.ints[i])) : std::bit_cast<double>(x.ints[i]);
  }
  return true;
}

bool ScalarBody::Program::select(arith::SelectOp op) {
  const std::vector<int64_t> &condition = of(op.getCondition()).ints;
  const Register &a = of(op.getTrueValue()), &b = of(op.getFalseValue());
  Register &y = of(op.getResult());
  for (size_t i = 0; i < kLanes; ++i) {
    if (isa<FloatType>(op.getType()))
      y.floats[i] = condition[i] ? a.floats[i] : b.floats[i];
    else
      y.ints[i] = condition[i] ? a.ints[i] : b.ints[i];
  }
  return true;
}

bool ScalarBody::Program::compare(Operation *op) {
  const Register &a = of(op->getOperand(0)), &b = of(op->getOperand(1));
  Register &y = of(op->getResult(0));
  if (auto floating = dyn_cast<arith::CmpFOp>(op)) {
    for (size_t i = 0; i < kLanes; ++i)
      y.ints[i] = holds(floating.getPredicate(), a.floats[i], b.floats[i]);
    return true;
  }
  const uint64_t mask = maskOf(op->getOperand(0).getType().getIntOrFloatBitWidth());
  for (size_t i = 0; i < kLanes; ++i)
    y.ints[i] = holds(cast<arith::CmpIOp>(op).getPredicate(), a.ints[i], b.ints[i], mask);
  return true;
}

/// Between element types.
bool ScalarBody::Program::convert(Operation *op) {
  const Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  const Register &x = of(op->getOperand(0));
  Register &y = of(op->getResult(0));
  const uint64_t mask = maskOf(from.getIntOrFloatBitWidth());
  const unsigned width = to.getIntOrFloatBitWidth();
  for (size_t i = 0; i < kLanes; ++i) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      y.floats[i] = rounded(x.floats[i], elementTypeOf(to));
    else if (isa<arith::SIToFPOp>(op))
      y.floats[i] = rounded(x.ints[i], elementTypeOf(to));
    else if (isa<arith::UIToFPOp>(op) && from.isInteger(1))
      y.floats[i] = double(x.ints[i]);
    else if (isa<arith::FPToSIOp>(op))
      y.ints[i] = truncated(x.floats[i], width > 32 ? ElementType::Int64 : ElementType::Int32);
    else if (isa<arith::ExtUIOp>(op))
      y.ints[i] = int64_t(uint64_t(x.ints[i]) & mask);
    else if (isa<arith::ExtSIOp, arith::TruncIOp>(op))
      y.ints[i] = cut(uint64_t(x.ints[i]), width);
    else
      return false;
  }
  return true;
}

/// False for an operation that is not known.
bool ScalarBody::Program::run(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](arith::ConstantOp constantOp) { return constant(constantOp); })
      .Case([&](arith::BitcastOp cast) { return bitcast(cast); })
      .Case([&](arith::SelectOp choice) { return select(choice); })
      .Case<arith::CmpFOp, arith::CmpIOp>([&](auto) { return compare(op); })
      .Case<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
            arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp>([&](auto) { return convert(op); })
      .Case([&](arith::NegFOp) { return floats(op, [](auto a) { return -a; }); })
      .Case([&](arith::AddFOp) { return floats(op, [](auto a, auto b) { return a + b; }); })
      .Case([&](arith::SubFOp) { return floats(op, [](auto a, auto b) { return a - b; }); })
      .Case([&](arith::MulFOp) { return floats(op, [](auto a, auto b) { return a * b; }); })
      .Case([&](arith::DivFOp) { return floats(op, [](auto a, auto b) { return a / b; }); })
      .Case([&](arith::MaximumFOp) {
        return floats(op, [](auto a, auto b) { return larger(a, b); });
      })
      .Case([&](arith::MinimumFOp) {
        return floats(op, [](auto a, auto b) { return smaller(a, b); });
      })
      .Case([&](math::FmaOp) {
        return floats(op, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
      })
      .Case([&](math::PowFOp) { return floats(op, [](auto a, auto b) { return std::pow(a, b); }); })
      .Case([&](math::CopySignOp) {
        return floats(op, [](auto a, auto b) { return std::copysign(a, b); });
      })
      .Case([&](math::AbsFOp) { return floats(op, [](auto a) { return std::abs(a); }); })
      .Case([&](math::SqrtOp) { return floats(op, [](auto a) { return std::sqrt(a); }); })
      .Case([&](math::FloorOp) { return floats(op, [](auto a) { return std::floor(a); }); })
      .Case([&](math::CeilOp) { return floats(op, [](auto a) { return std::ceil(a); }); })
      .Case([&](math::TruncOp) { return floats(op, [](auto a) { return std::trunc(a); }); })
      .Case([&](math::RoundEvenOp) { return floats(op, [](auto a) { return std::nearbyint(a); }); })
      // In double, whose functions are the C library's.
      .Case([&](math::ExpOp) { return floats(op, [](auto a) { return std::exp(a); }); })
      .Case([&](math::ExpM1Op) { return floats(op, [](auto a) { return std::expm1(a); }); })
      .Case([&](math::LogOp) { return floats(op, [](auto a) { return std::log(a); }); })
      .Case([&](math::Log1pOp) { return floats(op, [](auto a) { return std::log1p(a); }); })
      .Case([&](math::TanhOp) { return floats(op, [](auto a) { return std::tanh(a); }); })
      .Case([&](math::ErfOp) { return floats(op, [](auto a) { return std::erf(a); }); })
      .Case([&](arith::AddIOp) { return ints(op, [](auto a, auto b) { return a + b; }); })
      .Case([&](arith::SubIOp) { return ints(op, [](auto a, auto b) { return a - b; }); })
      .Case([&](arith::MulIOp) { return ints(op, [](auto a, auto b) { return a * b; }); })
      .Case([&](arith::AndIOp) { return ints(op, [](auto a, auto b) { return a & b; }); })
      .Case([&](arith::OrIOp) { return ints(op, [](auto a, auto b) { return a | b; }); })
      .Case([&](arith::XOrIOp) { return ints(op, [](auto a, auto b) { return a ^ b; }); })
      .Case([&](arith::ShLIOp) {
        return ints(op, [](auto a, auto b) { return b < 64 ? a << b : 0; });
      })
      .Case([&](arith::ShRUIOp) {
        const uint64_t mask = maskOf(op->getResult(0).getType().getIntOrFloatBitWidth());
        return ints(op, [mask](auto a, auto b) { return b < 64 ? (a & mask) >> b : 0; });
      })
      .Default([](Operation *) { return false; });
}

ScalarBody::ScalarBody(std::unique_ptr<Program> program) : program(std::move(program)) {}
ScalarBody::~ScalarBody() = default;
ScalarBody::ScalarBody(ScalarBody &&) noexcept = default;

/// The number of a constant of rank 0.
static TypedAttr numberOf(ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  return elements && elements.isSplat() ? cast<TypedAttr>(elements.getSplatValue<Attribute>())
                                        : TypedAttr();
}

std::optional<ScalarBody> ScalarBody::of(func::FuncOp graph, Value result) {
  MLIRContext *context = graph.getContext();
  context->loadDialect<arith::ArithDialect, math::MathDialect, func::FuncDialect>();
  auto program = std::make_unique<Program>();
  program->module = ModuleOp::create(graph.getLoc());
  OpBuilder builder(program->module->getBodyRegion());
  auto scalars = llvm::map_to_vector(graph.getArgumentTypes(),
                                     [](Type type) { return getElementTypeOrSelf(type); });
  Type element = getElementTypeOrSelf(result.getType());
  auto function = func::FuncOp::create(builder, graph.getLoc(), "body",
                                       builder.getFunctionType(scalars, element));
  program->block = function.addEntryBlock();
  builder.setInsertionPointToStart(program->block);
  IRMapping values;
  values.map(graph.getArguments(), function.getArguments());
  for (Operation &op : graph.getBody().front()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      TypedAttr number = numberOf(constant);
      if (!number)
        return std::nullopt;
      values.map(op.getResult(0),
                 arith::ConstantOp::create(builder, op.getLoc(), number).getResult());
      continue;
    }
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    if (!elementwise)
      return std::nullopt;
    auto operands = llvm::map_to_vector(op.getOperands(),
                                        [&](Value operand) { return values.lookup(operand); });
    values.map(op.getResults(), elementwise.emitBody(builder, operands));
  }
  func::ReturnOp::create(builder, graph.getLoc(), values.lookup(result));
  PassManager passes(context);
  passes.enableVerifier(false);
  passes.addPass(createExpandMathPass());
  if (failed(passes.run(*program->module)))
    return std::nullopt;
  program->result = program->block->getTerminator()->getOperand(0);
  for (Value argument : program->block->getArguments())
    program->of(argument);
  for (Operation &op : program->block->without_terminator())
    if (!program->run(&op))
      return std::nullopt;
  return ScalarBody(std::move(program));
}

std::vector<double> ScalarBody::run(const std::vector<std::vector<double>> &arguments,
                                    int64_t count) const {
  std::vector<double> results;
  results.reserve(count);
  for (int64_t begin = 0; begin < count; begin += kLanes) {
    const int64_t lanes = std::min<int64_t>(kLanes, count - begin);
    for (auto [argument, numbers] : llvm::zip_equal(program->block->getArguments(), arguments))
      std::copy_n(numbers.begin() + begin, lanes, program->of(argument).floats.begin());
    for (Operation &op : program->block->without_terminator())
      if (!isa<arith::ConstantOp>(op))
        program->run(&op);
    const std::vector<double> &found = program->of(program->result).floats;
    results.insert(results.end(), found.begin(), found.begin() + lanes);
  }
  return results;
}

} // namespace stow::onnx
