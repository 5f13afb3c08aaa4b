// Element types of tensors, as stored in the arena.
#pragma once

#include "runtime/base/Bytes.h"

#include <string_view>

namespace stow {

/// Element type of a stored tensor. `I1` is stored as one byte per element.
enum class DType : uint8_t { F64, F32, F16, BF16, I64, I32, U8, I1 };

/// Bytes of one element.
constexpr Bytes sizeOf(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
    return 2;
  case DType::U8:
  case DType::I1:
    return 1;
  }
  return 0;
}

/// True for floating-point numbers of 16 bits.
constexpr bool is16Bit(DType type) { return type == DType::BF16 || type == DType::F16; }

/// "f32", "i64", ...: MLIR's spelling, also used in program and report files.
std::string_view nameOf(DType type);

/// Inverse of nameOf; throws Error(BadInput) listing the known names.
DType parseDType(std::string_view name);

} // namespace stow
