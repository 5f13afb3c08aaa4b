// Matrix products in panels of columns, in loops of our own.
//
// The library's code for AVX-512 copies the right factor, or all of it that one call of its kernels reads, into
// scratch of every thread: for a layer of two classes 33 KiB, for one of 3,000 a second copy of the
// weights. Here a task is a panel of 16 columns: what is to be copied of it, because it lies transposed
// or is narrower, takes 16 columns of scratch.
//
//            b                Sums run over the contracted dimension in blocks, which are added up in
//          |-|-|-|-|          order: the library's order, whose bits these are.
//    |--|  | | | | |
//  a |  |  c
//    |--|
#pragma once

#include "runtime/base/Layout.h"

#include <cstdint>

namespace stow::host {

/// Matrices of f32, row-major; `count` of each below each other. Transposed factors are stored as
/// [depth, rows] and [columns, depth].
struct PanelProduct {
  int64_t count = 1, rows = 0, columns = 0, depth = 0;
  bool isLeftTransposed = false, isRightTransposed = false;

  /// Scratch of all threads.
  Bytes scratchBytes(int64_t threads) const;
};

/// Contracted elements that are summed before the sum is added to those before: as the library does with
/// AVX-512.
constexpr int64_t summedBlock(int64_t depth) { return depth <= 1024 ? 512 : 1024; }

/// 1/rows + 1/columns below which the library (2.6) packs the factors of a product, without and with AVX-512; from there on it reads
/// them as they lie.
constexpr double packsBelow = 0.0037, packsBelowWithAvx512 = 0.0019;

constexpr bool packsFactors(int64_t rows, int64_t columns, double below) {
  return 1 / static_cast<double>(rows) + 1 / static_cast<double>(columns) < below;
}

/// What a product becomes: the result, or something that is added to the result that is there.
enum class Becomes { Result, Added };

/// `bias`, a number per column, may be null. `scratch`: scratchBytes(), aligned to 64 bytes.
void multiplyPanels(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, char *scratch,
                    int64_t threads);

} // namespace stow::host
