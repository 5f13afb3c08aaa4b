#include "runtime/host/loops/PanelProduct.h"

#include "runtime/host/loops/ProductTasks.h"

namespace stow::host {
namespace {

/// Rows of the blocks that are added to what is there.
constexpr int64_t blockRows = 12;

/// Elements of a copied panel: its rows in whole vectors; 0 where all panels are read as they lie.
int64_t copiedElements(const PanelProduct &product) {
  if (!product.isRightTransposed && product.columns % panelColumns == 0)
    return 0;
  const int64_t rows = std::min(product.depth, summedBlock(product.depth));
  return (rows + 7) / 8 * 8 * panelColumns;
}

/// Columns [first, first + count) of `depth` rows from `begin` on as a panel, filled up with zeros.
STOW_INLINE void copyPanel(const PanelProduct &product, const float *right, int64_t begin,
                           int64_t depth, int64_t first, int64_t count, float *panel) {
  if (count < panelColumns)
    std::fill(panel, panel + depth * panelColumns, 0.0f);
  if (!product.isRightTransposed) {
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t i = 0; i < count; ++i)
        panel[k * panelColumns + i] = right[(begin + k) * product.columns + first + i];
    return;
  }
  const float *rows = right + first * product.depth + begin;
  const int64_t wholeColumns = count / 8 * 8, wholeDepth = depth / 8 * 8;
  for (int64_t i = 0; i < wholeColumns; i += 8)
    for (int64_t k = 0; k < wholeDepth; k += 8)
      transpose8(rows + i * product.depth + k, product.depth, panel + k * panelColumns + i);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = i < wholeColumns ? wholeDepth : 0; k < depth; ++k)
      panel[k * panelColumns + i] = rows[i * product.depth + k];
}

/// What a panel's sums are written to.
struct Target {
  float *address;
  int64_t pitch, columns;
};

/// Sums of a few rows into place, by way of a block on the stack.
STOW_INLINE void store(const float *sums, Target to, int64_t rows, Writes writes) {
  for (int64_t row = 0; row < rows; ++row, sums += panelColumns, to.address += to.pitch)
    for (int64_t i = 0; i < to.columns; ++i)
      to.address[i] = writes == Writes::Adds ? to.address[i] + sums[i] : sums[i];
}

/// One block of the contracted dimension, for `rows` rows and one panel.
template <typename V, Stored stored>
STOW_INLINE void multiplyBlockOf(LeftTile<stored> left, RightTile right, Target to, int64_t rows,
                                 int64_t depth, Writes writes) {
  if (writes == Writes::Assigns && to.columns == panelColumns) {
    multiplyTiles<V>(left, right, {to.address, to.pitch}, rows, 1, depth, writes);
    return;
  }
  alignas(64) float sums[blockRows * panelColumns];
  for (int64_t row = 0; row < rows; row += blockRows) {
    const int64_t count = std::min(blockRows, rows - row);
    multiplyTiles<V>(LeftTile<stored>{left.row(row), left.pitch}, right, {sums, panelColumns},
                     count, 1, depth, Writes::Assigns);
    store(sums, {to.address + row * to.pitch, to.pitch, to.columns}, count, writes);
  }
}

template <typename V, Stored stored>
STOW_INLINE void multiplyPanel(const PanelProduct &product, LeftTile<stored> left,
                               const ProductPart &part, Becomes becomes, float *panel) {
  const int64_t block = summedBlock(product.depth);
  for (int64_t k = 0; k < product.depth; k += block) {
    const int64_t depth = std::min(block, product.depth - k);
    RightTile tile = {part.right + k * product.columns + part.first, panelColumns, product.columns};
    if (product.isRightTransposed || part.columns < panelColumns) {
      copyPanel(product, part.right, k, depth, part.first, part.columns, panel);
      tile = {panel, 0, panelColumns};
    }
    const LeftTile<stored> factor = {
        stored == Stored::AsItIs ? left.address + k : left.address + k * left.pitch, left.pitch};
    multiplyBlockOf<V>(factor, tile, {part.to, part.pitch, part.columns}, part.rows, depth,
                       k > 0 || becomes == Becomes::Added ? Writes::Adds : Writes::Assigns);
  }
  part.addBias();
}

#define STOW_FOR(name, target, V)                                                                  \
  target void run##name(const PanelProduct &product, const ProductTasks &tasks,                    \
                        const ProductAddresses &addresses, Becomes becomes, float *panel,          \
                        int64_t begin, int64_t end) {                                              \
    runTasks(product, tasks, addresses, begin, end,                                                \
             [&](auto left, const ProductPart &part) __attribute__((always_inline)) {              \
               multiplyPanel<V>(product, left, part, becomes, panel);                              \
             });                                                                                   \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

} // namespace

Bytes PanelProduct::scratchBytes(int64_t threads) const {
  return scratchOfSlots(ProductTasks(*this, panelColumns, threads), copiedElements(*this));
}

void multiplyPanels(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, char *scratch,
                    int64_t threads) {
  const auto loops = STOW_FOR_INSTRUCTIONS(run);
  const ProductTasks tasks(product, panelColumns, threads);
  runSlots(tasks, copiedElements(product), scratch, [&](float *own, int64_t begin, int64_t end) {
    loops(product, tasks, {left, right, bias, result}, becomes, own, begin, end);
  });
}

} // namespace stow::host
