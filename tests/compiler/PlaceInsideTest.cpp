// Tests that concat by construction and slices as views change where values lie and nothing else:
// the same steps, trained with and without stow-place-inside, end in the same bits.
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "ir/StowShapeOps.h"

#include "passes/memory/DescribePlan.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Stages.h"
#include "passes/verify/Passes.h"
#include "tests/Cases.h"
#include "tests/compiler/TrainPlaced.h"

#include "mlir/Pass/PassManager.h"

#include <array>
#include <fstream>
#include <gtest/gtest.h>

using namespace mlir;
using namespace stow;

namespace {

/// Argument list, body and last value of a model with input %x of 4x8x6x6.
struct Net {
  std::string parameters, body, last;
};

std::string parameter(const std::string &name, const std::string &shape) {
  return ", %" + name + ": tensor<" + shape + "xf32> {stow.name = \"" + name +
         "\", stow.kind = #stow.kind<parameter>, stow.init = #stow.init<\"normal\", 0.0, 0.3>}";
}

std::string conv(const std::string &result, const std::string &x, const std::string &w, int in,
                 int out, int kernel) {
  auto tensor = [](int channels) { return "tensor<4x" + std::to_string(channels) + "x6x6xf32>"; };
  std::string size = std::to_string(kernel), pad = std::to_string(kernel / 2);
  return "%" + result + " = stow.conv2d %" + x + ", %" + w +
         " {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, pads = "
         "array<i64: " +
         pad + ", " + pad + ", " + pad + ", " + pad + ">} : (" + tensor(in) + ", tensor<" +
         std::to_string(out) + "x" + std::to_string(in) + "x" + size + "x" + size + "xf32>) -> " +
         tensor(out) + "\n";
}

std::string relu(const std::string &result, const std::string &x, int channels) {
  std::string type = "tensor<4x" + std::to_string(channels) + "x6x6xf32>";
  return "%" + result + " = stow.relu %" + x + " : (" + type + ") -> " + type + "\n";
}

std::string concat(const std::string &result,
                   const std::vector<std::pair<std::string, int>> &parts) {
  std::string values, types;
  int sum = 0;
  for (const auto &[name, channels] : parts) {
    values += (values.empty() ? "%" : ", %") + name;
    types += (types.empty() ? "" : ", ") + ("tensor<4x" + std::to_string(channels) + "x6x6xf32>");
    sum += channels;
  }
  return "%" + result + " = stow.concat " + values + " {axis = 1 : i64} : (" + types +
         ") -> tensor<4x" + std::to_string(sum) + "x6x6xf32>\n";
}

/// Two branches of three and five channels, joined, twice; the second joins a convolution as it is.
Net inception() {
  return {parameter("a", "3x8x1x1") + parameter("b", "5x8x3x3") + parameter("c", "20x8x3x3") +
              parameter("d", "4x8x1x1"),
          conv("a0", "x", "a", 8, 3, 1) + relu("a1", "a0", 3) + conv("b0", "x", "b", 8, 5, 3) +
              relu("b1", "b0", 5) + concat("y", {{"a1", 3}, {"b1", 5}}) +
              conv("c0", "y", "c", 8, 20, 3) + relu("c1", "c0", 20) +
              conv("d0", "y", "d", 8, 4, 1) + concat("last", {{"c1", 20}, {"d0", 4}}),
          "4x24x6x6"};
}

/// A dense block: every layer reads all before it.
Net dense() {
  return {parameter("a", "8x8x1x1") + parameter("b", "4x8x3x3") + parameter("c", "4x12x3x3") +
              parameter("d", "8x16x1x1"),
          conv("a0", "x", "a", 8, 8, 1) + relu("a1", "a0", 8) + conv("b0", "a1", "b", 8, 4, 3) +
              relu("b1", "b0", 4) + concat("y", {{"a1", 8}, {"b1", 4}}) +
              conv("c0", "y", "c", 12, 4, 3) + relu("c1", "c0", 4) +
              concat("z", {{"a1", 8}, {"b1", 4}, {"c1", 4}}) + conv("d0", "z", "d", 16, 8, 1) +
              concat("u", {{"d0", 8}, {"c1", 4}}) + concat("last", {{"u", 12}, {"z", 16}}),
          "4x28x6x6"};
}

std::string norm(const std::string &result, const std::string &x, int channels) {
  std::string c = std::to_string(channels), vector = "tensor<" + c + "xf32>";
  std::string type = "tensor<4x" + c + "x6x6xf32>", n = result;
  return "%" + result + " = stow.batch_norm %" + x + ", %s" + n + ", %b" + n + ", %m" + n + ", %v" +
         n + " {epsilon = 1.0e-5 : f64, momentum = 0.1 : f64} : (" + type + ", " + vector + ", " +
         vector + ", " + vector + ", " + vector + ") -> " + type + "\n";
}

std::string normParameters(const std::string &result, int channels) {
  std::string c = std::to_string(channels), all = parameter("s" + result, c);
  all += parameter("b" + result, c);
  for (auto [name, init] : {std::pair{"m", "0.0"}, std::pair{"v", "1.0"}})
    all += ", %" + (name + result) + ": tensor<" + c + "xf32> {stow.name = \"" + name + result +
           "\", stow.kind = #stow.kind<statistic>, stow.init = dense<" + init + "> : tensor<" + c +
           "xf32>}";
  return all;
}

/// A dense block as DenseNet has it: convolutions write, normalizations read all before them.
Net normalized() {
  return {parameter("a", "8x8x1x1") + parameter("b", "4x8x3x3") + parameter("c", "4x12x3x3") +
              parameter("d", "8x16x1x1") + normParameters("n0", 8) + normParameters("n1", 12) +
              normParameters("n2", 16),
          conv("a0", "x", "a", 8, 8, 1) + norm("n0", "a0", 8) + relu("r0", "n0", 8) +
              conv("b0", "r0", "b", 8, 4, 3) + concat("y", {{"a0", 8}, {"b0", 4}}) +
              norm("n1", "y", 12) + relu("r1", "n1", 12) + conv("c0", "r1", "c", 12, 4, 3) +
              concat("z", {{"a0", 8}, {"b0", 4}, {"c0", 4}}) + norm("n2", "z", 16) +
              relu("r2", "n2", 16) + conv("last", "r2", "d", 16, 8, 1),
          "4x8x6x6"};
}

/// Parts taken out again, and joined along rows and in another order.
Net slices() {
  return {
      parameter("a", "12x8x1x1") + parameter("b", "8x12x3x3"),
      conv("a0", "x", "a", 8, 12, 1) + relu("a1", "a0", 12) +
          R"(%s = stow.slice %a1 {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 4, 4, 6, 6>}
                     : (tensor<4x12x6x6xf32>) -> tensor<4x4x6x6xf32>
                 %t = stow.slice %a1 {starts = array<i64: 0, 4, 0, 0>, sizes = array<i64: 4, 8, 6, 6>}
                     : (tensor<4x12x6x6xf32>) -> tensor<4x8x6x6xf32>
                 %r = stow.slice %t {starts = array<i64: 1, 2, 0, 0>, sizes = array<i64: 2, 4, 6, 6>}
                     : (tensor<4x8x6x6xf32>) -> tensor<2x4x6x6xf32>
                 %e = stow.exp %r : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
                 %g = stow.concat %e, %r {axis = 0 : i64}
                     : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<4x4x6x6xf32>
                 %m = stow.mul %s, %g : (tensor<4x4x6x6xf32>, tensor<4x4x6x6xf32>) -> tensor<4x4x6x6xf32>
                 )" +
          concat("v", {{"t", 8}, {"m", 4}}) + conv("last", "v", "b", 12, 8, 3),
      "4x8x6x6"};
}

