// Attention and its gradients against sums in double.
#include "CallHarness.h"

#include "runtime/base/Philox.h"
#include "runtime/host/Float16.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace stow::host::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  std::string name;
  int64_t batch = 2, heads = 2, shared = 1, queries = 5, keys = 5, depth = 8, width = 8;
  double scale = 0.5;
  std::optional<int64_t> diagonal = {}, window = {};
  bool zeroRows = false;
  double ratio = 0;
  std::optional<Tensor> mask = {};
  bool isBoolean = false;
  std::optional<Tensor> queryDocuments = {}, keyDocuments = {};
  DType numbers = DType::I64; ///< of documents
  DType dtype = DType::F32;
  Layout layout = {}; ///< of q, k, v, y and their gradients
  double tolerance = 2e-6;
};

std::ostream &operator<<(std::ostream &out, const Case &c) { return out << c.name; }

constexpr int64_t stream = 5, seed = 77;

/// Element (b, h, i, j) of a mask that is repeated along dimensions that are 1 or missing.
double maskAt(const Tensor &mask, std::array<int64_t, 4> index) {
  const size_t missing = 4 - mask.shape.size();
  int64_t place = 0;
  for (size_t i = 0; i < mask.shape.size(); ++i)
    place = place * mask.shape[i] + (mask.shape[i] == 1 ? 0 : index[missing + i]);
  return mask.data[place];
}

/// Element (b, h, i) of numbers of rows, repeated alike.
double rowAt(const Tensor &numbers, std::array<int64_t, 3> index) {
  Tensor column = numbers;
  column.shape.push_back(1);
  return maskAt(column, {index[0], index[1], index[2], 0});
}

struct Reference {
  explicit Reference(const Case &c)
      : c(c), q(sample(of(c.shared * c.heads, c.queries, c.depth), 1)),
        k(sample(of(c.heads, c.keys, c.depth), 2)), v(sample(of(c.heads, c.keys, c.width), 3)),
        y(of(c.shared * c.heads, c.queries, c.width)),
        lse({c.batch, c.shared * c.heads, c.queries, 2}), dy(sample(y.shape, 4)), dq(q.shape),
        dk(k.shape), dv(v.shape) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.shared * c.heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i)
          row(b, h, i);
  }

  Shape of(int64_t heads, int64_t rows, int64_t columns) const {
    return {c.batch, heads, rows, columns};
  }

  void row(int64_t b, int64_t h, int64_t i) {
    const int64_t g = h / c.shared;
    std::vector<double> scores(c.keys), weights(c.keys), factors(c.keys, 1), gradients(c.keys);
    std::vector<bool> isUnseen(c.keys);
    double most = -infinity, sum = 0, product = 0;
    for (int64_t j = 0; j < c.keys; ++j) {
      for (int64_t d = 0; d < c.depth; ++d)
        scores[j] += c.scale * q.at({b, h, i, d}) * k.at({b, g, j, d});
      isUnseen[j] = (c.diagonal && j > i + *c.diagonal) ||
                    (c.window && j + *c.window <= i + *c.diagonal) ||
                    (c.keyDocuments &&
                     rowAt(*c.queryDocuments, {b, h, i}) != rowAt(*c.keyDocuments, {b, h, j}));
      if (c.mask && c.isBoolean && maskAt(*c.mask, {b, h, i, j}) == 0)
        scores[j] = -infinity;
      if (c.mask &&
          !c.isBoolean) // the sum of floats, in which a large number leaves nothing of a score
        scores[j] = static_cast<float>(scores[j] + maskAt(*c.mask, {b, h, i, j}));
      if (isUnseen[j])
        scores[j] = -infinity;
      most = std::max(most, scores[j]);
    }
    if (most == -infinity && c.zeroRows)
      most = 0, sum = 1;
    for (double score : scores)
      sum += std::exp(score - most);
    lse.at({b, h, i, 0}) = most;
    lse.at({b, h, i, 1}) = std::log(sum);
    for (int64_t j = 0; j < c.keys; ++j) {
      weights[j] = std::exp(scores[j] - most) / sum;
      if (c.ratio > 0) {
        const uint64_t index = ((b * c.shared * c.heads + h) * c.queries + i) * c.keys + j;
        const PhiloxCounter counter = {static_cast<uint32_t>(index),
                                       static_cast<uint32_t>(index >> 32), stream, 0};
        const bool kept = philox(counter, {seed, 0})[0] < std::floor((1 - c.ratio) * 4294967296.0);
        factors[j] = kept ? 1 / (1 - c.ratio) : 0;
      }
      for (int64_t e = 0; e < c.width; ++e)
        y.at({b, h, i, e}) += weights[j] * factors[j] * v.at({b, g, j, e});
      if (isUnseen[j]) {
        weights[j] = gradients[j] = 0;
        continue;
      }
      for (int64_t e = 0; e < c.width; ++e) {
        dv.at({b, g, j, e}) += weights[j] * factors[j] * dy.at({b, h, i, e});
        gradients[j] += factors[j] * dy.at({b, h, i, e}) * v.at({b, g, j, e});
      }
      product += weights[j] * gradients[j];
    }
    for (int64_t j = 0; j < c.keys; ++j)
      for (int64_t d = 0; d < c.depth && !isUnseen[j]; ++d) {
        const double gradient = c.scale * weights[j] * (gradients[j] - product);
        dq.at({b, h, i, d}) += gradient * k.at({b, g, j, d});
        dk.at({b, g, j, d}) += gradient * q.at({b, h, i, d});
      }
  }

  const Case &c;
  Tensor q, k, v, y, lse, dy, dq, dk, dv;
};

