#include "runtime/program/Metrics.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stow {
namespace {

const LossSpec crossEntropy;

// Tests where the classes are found for each pair of shapes.
TEST(MetricsTest, ClassLayouts) {
  auto expectLayout = [](Shape output, Shape target, ClassLayout expected) {
    std::optional<ClassLayout> layout = classLayout(output, target);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->classes, expected.classes);
    EXPECT_EQ(layout->positions, expected.positions);
    EXPECT_EQ(layout->classStride, expected.classStride);
    EXPECT_EQ(layout->positionStride, expected.positionStride);
  };
  expectLayout({8, 10}, {8}, {10, 1, 1, 1});
  expectLayout({8, 10}, {8, 1}, {10, 1, 1, 1});
  expectLayout({8, 10, 1, 1}, {8}, {10, 1, 1, 1});
  expectLayout({2, 21, 4, 5}, {2, 4, 5}, {21, 20, 20, 1}); // segmentation
  expectLayout({2, 7, 100}, {2, 7}, {100, 7, 1, 100});     // tokens, classes last
  expectLayout({14, 100}, {2, 7}, {100, 7, 1, 100});       // tokens, flattened
  expectLayout({2, 5, 5}, {2, 5}, {5, 5, 5, 1});           // ambiguous: classes second, as PyTorch
  EXPECT_EQ(classLayout({2, 5, 5}, {2, 5}, -1)->classStride, 1); // unless the program says last
  EXPECT_EQ(classLayout({2, 5, 5}, {2, 5}, 2)->positionStride, 5);
  EXPECT_FALSE(classLayout({8}, {8}));
  EXPECT_FALSE(classLayout({8, 10}, {3}));
  EXPECT_FALSE(classLayout({8, 10}, {}));
}

TEST(MetricsTest, CrossEntropy) {
  Metrics metrics;
  std::vector<double> scores = {0, std::log(3.0)}; // probabilities 1/4, 3/4
  int64_t zero = 0, one = 1;
  metrics.addClassified(crossEntropy, {2, 1, 1, 0}, scores, {&one, 1});
  metrics.addClassified(crossEntropy, {2, 1, 1, 0}, scores, {&zero, 1});
  EXPECT_EQ(metrics.rows, 2);
  EXPECT_EQ(metrics.correct, 1);
  EXPECT_NEAR(metrics.loss(), -(std::log(0.75) + std::log(0.25)) / 2, 1e-12);
  EXPECT_EQ(metrics.accuracy(), 0.5);
  EXPECT_EQ(describe(metrics), "loss 0.836988, accuracy 50.00 % (1 of 2)");
}

// Tests that large scores do not overflow and that ties go to the first class.
TEST(MetricsTest, LargeScoresAndTies) {
  Metrics metrics;
  std::vector<double> scores = {1e4, 1e4, -1e4};
  int64_t label = 0;
  metrics.addClassified(crossEntropy, {3, 1, 1, 0}, scores, {&label, 1});
  EXPECT_NEAR(metrics.loss(), std::log(2.0), 1e-9);
  EXPECT_EQ(metrics.correct, 1);
}

// Tests strides and ignored positions: 2 classes for 3 positions, classes outermost.
TEST(MetricsTest, PositionsAndIgnoredTargets) {
  Metrics metrics;
  std::vector<double> scores = {5, 0, 0, 0, 5, 5};
  std::vector<int64_t> labels = {0, 1, -1};
  metrics.addClassified(parseLoss("cross-entropy:ignore-index=-1"), {2, 3, 3, 1}, scores, labels);
  EXPECT_EQ(metrics.targets, 2);
  EXPECT_EQ(metrics.correct, 2);
  EXPECT_NEAR(metrics.loss(), std::log(1 + std::exp(-5.0)), 1e-12);
}

TEST(MetricsTest, MeanSquares) {
  Metrics metrics;
  std::vector<double> outputs = {1, 2}, targets = {1, 4};
  metrics.addValues(parseLoss("mse"), outputs, targets);
  EXPECT_EQ(metrics.loss(), 2);
  EXPECT_EQ(describe(metrics), "loss 2");
  EXPECT_EQ(Metrics().loss(), 0);
}