/// Queries, keys and values are thirds of one product, seen as two heads: parts under another
/// shape.
Net attention() {
  std::string body = R"(%r = stow.reshape %x : (tensor<4x8x6x6xf32>) -> tensor<144x8xf32>
      %p = stow.matmul %r, %w {transpose_a = false, transpose_b = false}
          : (tensor<144x8xf32>, tensor<8x24xf32>) -> tensor<144x24xf32>
      %a = stow.reshape %p : (tensor<144x24xf32>) -> tensor<4x36x24xf32>
      )";
  for (int third = 0; third < 3; ++third) {
    std::string n = std::to_string(third);
    body += "%s" + n + " = stow.slice %a {starts = array<i64: 0, 0, " + std::to_string(8 * third) +
            ">, sizes = array<i64: 4, 36, 8>} : (tensor<4x36x24xf32>) -> tensor<4x36x8xf32>\n%h" +
            n + " = stow.reshape %s" + n + " : (tensor<4x36x8xf32>) -> tensor<4x36x2x4xf32>\n%t" +
            n + " = stow.transpose %h" + n +
            " {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x36x2x4xf32>) -> "
            "tensor<4x2x36x4xf32>\n";
  }
  body += R"(%scores = stow.matmul %t0, %t1 {transpose_a = false, transpose_b = true}
          : (tensor<4x2x36x4xf32>, tensor<4x2x36x4xf32>) -> tensor<4x2x36x36xf32>
      %soft = stow.softmax %scores {axis = 3 : i64} : (tensor<4x2x36x36xf32>) -> tensor<4x2x36x36xf32>
      %o = stow.matmul %soft, %t2 {transpose_a = false, transpose_b = false}
          : (tensor<4x2x36x36xf32>, tensor<4x2x36x4xf32>) -> tensor<4x2x36x4xf32>
      %last = stow.reshape %o : (tensor<4x2x36x4xf32>) -> tensor<4x2x144xf32>
      )";
  return {parameter("w", "8x24"), body, "4x2x144"};
}

