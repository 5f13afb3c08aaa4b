// By which number a program, and the profile that it writes, know what a prepared step computes.
//
//   prepared step                      program                           profile of a run
//   %1 = conv2d {stow.kernel = 71}     {"kind": "conv2d", "ints":        {"kind": "conv2d", "kernels": [71],
//                                       {"kernels": [71], ..}}            "least_ms": 0.41, ..}
//   -> the same step, planned with the profile: %1 = conv2d {stow.cost_ns = 410000}
//
// Ops have it where the target's kernels are measured by its programs alone (codegen/Measured.h). Clones
// inherit it; a command of several ops has the numbers of all.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace stow {

/// On an op of a prepared step: i64, equal for ops that are the same on the same shapes and layouts.
inline constexpr llvm::StringLiteral kKernelAttr = "stow.kernel";

/// In Command::ints: those of the ops that the command runs.
inline constexpr const char *kKernelsOfCommand = "kernels";

} // namespace stow
