// stow.map kernels against plain loops.
#include "tests/codegen/Kernels.h"

#include "runtime/base/Philox.h"

#include <bit>
#include <cmath>

using namespace stow;

namespace {

// Tests that a flat map computes every element, also the last partial vector, and nothing beyond.
TEST(Map, FlatOddSize) {
  LoadedKernels kernels(R"(
    func.func @g(%a: tensor<3x17x11xf32>, %b: tensor<3x17x11xf32>) -> tensor<3x17x11xf32> {
      %y = stow.map %a, %b : (tensor<3x17x11xf32>, tensor<3x17x11xf32>) -> tensor<3x17x11xf32> {
      ^bb0(%p: f32, %q: f32):
        %0 = arith.mulf %p, %q : f32
        %1 = arith.addf %0, %p : f32
        stow.yield %1 : f32
      }
      return %y : tensor<3x17x11xf32>
    })");
  auto a = someFloats(561), b = someFloats(561, 3, 2);
  std::vector<float> y(600, -7);
  kernels.run(0, {a.data(), b.data(), y.data()});
  for (size_t i = 0; i < 561; ++i)
    EXPECT_EQ(y[i], a[i] * b[i] + a[i]) << i;
  for (size_t i = 561; i < 600; ++i)
    EXPECT_EQ(y[i], -7) << i;
}

struct Operand4 {
  Shape shape;        ///< up to four dimensions
  std::string layout; ///< order, empty: row-major
};

/// "tensor<2x5xf32, #stow.layout<...>>"
std::string typeOf(const Operand4 &operand, const std::string &element = "f32") {
  std::string text = "tensor<";
  for (int64_t extent : operand.shape)
    text += std::to_string(extent) + "x";
  text += element;
  if (!operand.layout.empty())
    text += ", #stow.layout<\"" + operand.layout + "\">";
  return text + ">";
}

/// Where element `at` of the broadcast space lies in the stored operand.
int64_t storedIndex(const Operand4 &operand, const Shape &space, std::vector<int64_t> at) {
  int64_t logical = 0;
  size_t missing = space.size() - operand.shape.size();
  for (size_t d = 0; d < operand.shape.size(); ++d)
    logical = logical * operand.shape[d] + (operand.shape[d] == 1 ? 0 : at[missing + d]);
  Layout layout = operand.layout.empty() ? Layout() : parseLayout(operand.layout);
  return LayoutIndex(layout, operand.shape)(logical);
}

struct BroadcastCase {
  Shape space;
  std::string layout;
  std::vector<Operand4> operands;
};

class Broadcast : public testing::TestWithParam<BroadcastCase> {};

// Tests a - 2 b + 3 c over shapes that broadcast, in all layouts, whole and task by task.
TEST_P(Broadcast, AgreesWithLoops) {
  const BroadcastCase &test = GetParam();
  Operand4 result{test.space, test.layout};
  std::string arguments, types, block, body, sum;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    std::string n = std::to_string(i), comma = i ? ", " : "";
    arguments += comma + "%x" + n;
    types += comma + typeOf(test.operands[i]);
    block += comma + "%p" + n + ": f32";
  }
  std::string formula = "%c = arith.constant 2.0 : f32 %s0 = arith.mulf %p0, %c : f32 ";
  for (size_t i = 1; i < test.operands.size(); ++i)
    formula += "%s" + std::to_string(i) + " = arith.subf %p" + std::to_string(i) + ", %s" +
               std::to_string(i - 1) + " : f32 ";
  std::string signature;
  for (size_t i = 0; i < test.operands.size(); ++i)
    signature += (i ? ", %x" : "%x") + std::to_string(i) + ": " + typeOf(test.operands[i]);
  LoadedKernels kernels("func.func @g(" + signature + ") { %y = stow.map " + arguments + " : (" +
                        types + ") -> " + typeOf(result) + " { ^bb0(" + block + "): " + formula +
                        "stow.yield %s" + std::to_string(test.operands.size() - 1) +
                        " : f32 } return }");
  std::vector<std::vector<float>> data;
  std::vector<void *> pointers;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    data.push_back(someFloats(elementCount(test.operands[i].shape), 1, i + 1));
    pointers.push_back(data.back().data());
  }
  int64_t count = elementCount(test.space);
  std::vector<float> y(count), split(count);
  pointers.push_back(y.data());
  kernels.run(0, pointers);
  pointers.back() = split.data();
  kernels.run(0, pointers, 1);
  EXPECT_EQ(y, split);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> at(test.space.size());
    int64_t rest = i;
    for (size_t d = at.size(); d-- > 0; rest /= test.space[d])
      at[d] = rest % test.space[d];
    float expected = 0;
    for (size_t k = 0; k < data.size(); ++k) {
      float value = data[k][storedIndex(test.operands[k], test.space, at)];
      expected = k == 0 ? value * 2 : value - expected;
    }
    ASSERT_EQ(y[storedIndex(result, test.space, at)], expected) << "element " << i;
  }
}