/// One dimension padded in a circle, as exporters write it: its last, all of it, its first.
std::string wrap(const std::string &result, const std::string &x, int axis,
                 std::array<int, 4> shape) {
  auto typeOf = [](const std::array<int, 4> &extents) {
    std::string text = "tensor<";
    for (int extent : extents)
      text += std::to_string(extent) + "x";
    return text + "f32>";
  };
  std::array<int, 4> side = shape, whole = shape;
  side[axis] = 1;
  whole[axis] += 2;
  auto box = [&](const std::string &name, int start) {
    std::array<int, 4> starts = {};
    starts[axis] = start;
    auto list = [](const std::array<int, 4> &n) {
      std::string text = "array<i64";
      for (size_t i = 0; i < n.size(); ++i)
        text += (i ? ", " : ": ") + std::to_string(n[i]);
      return text + ">";
    };
    return "%" + name + result + " = stow.slice %" + x + " {starts = " + list(starts) +
           ", sizes = " + list(side) + "} : (" + typeOf(shape) + ") -> " + typeOf(side) + "\n";
  };
  return box("last", shape[axis] - 1) + box("first", 0) + "%" + result + " = stow.concat %last" +
         result + ", %" + x + ", %first" + result + " {axis = " + std::to_string(axis) +
         " : i64} : (" + typeOf(side) + ", " + typeOf(shape) + ", " + typeOf(side) + ") -> " +
         typeOf(whole) + "\n";
}

/// A convolution behind circular padding, with a residual: parts of one tensor around all of it.
Net circular() {
  return {parameter("a", "8x8x1x1") + parameter("b", "8x8x3x3"),
          conv("a0", "x", "a", 8, 8, 1) + relu("a1", "a0", 8) + wrap("h", "a1", 3, {4, 8, 6, 6}) +
              wrap("v", "h", 2, {4, 8, 6, 8}) +
              R"(%c = stow.conv2d %v, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
                     groups = 1 : i64, pads = array<i64: 0, 0, 0, 0>}
                     : (tensor<4x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<4x8x6x6xf32>
                 %t = stow.tanh %c : (tensor<4x8x6x6xf32>) -> tensor<4x8x6x6xf32>
                 %last = stow.add %t, %a1
                     : (tensor<4x8x6x6xf32>, tensor<4x8x6x6xf32>) -> tensor<4x8x6x6xf32>
                 )",
          "4x8x6x6"};
}

std::string modelOf(const Net &net) {
  return "module attributes {stow.form = \"model\"} {\nfunc.func @model(%x: tensor<4x8x6x6xf32> "
         "{stow.name = \"x\", stow.kind = #stow.kind<input>}" +
         net.parameters + ") -> (tensor<" + net.last +
         "xf32> {stow.name = \"out\"}) attributes {stow.role = #stow.role<model>} {\n" + net.body +
         "return %last : tensor<" + net.last + "xf32>\n}\n}\n";
}

