#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Bound.h"

#include <gtest/gtest.h>

namespace stow::pack {
namespace {

TEST(GenerateTest, ProblemsAreValidAndRepeatable) {
  int shared = 0, contained = 0, persistent = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Problem problem = generate(seed);
    EXPECT_EQ(check(problem), std::vector<std::string>{}) << seed;
    EXPECT_EQ(generate(seed), problem);
    for (const Buffer &buffer : problem.buffers) {
      shared += buffer.sameAs.has_value();
      contained += buffer.inside.has_value();
      persistent += buffer.persistent;
    }
  }
  EXPECT_GT(shared, 500);
  EXPECT_GT(contained, 500);
  EXPECT_GT(persistent, 500);
}

TEST(GenerateTest, TheTraceHasFewLiveBuffers) {
  const Problem problem = generateTrace(10'000, 1);
  EXPECT_EQ(problem.buffers.size(), 10'000u);
  EXPECT_TRUE(check(problem).empty());
  EXPECT_EQ(problem.buffers[17].life.begin, 34);
  for (const Buffer &buffer : problem.buffers) {
    EXPECT_GE(buffer.size, 16);
    EXPECT_LT(buffer.size, 1 << 20);
    EXPECT_LT(buffer.life.length(), 4096);
  }
}

TEST(GenerateTest, TrainingStepsKeepTheForwardPassAlive) {
  const Problem problem = generateTraining(20, 1);
  EXPECT_EQ(problem.buffers.size(), 2000u);
  EXPECT_TRUE(check(problem).empty());
  // The middle of the step holds 20 saved buffers of each of the 20 blocks.
  Bytes saved = 0;
  for (const Buffer &buffer : problem.buffers)
    if (buffer.life.begin < 1000 && buffer.life.end > 1000)
      saved += buffer.size;
  EXPECT_GT(saved, maxLoad(problem) / 2);
}

TEST(GenerateTest, PuzzlesFillTheirSquare) {
  const Problem problem = generatePuzzle(100, 1, 256, 2);
  EXPECT_EQ(problem.buffers.size(), 100u);
  EXPECT_TRUE(check(problem).empty());
  for (Time t = 0; t < 256; t += 2) {
    Bytes live = 0;
    for (const Buffer &buffer : problem.buffers)
      live += buffer.life.begin <= t && t < buffer.life.end ? buffer.size : 0;
    EXPECT_EQ(live, 256);
  }
  EXPECT_EQ(generatePuzzle(100, 1, 4, 1).buffers.size(), 16u); // no more than there are cells
}

TEST(GenerateTest, HardTrainingStepsAreValidAndVaried) {
  const Problem problem = generateHardTraining(3000, 1);
  EXPECT_NEAR(static_cast<double>(problem.buffers.size()), 3000, 100);
  EXPECT_TRUE(check(problem).empty());
  EXPECT_NE(generateHardTraining(3000, 2), problem);
}

TEST(GenerateTest, NestedTrainingStepsAreValidAndReachTheirHeightOften) {
  const Problem problem = generateNestedTraining(3000, 1);
  EXPECT_NEAR(static_cast<double>(problem.buffers.size()), 3000, 150);
  EXPECT_TRUE(check(problem).empty());
  EXPECT_EQ(generateNestedTraining(3000, 1), problem);
  EXPECT_NE(generateNestedTraining(3000, 2), problem);
  // Every block comes close to the load: its eight kept activations alone take 24 MiB.
  EXPECT_LT(maxLoad(problem), Bytes(48) << 20);
}

TEST(GenerateTest, RecurrentTrainingStepsAreValidAndCrowdedInTheMiddle) {
  const Problem problem = generateRecurrentTraining(3000, 1);
  EXPECT_NEAR(static_cast<double>(problem.buffers.size()), 3000, 300);
  EXPECT_TRUE(check(problem).empty());
  EXPECT_NE(generateRecurrentTraining(3000, 2), problem);
  const Time middle = 3000 / 14 * 5;
  int live = 0;
  for (const Buffer &buffer : problem.buffers)
    live += buffer.life.begin <= middle && middle < buffer.life.end;
  EXPECT_GT(live, 1000);
}

/// Of the lives and sizes, in order.
uint64_t fingerprint(const Problem &problem) {
  uint64_t hash = 0;
  for (const Buffer &buffer : problem.buffers)
    for (const int64_t value : {buffer.life.begin, buffer.life.end, buffer.size})
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15ull;
  return hash;
}

// Known values: a compiler that draws the random numbers in another order is found out.
TEST(GenerateTest, ProblemsAreTheSameWithEveryCompiler) {
  EXPECT_EQ(fingerprint(generate(1)), 14827393394982750663u);
  EXPECT_EQ(fingerprint(generateTrace(1000, 1)), 10668259289416546541u);
  EXPECT_EQ(fingerprint(generateTraining(10, 1)), 9272424700737990192u);
  EXPECT_EQ(fingerprint(generatePuzzle(100, 1)), 5128980657549351936u);
  EXPECT_EQ(fingerprint(generateHardTraining(1000, 1)), 5354866867295376962u);
  EXPECT_EQ(fingerprint(generateNestedTraining(1000, 1)), 4941645440235265158u);
  EXPECT_EQ(fingerprint(generateRecurrentTraining(1000, 1)), 11233115169012097219u);
}

} // namespace
} // namespace stow::pack
