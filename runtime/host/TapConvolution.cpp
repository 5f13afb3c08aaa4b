// Convolutions as taps: which calls run so, and what the loops of TapLoops.h need of a command.
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/ConvolutionGeometry.h"
#include "runtime/host/Float16.h"
#include "runtime/host/loops/TapLoops.h"
#include "runtime/host/pieces/Box.h"

#include <algorithm>
#include <array>
#include <limits>

namespace stow::host {
namespace {

/// The operands of a call by their positions.
struct Positions {
  size_t x, weights, y;
};

/// True where the library computes this convolution's weight gradient on its matrix product alone.
bool lacksWeightGradient(const Command &command, const Positions &at) {
  Command gradient = command;
  gradient.operands = {command.operands[at.x], command.operands[at.y],
                       command.operands[at.weights]};
  for (Operand &operand : gradient.operands)
    operand.dtype = DType::F32;
  gradient.ints.erase("has_bias");
  try {
    const Preparation found = prepareConvolutionGradWeight(gradient, {false, false, true});
    return usesHeap(found.descriptor.impl_info_str());
  } catch (const Error &) { // the call itself says what is wrong with it
    return false;
  }
}

/// Taps do better where most of the window lies beside the image; then all three calls run so, on weights
/// in one layout. With AVX-512 the library has code of its own for all three, each with a layout of
/// weights that it likes, and takes longer for them (a sixth to half, and the reorders). With less it has none
/// for the weight gradient on small images; where it has, on larger ones, its code and plans stay.
constexpr double mostInside = 0.5;

bool isImage(const Operand &operand) {
  return (operand.dtype == DType::F32 || is16Bit(operand.dtype)) &&
         operand.layout == channelsLastLayout(operand.shape.size());
}

bool runsAsTaps(const Call &call, const Command &command, const Positions &at,
                const TapSpace::Window &window, int64_t groups) {
  const Shape &x = call.shape(at.x), &y = call.shape(at.y);
  const bool liesRight =
      !call.isAny(at.x) && !call.isAny(at.y) && isImage(call.operand(at.x)) &&
      isImage(call.operand(at.y)) &&
      (call.isAny(at.weights) || call.operand(at.weights).layout == tapWeights(x.size()));
  bool areWide = true; // weights and bias
  for (size_t i = 0; i < command.operands.size(); ++i)
    areWide &= i == at.x || i == at.y || command.operands[i].dtype == DType::F32;
  return liesRight && areWide && groups == 1 && x[1] % tapPanel == 0 && y[1] % tapPanel == 0 &&
         std::max(elementCount(x), elementCount(y)) <= std::numeric_limits<int32_t>::max() &&
         TapSpace::share(x, y, window) <= mostInside &&
         (supportsBf16() || lacksWeightGradient(command, at));
}

std::shared_ptr<const TapSpace> spaceOf(const Call &call, const Command &command,
                                        const Positions &at) {
  const ConvolutionGeometry geometry = convolutionGeometry(call, at.x, at.weights, at.y);
  const Shape &weights = call.shape(at.weights);
  TapSpace::Window window{
      {weights.begin() + 2, weights.end()}, geometry.strides, geometry.padBegin, geometry.dilates};
  for (int64_t &dilation : window.dilations)
    ++dilation;
  if (!runsAsTaps(call, command, at, window, geometry.groups))
    return nullptr;
  return std::make_shared<const TapSpace>(call.shape(at.x), call.shape(at.y), window);
}

/// The operands as they lie, in the order of the command; free weights as the loops want them.
std::vector<Argument> argumentsOf(const Call &call, size_t count, const Positions &at) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < count; ++i) {
    const Operand &operand = call.operand(i);
    const Layout layout = i == at.weights ? tapWeights(operand.shape.size()) : operand.layout;
    arguments.push_back({i, 0, descOf(operand.dtype, operand.shape, layout), layout});
  }
  return arguments;
}

float *floats(char *address) { return reinterpret_cast<float *>(address); }

const char *loopsName() {
  static const std::string name = std::string("stow_taps:") + tapInstructions();
  return name.c_str();
}

