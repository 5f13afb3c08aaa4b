// Resampling and sums over neighbouring channels on the simulated device: vectors along rows that repeat, at
// the ends of rows and where nothing repeats, and vectors of channels, in all types.
#include "tests/codegen/LoadedKernels.h"
#include "tests/gpu/Accesses.h"
#include "tests/gpu/TypedValues.h"

#include "runtime/base/Concat.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace stow;

namespace {

const std::string kFirst = "0,1,2,3", kLast = "0,2,3,1"; ///< orders of an image's dimensions

/// An image [n, c, h, w] in an order and a type.
struct Image {
  std::array<int64_t, 4> shape;
  std::string order, type;

  std::string text() const {
    return concat("tensor<", shape[0], "x", shape[1], "x", shape[2], "x", shape[3], "x", type,
                  ", #stow.layout<\"", order, "\">>");
  }
  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  int64_t place(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return order == kFirst ? ((n * shape[1] + c) * shape[2] + h) * shape[3] + w
                           : ((n * shape[2] + h) * shape[3] + w) * shape[1] + c;
  }
  std::vector<char> stored(const std::vector<double> &values) const {
    return stow::stored(values, type);
  }
  /// Numbers that the type keeps, as the image lies.
  std::vector<double> some(uint64_t seed) const {
    std::vector<double> values;
    for (float value : someFloats(static_cast<size_t>(count()), 1, seed))
      values.push_back(rounded(value, type));
    return values;
  }
};

/// A sum in the order of its terms: of f32 as it is computed, of others in double.
struct Sum {
  bool isSingle;
  double value = 0;

  void add(double x, double weight) {
    value = isSingle
                ? static_cast<float>(value) + static_cast<float>(x) * static_cast<float>(weight)
                : value + x * weight;
  }
};

/// Holds `found` to `expected`, as they lie: f32 to the bit, others up to one rounding.
void compare(const std::vector<char> &found, const std::vector<double> &expected,
             const std::string &type) {
  const double relative = type == "f64" ? 1e-14 : type == "f32" ? 0 : type == "f16" ? 5e-4 : 4e-3;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = get(&found[i * bytesOf(type)], type);
    ASSERT_LE(std::abs(value - expected[i]), relative * (1 + std::abs(expected[i]))) << i;
  }
}

/// Rows of a matrix: sources and weights.
using Rows = std::vector<std::vector<std::pair<int64_t, double>>>;

/// Linear interpolation of `from` elements to `to`; of the nearest element where `isLinear` is false.
Rows interpolation(int64_t from, int64_t to, bool isLinear) {
  Rows rows(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double at =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    auto &row = rows[static_cast<size_t>(i)];
    if (!isLinear) {
      row = {{std::min(from - 1, i * from / to), 1}};
      continue;
    }
    const auto low = static_cast<int64_t>(std::floor(at));
    const double high = at - static_cast<double>(low);
    if (low < 0 || low + 1 >= from)
      row = {{std::max<int64_t>(0, std::min(low, from - 1)), 1}};
    else
      row = {{low, 1 - high}, {low + 1, high}};
  }
  return rows;
}

Rows transposed(const Rows &rows, int64_t columns) {
  Rows result(static_cast<size_t>(columns));
  for (size_t row = 0; row < rows.size(); ++row)
    for (auto [source, weight] : rows[row])
      result[static_cast<size_t>(source)].push_back({static_cast<int64_t>(row), weight});
  return result;
}

std::string resampling(const Image &x, const Image &y, const Rows &ofRows, const Rows &ofColumns,
                       int number) {
  std::string starts = "0", sources, weights;
  int64_t count = 0;
  for (const Rows *matrix : {&ofRows, &ofColumns}) {
    if (matrix == &ofColumns)
      append(starts, ", ", count);
    for (const auto &row : *matrix) {
      for (auto [source, weight] : row) {
        char text[32];
        snprintf(text, sizeof text, "%.17e", weight);
        append(sources, count == 0 ? "" : ", ", source);
        append(weights, count++ == 0 ? "" : ", ", text);
      }
      append(starts, ", ", count);
    }
  }
  return concat("func.func @g", number, "(%x: ", x.text(),
                ") {\n%y = stow.resample %x {axes = array<i64: 2, 3>, ",
                "extents = array<i64: ", ofRows.size(), ", ", ofColumns.size(),
                ">, starts = array<i64: ", starts, ">, sources = array<i64: ", sources,
                ">, weights = array<f64: ", weights, ">} : (", x.text(), ") -> ", y.text(),
                "\nreturn\n}\n");
}

struct Resized {
  int64_t channels, height, width, newHeight, newWidth;
  bool isLinear = true;
};

