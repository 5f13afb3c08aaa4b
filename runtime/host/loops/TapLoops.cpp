#include "runtime/host/loops/TapLoops.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/TileProduct.h"

#include <algorithm>
#include <cstring>

namespace stow::host {

namespace {

using V = F8;
constexpr int64_t blockElements = tapBlock * tapBlock;
static_assert(tapBlock == 8 && tapPanel == panelColumns,
              "transpose8 writes blocks of weights into a panel");

/// Contracted channels at a time: the weights of all taps of so many, for one panel, stay in the second
/// cache while every pixel is multiplied with them.
constexpr int64_t depthAtATime = 128;

/// Rows of a product that stay in registers, with two vectors of columns each.
constexpr int rowsAtATime = 6;

/// Columns [0, 16) of the right factor, in groups of 8 rows: row k of group g is at `address + g *
/// groupStride + k * rowStride`, its last 8 columns `second` further on.
template <int64_t rowStride> struct RightColumns {
  const float *address;
  int64_t groupStride, second;
};

/// What a product over pixels reads and writes: rows of `from` and `to` are the pixels' channels.
struct Pixels {
  const float *from;
  int64_t fromPitch;
  float *to;
  int64_t toPitch;
};

/// to[rows] += from[rows] * right, for `rows` pairs of pixels.
template <int rows, int64_t rowStride>
STOW_INLINE void multiplyPixels(const Pixels &pixels, const int32_t *from, const int32_t *to,
                                RightColumns<rowStride> right, int64_t groups) {
  V sums[rows][2];
  const float *left[rows];
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row) {
    const float *sum = pixels.to + to[row] * pixels.toPitch;
    sums[row][0] = at<V>(sum);
    sums[row][1] = at<V>(sum + tapBlock);
    left[row] = pixels.from + from[row] * pixels.fromPitch;
  }
  const float *columns = right.address;
  for (int64_t group = 0; group < groups; ++group, columns += right.groupStride)
#pragma clang loop unroll(full)
    for (int64_t k = 0; k < tapBlock; ++k) {
      const V first = at<V>(columns + k * rowStride),
              second = at<V>(columns + k * rowStride + right.second);
#pragma clang loop unroll(full)
      for (int row = 0; row < rows; ++row) {
        const float factor = left[row][group * tapBlock + k];
        sums[row][0] += factor * first;
        sums[row][1] += factor * second;
      }
    }
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row) {
    float *sum = pixels.to + to[row] * pixels.toPitch;
    at<V>(sum) = sums[row][0];
    at<V>(sum + tapBlock) = sums[row][1];
  }
}

/// The last pairs of pixels, fewer than a block.
template <int most, int64_t rowStride>
STOW_INLINE void multiplyRest(const Pixels &pixels, const int32_t *from, const int32_t *to,
                              RightColumns<rowStride> right, int64_t groups, size_t rows) {
  if constexpr (most > 0) {
    if (rows == most)
      multiplyPixels<most>(pixels, from, to, right, groups);
    else
      multiplyRest<most - 1>(pixels, from, to, right, groups, rows);
  }
}

/// to += from * right, for all pairs.
template <int64_t rowStride>
STOW_INLINE void multiplyTap(const Pixels &pixels, const std::vector<int32_t> &from,
                             const std::vector<int32_t> &to, RightColumns<rowStride> right,
                             int64_t groups) {
  const size_t pairs = from.size();
  const int32_t *source = from.data(), *target = to.data();
  size_t pair = 0;
  for (; pair + rowsAtATime <= pairs; pair += rowsAtATime)
    multiplyPixels<rowsAtATime>(pixels, source + pair, target + pair, right, groups);
  multiplyRest<rowsAtATime - 1>(pixels, source + pair, target + pair, right, groups, pairs - pair);
}

