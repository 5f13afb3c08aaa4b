// What definitions say of their ops, held to what their names and attributes say.
#include "ir/Stow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace stow {
namespace {

class TraitsTest : public testing::Test {
protected:
  TraitsTest() { context.loadDialect<StowDialect>(); }

  template <template <typename> class... Traits> int countOf(RegisteredOperationName op) {
    return (op.hasTrait<Traits>() + ...);
  }

  /// The names, without the dialect's, of the ops that have the trait.
  template <template <typename> class Trait> std::vector<std::string> having() {
    std::vector<std::string> names;
    for (RegisteredOperationName op : context.getRegisteredOperations())
      if (op.hasTrait<Trait>())
        names.push_back(op.stripDialect().str());
    return names;
  }

  MLIRContext context;
};

TEST_F(TraitsTest, GradientsAreOfTraining) {
  int gradients = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    const StringRef name = op.stripDialect();
    if (!name.contains("_grad") || name == "conv2d_grad_input") // also a transposed convolution
      continue;
    ++gradients;
    EXPECT_TRUE(op.hasTrait<OfTraining>()) << name.str();
  }
  EXPECT_GT(gradients, 20);
  EXPECT_THAT(having<OfTraining>(),
              testing::IsSupersetOf({"dropout_training", "adam", "copy_out", "await_out"}));
  // An evaluation computes the first, and fetches frozen weights.
  for (const char *name : {"conv2d_grad_input", "copy_in", "await_in"})
    EXPECT_THAT(having<OfTraining>(), testing::Not(testing::Contains(name)));
}

TEST_F(TraitsTest, UpdatesAreStepsOfOptimizersAndWhatFollowsThem) {
  EXPECT_THAT(having<UpdatesState>(),
              testing::UnorderedElementsAre("sgd", "adam", "rmsprop", "adagrad", "lion",
                                            "adafactor", "moving_average", "all_gather"));
  for (RegisteredOperationName op : context.getRegisteredOperations())
    EXPECT_LE(op.hasTrait<UpdatesState>(), op.hasTrait<OfTraining>()) << op.getStringRef().str();
}

TEST_F(TraitsTest, AnOpHasOneWalk) {
  for (RegisteredOperationName op : context.getRegisteredOperations())
    EXPECT_LE((countOf<WalksImages, WalksMatrices, WalksRows, WalksApart>(op)), 1)
        << op.getStringRef().str();
}

TEST_F(TraitsTest, ProductsAndConvolutionsMultiply) {
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    const StringRef name = op.stripDialect();
    EXPECT_EQ(op.hasTrait<Multiplies>(),
              name.starts_with("conv2d") || name.ends_with("matmul") || name == "product_map")
        << name.str();
  }
}

TEST_F(TraitsTest, ReductionsHaveAxes) {
  for (RegisteredOperationName op : context.getRegisteredOperations())
    EXPECT_EQ(op.hasTrait<Reduces>(), op.stripDialect().starts_with("reduce_") &&
                                          llvm::is_contained(op.getAttributeNames(), "axes"))
        << op.getStringRef().str();
}

} // namespace
} // namespace stow
