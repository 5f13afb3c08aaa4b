// Reading and adding by index, strided boxes, running sums and the largest elements, against plain
// loops over [outer, axis, inner].
#include "tests/codegen/Kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

using namespace stow;

namespace {

/// Extents of a tensor before, along and behind the axis.
struct Box {
  int64_t outer, extent, inner;

  int64_t size() const { return outer * extent * inner; }
  int64_t at(int64_t o, int64_t a, int64_t i) const { return (o * extent + a) * inner + i; }
  std::string type(const std::string &element) const {
    return "tensor<" + std::to_string(outer) + "x" + std::to_string(extent) + "x" +
           std::to_string(inner) + "x" + element + ">";
  }
};

/// Indices from both ends, some outside [-extent, extent).
std::vector<int64_t> someIndices(int64_t count, int64_t extent) {
  std::vector<int64_t> indices(count);
  uint64_t state = 7;
  for (int64_t &index : indices) {
    state = state * 6364136223846793005 + 1442695040888963407;
    index = static_cast<int64_t>((state >> 33) % (2 * extent + 2)) - extent - 1;
  }
  return indices;
}

/// The position that an index names, or -1.
int64_t placeOf(int64_t index, int64_t extent) {
  int64_t at = index < 0 ? index + extent : index;
  return at >= 0 && at < extent ? at : -1;
}

struct AlongCase {
  Box x;
  int64_t count;
  bool shared; ///< one index for all positions outside the axis
};

class Along : public testing::TestWithParam<AlongCase> {};

// Tests elements read by index: NaN where there is none, and whole and task by task to the bit.
TEST_P(Along, TakesElements) {
  auto [x, count, shared] = GetParam();
  Box y{x.outer, count, x.inner}, index = shared ? Box{1, count, 1} : y;
  LoadedKernels kernels("func.func @g(%x: " + x.type("f32") + ", %i: " + index.type("i64") +
                        ") { %y = stow.take_along %x, %i {axis = 1 : i64} : (" + x.type("f32") +
                        ", " + index.type("i64") + ") -> " + y.type("f32") + " return }");
  auto data = someFloats(x.size());
  auto indices = someIndices(index.size(), x.extent);
  std::vector<float> found(y.size(), 9), split(y.size(), 9);
  kernels.run(0, {data.data(), indices.data(), found.data()});
  kernels.run(0, {data.data(), indices.data(), split.data()}, 1);
  for (int64_t o = 0; o < y.outer; ++o)
    for (int64_t a = 0; a < count; ++a)
      for (int64_t i = 0; i < y.inner; ++i) {
        int64_t place = placeOf(shared ? indices[a] : indices[y.at(o, a, i)], x.extent);
        float value = found[y.at(o, a, i)];
        if (place < 0)
          EXPECT_TRUE(std::isnan(value));
        else
          EXPECT_EQ(value, data[x.at(o, place, i)]);
        EXPECT_TRUE(split[y.at(o, a, i)] == value || std::isnan(value));
      }
}

// Tests sums by index, in the order of the updates; indices outside count for nothing.
TEST_P(Along, ScattersSums) {
  auto [y, count, shared] = GetParam();
  Box x{y.outer, count, y.inner}, index = shared ? Box{1, count, 1} : x;
  LoadedKernels kernels("func.func @g(%x: " + x.type("f32") + ", %i: " + index.type("i64") +
                        ") { %y = stow.scatter_along %x, %i {axis = 1 : i64, extent = " +
                        std::to_string(y.extent) + " : i64} : (" + x.type("f32") + ", " +
                        index.type("i64") + ") -> " + y.type("f32") + " return }");
  auto data = someFloats(x.size());
  auto indices = someIndices(index.size(), y.extent);
  std::vector<float> found(y.size(), 9), split(y.size(), 9), expected(y.size(), 0);
  kernels.run(0, {data.data(), indices.data(), found.data()});
  kernels.run(0, {data.data(), indices.data(), split.data()}, 1);
  for (int64_t o = 0; o < x.outer; ++o)
    for (int64_t a = 0; a < count; ++a)
      for (int64_t i = 0; i < x.inner; ++i) {
        int64_t place = placeOf(shared ? indices[a] : indices[x.at(o, a, i)], y.extent);
        if (place >= 0)
          expected[y.at(o, place, i)] += data[x.at(o, a, i)];
      }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(split, expected);
}

/// What joins updates to what is there.
struct Join {
  std::string op;
  float (*join)(float there, float update);
};

// Tests maxima and products by index of what is there and what arrives; indices outside count for nothing.
TEST_P(Along, ScattersMaximaAndProducts) {
  auto [y, count, shared] = GetParam();
  const Join joins[] = {{"scatter_max", [](float a, float b) { return std::max(a, b); }},
                        {"scatter_mul", [](float a, float b) { return a * b; }}};
  for (const Join &by : joins) {
    SCOPED_TRACE(by.op);
    Box x{y.outer, count, y.inner}, index = shared ? Box{1, count, 1} : x;
    LoadedKernels kernels("func.func @g(%x: " + y.type("f32") + ", %u: " + x.type("f32") +
                          ", %i: " + index.type("i64") + ") { %y = stow." + by.op +
                          " %x, %u, %i {axis = 1 : i64} : (" + y.type("f32") + ", " +
                          x.type("f32") + ", " + index.type("i64") + ") -> " + y.type("f32") +
                          " return }");
    auto data = someFloats(x.size());
    auto indices = someIndices(index.size(), y.extent);
    std::vector<float> initial(y.size(), -0.25F), expected = initial;
    std::vector<float> found(y.size(), 9), split(y.size(), 9);
    kernels.run(0, {initial.data(), data.data(), indices.data(), found.data()});
    kernels.run(0, {initial.data(), data.data(), indices.data(), split.data()}, 1);
    for (int64_t o = 0; o < x.outer; ++o)
      for (int64_t a = 0; a < count; ++a)
        for (int64_t i = 0; i < x.inner; ++i) {
          int64_t place = placeOf(shared ? indices[a] : indices[x.at(o, a, i)], y.extent);
          if (place >= 0)
            expected[y.at(o, place, i)] = by.join(expected[y.at(o, place, i)], data[x.at(o, a, i)]);
        }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(split, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Index, Along,
    testing::Values(AlongCase{{3, 7, 37}, 5, true}, AlongCase{{3, 7, 37}, 9, false},
                    AlongCase{{5, 11, 1}, 4, true}, AlongCase{{5, 11, 1}, 13, false},
                    AlongCase{{1, 40, 1}, 100, true}, AlongCase{{1, 9, 130}, 3, false}));

// Tests that whole numbers and masks are read too, with 0 where there are none, in every layout.
TEST(Index, TakesWholeNumbersAndChannels) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<2x5xi64>, %m: tensor<2x5xi1>, %i: tensor<2x3xi32>,
                 %c: tensor<2x3x4x5xf32, #stow.layout<"0,2,3,1">>, %j: tensor<1x1x2x1xi32>) {
      %y = stow.take_along %x, %i {axis = 1 : i64} : (tensor<2x5xi64>, tensor<2x3xi32>) -> tensor<2x3xi64>
      %n = stow.take_along %m, %i {axis = 1 : i64} : (tensor<2x5xi1>, tensor<2x3xi32>) -> tensor<2x3xi1>
      %d = stow.take_along %c, %j {axis = 2 : i64}
          : (tensor<2x3x4x5xf32, #stow.layout<"0,2,3,1">>, tensor<1x1x2x1xi32>)
          -> tensor<2x3x2x5xf32, #stow.layout<"0,2,3,1">>
      return
    })");
  std::vector<int64_t> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, y(6);
  std::vector<uint8_t> m = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0}, n(6, 9);
  std::vector<int32_t> i = {4, -5, 5, 0, 1, -1}, j = {3, 0};
  kernels.run(0, {x.data(), i.data(), y.data()});
  EXPECT_EQ(y, (std::vector<int64_t>{5, 1, 0, 6, 7, 10}));
  kernels.run(1, {m.data(), i.data(), n.data()});
  EXPECT_EQ(n, (std::vector<uint8_t>{1, 1, 0, 0, 1, 0}));
  auto c = someFloats(2 * 4 * 5 * 3);
  std::vector<float> d(2 * 2 * 5 * 3);
  kernels.run(2, {c.data(), j.data(), d.data()});
  for (int b = 0; b < 2; ++b)
    for (int row = 0; row < 2; ++row)
      for (int k = 0; k < 15; ++k)
        EXPECT_EQ(d[(b * 2 + row) * 15 + k], c[(b * 4 + j[row]) * 15 + k]);
}