// Tests the mean by the weight of the classes, and smoothing, on probabilities 1/4 and 3/4.
TEST(MetricsTest, WeightsAndSmoothing) {
  std::vector<double> scores = {0, std::log(3.0)};
  int64_t zero = 0, one = 1;
  Metrics metrics;
  LossSpec loss = parseLoss("cross-entropy:weight=[1,3]");
  metrics.addClassified(loss, {2, 1, 1, 0}, scores, {&zero, 1});
  metrics.addClassified(loss, {2, 1, 1, 0}, scores, {&one, 1});
  EXPECT_NEAR(metrics.loss(), -(std::log(0.25) + 3 * std::log(0.75)) / 4, 1e-12);

  Metrics smoothed;
  smoothed.addClassified(parseLoss("cross-entropy:label-smoothing=0.2"), {2, 1, 1, 0}, scores,
                         {&one, 1});
  EXPECT_NEAR(smoothed.loss(), -(0.9 * std::log(0.75) + 0.1 * std::log(0.25)), 1e-12);
}

// Tests that likelihoods are not normalized again, and distributions as targets.
TEST(MetricsTest, LikelihoodsAndDistributions) {
  std::vector<double> scores = {std::log(0.5), std::log(0.1)}, wanted = {0.25, 0.75};
  int64_t zero = 0;
  Metrics likelihood, distribution;
  likelihood.addClassified(parseLoss("nll"), {2, 1, 1, 0}, scores, {&zero, 1});
  EXPECT_NEAR(likelihood.loss(), -std::log(0.5), 1e-12);
  distribution.addDistributed(parseLoss("cross-entropy:probabilities"), {2, 1, 1, 0}, scores,
                              wanted);
  EXPECT_NEAR(distribution.loss(), -(0.25 * std::log(5.0 / 6) + 0.75 * std::log(1.0 / 6)), 1e-12);
  EXPECT_EQ(distribution.correct, 0);
}

TEST(MetricsTest, Values) {
  auto lossOf = [](const std::string &text, std::vector<double> outputs,
                   std::vector<double> targets) {
    Metrics metrics;
    metrics.addValues(parseLoss(text), outputs, targets);
    return metrics.loss();
  };
  EXPECT_EQ(lossOf("l1", {1, 2}, {1, 5}), 1.5);
  EXPECT_EQ(lossOf("smooth-l1:beta=2", {0, 0}, {1, 5}), (0.25 + 4) / 2);
  EXPECT_EQ(lossOf("huber:delta=2", {0, 0}, {1, 5}), (0.5 + 8) / 2);
  EXPECT_NEAR(lossOf("kl-div", {std::log(0.5), 1}, {1, 0}), std::log(2.0) / 2, 1e-12);
  EXPECT_NEAR(lossOf("kl-div:reduction=batchmean", {std::log(0.5), 1}, {1, 0}), std::log(2.0),
              1e-12);
  EXPECT_NEAR(lossOf("kl-div:log-target", {std::log(0.5)}, {0}), std::log(2.0), 1e-12);
  EXPECT_NEAR(lossOf("bce-with-logits:pos-weight=[3]", {0, 0}, {1, 0}), 2 * std::log(2.0), 1e-12);
}

// Tests accuracy of binary predictions, and the way back from probabilities to scores.
TEST(MetricsTest, BinaryPredictions) {
  std::vector<double> outputs = {0.9, 0.2, 0.6, 1}, targets = {1, 0, 0, 1};
  undoActivation(OutputActivation::Sigmoid, outputs);
  EXPECT_NEAR(outputs[0], std::log(9.0), 1e-12);
  EXPECT_EQ(outputs[3], 100);
  Metrics metrics;
  metrics.addValues(parseLoss("bce-with-logits"), outputs, targets);
  EXPECT_EQ(metrics.correct, 3);
  EXPECT_NEAR(metrics.loss(), -(std::log(0.9) + std::log(0.8) + std::log(0.4)) / 4, 1e-12);

  std::vector<double> shares = {0.5, 0};
  undoActivation(OutputActivation::Softmax, shares);
  EXPECT_NEAR(shares[0], std::log(0.5), 1e-12);
  EXPECT_EQ(shares[1], -100);
}

} // namespace
} // namespace stow