const std::string kLast = "0,2,3,1";

INSTANTIATE_TEST_SUITE_P(
    Map, Broadcast,
    testing::Values(
        BroadcastCase{{2, 5, 3, 4}, kLast, {{{2, 5, 3, 4}, kLast}, {{5, 1, 1}, ""}}},
        BroadcastCase{{2, 64, 7, 7}, kLast, {{{2, 64, 7, 7}, kLast}, {{1, 64, 1, 1}, kLast}}},
        BroadcastCase{{2, 5, 3, 4}, "", {{{2, 5, 3, 4}, ""}, {{5, 1, 1}, ""}}},
        // squeeze-and-excitation: one factor per image and channel
        BroadcastCase{{3, 17, 5, 5}, kLast, {{{3, 17, 5, 5}, kLast}, {{3, 17, 1, 1}, ""}}},
        // mixed layouts: strided loads
        BroadcastCase{{2, 19, 3, 4}, kLast, {{{2, 19, 3, 4}, ""}, {{2, 19, 3, 4}, kLast}}},
        BroadcastCase{{2, 19, 3, 21}, "", {{{2, 19, 3, 21}, kLast}, {{3, 1}, ""}, {{21}, ""}}},
        BroadcastCase{{7, 10}, "", {{{7, 10}, ""}, {{10}, ""}, {{7, 1}, ""}, {{}, ""}}},
        BroadcastCase{{1}, "", {{{1}, ""}, {{}, ""}}}, BroadcastCase{{}, "", {{{}, ""}, {{}, ""}}},
        // several tasks: rows, parts of rows, and an uneven last part
        BroadcastCase{{40000}, "", {{{40000}, ""}, {{1}, ""}}},
        BroadcastCase{{3, 30001}, "", {{{3, 30001}, ""}, {{3, 1}, ""}}},
        BroadcastCase{{500, 33}, "", {{{500, 33}, ""}, {{33}, ""}}},
        BroadcastCase{{500, 33}, "1,0", {{{500, 33}, "1,0"}, {{33}, ""}}}));

