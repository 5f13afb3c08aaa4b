// Primitive descriptors and what memory descriptors say: the one place that knows how this version of the library makes the former and
// what fields the latter have.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace stow::host {

/// What a memory descriptor says.
struct DescFields {
  dnnl::memory::dims dims, paddedDims, strides;    ///< strides in elements, of whole blocks
  std::vector<std::pair<int64_t, int64_t>> blocks; ///< dimension and size, outermost first
  bool isPlaced =
      false; ///< elements lie where strides and blocks say; not where the library may choose, or packs
};

DescFields fieldsOf(const dnnl::memory::desc &desc);

dnnl::memory::data_type elementType(const dnnl::memory::desc &desc);

/// Elements where strides and blocks say, whole blocks of zeros behind the end.
dnnl::memory::desc blockedDesc(dnnl::memory::data_type type, const dnnl::memory::dims &dims,
                               const dnnl::memory::dims &strides,
                               const std::vector<std::pair<int64_t, int64_t>> &blocks);

/// Of tensors in the layout of `desc`, or where that is free as it: the same with elements of `type`.
dnnl::memory::desc withElements(const dnnl::memory::desc &desc, dnnl::memory::data_type type);

/// A convolution's or pool's windows; dilates are 0 where dense, `kernel` is a pool's.
struct WindowDims {
  const dnnl::memory::dims &strides, &dilates, &padBegin, &padEnd;
};

// All with callAttributes() but where attributes are given, on the host's engine. Of the library's implementations they take the first that works in the
// caller's scratch (preferPlanned in Primitive.h), or for convolutions one that is faster by what was measured (Prices.h); they throw dnnl::error. To make the next implementation the library reads the op's
// description again, so the choice is made here, where that still lives.

dnnl::convolution_forward::primitive_desc describeConvolution(const dnnl::memory::desc &src,
                                                              const dnnl::memory::desc &weights,
                                                              const dnnl::memory::desc *bias,
                                                              const dnnl::memory::desc &dst,
                                                              const WindowDims &windows);
dnnl::convolution_backward_data::primitive_desc
describeGradInput(const dnnl::memory::desc &diffSrc, const dnnl::memory::desc &weights,
                  const dnnl::memory::desc &diffDst, const WindowDims &windows,
                  const dnnl::convolution_forward::primitive_desc &hint);
/// As the others, of the implementations that are not refused, by their names, if there are such.
dnnl::convolution_backward_weights::primitive_desc
describeGradWeight(const dnnl::memory::desc &src, const dnnl::memory::desc &diffWeights,
                   const dnnl::memory::desc &diffDst, const WindowDims &windows,
                   const dnnl::convolution_forward::primitive_desc &hint,
                   const std::function<bool(const char *implementation)> &isRefused);

dnnl::matmul::primitive_desc describeProduct(const dnnl::memory::desc &a,
                                             const dnnl::memory::desc &b,
                                             const dnnl::memory::desc *bias,
                                             const dnnl::memory::desc &dst,
                                             const dnnl::primitive_attr &attributes);

dnnl::batch_normalization_forward::primitive_desc
describeBatchNorm(dnnl::prop_kind kind, const dnnl::memory::desc &data, float epsilon,
                  dnnl::normalization_flags flags);
dnnl::batch_normalization_backward::primitive_desc
describeBatchNormGrad(const dnnl::memory::desc &diffData, const dnnl::memory::desc &data,
                      float epsilon, dnnl::normalization_flags flags,
                      const dnnl::batch_normalization_forward::primitive_desc &hint);

using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;

PoolForward::primitive_desc describePool(dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                         const dnnl::memory::desc &src,
                                         const dnnl::memory::desc &dst,
                                         const dnnl::memory::dims &kernel,
                                         const WindowDims &windows);
PoolBackward::primitive_desc
describePoolGrad(dnnl::algorithm algorithm, const dnnl::memory::desc &diffSrc,
                 const dnnl::memory::desc &diffDst, const dnnl::memory::dims &kernel,
                 const WindowDims &windows, const PoolForward::primitive_desc &hint);

} // namespace stow::host
