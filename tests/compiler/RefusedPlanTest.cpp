// Tests what becomes of plans that the checks refuse, with faults put into packed candidates.
#include "compiler/Compile.h"
#include "compiler/Registration.h"
#include "passes/memory/Liveness.h"
#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>

using namespace mlir;
using namespace stow;
using testing::HasSubstr;

namespace {

/// Puts the second result of the training graph where the first one lies and is still read.
void spoil(ModuleOp placed) {
  auto graph = findGraph(placed, Role::Train);
  std::optional<int64_t> first;
  for (Operation &op : graph.getBody().front())
    if (auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr)) {
      if (first) {
        SmallVector<int64_t> moved(offsets.size(), *first);
        op.setAttr(kOffsetsAttr, DenseI64ArrayAttr::get(placed.getContext(), moved));
        return;
      }
      first = offsets[0];
    }
}

class RefusedPlan : public testing::Test {
protected:
  void SetUp() override {
    prepareContext(context);
    options.modelPath = STOWAGE_SOURCE_DIR "/models/digits_cnn.onnx";
    options.loss = parseLoss("cross-entropy");
    options.threads = 1;
    path = testing::TempDir() + "refused-" + std::to_string(getpid()) + ".mlir";
    std::filesystem::remove(path);
  }
  void TearDown() override { std::filesystem::remove(path); }

  /// The plan when candidates `from` to `to`, counted from 0, are spoiled.
  CompiledPlan plan(int from, int to) {
    BudgetOptions planning;
    planning.effort = 0.02; // which candidates there are is all that matters
    planning.candidates.refusedPath = path;
    int candidate = 0;
    planning.candidates.afterPacking = [=, this](ModuleOp module) mutable {
      if (candidate >= from && candidate < to)
        spoil(module);
      ++candidate;
      made = candidate;
    };
    StageTimer timer;
    return compileToPlan(context, options, timer, planning);
  }

  MLIRContext context;
  CompileOptions options;
  std::string path;
  int made = 0;
};

TEST_F(RefusedPlan, WithEverythingKeptTheOtherOrderIsTaken) {
  options.recompute = Allowance();
  options.import.batch = 32; // with 128 samples program order is the best there is
  const Bytes best = plan(0, 0).plan.arenaBytes;
  ASSERT_EQ(made, 2) << "program order and a better one";
  CompiledPlan other = plan(1, 2);
  EXPECT_GT(other.plan.arenaBytes, best);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(RefusedPlan, WhatSpareTimeBuysIsNotTaken) {
  CompiledPlan good = plan(0, 0);
  ASSERT_GE(made, 2) << "with everything kept, and at last one with recomputation";
  ASSERT_GT(good.plan.extraTimeFraction, 0);
  CompiledPlan kept = plan(made - 1, made);
  EXPECT_EQ(kept.plan.extraTimeFraction, 0);
  EXPECT_EQ(kept.plan.arenaBytes, kept.plan.withoutRecomputeBytes);
}

TEST_F(RefusedPlan, WithinABudgetTheNextCandidateIsTaken) {
  options.memoryBudget = parseByteBudget("75%");
  CompiledPlan good = plan(0, 0);
  const int tried = made;
  ASSERT_GT(good.plan.extraTimeFraction, 0);
  CompiledPlan next = plan(tried - 1, tried);
  EXPECT_GT(made, tried);
  EXPECT_LE(next.plan.arenaBytes * 100, 75 * next.plan.withoutRecomputeBytes + 99);
  EXPECT_GE(next.plan.extraTimeFraction, good.plan.extraTimeFraction);
}

TEST_F(RefusedPlan, WhereNoneIsLeftItIsAnInternalErrorThatSaysHowToReportIt) {
  try {
    plan(0, 1000);
    FAIL() << "every candidate was spoiled";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), 3);
    EXPECT_THAT(error.what(), HasSubstr("the checks refuse this step with everything kept"));
    EXPECT_THAT(error.what(), HasSubstr("please report it with the file " + path));
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("stow.form = \"placed\""));
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("dense<[")));
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  auto refused = parseSourceFile<ModuleOp>(path, ParserConfig(&context));
  ASSERT_TRUE(refused);
  PassManager manager(&context);
  manager.addPass(createVerifyPlacedPass());
  EXPECT_TRUE(failed(manager.run(*refused))) << "the file shows the fault";
}

TEST_F(RefusedPlan, ABudgetThatOnlyARefusedPlanMeetsIsNotCalledInfeasible) {
  options.recompute = Allowance();
  plan(0, 0);
  const int withEverythingKept = made;
  options.recompute.reset();
  options.memoryBudget = parseByteBudget("75%");
  try {
    plan(withEverythingKept, 1000);
    FAIL() << "every candidate with recomputation was spoiled";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("and no other fits"));
  }
}

} // namespace