/// Where the first block of weights for 8 outputs and 8 inputs lies; that of the next tap follows.
STOW_INLINE int64_t blockOffset(const TapSpace &space, int64_t output, int64_t input) {
  return (output / tapBlock * (space.inputs / tapBlock) + input / tapBlock) *
         static_cast<int64_t>(space.taps.size()) * blockElements;
}

//===-- Forward -------------------------------------------------------------------------------===//

STOW_INLINE void forwardPanels(const TapSpace &space, const float *x, const float *weights,
                               const float *bias, float *y, int64_t begin, int64_t end) {
  const auto taps = static_cast<int64_t>(space.taps.size());
  for (int64_t output = begin * tapPanel; output < end * tapPanel; output += tapPanel) {
    for (int64_t pixel = 0; pixel < space.outputPixels; ++pixel)
      for (int64_t i = 0; i < tapPanel; i += tapBlock)
        at<V>(y + pixel * space.outputs + output + i) = bias ? at<V>(bias + output + i) : V{};
    for (int64_t input = 0; input < space.inputs; input += depthAtATime) {
      const int64_t groups = std::min(depthAtATime, space.inputs - input) / tapBlock;
      const float *columns = weights + blockOffset(space, output, input);
      for (int64_t tap = 0; tap < taps; ++tap)
        multiplyTap<tapBlock>(
            {x + input, space.inputs, y + output, space.outputs}, space.taps[tap].input,
            space.taps[tap].output,
            {columns + tap * blockElements, taps * blockElements, blockOffset(space, tapBlock, 0)},
            groups);
    }
  }
}

//===-- Gradient of the input -----------------------------------------------------------------===//

STOW_INLINE void gradInputPanels(const TapSpace &space, const float *dy, const float *weights,
                                 float *dx, float *scratch, int64_t begin, int64_t end) {
  for (int64_t input = begin * tapPanel; input < end * tapPanel; input += tapPanel) {
    for (int64_t pixel = 0; pixel < space.inputPixels; ++pixel)
      for (int64_t i = 0; i < tapPanel; i += tapBlock)
        at<V>(dx + pixel * space.inputs + input + i) = V{};
    for (int64_t output = 0; output < space.outputs; output += depthAtATime) {
      const int64_t depth = std::min(depthAtATime, space.outputs - output);
      // The panel's weights of all taps, each [outputs, 16 inputs].
      for (int64_t o = 0; o < depth; o += tapBlock)
        for (int64_t i = 0; i < tapPanel; i += tapBlock) {
          const float *from = weights + blockOffset(space, output + o, input + i);
          float *to = scratch + o * tapPanel + i;
          for (const Tap &tap : space.taps) {
            if (!tap.input.empty()) {
              transpose8(from, tapBlock, to);
              to += depthAtATime * tapPanel;
            }
            from += blockElements;
          }
        }
      const float *columns = scratch;
      for (const Tap &tap : space.taps) {
        if (tap.input.empty())
          continue;
        multiplyTap<tapPanel>({dy + output, space.outputs, dx + input, space.inputs}, tap.output,
                              tap.input, {columns, tapPanel * tapBlock, tapBlock},
                              depth / tapBlock);
        columns += depthAtATime * tapPanel;
      }
    }
  }
}

//===-- Gradient of the weights ---------------------------------------------------------------===//

/// The channels [0, 16) of all pixels, side by side.
STOW_INLINE void gatherPanel(const float *from, int64_t pitch, int64_t pixels, float *to) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    for (int64_t i = 0; i < tapPanel; i += tapBlock)
      at<V>(to + pixel * tapPanel + i) = at<V>(from + pixel * pitch + i);
}

