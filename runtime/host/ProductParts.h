// Matrix products of the library in parts that run on one thread each.
//
// Products with few rows, few columns or few contracted elements the library (2.6, its sgemm) multiplies as their operands lie,
// and cuts them by the number of threads: rows at the edges of its cuts, and contracted elements where it cuts these, are then summed
// in other orders. Here such a product is cut by its sizes alone, and a part is a product of its own on one thread: the bits are those
// of any other number of threads. Parts take no longer than the whole by more than a few percent. Of other products the library packs
// the factors, and sums alike, as long as each thread has enough of them: they get no more threads than that.
//
//            b  |-----|-----|-----|      parts of at least 128 columns and 128 rows
//               |     |     |     |
//       |---|   |-----|-----|-----|
//     a |---|   |  0  |  1  |  2  |  c
//       |---|   |  3  |  4  |  5  |
//
#pragma once

#include "runtime/host/Parts.h"

namespace stow::host {

/// The parts of a product of two matrices of f32 that the library was chosen for, made with `attributes`; none where its
/// bits do not depend on the number of threads (AVX-512), or which is none of these.
std::shared_ptr<const Parts> partsOf(const Preparation &whole,
                                     const dnnl::primitive_attr &attributes);

} // namespace stow::host