/// Tensors of a call in its order.
using Tensors = std::array<float *, 4>;

/// A 16-bit image and its place in the scratch, in f32.
struct WideImage {
  size_t operand;
  DType type;
  Box box;
  Bytes place;
};

/// Loops that get all operands in f32: 16-bit images are converted whole, before and after. `own` bytes
/// of the scratch are the loops'.
template <typename Run>
Preparation preparation(const Call &call, const Command &command, const Positions &at, Bytes own,
                        const Run &run) {
  std::vector<WideImage> images;
  Bytes top = own;
  for (size_t i : {at.x, at.y}) {
    const Operand &operand = call.operand(i);
    if (!is16Bit(operand.dtype))
      continue;
    const Bytes place = alignUp(top, 64);
    images.push_back(
        {i, operand.dtype, boxOf(operand, Shape(operand.shape.size()), operand.shape), place});
    top = place + elementCount(operand.shape) * sizeOf(DType::F32);
  }
  const size_t result = command.operands.size() - 1;
  auto converted = [images, result, run](const std::vector<char *> &addresses, char *scratch,
                                         int64_t threads) {
    Tensors tensors = {};
    for (size_t i = 0; i <= result; ++i)
      tensors[i] = floats(addresses[i]);
    for (const WideImage &image : images) {
      tensors[image.operand] = floats(scratch + image.place);
      if (image.operand != result)
        widenBox(image.type, addresses[image.operand], image.box, tensors[image.operand], threads);
    }
    run(tensors, scratch, threads);
    for (const WideImage &image : images)
      if (image.operand == result)
        narrowBox(image.type, tensors[result], image.box, addresses[result], threads);
  };
  return {{}, argumentsOf(call, command.operands.size(), at), Loops{loopsName(), top, converted}};
}

/// One of the two gradients, whose loops read the first two operands and write the third.
template <typename ScratchBytes, typename Convolve>
std::optional<Preparation>
prepareGradient(const Command &command, const std::vector<bool> &anyLayout,
                const std::vector<std::string> &names, const Positions &at,
                ScratchBytes scratchBytes, Convolve convolve) {
  const Call call(command, anyLayout, names);
  auto space = spaceOf(call, command, at);
  if (!space)
    return std::nullopt;
  auto run = [space, convolve](const Tensors &t, char *scratch, int64_t threads) {
    convolve(*space, t[0], t[1], t[2], scratch, threads);
  };
  return preparation(call, command, at, ((*space).*scratchBytes)(currentThreads()), run);
}

} // namespace

std::optional<Preparation> prepareTaps(const Command &command, const std::vector<bool> &anyLayout) {
  const bool hasBias = command.operands.size() == 4;
  const Call call(command, anyLayout,
                  hasBias ? std::vector<std::string>{"src", "weights", "bias", "dst"}
                          : std::vector<std::string>{"src", "weights", "dst"});
  const Positions at{0, 1, command.operands.size() - 1};
  auto space = spaceOf(call, command, at);
  if (!space)
    return std::nullopt;
  auto run = [space, hasBias](const Tensors &t, char *, int64_t threads) {
    convolveTaps(*space, t[0], t[1], hasBias ? t[2] : nullptr, t[hasBias ? 3 : 2], threads);
  };
  return preparation(call, command, at, 0, run);
}

std::optional<Preparation> prepareTapsGradInput(const Command &command,
                                                const std::vector<bool> &anyLayout) {
  return prepareGradient(command, anyLayout, {"diff_dst", "weights", "diff_src"}, {2, 1, 0},
                         &TapSpace::gradInputScratchBytes, convolveTapsGradInput);
}

std::optional<Preparation> prepareTapsGradWeight(const Command &command,
                                                 const std::vector<bool> &anyLayout) {
  return prepareGradient(command, anyLayout, {"src", "diff_dst", "diff_weights"}, {0, 2, 1},
                         &TapSpace::gradWeightScratchBytes, convolveTapsGradWeight);
}

} // namespace stow::host
