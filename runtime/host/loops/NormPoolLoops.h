// Max pooling of a batch normalization that is never stored, and the other way round the gradient of
// max pooling, which is never stored either: in the stem of a ResNet at batch 128 each is 392 MiB.
//
//   x --(x - mean) * slope + shift--> window --first maximum--> y, position of it    forward
//   dx <--- batch normalization's gradient <--- chunk of dy's sums <--- dy, position  backward
//
// The forward normalizes an element again for each window that it lies in. The backward gathers: a
// point's gradient is the sum over the windows that chose it, in the order of the windows, row by row.
// Tensors are channels-last, so that loops run over channels. Bits are those of normalizeBatch,
// oneDNN's max pooling and its gradient, one after the other; of the last up to the order of three or
// more summands, which oneDNN chooses by the processor where there are few channels.
#pragma once

#include "runtime/host/loops/BatchNormLoops.h"

#include <array>

namespace stow::host {

/// One spatial dimension of a pooling window.
struct PoolAxis {
  PoolAxis() = default;
  PoolAxis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad);

  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  /// A window that sees a point, and the point's position in it.
  struct Sight {
    int64_t window, position;
  };
  std::vector<Sight> sights = {{0, 0}};    ///< of all points, one after the other
  std::vector<size_t> firstSight = {0, 1}; ///< of each point, and their number
};

/// Windows over [images, ..., channels], of at most 255 elements.
struct PoolWindows {
  int64_t images = 1, channels = 1;
  std::array<PoolAxis, 3> axes; ///< outermost first; those that are missing have one point

  int64_t outputs() const { return axes[0].out * axes[1].out * axes[2].out; } ///< of an image
  /// True where a position takes half a byte: of 16 channels, those of the first eight are the low
  /// halves of eight bytes, those of the others the high ones.
  bool hasHalves() const {
    return channels % 16 == 0 && axes[0].kernel * axes[1].kernel * axes[2].kernel <= 16;
  }
  Bytes positionBytes() const { return images * outputs() * channels / (hasHalves() ? 2 : 1); }
};

/// The first maximum of each window over the normalized x, and its position in the window.
/// Elements are rounded to y's type before they are compared.
void poolNormalized(const PoolWindows &windows, const ChannelLines &lines, const StoredFloats &x,
                    const StoredFloats &y, uint8_t *positions, int64_t threads);

/// The gradient of max pooling by points [begin, end) of what was pooled, all channels of each,
/// rounded to dy's type.
void gatherPooled(const PoolWindows &windows, const StoredFloats &dy, const uint8_t *positions,
                  int64_t begin, int64_t end, float *to);

} // namespace stow::host
