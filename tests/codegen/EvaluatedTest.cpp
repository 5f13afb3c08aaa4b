// Kernels of resampling, sampling, rearranging and normalization against the reference evaluator, in both
// layouts of activations.
#include "tests/codegen/Kernels.h"
#include "tests/reference/Evaluator.h"

#include "mlir/Parser/Parser.h"

using namespace stow;

namespace {

/// A value as the kernels see it, in its layout, and as the evaluator does.
struct Both {
  std::vector<float> stored;
  reference::Tensor plain;
};

struct GraphCase {
  std::string name, arguments, body;
};

void PrintTo(const GraphCase &test, std::ostream *stream) { *stream << test.name; }

class Evaluated : public testing::TestWithParam<std::tuple<GraphCase, std::string>> {};

Shape shapeOf(mlir::Value value) {
  auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return Shape(shape.begin(), shape.end());
}

std::vector<float> stored(const reference::Tensor &tensor, mlir::Value value) {
  std::vector<float> data(tensor.size());
  LayoutIndex place(layoutOf(value.getType()), shapeOf(value));
  for (int64_t i = 0; i < tensor.size(); ++i)
    data[place(i)] = static_cast<float>(tensor.values[i]);
  return data;
}

/// LAST in the text becomes the layout with channels last, or nothing.
std::string withLayouts(std::string text, const std::string &order) {
  std::string layout = order.empty() ? "" : ", #stow.layout<\"" + order + "\">";
  for (size_t at; (at = text.find("LAST")) != std::string::npos;)
    text.replace(at, 4, layout);
  return text;
}

TEST_P(Evaluated, AgreesWithEvaluator) {
  auto [test, order] = GetParam();
  std::string text =
      withLayouts("func.func @g(" + test.arguments + ") {\n" + test.body + "\nreturn }", order);
  LoadedKernels kernels(text);
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto graph = *module->getOps<mlir::func::FuncOp>().begin();

  llvm::DenseMap<mlir::Value, Both> values;
  uint64_t seed = 0;
  for (mlir::Value argument : graph.getArguments()) {
    Shape shape = shapeOf(argument);
    reference::Tensor tensor(std::vector<int64_t>(shape.begin(), shape.end()));
    auto floats = someFloats(tensor.size(), 1, ++seed);
    tensor.values.assign(floats.begin(), floats.end());
    values[argument] = {stored(tensor, argument), tensor};
  }
  int index = 0;
  for (mlir::Operation &op : graph.front().without_terminator()) {
    std::vector<reference::Tensor> operands;
    std::vector<std::vector<float>> results;
    for (mlir::Value operand : op.getOperands())
      operands.push_back(values[operand].plain);
    auto expected = reference::ruleFor(&op)(&op, operands);
    for (auto &tensor : expected)
      results.emplace_back(tensor.size(), -9.0f);
    std::vector<void *> pointers;
    for (mlir::Value operand : op.getOperands())
      pointers.push_back(values[operand].stored.data());
    for (auto &result : results)
      pointers.push_back(result.data());
    kernels.run(index++, pointers, 1);
    for (auto [result, data, tensor] : llvm::zip_equal(op.getResults(), results, expected)) {
      std::vector<float> wanted = stored(tensor, result);
      SCOPED_TRACE(op.getName().getStringRef().str());
      expectClose(data, {wanted.begin(), wanted.end()}, 2e-6, 2e-6);
      values[result] = {data, tensor};
    }
  }
}

const GraphCase cases[] = {
    // Bilinear to twice the size, with its gradient; unrolled.
    {"bilinear", "%x: tensor<2x19x3x2xf32LAST>", R"(
      %y = stow.resample %x {axes = array<i64: 2, 3>, extents = array<i64: 6, 4>,
          starts = array<i64: 0, 1, 3, 5, 7, 9, 10, 10, 11, 13, 15, 16>,
          sources = array<i64: 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 0, 0, 1, 0, 1, 1>,
          weights = array<f64: 1.0, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 1.0,
                          1.0, 0.75, 0.25, 0.25, 0.75, 1.0>}
          : (tensor<2x19x3x2xf32LAST>) -> tensor<2x19x6x4xf32LAST>
      %z = stow.resample %y {axes = array<i64: 2, 3>, extents = array<i64: 3, 2>,
          starts = array<i64: 0, 3, 7, 10, 10, 13, 16>,
          sources = array<i64: 0, 1, 2, 1, 2, 3, 4, 3, 4, 5, 0, 1, 2, 1, 2, 3>,
          weights = array<f64: 1.0, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 1.0,
                          1.0, 0.75, 0.25, 0.25, 0.75, 1.0>}
          : (tensor<2x19x6x4xf32LAST>) -> tensor<2x19x3x2xf32LAST>)"},
    // Rows without a source, and one with many: loops. Dimension 0, and one of extent 1.
    {"loops", "%x: tensor<9x5x1x2xf32LAST>", R"(
      %y = stow.resample %x {axes = array<i64: 0, 2>, extents = array<i64: 3, 2>,
          starts = array<i64: 0, 0, 9, 10, 10, 11, 11>,
          sources = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 0>,
          weights = array<f64: 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, -1.0, 0.5>}
          : (tensor<9x5x1x2xf32LAST>) -> tensor<3x5x2x2xf32LAST>)"},
    {"channels", "%x: tensor<2x3x2x5xf32LAST>", R"(
      %y = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 5>,
          starts = array<i64: 0, 1, 2, 3, 4, 5>, sources = array<i64: 1, 0, 1, 2, 1>,
          weights = array<f64: 1.0, 1.0, 1.0, 1.0, 1.0>}
          : (tensor<2x3x2x5xf32LAST>) -> tensor<2x5x2x5xf32LAST>)"},
    {"nothing_read", "%x: tensor<2x3x2x2xf32LAST>", R"(
      %y = stow.resample %x {axes = array<i64: 1>, extents = array<i64: 2>,
          starts = array<i64: 0, 0, 0>, sources = array<i64>, weights = array<f64>}
          : (tensor<2x3x2x2xf32LAST>) -> tensor<2x2x2x2xf32LAST>)"},
    {"depth_to_space", "%x: tensor<2x68x3x5xf32LAST>", R"(
      %y = stow.rearrange %x {factors = array<i64: 2, 2, 2, 17, 3, 5>,
          permutation = array<i64: 0, 3, 4, 1, 5, 2>}
          : (tensor<2x68x3x5xf32LAST>) -> tensor<2x17x6x10xf32LAST>
      %z = stow.rearrange %x {factors = array<i64: 2, 17, 2, 2, 3, 5>,
          permutation = array<i64: 0, 1, 4, 2, 5, 3>}
          : (tensor<2x68x3x5xf32LAST>) -> tensor<2x17x6x10xf32LAST>
      %w = stow.rearrange %y {factors = array<i64: 2, 17, 3, 2, 5, 2>,
          permutation = array<i64: 0, 3, 5, 1, 2, 4>}
          : (tensor<2x17x6x10xf32LAST>) -> tensor<2x68x3x5xf32LAST>)"},
    {"one_channel", "%x: tensor<2x4x3x1xf32LAST>", R"(
      %y = stow.rearrange %x {factors = array<i64: 2, 2, 2, 1, 3, 1>,
          permutation = array<i64: 0, 3, 4, 1, 5, 2>}
          : (tensor<2x4x3x1xf32LAST>) -> tensor<2x1x6x2xf32LAST>)"},
    {"grid_sample", "%x: tensor<2x19x3x5xf32LAST>, %g: tensor<2x4x7x2xf32>", R"(
      %y = stow.grid_sample %x, %g {mode = "linear", padding = "zeros", align_corners = false}
          : (tensor<2x19x3x5xf32LAST>, tensor<2x4x7x2xf32>) -> tensor<2x19x4x7xf32LAST>
      %dx = stow.grid_sample_grad_input %y, %g {extents = array<i64: 3, 5>, mode = "linear",
          padding = "zeros", align_corners = false}
          : (tensor<2x19x4x7xf32LAST>, tensor<2x4x7x2xf32>) -> tensor<2x19x3x5xf32LAST>
      %dg = stow.grid_sample_grad_grid %y, %x, %g {padding = "zeros", align_corners = false}
          : (tensor<2x19x4x7xf32LAST>, tensor<2x19x3x5xf32LAST>, tensor<2x4x7x2xf32>)
          -> tensor<2x4x7x2xf32>)"},
    // More places than lanes, one channel; far outside, so that reflection turns several times.
    {"grid_sample_reflected", "%x: tensor<1x1x4x3xf32LAST>, %s: tensor<1x5x9x2xf32>", R"(
      %g = stow.resample %s {axes = array<i64: 3>, extents = array<i64: 2>,
          starts = array<i64: 0, 1, 2>, sources = array<i64: 0, 1>, weights = array<f64: 3.7, 3.7>}
          : (tensor<1x5x9x2xf32>) -> tensor<1x5x9x2xf32>
      %y = stow.grid_sample %x, %g {mode = "linear", padding = "reflection", align_corners = true}
          : (tensor<1x1x4x3xf32LAST>, tensor<1x5x9x2xf32>) -> tensor<1x1x5x9xf32LAST>
      %n = stow.grid_sample %x, %g {mode = "nearest", padding = "border", align_corners = false}
          : (tensor<1x1x4x3xf32LAST>, tensor<1x5x9x2xf32>) -> tensor<1x1x5x9xf32LAST>
      %dx = stow.grid_sample_grad_input %y, %g {extents = array<i64: 4, 3>, mode = "nearest",
          padding = "border", align_corners = false}
          : (tensor<1x1x5x9xf32LAST>, tensor<1x5x9x2xf32>) -> tensor<1x1x4x3xf32LAST>
      %dg = stow.grid_sample_grad_grid %y, %x, %g {padding = "reflection", align_corners = true}
          : (tensor<1x1x5x9xf32LAST>, tensor<1x1x4x3xf32LAST>, tensor<1x5x9x2xf32>)
          -> tensor<1x5x9x2xf32>)"},
    {"planes", "%x: tensor<3x21x4x5xf32LAST>, %dy: tensor<3x21x4x5xf32LAST>", R"(
      %m, %v = stow.plane_moments %x
          : (tensor<3x21x4x5xf32LAST>) -> (tensor<3x21xf32>, tensor<3x21xf32>)
      %p, %s = stow.plane_products %dy, %x, %m
          : (tensor<3x21x4x5xf32LAST>, tensor<3x21x4x5xf32LAST>, tensor<3x21xf32>)
          -> (tensor<3x21xf32>, tensor<3x21xf32>))"},
    {"rms", "%x: tensor<7x3x2x37xf32>, %s: tensor<37xf32>, %dy: tensor<7x3x2x37xf32>", R"(
      %y, %r = stow.rms_norm %x, %s {epsilon = 1.0e-3 : f64}
          : (tensor<7x3x2x37xf32>, tensor<37xf32>) -> (tensor<7x3x2x37xf32>, tensor<7x3x2xf32>)
      %dx = stow.rms_norm_grad %dy, %x, %r, %s
          : (tensor<7x3x2x37xf32>, tensor<7x3x2x37xf32>, tensor<7x3x2xf32>, tensor<37xf32>)
          -> tensor<7x3x2x37xf32>
      %ds = stow.rms_norm_scale_grad %dy, %x, %r
          : (tensor<7x3x2x37xf32>, tensor<7x3x2x37xf32>, tensor<7x3x2xf32>) -> tensor<37xf32>)"},
};

