// A data set that stays on the device: words on the arguments of a step's graphs (passes/microbatch/KeepData.cpp).
#pragma once

#include "ir/Graphs.h"

namespace stow {

/// On state arguments that hold all samples of a run: the name of the input or target that they are for.
inline constexpr llvm::StringLiteral kSamplesOfAttr = "stow.samples_of";

/// On these: the kind of argument that the batch would be, input or target.
inline constexpr llvm::StringLiteral kSamplesKindAttr = "stow.samples_kind";

/// On the input with the numbers of the samples that are the batch.
inline constexpr llvm::StringLiteral kRowsAttr = "stow.rows";

/// What samples that `argument` holds are for; empty where it holds none.
inline llvm::StringRef samplesOf(mlir::func::FuncOp graph, unsigned argument) {
  auto name = graph.getArgAttrOfType<mlir::StringAttr>(argument, kSamplesOfAttr);
  return name ? name.getValue() : llvm::StringRef();
}

/// True for the argument that has their numbers.
inline bool hasRows(mlir::func::FuncOp graph, unsigned argument) {
  return graph.getArgAttr(argument, kRowsAttr) != nullptr;
}

} // namespace stow
