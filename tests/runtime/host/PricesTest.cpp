// Tests which implementation of the library a convolution runs as, by what was measured.
#include "runtime/host/Prices.h"
#include "runtime/host/Instructions.h"
#include "runtime/host/Primitive.h"
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

namespace stow::host::test {
namespace {

constexpr auto Forward = ConvolutionKind::Forward, GradInput = ConvolutionKind::GradInput;

bool isMeasured() { return instructions() == InstructionSet::Avx512Bf16; }

std::vector<std::string> namesOf(const std::vector<Rate> &rates) {
  std::vector<std::string> names;
  for (const Rate &rate : rates)
    names.emplace_back(rate.implementation);
  return names;
}

/// A forward convolution of windows of one element, its weights free.
std::string implementationOf(int64_t inputs, int64_t outputs, int64_t size, int64_t threads = 1) {
  Command command;
  command.op = CommandOp::DnnlConvolution;
  command.name = "test";
  command.operands = {{0, DType::F32, {8, inputs, size, size}, channelsLast()},
                      {0, DType::F32, {outputs, inputs, 1, 1}, Layout{}},
                      {0, DType::F32, {8, outputs, size, size}, channelsLast()}};
  command.ints = {
      {"strides", {1, 1}}, {"pads", {0, 0, 0, 0}}, {"dilations", {1, 1}}, {"groups", {1}}};
  return queryLibrary(command, {false, true, false}, threads).implementation;
}

// Tests that a call finds the rates of the one that is most like it: the same channels, then near extents; and none where windows
// or vectors differ, or all is larger by far.
TEST(Prices, AreThoseOfTheNearestCall) {
  const PricedCall known = {Forward, false, 8, 144, 24, 1, 1, 28, 1};
  if (!isMeasured()) {
    EXPECT_TRUE(ratesOf(known).empty());
    return;
  }
  const std::vector<Rate> rates = ratesOf(known);
  ASSERT_GT(rates.size(), 2);
  EXPECT_TRUE(std::ranges::is_sorted(rates, std::greater(), &Rate::gigaflops));
  EXPECT_THAT(namesOf(rates), testing::Contains("jit_1x1:avx2"));
  PricedCall near = known;
  near.images = 32, near.size = 30;
  EXPECT_EQ(ratesOf(near), rates);
  near.inputs = 145; // fills no vector
  EXPECT_TRUE(ratesOf(near).empty());
  near = known, near.groups = 8;
  EXPECT_TRUE(ratesOf(near).empty());
  near = known, near.inputs = 2304;
  EXPECT_TRUE(ratesOf(near).empty());
  near = known, near.kind = GradInput;
  EXPECT_NE(ratesOf(near), rates);
}

// Tests that a call runs as the implementation that was the fastest without buffers from the heap, on any number of threads; 24 channels
// fill vectors of eight, and one and a half of sixteen.
TEST(Prices, ChooseTheFastest) {
  if (!isMeasured())
    GTEST_SKIP() << "nothing was measured with these instructions";
  for (int64_t threads : {1, 2, 16})
    EXPECT_EQ(implementationOf(144, 24, 28, threads), "jit_1x1:avx2");
}

// Tests that a measurement says what an implementation is to be, for its kind of call and as long as it lasts; and that a name which
// the library does not offer changes nothing.
TEST(Prices, AreMeasuredInScopes) {
  const std::string usual = implementationOf(32, 32, 8);
  const std::string other = usual == "jit:avx2" ? "jit_1x1:avx2" : "jit:avx2";
  {
    const ImplementationScope scope(Forward, other);
    EXPECT_EQ(implementationOf(32, 32, 8), other);
    const ImplementationScope inner(GradInput, usual);
    EXPECT_EQ(implementationOf(32, 32, 8), usual);
  }
  const ImplementationScope scope(Forward, "no such code");
  EXPECT_FALSE(isReference(implementationOf(32, 32, 8).c_str()));
}

} // namespace
} // namespace stow::host::test
