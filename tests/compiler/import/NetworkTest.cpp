// Small networks exported by PyTorch (make_networks.py) in several opsets: the imported graph, run
// by the reference evaluator, must give PyTorch's outputs.
#include "compiler/import/Import.h"
#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"

#include "tests/compiler/import/Compare.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace mlir;

namespace stow::onnx {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(STOWAGE_SOURCE_DIR) / "tests/compiler/import/networks";

/// Dropout, the identity in evaluation, has no rule there: its uses read its operand.
void dropDropout(func::FuncOp function) {
  function.walk([](DropoutOp op) {
    op.getY().replaceAllUsesWith(op.getX());
    op.erase();
  });
}

reference::Tensor valueOf(ElementsAttr attr) {
  std::vector<double> values;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    ArrayRef<char> bytes = resource.getRawHandle().getBlob()->getData();
    ArrayRef<float> floats(reinterpret_cast<const float *>(bytes.data()), bytes.size() / 4);
    values.assign(floats.begin(), floats.end());
  } else {
    for (float value : cast<DenseElementsAttr>(attr).getValues<float>())
      values.push_back(value);
  }
  auto shape = cast<RankedTensorType>(attr.getType()).getShape();
  return reference::Tensor(std::vector<int64_t>(shape), values);
}

struct Case {
  const char *name;
  int parameters; ///< as counted in the PyTorch module
  int statistics;
};

class NetworkTest : public testing::TestWithParam<Case> {};

TEST_P(NetworkTest, ComputesWhatPyTorchDoes) {
  std::string name = GetParam().name;
  Model data = load(folder / (name + ".data.onnx"));
  MLIRContext context;
  ImportOptions options;
  options.batch = data.initializers.at("input_x").shape[0];
  options.allowFolded = name == "residual_dynamic_11"; // evaluation mode folded its batch norms
  auto module = importOnnx(context, folder / (name + ".onnx"), options);
  ASSERT_TRUE(module);
  auto function = *module->getOps<func::FuncOp>().begin();
  dropDropout(function);
  std::vector<reference::Tensor> arguments = {referenceOf(data.initializers.at("input_x"))};
  int parameters = 0, statistics = 0;
  for (unsigned i = 1; i < function.getNumArguments(); ++i) {
    ++(kindOfArgument(function, i) == ArgumentKind::Parameter ? parameters : statistics);
    arguments.push_back(valueOf(function.getArgAttrOfType<ElementsAttr>(i, kInitAttr)));
  }
  EXPECT_EQ(parameters, GetParam().parameters);
  EXPECT_EQ(statistics, GetParam().statistics);
  std::vector<reference::Tensor> results = reference::evaluate(function, arguments);
  ASSERT_EQ(results.size(), 1u);
  expectNear(results[0], referenceOf(data.initializers.at("output_y")), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Exported, NetworkTest,
                         testing::Values(Case{"dense_7", 4, 0}, Case{"dense_train_13", 4, 0},
                                         Case{"residual_train_8", 11, 6},
                                         Case{"residual_dynamic_11", 8, 0},
                                         Case{"residual_train_14", 11, 6}, Case{"mobile_9", 9, 0},
                                         Case{"mobile_14", 9, 0}, Case{"shuffle_9", 4, 0},
                                         Case{"shuffle_dynamic_13", 4, 0},
                                         Case{"response_10", 4, 0}, Case{"attention_12", 9, 0},
                                         Case{"attention_16", 9, 0}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace stow::onnx
