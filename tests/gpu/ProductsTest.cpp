// Matrix products of programs on the stand-ins for libcuda and cuBLASLt: bound, run, with what cuBLASLt does to
// them before it writes them, and held to plain loops; what it does not take is refused.
#include "runtime/cuda/Products.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/ProductEpilogue.h"
#include "tests/gpu/StandInArena.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace stow::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRows = 6, kColumns = 16, kInner = 5;
constexpr Bytes kStep = 4096; ///< between operands

enum class Extra : uint8_t { None, Bias, Added, Both, Preactivation };

struct Case {
  std::string name;
  ProductFunction function;
  Extra extra;
  DType factors, result;
  bool transposed = false;
};

Operand operandAt(size_t number, DType type, Shape shape) {
  return {static_cast<Bytes>(number) * kStep, type, std::move(shape), {}};
}

/// a b with what the case adds, as the compiler writes it down.
Command commandOf(const Case &of) {
  Command command;
  command.op = CommandOp::CudaMatmulEpilogue;
  command.name = "/fc";
  command.ints["transpose_a"] = {of.transposed};
  command.ints["transpose_b"] = {of.transposed};
  auto turned = [&](int64_t rows, int64_t columns) {
    return of.transposed ? Shape{columns, rows} : Shape{rows, columns};
  };
  command.operands = {operandAt(0, of.factors, turned(kRows, kInner)),
                      operandAt(1, of.factors, turned(kInner, kColumns))};
  ProductEpilogue epilogue;
  epilogue.function = of.function;
  auto add = [&](Shape shape) {
    command.operands.push_back(operandAt(command.operands.size(), of.result, std::move(shape)));
    return command.operands.size() - 1;
  };
  if (of.extra == Extra::Bias || of.extra == Extra::Both)
    epilogue.bias = add({kColumns});
  if (of.extra == Extra::Added || of.extra == Extra::Both)
    epilogue.added = add({kRows, kColumns});
  if (of.extra == Extra::Preactivation)
    epilogue.preactivation = add({kRows, kColumns});
  add({kRows, kColumns});
  setEpilogue(command, epilogue);
  return command;
}

/// Eighths from -2 to 2, exact in all types.
std::vector<double> someNumbers(size_t count, uint64_t seed) {
  std::vector<double> values(count);
  for (double &value : values) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    value = static_cast<double>(seed >> 59) / 8 - 2;
  }
  return values;
}

