// Copies between row-major elements and stored ones, both in memory of the host, without allocating.
#pragma once

#include "runtime/format/Program.h"

#include <array>

namespace stow {

/// The layout of one stored tensor in fixed-size arrays. `stored` is where its first element lies:
/// in staging memory of a device (runtime/device/Device.h), where the tensor is bound for the arena
/// or comes from there.
class StoredTensor {
public:
  static constexpr size_t maxRank = 12;
  static constexpr size_t maxBlocks = 12;

  /// Throws Error(BadInput) for more than maxRank dimensions or maxBlocks blocks.
  explicit StoredTensor(const Operand &place);

  int64_t elementCount() const { return elements; }
  int64_t storedElementCount() const { return storedElements; }
  Bytes storedBytes() const { return storedElements * elementBytes; }
  bool isRowMajor() const { return rowMajorOrder; }
  bool hasPadding() const { return storedElements != elements; }

  /// The bytes from the first one on that hold the first `rows` of the first dimension, and nothing of the others; 0 where rows lie
  /// otherwise.
  Bytes bytesOfRows(int64_t rows) const;

  /// Stored position, in elements, of the element with row-major number `logical`.
  int64_t positionOf(int64_t logical) const;

  /// Copies the elements with row-major numbers [begin, end) from or to `rowMajor`, which holds the
  /// first of them.
  void store(char *stored, int64_t begin, int64_t end, const void *rowMajor) const;
  void load(const char *stored, int64_t begin, int64_t end, void *rowMajor) const;

  /// Zeroes all stored bytes, block padding included.
  void clear(char *stored) const;

private:
  /// Calls visit(logical, position, stride, count) for runs of elements with a constant stride that
  /// together cover [begin, end).
  template <typename Visit> void forEachRun(int64_t begin, int64_t end, const Visit &visit) const;
  template <typename Element>
  void storeAs(char *stored, int64_t begin, int64_t end, const Element *rowMajor) const;
  template <typename Element>
  void loadAs(const char *stored, int64_t begin, int64_t end, Element *rowMajor) const;
  int64_t offsetInDim(size_t dim, int64_t index) const;

  struct Digit { ///< one inner block
    size_t dim;
    int64_t divisor; ///< product of the later block sizes of the same dimension
    int64_t size;
    int64_t stride; ///< elements
  };

  Bytes elementBytes;
  size_t rank = 0, digitCount = 0;
  int64_t elements = 1, storedElements = 1;
  bool rowMajorOrder = false;
  int64_t runLength = 1; ///< elements of the last dimension with a constant stride
  int64_t runStride = 1;
  std::array<int64_t, maxRank> dims{}, blockOf{}, strides{};
  std::array<Digit, maxBlocks> digits{};
};

} // namespace stow
