// One kernel of a device for several small maps of one body, such as the updates of a model's biases.
//
//   tasks   |  map 0  | map 1 |    map 2     |     a task: 256 threads, a vector each
//
// A block finds the map of its task by halving, which all of its threads do alike, and with it the map's
// addresses, among the kernel's parameters, and its length.
#pragma once

#include "codegen/kernels/Kernels.h"

namespace stow {

class MapOp;

/// Adds the kernel of `maps`, which are alike but for the extents of their tensors: operands of one element are
/// the same values in all of them, everything else lies as the results do. Its arguments are operands and
/// results of the first map, then of the second, and so on; so are `alignments`. Fails with a diagnostic
/// at a map that is not like the first.
mlir::FailureOr<KernelInfo> addMapsTogether(KernelModule &kernels, llvm::ArrayRef<MapOp> maps,
                                            llvm::ArrayRef<int64_t> alignments);

} // namespace stow
