// Convolutions of images that are smaller than their windows, in loops of our own.
//
// On images of 2 x 2 pixels most of a 3 x 3 window lies beside the image. The library has no code of its
// own for their weight gradient: it writes every window out and multiplies image by image, which reads
// all weights anew for each image, and keeps a copy of the gradient per thread. Here every element of the
// window, a tap, is one product over all pixels that it joins, whatever image they are of, and what lies
// beside an image is not computed (A. Anderson, A. Vasudevan, C. Keane, D. Gregg, "Low-memory
// GEMM-based convolution algorithms for deep neural networks", 2017, without their copies):
//
//   y[pixel]     +=  x[pixel, moved by the tap] w[tap]           for the pixels where both exist
//   dx[pixel, moved by the tap]  +=  dy[pixel] w[tap]'
//   dw[tap]       =  sum over pixels of  x[pixel, moved by the tap]' dy[pixel]
//
// Images are f32 with their channels innermost, weights f32 in blocks of 8 inputs by 8 outputs, all taps
// of a block side by side. Sums run in an order that follows from the shapes: results do not depend on
// the thread count.
#pragma once

#include "runtime/base/Layout.h"

#include <cstdint>
#include <vector>

namespace stow::host {

/// Channels of a block of the weights.
inline constexpr int64_t tapBlock = 8;

/// Output channels (input channels in the gradient of the input) of one task: numbers of channels are
/// multiples of this.
inline constexpr int64_t tapPanel = 16;

/// How weights [O, I, ...] lie: O/8 I/8 taps 8i 8o.
Layout tapWeights(size_t rank);

/// The pixels that one element of the window joins: pixel `input[i]` of x is multiplied for pixel
/// `output[i]` of y. Pixels are counted through all images.
struct Tap {
  std::vector<int32_t> input, output;
};

/// A convolution as taps.
struct TapSpace {
  /// Of images [N, I, spatial] and [N, O, spatial]; `kernel`, `strides` and so on have one number per
  /// spatial dimension, dilations are 1 where the window is dense.
  struct Window {
    std::vector<int64_t> kernel, strides, padBegin, dilations;
    /// Where in the input the window at `place` has its `element`, in dimension `i`.
    int64_t at(size_t i, int64_t place, int64_t element) const {
      return place * strides[i] - padBegin[i] + element * dilations[i];
    }
  };
  TapSpace(const Shape &input, const Shape &output, const Window &window);

  /// Pairs of pixels that are multiplied, of those that there would be without borders.
  static double share(const Shape &input, const Shape &output, const Window &window);

  int64_t inputs = 0, outputs = 0;           ///< channels
  int64_t inputPixels = 0, outputPixels = 0; ///< of all images
  std::vector<Tap> taps;                     ///< row-major, as the window's elements

  /// Scratch of all threads.
  Bytes gradInputScratchBytes(int64_t threads) const, gradWeightScratchBytes(int64_t threads) const;
};

/// y = the convolution of x. `bias` may be null.
void convolveTaps(const TapSpace &space, const float *x, const float *weights, const float *bias,
                  float *y, int64_t threads);

/// `scratch`: gradInputScratchBytes(), aligned to 64 bytes.
void convolveTapsGradInput(const TapSpace &space, const float *dy, const float *weights, float *dx,
                           char *scratch, int64_t threads);

/// `scratch`: gradWeightScratchBytes(), aligned to 64 bytes.
void convolveTapsGradWeight(const TapSpace &space, const float *x, const float *dy, float *dweights,
                            char *scratch, int64_t threads);

/// The instructions that the loops use in this process, for reports.
const char *tapInstructions();

} // namespace stow::host
