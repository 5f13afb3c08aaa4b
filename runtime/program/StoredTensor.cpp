#include "runtime/program/StoredTensor.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cstring>

namespace stow {

StoredTensor::StoredTensor(const Operand &place) : elementBytes(sizeOf(place.dtype)) {
  const Layout &layout = place.layout;
  bool grouped = layout.groups > 1;
  rank = place.shape.size() + (grouped ? 1 : 0);
  digitCount = layout.blocks.size();
  if (rank > maxRank || digitCount > maxBlocks)
    throw Error::badInput(
        concat("a stored tensor has at most ", maxRank, " dimensions and ", maxBlocks, " blocks"));
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = grouped ? (i == 0   ? layout.groups
                         : i == 1 ? place.shape[0] / layout.groups
                                  : place.shape[i - 1])
                      : place.shape[i];
    blockOf[i] = 1;
    elements *= dims[i];
  }
  int64_t stride = 1;
  for (size_t b = digitCount; b-- > 0;) {
    const Layout::Block &block = layout.blocks[b];
    size_t dim = static_cast<size_t>(block.dim);
    digits[b] = {dim, blockOf[dim], block.size, stride};
    blockOf[dim] *= block.size;
    stride *= block.size;
  }
  for (size_t i = rank; i-- > 0;) {
    size_t dim = layout.order.empty() ? i : static_cast<size_t>(layout.order[i]);
    strides[dim] = stride;
    stride *= (dims[dim] + blockOf[dim] - 1) / blockOf[dim];
  }
  storedElements = stride;
  rowMajorOrder = layout.isRowMajor();
  if (rank == 0 || rowMajorOrder)
    return;
  // A run ends where the innermost block of the last dimension ends.
  runLength = dims[rank - 1];
  runStride = strides[rank - 1];
  for (size_t b = 0; b < digitCount; ++b)
    if (digits[b].dim == rank - 1 && digits[b].divisor == 1) {
      runLength = digits[b].size;
      runStride = digits[b].stride;
    }
}

int64_t StoredTensor::offsetInDim(size_t dim, int64_t index) const {
  int64_t position = index / blockOf[dim] * strides[dim];
  if (blockOf[dim] > 1)
    for (size_t b = 0; b < digitCount; ++b)
      if (digits[b].dim == dim)
        position += index / digits[b].divisor % digits[b].size * digits[b].stride;
  return position;
}

int64_t StoredTensor::positionOf(int64_t logical) const {
  if (rowMajorOrder)
    return logical;
  int64_t position = 0;
  for (size_t i = rank; i-- > 0;) {
    position += offsetInDim(i, logical % dims[i]);
    logical /= dims[i];
  }
  return position;
}

Bytes StoredTensor::bytesOfRows(int64_t rows) const {
  const bool isOutermost = rank > 0 && blockOf[0] == 1 && strides[0] * dims[0] == storedElements;
  return isOutermost ? rows * strides[0] * elementBytes : 0;
}

template <typename Visit>
void StoredTensor::forEachRun(int64_t begin, int64_t end, const Visit &visit) const {
  int64_t last = rank == 0 ? 1 : dims[rank - 1];
  for (int64_t logical = begin; logical < end;) {
    int64_t index = logical % last;
    int64_t inBlock = runLength - index % runLength;
    int64_t count = std::min({inBlock, last - index, end - logical});
    visit(logical, positionOf(logical), runStride, count);
    logical += count;
  }
}

template <typename Element>
void StoredTensor::storeAs(char *stored, int64_t begin, int64_t end,
                           const Element *rowMajor) const {
  Element *elements = reinterpret_cast<Element *>(stored);
  forEachRun(begin, end, [&](int64_t logical, int64_t position, int64_t stride, int64_t count) {
    const Element *from = rowMajor + (logical - begin);
    for (int64_t i = 0; i < count; ++i)
      elements[position + i * stride] = from[i];
  });
}

template <typename Element>
void StoredTensor::loadAs(const char *stored, int64_t begin, int64_t end, Element *rowMajor) const {
  const Element *elements = reinterpret_cast<const Element *>(stored);
  forEachRun(begin, end, [&](int64_t logical, int64_t position, int64_t stride, int64_t count) {
    Element *to = rowMajor + (logical - begin);
    for (int64_t i = 0; i < count; ++i)
      to[i] = elements[position + i * stride];
  });
}

void StoredTensor::store(char *stored, int64_t begin, int64_t end, const void *rowMajor) const {
  if (begin == end) // nothing may come with a null pointer, which memcpy does not take
    return;
  if (rowMajorOrder) {
    std::memcpy(stored + begin * elementBytes, rowMajor,
                static_cast<size_t>((end - begin) * elementBytes));
    return;
  }
  switch (elementBytes) {
  case 1:
    return storeAs(stored, begin, end, static_cast<const uint8_t *>(rowMajor));
  case 2:
    return storeAs(stored, begin, end, static_cast<const uint16_t *>(rowMajor));
  case 4:
    return storeAs(stored, begin, end, static_cast<const uint32_t *>(rowMajor));
  default:
    return storeAs(stored, begin, end, static_cast<const uint64_t *>(rowMajor));
  }
}

void StoredTensor::load(const char *stored, int64_t begin, int64_t end, void *rowMajor) const {
  if (begin == end)
    return;
  if (rowMajorOrder) {
    std::memcpy(rowMajor, stored + begin * elementBytes,
                static_cast<size_t>((end - begin) * elementBytes));
    return;
  }
  switch (elementBytes) {
  case 1:
    return loadAs(stored, begin, end, static_cast<uint8_t *>(rowMajor));
  case 2:
    return loadAs(stored, begin, end, static_cast<uint16_t *>(rowMajor));
  case 4:
    return loadAs(stored, begin, end, static_cast<uint32_t *>(rowMajor));
  default:
    return loadAs(stored, begin, end, static_cast<uint64_t *>(rowMajor));
  }
}

void StoredTensor::clear(char *stored) const {
  std::memset(stored, 0, static_cast<size_t>(storedBytes()));
}

} // namespace stow
