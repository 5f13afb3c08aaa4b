// Every op's gradient against central differences, in double: the loss is a fixed random weighting
// of all results, so that no element's error cancels.
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "tests/reference/Evaluator.h"
#include "tests/reference/GradientCases.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace stow::reference {
namespace {

class Graph {
public:
  explicit Graph(const GradientCase &test) {
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(
        "func.func @train(" + test.arguments + ") -> (" + test.results +
            ") attributes {stow.role = #stow.role<train>} {\n" + test.body + "\n}\n",
        &context);
    if (!module)
      return;
    train = findGraph(*module, Role::Train);
    nameArguments();
    addLoss();
    PassManager passes(&context);
    AutodiffPassOptions options;
    options.saved = test.saved;
    passes.addPass(createAutodiffPass(options));
    isBuilt = succeeded(passes.run(*module));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp train;
  bool isBuilt = false;
  /// Arguments of the case; those that weigh the results follow.
  unsigned numCaseArguments = 0;

private:
  void nameArguments() {
    numCaseArguments = train.getNumArguments();
    Builder builder(&context);
    for (BlockArgument argument : train.getArguments()) {
      unsigned index = argument.getArgNumber();
      bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument));
      train.setArgAttr(index, kNameAttr, builder.getStringAttr("arg" + std::to_string(index)));
      setKindOfArgument(train, index, isFloat ? ArgumentKind::Parameter : ArgumentKind::Input);
    }
  }

  /// loss = sum over results of sum(result * weight).
  void addLoss() {
    OpBuilder builder(train.front().getTerminator());
    Location location = builder.getUnknownLoc();
    Value loss;
    for (auto [index, result] : llvm::enumerate(resultsOf(train))) {
      Value weight =
          addKnownArgument(train, result.value.getType(), "weight" + std::to_string(index),
                           ArgumentKind::Input, {}, location);
      Value product = MulOp::create(builder, location, result.value, weight);
      auto axes = llvm::to_vector(
          llvm::seq<int64_t>(0, cast<RankedTensorType>(product.getType()).getRank()));
      Value sum = axes.empty()
                      ? product
                      : ReduceSumOp::create(builder, location, product, axes, false).getY();
      loss = loss ? AddOp::create(builder, location, loss, sum).getY() : sum;
    }
    setResults(train, {{loss, stringAttributes(&context, {{kNameAttr, "loss"}})}});
  }
};

/// Values at the centres of equal cells of [low, high], shuffled: all different, and at least half
/// a cell from 0 when the interval is symmetric and the count even.
Tensor sample(std::vector<int64_t> shape, double low, double high, std::mt19937_64 &random) {
  Tensor tensor(std::move(shape));
  double cell = (high - low) / static_cast<double>(tensor.size() + tensor.size() % 2);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.values[i] = low + cell * (static_cast<double>(i) + 0.5);
  // std::shuffle differs between libraries; this does not.
  for (int64_t i = tensor.size() - 1; i > 0; --i)
    std::swap(tensor.values[i], tensor.values[random() % (i + 1)]);
  return tensor;
}

std::vector<Tensor> sampleArguments(Graph &graph, const GradientCase &test) {
  std::mt19937_64 random(20240607);
  std::vector<Tensor> arguments;
  size_t nextInteger = 0;
  for (BlockArgument argument : graph.train.getArguments()) {
    bool isCaseArgument = argument.getArgNumber() < graph.numCaseArguments;
    if (isa<FloatType>(getElementTypeOrSelf(argument))) {
      arguments.push_back(sample(shapeOf(argument), isCaseArgument ? test.low : -1.0,
                                 isCaseArgument ? test.high : 1.0, random));
      continue;
    }
    Tensor tensor(shapeOf(argument));
    for (double &value : tensor.values)
      value = test.integers.at(nextInteger++);
    arguments.push_back(tensor);
  }
  return arguments;
}

/// Derivative of the loss by one element, by the fourth-order central difference.
double differenceQuotient(Graph &graph, std::vector<Tensor> arguments, unsigned argument,
                          int64_t element) {
  const double h = 1e-4;
  double at = arguments[argument].values[element];
  auto lossAt = [&](double x) {
    arguments[argument].values[element] = x;
    return evaluate(graph.train, arguments)[0].values[0];
  };
  return (8 * (lossAt(at + h) - lossAt(at - h)) - (lossAt(at + 2 * h) - lossAt(at - 2 * h))) /
         (12 * h);
}

class GradientTest : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientTest, AgreesWithFiniteDifferences) {
  Graph graph(GetParam());
  ASSERT_TRUE(graph.isBuilt);
  std::vector<Tensor> arguments = sampleArguments(graph, GetParam());
  std::vector<Tensor> results = evaluate(graph.train, arguments);
  llvm::StringMap<Tensor> gradients;
  for (auto [result, tensor] : llvm::zip(resultsOf(graph.train), results))
    gradients[result.get("stow.gradient_of")] = tensor;
  for (unsigned argument = 0; argument < graph.numCaseArguments; ++argument) {
    if (kindOfArgument(graph.train, argument) != ArgumentKind::Parameter)
      continue;
    auto found = gradients.find("arg" + std::to_string(argument));
    for (int64_t i = 0; i < arguments[argument].size(); ++i) {
      double expected = differenceQuotient(graph, arguments, argument, i);
      double actual = found == gradients.end() ? 0 : found->second.values[i];
      EXPECT_NEAR(actual, expected, 1e-6 * std::abs(expected) + 1e-9)
          << "argument " << argument << ", element " << i;
    }
  }
}

std::string testName(const testing::TestParamInfo<GradientCase> &info) {
  std::string name = info.param.name;
  for (char &c : name)
    if (!isalnum(c))
      c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, testing::ValuesIn(gradientCases()), testName);

/// A new op with a gradient needs a case here, but for a sum over ranks, which takes several processes: tests/e2e/devices.py compares
/// normalizations over them with those of one process.
TEST(GradientCoverage, EveryDifferentiableOpHasACase) {
  llvm::StringSet<> covered;
  for (const GradientCase &test : gradientCases()) {
    Graph graph(test);
    ASSERT_TRUE(graph.module) << test.name;
    graph.train.walk([&](Operation *op) {
      if (phaseOf(op) == Phase::Forward)
        covered.insert(op->getName().getStringRef());
    });
  }
  MLIRContext context;
  context.loadDialect<StowDialect>();
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("stow"))
    if (name.hasInterface<GradientOpInterface>() && name.getStringRef() != "stow.all_reduce") {
      EXPECT_TRUE(covered.contains(name.getStringRef())) << name.getStringRef().str();
    }
}

} // namespace
} // namespace stow::reference
