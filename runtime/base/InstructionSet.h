// The instruction sets that a program can be planned for: those that oneDNN has code of its own for,
// each with all before it.
//
// A program computes with one of them, whatever its processor has beyond: what the library's calls take,
// in which order they sum and what the loops of runtime/host do follow from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stow {

enum class InstructionSet : uint8_t {
  Sse41,      ///< what oneDNN needs at least; the level x86-64-v2
  Avx2,       ///< the level x86-64-v3, fused multiply-add among it
  Avx512,     ///< the level x86-64-v4
  Avx512Bf16, ///< that and products of bf16
  Avx512Amx,  ///< that and tiles of bf16
};

inline constexpr InstructionSet largestInstructionSet = InstructionSet::Avx512Amx;

/// As plans and ONEDNN_MAX_CPU_ISA name it, in small letters: "avx2", "avx512_core", ...
std::string_view nameOf(InstructionSet set);
/// Throws Error(BadInput) listing the known ones.
InstructionSet parseInstructionSet(std::string_view name);

/// The value of --target-cpu that stands for it: "x86-64-v3", ...
std::string_view processorOf(InstructionSet set);

/// "avx2 (x86-64-v3)".
std::string describe(InstructionSet set);

} // namespace stow
