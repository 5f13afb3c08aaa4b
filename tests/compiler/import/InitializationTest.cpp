#include "compiler/import/Initialization.h"

#include "runtime/base/Error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stow::onnx {
namespace {

Distribution drawn(const char *text, Use use, const Shape &shape,
                   std::optional<int64_t> fanIn = std::nullopt) {
  return distributionFor(parseInitialization(text), use, shape, fanIn);
}

TEST(InitializationTest, PyTorchBoundsAreOneOverRootOfFanIn) {
  Distribution conv = drawn("pytorch", Use::ConvWeight, {64, 3, 7, 7});
  EXPECT_EQ(conv.kind, Distribution::Kind::Uniform);
  EXPECT_DOUBLE_EQ(conv.b, 1 / std::sqrt(3 * 49));
  EXPECT_DOUBLE_EQ(conv.a, -conv.b);
  EXPECT_DOUBLE_EQ(drawn("pytorch", Use::WeightOutIn, {10, 400}).b, 1 / std::sqrt(400));
  EXPECT_DOUBLE_EQ(drawn("pytorch", Use::WeightInOut, {400, 10}).b, 1 / std::sqrt(400));
  EXPECT_DOUBLE_EQ(drawn("pytorch", Use::Bias, {10}, 400).b, 1 / std::sqrt(400));
}

TEST(InitializationTest, LeadingOnesOfReshapedMatricesDoNotCount) {
  EXPECT_EQ(fanInOf(Use::WeightOutIn, {1, 1, 1000, 1024}), 1024);
  EXPECT_EQ(fanInOf(Use::WeightInOut, {1, 1, 1024, 1000}), 1024);
  // A convolution with one output keeps its dimension 0.
  EXPECT_EQ(fanInOf(Use::ConvWeight, {1, 16, 3, 3}), 144);
}

TEST(InitializationTest, KaimingAndXavierUseTheirFans) {
  Distribution kaiming = drawn("kaiming", Use::ConvWeight, {64, 3, 7, 7});
  EXPECT_EQ(kaiming.kind, Distribution::Kind::Normal);
  EXPECT_DOUBLE_EQ(kaiming.b, std::sqrt(2.0 / 147));
  Distribution xavier = drawn("xavier", Use::ConvWeight, {64, 3, 7, 7});
  EXPECT_EQ(xavier.kind, Distribution::Kind::Uniform);
  EXPECT_DOUBLE_EQ(xavier.b, std::sqrt(6.0 / (3 * 49 + 64 * 49)));
  EXPECT_EQ(drawn("kaiming", Use::Bias, {64}, 147).kind, Distribution::Kind::Constant);
}

TEST(InitializationTest, NormsStartAsIdentity) {
  for (const char *rule : {"pytorch", "kaiming", "xavier", "normal:0.1", "uniform"}) {
    EXPECT_EQ(drawn(rule, Use::NormScale, {8}).a, 1) << rule;
    EXPECT_EQ(drawn(rule, Use::NormShift, {8}).a, 0) << rule;
    EXPECT_EQ(drawn(rule, Use::Mean, {8}).a, 0) << rule;
    EXPECT_EQ(drawn(rule, Use::Variance, {8}).a, 1) << rule;
    EXPECT_EQ(drawn(rule, Use::Slope, {8}).a, 0.25) << rule;
  }
}

TEST(InitializationTest, ParametersOfRulesAreRead) {
  EXPECT_EQ(drawn("normal", Use::WeightOutIn, {4, 4}).b, 0.02);
  EXPECT_EQ(drawn("normal:0.5", Use::WeightOutIn, {4, 4}).b, 0.5);
  EXPECT_EQ(drawn("uniform:0.25", Use::WeightOutIn, {4, 4}).a, -0.25);
  for (const char *bad : {"", "he", "normal:", "normal:x", "uniform:-1", "kaiming:1", "normal:inf"})
    EXPECT_THROW(parseInitialization(bad), Error) << bad;
}

} // namespace
} // namespace stow::onnx
