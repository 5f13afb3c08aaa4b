#include "tests/reference/Evaluator.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace stow::reference {
namespace {

/// Known answers of Philox4x32-10, first word (Random123's test vectors).
TEST(EvaluatorTest, DropoutWordIsPhilox) {
  EXPECT_EQ(randomWords(0, 0, 0)[0], 0x6627e8d5u);
  EXPECT_EQ(randomWords(~0ull, ~0ull, ~0ull)[0], 0x408f276du);
  EXPECT_EQ(randomWords(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822)[0],
            0xd16cfe09u);
}

TEST(EvaluatorTest, EveryOpOfTheStepHasARule) {
  MLIRContext context;
  context.loadDialect<StowDialect>();
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("stow")) {
    StringRef op = name.getStringRef();
    // What ops of the form "step" are fused to.
    if (op == "stow.map" || op == "stow.yield" || op == "stow.element_index" ||
        op == "stow.product_map" || op == "stow.conv2d_map" || op == "stow.embedding_grad_add" ||
        op == "stow.batch_norm_max_pool" || op == "stow.batch_norm_max_pool_gradient" ||
        op == "stow.batch_norm_statistics")
      continue;
    // What an order of them adds.
    if (op == "stow.copy_out" || op == "stow.await_out" || op == "stow.copy_in" ||
        op == "stow.await_in")
      continue;
    // What takes several processes: tests/e2e/devices.py compares it with --accumulate.
    if (op == "stow.all_reduce" || op == "stow.reduce_scatter" || op == "stow.shard" ||
        op == "stow.all_gather" || op == "stow.unshard" || op == "stow.await_reduce" ||
        op == "stow.await_gather")
      continue;
    EXPECT_TRUE(ruleFor(op)) << op.str();
  }
}

TEST(EvaluatorTest, BroadcastsLikeNumPy) {
  Tensor column({2, 1}, {10, 20});
  EXPECT_EQ(column.broadcast({5, 0, 2}), 10);
  EXPECT_EQ(column.broadcast({5, 1, 0}), 20);
  EXPECT_EQ(Tensor({}, std::vector<double>{7}).broadcast({1, 1}), 7);
}

} // namespace
} // namespace stow::reference
