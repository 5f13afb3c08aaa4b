#include "runtime/host/MemoryDesc.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/host/Descriptors.h"

#include <algorithm>
#include <numeric>

namespace stow::host {

std::optional<dnnl::memory::data_type> dataTypeOf(DType type) {
  using Type = dnnl::memory::data_type;
  switch (type) {
  case DType::F32:
    return Type::f32;
  case DType::F16:
    return Type::f16;
  case DType::BF16:
    return Type::bf16;
  case DType::I32:
    return Type::s32;
  case DType::U8:
  case DType::I1:
    return Type::u8;
  case DType::F64:
  case DType::I64:
    return std::nullopt;
  }
  return std::nullopt;
}

namespace {

dnnl::memory::data_type requireDataType(DType type) {
  if (std::optional<dnnl::memory::data_type> found = dataTypeOf(type))
    return *found;
  throw Error::badInput("the host library does not compute with " + std::string(nameOf(type)) +
                        "; it takes f32, bf16 and f16");
}

void requireRank(size_t rank) {
  if (rank == 0 || rank > DNNL_MAX_NDIMS)
    throw Error::badInput(concat("the host library takes tensors of 1 to ", DNNL_MAX_NDIMS,
                                 " dimensions, found ", rank));
}

} // namespace

dnnl::memory::desc descOf(DType type, const Shape &shape, const Layout &layout) {
  checkLayout(layout, shape);
  Shape dims = layoutDims(layout, shape);
  requireRank(dims.size());
  if (layout.blocks.size() > DNNL_MAX_NDIMS)
    throw Error::badInput("layout \"" + formatLayout(layout) + "\" has too many blocks");
  std::vector<std::pair<int64_t, int64_t>> blocks;
  for (const Layout::Block &block : layout.blocks)
    blocks.emplace_back(block.dim, block.size);
  return blockedDesc(requireDataType(type), dims, outerStrides(layout, shape), blocks);
}

dnnl::memory::desc anyDesc(DType type, const Shape &dims) {
  requireRank(dims.size());
  return {dims, requireDataType(type), dnnl::memory::format_tag::any};
}

Shape dimsOf(const dnnl::memory::desc &desc) { return fieldsOf(desc).dims; }

std::optional<Layout> layoutOf(const dnnl::memory::desc &desc, int64_t groups) {
  const DescFields fields = fieldsOf(desc);
  if (!fields.isPlaced)
    return std::nullopt;
  const size_t rank = fields.dims.size();
  Layout layout;
  layout.groups = groups;
  std::vector<int64_t> blockOf(rank, 1);
  for (const auto &[dimension, size] : fields.blocks) {
    layout.blocks.push_back({dimension, size});
    blockOf[dimension] *= size;
  }
  std::vector<int64_t> outerCount(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (fields.paddedDims[i] != alignUp(fields.dims[i], blockOf[i]))
      return std::nullopt;
    outerCount[i] = fields.paddedDims[i] / blockOf[i];
  }
  // Outermost first. A dimension counted once shares its stride with the next one outside, so among
  // equal strides the longer dimension is the outer one.
  layout.order.resize(rank);
  std::iota(layout.order.begin(), layout.order.end(), 0);
  std::ranges::sort(layout.order, [&](int64_t a, int64_t b) {
    if (fields.strides[a] != fields.strides[b])
      return fields.strides[a] > fields.strides[b];
    if (outerCount[a] != outerCount[b])
      return outerCount[a] > outerCount[b];
    return a < b;
  });
  if (layout.isRowMajor())
    layout.order.clear();
  Shape shape = fields.dims;
  if (groups > 1) {
    shape.erase(shape.begin());
    shape[0] *= groups;
  }
  std::vector<int64_t> strides = outerStrides(layout, shape);
  for (size_t i = 0; i < rank; ++i)
    if (outerCount[i] > 1 && strides[i] != fields.strides[i])
      return std::nullopt;
  return layout;
}

} // namespace stow::host
