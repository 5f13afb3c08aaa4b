// Attention's kernels on the simulated device against the reference evaluator: tiles that are whole and
// that are not, all that a score may be, in the types that tensor cores take and in f32.
#include "tests/Cases.h"
#include "tests/codegen/LoadedKernels.h"
#include "tests/reference/Evaluator.h"

#include "codegen/kernels/device/AttentionEmitter.h"
#include "ir/StowAttentionOps.h"
#include "runtime/host/Float16.h"

#include <absl/strings/str_cat.h>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace stow;

namespace {

struct Case {
  std::string name, type = "f32";
  int64_t heads = 1, shared = 1, queries = 20, keys = 40, depth = 16, width = 16;
  std::string attributes = "zero_rows = false, ratio = 0.0 : f64"; ///< but scale and stream
  std::string mask = {};                                           ///< its type, e.g. "70x70xi1"
  std::string ofQueries = {}, ofKeys = {}; ///< types of documents, e.g. "2x1x70xi64"
  bool hasSeed = false;
  std::string layout = {}; ///< of q, k, v and their gradients
  double tolerance = 2e-6; ///< by the largest element
  bool isLong = false;     ///< for the night: what it asks is asked of others in part
};

void PrintTo(const Case &test, std::ostream *stream) { *stream << test.name; }

Shape shapeOf(mlir::Value value) {
  auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return Shape(shape.begin(), shape.end());
}

/// A value as a kernel sees it.
class Stored {
public:
  Stored(mlir::Value value, const reference::Tensor &tensor) : Stored(value) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      put(place(i), tensor.values[i]);
  }
  explicit Stored(mlir::Value value)
      : element(mlir::getElementTypeOrSelf(value.getType())),
        place(layoutOf(value.getType()), shapeOf(value)),
        bytes(static_cast<size_t>(
                  stow::storedElementCount(layoutOf(value.getType()), shapeOf(value))) *
                  width(),
              0x55) {}

  double operator[](int64_t i) const {
    const char *at = bytes.data() + static_cast<size_t>(place(i)) * width();
    if (element.isF32())
      return read<float>(at);
    if (element.isBF16())
      return host::widenBf16(read<uint16_t>(at));
    return host::widenF16(read<uint16_t>(at));
  }
  void *data() { return bytes.data(); }

private:
  size_t width() const { return std::max(8u, element.getIntOrFloatBitWidth()) / 8; }
  template <typename T> static T read(const char *from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename T> void write(int64_t at, T value) {
    memcpy(bytes.data() + static_cast<size_t>(at) * sizeof value, &value, sizeof value);
  }
  void put(int64_t at, double value) {
    const float single = static_cast<float>(value);
    if (element.isF32())
      write(at, single);
    else if (element.isBF16())
      write(at, host::narrowBf16(single));
    else if (element.isF16())
      write(at, host::narrowF16(single));
    else if (element.isInteger(1))
      write(at, static_cast<uint8_t>(value));
    else if (element.isInteger(64))
      write(at, static_cast<int64_t>(value));
    else
      write(at, static_cast<int32_t>(value));
  }

  mlir::Type element;
  LayoutIndex place;
  std::vector<char> bytes;
};

class Attention : public testing::TestWithParam<Case> {
protected:
  static std::string tensor(std::string shape, const std::string &layout) {
    return "tensor<" + shape + (layout.empty() ? "" : ", #stow.layout<\"" + layout + "\">") + ">";
  }

