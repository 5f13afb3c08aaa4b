// Types of PTX instructions.
#pragma once

#include <cstdint>
#include <string>

namespace stow::sim {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  U8,
  S8,
  B16,
  U16,
  S16,
  F16,
  BF16,
  B32,
  U32,
  S32,
  F32,
  U16x2,
  S16x2,
  F16x2,
  BF16x2,
  TF32,
  B64,
  U64,
  S64,
  F64,
  F32x2,
  B128
};

/// The type of a modifier without its dot ("u32"); None for other modifiers.
Type typeNamed(const std::string &name);
const char *nameOf(Type type);
/// Bytes of a value; 0 for predicates.
unsigned bytesOf(Type type);
bool isSignedType(Type type);
bool isFloatType(Type type);
/// Two halves in a register of 32 bits, which instructions compare and convert one by one.
bool isHalfPair(Type type);

} // namespace stow::sim
