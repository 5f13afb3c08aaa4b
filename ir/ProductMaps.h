// What passes say of stow.product_map and stow.conv2d_map beyond their definitions.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace stow {

/// Unit, on stow.product_map and stow.conv2d_map: stow-fuse-epilogues made it of a product or a convolution and
/// the kernel behind it, which it may become again; and on the stow.map that casts its bias. Its results lie in
/// nothing that it reads: some of their elements may be written while operands are still read for others.
inline constexpr llvm::StringLiteral kEpilogueAttr = "stow.epilogue";

/// Unit, on stow.product_map of a step over several batches or devices: where the target has loops for its shape that serve
/// any body, it takes those. A gradient then has the same bits whether it is added to a sum, used up by an update, or
/// reduced over ranks.
inline constexpr llvm::StringLiteral kSumsAlikeAttr = "stow.sums_alike";

/// True for a vector along the channels of `images`, [O,1,1] for [N,O,H,W]: what may be a convolution's bias.
bool isAlongChannels(mlir::RankedTensorType type, mlir::RankedTensorType images);

} // namespace stow