// Tests that operands in one blocked layout are walked as stored, padding included.
TEST(Map, BlockedWeights) {
  Operand4 weight{{20, 3, 3, 3}, "0,2,3,1;0:16"};
  std::string type = typeOf(weight);
  LoadedKernels kernels("func.func @g(%p: " + type + ", %g: " + type + ", %lr: tensor<f32>, %m: " +
                        type + ") { %y, %m1 = stow.sgd %p, %g, %lr, %m {momentum = 0.9 : f64, " +
                        "weight_decay = 0.01 : f64, nesterov = true} : (" + type + ", " + type +
                        ", tensor<f32>, " + type + ") -> (" + type + ", " + type + ") return }");
  size_t count = storedElementCount(parseLayout(weight.layout), weight.shape);
  EXPECT_EQ(count, 32u * 27);
  auto p = someFloats(count), g = someFloats(count, 1, 2), m = someFloats(count, 1, 3);
  float rate = 0.1f;
  std::vector<double> parameter(count), momentum(count);
  for (size_t i = 0; i < count; ++i) {
    double gradient = g[i] + 0.01 * p[i];
    momentum[i] = 0.9 * m[i] + gradient;
    parameter[i] = p[i] - 0.1 * (gradient + 0.9 * momentum[i]);
  }
  // In place: results lie where the operands lie.
  kernels.run(0, {p.data(), g.data(), &rate, m.data(), p.data(), m.data()}, 1);
  expectClose(p, parameter, 1e-6, 1e-6);
  expectClose(m, momentum, 1e-6, 1e-6);
}

// Tests Adam against the textbook formula in double, at the first and at a late step.
TEST(Map, Adam) {
  for (bool decoupled : {false, true}) {
    LoadedKernels kernels(std::string(R"(
      func.func @g(%p: tensor<1000xf32>, %g: tensor<1000xf32>, %lr: tensor<f32>, %t: tensor<i64>,
                   %m: tensor<1000xf32>, %v: tensor<1000xf32>) {
        %p1, %m1, %v1 = stow.adam %p, %g, %lr, %t, %m, %v {beta1 = 0.9 : f64, beta2 = 0.999 : f64,
            epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64, decoupled = )") +
                          (decoupled ? "true" : "false") + R"(}
            : (tensor<1000xf32>, tensor<1000xf32>, tensor<f32>, tensor<i64>, tensor<1000xf32>,
               tensor<1000xf32>) -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>)
        return
      })");
    for (int64_t step : {int64_t{1}, int64_t{12345}, int64_t{1} << 40}) {
      auto p = someFloats(1000), g = someFloats(1000, 1, 2), m = someFloats(1000, 0.1f, 3);
      auto v = someFloats(1000, 0.1f, 4);
      for (float &value : v)
        value = std::abs(value) + 0.01f;
      float rate = 1e-3f;
      std::vector<double> expected(1000);
      for (size_t i = 0; i < 1000; ++i) {
        double decayed = decoupled ? p[i] * (1 - 1e-5) : p[i];
        double gradient = decoupled ? g[i] : g[i] + 0.01 * p[i];
        double first = 0.9 * m[i] + 0.1 * gradient;
        double second = 0.999 * v[i] + 0.001 * gradient * gradient;
        double t = static_cast<double>(step);
        first /= 1 - std::pow(0.9, t), second /= 1 - std::pow(0.999, t);
        expected[i] = decayed - 1e-3 * first / (std::sqrt(second) + 1e-8);
      }
      kernels.run(
          0, {p.data(), g.data(), &rate, &step, m.data(), v.data(), p.data(), m.data(), v.data()});
      expectClose(p, expected, 1e-6, 2e-7);
    }
  }
}