  std::string text() const {
    const Case &c = GetParam();
    auto of = [&](int64_t heads, int64_t rows, int64_t columns) {
      return tensor("2x" + std::to_string(heads) + "x" + std::to_string(rows) + "x" +
                        std::to_string(columns) + "x" + c.type,
                    c.layout);
    };
    const std::string q = of(c.heads, c.queries, c.depth),
                      k = of(c.heads / c.shared, c.keys, c.depth),
                      v = of(c.heads / c.shared, c.keys, c.width),
                      y = of(c.heads, c.queries, c.width);
    const std::string lse =
        "tensor<2x" + std::to_string(c.heads) + "x" + std::to_string(c.queries) + "x2xf32>";
    std::string extra, extraTypes, arguments;
    if (!c.mask.empty()) {
      extra += " mask %mask", extraTypes += ", tensor<" + c.mask + ">";
      arguments += ", %mask: tensor<" + c.mask + ">";
    }
    if (!c.ofKeys.empty()) {
      extra += " documents %queries, %keys";
      extraTypes += ", tensor<" + c.ofQueries + ">, tensor<" + c.ofKeys + ">";
      arguments += ", %queries: tensor<" + c.ofQueries + ">, %keys: tensor<" + c.ofKeys + ">";
    }
    if (c.hasSeed) {
      extra += " seed %seed", extraTypes += ", tensor<i32>";
      arguments += ", %seed: tensor<i32>";
    }
    const std::string attributes =
        " {scale = 0.25 : f64, stream = 5 : i64, " + c.attributes + "} : ";
    return "func.func @g(%q: " + q + ", %k: " + k + ", %v: " + v + ", %dy: " + y + arguments +
           ") {\n%y, %lse = stow.attention %q, %k, %v" + extra + attributes + "(" + q + ", " + k +
           ", " + v + extraTypes + ") -> (" + y + ", " + lse +
           ")\n%dq, %dk, %dv = stow.attention_gradient %q, %k, %v, %y, %lse, %dy" + extra +
           attributes + "(" + q + ", " + k + ", " + v + ", " + y + ", " + lse + ", " + y +
           extraTypes + ") -> (" + q + ", " + k + ", " + v + ")\nreturn }";
  }

  /// What a mask of two dimensions adds: rows that keep no key, of the least value alone and beside minus
  /// infinity, keys from the left, and a triangle behind some of the least value.
  static float addedAt(int64_t row, int64_t key, int64_t keys) {
    constexpr float least = std::numeric_limits<float>::lowest(),
                    none = -std::numeric_limits<float>::infinity();
    switch (row % 5) {
    case 0:
      return least;
    case 1:
      return key % 3 == 0 ? none : least;
    case 2:
      return key < keys / 2 ? least : 0;
    case 3:
      return key < keys / 2 ? -1e9f : 0;
    default:
      return key > row ? none : key < keys / 3 ? least : 0;
    }
  }

  /// Elements as the type stores them; masks hide a third of the keys, and all of those of query 3.
  static reference::Tensor sample(mlir::Value value, uint64_t seed) {
    Shape shape = shapeOf(value);
    reference::Tensor tensor(std::vector<int64_t>(shape.begin(), shape.end()));
    mlir::Type element = mlir::getElementTypeOrSelf(value.getType());
    auto floats = someFloats(tensor.size(), 1, seed);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      float number = floats[i];
      if (element.isInteger(1))
        number = number > -0.3f && !(shape.size() > 1 && i / shape.back() % shape.end()[-2] == 3);
      else if (element.isIntOrIndex() &&
               !shape.empty()) // of documents: those of the first row begin later
        number = static_cast<float>((i % shape.back() + (i < shape.back() ? 0 : 9)) / 23 * 3 % 10);
      else if (element.isInteger(32))
        number = 77;
      else if (element.isF32() && shape.size() == 2)
        number = addedAt(i / shape[1], i % shape[1], shape[1]);
      else if (element.isBF16())
        number = host::widenBf16(host::narrowBf16(number));
      else if (element.isF16())
        number = host::widenF16(host::narrowF16(number));
      tensor.values[i] = number;
    }
    return tensor;
  }
};

