#include "runtime/host/MemoryDesc.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

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
  std::vector<int64_t> strides = outerStrides(layout, shape);
  dnnl_memory_desc_t md{};
  md.ndims = static_cast<int>(dims.size());
  md.data_type = dnnl::memory::convert_to_c(requireDataType(type));
  md.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t &blocking = md.format_desc.blocking;
  std::vector<int64_t> blockOf(dims.size(), 1);
  blocking.inner_nblks = static_cast<int>(layout.blocks.size());
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    blocking.inner_blks[i] = layout.blocks[i].size;
    blocking.inner_idxs[i] = layout.blocks[i].dim;
    blockOf[layout.blocks[i].dim] *= layout.blocks[i].size;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    md.dims[i] = dims[i];
    md.padded_dims[i] = alignUp(dims[i], blockOf[i]);
    blocking.strides[i] = strides[i];
  }
  return dnnl::memory::desc(md);
}

dnnl::memory::desc anyDesc(DType type, const Shape &dims) {
  requireRank(dims.size());
  return {dims, requireDataType(type), dnnl::memory::format_tag::any};
}

Shape dimsOf(const dnnl::memory::desc &desc) {
  return Shape(desc.data.dims, desc.data.dims + desc.data.ndims);
}

std::optional<Layout> layoutOf(const dnnl::memory::desc &desc, int64_t groups) {
  const dnnl_memory_desc_t &md = desc.data;
  if (md.format_kind != dnnl_blocked || md.offset0 != 0 ||
      md.extra.flags != dnnl_memory_extra_flag_none)
    return std::nullopt;
  const dnnl_blocking_desc_t &blocking = md.format_desc.blocking;
  size_t rank = static_cast<size_t>(md.ndims);
  Layout layout;
  layout.groups = groups;
  std::vector<int64_t> blockOf(rank, 1);
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    layout.blocks.push_back({blocking.inner_idxs[i], blocking.inner_blks[i]});
    blockOf[blocking.inner_idxs[i]] *= blocking.inner_blks[i];
  }
  std::vector<int64_t> outerCount(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (md.padded_offsets[i] != 0 || md.padded_dims[i] != alignUp(md.dims[i], blockOf[i]))
      return std::nullopt;
    outerCount[i] = md.padded_dims[i] / blockOf[i];
  }
  // Outermost first. A dimension counted once shares its stride with the next one outside, so among
  // equal strides the longer dimension is the outer one.
  layout.order.resize(rank);
  std::iota(layout.order.begin(), layout.order.end(), 0);
  std::ranges::sort(layout.order, [&](int64_t a, int64_t b) {
    if (blocking.strides[a] != blocking.strides[b])
      return blocking.strides[a] > blocking.strides[b];
    if (outerCount[a] != outerCount[b])
      return outerCount[a] > outerCount[b];
    return a < b;
  });
  if (layout.isRowMajor())
    layout.order.clear();
  Shape shape = dimsOf(desc);
  if (groups > 1) {
    shape.erase(shape.begin());
    shape[0] *= groups;
  }
  std::vector<int64_t> strides = outerStrides(layout, shape);
  for (size_t i = 0; i < rank; ++i)
    if (outerCount[i] > 1 && strides[i] != blocking.strides[i])
      return std::nullopt;
  return layout;
}

} // namespace stow::host
