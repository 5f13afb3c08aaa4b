// Quantized weights (Quantization.h) of tensors that are never there whole.
#pragma once

#include "runtime/base/Quantization.h"

namespace stow {

/// Quantizes a tensor that comes piece by piece: its codes first, in any order, then what lies behind them. Holds the scales, 4 bytes
/// for each block of 64 numbers.
class BlockQuantizer {
public:
  /// The number of elements is quantizable.
  BlockQuantizer(Quantization scheme, int64_t elements);

  Bytes codeBytes() const { return parts.scales; }
  /// How many elements a byte of codes stands for: byte b has element b, and element b + codeBytes() where it has two.
  int64_t runs() const { return elements / parts.scales; }

  /// Writes bytes [begin, begin + count) of the codes to `codes`, of `runs()` times `count` numbers, run behind run. Both are
  /// multiples of kQuantizedBlock. From several threads at once for different bytes.
  void writeCodes(int64_t begin, int64_t count, const float *values, char *codes);

  /// The bytes from codeBytes() on, once all codes were written.
  std::vector<char> rest() const;

private:
  Quantization scheme;
  int64_t elements;
  QuantizedParts parts;
  std::vector<float> scales; ///< by block, as they are
};

} // namespace stow