TEST_P(Attention, AgreesWithEvaluator) {
  const std::string text = this->text();
  LoadedKernels kernels(text);
  ASSERT_EQ(kernels.size(), 2u);
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto graph = *module->getOps<mlir::func::FuncOp>().begin();
  llvm::DenseMap<mlir::Value, reference::Tensor> values;
  uint64_t seed = 0;
  for (mlir::Value argument : graph.getArguments())
    values[argument] = sample(argument, ++seed);
  size_t number = 0;
  for (mlir::Operation &op : graph.front().without_terminator()) {
    std::vector<reference::Tensor> operands;
    std::vector<Stored> stored;
    for (mlir::Value operand : op.getOperands()) {
      operands.push_back(values[operand]);
      stored.emplace_back(operand, values[operand]);
    }
    for (mlir::Value result : op.getResults())
      stored.emplace_back(result);
    std::vector<void *> pointers;
    for (Stored &place : stored)
      pointers.push_back(place.data());
    kernels.run(number++, pointers);
    auto expected = reference::ruleFor(&op)(&op, operands);
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      const reference::Tensor &wanted = expected[i];
      const Stored &found = stored[op.getNumOperands() + i];
      double largest = 0;
      for (double value : wanted.values)
        largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
      for (int64_t place = 0; place < wanted.size(); ++place) {
        const double value = wanted.values[place];
        if (std::isfinite(value))
          ASSERT_NEAR(found[place], value, GetParam().tolerance * largest)
              << op.getName().getStringRef().str() << " result " << i << " element " << place;
        else
          ASSERT_TRUE(found[place] == value || (std::isnan(value) && std::isnan(found[place])))
              << found[place] << " for " << value;
      }
      values[result] = wanted;
    }
  }
}

const std::string diagonal = "diagonal = 0 : i64, zero_rows = false, ratio = 0.0 : f64";
constexpr double low = 8e-3, half = 2e-3;

