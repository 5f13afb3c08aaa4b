#include "codegen/kernels/Space.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace stow {

int64_t Space::elements() const {
  int64_t count = 1;
  for (const Dim &dim : dims)
    count *= dim.extent;
  return count;
}

void Space::collapse() {
  llvm::erase_if(dims, [](const Dim &dim) { return dim.extent == 1; });
  // Few dimensions: an insertion sort keeps equal strides in order.
  auto key = [](const Dim &dim) {
    return dim.strides[0] == 0 ? std::numeric_limits<int64_t>::max() : dim.strides[0];
  };
  for (size_t i = 1; i < dims.size(); ++i)
    for (size_t j = i; j > 0 && key(dims[j - 1]) < key(dims[j]); --j)
      std::swap(dims[j - 1], dims[j]);
  SmallVector<Dim> merged;
  for (const Dim &inner : dims) {
    auto continues = [&](const Dim &outer) {
      for (auto [far, near] : llvm::zip_equal(outer.strides, inner.strides))
        if (far != near * inner.extent)
          return false;
      return true;
    };
    if (!merged.empty() && continues(merged.back()))
      merged.back() = {merged.back().extent * inner.extent, inner.strides};
    else
      merged.push_back(inner);
  }
  if (merged.empty())
    merged.push_back({1, SmallVector<int64_t>(offsets.size(), 0)});
  dims = std::move(merged);
}

void Space::moveInnermost(size_t dim) {
  std::rotate(dims.begin() + dim, dims.begin() + dim + 1, dims.end());
}

Space::Dim Space::takeInnermost() { return dims.pop_back_val(); }

std::optional<SmallVector<int64_t>> stridesOf(RankedTensorType type) {
  Layout layout = layoutOf(type);
  if (layout.isRowMajor())
    return rowMajorStrides(type.getShape());
  if (!layout.blocks.empty() || layout.groups > 1)
    return std::nullopt;
  auto strides = outerStrides(layout, Shape(type.getShape().begin(), type.getShape().end()));
  return SmallVector<int64_t>(strides.begin(), strides.end());
}

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

SmallVector<int64_t> broadcastStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                                      ArrayRef<int64_t> space) {
  SmallVector<int64_t> aligned(space.size(), 0);
  size_t missing = space.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      aligned[missing + i] = strides[i];
  return aligned;
}

Space makeSpace(ArrayRef<int64_t> shape, ArrayRef<SmallVector<int64_t>> accesses) {
  Space space;
  space.offsets.assign(accesses.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    Space::Dim dim{shape[i], {}};
    for (const auto &access : accesses)
      dim.strides.push_back(access[i]);
    space.dims.push_back(std::move(dim));
  }
  return space;
}

} // namespace stow
