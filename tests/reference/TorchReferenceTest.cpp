// Forward, gradient, loss and optimizer against PyTorch's numbers. Operators come in through the
// ONNX importer, so that a case covers its conversion, the op's meaning and its gradient.
#include "tests/reference/TorchReference.h"
#include "codegen/Backend.h"
#include "compiler/import/Import.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "runtime/format/Loss.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

using namespace mlir;

namespace stow::reference {
namespace {

/// Constants of f32 graphs are rounded to f32, hence not 1e-12.
void expectClose(const Tensor &actual, const Tensor &expected, const std::string &what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  double largest = 0;
  for (double value : expected.values)
    largest = std::max(largest, std::abs(value));
  for (int64_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual.values[i], expected.values[i], 2e-7 * largest + 1e-12)
        << what << ", element " << i;
}

LogicalResult runPasses(ModuleOp module, const std::function<void(PassManager &)> &add) {
  PassManager passes(module.getContext());
  add(passes);
  return passes.run(module);
}

/// Arguments of `graph` by name from the reference's arrays and `others`.
std::vector<Tensor> argumentsFor(func::FuncOp graph, const TorchReference &reference,
                                 const std::map<std::string, Tensor> &others = {}) {
  std::vector<Tensor> arguments;
  for (BlockArgument argument : graph.getArguments()) {
    std::string name = argumentAttr(graph, argument.getArgNumber(), kNameAttr).str();
    arguments.push_back(others.contains(name) ? others.at(name) : reference.arrays.at(name));
  }
  return arguments;
}

/// Values of a graph's results under "loss", "<name>", "<state>" and "<parameter>.grad".
std::map<std::string, Tensor> evaluateByName(func::FuncOp graph, std::vector<Tensor> arguments) {
  std::map<std::string, Tensor> named;
  std::vector<Tensor> values = evaluate(graph, std::move(arguments));
  for (auto [result, value] : llvm::zip(resultsOf(graph), values)) {
    StringRef state = result.get(kStateAttr);
    named[(state.empty() ? result.get(kNameAttr) : state).str()] = value;
  }
  return named;
}

class TorchReferenceTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    context.loadDialect<StowDialect, func::FuncDialect>();
    reference = loadTorchReference(GetParam());
  }

  /// A module from text in which TYPE stands for the type of `array`.
  void parse(std::string text, const std::string &array) {
    std::string type = "tensor<";
    for (int64_t extent : reference.arrays.at(array).shape)
      type += std::to_string(extent) + "x";
    type += "f32>";
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
      text.replace(at, 4, type);
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }

  double setting(const char *name, double otherwise) const {
    return reference.attributes.value(name, otherwise);
  }

  void checkOperator();
  void checkLoss();
  void checkOptimizer();

  MLIRContext context;
  TorchReference reference;
  OwningOpRef<ModuleOp> module;
};

/// Imports the reference's model through a file of its own.
OwningOpRef<ModuleOp> importModel(MLIRContext &context, const TorchReference &reference) {
  auto path = std::filesystem::temp_directory_path() /
              ("stow_reference_" + std::to_string(getpid()) + "_" + reference.name + ".onnx");
  std::ofstream(path, std::ios::binary) << reference.model;
  ImportOptions options;
  if (reference.attributes.value("training", false)) // its running statistics are state
    options.dataInputs = {"in0", "in1", "in2"};
  auto module = importOnnx(context, path.string(), options);
  std::filesystem::remove(path);
  return module;
}

/// loss = sum(first result * dout); every float input is differentiated.
void attachCotangent(func::FuncOp train) {
  for (unsigned i = 0; i < train.getNumArguments(); ++i)
    if (kindOfArgument(train, i) == ArgumentKind::Input &&
        isa<FloatType>(getElementTypeOrSelf(train.getArgument(i))))
      setKindOfArgument(train, i, ArgumentKind::Parameter);
  SmallVector<GraphResult> results = resultsOf(train);
  OpBuilder builder(train.front().getTerminator());
  Location location = builder.getUnknownLoc();
  Value output = results.front().value;
  Value cotangent =
      addKnownArgument(train, output.getType(), "dout0", ArgumentKind::Input, {}, location);
  Value loss = MulOp::create(builder, location, output, cotangent);
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, cast<RankedTensorType>(loss.getType()).getRank()));
  if (!axes.empty())
    loss = ReduceSumOp::create(builder, location, loss, axes, false);
  results.insert(results.begin(),
                 {loss, stringAttributes(train.getContext(), {{kNameAttr, "loss"}})});
  setResults(train, results);
}