// Tests boxes in steps, forwards and backwards, and their way back with zeros between.
TEST(Index, StepsThroughBoxes) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<9x40xf32>) {
      %y = stow.strided_slice %x {starts = array<i64: 1, 38>, sizes = array<i64: 3, 19>, steps = array<i64: 3, -2>}
          : (tensor<9x40xf32>) -> tensor<3x19xf32>
      %z = stow.strided_pad %y {starts = array<i64: 1, 38>, steps = array<i64: 3, -2>, shape = array<i64: 9, 40>}
          : (tensor<3x19xf32>) -> tensor<9x40xf32>
      return
    })");
  auto x = someFloats(9 * 40);
  std::vector<float> y(3 * 19), z(9 * 40, 7), split(9 * 40, 7), expected(9 * 40, 0);
  kernels.run(0, {x.data(), y.data()});
  kernels.run(1, {y.data(), z.data()});
  kernels.run(1, {y.data(), split.data()}, 1);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 19; ++c) {
      int from = (1 + 3 * r) * 40 + 38 - 2 * c;
      EXPECT_EQ(y[r * 19 + c], x[from]);
      expected[from] = x[from];
    }
  EXPECT_EQ(z, expected);
  EXPECT_EQ(split, expected);
}

class Axis : public testing::TestWithParam<Box> {};