/// Four input and 16 output channels of a tap's gradient, summed over its pairs of pixels.
STOW_INLINE void gradWeightRows(const Tap &tap, const float *x, const float *dy, float *first,
                                float *second) {
  constexpr int rows = 4;
  V sums[rows][2] = {};
  const size_t pairs = tap.input.size();
  const int32_t *input = tap.input.data(), *output = tap.output.data();
  for (size_t pair = 0; pair < pairs; ++pair) {
    const float *left = x + int64_t{input[pair]} * tapPanel,
                *right = dy + int64_t{output[pair]} * tapPanel;
    const V low = at<V>(right), high = at<V>(right + tapBlock);
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row) {
      sums[row][0] += left[row] * low;
      sums[row][1] += left[row] * high;
    }
  }
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row) {
    at<V>(first + row * tapBlock) = sums[row][0];
    at<V>(second + row * tapBlock) = sums[row][1];
  }
}

STOW_INLINE void gradWeightPanels(const TapSpace &space, const float *x, const float *dy,
                                  float *dweights, float *scratch, int64_t begin, int64_t end) {
  float *xPanel = scratch, *dyPanel = scratch + space.inputPixels * tapPanel;
  for (int64_t output = begin * tapPanel; output < end * tapPanel; output += tapPanel) {
    gatherPanel(dy + output, space.outputs, space.outputPixels, dyPanel);
    for (int64_t input = 0; input < space.inputs; input += tapPanel) {
      gatherPanel(x + input, space.inputs, space.inputPixels, xPanel);
      for (int64_t i = 0; i < tapPanel; i += tapBlock) {
        float *first = dweights + blockOffset(space, output, input + i);
        for (const Tap &tap : space.taps) {
          for (int64_t row = 0; row < tapBlock; row += 4) {
            float *to = first + row * tapBlock;
            gradWeightRows(tap, xPanel + i + row, dyPanel, to,
                           to + blockOffset(space, tapBlock, 0));
          }
          first += blockElements;
        }
      }
    }
  }
}

//===-- For the processor at hand -------------------------------------------------------------===//

#define STOW_FOR(name, target)                                                                     \
  target void forward##name(const TapSpace &space, const float *x, const float *weights,           \
                            const float *bias, float *y, int64_t begin, int64_t end) {             \
    forwardPanels(space, x, weights, bias, y, begin, end);                                         \
  }                                                                                                \
  target void gradInput##name(const TapSpace &space, const float *dy, const float *weights,        \
                              float *dx, float *scratch, int64_t begin, int64_t end) {             \
    gradInputPanels(space, dy, weights, dx, scratch, begin, end);                                  \
  }                                                                                                \
  target void gradWeight##name(const TapSpace &space, const float *x, const float *dy,             \
                               float *dweights, float *scratch, int64_t begin, int64_t end) {      \
    gradWeightPanels(space, x, dy, dweights, scratch, begin, end);                                 \
  }
STOW_FOR(Plain, )
#if defined(__x86_64__)
STOW_FOR(Avx2, __attribute__((target("avx2,fma"))))
#endif
#undef STOW_FOR

#if defined(__x86_64__)
#define STOW_CHOSEN(name) (usesAvx2() ? name##Avx2 : name##Plain)
#else
#define STOW_CHOSEN(name) name##Plain
#endif

/// Runs `loops(scratch, begin, end)` over `channels`, a panel a task, with scratch per thread.
template <typename Loops>
void runPanels(int64_t channels, char *scratch, int64_t scratchElements, int64_t threads,
               const Loops &loops) {
  const int64_t panels = channels / tapPanel, slots = std::min(threads, panels);
  parallelFor(slots, slots, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      loops(reinterpret_cast<float *>(scratch) + slot * scratchElements, panels * slot / slots,
            panels * (slot + 1) / slots);
  });
}

int64_t gradInputElements(const TapSpace &space) {
  return std::ranges::count_if(space.taps, [](const Tap &tap) { return !tap.input.empty(); }) *
         depthAtATime * tapPanel;
}

int64_t gradWeightElements(const TapSpace &space) {
  return (space.inputPixels + space.outputPixels) * tapPanel;
}

Bytes scratchBytes(int64_t channels, int64_t elements, int64_t threads) {
  return std::min(threads, channels / tapPanel) * elements * sizeOf(DType::F32);
}

