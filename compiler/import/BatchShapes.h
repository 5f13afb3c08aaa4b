// Shapes that a file was made with, carried over to another batch.
//
// A static export has its batch baked into constants: targets of Reshape and Expand, initial
// states. The shapes of all tensors at the file's own batch say which of them come from it: where a
// Reshape's input grew, the dimension of its target that holds the same elements grows too.
#pragma once

#include "runtime/base/Layout.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stow::onnx {

/// What an import knew of every tensor, such as one at the file's own batch.
struct BatchShapes {
  std::map<std::string, Shape> shapes;
  std::map<std::string, int64_t> widths;                ///< bytes of an element
  std::map<std::string, std::vector<int64_t>> literals; ///< small integer constants
};

/// Dimensions in which the batch is merged with others, by their extents at the file's batch:
/// extent = outer x batch x inner, row-major. Dimensions of equal extent that are merged otherwise
/// have no entry that could be used.
struct MergedDims {
  struct Split {
    int64_t outer, inner;
    bool operator==(const Split &) const = default;
  };
  std::map<int64_t, std::optional<Split>> splits; ///< empty: ambiguous
};

/// The batch a file was made with, and the one it is imported for.
struct BatchPair {
  int64_t from, to;
};

/// The shape that a reshape from `before` to `target` has for an input of shape `now`, whose
/// dimensions differ from `before` where they come from the batch; batch 2 as 6:
///
///   before [10, 2, 32]  now [10, 6, 32]  target [10, 8, 8]   ->  [10, 24, 8]
///   before [10, 2, 32]  now [10, 6, 32]  target [20, 32]     ->  [60, 32]     20 = 10 x batch x 1
///   before [20, 96]     now [60, 96]     target [10, 2, 96]  ->  [10, 6, 96]
///
/// Dimensions are split into the smallest groups of equal element counts; the elements of a group
/// stay together. Within a group the batch keeps its outer elements: the target dimension that
/// begins among them and ends behind the batch grows. Absent where no dimension does, or where the
/// group changes in several dimensions. Merged dimensions are noted in `merged`.
std::optional<Shape> carriedShape(const Shape &before, const Shape &now, const Shape &target,
                                  BatchPair batch, MergedDims &merged);

/// True when every tensor that changed did so in one dimension, by the batch's factor: rows of a
/// constant that are no samples would meet the batch in a second one.
bool growInOneDimension(const BatchShapes &before, const BatchShapes &now, BatchPair batch);

} // namespace stow::onnx
