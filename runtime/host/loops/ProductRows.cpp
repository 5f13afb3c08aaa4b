#include "runtime/host/loops/ProductRows.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/loops/TileProduct.h"

#include <algorithm>
#include <vector>

namespace stow::host {

static_assert(leastRowColumns == panelColumns);

namespace {

/// The columns left of the last whole panel are computed once more with those beside it: the last
/// panel ends with the row.
template <typename V, Stored stored>
STOW_INLINE void multiplyPanels(LeftTile<stored> left, const RowFactors &factors, int64_t count,
                                float *tile) {
  const int64_t columns = factors.columns, last = columns - panelColumns;
  const RightTile right = {factors.right, panelColumns, columns};
  multiplyTiles<V>(left, right, {tile, columns}, count, columns / panelColumns, factors.depth,
                   Writes::Assigns);
  if (columns % panelColumns != 0)
    multiplyTiles<V>(left, {right.address + last, panelColumns, columns}, {tile + last, columns},
                     count, 1, factors.depth, Writes::Assigns);
}

template <typename V>
STOW_INLINE void multiplyTile(const RowFactors &factors, int64_t first, int64_t count,
                              float *tile) {
  if (factors.isTransposed)
    multiplyPanels<V>(LeftTransposed{factors.left + first, factors.rows}, factors, count, tile);
  else
    multiplyPanels<V>(Left{factors.left + first * factors.depth, factors.depth}, factors, count,
                      tile);
}

#define STOW_FOR(name, target, V)                                                                  \
  target void multiply##name(const RowFactors &factors, int64_t first, int64_t count,              \
                             float *tile) {                                                        \
    multiplyTile<V>(factors, first, count, tile);                                                  \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

int64_t tilesOf(int64_t rows, int64_t tileRows) { return (rows + tileRows - 1) / tileRows; }

/// Threads that take tiles: no more than there are whole ones, so that the scratch is never larger than the
/// product.
int64_t slotsOf(int64_t rows, int64_t tileRows, int64_t threads) {
  return std::clamp<int64_t>(rows / tileRows, 1, threads);
}

Bytes tileBytes(int64_t tileRows, int64_t columns) {
  return alignUp(tileRows * columns * Bytes{sizeof(float)}, 64);
}

int64_t integerOf(const Command &command, const char *name) {
  auto found = command.ints.find(name);
  if (found == command.ints.end() || found->second.size() != 1)
    throw Error::badInput(
        concat("command ", command.title(), " must have one integer '", name, "'"));
  return found->second.front();
}

/// A kernel, and where its operands lie for the first tile: the tile itself is in the scratch.
struct TileKernel {
  TileKernel(const Command &whole, const Command &part, const ProgramImage &image, char *arena)
      : tasks(part.tasks) {
    if (part.kernel < 0 || static_cast<size_t>(part.kernel) >= image.kernels.size())
      throw Error::badInput(concat("command ", whole.title(), " runs kernel ", part.kernel,
                                   ", the executable has ", image.kernels.size()));
    run = image.kernels[static_cast<size_t>(part.kernel)];
    for (const Operand &operand : part.operands)
      addresses.push_back(arena + operand.offset);
  }

  StowKernelFn run = nullptr;
  int64_t tasks;
  std::vector<char *> addresses;
};

class ProductRows : public LibraryCall {
public:
  ProductRows(const Command &command, const ProgramImage &image, char *arena, int64_t threads)
      : tileRows(integerOf(command, "rows")), scratch(arena + command.workspaceOffset) {
    auto fail = [&](const std::string &why) {
      throw Error::badInput(concat("command ", command.title(), ": ", why));
    };
    auto isMatrix = [](const Operand &operand) {
      return operand.dtype == DType::F32 && operand.shape.size() == 2 &&
             operand.layout.isRowMajor();
    };
    if (command.operands.size() < 3 || !isMatrix(command.operands[0]) ||
        !isMatrix(command.operands[1]))
      fail("the factors must be row-major matrices of f32");
    const Operand &left = command.operands[0], &right = command.operands[1];
    factors = {reinterpret_cast<const float *>(arena + left.offset),
               reinterpret_cast<const float *>(arena + right.offset),
               integerOf(command, "transpose_a") != 0};
    factors.rows = left.shape[factors.isTransposed ? 1 : 0];
    factors.depth = right.shape[0];
    factors.columns = right.shape[1];
    if (left.shape[factors.isTransposed ? 0 : 1] != factors.depth ||
        factors.columns < leastRowColumns || tileRows < 1 || tileRows > factors.rows)
      fail("the factors do not form a product of rows");
    auto found = command.ints.find("steps");
    if (found == command.ints.end() || found->second.size() + 2 != command.operands.size())
      fail("steps must have a number for each operand of the kernel");
    steps = found->second;
    const size_t wanted = factors.rows % tileRows == 0 ? 1 : 2;
    if (command.parts.size() != wanted)
      fail(concat("it has ", command.parts.size(), " kernels, its tiles need ", wanted));
    for (const Command &part : command.parts) {
      if (part.operands.size() != steps.size() + 1)
        fail("its kernels must have the tile and its operands");
      kernels.emplace_back(command, part, image, arena);
    }
    slots = slotsOf(factors.rows, tileRows, threads);
    const Bytes needed = productRowsScratchBytes(factors.rows, factors.columns, tileRows, threads);
    if (needed > command.workspaceBytes)
      fail(concat("the plan has ", formatBytesExact(command.workspaceBytes),
                  " of workspace, its tiles need ", formatBytesExact(needed), " with ", threads,
                  " threads; recompile with --threads=", threads));
    addresses.resize(static_cast<size_t>(slots), std::vector<char *>(steps.size() + 1));
  }

  void run() override {
    const int64_t tiles = tilesOf(factors.rows, tileRows);
    parallelFor(slots, slots, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t tile = tiles * slot / slots; tile < tiles * (slot + 1) / slots; ++tile)
          runTile(slot, tile);
    });
  }

private:
  void runTile(int64_t slot, int64_t tile) {
    const int64_t first = tile * tileRows, count = std::min(tileRows, factors.rows - first);
    char *product = scratch + slot * tileBytes(tileRows, factors.columns);
    multiplyRows(factors, first, count, reinterpret_cast<float *>(product));
    const TileKernel &kernel = count == tileRows ? kernels.front() : kernels.back();
    std::vector<char *> &arguments = addresses[static_cast<size_t>(slot)];
    arguments[0] = product;
    for (size_t i = 0; i < steps.size(); ++i)
      arguments[i + 1] = kernel.addresses[i + 1] + tile * steps[i];
    kernel.run(0, kernel.tasks, arguments.data());
  }

  RowFactors factors;
  int64_t tileRows, slots = 1;
  char *scratch;
  std::vector<int64_t> steps;
  std::vector<TileKernel> kernels;
  std::vector<std::vector<char *>> addresses; ///< of a kernel's operands, for each thread
};

} // namespace

void multiplyRows(const RowFactors &factors, int64_t first, int64_t count, float *tile) {
  STOW_FOR_INSTRUCTIONS(multiply)(factors, first, count, tile);
}

Bytes productRowsScratchBytes(int64_t rows, int64_t columns, int64_t tileRows, int64_t threads) {
  return slotsOf(rows, tileRows, threads) * tileBytes(tileRows, columns);
}

std::unique_ptr<LibraryCall> bindProductRows(const Command &command, const ProgramImage &image,
                                             char *arena, int64_t threads) {
  return std::make_unique<ProductRows>(command, image, arena, threads);
}

} // namespace stow::host
