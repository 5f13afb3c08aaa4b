// Products of few rows with a matrix that is stored in blocks of 4 or 8 bits (runtime/base/Quantization.h), in loops of our own.
//
// Such a product takes the time that its matrix takes to come from memory. Computed into floats first, it would be read as codes, written
// and read again as floats; here a tile of it becomes floats in the first cache, and is used up there, or of one transposed row in
// registers:
//
//                  w  |codes|                            as it lies                 transposed
//                        |  a tile, 16 KiB                sums of columns            16 partial sums of every element,
//    x |-------|     |floats|  -->  y |----|              over rows in order         joined at the end
//
// The order of sums depends on the shape alone: no element on the number of threads or on the scheme, and with AVX2 it is that of
// AVX-512. `multiplyFloats` is the same product of floats.
#pragma once

#include "runtime/base/Quantization.h"

namespace stow::host {

/// y [rows, columns] = x [rows, depth] times w, [depth, columns] or, transposed, [columns, depth]. All row-major.
struct FewRows {
  int64_t rows = 0, columns = 0, depth = 0;
  bool isTransposed = false;
};

/// True for what the loops take: at most 8 rows, and rows of w of whole blocks.
bool takesCodes(const FewRows &product);

/// What the numbers of a quantized w are rounded to before they multiply.
enum class Rounding : uint8_t {
  None,
  Bf16, ///< to the nearest, ties to even: as a step in bf16 stores them
  F16,  ///< likewise
};

/// `stored` has the bytes of w.
void multiplyCodes(const FewRows &product, Quantization scheme, const float *x, const char *stored,
                   float *y, int64_t threads, Rounding rounding = Rounding::None);
void multiplyFloats(const FewRows &product, const float *x, const float *w, float *y,
                    int64_t threads);

/// Numbers [first, first + count) of a tensor of `elements`, all multiples of a block: the bits of dequantize().
void decode(Quantization scheme, int64_t elements, const char *stored, int64_t first, int64_t count,
            float *to);

} // namespace stow::host
