// Checksums that a linked program carries of itself, so that a damaged file is noticed before it runs.
//
// The compiler writes them into the symbol stow_seal after the link (codegen/SealFile.h). `loaded` covers
// what the program works by and never writes: every segment without permission to write, that is the program
// and its plan, the initial values, the kernels, the runtime. An executable compares it when it starts,
// with what lies in memory. `file` covers every byte of the file but itself; `stowage inspect` compares it.
#pragma once

#include <cstdint>
#include <span>

namespace stow {

struct Seal {
  uint64_t loaded, file;
};

/// The checksum of what has the checksum `before` (0: nothing), followed by `bytes`.
uint64_t addToChecksum(uint64_t before, std::span<const char> bytes);

/// A segment of a linked file, as its program header (Elf64_Phdr) describes it.
struct LoadedSegment {
  uint32_t type, flags;
  uint64_t offset;             ///< in the file
  std::span<const char> bytes; ///< as many as there are in the file
};

/// The checksum `before` with a segment added that Seal::loaded covers; `before` for others. The ELF
/// header, which strip(1) changes, is left out.
uint64_t addSegment(uint64_t before, const LoadedSegment &segment);

} // namespace stow
