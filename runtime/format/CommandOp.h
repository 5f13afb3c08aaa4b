// What a command of a program launches: a generated kernel, something of the runtime's own, or a call of a device's library.
// This is the contract between code generation and the runtimes; runtime/host/Library.h says how the host's calls
// are run and what to ask for, runtime/cuda what the GPUs' libraries take.
//
// Each names its operands in order. Layouts are those of the operands; implementations are
// chosen from them, never converted behind the plan's back: a missing conversion is an error.
//
//   op                           operands (in, then out)              ints; floats
//   kernel                       as the kernel takes them             [shared_bytes], which a GPU's launch gives a block
//   sequence                     all that its parts read and write
//   product_map                  runtime/host/loops/ProductRows.h
//   copy_out, copy_in, await_copy  runtime/format/SlowCopies.h
//   all_reduce                   x, y; both f32, of one layout         ranks
//   reduce_scatter, shard        x, y; f32, y a shard of x             ranks
//   all_gather                   a shard, [the old value], y; f32      ranks
//                                these, but shard, with [exchange]: only started, the graph's number so many;
//                                all_reduce with [with_next]: exchanged together with the next collective, such a sum
//   await_ranks                  what that makes                       exchange
//   dnnl.convolution             src, weights, [bias], dst            (1)
//   dnnl.convolution_grad_input  diff_dst, weights, diff_src          (1)
//   dnnl.convolution_grad_weight src, diff_dst, diff_weights          (1)
//   dnnl.matmul                  a, b, [bias], dst                    transpose_a transpose_b [piece]
//   dnnl.matmul_add              a, b, dst, to which it is added      transpose_a transpose_b
//   dnnl.coded_matmul            a, codes of b, dst                   scheme (Quantization) transpose_b
//   dnnl.max_pool                src, dst, indices                    (2)
//   dnnl.max_pool_grad           diff_dst, indices, diff_src          (2)
//   dnnl.max_pool_inference      src, dst                             (2)
//   dnnl.avg_pool                src, dst                             (2) count_include_pad
//   dnnl.avg_pool_grad           diff_dst, diff_src                   (2) count_include_pad
//   dnnl.batch_norm              src, scale, shift, dst, mean, variance       ; epsilon
//   dnnl.batch_norm_statistics   src, scale, mean, variance, slope            ; epsilon
//   dnnl.batch_norm_inference    src, scale, shift, mean, variance, dst       ; epsilon
//   dnnl.batch_norm_grad         src, mean, variance, scale, diff_dst,
//                                diff_src, diff_scale, diff_shift             ; epsilon
//   dnnl.batch_norm_max_pool     src, scale, shift, dst, indices,
//                                mean, variance                       (2); epsilon
//   dnnl.batch_norm_max_pool_grad
//                                src, mean, variance, scale, diff_dst, indices,
//                                diff_src, diff_scale, diff_shift     (2); epsilon
//   dnnl.reorder                 src, dst
//   dnnl.attention               q, k, v, [mask], [query_documents,
//                                key_documents], [seed], y, lse          (3)
//   dnnl.attention_gradient      q, k, v, y, lse, dy, [mask],
//                                [query_documents, key_documents], [seed],
//                                dq, dk, dv                              (3)
//   cuda.convolution, cuda.convolution_grad_input, cuda.convolution_grad_weight
//                                as of dnnl., no bias                 (1) and the engine (runtime/cuda/ConvolutionPlan.h)
//   cuda.convolution_epilogue    src, weights, [added], bias, dst     (1) and these of the engine and the epilogue
//   cuda.matmul                  a, b, [bias], dst                    transpose_a transpose_b [tf32]
//   cuda.matmul_add              a, b, added, dst                     transpose_a transpose_b [tf32]
//   cuda.matmul_epilogue         a, b, what the epilogue reads, dst   transpose_a transpose_b [tf32]
//                                                                     and the epilogue (runtime/cuda/ProductEpilogue.h)
//
//   (1) strides, pads, dilations, groups, has_bias     (2) kernel, strides, pads, dilations
//   (3) has_mask has_documents has_seed [diagonal] [window] zero_rows stream; scale ratio
//
// dilations: 1 = dense, as ONNX counts. pads: all begins, then all ends, one per spatial dimension;
// strides, dilations and kernel likewise, so that the spatial rank (1 to 3) follows the operands.
// Output extents must equal floor((in + pads - extent) / stride) + 1: a ceil-mode pool is expressed
// by larger end pads. "variance" is the biased batch variance. The tensor "indices" is opaque bytes
// (u8, one dimension) that only the matching grad reads; the grad must have the layouts of its
// forward call. has_bias (0/1) tells whether the bracketed operand is present (convolution and
// matmul); it may be left out, the number of operands says the same.
//
// Convolution weights are [O, I/g, kh, kw]; with groups > 1 their layout either has groups = g
// (five dimensions) or is row-major, which is the same bytes. Matmul works on the last two
// dimensions; leading ones are equal, 1, or missing on one side. transpose_a and transpose_b say
// how operands are stored; layouts are those of the stored tensor.
#pragma once

#include <cstdint>
#include <string_view>

namespace stow {

enum class CommandOp : uint8_t {
  Kernel,
  Sequence,   ///< its parts, kernels and calls, one after the other
  ProductMap, ///< a product whose rows kernels use up (runtime/host/loops/ProductRows.h)
  CopyOut,    ///< to slow memory; it and the next two: runtime/format/SlowCopies.h
  CopyIn,
  AwaitCopy,
  AllReduce, ///< with all other ranks, as the others but Shard (runtime/ranks/Ranks.h)
  ReduceScatter,
  Shard,
  AllGather,
  AwaitRanks, ///< waits for a collective that was started
  DnnlConvolution,
  DnnlConvolutionGradInput,
  DnnlConvolutionGradWeight,
  DnnlMatmul,
  DnnlMatmulAdd,
  DnnlCodedMatmul,
  DnnlMaxPool,
  DnnlMaxPoolGrad,
  DnnlMaxPoolInference,
  DnnlAvgPool,
  DnnlAvgPoolGrad,
  DnnlBatchNorm,
  DnnlBatchNormStatistics,
  DnnlBatchNormInference,
  DnnlBatchNormGrad,
  DnnlBatchNormMaxPool,
  DnnlBatchNormMaxPoolGrad,
  DnnlReorder,
  DnnlAttention,
  DnnlAttentionGradient,
  CudaConvolution,
  CudaConvolutionGradInput,
  CudaConvolutionGradWeight,
  CudaConvolutionEpilogue,
  CudaMatmul,
  CudaMatmulAdd,
  CudaMatmulEpilogue,
};

std::string_view nameOf(CommandOp op); ///< "kernel", "dnnl.matmul", ...
/// Throws Error(BadInput) with the known names.
CommandOp parseCommandOp(std::string_view name);

/// Whether a command is one of ranks together, or about the shard of one.
bool isOfRanks(CommandOp op);

} // namespace stow