// Tests that dropout draws the row-major numbers of Philox in any layout.
TEST(Map, DropoutIsPhiloxOfTheLogicalIndex) {
  LoadedKernels kernels(R"(
    func.func @g(%a: tensor<2x5x3x4xf32>, %b: tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>,
                 %seed: tensor<i64>) {
      %y = stow.dropout_training %a, %seed {ratio = 0.3 : f64, stream = 5 : i64}
          : (tensor<2x5x3x4xf32>, tensor<i64>) -> tensor<2x5x3x4xf32>
      %z = stow.dropout_training %b, %seed {ratio = 0.3 : f64, stream = 5 : i64}
          : (tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<i64>)
          -> tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>
      return
    })");
  std::vector<float> ones(120, 1), y(120), z(120);
  int64_t seed = 0x123456789ABCDEF;
  kernels.run(0, {ones.data(), &seed, y.data()});
  kernels.run(1, {ones.data(), &seed, z.data()});
  LayoutIndex last(parseLayout(kLast), {2, 5, 3, 4});
  auto limit = static_cast<uint32_t>(0.7 * 4294967296.0);
  int kept = 0;
  for (uint32_t i = 0; i < 120; ++i) {
    auto words =
        philox({i, 0, 5, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    float expected = words[0] < limit ? static_cast<float>(1 / 0.7) : 0;
    EXPECT_FLOAT_EQ(y[i], expected);
    EXPECT_EQ(z[last(i)], y[i]);
    kept += expected != 0;
  }
  EXPECT_GT(kept, 60);
  EXPECT_LT(kept, 105);
}

// Tests masks: one byte per element, written as 0 or 1 and read as set when not 0.
TEST(Map, Masks) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<41xf32>, %dy: tensor<41xf32>) {
      %m = stow.positive_mask %x : (tensor<41xf32>) -> tensor<41xi1>
      %dx = stow.relu_grad %dy, %m : (tensor<41xf32>, tensor<41xi1>) -> tensor<41xf32>
      return
    })");
  auto x = someFloats(41), dy = someFloats(41, 1, 2);
  std::vector<uint8_t> mask(48, 9);
  std::vector<float> dx(41);
  kernels.run(0, {x.data(), mask.data()});
  kernels.run(1, {dy.data(), mask.data(), dx.data()});
  for (int i = 0; i < 41; ++i) {
    EXPECT_EQ(mask[i], x[i] > 0);
    EXPECT_EQ(dx[i], x[i] > 0 ? dy[i] : 0);
  }
  EXPECT_EQ(mask[41], 9);
}

// Tests that f64 and 16-bit floats compute, the latter in f32 with one rounding.
TEST(Map, ElementTypes) {
  for (std::string cpu : {"native", "x86-64-v3"}) {
    LoadedKernels kernels(R"(
      func.func @g(%x: tensor<37xf64>, %h: tensor<37xbf16>, %f: tensor<37xf16>) {
        %y = stow.exp %x : (tensor<37xf64>) -> tensor<37xf64>
        %a = stow.sigmoid %h : (tensor<37xbf16>) -> tensor<37xbf16>
        %b = stow.cast %h : (tensor<37xbf16>) -> tensor<37xf32>
        %c = stow.mul %f, %f : (tensor<37xf16>, tensor<37xf16>) -> tensor<37xf16>
        %d = stow.cast %f : (tensor<37xf16>) -> tensor<37xf32>
        return
      })",
                          cpu);
    std::vector<double> x(37), y(37);
    std::vector<uint16_t> h(37), a(37), f(37), c(37);
    for (int i = 0; i < 37; ++i) {
      x[i] = i * 0.37 - 5;
      float value = static_cast<float>(x[i]);
      h[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      f[i] = static_cast<uint16_t>(0x3C00 + 16 * i); // 1 + i/64
    }
    kernels.run(0, {x.data(), y.data()});
    kernels.run(1, {h.data(), a.data()});
    std::vector<float> wide(37), square(37), half(37);
    kernels.run(2, {h.data(), wide.data()});
    kernels.run(3, {f.data(), f.data(), c.data()});
    kernels.run(4, {c.data(), square.data()});
    for (int i = 0; i < 37; ++i) {
      EXPECT_NEAR(y[i], std::exp(x[i]), 1e-14 * std::exp(x[i]));
      EXPECT_EQ(wide[i], std::bit_cast<float>(uint32_t{h[i]} << 16));
      float sigmoid = std::bit_cast<float>(uint32_t{a[i]} << 16);
      double exact = 1 / (1 + std::exp(-double(wide[i])));
      EXPECT_NEAR(sigmoid, exact, exact / 256) << cpu;
      double one = 1 + i / 64.0;
      EXPECT_NEAR(square[i], one * one, one * one / 2048) << cpu;
    }
  }
}

} // namespace