const Case cases[] = {
    {.name = "whole_tiles", .queries = 64, .keys = 64, .depth = 32, .width = 32},
    {.name = "odd",
     .heads = 2,
     .queries = 21,
     .keys = 67,
     .depth = 13,
     .width = 7,
     .attributes = "diagonal = 40 : i64, zero_rows = false, ratio = 0.0 : f64"},
    {.name = "one_query", .queries = 1, .keys = 5, .depth = 8, .width = 24},
    {.name = "diagonal", .queries = 70, .keys = 70, .attributes = diagonal, .isLong = true},
    {.name = "window",
     .queries = 70,
     .keys = 70,
     .attributes = "diagonal = 0 : i64, window = 9 : i64, zero_rows = false, ratio = 0.0 : f64"},
    {.name = "window_of_both_sides",
     .heads = 2,
     .queries = 70,
     .keys = 70,
     .attributes = "diagonal = 12 : i64, window = 25 : i64, zero_rows = false, ratio = 0.0 : f64",
     .mask = "2x1x1x70xf32"},
    {.name = "past_window",
     .queries = 21,
     .keys = 120,
     .attributes = "diagonal = 99 : i64, window = 40 : i64, zero_rows = false, ratio = 0.0 : f64"},
    {.name = "bf16_window",
     .type = "bf16",
     .heads = 4,
     .shared = 2,
     .queries = 70,
     .keys = 70,
     .depth = 16,
     .attributes = "diagonal = 0 : i64, window = 20 : i64, zero_rows = false, ratio = 0.0 : f64",
     .tolerance = low},
    {.name = "shared_keys", .heads = 6, .shared = 3, .keys = 20, .mask = "6x20x20xf32"},
    {.name = "zero_rows", .attributes = "zero_rows = true, ratio = 0.0 : f64", .mask = "20x40xi1"},
    {.name = "documents",
     .heads = 2,
     .queries = 70,
     .keys = 70,
     .attributes = diagonal,
     .ofQueries = "2x1x70xi64",
     .ofKeys = "2x1x70xi64"},
    {.name = "documents_of_others",
     .keys = 67,
     .mask = "20x67xi1",
     .ofQueries = "2x1x20xi32",
     .ofKeys = "67xi32"},
    {.name = "no_keys_in_documents", .keys = 20, .ofQueries = "2x1x20xi32", .ofKeys = "1xi32"},
    {.name = "bf16_documents",
     .type = "bf16",
     .heads = 2,
     .shared = 2,
     .queries = 150,
     .keys = 150,
     .attributes = "diagonal = 0 : i64, window = 40 : i64, zero_rows = true, ratio = 0.2 : f64",
     .ofQueries = "2x1x150xi64",
     .ofKeys = "2x1x150xi64",
     .hasSeed = true,
     .tolerance = low},
    {.name = "f16_documents",
     .type = "f16",
     .queries = 70,
     .keys = 70,
     .attributes = diagonal,
     .mask = "2x1x1x70xf32",
     .ofQueries = "70xi32",
     .ofKeys = "70xi32",
     .tolerance = half},
    {.name = "no_keys", .mask = "20x40xi1"},
    {.name = "rows_of_none", .mask = "20x40xf32"},
    {.name = "bf16_rows_of_none",
     .type = "bf16",
     .queries = 24,
     .keys = 70,
     .depth = 16,
     .mask = "24x70xf32",
     .tolerance = low},
    {.name = "f16_rows_of_none", .type = "f16", .mask = "20x40xf32", .tolerance = half},
    {.name = "dropout",
     .heads = 2,
     .attributes = "diagonal = 0 : i64, zero_rows = false, ratio = 0.3 : f64",
     .hasSeed = true},
    {.name = "heads_inside",
     .heads = 3,
     .mask = "2x1x1x40xi1",
     .layout = "0,2,1,3",
     .isLong = true},
    {.name = "columns", .keys = 20, .layout = "0,1,3,2"},
    {.name = "wide", .queries = 8, .keys = 12, .depth = 128, .width = 128, .isLong = true},
    {.name = "bf16",
     .type = "bf16",
     .queries = 70,
     .keys = 70,
     .depth = 64,
     .width = 64,
     .attributes = diagonal,
     .tolerance = low,
     .isLong = true},
    {.name = "bf16_odd",
     .type = "bf16",
     .heads = 4,
     .shared = 2,
     .queries = 21,
     .keys = 70,
     .depth = 13,
     .width = 7,
     .attributes = "zero_rows = true, ratio = 0.2 : f64",
     .mask = "4x21x70xi1",
     .hasSeed = true,
     .tolerance = low},
    {.name = "bf16_wide",
     .type = "bf16",
     .heads = 2,
     .depth = 128,
     .width = 96,
     .layout = "0,2,1,3",
     .tolerance = low},
    {.name = "bf16_tiles",
     .type = "bf16",
     .heads = 2,
     .shared = 2,
     .queries = 192,
     .keys = 192,
     .depth = 64,
     .width = 64,
     .attributes = diagonal,
     .tolerance = low},
    {.name = "bf16_window_of_tiles",
     .type = "bf16",
     .queries = 200,
     .keys = 200,
     .attributes = "diagonal = 0 : i64, window = 140 : i64, zero_rows = false, ratio = 0.0 : f64",
     .tolerance = low},
    {.name = "bf16_unseen_keys",
     .type = "bf16",
     .queries = 24,
     .keys = 200,
     .width = 32,
     .attributes = "diagonal = 3 : i64, zero_rows = false, ratio = 0.0 : f64",
     .tolerance = low},
    {.name = "columns_of_256",
     .type = "f32",
     .heads = 2,
     .shared = 2,
     .queries = 21,
     .keys = 40,
     .depth = 256,
     .width = 256,
     .isLong = true},
    {.name = "bf16_256",
     .type = "bf16",
     .heads = 2,
     .shared = 2,
     .queries = 70,
     .keys = 70,
     .depth = 256,
     .width = 256,
     .attributes = diagonal,
     .tolerance = low},
    {.name = "bf16_wider_than_deep",
     .type = "bf16",
     .queries = 20,
     .keys = 40,
     .depth = 48,
     .width = 240,
     .attributes = "zero_rows = true, ratio = 0.2 : f64",
     .mask = "20x40xi1",
     .hasSeed = true,
     .tolerance = low,
     .isLong = true},
    {.name = "f16_deeper_than_wide",
     .type = "f16",
     .queries = 24,
     .keys = 40,
     .depth = 200,
     .width = 96,
     .ofQueries = "2x1x24xi64",
     .ofKeys = "2x1x40xi64",
     .tolerance = half,
     .isLong = true},
    {.name = "bf16_96",
     .type = "bf16",
     .heads = 4,
     .shared = 4,
     .queries = 70,
     .keys = 70,
     .depth = 96,
     .width = 96,
     .attributes = diagonal,
     .tolerance = low,
     .isLong = true},
    {.name = "f16", .type = "f16", .keys = 150, .depth = 32, .width = 48, .tolerance = half},
};

std::vector<Case> casesOfNow() {
  std::vector<Case> found;
  for (const Case &test : cases)
    if (!test.isLong || test::isNight())
      found.push_back(test);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention, testing::ValuesIn(casesOfNow()),
                         [](const auto &info) { return info.param.name; });

