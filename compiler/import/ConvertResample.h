// Resampling along dimensions, shared by the converters of Resize, Pad and pooling.
#pragma once

#include "compiler/import/GraphImport.h"
#include "ir/Resample.h"

namespace stow::onnx {

/// `x` with every matrix applied along its dimension.
mlir::Value resample(NodeImport &node, mlir::Value x, std::vector<AxisRows> matrices);

/// Padding of `extent` elements in mode reflect, edge or wrap; negative counts cut.
SparseRows paddingRows(const std::string &mode, int64_t extent, int64_t before, int64_t after);

} // namespace stow::onnx
