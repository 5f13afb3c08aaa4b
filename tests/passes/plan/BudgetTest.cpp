// Tests what a budget asks for; plans under budgets are tested on networks (tests/compiler).
#include "passes/plan/Budget.h"

#include <gtest/gtest.h>

using namespace stow;

namespace {

TEST(Budget, PercentagesAreOfTheWholeArena) {
  EXPECT_EQ(budgetBytes(parseByteBudget("70%"), 1000), 700);
  EXPECT_EQ(budgetBytes(parseByteBudget("33%"), 100), 33);
  EXPECT_EQ(budgetBytes(parseByteBudget("1KiB"), 5), 1024);
}

} // namespace
