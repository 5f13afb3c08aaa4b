// Steps small enough to count the bytes of by hand.
#include "compiler/eager/Program.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>

namespace stow::eager {
namespace {

using Kind = Tensor::Kind;

/// Builds a program call by call.
struct Builder {
  Program program;

  size_t tensor(Kind kind, Shape shape, int64_t width = 4) {
    program.tensors.push_back({"t", std::move(shape), width, kind});
    return program.tensors.size() - 1;
  }
  size_t call(std::string op, std::vector<size_t> reads, Shape shape,
              std::vector<int64_t> dimensions = {}, double rate = 0) {
    program.loss = tensor(Kind::Result, std::move(shape));
    program.calls.push_back(
        {std::move(op), std::move(reads), {program.loss}, std::move(dimensions), rate});
    return program.loss;
  }
  Bytes peak(const char *optimizer = "sgd", Device device = Device::Cpu) const {
    return peakOf(program, parseOptimizer(optimizer), device);
  }
};

/// x [4, 8] 128 bytes, w1 [16, 8] 512, hidden [4, 16] 256, w2 [2, 16] 128, y and target [4, 2] 32 each.
Builder dense() {
  Builder net;
  const size_t x = net.tensor(Kind::Input, {4, 8}), w1 = net.tensor(Kind::Parameter, {16, 8});
  const size_t w2 = net.tensor(Kind::Parameter, {2, 16}), target = net.tensor(Kind::Input, {4, 2});
  const size_t hidden = net.call("linear", {x, w1}, {4, 16});
  const size_t positive = net.call("relu", {hidden}, {4, 16});
  net.call("mse_loss", {net.call("linear", {positive, w2}, {4, 2}), target}, {});
  return net;
}

TEST(ReplayTest, TheBackwardHoldsWhatIsSavedBesideTwoGradients) {
  // 800 are there; relu's backward has its saved result, the gradients of both sides and that of w2: 3 * 256 + 128.
  EXPECT_EQ(dense().peak(), 800 + 3 * 256 + 128);
}

TEST(ReplayTest, OptimizersHaveStateAndTemporaries) {
  EXPECT_EQ(dense().peak("sgd:momentum=0.9"), 800 + 640 + 3 * 256 + 128);
  // On a CPU two tensors of the largest parameter, on a GPU one of all: beside state and gradients of both.
  EXPECT_EQ(dense().peak("adamw"), 800 + 3 * 640 + 2 * 512);
  EXPECT_EQ(dense().peak("adamw", Device::Cuda), 800 + 3 * 640 + 640);
}

TEST(ReplayTest, SumsOfGradientsAreThereFromTheStart) {
  Builder net = dense();
  net.program.accumulates = true;
  EXPECT_EQ(net.peak(), 800 + 640 + 3 * 256); // the gradient of w2 has been added by then
}

TEST(ReplayTest, DevicesByPyTorchsNames) {
  EXPECT_EQ(requireDevice("cpu"), Device::Cpu);
  EXPECT_EQ(requireDevice("cuda"), Device::Cuda);
  EXPECT_THROW(requireDevice("mps"), Error);
}

TEST(ReplayTest, AFrozenParameterKeepsNothingAlive) {
  Builder net = dense();
  net.program.tensors[1].kind = Kind::State;
  // Only w2 is trained: hidden values live one after the other, and their last for its gradient.
  EXPECT_EQ(net.peak(), 800 + 2 * 256);
}

TEST(ReplayTest, AReshapeOfTurnedDimensionsIsACopy) {
  auto peakOfView = [](const char *copied) {
    Builder net;
    const size_t w = net.tensor(Kind::Parameter, {4, 4, 4});
    const size_t turned =
        net.call("transpose", {net.call("exp", {w}, {4, 4, 4})}, {4, 4, 4}, {0, 1});
    const size_t whole = net.call(copied, {turned}, {4, 4, 4});
    net.call("sum", {net.call("exp", {net.call("view", {whole}, {16, 4})}, {16, 4})}, {});
    return net.peak();
  };
  // The copy is made where it is asked for, or else where the view needs it.
  EXPECT_EQ(peakOfView("contiguous"), peakOfView("alias"));
  Builder net;
  const size_t x = net.tensor(Kind::Input, {4, 4, 4});
  const size_t turned = net.call("transpose", {x}, {4, 4, 4}, {0, 1});
  net.call("view", {turned}, {16, 4});
  EXPECT_EQ(net.peak(), 256 + 256);
}

TEST(ReplayTest, AGradientOfTwoReadersIsAddedInPlaceWhereNobodyElseHasIt) {
  // w [64] 256 bytes: both exp's gradients come to it, one after the other.
  Builder net;
  const size_t w = net.tensor(Kind::Parameter, {64});
  const size_t a = net.call("exp", {w}, {64}), b = net.call("exp", {w}, {64});
  net.call("sum", {net.call("add", {a, b}, {64})}, {});
  // Two saved results, the sum's gradient shared by both (a view of four bytes), and the gradient of one; then one saved, two gradients.
  EXPECT_EQ(net.peak(), 4 * 256 + 4);
}

TEST(ReplayTest, AttentionWithADropoutHasNoFusedKernelOnACpu) {
  auto attention = [](double rate) {
    Builder net;
    const size_t q = net.tensor(Kind::Parameter, {1, 2, 32, 4}),
                 k = net.tensor(Kind::Parameter, {1, 2, 32, 4}),
                 v = net.tensor(Kind::Parameter, {1, 2, 32, 4});
    net.call("sum", {net.call("scaled_dot_product_attention", {q, k, v}, {1, 2, 32, 4}, {}, rate)},
             {});
    return net;
  };
  const Bytes scores = 2 * 32 * 32 * 4;
  EXPECT_LT(attention(0).peak(), 3 * scores);
  EXPECT_GT(attention(0.1).peak(),
            3 * scores); // the weights, the dropout's factors, and what it leaves
  EXPECT_EQ(attention(0.1).peak("sgd", Device::Cuda), attention(0).peak("sgd", Device::Cuda));
}

TEST(ReplayTest, AttentionWithoutAFusedKernelComputesInFloat32) {
  auto peak = [](int64_t width) {
    Builder net;
    const Shape shape = {1, 1, 64, 2};
    const size_t q = net.tensor(Kind::Parameter, shape), k = net.tensor(Kind::Parameter, shape),
                 v = net.tensor(Kind::Parameter, shape);
    const size_t seen =
        net.call("scaled_dot_product_attention", {q, k, v}, shape, {}, /*rate=*/0.1);
    for (eager::Tensor &tensor : net.program.tensors)
      tensor.width = width;
    net.call("sum", {seen}, {});
    return net.peak();
  };
  // Scores and weights, 64 x 64, are by far the most; the copies in float32 of three operands come on top.
  EXPECT_GT(peak(2), peak(4));
  EXPECT_LT(peak(2), peak(4) + 4 * 64 * 2 * 4);
}

TEST(ReplayTest, UnknownOperatorsAreNamed) {
  Builder net = dense();
  EXPECT_THAT(unknownOperators(net.program), testing::IsEmpty());
  net.call("frobnicate", {0}, {4, 8});
  EXPECT_THAT(unknownOperators(net.program), testing::ElementsAre("frobnicate"));
}

} // namespace
} // namespace stow::eager
