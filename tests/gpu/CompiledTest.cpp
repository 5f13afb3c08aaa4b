// Kernels as nvcc compiles them (data/kernels.cu), against plain loops.
#include "tests/gpu/Ptx.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

using namespace stow::sim;

namespace {

class Compiled : public testing::Test {
protected:
  Compiled() : module(read(), device.memory) {}

  static std::string read() {
    std::ifstream file(STOWAGE_SOURCE_DIR "/tests/gpu/data/kernels.ptx");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  /// `params`: the bytes of each parameter are those of its type.
  template <class... Params>
  void run(const std::string &name, Extents grid, Extents block, Params... params) {
    Launch launch = device.like;
    launch.kernel = module.kernel(name);
    ASSERT_NE(launch.kernel, nullptr);
    ASSERT_EQ(launch.kernel->params.size(), sizeof...(params));
    launch.grid = grid, launch.block = block;
    launch.params.resize(launch.kernel->paramBytes);
    size_t number = 0;
    (memcpy(launch.params.data() + launch.kernel->params[number++].offset, &params, sizeof params),
     ...);
    execute(launch, device.memory);
  }

  std::vector<float> drawn(size_t count) {
    std::mt19937 random(7);
    std::vector<float> values(count);
    for (float &value : values)
      value = static_cast<float>(random()) / 0x1p28f - 8;
    return values;
  }

  Device device;
  LoadedModule module;
};

TEST_F(Compiled, Softmax) {
  constexpr int kRows = 5, kColumns = 333;
  auto x = drawn(kRows * kColumns);
  uint64_t in = device.upload(x), out = device.upload(std::vector<float>(x.size()));
  device.like.checks.races = true;
  run("softmax", {kRows, 1, 1}, {128, 1, 1}, in, out, kColumns);
  auto y = device.download<float>(out, x.size());
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int i = 0; i < kColumns; ++i)
      sum += std::exp(double{x[row * kColumns + i]});
    for (int i = 0; i < kColumns; ++i) {
      double exact = std::exp(double{x[row * kColumns + i]}) / sum;
      ASSERT_NEAR(y[row * kColumns + i], exact, 2e-6 * exact);
    }
  }
}

TEST_F(Compiled, FunctionsOfTheLibrary) {
  auto x = drawn(100);
  x[0] = 123456; // beyond the fast reduction of sine's argument
  x[1] = 0, x[2] = INFINITY, x[3] = -1e-30f;
  uint64_t in = device.upload(x), out = device.upload(std::vector<float>(7 * x.size()));
  run("functions", {4, 1, 1}, {32, 1, 1}, in, out, static_cast<int>(x.size()));
  auto y = device.download<float>(out, 7 * x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double a = x[i], size = std::abs(a);
    const double exact[] = {std::sin(a),  std::exp(a), std::log(size),     std::pow(size, 1.7f),
                            std::tanh(a), std::erf(a), std::sqrt(size) / 3};
    for (size_t k = 0; k < 7; ++k) {
      float found = y[7 * i + k];
      auto wanted = static_cast<float>(exact[k]);
      if (std::isnan(wanted) || std::isinf(wanted))
        ASSERT_EQ(std::isnan(found) ? 2 : found, std::isnan(wanted) ? 2 : wanted)
            << k << " of " << a;
      else
        ASSERT_NEAR(found, wanted, 2e-6 * std::abs(wanted) + 1e-38) << k << " of " << a;
    }
  }
}

TEST_F(Compiled, HalvesAndLongIntegers) {
  constexpr int kCount = 70;
  auto brain = [](float value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  };
  std::vector<uint32_t> pairs(kCount), halves(kCount, 0x3C003C00); // ones
  for (int i = 0; i < kCount; ++i)                                 // values whose products fit
    pairs[static_cast<size_t>(i)] =
        brain(static_cast<float>(i % 9) / 4) | static_cast<uint32_t>(brain(0.5f)) << 16;
  uint64_t b = device.upload(pairs), h = device.upload(halves),
           q = device.upload(std::vector<int64_t>(kCount));
  run("mixed", {3, 1, 1}, {32, 1, 1}, b, h, q, kCount);
  auto found = device.download<uint32_t>(h, kCount);
  auto numbers = device.download<int64_t>(q, kCount);
  for (int i = 0; i < kCount; ++i) {
    float value = static_cast<float>(i % 9) / 4,
          sum = 2 * value * value + value * static_cast<float>(i & 7);
    uint16_t low = static_cast<uint16_t>(found[static_cast<size_t>(i)]);
    float half = low & 0x7FFF ? std::ldexp(1 + (low & 1023) / 1024.0f, (low >> 10) - 15) : 0;
    EXPECT_EQ(half, sum) << i;
    int64_t number = 1000000007ll * (i + 1);
    int64_t wanted = i % 5 == 0   ? number / (i + 3)
                     : i % 5 == 1 ? number % (97 + i)
                     : i % 5 == 2 ? std::popcount(static_cast<uint64_t>(number)) +
                                        std::countl_zero(static_cast<uint64_t>(number))
                     : i % 5 == 3 ? static_cast<int64_t>(static_cast<double>(number) * 0.5)
                                  : -number >> 3;
    EXPECT_EQ(numbers[static_cast<size_t>(i)], wanted) << i;
  }
}

TEST_F(Compiled, ReportsAndAssertions) {
  std::string printed;
  device.like.print = [&](const std::string &text) { printed += text; };
  device.like.dynamicSharedBytes = 64 * sizeof(float);
  uint64_t sums = device.upload(std::vector<float>(2));
  run("reports", {1, 1, 1}, {64, 1, 1}, sums, -1);
  EXPECT_EQ(device.download<float>(sums, 2), (std::vector<float>{512, 496}));
  // The fourth of the warp that counted first.
  EXPECT_THAT(printed,
              testing::AnyOf("thread 3 of reports: 1.50\n", "thread 35 of reports: 17.50\n"));
  try {
    run("reports", {1, 1, 1}, {64, 1, 1}, sums, 40);
    FAIL() << "the assertion held";
  } catch (const Fault &fault) {
    EXPECT_THAT(fault.what(),
                testing::HasSubstr("assertion `static_cast<int>(threadIdx.x) != broken' failed"));
    EXPECT_THAT(fault.what(), testing::HasSubstr("thread (40,0,0)"));
  }
}

} // namespace
