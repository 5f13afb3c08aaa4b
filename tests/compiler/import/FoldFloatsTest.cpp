// What a file computes from constants is what kernels compute from the same numbers, bit for bit and in
// every type.
#include "compiler/import/GraphImport.h"
#include "ir/StowShapeOps.h"
#include "tests/codegen/LoadedKernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace stow::onnx {
namespace {

struct FloatKind {
  ElementType type;
  const char *name;
  unsigned bytes;
};
const FloatKind kFloats[] = {{ElementType::Float, "f32", 4},
                             {ElementType::Double, "f64", 8},
                             {ElementType::Float16, "f16", 2},
                             {ElementType::BFloat16, "bf16", 2}};

/// A number of a type as its bits.
uint64_t bitsOf(double value, ElementType type) {
  const llvm::fltSemantics &form = type == ElementType::Float     ? APFloat::IEEEsingle()
                                   : type == ElementType::Double  ? APFloat::IEEEdouble()
                                   : type == ElementType::Float16 ? APFloat::IEEEhalf()
                                                                  : APFloat::BFloat();
  APFloat number(value);
  bool lost;
  number.convert(form, APFloat::rmNearestTiesToEven, &lost);
  return number.bitcastToAPInt().getZExtValue();
}

std::string bytesOf(const std::vector<double> &values, const FloatKind &kind) {
  std::string bytes(values.size() * kind.bytes, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = bitsOf(values[i], kind.type);
    std::memcpy(bytes.data() + i * kind.bytes, &bits, kind.bytes);
  }
  return bytes;
}

NodeAttribute integer(int64_t value) {
  NodeAttribute attribute;
  attribute.kind = NodeAttribute::Kind::Int;
  attribute.i = value;
  return attribute;
}

Node node(const std::string &type, const std::vector<std::string> &inputs,
          const std::string &output) {
  Node result;
  result.name = output + "." + type;
  result.type = type;
  result.inputs = inputs;
  result.outputs = {output};
  return result;
}

/// A model that computes from constants of one type.
class Constants {
public:
  explicit Constants(const FloatKind &kind) : kind(kind) {
    model.fileName = "constants.onnx";
    model.opsets[""] = 18;
    Input data;
    data.name = "data";
    data.type = ElementType::Float;
    data.dims.emplace(1);
    data.dims->front().size = 2;
    model.inputs.push_back(data);
    model.nodes.push_back(node("Relu", {"data"}, "z"));
    model.outputs = {"z"};
  }

  void constant(const std::string &name, const std::vector<double> &values) {
    Node source = node("Constant", {}, name);
    NodeAttribute value;
    value.kind = NodeAttribute::Kind::Tensor;
    value.tensor = {name,
                    kind.type,
                    {static_cast<int64_t>(values.size())},
                    std::make_shared<std::string>(bytesOf(values, kind))};
    source.attributes["value"] = value;
    model.nodes.push_back(source);
  }

  Node &add(const std::string &type, const std::vector<std::string> &inputs,
            const std::string &output) {
    model.nodes.push_back(node(type, inputs, output));
    return model.nodes.back();
  }

  /// What the file's `name` is folded to.
  DenseElementsAttr folded(const std::string &name) {
    model.outputs = {"z", name};
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = GraphImport(context, model, options).run();
    if (!module)
      throw std::runtime_error("the model cannot be imported");
    auto function = *module->getOps<func::FuncOp>().begin();
    Operation *last = function.getBody().front().getTerminator()->getOperand(1).getDefiningOp();
    auto constant = dyn_cast<ConstantOp>(last);
    if (!constant)
      throw std::runtime_error("'" + name + "' is not folded");
    return cast<DenseElementsAttr>(constant.getValue());
  }

private:
  const FloatKind kind;
  MLIRContext context;
  ImportOptions options;
  Model model;
  OwningOpRef<ModuleOp> module;
};

/// Numbers of every sign and size, with the special ones.
std::vector<double> someNumbers() {
  std::vector<double> numbers = {0.0, -0.0, 1,  -1,  INFINITY, -INFINITY, NAN, 0.5,
                                 2,   8,    16, 128, 1e-3,     65504,     -88, 88};
  uint64_t state = 7;
  while (numbers.size() < 2048) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const double part = static_cast<double>(state >> 11) / double(uint64_t(1) << 53);
    numbers.push_back(std::ldexp(part - 0.5, static_cast<int>(state % 17) - 6));
  }
  return numbers;
}

