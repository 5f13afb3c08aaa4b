// Matrix products whose right factor has rows a multiple of 2 KiB apart, in loops of our own that copy it in strips.
//
// Of such a matrix the elements of a column fall into few lines of the caches: read as it lies, each of them comes from memory again
// and again. With fewer rows than it takes to pay for packing, the library reads it so: 64 rows by 2048 x 2048 elements at 35
// GFLOP/s, by 2048 x 1000 at 88 (AVX2). Here a strip of 64 columns and 256 rows is copied, in panels, and then multiplied by all rows
// of the left factor; what comes next is asked for while it is copied.
//
//            b  |======|------|      a strip of b: 4 panels of 16 columns, 64 KiB
//               |======|      |
//       |--|--| |------|------|      Sums over 256 contracted elements run in order, and are added up in
//    a  |--|--|   c                  order: no element depends on the strips, nor on the number of threads.
//
#pragma once

#include "runtime/host/loops/PanelProduct.h"

namespace stow::host {

/// True for the products that the loops are for, which is decided by their sizes alone.
bool isForStrips(const PanelProduct &product, Becomes becomes);

/// Scratch of all threads.
Bytes stripScratchBytes(const PanelProduct &product, int64_t threads);

/// As multiplyPanels(), for products that isForStrips() is true of, with stripScratchBytes().
void multiplyStrips(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, char *scratch,
                    int64_t threads);

} // namespace stow::host
