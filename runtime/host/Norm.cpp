// Batch normalization over all but the channel dimension. Scale, shift and statistics are f32
// vectors whatever the data's element type. Training runs in loops of our own, whose statistics are
// more accurate (BatchNormLoops.h).
#include "runtime/host/Float16.h"
#include "runtime/host/Primitive.h"
#include "runtime/host/loops/BatchNormLoops.h"

namespace stow::host {

namespace {

using Flags = dnnl::normalization_flags;
using BatchNorm = dnnl::batch_normalization_forward;

const Flags scaleShift = Flags::use_scale | Flags::use_shift;

void requireSameShape(const Call &call, size_t a, size_t b) {
  if (call.shape(a) != call.shape(b))
    call.fail("shapes differ: " + call.describe(a) + ", " + call.describe(b));
}

/// The library's own code wants one type.
void requireSameType(const Call &call, size_t a, size_t b) {
  if (call.operand(a).dtype != call.operand(b).dtype)
    call.fail("element types differ in a layout that only the library's code takes: " +
              call.describe(a) + ", " + call.describe(b) + "; put a dnnl.reorder before the call");
}

int64_t channelsOf(const Call &call, size_t index) {
  if (call.shape(index).size() < 2)
    call.fail(call.describe(index) + " must have at least 2 dimensions");
  return call.shape(index)[1];
}

BatchNorm::primitive_desc batchNormForward(const Call &call, dnnl::prop_kind kind,
                                           const dnnl::memory::desc &data, Flags flags) {
  return call.choose([&] {
    return describeBatchNorm(kind, data, static_cast<float>(call.number("epsilon")), flags);
  });
}

/// Where the channels of operand `index` lie, when the loops take it and it has the layout of the
/// others. A free layout is the library's choice in f32; 16-bit tensors take that of the others.
std::optional<ChannelSpace> channelSpace(const Call &call, size_t index,
                                         std::initializer_list<size_t> others) {
  const Operand &data = call.operand(index);
  std::optional<Layout> layout;
  if (!call.isAny(index))
    layout = data.layout;
  bool isF32 = data.dtype == DType::F32, isFloat = isF32 || is16Bit(data.dtype);
  for (size_t other : others) {
    const Operand &operand = call.operand(other);
    isF32 &= operand.dtype == DType::F32;
    isFloat &= operand.dtype == DType::F32 || is16Bit(operand.dtype);
    if (!call.isAny(other) && layout.value_or(operand.layout) != operand.layout)
      return std::nullopt;
    if (!call.isAny(other))
      layout = operand.layout;
  }
  if (!isFloat || !layout || (isF32 && call.isAny(index)))
    return std::nullopt;
  return ChannelSpace::of(data.shape, *layout);
}

float *floats(char *address) { return reinterpret_cast<float *>(address); }

const char *loopsName() {
  static const std::string name = std::string("stow_batch_norm:") + batchNormInstructions();
  return name.c_str();
}

} // namespace

Preparation prepareBatchNorm(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "shift", "dst", "mean", "variance"});
  requireSameShape(call, 0, 3);
  int64_t channels = channelsOf(call, 0);
  dnnl::memory::desc src = call.descLike(0, 3), dst = call.descLike(3, 0);
  auto arguments = [&](const dnnl::memory::desc &from, const dnnl::memory::desc &to) {
    return std::vector<Argument>{
        call.argument(0, DNNL_ARG_SRC, src, from), call.vector(1, DNNL_ARG_SCALE, channels),
        call.vector(2, DNNL_ARG_SHIFT, channels),  call.argument(3, DNNL_ARG_DST, dst, to),
        call.vector(4, DNNL_ARG_MEAN, channels),   call.vector(5, DNNL_ARG_VARIANCE, channels)};
  };
  if (auto space = channelSpace(call, 0, {3})) {
    auto run = [space = *space, epsilon = call.number("epsilon"), x = call.operand(0).dtype,
                y = call.operand(3).dtype](const std::vector<char *> &at, char *scratch,
                                           int64_t threads) {
      normalizeBatch({space, epsilon, scratch, threads}, {x, at[0]}, floats(at[1]), floats(at[2]),
                     {y, at[3]}, floats(at[4]), floats(at[5]));
    };
    return {{}, arguments(src, dst), Loops{loopsName(), space->scratchBytes(), run}};
  }
  requireSameType(call, 0, 3);
  auto chosen = batchNormForward(call, dnnl::prop_kind::forward_training, src, scaleShift);
  return {chosen, arguments(chosen.src_desc(), chosen.dst_desc())};
}

