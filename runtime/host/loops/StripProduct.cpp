#include "runtime/host/loops/StripProduct.h"

#include "runtime/host/loops/ProductTasks.h"

namespace stow::host {
namespace {

/// Elements between rows of the right factor whose multiples share lines of the caches: 2 KiB.
constexpr int64_t sharedPitch = 512;

/// Rows of the left factor: fewer are SkinnyProduct.h's, or the library's product with a vector.
constexpr int64_t leastRows = 17;

/// A strip: 64 KiB. Twice as many columns are no faster, half as many up to a tenth slower, and so are half as many rows.
constexpr int64_t stripPanels = 4, stripColumns = stripPanels * panelColumns, stripDepth = 256;

/// Rows of the right factor that are on their way while one is copied.
constexpr int64_t rowsAhead = 12;

/// `depth` rows of `columns` elements, `pitch` apart, as panels behind each other.
STOW_INLINE void copyStrip(const float *from, int64_t pitch, int64_t depth, int64_t columns,
                           float *strip) {
  for (int64_t k = 0; k < depth; ++k, from += pitch, strip += panelColumns)
    for (int64_t i = 0; i < columns; i += panelColumns) {
      __builtin_prefetch(from + rowsAhead * pitch + i);
      at<F8>(strip + i * depth) = at<F8>(from + i);
      at<F8>(strip + i * depth + 8) = at<F8>(from + i + 8);
    }
}

/// Adds the sums over `depth` contracted elements to what is there.
template <typename V, Stored stored>
STOW_INLINE void addTiles(LeftTile<stored> left, RightTile right, ProductTile to, int64_t rows,
                          int64_t panels, int64_t depth) {
  constexpr int64_t block = 12;
  alignas(64) float sums[block * panelColumns];
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t count = std::min(block, rows - row);
      multiplyTiles<V>(LeftTile<stored>{left.row(row), left.pitch},
                       {right.address + panel * right.panelStride, 0, right.depthStride},
                       {sums, panelColumns}, count, 1, depth, Writes::Assigns);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < panelColumns; ++j)
          to.address[(row + i) * to.pitch + panel * panelColumns + j] += sums[i * panelColumns + j];
    }
}

template <typename V, Stored stored>
STOW_INLINE void multiplyStrip(const PanelProduct &product, LeftTile<stored> left,
                               const ProductPart &part, Becomes becomes, float *strip) {
  const int64_t panels = part.columns / panelColumns;
  const ProductTile to = {part.to, product.columns};
  for (int64_t k = 0; k < product.depth; k += stripDepth) {
    const int64_t depth = std::min(stripDepth, product.depth - k);
    copyStrip(part.right + k * product.columns + part.first, product.columns, depth, part.columns,
              strip);
    const LeftTile<stored> factor = {
        stored == Stored::AsItIs ? left.address + k : left.address + k * left.pitch, left.pitch};
    const RightTile copied = {strip, depth * panelColumns, panelColumns};
    if (k == 0 && becomes == Becomes::Result)
      multiplyTiles<V>(factor, copied, to, part.rows, panels, depth, Writes::Assigns);
    else
      addTiles<V>(factor, copied, to, part.rows, panels, depth);
  }
  part.addBias();
}

#define STOW_FOR(name, target, V)                                                                  \
  target void run##name(const PanelProduct &product, const ProductTasks &tasks,                    \
                        const ProductAddresses &addresses, Becomes becomes, float *strip,          \
                        int64_t begin, int64_t end) {                                              \
    runTasks(product, tasks, addresses, begin, end,                                                \
             [&](auto left, const ProductPart &part) __attribute__((always_inline)) {              \
               multiplyStrip<V>(product, left, part, becomes, strip);                              \
             });                                                                                   \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

/// Of the strip of a thread.
int64_t stripElements(const PanelProduct &product) {
  return std::min(product.depth, stripDepth) * stripColumns;
}

} // namespace

bool isForStrips(const PanelProduct &product, Becomes becomes) {
  return !product.isRightTransposed && product.columns % sharedPitch == 0 &&
         product.rows >= leastRows && (becomes == Becomes::Result || product.depth <= stripDepth) &&
         !packsFactors(product.rows, product.columns, packsBelow);
}

Bytes stripScratchBytes(const PanelProduct &product, int64_t threads) {
  return scratchOfSlots(ProductTasks(product, stripColumns, threads), stripElements(product));
}

void multiplyStrips(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, char *scratch,
                    int64_t threads) {
  const auto loops = STOW_FOR_INSTRUCTIONS(run);
  const ProductTasks tasks(product, stripColumns, threads);
  runSlots(tasks, stripElements(product), scratch, [&](float *own, int64_t begin, int64_t end) {
    loops(product, tasks, {left, right, bias, result}, becomes, own, begin, end);
  });
}

} // namespace stow::host