/// Advances `index` through `extents`, the last dimension fastest; false behind the last.
bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &extents) {
  for (size_t i = index.size(); i-- > 0;) {
    if (++index[i] < extents[i])
      return true;
    index[i] = 0;
  }
  return false;
}

} // namespace

//===-- Spaces --------------------------------------------------------------------------------===//

Layout tapWeights(size_t rank) {
  Layout layout;
  for (size_t i = 0; i < rank; ++i)
    layout.order.push_back(static_cast<int64_t>(i));
  layout.blocks = {{1, tapBlock}, {0, tapBlock}};
  return layout;
}

TapSpace::TapSpace(const Shape &input, const Shape &output, const Window &window)
    : inputs(input[1]), outputs(output[1]), inputPixels(elementCount(input) / input[1]),
      outputPixels(elementCount(output) / output[1]) {
  const std::vector<int64_t> from(input.begin() + 2, input.end()),
      to(output.begin() + 2, output.end());
  const int64_t images = input[0], fromPixels = elementCount(from), toPixels = elementCount(to);
  std::vector<int64_t> element(from.size());
  do {
    Tap &tap = taps.emplace_back();
    std::vector<int64_t> place(from.size());
    int64_t outputPixel = 0;
    do {
      int64_t inputPixel = 0;
      bool isInside = true;
      for (size_t i = 0; i < from.size(); ++i) {
        const int64_t at = window.at(i, place[i], element[i]);
        isInside &= at >= 0 && at < from[i];
        inputPixel = inputPixel * from[i] + at;
      }
      for (int64_t image = 0; isInside && image < images; ++image) {
        tap.input.push_back(static_cast<int32_t>(image * fromPixels + inputPixel));
        tap.output.push_back(static_cast<int32_t>(image * toPixels + outputPixel));
      }
      ++outputPixel;
    } while (advance(place, to));
  } while (advance(element, window.kernel));
}

double TapSpace::share(const Shape &input, const Shape &output, const Window &window) {
  double share = 1;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    int64_t inside = 0;
    for (int64_t place = 0; place < output[i + 2]; ++place)
      for (int64_t element = 0; element < window.kernel[i]; ++element) {
        const int64_t at = window.at(i, place, element);
        inside += at >= 0 && at < input[i + 2];
      }
    share *= static_cast<double>(inside) / static_cast<double>(output[i + 2] * window.kernel[i]);
  }
  return share;
}

Bytes TapSpace::gradInputScratchBytes(int64_t threads) const {
  return scratchBytes(inputs, gradInputElements(*this), threads);
}

Bytes TapSpace::gradWeightScratchBytes(int64_t threads) const {
  return scratchBytes(outputs, gradWeightElements(*this), threads);
}

void convolveTaps(const TapSpace &space, const float *x, const float *weights, const float *bias,
                  float *y, int64_t threads) {
  runPanels(space.outputs, nullptr, 0, threads, [&](float *, int64_t begin, int64_t end) {
    STOW_CHOSEN(forward)(space, x, weights, bias, y, begin, end);
  });
}

void convolveTapsGradInput(const TapSpace &space, const float *dy, const float *weights, float *dx,
                           char *scratch, int64_t threads) {
  runPanels(space.inputs, scratch, gradInputElements(space), threads,
            [&](float *own, int64_t begin, int64_t end) {
              STOW_CHOSEN(gradInput)(space, dy, weights, dx, own, begin, end);
            });
}

void convolveTapsGradWeight(const TapSpace &space, const float *x, const float *dy, float *dweights,
                            char *scratch, int64_t threads) {
  runPanels(space.outputs, scratch, gradWeightElements(space), threads,
            [&](float *own, int64_t begin, int64_t end) {
              STOW_CHOSEN(gradWeight)(space, x, dy, dweights, own, begin, end);
            });
}

const char *tapInstructions() { return usesAvx2() ? "avx2" : "sse2"; }

} // namespace stow::host
