#include "runtime/host/Descriptors.h"

#include "runtime/host/Prices.h"
#include "runtime/host/Primitive.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>

namespace stow::host {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Blocks = std::vector<std::pair<int64_t, int64_t>>;

/// Only the direct algorithm: Winograd weights have formats of their own and other rounding.
static constexpr auto direct = dnnl::algorithm::convolution_direct;

/// The first implementation that is not refused; the library's first choice when there is none.
template <typename Descriptor>
static Descriptor firstOf(const Descriptor &first,
                          const std::function<bool(const char *)> &isRefused) {
  Descriptor next = first;
  while (isRefused(next.impl_info_str()))
    if (!next.next_impl())
      return first;
  return next;
}

/// The convolution as prices know it: two spatial dimensions alike, nothing dilated, f32 or bf16 throughout. None for others.
static std::optional<PricedCall> pricedCall(ConvolutionKind kind, const Desc &src,
                                            const Desc &weights, const Desc &dst,
                                            const WindowDims &w) {
  const Dims images = dimsOf(src), window = dimsOf(weights), results = dimsOf(dst);
  const auto type = elementType(kind == ConvolutionKind::GradInput ? dst : src);
  const bool isBf16 = type == dnnl::memory::data_type::bf16;
  auto areAlike = [](const Dims &extents) { return extents[0] == extents[1]; };
  if (images.size() != 4 || !areAlike(w.strides) || w.dilates != Dims{0, 0} ||
      !(isBf16 || type == dnnl::memory::data_type::f32) || window.end()[-1] != window.end()[-2])
    return std::nullopt;
  return PricedCall{kind,
                    isBf16,
                    images[0],
                    images[1],
                    results[1],
                    window.back(),
                    w.strides[0],
                    std::max(images[2], images[3]),
                    window.size() == 5 ? window[0] : 1};
}

/// What an implementation is worth. The library (2.6) chooses the blocks of brgconv by the number of threads and sums in their order:
/// others that are as fast are taken first.
static double worthOf(const Rate &rate) {
  constexpr double sumsByThreads = 0.97;
  return rate.gigaflops * (rate.implementation.starts_with("brgconv") ? sumsByThreads : 1);
}

/// Of the implementations from `first` on that are not refused and work in the caller's scratch the one that is worth most, by the prices.
/// It is the same one for the layouts that it asks for as for free ones.
template <typename Descriptor>
static Descriptor fastest(
    const Descriptor &first, const std::optional<PricedCall> &call,
    const std::function<bool(const char *)> &isRefused = [](const char *) { return false; }) {
  const Descriptor usual = preferPlanned(firstOf(first, isRefused));
  if (!call)
    return usual;
  auto named = [&](std::string_view name) -> std::optional<Descriptor> {
    Descriptor found =
        firstOf(first, [name](const char *implementation) { return name != implementation; });
    return name == found.impl_info_str() ? std::optional(std::move(found)) : std::nullopt;
  };
  if (const char *wanted = ImplementationScope::wanted(call->kind))
    return named(wanted).value_or(usual);
  std::vector<Rate> rates = ratesOf(*call);
  std::ranges::stable_sort(rates, std::greater(), worthOf);
  for (const Rate &rate : rates)
    if (std::optional<Descriptor> found = named(rate.implementation);
        found && !isRefused(found->impl_info_str()))
      return *found;
  return usual;
}

DescFields fieldsOf(const Desc &desc) {
  const dnnl_memory_desc_t &md = desc.data;
  DescFields fields{
      {md.dims, md.dims + md.ndims}, {md.padded_dims, md.padded_dims + md.ndims}, {}, {}};
  if (md.format_kind != dnnl_blocked)
    return fields;
  const dnnl_blocking_desc_t &blocking = md.format_desc.blocking;
  fields.strides.assign(blocking.strides, blocking.strides + md.ndims);
  for (int i = 0; i < blocking.inner_nblks; ++i)
    fields.blocks.emplace_back(blocking.inner_idxs[i], blocking.inner_blks[i]);
  fields.isPlaced = md.offset0 == 0 && md.extra.flags == dnnl_memory_extra_flag_none &&
                    std::all_of(md.padded_offsets, md.padded_offsets + md.ndims,
                                [](int64_t offset) { return offset == 0; });
  return fields;
}

dnnl::memory::data_type elementType(const Desc &desc) { return desc.data_type(); }

Desc blockedDesc(dnnl::memory::data_type type, const Dims &dims, const Dims &strides,
                 const Blocks &blocks) {
  dnnl_memory_desc_t md{};
  md.ndims = static_cast<int>(dims.size());
  md.data_type = dnnl::memory::convert_to_c(type);
  md.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t &blocking = md.format_desc.blocking;
  std::vector<int64_t> blockOf(dims.size(), 1);
  blocking.inner_nblks = static_cast<int>(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::tie(blocking.inner_idxs[i], blocking.inner_blks[i]) = blocks[i];
    blockOf[blocks[i].first] *= blocks[i].second;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    md.dims[i] = dims[i];
    md.padded_dims[i] = alignUp(dims[i], blockOf[i]);
    blocking.strides[i] = strides[i];
  }
  return Desc(md);
}

Desc withElements(const Desc &desc, dnnl::memory::data_type type) {
  Desc other = desc;
  other.data.data_type = dnnl::memory::convert_to_c(type);
  return other;
}

dnnl::convolution_forward::primitive_desc describeConvolution(const Desc &src, const Desc &weights,
                                                              const Desc *bias, const Desc &dst,
                                                              const WindowDims &w) {
  using Forward = dnnl::convolution_forward;
  constexpr auto kind = dnnl::prop_kind::forward_training;
  const Forward::desc desc = bias ? Forward::desc(kind, direct, src, weights, *bias, dst, w.strides,
                                                  w.dilates, w.padBegin, w.padEnd)
                                  : Forward::desc(kind, direct, src, weights, dst, w.strides,
                                                  w.dilates, w.padBegin, w.padEnd);
  return fastest(Forward::primitive_desc(desc, callAttributes(), cpuEngine()),
                 pricedCall(ConvolutionKind::Forward, src, weights, dst, w));
}

dnnl::convolution_backward_data::primitive_desc
describeGradInput(const Desc &diffSrc, const Desc &weights, const Desc &diffDst,
                  const WindowDims &w, const dnnl::convolution_forward::primitive_desc &hint) {
  using Backward = dnnl::convolution_backward_data;
  const Backward::desc desc(direct, diffSrc, weights, diffDst, w.strides, w.dilates, w.padBegin,
                            w.padEnd);
  return fastest(Backward::primitive_desc(desc, callAttributes(), cpuEngine(), hint),
                 pricedCall(ConvolutionKind::GradInput, diffSrc, weights, diffDst, w));
}

dnnl::convolution_backward_weights::primitive_desc
describeGradWeight(const Desc &src, const Desc &diffWeights, const Desc &diffDst,
                   const WindowDims &w, const dnnl::convolution_forward::primitive_desc &hint,
                   const std::function<bool(const char *)> &isRefused) {
  using Backward = dnnl::convolution_backward_weights;
  const Backward::desc desc(direct, src, diffWeights, diffDst, w.strides, w.dilates, w.padBegin,
                            w.padEnd);
  return fastest(Backward::primitive_desc(desc, callAttributes(), cpuEngine(), hint),
                 pricedCall(ConvolutionKind::GradWeight, src, diffWeights, diffDst, w), isRefused);
}

dnnl::matmul::primitive_desc describeProduct(const Desc &a, const Desc &b, const Desc *bias,
                                             const Desc &dst,
                                             const dnnl::primitive_attr &attributes) {
  using Product = dnnl::matmul;
  const Product::desc desc = bias ? Product::desc(a, b, *bias, dst) : Product::desc(a, b, dst);
  return preferPlanned(Product::primitive_desc(desc, attributes, cpuEngine()));
}

dnnl::batch_normalization_forward::primitive_desc
describeBatchNorm(dnnl::prop_kind kind, const Desc &data, float epsilon,
                  dnnl::normalization_flags flags) {
  using Forward = dnnl::batch_normalization_forward;
  const Forward::desc desc(kind, data, epsilon, flags);
  return preferPlanned(Forward::primitive_desc(desc, callAttributes(), cpuEngine()));
}

dnnl::batch_normalization_backward::primitive_desc
describeBatchNormGrad(const Desc &diffData, const Desc &data, float epsilon,
                      dnnl::normalization_flags flags,
                      const dnnl::batch_normalization_forward::primitive_desc &hint) {
  using Backward = dnnl::batch_normalization_backward;
  const Backward::desc desc(dnnl::prop_kind::backward, diffData, data, epsilon, flags);
  return preferPlanned(Backward::primitive_desc(desc, callAttributes(), cpuEngine(), hint));
}

PoolForward::primitive_desc describePool(dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                         const Desc &src, const Desc &dst, const Dims &kernel,
                                         const WindowDims &w) {
  const PoolForward::desc desc(kind, algorithm, src, dst, w.strides, kernel, w.dilates, w.padBegin,
                               w.padEnd);
  return preferPlanned(PoolForward::primitive_desc(desc, callAttributes(), cpuEngine()));
}

PoolBackward::primitive_desc describePoolGrad(dnnl::algorithm algorithm, const Desc &diffSrc,
                                              const Desc &diffDst, const Dims &kernel,
                                              const WindowDims &w,
                                              const PoolForward::primitive_desc &hint) {
  const PoolBackward::desc desc(algorithm, diffSrc, diffDst, w.strides, kernel, w.dilates,
                                w.padBegin, w.padEnd);
  return preferPlanned(PoolBackward::primitive_desc(desc, callAttributes(), cpuEngine(), hint));
}

} // namespace stow::host