Preparation prepareBatchNormStatistics(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "mean", "variance", "slope"});
  const int64_t channels = channelsOf(call, 0);
  const std::optional<ChannelSpace> space = channelSpace(call, 0, {});
  if (!space)
    call.fail(call.describe(0) + " must be f32 or 16 bits, without gaps");
  auto run = [space = *space, channels, epsilon = call.number("epsilon"),
              x = call.operand(0).dtype](const std::vector<char *> &at, char *scratch,
                                         int64_t threads) {
    const ChannelLines lines =
        batchStatistics({space, epsilon, scratch, threads}, {x, at[0]}, floats(at[1]), nullptr,
                        floats(at[2]), floats(at[3]));
    std::copy_n(lines.slope, channels, floats(at[4]));
  };
  const dnnl::memory::desc src = call.desc(0);
  std::vector<Argument> arguments = {call.argument(0, DNNL_ARG_SRC, src, src)};
  for (size_t vector = 1; vector <= 4; ++vector)
    arguments.push_back(call.vector(vector, 0, channels));
  return {{}, arguments, Loops{loopsName(), space->scratchBytes(), run}};
}

Preparation prepareBatchNormInference(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "scale", "shift", "mean", "variance", "dst"});
  requireSameShape(call, 0, 5);
  requireSameType(call, 0, 5);
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
  auto arguments = [&](const dnnl::memory::desc &chosenSrc, const dnnl::memory::desc &chosenDst,
                       const dnnl::memory::desc &chosenDiff) {
    return std::vector<Argument>{
        call.argument(0, DNNL_ARG_SRC, src, chosenSrc), call.vector(1, DNNL_ARG_MEAN, channels),
        call.vector(2, DNNL_ARG_VARIANCE, channels), call.vector(3, DNNL_ARG_SCALE, channels),
        // oneDNN 2.6 demands the shift although no gradient depends on it: any vector will do.
        call.vector(3, DNNL_ARG_SHIFT, channels),
        call.argument(4, DNNL_ARG_DIFF_DST, diffDst, chosenDst),
        call.argument(5, DNNL_ARG_DIFF_SRC, diffSrc, chosenDiff),
        call.vector(6, DNNL_ARG_DIFF_SCALE, channels),
        call.vector(7, DNNL_ARG_DIFF_SHIFT, channels)};
  };
  if (auto space = channelSpace(call, 0, {4, 5})) {
    auto run = [space = *space, epsilon = call.number("epsilon"), x = call.operand(0).dtype,
                dy = call.operand(4).dtype, dx = call.operand(5).dtype](
                   const std::vector<char *> &at, char *scratch, int64_t threads) {
      normalizeBatchGrad({space, epsilon, scratch, threads}, {x, at[0]},
                         {floats(at[1]), floats(at[2]), floats(at[3])}, {dy, at[5]}, {dx, at[6]},
                         floats(at[7]), floats(at[8]));
    };
    return {{}, arguments(src, diffDst, diffSrc), Loops{loopsName(), space->scratchBytes(), run}};
  }
  requireSameType(call, 0, 4);
  requireSameType(call, 0, 5);
  if (diffDst != diffSrc)
    call.fail("layouts differ: " + call.describe(4) + ", " + call.describe(5));
  auto hint = batchNormForward(call, dnnl::prop_kind::forward_training, src, scaleShift);
  auto chosen = call.choose([&] {
    return describeBatchNormGrad(diffDst, src, static_cast<float>(call.number("epsilon")),
                                 scaleShift, hint);
  });
  return {chosen, arguments(chosen.src_desc(), chosen.diff_dst_desc(), chosen.diff_src_desc())};
}

} // namespace stow::host
