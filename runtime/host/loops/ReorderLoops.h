// Reorders of tensors with 16-bit elements in loops of our own, between layouts and types.
//
// On processors without AVX-512 the library has only reference code for them. Here the dimensions
// are split into digits, as fine as the blocks of both layouts together: an element's place is then
// linear in its digits, in both.
//
//   channel = 8 a + b       place in n h w c    a: 8       b: 1
//                           in blocks of 8      a: 8 h w   b: 1
//
// Digits that lie alike in both layouts are joined; the one that is contiguous in the result is the
// inner loop.
#pragma once

#include "runtime/format/Program.h"

#include <optional>
#include <vector>

namespace stow::host {

struct ReorderPlan {
  /// None where the blocks of one layout do not divide those of the other, and for types other than
  /// f32, bf16 and f16.
  static std::optional<ReorderPlan> of(Operand from, Operand to);

  /// `from` and `to` are the tensors' first elements. Padding of the result becomes zero; gaps keep
  /// what they hold. Allocates nothing.
  void run(const char *from, char *to, int64_t threads) const;

  struct Digit {
    int64_t count, fromStride, toStride; ///< elements
    std::optional<size_t> dim;           ///< index into `dims`; none: no padding to mind
    int64_t unit;                        ///< what it counts of the dimension's index
  };
  /// A dimension that whole blocks exceed.
  struct Dim {
    int64_t extent, padded; ///< logical; as far as the result is stored
  };

  DType fromType, toType;
  std::vector<Digit> outer; ///< outermost in the result first
  Digit inner;
  std::vector<Dim> dims;
};

} // namespace stow::host