struct Function {
  const char *type, *op;
  std::string attributes = "";
};
const Function kUnary[] = {{"Exp", "exp"},
                           {"Log", "log"},
                           {"Tanh", "tanh"},
                           {"Sigmoid", "sigmoid"},
                           {"Sin", "sin"},
                           {"Cos", "cos"},
                           {"Sqrt", "sqrt"},
                           {"Reciprocal", "reciprocal"},
                           {"Abs", "abs"},
                           {"Neg", "neg"},
                           {"Sign", "sign"},
                           {"Floor", "round", "{mode = \"floor\"} "},
                           {"Ceil", "round", "{mode = \"ceil\"} "},
                           {"Round", "round", "{mode = \"even\"} "}};
const Function kBinary[] = {{"Add", "add"}, {"Sub", "sub"},     {"Mul", "mul"},    {"Div", "div"},
                            {"Pow", "pow"}, {"Max", "maximum"}, {"Min", "minimum"}};

class Fold : public testing::TestWithParam<FloatKind> {
protected:
  /// The kernels of these ops over `count` numbers of the type, two operands where they are `binary`.
  std::string graph(llvm::ArrayRef<Function> functions, bool binary, size_t count) const {
    const std::string type = "tensor<" + std::to_string(count) + "x" + GetParam().name + ">";
    std::string text = "func.func @g(%a: " + type + ", %b: " + type + ") {\n";
    for (size_t i = 0; i < functions.size(); ++i)
      text += "  %" + std::to_string(i) + " = stow." + functions[i].op +
              (binary ? " %a, %b " : " %a ") + functions[i].attributes + ": (" + type +
              (binary ? ", " + type : "") + ") -> " + type + "\n";
    return text + "  return\n}";
  }

  /// Every element has the kernel's bits; NaN may have others. Processors with AVX512_BF16 round to bf16 by an instruction that takes what is
  /// too small for a normal number as zero (VCVTNEPS2BF16 in Intel's Software Developer's Manual).
  void expectBits(DenseElementsAttr folded, const std::string &kernel,
                  const std::string &what) const {
    const FloatKind &kind = GetParam();
    int64_t i = 0;
    for (const APFloat &number : folded.getValues<APFloat>()) {
      uint64_t bits = 0;
      std::memcpy(&bits, kernel.data() + i * kind.bytes, kind.bytes);
      const APFloat computed(number.getSemantics(), APInt(kind.bytes * 8, bits));
      const bool isFlushed = kind.name == std::string("bf16") && number.isDenormal() &&
                             computed.isZero() && number.isNegative() == computed.isNegative();
      ASSERT_TRUE(number.isNaN() ? computed.isNaN() : isFlushed || number.bitwiseIsEqual(computed))
          << what << " of " << kind.name << ", element " << i << ": folded to "
          << number.convertToDouble() << ", the kernel computes " << computed.convertToDouble();
      ++i;
    }
    ASSERT_EQ(i * kind.bytes, static_cast<int64_t>(kernel.size()));
  }
};

TEST_P(Fold, FunctionsAsKernels) {
  const FloatKind &kind = GetParam();
  const std::vector<double> numbers = someNumbers();
  std::string a = bytesOf(numbers, kind), y(a.size(), '\0');
  Constants file(kind);
  file.constant("a", numbers);
  for (const Function &function : kUnary)
    file.add(function.type, {"a"}, function.type);
  LoadedKernels kernels(graph(kUnary, false, numbers.size()));
  for (size_t i = 0; i < std::size(kUnary); ++i) {
    kernels.run(i, {a.data(), y.data()});
    expectBits(file.folded(kUnary[i].type), y, kUnary[i].type);
  }
}

