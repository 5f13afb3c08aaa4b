// Convolution of any spatial rank, dense, grouped and depthwise, and its two gradients.
//
// Weights are seen as [g, O/g, I/g, spatial] when groups > 1; row-major weights of shape
// [O, I/g, spatial] are the same bytes and need no reorder.
#include "runtime/host/ConvolutionGeometry.h"
#include "runtime/host/GradWeightParts.h"

#include "runtime/base/Concat.h"

#include <algorithm>
#include <string_view>

namespace stow::host {

ConvolutionGeometry convolutionGeometry(const Call &call, size_t input, size_t weights,
                                        size_t output) {
  size_t rank = call.shape(input).size();
  if (rank < 3)
    call.fail(call.describe(input) + " must have at least 3 dimensions");
  call.requireRank(weights, rank);
  call.requireRank(output, rank);
  size_t spatial = rank - 2;
  ConvolutionGeometry geometry;
  geometry.groups = call.integerOr("groups", 1);
  geometry.strides = call.ints("strides", spatial);
  geometry.dilates = call.ints("dilations", spatial);
  std::vector<int64_t> pads = call.ints("pads", 2 * spatial);
  geometry.padBegin.assign(pads.begin(), pads.begin() + spatial);
  geometry.padEnd.assign(pads.begin() + spatial, pads.end());
  const Shape &in = call.shape(input), &kernel = call.shape(weights), &out = call.shape(output);
  int64_t groups = geometry.groups;
  if (groups < 1 || kernel[0] % groups != 0 || in[1] != kernel[1] * groups || out[1] != kernel[0] ||
      in[0] != out[0])
    call.fail(concat("shapes do not form a convolution with groups = ", groups, ": ",
                     call.describe(input), ", ", call.describe(weights), ", ",
                     call.describe(output)));
  for (size_t i = 0; i < spatial; ++i) {
    int64_t extent = (kernel[i + 2] - 1) * geometry.dilates[i] + 1;
    int64_t padded = in[i + 2] + geometry.padBegin[i] + geometry.padEnd[i];
    if (geometry.strides[i] < 1 || geometry.dilates[i] < 1 || padded < extent ||
        (padded - extent) / geometry.strides[i] + 1 != out[i + 2])
      call.fail(concat("output extent ", out[i + 2], " of spatial dimension ", i,
                       " does not follow from strides, pads and dilations"));
    // The library tries every width of a block, and counts in 32 bits.
    constexpr int64_t most = int64_t(1) << 24;
    if (out[i + 2] > most)
      call.fail(concat("output extent ", out[i + 2], " of spatial dimension ", i,
                       "; the library takes at most ", most, ": cut the input in pieces"));
    --geometry.dilates[i]; // 0 is dense to oneDNN, 1 to ONNX
  }
  return geometry;
}

namespace {

using Geometry = ConvolutionGeometry;

/// Splits the first dimension of weights [O, I/g, spatial] by groups.
dnnl::memory::desc weightsDesc(const Call &call, size_t index, int64_t groups) {
  const Operand &weights = call.operand(index);
  if (groups == 1) {
    if (!call.isAny(index) && weights.layout.groups > 1)
      call.fail(call.describe(index) + " is laid out in groups, but groups = 1");
    return call.desc(index);
  }
  Layout grouped;
  grouped.groups = groups;
  Shape dims = layoutDims(grouped, weights.shape);
  if (call.isAny(index))
    return anyDesc(weights.dtype, dims);
  if (weights.layout.groups == groups)
    return call.desc(index);
  if (weights.layout.groups > 1)
    call.fail(concat(call.describe(index), " is laid out in ", weights.layout.groups,
                     " groups, but groups = ", groups));
  return call.choose([&] { return call.desc(index).reshape(dims); });
}

/// True for implementations of a weight gradient that write beyond their scratch. Windows of one
/// element with strides are gathered there first, a whole vector of channels each, and the library
/// (2.6) books less for counts that no vector divides: with 3 channels it gave other results in
/// every run and overwrote what lay behind.
bool overrunsScratch(const char *implementation, int64_t channels, const Geometry &g) {
  const bool isStrided =
      std::any_of(g.strides.begin(), g.strides.end(), [](int64_t s) { return s > 1; });
  constexpr int64_t widestVector = 16;
  return isStrided && channels % widestVector != 0 &&
         std::string_view(implementation).find("1x1") != std::string_view::npos;
}

/// True where a pixel of the result sees one pixel, its own.
bool isPointwise(const Shape &weights, const Geometry &g) {
  auto isOne = [](int64_t number) { return number == 1; };
  auto isZero = [](int64_t number) { return number == 0; };
  return std::all_of(weights.begin() + 2, weights.end(), isOne) &&
         std::ranges::all_of(g.strides, isOne) && std::ranges::all_of(g.padBegin, isZero) &&
         std::ranges::all_of(g.padEnd, isZero);
}

WindowDims windowsOf(const Geometry &g) { return {g.strides, g.dilates, g.padBegin, g.padEnd}; }

/// The hint that backward descriptors want: any forward convolution of the same geometry. It has one
/// type throughout, that of the gradient it is given: results of bf16 gradients may be f32.
dnnl::convolution_forward::primitive_desc forwardHint(const Call &call, const Geometry &g,
                                                      const dnnl::memory::desc &src,
                                                      const dnnl::memory::desc &weights,
                                                      const dnnl::memory::desc &dst) {
  return call.choose([&] {
    const auto type = elementType(dst);
    return describeConvolution(withElements(src, type), withElements(weights, type), nullptr, dst,
                               windowsOf(g));
  });
}

} // namespace

Preparation prepareConvolution(const Command &command, const std::vector<bool> &anyLayout) {
  bool hasBias = command.operands.size() == 4;
  Call call(command, anyLayout,
            hasBias ? std::vector<std::string>{"src", "weights", "bias", "dst"}
                    : std::vector<std::string>{"src", "weights", "dst"});
  if (call.integerOr("has_bias", hasBias) != hasBias)
    call.fail("has_bias contradicts the number of operands");
  size_t last = hasBias ? 3 : 2;
  Geometry g = convolutionGeometry(call, 0, 1, last);
  dnnl::memory::desc src = call.desc(0), weights = weightsDesc(call, 1, g.groups),
                     dst = call.desc(last);
  std::optional<Argument> bias;
  if (hasBias)
    bias = call.vector(2, DNNL_ARG_BIAS, call.shape(1)[0], call.operand(2).dtype);
  auto chosen = call.choose([&] {
    return describeConvolution(src, weights, bias ? &bias->desc : nullptr, dst, windowsOf(g));
  });
  Preparation result{chosen,
                     {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
                      call.argument(1, DNNL_ARG_WEIGHTS, weights, chosen.weights_desc(), g.groups),
                      call.argument(last, DNNL_ARG_DST, dst, chosen.dst_desc())}};
  if (bias)
    result.arguments.push_back(*bias);
  return result;
}

Preparation prepareConvolutionGradInput(const Command &command,
                                        const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"diff_dst", "weights", "diff_src"});
  Geometry g = convolutionGeometry(call, 2, 1, 0);
  dnnl::memory::desc diffDst = call.desc(0), weights = weightsDesc(call, 1, g.groups),
                     diffSrc = call.desc(2);
  auto hint = forwardHint(call, g, diffSrc, weights, diffDst);
  auto chosen =
      call.choose([&] { return describeGradInput(diffSrc, weights, diffDst, windowsOf(g), hint); });
  return {chosen,
          {call.argument(0, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
           call.argument(1, DNNL_ARG_WEIGHTS, weights, chosen.weights_desc(), g.groups),
           call.argument(2, DNNL_ARG_DIFF_SRC, diffSrc, chosen.diff_src_desc())}};
}

