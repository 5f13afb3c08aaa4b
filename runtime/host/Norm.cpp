// Batch normalization over all but the channel dimension, and local response normalization across
// channels. Scale, shift and statistics are f32 vectors whatever the data's element type.
#include "runtime/host/Primitive.h"

namespace stow::host {

namespace {

using Flags = dnnl::normalization_flags;
using BatchNorm = dnnl::batch_normalization_forward;
using BatchNormGrad = dnnl::batch_normalization_backward;

const Flags scaleShift = Flags::use_scale | Flags::use_shift;

void requireSameShape(const Call &call, size_t a, size_t b) {
  if (call.shape(a) != call.shape(b) || call.operand(a).dtype != call.operand(b).dtype)
    call.fail("shapes or element types differ: " + call.describe(a) + ", " + call.describe(b));
}

int64_t channelsOf(const Call &call, size_t index) {
  if (call.shape(index).size() < 2)
    call.fail(call.describe(index) + " must have at least 2 dimensions");
  return call.shape(index)[1];
}

BatchNorm::primitive_desc batchNormForward(const Call &call, dnnl::prop_kind kind,
                                           const dnnl::memory::desc &data, Flags flags) {
  return call.choose([&] {
    BatchNorm::desc desc(kind, data, static_cast<float>(call.number("epsilon")), flags);
    return BatchNorm::primitive_desc(desc, callAttributes(), cpuEngine());
  });
}

constexpr auto across = dnnl::algorithm::lrn_across_channels;

dnnl::lrn_forward::primitive_desc lrnForward(const Call &call, dnnl::prop_kind kind,
                                             const dnnl::memory::desc &data) {
  return call.choose([&] {
    dnnl::lrn_forward::desc desc(
        kind, across, data, call.integer("size"), static_cast<float>(call.number("alpha")),
        static_cast<float>(call.number("beta")), static_cast<float>(call.number("k")));
    return dnnl::lrn_forward::primitive_desc(desc, callAttributes(), cpuEngine());
  });
}

} // namespace

Preparation prepareBatchNorm(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "shift", "dst", "mean", "variance"});
  requireSameShape(call, 0, 3);
  int64_t channels = channelsOf(call, 0);
  dnnl::memory::desc src = call.descLike(0, 3), dst = call.descLike(3, 0);
  auto chosen = batchNormForward(call, dnnl::prop_kind::forward_training, src, scaleShift);
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.vector(1, DNNL_ARG_SCALE, channels), call.vector(2, DNNL_ARG_SHIFT, channels),
           call.argument(3, DNNL_ARG_DST, dst, chosen.dst_desc()),
           call.vector(4, DNNL_ARG_MEAN, channels), call.vector(5, DNNL_ARG_VARIANCE, channels)}};
}

Preparation prepareBatchNormInference(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "shift", "mean", "variance", "dst"});
  requireSameShape(call, 0, 5);
  int64_t channels = channelsOf(call, 0);
  dnnl::memory::desc src = call.descLike(0, 5), dst = call.descLike(5, 0);
  auto chosen = batchNormForward(call, dnnl::prop_kind::forward_inference, src,
                                 scaleShift | Flags::use_global_stats);
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.vector(1, DNNL_ARG_SCALE, channels), call.vector(2, DNNL_ARG_SHIFT, channels),
           call.vector(3, DNNL_ARG_MEAN, channels), call.vector(4, DNNL_ARG_VARIANCE, channels),
           call.argument(5, DNNL_ARG_DST, dst, chosen.dst_desc())}};
}

Preparation prepareBatchNormGrad(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(
      command, anyLayout,
      {"src", "mean", "variance", "scale", "diff_dst", "diff_src", "diff_scale", "diff_shift"});
  requireSameShape(call, 0, 4);
  requireSameShape(call, 0, 5);
  int64_t channels = channelsOf(call, 0);
  dnnl::memory::desc src = call.desc(0), diffDst = call.descLike(4, 0),
                     diffSrc = call.descLike(5, 0);
  if (diffDst != diffSrc)
    call.fail("layouts differ: " + call.describe(4) + ", " + call.describe(5));
  auto hint = batchNormForward(call, dnnl::prop_kind::forward_training, src, scaleShift);
  auto chosen = call.choose([&] {
    BatchNormGrad::desc desc(dnnl::prop_kind::backward, diffDst, src,
                             static_cast<float>(call.number("epsilon")), scaleShift);
    return BatchNormGrad::primitive_desc(desc, callAttributes(), cpuEngine(), hint);
  });
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.vector(1, DNNL_ARG_MEAN, channels), call.vector(2, DNNL_ARG_VARIANCE, channels),
           call.vector(3, DNNL_ARG_SCALE, channels),
           // oneDNN 2.6 demands the shift although no gradient depends on it: any vector will do.
           call.vector(3, DNNL_ARG_SHIFT, channels),
           call.argument(4, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
           call.argument(5, DNNL_ARG_DIFF_SRC, diffSrc, chosen.diff_src_desc()),
           call.vector(6, DNNL_ARG_DIFF_SCALE, channels),
           call.vector(7, DNNL_ARG_DIFF_SHIFT, channels)}};
}

Preparation prepareLrn(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst", "workspace"});
  requireSameShape(call, 0, 1);
  dnnl::memory::desc src = call.descLike(0, 1), dst = call.descLike(1, 0);
  auto chosen = lrnForward(call, dnnl::prop_kind::forward_training, src);
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.argument(1, DNNL_ARG_DST, dst, chosen.dst_desc()),
           call.opaque(2, DNNL_ARG_WORKSPACE, chosen.workspace_desc())}};
}

Preparation prepareLrnInference(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst"});
  requireSameShape(call, 0, 1);
  dnnl::memory::desc src = call.descLike(0, 1), dst = call.descLike(1, 0);
  auto chosen = lrnForward(call, dnnl::prop_kind::forward_inference, src);
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.argument(1, DNNL_ARG_DST, dst, chosen.dst_desc())}};
}

Preparation prepareLrnGrad(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "diff_dst", "workspace", "diff_src"});
  requireSameShape(call, 0, 1);
  requireSameShape(call, 0, 3);
  dnnl::memory::desc src = call.desc(0), diffDst = call.descLike(1, 0),
                     diffSrc = call.descLike(3, 0);
  if (diffDst != diffSrc)
    call.fail("layouts differ: " + call.describe(1) + ", " + call.describe(3));
  auto hint = lrnForward(call, dnnl::prop_kind::forward_training, src);
  auto chosen = call.choose([&] {
    dnnl::lrn_backward::desc desc(
        across, src, diffDst, call.integer("size"), static_cast<float>(call.number("alpha")),
        static_cast<float>(call.number("beta")), static_cast<float>(call.number("k")));
    return dnnl::lrn_backward::primitive_desc(desc, callAttributes(), cpuEngine(), hint);
  });
  return {chosen,
          {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
           call.argument(1, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
           call.opaque(2, DNNL_ARG_WORKSPACE, chosen.workspace_desc()),
           call.argument(3, DNNL_ARG_DIFF_SRC, diffSrc, chosen.diff_src_desc())}};
}

} // namespace stow::host