TEST_P(Fold, ArithmeticAsKernels) {
  const FloatKind &kind = GetParam();
  const std::vector<double> numbers = someNumbers();
  std::vector<double> others(numbers.rbegin(), numbers.rend());
  std::string a = bytesOf(numbers, kind), b = bytesOf(others, kind), y(a.size(), '\0');
  Constants file(kind);
  file.constant("a", numbers);
  file.constant("b", others);
  for (const Function &function : kBinary)
    file.add(function.type, {"a", "b"}, function.type);
  LoadedKernels kernels(graph(kBinary, true, numbers.size()));
  for (size_t i = 0; i < std::size(kBinary); ++i) {
    kernels.run(i, {a.data(), b.data(), y.data()});
    expectBits(file.folded(kBinary[i].type), y, kBinary[i].type);
  }
}

/// A position's bucket, as relative attention counts them: log(x / 8) / log(16) * 8 without its fraction.
TEST_P(Fold, LogarithmBeforeTruncation) {
  const FloatKind &kind = GetParam();
  std::vector<double> positions;
  for (int i = 8; i < 136; ++i)
    positions.push_back(i);
  const size_t count = positions.size();
  Constants file(kind);
  file.constant("x", positions);
  file.constant("eight", {8});
  file.constant("whole", {std::log(16.0)});
  file.add("Div", {"x", "eight"}, "share");
  file.add("Log", {"share"}, "log");
  file.add("Div", {"log", "whole"}, "part");
  file.add("Mul", {"part", "eight"}, "place");
  file.add("Cast", {"place"}, "bucket").attributes["to"] = integer(int64_t(ElementType::Int64));
  const DenseElementsAttr buckets = file.folded("bucket");

  const std::string many = "tensor<" + std::to_string(count) + "x" + kind.name + ">",
                    one = std::string("tensor<1x") + kind.name + ">";
  const std::string wide = "(" + many + ", " + one + ") -> " + many;
  LoadedKernels kernels("func.func @g(%x: " + many + ", %e: " + one + ", %s: " + one +
                        ") {\n  %0 = stow.div %x, %e : " + wide + "\n  %1 = stow.log %0 : (" +
                        many + ") -> " + many + "\n  %2 = stow.div %1, %s : " + wide +
                        "\n  %3 = stow.mul %2, %e : " + wide + "\n  %4 = stow.cast %3 : (" + many +
                        ") -> tensor<" + std::to_string(count) + "xi64>\n  return\n}");
  std::string x = bytesOf(positions, kind), eight = bytesOf({8}, kind),
              whole = bytesOf({std::log(16.0)}, kind);
  std::string share(x.size(), '\0'), log = share, part = share, place = share;
  std::vector<int64_t> found(count);
  kernels.run(0, {x.data(), eight.data(), share.data()});
  kernels.run(1, {share.data(), log.data()});
  kernels.run(2, {log.data(), whole.data(), part.data()});
  kernels.run(3, {part.data(), eight.data(), place.data()});
  kernels.run(4, {place.data(), found.data()});
  const std::vector<int64_t> folded(buckets.getValues<int64_t>().begin(),
                                    buckets.getValues<int64_t>().end());
  EXPECT_EQ(folded, found);
  // Position 16: in float32 the quotient is exactly a quarter, in double with float32's logarithm a little less.
  if (kind.type == ElementType::Float) {
    EXPECT_EQ(folded[8], 2);
    EXPECT_EQ(std::trunc(std::log(2.0) / float(std::log(16.0)) * 8), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fold, testing::ValuesIn(kFloats),
                         [](const testing::TestParamInfo<FloatKind> &info) {
                           return std::string(info.param.name);
                         });

Literal whole(ElementType type, std::vector<int64_t> values) {
  Literal result = Literal::vector(std::move(values));
  result.type = type;
  return result;
}

/// The integers that an operator gives for two constants of a type.
std::vector<int64_t> computed(const std::string &op, ElementType type, std::vector<int64_t> a,
                              std::vector<int64_t> b, bool fmod = false) {
  Node site = node(op, {"a", "b"}, "y");
  site.attributes["fmod"] = integer(fmod);
  const Literal left = whole(type, std::move(a)), right = whole(type, std::move(b));
  return fold(site, {&left, &right})->front().ints;
}

TEST(FoldLiteralTest, IntegersWrapAround) {
  using T = ElementType;
  using testing::ElementsAre;
  constexpr int64_t least = std::numeric_limits<int64_t>::min(),
                    most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(computed("Add", T::Int8, {127, -100}, {1, -100}), ElementsAre(-128, 56));
  EXPECT_THAT(computed("Add", T::UInt8, {200, 255}, {100, 1}), ElementsAre(44, 0));
  EXPECT_THAT(computed("Sub", T::UInt16, {0}, {1}), ElementsAre(65535));
  EXPECT_THAT(computed("Mul", T::Int16, {300}, {300}), ElementsAre(24464));
  EXPECT_THAT(computed("Mul", T::Int32, {65536, 1 << 30}, {65536, 2}), ElementsAre(0, -2147483648));
  EXPECT_THAT(computed("Sub", T::UInt32, {0}, {1}), ElementsAre(4294967295));
  EXPECT_THAT(computed("Add", T::Int64, {most}, {1}), ElementsAre(least));
  EXPECT_THAT(computed("Div", T::Int64, {least, -7, 7}, {-1, 2, -2}), ElementsAre(least, -3, -3));
  EXPECT_THAT(computed("Div", T::UInt64, {-2}, {2}), ElementsAre(most));
  EXPECT_THAT(computed("Mod", T::Int32, {-7, 7, 7, least + most}, {3, -3, 3, 5}),
              ElementsAre(2, -2, 1, 4));
  EXPECT_THAT(computed("Mod", T::Int32, {-7, 7}, {3, -3}, /*fmod=*/true), ElementsAre(-1, 1));
  EXPECT_THAT(computed("Pow", T::Int64, {3, -1, 2, 2}, {40, 3, 63, -1}),
              ElementsAre(int64_t(12157665459056928801u), -1, least, 0));
  EXPECT_THAT(computed("Max", T::UInt64, {-1, 1}, {1, 2}), ElementsAre(-1, 2));
  EXPECT_THAT(computed("Greater", T::UInt64, {-1}, {1}), ElementsAre(1));
  // Doubles would not tell these apart.
  EXPECT_THAT(computed("Less", T::Int64, {most - 1}, {most}), ElementsAre(1));
  EXPECT_THAT(computed("Equal", T::Int64, {most - 1}, {most}), ElementsAre(0));
}

TEST(FoldLiteralTest, CastsRoundToEveryType) {
  auto floats = [](std::vector<double> values, ElementType to) {
    return castLiteral({ElementType::Double, {int64_t(values.size())}, {}, values}, to);
  };
  using T = ElementType;
  using testing::ElementsAre;
  EXPECT_THAT(floats({0.1, 1e39}, T::Float).floats, ElementsAre(double(0.1f), INFINITY));
  EXPECT_THAT(floats({0.1, 65519, 65520, 1e-8, 6e-8}, T::Float16).floats,
              ElementsAre(0.0999755859375, 65504, INFINITY, 0, 5.9604644775390625e-08));
  EXPECT_THAT(floats({0.1, 257, 3.4e38}, T::BFloat16).floats,
              ElementsAre(0.10009765625, 256, INFINITY));
  EXPECT_THAT(floats({-1.9, 300, 3e9, NAN}, T::Int32).ints,
              ElementsAre(-1, 300, INT32_MIN, INT32_MIN));
  EXPECT_THAT(floats({300, -1.5}, T::UInt8).ints, ElementsAre(44, 255));
  EXPECT_THAT(floats({1e19}, T::UInt64).ints, ElementsAre(int64_t(10000000000000000000u)));
  EXPECT_THAT(castLiteral(whole(T::Int64, {300, -1}), T::Int8).ints, ElementsAre(44, -1));
  EXPECT_THAT(castLiteral(whole(T::Int64, {16777217, (int64_t(1) << 24) + 3}), T::Float).floats,
              ElementsAre(16777216, 16777220));
  EXPECT_THAT(castLiteral(whole(T::UInt64, {-1}), T::Double).floats,
              ElementsAre(18446744073709551616.0));
}

} // namespace
} // namespace stow::onnx