std::string nameOf(const testing::TestParamInfo<std::tuple<GraphCase, std::string>> &info) {
  const std::string &order = std::get<1>(info.param);
  return std::get<0>(info.param).name + (order.empty() ? "" : "_channels_last");
}

INSTANTIATE_TEST_SUITE_P(Graphs, Evaluated,
                         testing::Combine(testing::ValuesIn(cases),
                                          testing::Values(std::string(), std::string("0,2,3,1"))),
                         nameOf);

// Tests that a coordinate that is no number gives NaN in both modes, and adds to no image.
TEST(GridSample, KeepsNaNApart) {
  const std::string grid = "tensor<1x17x1xf32>", x = "tensor<1x1x5xf32>", y = "tensor<1x1x17xf32>";
  std::string text = "func.func @g(%x: " + x + ", %g: " + grid + ", %dy: " + y + ") {\n";
  for (std::string mode : {"linear", "nearest"})
    text += "%y" + mode + " = stow.grid_sample %x, %g {mode = \"" + mode +
            "\", padding = \"border\", align_corners = true} : (" + x + ", " + grid + ") -> " + y +
            "\n%dx" + mode + " = stow.grid_sample_grad_input %dy, %g {extents = array<i64: 5>, " +
            "mode = \"" + mode + "\", padding = \"border\", align_corners = true} : (" + y + ", " +
            grid + ") -> " + x + "\n";
  LoadedKernels kernels(text + "return }");
  std::vector<float> image = {1, 2, 3, 4, 5}, places(17, 0.5f), dy(17, 1);
  places[7] = std::nanf("");
  for (int mode : {0, 1}) {
    std::vector<float> found(17), dx(5);
    kernels.run(2 * mode, {image.data(), places.data(), found.data()});
    kernels.run(2 * mode + 1, {dy.data(), places.data(), dx.data()});
    for (int i = 0; i < 17; ++i)
      EXPECT_TRUE(i == 7 ? std::isnan(found[i]) : found[i] == 4) << i;
    EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 16, 0}));
  }
}

} // namespace
