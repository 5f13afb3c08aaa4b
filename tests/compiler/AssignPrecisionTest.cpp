// Tests stow-assign-precision for a target whose library has one type for all it reads and writes, as
// those of GPUs and of processors with bf16 units.
#include "codegen/host/HostTarget.h"
#include "compiler/Registration.h"
#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "passes/precision/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gmock/gmock.h>

using namespace mlir;

namespace stow {
namespace {

using testing::ElementsAre;

class OneTypeTarget : public host::HostTarget {
public:
  OneTypeTarget() : HostTarget(1) {}
  bool takesWide(Operation *, unsigned, FloatType) const override { return false; }
};

constexpr const char *kStep = R"mlir(
module attributes {stow.form = "step"} {
  func.func @train(%x: tensor<8x4xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<4x4xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>},
                   %d: tensor<8x4xf32> {stow.name = "d", stow.kind = #stow.kind<target>},
                   %b: tensor<4xf32> {stow.name = "b", stow.kind = #stow.kind<parameter>},
                   %lr: tensor<f32> {stow.name = "lr", stow.kind = #stow.kind<learning_rate>})
      -> (tensor<4x4xf32> {stow.state = "w"}) attributes {stow.role = #stow.role<train>} {
    %h = stow.matmul %x, %w, %b {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %y = stow.matmul %h, %w {transpose_a = false, transpose_b = false} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %dy = stow.mul %y, %d {stow.phase = #stow.phase<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %dh = stow.matmul %dy, %w {stow.phase = #stow.phase<backward>, transpose_a = false, transpose_b = true} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %dw0 = stow.matmul %h, %dy {stow.phase = #stow.phase<backward>, transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %dw1 = stow.matmul %x, %dh {stow.phase = #stow.phase<backward>, transpose_a = true, transpose_b = false} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %dw = stow.add %dw0, %dw1 {stow.phase = #stow.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %w1 = stow.sgd %w, %dw, %lr {stow.phase = #stow.phase<update>, momentum = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    return %w1 : tensor<4x4xf32>
  }
}
)mlir";

class AssignPrecisionTest : public testing::Test {
protected:
  AssignPrecisionTest() {
    prepareContext(context);
    module = parseSourceString<ModuleOp>(kStep, &context);
  }

  void run(AssignPrecisionPassOptions options = {}) {
    PassManager manager(&context);
    manager.addPass(createAssignPrecisionPass(target, std::move(options)));
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }

  template <typename Op> std::vector<Op> all() {
    std::vector<Op> ops;
    module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }

  static bool isLow(Value value) { return getElementTypeOrSelf(value).isBF16(); }

  OneTypeTarget target;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// A cast of the weight in the forward, for two products, and one of the bias; one in the backward, so that no copy
/// waits for it; and one behind each of the two products that a sum of gradients reads.
TEST_F(AssignPrecisionTest, CastsWhatTheLibraryDoesNotTake) {
  run();
  std::vector<std::string> casts;
  for (CastOp cast : all<CastOp>())
    casts.push_back((isForward(cast) ? "forward " : "backward ") +
                    std::string(isLow(cast.getY()) ? "down" : "up"));
  EXPECT_THAT(casts, ElementsAre("forward down", "forward down", "backward down", "backward up",
                                 "backward up"));
  for (MatmulOp product : all<MatmulOp>())
    for (Value value : llvm::concat<Value>(llvm::to_vector<4>(product->getOperands()),
                                           llvm::to_vector<1>(product->getResults())))
      EXPECT_TRUE(isLow(value));
  const AddOp sum = all<AddOp>().front();
  EXPECT_FALSE(isLow(sum->getOperand(0)) || isLow(sum->getOperand(1)) || isLow(sum->getResult(0)));
}

/// What is kept in f32 reads and writes f32, and its neighbours' values are cast for it.
TEST_F(AssignPrecisionTest, KeepsNodesByName) {
  module->walk(
      [&](MatmulOp product) { product->setLoc(NameLoc::get(StringAttr::get(&context, "head"))); });
  AssignPrecisionPassOptions options;
  options.keep = {"he*"};
  run(std::move(options));
  for (MatmulOp product : all<MatmulOp>())
    for (Value value : {product.getA(), product.getB(), product.getY()})
      EXPECT_FALSE(isLow(value));
  EXPECT_TRUE(all<CastOp>().empty());
}

} // namespace
} // namespace stow
