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
  for (auto kind :
       {LearningRate::Kind::Constant, LearningRate::Kind::Cosine, LearningRate::Kind::Step})
    EXPECT_EQ(parseLearningRateKind(nameOf(kind)), kind);
  EXPECT_THROW(parseLearningRateKind("linear"), Error);
}

} // namespace
} // namespace stow