void TorchReferenceTest::checkOperator() {
  module = importModel(context, reference);
  ASSERT_TRUE(module);
  const std::unique_ptr<Backend> backend = createBackend({});
  SplitTrainEvalPassOptions split;
  split.freezeBatchNorm = !reference.attributes.value("training", false);
  ASSERT_TRUE(succeeded(runPasses(*module, [&](PassManager &passes) {
    passes.addPass(createSplitTrainEvalPass(backend->target(), split));
  })));
  auto train = findGraph(*module, Role::Train);
  std::string output = resultsOf(train).front().get(kNameAttr).str();
  attachCotangent(train);
  ASSERT_TRUE(succeeded(
      runPasses(*module, [](PassManager &passes) { passes.addPass(createAutodiffPass()); })));
  auto values = evaluateByName(train, argumentsFor(train, reference));
  expectClose(values.at(output), reference.arrays.at("out0"), "out0");
  if (reference.has("out1")) { // batch normalization: running statistics
    expectClose(values.at("in3"), reference.arrays.at("out1"), "running mean");
    expectClose(values.at("in4"), reference.arrays.at("out2"), "running variance");
  }
  for (int i = 0; reference.has("in" + std::to_string(i)); ++i) {
    std::string operand = std::to_string(i);
    if (!reference.has("din" + operand))
      continue;
    auto gradient = values.find("in" + operand + ".grad");
    ASSERT_NE(gradient, values.end()) << "no gradient of in" << i;
    expectClose(gradient->second, reference.arrays.at("din" + operand), "din" + operand);
  }
}