/// By erf's place is tanh, and the gradient is taken by differences: not the stand-in's formulas.
double gelu(double x) {
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
  return x / (1 + std::exp(-2 * inner));
}
double geluGradient(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

class ProductStandIn : public StandInArena {
protected:
  /// Fills every operand, and gives what it holds.
  std::vector<std::vector<double>> uploadNumbers(const Command &command) {
    std::vector<std::vector<double>> values;
    for (const Operand &operand : command.operands) {
      values.push_back(
          someNumbers(static_cast<size_t>(elementCount(operand.shape)), values.size() + 1));
      upload(operand, values.back());
    }
    return values;
  }
  std::string refusalOf(const Command &command) {
    try {
      bindProduct(command, arena)->submit(stream);
    } catch (const Error &error) {
      return error.what();
    }
    return "nothing was refused";
  }
};

class ProductStandInRuns : public ProductStandIn, public testing::WithParamInterface<Case> {};

TEST_P(ProductStandInRuns, AsPlainLoops) {
  const Case &of = GetParam();
  const Command command = commandOf(of);
  const ProductEpilogue epilogue = epilogueOf(command);
  const std::vector<std::vector<double>> values = uploadNumbers(command);
  bindProduct(command, arena)->submit(stream);
  const std::vector<double> found = download(command.operands.back());
  const double tolerance = of.result == DType::F32 ? 1e-6 : of.result == DType::F16 ? 1e-3 : 8e-3;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      const auto at = static_cast<size_t>(i * kColumns + j);
      double sum = 0;
      for (int64_t k = 0; k < kInner; ++k)
        sum += values[0][static_cast<size_t>(of.transposed ? k * kRows + i : i * kInner + k)] *
               values[1][static_cast<size_t>(of.transposed ? j * kInner + k : k * kColumns + j)];
      if (epilogue.bias)
        sum += values[*epilogue.bias][static_cast<size_t>(j)];
      if (epilogue.added)
        sum += values[*epilogue.added][at];
      const double expected = of.function == ProductFunction::Relu   ? (sum > 0 ? sum : 0)
                              : of.function == ProductFunction::Gelu ? gelu(sum)
                              : of.function == ProductFunction::GeluGradient
                                  ? sum * geluGradient(values[*epilogue.preactivation][at])
                                  : sum;
      ASSERT_NEAR(found[at], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "row " << i << ", column " << j;
    }
}

std::vector<Case> allCases() {
  using enum ProductFunction;
  std::vector<Case> cases;
  for (auto [types, factors, result] :
       {std::tuple("F32", DType::F32, DType::F32), std::tuple("Bf16", DType::BF16, DType::BF16),
        std::tuple("F16", DType::F16, DType::F16),
        std::tuple("Bf16IntoF32", DType::BF16, DType::F32)}) {
    const std::string name = types;
    cases.push_back({name + "Bias", None, Extra::Bias, factors, result});
    cases.push_back({name + "BiasAdded", None, Extra::Both, factors, result});
    cases.push_back({name + "Relu", Relu, Extra::None, factors, result});
    cases.push_back({name + "ReluBias", Relu, Extra::Bias, factors, result});
    cases.push_back({name + "ReluAdded", Relu, Extra::Added, factors, result});
    cases.push_back({name + "Gelu", Gelu, Extra::None, factors, result});
    cases.push_back({name + "GeluBiasTransposed", Gelu, Extra::Bias, factors, result, true});
    cases.push_back({name + "GeluGradient", GeluGradient, Extra::Preactivation, factors, result});
    cases.push_back({name + "GeluGradientTransposed", GeluGradient, Extra::Preactivation, factors,
                     result, true});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, ProductStandInRuns, testing::ValuesIn(allCases()),
                         [](const auto &info) { return info.param.name; });

/// a b, added to something if `isAdded`, with sums of the rows of b, or, where both are transposed, of a.
Command sumsCommand(bool isTransposed, bool isAdded, DType factors, DType result) {
  Command command = commandOf({"", ProductFunction::None, isAdded ? Extra::Added : Extra::None,
                               factors, result, isTransposed});
  command.op = isAdded ? CommandOp::CudaMatmulAdd : CommandOp::CudaMatmul;
  command.ints.erase("function");
  command.operands.push_back(
      operandAt(command.operands.size(), result, {isTransposed ? kRows : kColumns}));
  setSum(command, isTransposed ? 0 : 1);
  return command;
}

// Tests that the product is what it is without them, and that the sums add to nothing that was there.
TEST_F(ProductStandIn, SumsRowsBesideAProduct) {
  for (auto [factors, result] :
       {std::pair(DType::F32, DType::F32), std::pair(DType::BF16, DType::F32),
        std::pair(DType::BF16, DType::BF16), std::pair(DType::F16, DType::F32)})
    for (const bool isTransposed : {false, true})
      for (const bool isAdded : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << nameOf(factors) << " into " << nameOf(result)
                     << (isTransposed ? ", transposed" : "") << (isAdded ? ", added" : ""));
        const Command command = sumsCommand(isTransposed, isAdded, factors, result);
        const std::vector<std::vector<double>> values = uploadNumbers(command);
        bindProduct(command, arena)->submit(stream);
        const std::vector<double> sums = download(command.operands.back());
        const std::vector<double> &summed = values[isTransposed ? 0 : 1];
        for (size_t i = 0; i < sums.size(); ++i) {
          double expected = 0;
          for (size_t k = 0; k < kInner; ++k)
            expected += summed[k * sums.size() + i];
          EXPECT_EQ(sums[i], expected) << i; // a few eighths are exact in all types
        }
        Command alone = command;
        alone.operands.pop_back();
        alone.ints.erase("summed");
        const std::vector<double> with = download(alone.operands.back());
        bindProduct(alone, arena)->submit(stream);
        EXPECT_EQ(with, download(alone.operands.back()));
      }
}

// Tests what sums are refused for: a place of their own and the product's type they have, and nothing else is done
// to the product.
TEST_F(ProductStandIn, RefusesSums) {
  const Command fine = sumsCommand(false, false, DType::BF16, DType::F32);
  Command command = fine;
  command.operands.back().offset += 8;
  EXPECT_THAT(refusalOf(command), HasSubstr("expected the sums at a multiple of 16 bytes"));
  command = fine;
  command.operands.back().dtype = DType::BF16;
  EXPECT_THAT(refusalOf(command), HasSubstr("product of node '/fc' with sums of rows: cuBLASLt "
                                            "has nothing for it within"));
  for (const Operand &other : fine.operands) {
    command = fine;
    command.operands.back().offset = other.offset;
    EXPECT_THAT(refusalOf(command), &other == &fine.operands.back()
                                        ? HasSubstr("nothing was refused")
                                        : HasSubstr("invalid value"));
  }
  command = fine;
  command.ints["function"] = {static_cast<int64_t>(ProductFunction::Relu)};
  EXPECT_THAT(refusalOf(command),
              HasSubstr("sums of a factor's rows go with no function and no bias"));
  command = fine;
  for (Operand &operand : command.operands)
    operand.shape.insert(operand.shape.begin(), 3);
  command.operands.back().shape = {kColumns};
  EXPECT_THAT(refusalOf(command), HasSubstr("expected one matrix whose rows are summed"));
}

// Tests that a result written over the end of a factor, which is still read then, is none, and one right behind it is.
TEST_F(ProductStandIn, ResultsOverFactorsAreNone) {
  for (const bool isOver : {true, false}) {
    Command command = commandOf({"", ProductFunction::None, Extra::Bias, DType::F32, DType::F32});
    for (size_t operand : {0, 1, 2})
      upload(command.operands[operand],
             someNumbers(static_cast<size_t>(elementCount(command.operands[operand].shape)), 1));
    const Bytes end = command.operands[1].offset + kInner * kColumns * 4;
    command.operands.back().offset = isOver ? end - 16 : end;
    bindProduct(command, arena)->submit(stream);
    const std::vector<double> found = download(command.operands.back());
    EXPECT_EQ(std::ranges::any_of(found, [](double value) { return std::isnan(value); }), isOver);
  }
}

// Tests what cublasLt.h asks of an epilogue's operands: said before the library is asked.
TEST_F(ProductStandIn, RefusesOperandsOutOfPlace) {
  Command bias = commandOf({"", ProductFunction::Relu, Extra::Bias, DType::F32, DType::F32});
  bias.operands[2].offset += 8;
  EXPECT_THAT(refusalOf(bias),
              AllOf(HasSubstr("product of node '/fc': expected the bias at a multiple of 16 bytes"),
                    HasSubstr("offset 8200 of the arena")));
  Command gradient =
      commandOf({"", ProductFunction::GeluGradient, Extra::Preactivation, DType::F32, DType::F32});
  gradient.operands[2].offset += 4;
  EXPECT_THAT(refusalOf(gradient),
              HasSubstr("expected the preactivation at a multiple of 16 bytes"));
  Command narrow =
      commandOf({"", ProductFunction::GeluGradient, Extra::Preactivation, DType::F32, DType::F32});
  for (size_t operand : {1, 2, 3})
    narrow.operands[operand].shape.back() = 12;
  EXPECT_THAT(refusalOf(narrow), AllOf(HasSubstr("rows that begin at multiples of 8 elements"),
                                       HasSubstr("steps of 12 and 1")));
}

// What is chosen for one question is run for all calls that ask it: all that the library may decide by is in it.
TEST_F(ProductStandIn, AsksAnotherQuestionForAnotherPreactivation) {
  const Command gradient =
      commandOf({"", ProductFunction::GeluGradient, Extra::Preactivation, DType::F32, DType::F32});
  Command wide = gradient;
  wide.operands[2].layout.pitch = Layout::Pitch{1, 2 * kColumns};
  EXPECT_EQ(bindProduct(gradient, arena)->question(), bindProduct(gradient, arena)->question());
  EXPECT_NE(bindProduct(gradient, arena)->question(), bindProduct(wide, arena)->question());
}

// Tests that the library refuses a bias of another type than the result's, and a result written over what
// GELU's gradient is taken at, which its documentation does not allow.
// A product that has another form is none where the library has no algorithm; one that has none is an error.
TEST_F(ProductStandIn, SaysWhatItHasNoAlgorithmFor) {
  const Command command =
      commandOf({"", ProductFunction::Relu, Extra::Bias, DType::F32, DType::F32});
  EXPECT_TRUE(bindProductIfAny(command, arena));
  setenv("STANDIN_CUBLASLT_WITHOUT", "4,6", 1);
  EXPECT_FALSE(bindProductIfAny(command, arena));
  EXPECT_THAT(refusalOf(command), HasSubstr("with bias, relu: cuBLASLt has nothing for it"));
  setenv("STANDIN_CUBLASLT_WITHOUT", "66", 1);
  EXPECT_TRUE(bindProductIfAny(command, arena));
  unsetenv("STANDIN_CUBLASLT_WITHOUT");
}

// Tests that every GPU's products have a handle of its own, which is gone with them: the context that comes next has another.
TEST_F(ProductStandIn, HandlesOfTwoGpus) {
  const Command command =
      commandOf({"", ProductFunction::None, Extra::Bias, DType::F32, DType::F32});
  const auto product = bindProduct(command, arena);
  for (int round = 0; round < 2; ++round)
    onSecondGpu([&](Stream there) {
      EXPECT_NO_THROW(bindProduct(command, arena)->submit(there));
      EXPECT_THROW(product->submit(there), Error);
    });
  EXPECT_NO_THROW(product->submit(stream));
}

TEST_F(ProductStandIn, RefusesWhatTheLibraryDoes) {
  Command bias = commandOf({"", ProductFunction::None, Extra::Bias, DType::BF16, DType::BF16});
  bias.operands[2].dtype = DType::F32;
  EXPECT_THAT(refusalOf(bias), HasSubstr("with bias: cuBLASLt has nothing for it"));
  Command over =
      commandOf({"", ProductFunction::GeluGradient, Extra::Preactivation, DType::F32, DType::F32});
  over.operands[3].offset = over.operands[2].offset;
  EXPECT_THAT(refusalOf(over), HasSubstr("invalid value"));
}

} // namespace
} // namespace stow::cuda