// Tests running sums of floats and of whole numbers, all four kinds.
TEST_P(Axis, SumsUp) {
  Box x = GetParam();
  const std::vector<std::pair<bool, bool>> kinds = {
      {false, false}, {false, true}, {true, false}, {true, true}};
  std::string ops;
  for (auto [exclusive, reverse] : kinds)
    for (auto [name, element] : {std::pair("a", "f32"), {"b", "i64"}}) {
      std::string number = (exclusive ? "1" : "0") + std::string(reverse ? "1" : "0");
      ops += std::string("%y") + name + number + " = stow.cumsum %" + name +
             " {axis = 1 : i64, exclusive = " + (exclusive ? "true" : "false") +
             ", reverse = " + (reverse ? "true" : "false") + "} : (" + x.type(element) + ") -> " +
             x.type(element) + "\n";
    }
  LoadedKernels kernels("func.func @g(%a: " + x.type("f32") + ", %b: " + x.type("i64") + ") {" +
                        ops + " return }");
  auto a = someFloats(x.size());
  std::vector<int64_t> b(x.size());
  std::iota(b.begin(), b.end(), -20);
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    auto [exclusive, reverse] = kinds[kind];
    std::vector<float> sums(x.size()), expected(x.size());
    std::vector<int64_t> wholes(x.size()), expectedWholes(x.size());
    kernels.run(2 * kind, {a.data(), sums.data()});
    kernels.run(2 * kind + 1, {b.data(), wholes.data()}, 1);
    for (int64_t o = 0; o < x.outer; ++o)
      for (int64_t i = 0; i < x.inner; ++i) {
        float sum = 0;
        int64_t whole = 0;
        for (int64_t step = 0; step < x.extent; ++step) {
          int64_t at = x.at(o, reverse ? x.extent - 1 - step : step, i);
          expected[at] = exclusive ? sum : sum + a[at];
          expectedWholes[at] = exclusive ? whole : whole + b[at];
          sum += a[at];
          whole += b[at];
        }
      }
    EXPECT_EQ(sums, expected) << "kind " << kind;
    EXPECT_EQ(wholes, expectedWholes) << "kind " << kind;
  }
}

