// Where the weights of a recurrent layer come from.
//
// PyTorch stores a layer's weights per direction with gates in an order of its own; its exporter
// cuts them into gates and joins these in ONNX's order for every direction. What the layer reads is
// then a permutation of the rows of a parameter:
//
//   weight_ih [3 H, I]: r z n  --slices, concat-->  z r n  --concat-->  W [2, 3 H, I]
//
// A product with the parameter itself has the same columns in the parameter's order, without a copy
// of the weights in every step.
#pragma once

#include "ir/Stow.h"

#include <optional>

namespace stow::onnx {

/// The rows of all gates of one direction, in the order in which they are stored.
struct GateRows {
  mlir::Value source;               ///< [gates * hidden, ...], perhaps with dimensions of extent 1
  llvm::SmallVector<int64_t> order; ///< place of each gate, counted in gates
};

/// What the rows [first, first + gates * hidden) of `weights` [directions, rows, ...] in one
/// direction are; absent when they are no permutation of the gates of one tensor.
std::optional<GateRows> findGateRows(mlir::Value weights, int64_t direction, int64_t first,
                                     int64_t gates, int64_t hidden);

} // namespace stow::onnx
