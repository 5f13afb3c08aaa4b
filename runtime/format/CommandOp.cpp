#include "runtime/format/CommandOp.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace stow {

namespace {

constexpr std::pair<CommandOp, std::string_view> table[] = {
    {CommandOp::Kernel, "kernel"},
    {CommandOp::Sequence, "sequence"},
    {CommandOp::ProductMap, "product_map"},
    {CommandOp::CopyOut, "copy_out"},
    {CommandOp::CopyIn, "copy_in"},
    {CommandOp::AwaitCopy, "await_copy"},
    {CommandOp::AllReduce, "all_reduce"},
    {CommandOp::ReduceScatter, "reduce_scatter"},
    {CommandOp::Shard, "shard"},
    {CommandOp::AllGather, "all_gather"},
    {CommandOp::AwaitRanks, "await_ranks"},
    {CommandOp::DnnlConvolution, "dnnl.convolution"},
    {CommandOp::DnnlConvolutionGradInput, "dnnl.convolution_grad_input"},
    {CommandOp::DnnlConvolutionGradWeight, "dnnl.convolution_grad_weight"},
    {CommandOp::DnnlMatmul, "dnnl.matmul"},
    {CommandOp::DnnlMatmulAdd, "dnnl.matmul_add"},
    {CommandOp::DnnlCodedMatmul, "dnnl.coded_matmul"},
    {CommandOp::DnnlMaxPool, "dnnl.max_pool"},
    {CommandOp::DnnlMaxPoolGrad, "dnnl.max_pool_grad"},
    {CommandOp::DnnlMaxPoolInference, "dnnl.max_pool_inference"},
    {CommandOp::DnnlAvgPool, "dnnl.avg_pool"},
    {CommandOp::DnnlAvgPoolGrad, "dnnl.avg_pool_grad"},
    {CommandOp::DnnlBatchNorm, "dnnl.batch_norm"},
    {CommandOp::DnnlBatchNormStatistics, "dnnl.batch_norm_statistics"},
    {CommandOp::DnnlBatchNormInference, "dnnl.batch_norm_inference"},
    {CommandOp::DnnlBatchNormGrad, "dnnl.batch_norm_grad"},
    {CommandOp::DnnlBatchNormMaxPool, "dnnl.batch_norm_max_pool"},
    {CommandOp::DnnlBatchNormMaxPoolGrad, "dnnl.batch_norm_max_pool_grad"},
    {CommandOp::DnnlReorder, "dnnl.reorder"},
    {CommandOp::DnnlAttention, "dnnl.attention"},
    {CommandOp::DnnlAttentionGradient, "dnnl.attention_gradient"},
    {CommandOp::CudaConvolution, "cuda.convolution"},
    {CommandOp::CudaConvolutionGradInput, "cuda.convolution_grad_input"},
    {CommandOp::CudaConvolutionGradWeight, "cuda.convolution_grad_weight"},
    {CommandOp::CudaConvolutionEpilogue, "cuda.convolution_epilogue"},
    {CommandOp::CudaMatmul, "cuda.matmul"},
    {CommandOp::CudaMatmulAdd, "cuda.matmul_add"},
    {CommandOp::CudaMatmulEpilogue, "cuda.matmul_epilogue"},
};

/// A row is where its op is in the enumeration.
constexpr bool isInOrder() {
  for (size_t i = 0; i < std::size(table); ++i)
    if (static_cast<size_t>(table[i].first) != i)
      return false;
  return true;
}
static_assert(isInOrder());

} // namespace

std::string_view nameOf(CommandOp op) { return table[static_cast<size_t>(op)].second; }

CommandOp parseCommandOp(std::string_view name) {
  const auto found =
      std::ranges::find(table, name, &std::pair<CommandOp, std::string_view>::second);
  if (found == std::end(table))
    throw Error::badInput(concat("unknown command '", name, "'; expected one of ",
                                 joined(table | std::views::values, ", ")));
  return found->first;
}

bool isOfRanks(CommandOp op) {
  return op == CommandOp::AllReduce || op == CommandOp::ReduceScatter || op == CommandOp::Shard ||
         op == CommandOp::AllGather || op == CommandOp::AwaitRanks;
}

} // namespace stow
