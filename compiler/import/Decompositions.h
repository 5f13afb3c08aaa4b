// What exporters take apart, put together again where the parts lose what the whole means: a logarithm of a sigmoid that has become
// 0, a root whose gradient at 0 is infinite. A file of stowage.export spells what it means and is left as it is.
#pragma once

#include "compiler/import/GraphImport.h"

namespace stow::onnx {

/// ln(x): -softplus(-z) where x is sigmoid(z), log1p(z) where it is z + 1.
mlir::Value logarithmOf(NodeImport &node, mlir::Value x);

/// a - b: expm1(z) where it is exp(z) - 1, and the cross-entropy of a probability where both are its terms.
mlir::Value differenceOf(NodeImport &node, mlir::Value a, mlir::Value b);

/// The root of x; that of a variance has no gradient at 0, as PyTorch's std.
mlir::Value rootOf(NodeImport &node, mlir::Value x);

/// A root that passes no gradient at 0, as PyTorch's norms: where that of the root alone would be infinite and its product with
/// zeros NaN.
mlir::Value guardedRoot(NodeImport &node, mlir::Value squares);

} // namespace stow::onnx