class Attention : public testing::TestWithParam<Case> {
protected:
  std::map<std::string, std::vector<int64_t>> ints() const {
    const Case &c = GetParam();
    std::map<std::string, std::vector<int64_t>> ints = {
        {"has_mask", {c.mask.has_value()}},
        {"has_documents", {c.keyDocuments.has_value()}},
        {"has_seed", {c.ratio > 0}},
        {"zero_rows", {c.zeroRows}},
        {"stream", {stream}}};
    if (c.diagonal)
      ints["diagonal"] = {*c.diagonal};
    if (c.window)
      ints["window"] = {*c.window};
    return ints;
  }
  std::map<std::string, double> floats() const {
    return {{"scale", GetParam().scale}, {"ratio", GetParam().ratio}};
  }
  void addRest(std::vector<TestOperand> &operands) const {
    const Case &c = GetParam();
    if (c.mask)
      operands.push_back(in(*c.mask, {}, c.isBoolean ? DType::I1 : DType::F32));
    if (c.keyDocuments) {
      operands.push_back(in(*c.queryDocuments, {}, c.numbers));
      operands.push_back(in(*c.keyDocuments, {}, c.numbers));
    }
    if (c.ratio > 0)
      operands.push_back(in(seedTensor, {}, DType::I32));
  }
  TestOperand low(const Tensor &tensor) const {
    return in(tensor, GetParam().layout, GetParam().dtype);
  }
  TestOperand lowOut(const Tensor &like) const {
    return out(like.shape, GetParam().layout, GetParam().dtype);
  }
  const Tensor seedTensor = [] {
    Tensor tensor{Shape{}};
    tensor.data = {static_cast<double>(seed)};
    return tensor;
  }();
};

TEST_P(Attention, FollowsItsFormula) {
  const Case &c = GetParam();
  const Reference r(c);
  std::vector<TestOperand> operands = {low(r.q), low(r.k), low(r.v)};
  addRest(operands);
  operands.insert(operands.end(), {lowOut(r.y), out(r.lse.shape)});
  for (int64_t threads : {1, 3}) {
    const CallResult result =
        runCall(CommandOp::DnnlAttention, operands, ints(), floats(), threads);
    EXPECT_LT(relativeError(result.tensors.end()[-2], r.y), c.tolerance);
    for (size_t i = 0; i < r.lse.data.size(); ++i) {
      const double found = result.tensors.back().data[i], wanted = r.lse.data[i];
      EXPECT_TRUE(std::isnan(wanted)   ? std::isnan(found)
                  : std::isinf(wanted) ? found == wanted
                                       : std::abs(found - wanted) <= 1e-6 * (1 + std::abs(wanted)))
          << found << " for " << wanted;
    }
  }
}

TEST_P(Attention, HasItsGradients) {
  const Case &c = GetParam();
  const Reference r(c);
  std::vector<TestOperand> operands = {low(r.q), low(r.k),  low(r.v),
                                       low(r.y), in(r.lse), low(r.dy)};
  addRest(operands);
  operands.insert(operands.end(), {lowOut(r.q), lowOut(r.k), lowOut(r.v)});
  std::optional<CallResult> first;
  for (int64_t threads : {1, 3}) {
    CallResult result =
        runCall(CommandOp::DnnlAttentionGradient, operands, ints(), floats(), threads);
    EXPECT_LT(relativeError(result.tensors.end()[-3], r.dq), c.tolerance) << "dq";
    EXPECT_LT(relativeError(result.tensors.end()[-2], r.dk), c.tolerance) << "dk";
    EXPECT_LT(relativeError(result.tensors.end()[-1], r.dv), c.tolerance) << "dv";
    for (size_t i = 1; first && i <= 3; ++i)
      EXPECT_EQ(result.tensors.end()[-i].data, first->tensors.end()[-i].data) << "by threads";
    first = std::move(result);
  }
}

