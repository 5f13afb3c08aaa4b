// Boxes of stored tensors: what a piece of a call reads or writes of each operand.
#pragma once

#include "runtime/format/Program.h"

#include <optional>
#include <vector>

namespace stow::host {

/// Runs of contiguous elements at regular distances. Packed, the runs follow each other in the
/// order of the loops.
///
///   offset |run|.....|run|.....|run|       loops {{3, distance}}
struct Box {
  struct Loop {
    int64_t count, stride;
    bool operator==(const Loop &) const = default;
  };
  int64_t offset = 0;      ///< of the first element from the tensor's first, in elements
  std::vector<Loop> loops; ///< outermost first
  int64_t run = 1;

  int64_t elements() const;
  bool operator==(const Box &) const = default;
};

/// True when the layout stores `dim` of a tensor without blocks and groups, so that it can be split
/// anywhere.
bool isSplittable(const Layout &layout, size_t dim);

/// True when `dim` is the outermost in storage and can be split: a piece of it lies as the whole does.
bool isOutermost(const Operand &operand, size_t dim);

/// The elements of `operand` in [from, from + sizes) of every dimension, padding of whole blocks
/// included. Dimensions that are not splittable are split at whole blocks, or not at all.
Box boxOf(const Operand &operand, const Shape &from, const Shape &sizes);

/// The layout of such a box in place: the strides of the tensor. None where no layout says so.
std::optional<Layout> layoutInPlace(const Operand &operand, const Shape &sizes);

/// The layout of its elements packed.
Layout packedLayout(const Operand &operand);

/// Converts a box of a 16-bit tensor to packed f32, and back. `tensor` is its first element.
void widenBox(DType from, const char *tensor, const Box &box, float *packed, int64_t threads);
void narrowBox(DType to, const float *packed, const Box &box, char *tensor, int64_t threads);

/// target[i] += source[i].
void addTo(float *target, const float *source, int64_t count, int64_t threads);

} // namespace stow::host