// Tests the largest elements in bf16, in rows too short for a vector and in columns.
TEST(TopK, OfBf16) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<32x4xbf16>, %t: tensor<4x32xbf16>) {
      %v, %i = stow.top_k %x {axis = 1 : i64, k = 2 : i64, largest = true}
          : (tensor<32x4xbf16>) -> (tensor<32x2xbf16>, tensor<32x2xi64>)
      %w, %j = stow.top_k %t {axis = 0 : i64, k = 2 : i64, largest = true}
          : (tensor<4x32xbf16>) -> (tensor<2x32xbf16>, tensor<2x32xi64>)
      return
    })");
  auto bits = [](int value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
  };
  std::vector<uint16_t> x(128), t(128), v(64), w(64);
  std::vector<int64_t> i(64), j(64);
  for (int row = 0; row < 32; ++row)
    for (int column = 0; column < 4; ++column)
      x[row * 4 + column] = t[column * 32 + row] = bits(row - 16 + (column * 3 + row) % 4);
  kernels.run(0, {x.data(), v.data(), i.data()});
  kernels.run(1, {t.data(), w.data(), j.data()});
  for (int row = 0; row < 32; ++row)
    for (int rank = 0; rank < 2; ++rank) {
      const int offset = 3 - rank, column = (offset - row % 4 + 4) * 3 % 4;
      EXPECT_EQ(v[row * 2 + rank], bits(row - 16 + offset)) << row;
      EXPECT_EQ(w[rank * 32 + row], v[row * 2 + rank]) << row;
      EXPECT_EQ(i[row * 2 + rank], column) << row;
      EXPECT_EQ(j[rank * 32 + row], column) << row;
    }
}

// Tests the largest and the smallest elements and their positions; of equal ones the first.
TEST_P(Axis, OrdersElements) {
  Box x = GetParam();
  std::vector<std::pair<bool, Box>> kinds;
  std::string ops;
  for (bool largest : {false, true})
    for (int64_t k : {int64_t(1), std::min<int64_t>(3, x.extent), x.extent}) {
      std::string number = std::to_string(kinds.size());
      Box y{x.outer, k, x.inner};
      kinds.emplace_back(largest, y);
      ops += "%v" + number + ", %i" + number +
             " = stow.top_k %x {axis = 1 : i64, k = " + std::to_string(k) +
             " : i64, largest = " + (largest ? "true" : "false") + "} : (" + x.type("f32") +
             ") -> (" + y.type("f32") + ", " + y.type("i64") + ")\n";
    }
  LoadedKernels kernels("func.func @g(%x: " + x.type("f32") + ") {" + ops + " return }");
  auto data = someFloats(x.size());
  for (float &value : data)
    value = std::round(value * 4); // many are equal
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    auto [largest, y] = kinds[kind];
    std::vector<float> values(y.size()), expected(y.size());
    std::vector<int64_t> indices(y.size()), expectedIndices(y.size());
    kernels.run(kind, {data.data(), values.data(), indices.data()});
    for (int64_t o = 0; o < x.outer; ++o)
      for (int64_t i = 0; i < x.inner; ++i) {
        std::vector<int64_t> order(x.extent);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&, isLargest = largest](int64_t a, int64_t b) {
                           float left = data[x.at(o, a, i)], right = data[x.at(o, b, i)];
                           return isLargest ? left > right : left < right;
                         });
        for (int64_t rank = 0; rank < y.extent; ++rank) {
          expected[y.at(o, rank, i)] = data[x.at(o, order[rank], i)];
          expectedIndices[y.at(o, rank, i)] = order[rank];
        }
      }
    EXPECT_EQ(values, expected) << "kind " << kind;
    EXPECT_EQ(indices, expectedIndices) << "kind " << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Index, Axis,
                         testing::Values(Box{3, 7, 37}, Box{5, 11, 1}, Box{1, 40, 1},
                                         Box{40, 3, 2}));

} // namespace