/// Zeros and ones; every query of the masks of all dimensions keeps a key, but those of one row.
Tensor booleans(Shape shape, std::optional<int64_t> emptyRow = {}) {
  Tensor mask(shape);
  const int64_t keys = shape.back();
  for (size_t i = 0; i < mask.data.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / keys, key = static_cast<int64_t>(i) % keys;
    mask.data[i] = row != emptyRow && (key == row % keys || (i * 7) % 3 == 0);
  }
  return mask;
}

/// A mask that is added: nothing of most keys, and rows that keep none: least values alone, beside
/// minus infinity, and numbers that are no least value but leave nothing of a score; keys from the left.
Tensor rowsOfNone(int64_t rows, int64_t keys) {
  constexpr double least = std::numeric_limits<float>::lowest();
  Tensor mask({rows, keys});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      double &added = mask.data[i * keys + j];
      if (i % 6 == 0)
        added = least;
      else if (i % 6 == 1)
        added = j % 3 == 0 ? -infinity : least;
      else if (i % 6 == 2)
        added = -1e9;
      else if (i % 6 == 3)
        added = j < keys / 2 ? least : 0;
      else if (i % 6 == 4)
        added = j < keys - 1 ? -1e9 : least;
      else
        added = j > i ? -infinity : j < keys / 3 ? least : 0;
    }
  return mask;
}

/// Documents of `length` rows each in a row; with `isMixed` they lie between each other. Each row of a shape begins elsewhere.
Tensor documents(Shape shape, int64_t length, bool isMixed = false) {
  Tensor numbers(shape);
  const int64_t rows = shape.back();
  for (size_t i = 0; i < numbers.data.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) % rows + static_cast<int64_t>(i) / rows * 5;
    numbers.data[i] = isMixed ? row * 7 % 4 : -3 + row / length;
  }
  return numbers;
}

Layout headsInside() { return {1, {0, 2, 1, 3}, {}}; }
Layout partOfThree(int64_t heads) { return {1, {0, 2, 1, 3}, {}, Layout::Pitch{1, 3 * heads}}; }