// Tests resizing and its gradient to twice and four times the size and half of it, by other factors, from odd
// sizes, along one axis alone, and from too few elements for anything to repeat.
TEST(Neighbours, Resampling) {
  for (const Resized &size : std::vector<Resized>{{3, 5, 16, 10, 32},
                                                  {8, 4, 24, 8, 48, false},
                                                  {16, 3, 8, 3, 32},
                                                  {2, 3, 12, 6, 36},
                                                  {5, 4, 13, 8, 26},
                                                  {4, 6, 32, 3, 16},
                                                  {3, 4, 20, 5, 28},
                                                  {24, 2, 2, 4, 4},
                                                  {2, 2, 8, 2, 64}}) {
    std::string graph;
    std::vector<std::tuple<Image, Image, Rows, Rows>> cases;
    for (const std::string type : {"f32", "bf16", "f16", "f64"})
      for (const std::string &order : {kFirst, kLast}) {
        const Image x{{2, size.channels, size.height, size.width}, order, type},
            y{{2, size.channels, size.newHeight, size.newWidth}, order, type};
        const Rows rows = interpolation(size.height, size.newHeight, size.isLinear),
                   columns = interpolation(size.width, size.newWidth, size.isLinear);
        cases.emplace_back(x, y, rows, columns);
        cases.emplace_back(y, x, transposed(rows, size.height), transposed(columns, size.width));
      }
    int number = 0;
    for (const auto &[x, y, rows, columns] : cases)
      graph += resampling(x, y, rows, columns, number++);
    const LoadedKernels kernels(graph);
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto &[x, y, rows, columns] = cases[i];
      const std::vector<double> values = x.some(i + 1);
      std::vector<double> expected(static_cast<size_t>(y.count()));
      for (int64_t n = 0; n < y.shape[0]; ++n)
        for (int64_t c = 0; c < y.shape[1]; ++c)
          for (int64_t h = 0; h < y.shape[2]; ++h)
            for (int64_t w = 0; w < y.shape[3]; ++w) {
              Sum sum{x.type == "f32"};
              for (auto [row, rowWeight] : rows[static_cast<size_t>(h)])
                for (auto [column, weight] : columns[static_cast<size_t>(w)])
                  sum.add(values[static_cast<size_t>(x.place(n, c, row, column))],
                          sum.isSingle ? static_cast<float>(rowWeight) * static_cast<float>(weight)
                                       : rowWeight * weight);
              expected[static_cast<size_t>(y.place(n, c, h, w))] = sum.value;
            }
      std::vector<char> from = x.stored(values), found(expected.size() * bytesOf(y.type), '\x55');
      kernels.run(i, {from.data(), found.data()});
      SCOPED_TRACE(concat(x.text(), " to ", y.text()));
      ASSERT_NO_FATAL_FAILURE(compare(found, expected, y.type));
    }
  }
}

// Tests that to twice the size and back 16 bytes are moved, channels or what lies along a row, and that each
// piece of a row is read once.
TEST(Neighbours, SixteenBytesAtOnce) {
  struct Case {
    bool gradient;
    std::string type, order;
    int64_t loads, stores;
  };
  for (const auto &[gradient, type, order, loads, stores] :
       std::vector<Case>{{false, "f32", kFirst, 2 * 3, 2}, // 8 results of 6 elements of each row
                         {true, "f32", kFirst, 4 * 4, 1},  // 4 results of 10 elements
                         {false, "bf16", kFirst, 2 * 3, 2},
                         {true, "bf16", kFirst, 4 * 4, 1},
                         {false, "bf16", kLast, 4, 1}, // a term each
                         {true, "bf16", kLast, 16, 1}}) {
    const Image small{{2, 16, 16, 64}, order, type}, large{{2, 16, 32, 128}, order, type};
    Rows rows = interpolation(16, 32, true), columns = interpolation(64, 128, true);
    if (gradient)
      rows = transposed(rows, 16), columns = transposed(columns, 64);
    const std::string ptx =
        Module(resampling(gradient ? large : small, gradient ? small : large, rows, columns, 0))
            .ptx;
    EXPECT_EQ(accesses(ptx, "ld", 16), loads) << type << order << ptx;
    EXPECT_EQ(accesses(ptx, "st", 16), stores) << type << order << ptx;
  }
}

// Tests windows of channels that reach over several vectors, over all channels and beside what is read.
TEST(Neighbours, Channels) {
  std::string graph;
  struct Case {
    Image x;
    int64_t before, after;
  };
  std::vector<Case> cases;
  for (const std::string type : {"f32", "bf16", "f16", "f64"})
    for (const std::string &order : {kFirst, kLast})
      for (auto [channels, height, width, before, after] :
           std::vector<std::array<int64_t, 5>>{{32, 4, 4, 2, 2},
                                               {24, 3, 8, 0, 9},
                                               {7, 5, 5, 3, 1},
                                               {8, 1, 1, 1, 1},
                                               {4, 2, 6, 5, 5}})
        cases.push_back({{{2, channels, height, width}, order, type}, before, after});
  for (size_t i = 0; i < cases.size(); ++i)
    append(graph, "func.func @g", i, "(%x: ", cases[i].x.text(),
           ") {\n%y = stow.channel_window_sum %x {before = ", cases[i].before,
           " : i64, after = ", cases[i].after, " : i64} : (", cases[i].x.text(), ") -> ",
           cases[i].x.text(), "\nreturn\n}\n");
  const LoadedKernels kernels(graph);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto &[x, before, after] = cases[i];
    const std::vector<double> values = x.some(i + 1);
    std::vector<double> expected(values.size());
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t c = 0; c < x.shape[1]; ++c)
        for (int64_t h = 0; h < x.shape[2]; ++h)
          for (int64_t w = 0; w < x.shape[3]; ++w) {
            Sum sum{x.type == "f32"};
            for (int64_t other = std::max<int64_t>(0, c - before);
                 other <= std::min(x.shape[1] - 1, c + after); ++other)
              sum.add(values[static_cast<size_t>(x.place(n, other, h, w))], 1);
            expected[static_cast<size_t>(x.place(n, c, h, w))] = sum.value;
          }
    std::vector<char> from = x.stored(values), found(from.size(), '\x55');
    kernels.run(i, {from.data(), found.data()});
    SCOPED_TRACE(concat(x.text(), " ", before, " ", after));
    ASSERT_NO_FATAL_FAILURE(compare(found, expected, x.type));
  }
}

} // namespace