Preparation prepareConvolutionGradWeight(const Command &command,
                                         const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "diff_dst", "diff_weights"});
  Geometry g = convolutionGeometry(call, 0, 2, 1);
  dnnl::memory::desc src = call.desc(0), diffDst = call.desc(1),
                     diffWeights = weightsDesc(call, 2, g.groups);
  auto make = [&](const dnnl::memory::desc &x, const dnnl::memory::desc &dy,
                  const dnnl::memory::desc &dw) {
    auto hint = forwardHint(call, g, x, dw, dy);
    auto overruns = [&](const char *implementation) {
      return overrunsScratch(implementation, call.shape(0)[1] / g.groups, g);
    };
    auto made =
        call.choose([&] { return describeGradWeight(x, dw, dy, windowsOf(g), hint, overruns); });
    if (overruns(made.impl_info_str()))
      call.fail("no implementation of the library works within its scratch");
    return made;
  };
  const auto chosen = make(src, diffDst, diffWeights);
  Preparation result{
      chosen,
      {call.argument(0, DNNL_ARG_SRC, src, chosen.src_desc()),
       call.argument(1, DNNL_ARG_DIFF_DST, diffDst, chosen.diff_dst_desc()),
       call.argument(2, DNNL_ARG_DIFF_WEIGHTS, diffWeights, chosen.diff_weights_desc(), g.groups)}};
  keepSums(result, g.groups, isPointwise(call.shape(2), g), make);
  return result;
}

} // namespace stow::host
