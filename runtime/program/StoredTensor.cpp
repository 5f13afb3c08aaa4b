#include "runtime/program/StoredTensor.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cstring>

namespace stow {

StoredTensor::StoredTensor(const Operand &place, char *arena)
    : base(arena + place.offset), elementBytes(sizeOf(place.dtype)) {
  const Layout &layout = place.layout;
  bool grouped = layout.groups > 1;
  rank = place.shape.size() + (grouped ? 1 : 0);
  digitCount = layout.blocks.size();
  if (rank > maxRank || digitCount > maxBlocks)
    throw Error::badInput("a stored tensor has at most " + std::to_string(maxRank) +
                          " dimensions and " + std::to_string(maxBlocks) + " blocks");
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
void StoredTensor::storeAs(int64_t begin, int64_t end, const Element *rowMajor) const {
  Element *stored = reinterpret_cast<Element *>(base);
  forEachRun(begin, end, [&](int64_t logical, int64_t position, int64_t stride, int64_t count) {
    const Element *from = rowMajor + (logical - begin);
    for (int64_t i = 0; i < count; ++i)
      stored[position + i * stride] = from[i];
  });
}

template <typename Element>
void StoredTensor::loadAs(int64_t begin, int64_t end, Element *rowMajor) const {
  const Element *stored = reinterpret_cast<const Element *>(base);
  forEachRun(begin, end, [&](int64_t logical, int64_t position, int64_t stride, int64_t count) {
    Element *to = rowMajor + (logical - begin);
    for (int64_t i = 0; i < count; ++i)
      to[i] = stored[position + i * stride];
  });
}

void StoredTensor::store(int64_t begin, int64_t end, const void *rowMajor) const {
  if (begin == end) // nothing may come with a null pointer, which memcpy does not take
    return;
  if (rowMajorOrder) {
    std::memcpy(base + begin * elementBytes, rowMajor,
                static_cast<size_t>((end - begin) * elementBytes));
    return;
  }
  switch (elementBytes) {
  case 1:
    return storeAs(begin, end, static_cast<const uint8_t *>(rowMajor));
  case 2:
    return storeAs(begin, end, static_cast<const uint16_t *>(rowMajor));
  case 4:
    return storeAs(begin, end, static_cast<const uint32_t *>(rowMajor));
  default:
    return storeAs(begin, end, static_cast<const uint64_t *>(rowMajor));
  }
}

void StoredTensor::load(int64_t begin, int64_t end, void *rowMajor) const {
  if (begin == end)
    return;
  if (rowMajorOrder) {
    std::memcpy(rowMajor, base + begin * elementBytes,
                static_cast<size_t>((end - begin) * elementBytes));
    return;
  }
  switch (elementBytes) {
  case 1:
    return loadAs(begin, end, static_cast<uint8_t *>(rowMajor));
  case 2:
    return loadAs(begin, end, static_cast<uint16_t *>(rowMajor));
  case 4:
    return loadAs(begin, end, static_cast<uint32_t *>(rowMajor));
  default:
    return loadAs(begin, end, static_cast<uint64_t *>(rowMajor));
  }
}

void StoredTensor::clear() const {
  std::memset(base, 0, static_cast<size_t>(storedElements * elementBytes));
}

void StoredTensor::clearPaddingOfRow(int64_t row) const {
  if (!hasPadding())
    return;
  std::array<int64_t, maxRank> index{};
  auto paddedDim = [&](size_t i) { return (dims[i] + blockOf[i] - 1) / blockOf[i] * blockOf[i]; };
  int64_t rowEnd = row + 1 == dims[0] ? paddedDim(0) : row + 1;
  index[0] = row;
  while (index[0] < rowEnd) {
    bool outside = false;
    int64_t position = 0;
    for (size_t i = 0; i < rank; ++i) {
      outside |= index[i] >= dims[i];
      position += offsetInDim(i, index[i]);
    }
    if (outside)
      std::memset(base + position * elementBytes, 0, static_cast<size_t>(elementBytes));
    size_t dim = rank - 1;
    while (dim > 0 && ++index[dim] == paddedDim(dim))
      index[dim--] = 0;
    if (dim == 0)
      ++index[0];
  }
}

} // namespace stow
