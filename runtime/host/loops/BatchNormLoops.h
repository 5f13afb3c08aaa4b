// Batch normalization in loops of our own, with sums that are accurate to a rounding error of float
// whatever their length. Tensors are f32, bf16 or f16; arithmetic and statistics are f32 and double.
//
// oneDNN adds the elements of a channel one after the other into a single float: over 25,000
// elements its statistics are wrong by 1e-6, twenty times a rounding error, and layer after layer
// adds to that. Here a channel is cut into short chunks. A chunk's mean and squared deviations are
// folded in float and merged in double (T. Chan, G. Golub, R. LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979), so that the statistics also take one
// pass over memory instead of two.
//
//   points of a channel   |<------ segment ------>|<------ segment ------>|   one task each
//                         |chunk|chunk|chunk|chunk|chunk|chunk|chunk|chunk|
//
// Segments and chunks follow from the shape alone: results do not depend on the thread count.
#pragma once

#include "runtime/base/Layout.h"

#include <functional>
#include <optional>
#include <vector>

namespace stow::host {

/// Where the channels of a tensor [N, C, ...] lie, and how the work on them is cut.
struct ChannelSpace {
  /// None for layouts that the loops do not take: gaps, blocks other than 8 or 16 channels.
  static std::optional<ChannelSpace> of(const Shape &shape, const Layout &layout);

  int64_t channels = 0;
  int64_t points = 0;                          ///< elements of a channel, the rows together
  int64_t rowPoints = 0;                       ///< of the innermost dimension that is no channel
  int64_t pointStride = 0;                     ///< elements between its neighbours
  int64_t rows = 0;                            ///< product of the other dimensions
  std::vector<int64_t> rowExtents, rowStrides; ///< of these, outermost first

  /// Channels lie side by side in runs of `block` elements, `blockStride` apart; block 1: alone.
  int64_t block = 1, blockStride = 0;
  bool alongPoints = false; ///< vectors run along the points of one channel, not over channels

  int64_t chunkRows = 1, chunkPoints = 0; ///< a chunk: whole rows, or a part of one row
  int64_t chunks = 0, segments = 0;       ///< of one channel
  int64_t parts = 0;                      ///< tasks of a segment: channel blocks, or all at once

  /// Channels with the padding of the last block.
  int64_t storedChannels() const;
  int64_t tasks() const { return parts * segments; }
  /// True where the channels of all points lie side by side, without gaps.
  bool hasOneRow() const;
  /// What the functions below need beside the tensors.
  Bytes scratchBytes() const;
  /// What normalizeBatchGradMaking needs more.
  Bytes makingBytes(int64_t threads) const;
};

/// A tensor of f32, bf16 or f16.
struct StoredFloats {
  DType type;
  char *address;
};

/// What a batch is normalized with, per channel: y = (x - mean) * slope + shift.
struct ChannelLines {
  const float *mean, *slope, *shift;
};

/// Writes the points [begin, end) of a tensor that is not stored, all channels of each.
using MakePoints = std::function<void(int64_t begin, int64_t end, float *to)>;

/// What every call runs with. `scratch`: scratchBytes(), aligned to 8 bytes.
struct ChannelRun {
  const ChannelSpace &space;
  double epsilon;
  char *scratch;
  int64_t threads;
};

/// What a gradient reads of the forward, per channel.
struct ForwardVectors {
  const float *mean, *variance, *scale;
};

/// The statistics of x, and the lines that they give, which lie in the scratch. `shift` may be null where no
/// shift is wanted: the line's is 0.
ChannelLines batchStatistics(const ChannelRun &run, const StoredFloats &x, const float *scale,
                             const float *shift, float *mean, float *variance);

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, with the statistics of x. `y` may be
/// `x` when it has its type.
void normalizeBatch(const ChannelRun &run, const StoredFloats &x, const float *scale,
                    const float *shift, const StoredFloats &y, float *mean, float *variance);

/// Gradients of normalizeBatch by x, scale and shift. `dx` may be `dy` when it has its type.
void normalizeBatchGrad(const ChannelRun &run, const StoredFloats &x, const ForwardVectors &forward,
                        const StoredFloats &dy, const StoredFloats &dx, float *dscale,
                        float *dshift);

/// The same for a `dy` that never exists whole: it is made twice, a chunk at a time. The space has one
/// row; `dx` may be `x` when it has its type. The scratch has makingBytes(threads) more.
void normalizeBatchGradMaking(const ChannelRun &run, const StoredFloats &x,
                              const ForwardVectors &forward, const MakePoints &dy,
                              const StoredFloats &dx, float *dscale, float *dshift);

/// The instructions that the loops use in this process, for reports.
const char *batchNormInstructions();

} // namespace stow::host