class PlaceInside : public testing::TestWithParam<Net (*)()> {
protected:
  void SetUp() override {
    prepareContext(context);
    const std::string path = testing::TempDir() + "place-inside.mlir";
    std::ofstream(path) << modelOf(GetParam()());
    CompileOptions options;
    options.modelPath = path;
    options.loss = parseLoss("mse");
    options.optimizer = parseOptimizer("sgd:lr=0.05,momentum=0.9");
    options.threads = 2;
    backend = chooseBackend(options);
    prepared = prepareStep(context, options, *backend);
  }

  /// The step in program order, or in segments, packed and checked.
  OwningOpRef<ModuleOp> placed(bool inside, const std::string &checkpoint = "none") {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
    runStage(*module, "test", [&](PassManager &manager) {
      addBindPasses(manager);
      if (checkpoint != "none") {
        SchedulePassOptions options;
        options.checkpoint = checkpoint;
        manager.addPass(createSchedulePass(options));
      }
      if (inside)
        manager.addPass(createPlaceInsidePass(backend->target()));
      manager.addPass(createShareInPlacePass());
      manager.addPass(createVerifyOrderedPass());
      addPlacePasses(manager);
    });
    return module;
  }

  MLIRContext context;
  std::unique_ptr<Backend> backend;
  OwningOpRef<ModuleOp> prepared;
};

/// Commands that copy: concats and slices that launch.
int64_t copiesIn(ModuleOp module) {
  int64_t copies = 0;
  findGraph(module, Role::Train).walk([&](Operation *op) {
    copies += isa<ConcatOp, SliceOp>(op) && !launchesNothing(op);
  });
  return copies;
}

// Tests that copies go, that the arena does not grow, and that no plan changes a bit: in program
// order, within a budget that recomputes, and in the night in segments and within a larger budget.
// Each net is compiled once for all.
TEST_P(PlaceInside, ChangesNoBit) {
  OwningOpRef<ModuleOp> copying = placed(false), inside = placed(true);
  EXPECT_LT(copiesIn(*inside), copiesIn(*copying));
  const Bytes arena = describePlan(*copying).arenaBytes;
  if (GetParam() == attention || GetParam() == circular) // the peak is elsewhere
    EXPECT_EQ(describePlan(*inside).arenaBytes, arena);
  else
    EXPECT_LT(describePlan(*inside).arenaBytes, arena);
  const std::vector<char> expected = trainPlaced(*copying);
  const PlacedProgram program(*inside);
  EXPECT_EQ(program.train(), expected);
  EXPECT_EQ(program.train(Poison::Dying), expected);
  if (test::isNight())
    EXPECT_EQ(trainPlaced(*placed(true, "sqrt"), Poison::Dying), expected) << "in segments";

  BudgetOptions options;
  options.effort = 0.05; // any plan that recomputes will do
  BudgetPlanner planner(*prepared, loadDevice("cpu", 2), backend->target(), options);
  const StepChoice &smallest = planner.smallest();
  EXPECT_EQ(trainPlaced(*smallest.placed, Poison::Dying), expected) << "the smallest";
  // Attention's gradient reads all that there is to make again; the scratch of a call can be the peak of an inception.
  if (smallest.arenaBytes == planner.keepAll().arenaBytes) {
    EXPECT_TRUE(GetParam() == attention || GetParam() == inception);
    return;
  }
  EXPECT_LT(smallest.arenaBytes, planner.keepAll().arenaBytes);
  const auto within = planner.plan((smallest.arenaBytes + planner.keepAll().arenaBytes) / 2);
  ASSERT_TRUE(within);
  if (test::isNight())
    EXPECT_EQ(trainPlaced(*within->placed, Poison::Dying), expected) << "halfway between";
}

std::string nameOf(const testing::TestParamInfo<Net (*)()> &info) {
  constexpr std::array names = {"Inception", "Dense",     "Normalized",
                                "Slices",    "Attention", "Circular"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Nets, PlaceInside,
                         testing::Values(inception, dense, normalized, slices, attention, circular),
                         nameOf);

} // namespace
