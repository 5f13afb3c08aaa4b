// What tests share that plan a model of their own text and train the plans in their process.
#pragma once

#include "compiler/Options.h"
#include "compiler/Registration.h"
#include "passes/plan/Budget.h"
#include "tests/compiler/TrainPlaced.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace stow {

/// Options that compile a model's text, on two threads with a mean squared error; its file is there as long as this.
class OwnModel {
protected:
  OwnModel() : path(testing::TempDir() + "own-model-" + std::to_string(getpid()) + ".mlir") {
    prepareContext(context);
    options.modelPath = path;
    options.loss = parseLoss("mse");
    options.threads = 2;
  }
  ~OwnModel() { std::remove(path.c_str()); }

  void write(const std::string &text) const { std::ofstream(path) << text; }

  mlir::MLIRContext context;
  std::string path;
  CompileOptions options;
};

/// Holds the plans of `planner`, with every dead buffer filled with NaN, to the bits of `other` with everything kept, in
/// less memory.
inline void expectSameBitsInLessMemory(BudgetPlanner &planner, BudgetPlanner &other) {
  const std::vector<char> expected = trainPlaced(*other.keepAll().placed);
  EXPECT_LT(planner.keepAll().arenaBytes, other.keepAll().arenaBytes);
  EXPECT_LE(planner.lowerBound(), planner.smallest().arenaBytes);
  EXPECT_TRUE(planner.refusals().empty());
  EXPECT_EQ(trainPlaced(*planner.keepAll().placed, Poison::Dying), expected);
  EXPECT_EQ(trainPlaced(*planner.checkpointed().placed, Poison::Dying), expected);
  EXPECT_EQ(trainPlaced(*planner.smallest().placed, Poison::Dying), expected);
}

} // namespace stow
