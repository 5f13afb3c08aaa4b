#include "ir/plan/schedule/Generate.h"

#include "ir/plan/schedule/LowerBound.h"
#include "ir/plan/schedule/Verify.h"
#include "runtime/base/Error.h"

#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

// Tests 100,000 random problems: each is well formed, its input order is legal, and no bound
// exceeds its peak.
TEST(GenerateTest, HundredThousandProblemsAreLegal) {
  size_t views = 0, versions = 0, options = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 100000; ++seed) {
    Problem problem = generate(seed);
    ASSERT_NO_THROW(check(problem)) << "seed " << seed;
    Replay replay = verify(problem, inputOrder(problem));
    ASSERT_EQ(replay.fault, std::nullopt) << "seed " << seed;
    ASSERT_EQ(replay.time, problem.leastTime()) << "seed " << seed;
    ASSERT_LE(lowerBound(problem), replay.peakBytes) << "seed " << seed;
    for (const Op &op : problem.ops) {
      versions += op.overwrites.size();
      options += op.mayOverwrite.size();
      for (ValueId output : op.outputs)
        for (ValueId input : op.inputs)
          views += op.overwrites.empty() &&
                   problem.values[input].storage == problem.values[output].storage;
    }
    for (const Value &value : problem.values)
      kept += value.keep;
  }
  // The generator must keep producing what the tests are about.
  EXPECT_GT(views, 5000u);
  EXPECT_GT(versions, 5000u);
  EXPECT_GT(options, 5000u);
  EXPECT_GT(kept, 5000u);
}

// Tests random steps in place, and that their overwrites are gone in the problem with copies.
TEST(GenerateTest, StepsInPlaceAreLegal) {
  size_t versions = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const Problem problem = generateInPlace(seed, 1 + static_cast<int>(seed % 9));
    ASSERT_NO_THROW(check(problem)) << "seed " << seed;
    ASSERT_EQ(verify(problem, inputOrder(problem)).fault, std::nullopt) << "seed " << seed;
    const Problem copies = withoutOverwrites(problem);
    ASSERT_NO_THROW(check(copies)) << "seed " << seed;
    ASSERT_EQ(copies.leastTime(), problem.leastTime()) << "seed " << seed;
    for (size_t i = 0; i < problem.ops.size(); ++i) {
      versions += problem.ops[i].overwrites.size();
      ASSERT_TRUE(copies.ops[i].overwrites.empty()) << "seed " << seed;
    }
    ASSERT_EQ(copies.storages.size(), copies.values.size()) << "seed " << seed;
  }
  EXPECT_GT(versions, 10000u);
}

TEST(GenerateTest, LargeFamiliesAreLegalAndOfTheStatedSize) {
  for (const Problem &problem :
       {gptStep(3), recurrentStep(5), trainingStep(convolutionalForward("resnet50", 8)),
        trainingStep(convolutionalForward("unet", 2)), unitChainStep(9)}) {
    EXPECT_NO_THROW(check(problem)) << problem.name;
    EXPECT_EQ(verify(problem, inputOrder(problem)).fault, std::nullopt) << problem.name;
  }
  for (const char *family : {"chain", "residual", "dense", "unet", "recurrent"}) {
    const Problem problem = inPlaceStep(family, 4), copies = withoutOverwrites(problem);
    EXPECT_NO_THROW(check(problem)) << family;
    EXPECT_NO_THROW(check(copies)) << family;
    const Replay replay = verify(problem, inputOrder(problem));
    EXPECT_EQ(replay.fault, std::nullopt) << family;
    EXPECT_LE(replay.peakBytes, verify(copies, inputOrder(copies)).peakBytes) << family;
  }
  EXPECT_THROW(inPlaceStep("lenet", 4), Error);
  EXPECT_GT(gptStep(235).ops.size(), 12000u);
  EXPECT_GT(recurrentStep(1060).ops.size(), 20000u);
  LayeredOptions options;
  options.opCount = 321;
  EXPECT_EQ(generateLayered(7, options).ops.size(), 321u);
  EXPECT_EQ(generateLayered(7, options), generateLayered(7, options));
  EXPECT_NE(generateLayered(7, options), generateLayered(8, options));
  EXPECT_THROW(convolutionalForward("lenet", 1), Error);
}

} // namespace
} // namespace stow::schedule
