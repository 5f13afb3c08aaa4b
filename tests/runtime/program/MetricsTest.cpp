#include "runtime/program/Metrics.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stow {
namespace {

TEST(MetricsTest, ParsesLosses) {
  EXPECT_EQ(parseLoss("mse").kind, LossSpec::Kind::MeanSquaredError);
  EXPECT_EQ(parseLoss("mse:reduction=sum").kind, LossSpec::Kind::MeanSquaredError);
  EXPECT_EQ(parseLoss("cross-entropy").ignoreIndex, -100);
  EXPECT_EQ(parseLoss("cross-entropy:ignore_index=-1").ignoreIndex, -1);
  EXPECT_EQ(parseLoss("cross-entropy:reduction=mean,ignore_index=255").ignoreIndex, 255);
  EXPECT_EQ(parseLoss("cross-entropy:ignore_index=3,class_axis=-1").classAxis, -1);
  EXPECT_THROW(parseLoss("hinge"), Error);
  EXPECT_THROW(parseLoss("cross-entropy:ignore_index=x"), Error);
}

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
  metrics.addClassified({2, 1, 1, 0}, scores, {&one, 1}, -100);
  metrics.addClassified({2, 1, 1, 0}, scores, {&zero, 1}, -100);
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
  metrics.addClassified({3, 1, 1, 0}, scores, {&label, 1}, -100);
  EXPECT_NEAR(metrics.loss(), std::log(2.0), 1e-9);
  EXPECT_EQ(metrics.correct, 1);
}

// Tests strides and ignored positions: 2 classes for 3 positions, classes outermost.
TEST(MetricsTest, PositionsAndIgnoredTargets) {
  Metrics metrics;
  std::vector<double> scores = {5, 0, 0, 0, 5, 5};
  std::vector<int64_t> labels = {0, 1, -1};
  metrics.addClassified({2, 3, 3, 1}, scores, labels, -1);
  EXPECT_EQ(metrics.targets, 2);
  EXPECT_EQ(metrics.correct, 2);
  EXPECT_NEAR(metrics.loss(), std::log(1 + std::exp(-5.0)), 1e-12);
}

TEST(MetricsTest, MeanSquares) {
  Metrics metrics;
  std::vector<double> outputs = {1, 2}, targets = {1, 4};
  metrics.addRegression(outputs, targets);
  EXPECT_EQ(metrics.loss(), 2);
  EXPECT_EQ(describe(metrics), "loss 2");
  EXPECT_EQ(Metrics().loss(), 0);
}

} // namespace
} // namespace stow