// Tests that heads that are too wide for registers, and doubles, have no kernel.
TEST(Attention, RefusesWhatDoesNotFit) {
  for (const std::string type : {"2x8x272xf32", "2x8x16xf64"}) {
    const std::string sums = type.ends_with("f64") ? "2x8x2xf64" : "2x8x2xf32";
    LoadedKernels kernels(
        "func.func @g(%q: tensor<" + type +
        ">) {\n%y, %lse = stow.attention %q, %q, %q "
        "{scale = 1.0 : f64, zero_rows = false, ratio = 0.0 : f64, stream = 0 : i64} : (tensor<" +
        type + ">, tensor<" + type + ">, tensor<" + type + ">) -> (tensor<" + type + ">, tensor<" +
        sums + ">)\nreturn }");
    EXPECT_EQ(kernels.size(), 0u) << type;
  }
}

// Tests that warps own two parts of rows in 16 bits where registers hold the sums, so that what they read of the others serves
// both, that owned rows lie in registers where there is room for them, and that few heads leave no multiprocessor without a block.
TEST(Attention, TilesThatReadFewMatrices) {
  auto tiles = [](AttentionKernel kernel, int64_t columns, int64_t heads) {
    AttentionProblem problem{};
    mlir::MLIRContext context;
    problem.heads = heads, problem.shared = 1, problem.queries = problem.keys = 1024;
    problem.depth = problem.width = columns, problem.scale = 0.125;
    problem.element = mlir::BFloat16Type::get(&context);
    problem.isGradient = kernel != AttentionKernel::Forward;
    return *AttentionTiles::of(problem, kernel);
  };
  using enum AttentionKernel;
  for (AttentionKernel kernel : {Forward, QueryGradient, KeyAndValueGradient}) {
    EXPECT_EQ(tiles(kernel, 64, 48).parts, 2);
    EXPECT_EQ(tiles(kernel, 64, 48).owned(), 128);
    EXPECT_EQ(tiles(kernel, 64, 12).owned(), 64);
  }
  EXPECT_EQ(tiles(Forward, 64, 48).held, 1);
  EXPECT_EQ(tiles(QueryGradient, 64, 48).held, 2);
  EXPECT_EQ(tiles(KeyAndValueGradient, 64, 48).held, 1);
  EXPECT_EQ(tiles(Forward, 128, 32).parts, 2);
  EXPECT_EQ(tiles(QueryGradient, 128, 32).held, 2);
  EXPECT_EQ(tiles(Forward, 256, 48).parts, 1);
}

// Tests that tiles of f32 are no larger than what few keys need, down to 8 rows, and that those of 16 bits stay.
TEST(Attention, TilesOfFewKeys) {
  auto streamed = [](int keys, const std::string &element) {
    auto type = [&](int rows) { return absl::StrCat("tensor<2x", rows, "x64x", element, ">"); };
    mlir::MLIRContext context;
    context.loadDialect<StowDialect, mlir::func::FuncDialect>();
    auto graph = mlir::parseSourceString<mlir::ModuleOp>(
        absl::StrCat("func.func @g(%q: ", type(40), ", %k: ", type(keys),
                     ") {\n%y, %lse = stow.attention %q, %k, %k {scale = 1.0 : f64, "
                     "zero_rows = false, "
                     "ratio = 0.0 : f64, stream = 0 : i64} : (",
                     type(40), ", ", type(keys), ", ", type(keys), ") -> (", type(40),
                     ", tensor<2x40x2xf32>)\nreturn }"),
        &context);
    int64_t rows = 0;
    graph->walk([&](AttentionOp op) {
      rows = AttentionTiles::of(AttentionProblem::of(op), AttentionKernel::Forward)->streamed;
    });
    return rows;
  };
  EXPECT_EQ(streamed(4, "f32"), 8);
  EXPECT_EQ(streamed(17, "f32"), 16);
  EXPECT_EQ(streamed(33, "f32"), 32);
  EXPECT_EQ(streamed(300, "f32"), 32);
  EXPECT_EQ(streamed(4, "bf16"), 32);
}

} // namespace
