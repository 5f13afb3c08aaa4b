// Max and average pooling, and their gradients.
//
// Max pooling for training writes the winner's position inside each window into the opaque operand
// "indices" (one byte for windows of up to 256 elements). Its order follows the layout of the
// forward call, so the gradient must use the same layout; average pooling has no such link.
#include "runtime/host/Pool.h"

#include "runtime/base/Concat.h"

namespace stow::host {

PoolGeometry poolGeometry(const Call &call, size_t input, size_t output) {
  size_t rank = call.shape(input).size();
  if (rank < 3)
    call.fail(call.describe(input) + " must have at least 3 dimensions");
  call.requireRank(output, rank);
  size_t spatial = rank - 2;
  PoolGeometry g;
  g.kernel = call.ints("kernel", spatial);
  g.strides = call.ints("strides", spatial);
  g.dilates = call.ints("dilations", spatial);
  std::vector<int64_t> pads = call.ints("pads", 2 * spatial);
  g.padBegin.assign(pads.begin(), pads.begin() + spatial);
  g.padEnd.assign(pads.begin() + spatial, pads.end());
  const Shape &in = call.shape(input), &out = call.shape(output);
  if (in[0] != out[0] || in[1] != out[1])
    call.fail("batch or channels differ: " + call.describe(input) + ", " + call.describe(output));
  for (size_t i = 0; i < spatial; ++i) {
    int64_t extent = (g.kernel[i] - 1) * g.dilates[i] + 1;
    int64_t padded = in[i + 2] + g.padBegin[i] + g.padEnd[i];
    if (g.strides[i] < 1 || g.dilates[i] < 1 || padded < extent ||
        (padded - extent) / g.strides[i] + 1 != out[i + 2])
      call.fail(concat("output extent ", out[i + 2], " of spatial dimension ", i,
                       " does not follow from kernel, strides, pads and dilations"));
    --g.dilates[i]; // 0 is dense to oneDNN, 1 to ONNX
  }
  return g;
}

namespace {

WindowDims windowsOf(const PoolGeometry &g) { return {g.strides, g.dilates, g.padBegin, g.padEnd}; }

PoolForward::primitive_desc forward(const Call &call, dnnl::prop_kind kind,
                                    dnnl::algorithm algorithm, const PoolGeometry &g,
                                    const dnnl::memory::desc &src, const dnnl::memory::desc &dst) {
  return call.choose(
      [&] { return describePool(kind, algorithm, src, dst, g.kernel, windowsOf(g)); });
}

PoolBackward::primitive_desc backward(const Call &call, dnnl::algorithm algorithm,
                                      const PoolGeometry &g, const dnnl::memory::desc &diffSrc,
                                      const dnnl::memory::desc &diffDst) {
  auto hint = forward(call, dnnl::prop_kind::forward_training, algorithm, g, diffSrc, diffDst);
  return call.choose(
      [&] { return describePoolGrad(algorithm, diffSrc, diffDst, g.kernel, windowsOf(g), hint); });
}

dnnl::algorithm averageOf(const Call &call) {
  return call.integerOr("count_include_pad", 0) != 0 ? dnnl::algorithm::pooling_avg_include_padding
                                                     : dnnl::algorithm::pooling_avg_exclude_padding;
}

Preparation prepareForward(const Call &call, dnnl::prop_kind kind, dnnl::algorithm algorithm) {
  PoolGeometry g = poolGeometry(call, 0, 1);
  dnnl::memory::desc src = call.descLike(0, 1), dst = call.descLike(1, 0);
  auto chosen = forward(call, kind, algorithm, g, src, dst);
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.argument(1, DNNL_ARG_DST, dst, chosen.dst_desc())}};
}

} // namespace

Preparation prepareMaxPool(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst", "indices"});
  Preparation result =
      prepareForward(call, dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_max);
  result.arguments.push_back(
      call.opaque(2, DNNL_ARG_WORKSPACE, result.descriptor.query_md(dnnl::query::workspace_md)));
  return result;
}

Preparation prepareMaxPoolInference(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst"});
  return prepareForward(call, dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max);
}

Preparation prepareAvgPool(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst"});
  return prepareForward(call, dnnl::prop_kind::forward_training, averageOf(call));
}

Preparation prepareMaxPoolGrad(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"diff_dst", "indices", "diff_src"});
  PoolGeometry g = poolGeometry(call, 2, 0);
  dnnl::memory::desc diffDst = call.descLike(0, 2), diffSrc = call.descLike(2, 0);
  auto chosen = backward(call, dnnl::algorithm::pooling_max, g, diffSrc, diffDst);
  return {chosen,
          {call.argument(0, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
           call.opaque(1, DNNL_ARG_WORKSPACE, chosen.workspace_desc()),
           call.argument(2, DNNL_ARG_DIFF_SRC, diffSrc, chosen.diff_src_desc())}};
}

Preparation prepareAvgPoolGrad(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"diff_dst", "diff_src"});
  PoolGeometry g = poolGeometry(call, 1, 0);
  dnnl::memory::desc diffDst = call.descLike(0, 1), diffSrc = call.descLike(1, 0);
  auto chosen = backward(call, averageOf(call), g, diffSrc, diffDst);
  return {chosen,
          {call.argument(0, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
           call.argument(1, DNNL_ARG_DIFF_SRC, diffSrc, chosen.diff_src_desc())}};
}

} // namespace stow::host
