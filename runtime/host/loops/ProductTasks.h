// A matrix product cut into tasks for threads: columns of a width, and rows where these are fewer than threads.
#pragma once

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/PanelProduct.h"
#include "runtime/host/loops/TileProduct.h"

#include <algorithm>

namespace stow::host {

struct ProductTasks {
  ProductTasks(const PanelProduct &product, int64_t width, int64_t available)
      : width(width), strips((product.columns + width - 1) / width) {
    const bool pays =
        product.count * product.rows * product.columns * product.depth >= parallelWork;
    const int64_t threads = pays ? available : 1;
    const int64_t few =
        std::max<int64_t>(1, threads / std::max<int64_t>(1, strips * product.count));
    parts = std::clamp<int64_t>(product.rows / leastRows, 1, few);
    count = product.count * strips * parts;
    slots = std::min(threads, count);
  }

  int64_t width, strips, parts; ///< of the columns, of the rows
  int64_t count, slots;         ///< slots: threads that take tasks

private:
  /// Products of fewer multiplications run on the calling thread: one core does them in 10 microseconds, and
  /// handing them to the pool takes about as long.
  static constexpr int64_t parallelWork = 1 << 19;

  /// Rows of a task, where there are fewer strips than threads.
  static constexpr int64_t leastRows = 48;
};

struct ProductAddresses {
  const float *left, *right, *bias;
  float *result;
};

/// Part of a product: rows of it, in the columns [first, first + columns).
struct ProductPart {
  const float *right, *bias; ///< the matrix, and the first column's number or null
  float *to;
  int64_t pitch, rows, first, columns;

  STOW_INLINE void addBias() const {
    if (bias)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < columns; ++i)
          to[row * pitch + i] += bias[i];
  }
};

/// Calls multiply(left tile, part) for the tasks [begin, end).
template <typename Multiply>
STOW_INLINE void runTasks(const PanelProduct &product, const ProductTasks &tasks,
                          const ProductAddresses &addresses, int64_t begin, int64_t end,
                          const Multiply &multiply) {
  for (int64_t task = begin; task < end; ++task) {
    const int64_t cut = task % tasks.parts, first = task / tasks.parts % tasks.strips * tasks.width,
                  number = task / tasks.parts / tasks.strips;
    const int64_t row = product.rows * cut / tasks.parts;
    const float *left = addresses.left + number * product.rows * product.depth;
    const ProductPart part = {addresses.right + number * product.depth * product.columns,
                              addresses.bias ? addresses.bias + first : nullptr,
                              addresses.result + (number * product.rows + row) * product.columns +
                                  first,
                              product.columns,
                              product.rows * (cut + 1) / tasks.parts - row,
                              first,
                              std::min(tasks.width, product.columns - first)};
    if (product.isLeftTransposed)
      multiply(LeftTransposed{left + row, product.rows}, part);
    else
      multiply(Left{left + row * product.depth, product.depth}, part);
  }
}

/// Scratch of all slots, of `elements` floats each.
inline Bytes scratchOfSlots(const ProductTasks &tasks, int64_t elements) {
  return tasks.slots * elements * Bytes{sizeof(float)};
}

/// Calls run(scratch of the slot, begin, end) for each slot and its part of the tasks, on as many threads.
template <typename Run>
void runSlots(const ProductTasks &tasks, int64_t elements, char *scratch, const Run &run) {
  parallelFor(tasks.slots, tasks.slots, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      run(reinterpret_cast<float *>(scratch) + slot * elements, tasks.count * slot / tasks.slots,
          tasks.count * (slot + 1) / tasks.slots);
  });
}

} // namespace stow::host