void TorchReferenceTest::checkLoss() {
  parse(R"(func.func @train(%x: TYPE {stow.name = "in0", stow.kind = #stow.kind<parameter>})
      -> (TYPE {stow.name = "y"}) attributes {stow.role = #stow.role<train>} { return %x : TYPE })",
        "in0");
  AttachLossPassOptions options;
  if (reference.attributes.contains("loss")) {
    options.loss = parseLoss(reference.attributes["loss"].get<std::string>());
  } else {
    options.loss = parseLoss((reference.attributes["op"] == "mse" ? "mse" : "cross-entropy") +
                             std::string(":reduction=") +
                             reference.attributes["reduction"].get<std::string>());
    options.loss.ignoreIndex = reference.attributes.value("ignore_index", -100);
  }
  ASSERT_TRUE(succeeded(runPasses(*module, [&](PassManager &passes) {
    passes.addPass(createAttachLossPass(options));
    passes.addPass(createAutodiffPass());
  })));
  auto train = findGraph(*module, Role::Train);
  std::map<std::string, Tensor> others = {{"target", reference.arrays.at("in1")}};
  for (auto [name, numbers] : {std::pair("loss.weight", &options.loss.weight),
                               std::pair("loss.pos-weight", &options.loss.positiveWeight)})
    others[name] = Tensor({static_cast<int64_t>(numbers->size())},
                          std::vector<double>(numbers->begin(), numbers->end()));
  auto values = evaluateByName(train, argumentsFor(train, reference, others));
  expectClose(values.at("loss"), reference.arrays.at("out0"), "loss");
  Tensor gradient = values.at("in0.grad");
  for (double &value : gradient.values)
    value *= reference.arrays.at("dout0").values[0];
  expectClose(gradient, reference.arrays.at("din0"), "din0");
}

/// Part `step` of an array [steps, ...].
Tensor part(const Tensor &array, int64_t step) {
  std::vector<int64_t> shape(array.shape.begin() + 1, array.shape.end());
  int64_t n = array.size() / array.shape[0];
  auto begin = array.values.begin() + step * n;
  return {shape, std::vector<double>(begin, begin + n)};
}

/// The pass's options for the settings of a PyTorch optimizer.
AttachOptimizerPassOptions optimizerOptions(const nlohmann::json &settings) {
  AttachOptimizerPassOptions options;
  OptimizerSpec &optimizer = options.optimizer;
  optimizer = parseOptimizer(settings["op"].get<std::string>());
  auto take = [&](const char *name, double &option) {
    if (settings.contains(name))
      option = settings[name];
  };
  take("momentum", optimizer.momentum);
  take("weight_decay", optimizer.weightDecay);
  take("alpha", optimizer.alpha);
  take("lr_decay", optimizer.rateDecay);
  take("initial_accumulator_value", optimizer.initialSum);
  take("beta2_decay", optimizer.beta2Decay);
  take("d", optimizer.threshold);
  optimizer.nesterov = settings.value("nesterov", false);
  optimizer.amsgrad = settings.value("amsgrad", false);
  optimizer.centered = settings.value("centered", false);
  if (settings.contains("betas")) {
    optimizer.beta1 = settings["betas"][0];
    optimizer.beta2 = settings["betas"][1];
  }
  if (optimizer.kind != OptimizerSpec::Kind::Adafactor) {
    take("eps", optimizer.epsilon);
  } else if (settings.contains("eps")) {
    optimizer.epsilon1 = settings["eps"][0].get<double>();
    optimizer.epsilon2 = settings["eps"][1];
  } else {
    optimizer.epsilon1 = std::numeric_limits<double>::epsilon(); // the references are float64
  }
  return options;
}

void TorchReferenceTest::checkOptimizer() {
  parse(R"(func.func @train(%w: TYPE {stow.name = "in0", stow.kind = #stow.kind<parameter>},
        %g: TYPE {stow.name = "gradient", stow.kind = #stow.kind<input>})
      -> (TYPE {stow.name = "in0.grad", stow.gradient_of = "in0"}) attributes {stow.role = #stow.role<train>} { return %g : TYPE })",
        "in0");
  ASSERT_TRUE(succeeded(runPasses(*module, [&](PassManager &passes) {
    passes.addPass(createAttachOptimizerPass(optimizerOptions(reference.attributes)));
  })));
  auto train = findGraph(*module, Role::Train);
  std::map<std::string, Tensor> state;
  for (BlockArgument argument : train.getArguments()) {
    std::string name = argumentAttr(train, argument.getArgNumber(), kNameAttr).str();
    auto init = train.getArgAttrOfType<InitAttr>(argument.getArgNumber(), kInitAttr);
    state[name] = Tensor(shapeOf(argument), init ? init.getA().convertToDouble() : 0);
  }
  std::vector<std::string> names;
  for (const GraphResult &result : resultsOf(train))
    names.push_back(result.get(kStateAttr).str());
  EXPECT_FALSE(reference.has("out" + std::to_string(names.size())));
  state["in0"] = reference.arrays.at("in0");
  state["learning_rate"] = Tensor({}, std::vector<double>{setting("lr", 0)});
  for (int64_t step = 0; step < 5; ++step) {
    state["gradient"] = part(reference.arrays.at("in1"), step);
    state["step"] = Tensor({}, std::vector<double>{static_cast<double>(step + 1)});
    for (auto &[name, value] : evaluateByName(train, argumentsFor(train, reference, state)))
      state[name] = value;
    for (size_t i = 0; i < names.size(); ++i)
      expectClose(state.at(names[i]), part(reference.arrays.at("out" + std::to_string(i)), step),
                  names[i] + " after step " + std::to_string(step + 1));
  }
}

TEST_P(TorchReferenceTest, Agrees) {
  if (!reference.model.empty())
    checkOperator();
  else if (reference.has("dout0"))
    checkLoss();
  else
    checkOptimizer();
}

INSTANTIATE_TEST_SUITE_P(Cases, TorchReferenceTest, testing::ValuesIn(torchReferenceNames()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace stow::reference
