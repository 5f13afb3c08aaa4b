// Tests products that kernels use up by rows: against sums in double, and bit for bit whatever the tiles
// and the number of threads.
#include "runtime/host/loops/ProductRows.h"
#include "runtime/base/Error.h"
#include "runtime/host/BoundCommand.h"
#include "tests/runtime/host/Draw.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace stow::host::test {
namespace {

using testing::HasSubstr;

struct Case {
  int64_t rows, columns, depth;
  bool isTransposed;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  return out << c.rows << "x" << c.columns << "x" << c.depth
             << (c.isTransposed ? " transposed" : "");
}

class ProductRowsTest : public testing::TestWithParam<Case> {
protected:
  const Case c = GetParam();
  const std::vector<float> left = draw(c.rows * c.depth, 1), right = draw(c.columns * c.depth, 2);

  RowFactors factors() const {
    return {left.data(), right.data(), c.isTransposed, c.rows, c.columns, c.depth};
  }

  double expected(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t k = 0; k < c.depth; ++k)
      sum += static_cast<double>(left[c.isTransposed ? k * c.rows + row : row * c.depth + k]) *
             right[k * c.columns + column];
    return sum;
  }

  std::vector<float> inTilesOf(int64_t tileRows) const {
    std::vector<float> product(static_cast<size_t>(c.rows * c.columns));
    for (int64_t first = 0; first < c.rows; first += tileRows)
      multiplyRows(factors(), first, std::min(tileRows, c.rows - first),
                   product.data() + first * c.columns);
    return product;
  }
};

TEST_P(ProductRowsTest, Multiplies) {
  const std::vector<float> product = inTilesOf(c.rows);
  for (int64_t row = 0; row < c.rows; ++row)
    for (int64_t column = 0; column < c.columns; ++column)
      EXPECT_NEAR(product[row * c.columns + column], expected(row, column),
                  2e-7 * static_cast<double>(c.depth))
          << row << ", " << column;
}

TEST_P(ProductRowsTest, GivesTheSameBitsInAnyTiles) {
  const std::vector<float> whole = inTilesOf(c.rows);
  for (int64_t tileRows : {1, 5, 12, 13, 48})
    EXPECT_EQ(inTilesOf(tileRows), whole) << tileRows;
}

/// Subtracts the tile, its first operand, from its third; the second says how many elements there are.
extern "C" void subtractTile(int64_t begin, int64_t end, char *const *arguments) {
  const auto *tile = reinterpret_cast<const float *>(arguments[0]);
  const auto count = static_cast<int64_t>(*reinterpret_cast<const float *>(arguments[1]));
  auto *weights = reinterpret_cast<float *>(arguments[2]);
  EXPECT_EQ(begin, 0);
  for (int64_t i = 0; i < count * end; ++i)
    weights[i] -= tile[i];
}

/// An arena with the factors, the columns as a number, weights and scratch.
struct Arena {
  Bytes place(const std::vector<float> &values) {
    const Bytes offset = alignUp(static_cast<Bytes>(bytes.size()), 64);
    bytes.resize(static_cast<size_t>(offset) + values.size() * sizeof(float));
    std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(float));
    return offset;
  }
  std::vector<char> bytes;
};

Operand matrix(Bytes offset, int64_t rows, int64_t columns) {
  return {offset, DType::F32, {rows, columns}, {}};
}

