// Weights that are stored in blocks of few bits. Include this where it is used; ir/Stow.h has the rest of the dialect.
#pragma once

#include "ir/Stow.h"

#include "runtime/base/Quantization.h"

#define GET_OP_CLASSES
#include "ir/StowQuantizeOps.h.inc"

namespace stow {

/// Of an argument: a dictionary of `scheme` and `type`, what its bytes are and the type of the numbers that they stand for.
inline constexpr llvm::StringLiteral kQuantizedAttr = "stow.quantized";

mlir::DictionaryAttr quantizedAttr(mlir::MLIRContext *context, Quantization scheme,
                                   mlir::RankedTensorType numbers);

/// Of an optimizer's state that is to be stored in 8 bits: "signed", or "nonnegative" where it is never negative.
inline constexpr llvm::StringLiteral kEightBitsAttr = "stow.eight_bits";

struct QuantizedNumbers {
  Quantization scheme;
  mlir::RankedTensorType type;
};

/// What `attr`, a kQuantizedAttr or null, says; nothing where it is none.
std::optional<QuantizedNumbers> quantizedNumbers(mlir::Attribute attr);

} // namespace stow