std::string nameOf(const testing::TestParamInfo<Case> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(RowsOfNone, Attention,
                         testing::Values(Case{.name = "rows_of_none",
                                              .queries = 20,
                                              .keys = 37,
                                              .depth = 16,
                                              .mask = rowsOfNone(20, 37)},
                                         Case{.name = "rows_of_none_bf16",
                                              .queries = 60,
                                              .keys = 110,
                                              .mask = rowsOfNone(60, 110),
                                              .dtype = DType::BF16,
                                              .tolerance = 6e-3},
                                         Case{.name = "rows_of_none_f16",
                                              .shared = 2,
                                              .queries = 14,
                                              .keys = 19,
                                              .diagonal = 3,
                                              .ratio = 0.25,
                                              .mask = rowsOfNone(14, 19),
                                              .dtype = DType::F16,
                                              .tolerance = 1e-3}),
                         nameOf);

// Keys between two diagonals.
INSTANTIATE_TEST_SUITE_P(
    Windows, Attention,
    testing::Values(
        Case{.name = "window",
             .queries = 130,
             .keys = 130,
             .depth = 16,
             .diagonal = 0,
             .window = 37},
        Case{.name = "window_of_one", .queries = 60, .keys = 60, .diagonal = 0, .window = 1},
        Case{.name = "window_of_both_sides",
             .queries = 250,
             .keys = 250,
             .depth = 16,
             .diagonal = 20,
             .window = 41},
        Case{.name = "past_window", .queries = 50, .keys = 320, .diagonal = 270, .window = 300},
        Case{.name = "masked_window",
             .shared = 2,
             .queries = 120,
             .keys = 120,
             .diagonal = 3,
             .window = 50,
             .mask = sample({2, 1, 1, 120}, 9)},
        Case{.name = "dropped_window",
             .queries = 120,
             .keys = 120,
             .diagonal = 0,
             .window = 30,
             .ratio = 0.25}),
    nameOf);

// Scores within documents, alone and beside all else that leaves scores out.
INSTANTIATE_TEST_SUITE_P(Documents, Attention,
                         testing::Values(Case{.name = "documents",
                                              .queries = 250,
                                              .keys = 250,
                                              .depth = 16,
                                              .diagonal = 0,
                                              .queryDocuments = documents({2, 1, 250}, 60),
                                              .keyDocuments = documents({2, 1, 250}, 60)},
                                         Case{.name = "mixed_documents",
                                              .shared = 2,
                                              .queries = 120,
                                              .keys = 110,
                                              .queryDocuments = documents({120}, 0, true),
                                              .keyDocuments = documents({2, 1, 110}, 0, true),
                                              .numbers = DType::I32},
                                         Case{.name = "documents_of_others",
                                              .queries = 60,
                                              .keys = 150,
                                              .diagonal = 0,
                                              .queryDocuments = documents({2, 1, 60}, 10),
                                              .keyDocuments = documents({150}, 30)},
                                         Case{.name = "zeros_of_others",
                                              .queries = 60,
                                              .keys = 150,
                                              .zeroRows = true,
                                              .queryDocuments = documents({2, 1, 60}, 5),
                                              .keyDocuments = documents({150}, 30)},
                                         Case{.name = "documents_by_heads",
                                              .queries = 130,
                                              .keys = 130,
                                              .diagonal = 2,
                                              .window = 40,
                                              .mask = sample({2, 1, 1, 130}, 9),
                                              .queryDocuments = documents({2, 2, 130}, 50),
                                              .keyDocuments = documents({2, 2, 130}, 50)},
                                         Case{.name = "documents_and_padding",
                                              .queries = 120,
                                              .keys = 120,
                                              .diagonal = 0,
                                              .zeroRows = true,
                                              .ratio = 0.25,
                                              .mask = booleans({2, 1, 1, 120}),
                                              .isBoolean = true,
                                              .queryDocuments = documents({2, 1, 120}, 120),
                                              .keyDocuments = documents({2, 1, 120}, 120),
                                              .dtype = DType::BF16,
                                              .tolerance = 6e-3},
                                         Case{.name = "documents_f16",
                                              .shared = 2,
                                              .queries = 150,
                                              .keys = 150,
                                              .diagonal = 0,
                                              .queryDocuments = documents({2, 1, 150}, 40),
                                              .keyDocuments = documents({2, 1, 150}, 40),
                                              .dtype = DType::F16,
                                              .tolerance = 1e-3}),
                         nameOf);

// Sizes, masks, layouts and types.
INSTANTIATE_TEST_SUITE_P(
    Host, Attention,
    testing::Values(
        Case{.name = "small"}, Case{.name = "one", .queries = 1, .keys = 1, .depth = 1, .width = 1},
        Case{.name = "odd", .queries = 53, .keys = 101, .depth = 17, .width = 35},
        Case{.name = "wide",
             .batch = 1,
             .heads = 1,
             .queries = 7,
             .keys = 3,
             .depth = 130,
             .width = 66},
        Case{.name = "long", .batch = 1, .heads = 1, .queries = 9, .keys = 2600, .tolerance = 4e-6},
        Case{.name = "triangle", .queries = 130, .keys = 130, .depth = 16, .diagonal = 0},
        Case{.name = "past", .queries = 50, .keys = 120, .depth = 16, .diagonal = 70},
        Case{.name = "short_triangle", .queries = 120, .keys = 30, .diagonal = 3},
        Case{.name = "shared", .shared = 3, .queries = 60, .keys = 110, .diagonal = 2},
        Case{.name = "booleans",
             .queries = 20,
             .keys = 37,
             .mask = booleans({2, 1, 20, 37}),
             .isBoolean = true},
        Case{.name = "padding",
             .queries = 60,
             .keys = 110,
             .mask = booleans({2, 1, 1, 110}),
             .isBoolean = true},
        Case{.name = "one_mask",
             .queries = 4,
             .keys = 9,
             .mask = booleans({4, 1}),
             .isBoolean = true},
        Case{.name = "empty_row",
             .queries = 6,
             .keys = 9,
             .zeroRows = true,
             .mask = booleans({6, 9}, 2),
             .isBoolean = true},
        Case{.name = "bias",
             .shared = 2,
             .queries = 60,
             .keys = 100,
             .mask = sample({4, 60, 100}, 9)},
        Case{.name = "dropout", .queries = 50, .keys = 99, .ratio = 0.25},
        Case{.name = "dropped_triangle",
             .shared = 2,
             .queries = 50,
             .keys = 50,
             .diagonal = 0,
             .ratio = 0.5},
        Case{.name = "heads_inside",
             .queries = 50,
             .keys = 50,
             .depth = 16,
             .width = 16,
             .layout = headsInside()},
        Case{.name = "part",
             .queries = 50,
             .keys = 50,
             .depth = 16,
             .width = 16,
             .layout = partOfThree(2)},
        Case{.name = "keys_inside", .queries = 50, .keys = 50, .layout = {1, {0, 1, 3, 2}, {}}},
        Case{.name = "bf16", .queries = 50, .keys = 100, .dtype = DType::BF16, .tolerance = 6e-3},
        Case{.name = "f16_part",
             .queries = 50,
             .keys = 50,
             .depth = 20,
             .width = 20,
             .dtype = DType::F16,
             .layout = partOfThree(2),
             .tolerance = 1e-3}),
    nameOf);

} // namespace
} // namespace stow::host::test