/// weights - a b by tiles, whose kernel has a task per row.
struct Update {
  Update(const Case &c, const std::vector<float> &left, const std::vector<float> &right,
         const std::vector<float> &weights, int64_t tileRows, int64_t threads)
      : weightsAt(0) {
    const Bytes a = arena.place(left), b = arena.place(right),
                count = arena.place({static_cast<float>(c.columns)});
    weightsAt = arena.place(weights);
    command.op = CommandOp::ProductMap;
    command.name = "node";
    command.operands = {c.isTransposed ? matrix(a, c.depth, c.rows) : matrix(a, c.rows, c.depth),
                        matrix(b, c.depth, c.columns),
                        {count, DType::F32, {}, {}},
                        matrix(weightsAt, c.rows, c.columns)};
    command.ints = {{"transpose_a", {c.isTransposed}},
                    {"rows", {tileRows}},
                    {"steps", {0, tileRows * c.columns * Bytes{sizeof(float)}}}};
    command.workspaceBytes = productRowsScratchBytes(c.rows, c.columns, tileRows, threads);
    command.workspaceOffset = arena.place(
        std::vector<float>(static_cast<size_t>(command.workspaceBytes) / sizeof(float)));
    for (int64_t rows : {tileRows, c.rows % tileRows}) {
      if (rows == 0)
        continue;
      Command kernel;
      kernel.op = CommandOp::Kernel;
      kernel.kernel = 0;
      kernel.tasks = rows;
      kernel.operands = {matrix(command.workspaceOffset, rows, c.columns), command.operands[2],
                         matrix(weightsAt, rows, c.columns)};
      command.parts.push_back(kernel);
    }
  }

  std::vector<float> run(int64_t threads) {
    BoundCommand(command, image, arena.bytes.data(), threads, Poison::None).run();
    const auto *weights = reinterpret_cast<const float *>(arena.bytes.data() + weightsAt);
    return {weights, weights + command.operands[3].shape[0] * command.operands[3].shape[1]};
  }

  static constexpr StowKernelFn kernels[] = {subtractTile};
  const ProgramImage image = {kernels, {}};
  Arena arena;
  Bytes weightsAt;
  Command command;
};

TEST_P(ProductRowsTest, LetsAKernelUseUpItsTiles) {
  std::vector<float> weights = draw(c.rows * c.columns, 3), expected = weights;
  const std::vector<float> product = inTilesOf(c.rows);
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] -= product[i];
  for (int64_t threads : {1, 2, 5})
    for (int64_t tileRows : {int64_t{1}, std::min<int64_t>(c.rows, 12), c.rows})
      EXPECT_EQ(Update(c, left, right, weights, tileRows, threads).run(threads), expected)
          << threads << " threads, tiles of " << tileRows;
}

TEST_P(ProductRowsTest, RefusesProgramsThatItCannotRun) {
  const std::vector<float> weights = draw(c.rows * c.columns, 3);
  auto errorOf = [&](auto change) -> std::string {
    Update update(c, left, right, weights, 1, 2);
    change(update.command);
    try {
      update.run(2);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(errorOf([](Command &) {}), "");
  EXPECT_THAT(
      errorOf([](Command &command) { command.parts[0].kernel = 1; }),
      HasSubstr("command 'product_map' of node 'node' runs kernel 1, the executable has 1"));
  EXPECT_THAT(errorOf([](Command &command) { command.workspaceBytes -= 1; }),
              HasSubstr("recompile with --threads=2"));
  EXPECT_THAT(errorOf([](Command &command) { command.ints.erase("rows"); }),
              HasSubstr("must have one integer 'rows'"));
  EXPECT_THAT(errorOf([](Command &command) { command.ints["steps"].pop_back(); }),
              HasSubstr("steps must have a number for each operand"));
  EXPECT_THAT(errorOf([](Command &command) { command.operands[1].shape[0] += 1; }),
              HasSubstr("do not form a product"));
  EXPECT_THAT(errorOf([](Command &command) { command.parts.clear(); }),
              HasSubstr("it has 0 kernels, its tiles need 1"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ProductRowsTest,
                         testing::Values(Case{128, 64, 32, true}, Case{128, 64, 32, false},
                                         Case{50, 16, 1, true}, Case{31, 17, 7, true},
                                         Case{31, 47, 7, false}, Case{14, 100, 256, true},
                                         Case{2, 33, 5, false}));

} // namespace
} // namespace stow::host::test
