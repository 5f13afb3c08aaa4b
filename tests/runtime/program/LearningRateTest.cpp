#include "runtime/program/LearningRate.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

namespace stow {
namespace {

LearningRate makeRate(LearningRate::Kind kind) {
  LearningRate rate;
  rate.kind = kind;
  rate.base = 0.8;
  rate.totalSteps = 100;
  rate.stepsPerEpoch = 10;
  return rate;
}

TEST(LearningRateTest, Constant) {
  LearningRate rate = makeRate(LearningRate::Kind::Constant);
  EXPECT_EQ(rate.at(0), 0.8);
  EXPECT_EQ(rate.at(99), 0.8);
}

// Tests the half wave: full at the start, half in the middle, zero after the last step.
TEST(LearningRateTest, Cosine) {
  LearningRate rate = makeRate(LearningRate::Kind::Cosine);
  EXPECT_EQ(rate.at(0), 0.8);
  EXPECT_NEAR(rate.at(25), 0.8 * 0.853553390593, 1e-9); // (1 + cos 45) / 2
  EXPECT_NEAR(rate.at(50), 0.4, 1e-12);
  EXPECT_NEAR(rate.at(100), 0, 1e-12);
  EXPECT_NEAR(rate.at(1000), 0, 1e-12);
}

// Tests the line: full at the end of the warm-up, zero after the last step.
TEST(LearningRateTest, Linear) {
  LearningRate rate = makeRate(LearningRate::Kind::Linear);
  EXPECT_EQ(rate.at(0), 0.8);
  EXPECT_NEAR(rate.at(25), 0.6, 1e-12);
  EXPECT_EQ(rate.at(100), 0);
  EXPECT_EQ(rate.at(1000), 0);
  rate.warmupSteps = 20;
  EXPECT_NEAR(rate.at(0), 0.04, 1e-12);
  EXPECT_EQ(rate.at(20), 0.8);
  EXPECT_NEAR(rate.at(60), 0.4, 1e-12);
}

TEST(LearningRateTest, Exponential) {
  LearningRate rate = makeRate(LearningRate::Kind::Exponential);
  rate.decay = 0.5;
  EXPECT_EQ(rate.at(9), 0.8);
  EXPECT_EQ(rate.at(10), 0.4);
  EXPECT_EQ(rate.at(35), 0.1);
}

// Tests the points that torch.optim.lr_scheduler.OneCycleLR(max_lr=0.8, total_steps=100) gives.
TEST(LearningRateTest, OneCycle) {
  LearningRate rate = makeRate(LearningRate::Kind::OneCycle);
  EXPECT_NEAR(rate.at(0), 0.032, 1e-12);
  EXPECT_NEAR(rate.at(10), 0.236131158771, 1e-9);
  EXPECT_NEAR(rate.at(29), 0.8, 1e-12);
  EXPECT_NEAR(rate.at(64), 0.400001600000, 1e-9);
  EXPECT_NEAR(rate.at(99), 3.2e-6, 1e-12);
}

TEST(LearningRateTest, Step) {
  LearningRate rate = makeRate(LearningRate::Kind::Step);
  rate.decayEpochs = 3;
  rate.decay = 0.5;
  EXPECT_EQ(rate.at(29), 0.8);
  EXPECT_EQ(rate.at(30), 0.4);
  EXPECT_EQ(rate.at(60), 0.2);
}

// Tests that the warm-up rises to the full rate and that the half wave begins after it.
TEST(LearningRateTest, Warmup) {
  LearningRate rate = makeRate(LearningRate::Kind::Cosine);
  rate.warmupSteps = 4;
  EXPECT_NEAR(rate.at(0), 0.2, 1e-12);
  EXPECT_NEAR(rate.at(3), 0.8, 1e-12);
  EXPECT_NEAR(rate.at(4), 0.8, 1e-12);
  EXPECT_NEAR(rate.at(52), 0.4, 1e-12); // 4 + 96 / 2
}

TEST(LearningRateTest, Names) {
  using Kind = LearningRate::Kind;
  for (auto kind :
       {Kind::Constant, Kind::Cosine, Kind::Linear, Kind::Step, Kind::Exponential, Kind::OneCycle})
    EXPECT_EQ(parseLearningRateKind(nameOf(kind)), kind);
  EXPECT_EQ(learningRateKinds(), "constant, cosine, linear, step, exponential, one-cycle");
  EXPECT_THROW(parseLearningRateKind("polynomial"), Error);
}

} // namespace
} // namespace stow
