// What a process on the host takes beside its arena, as plans state it and runs report it.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/slow/CopyLanes.h"

namespace stow::host {

/// Code, libraries and thread stacks: 10 to 15 MiB were measured over the models of the suite.
inline constexpr Bytes kProcessBytes = Bytes{24} << 20;

/// Code that oneDNN generates for one call: up to 32 KiB over the same models, 11 to 1,145 calls.
inline constexpr Bytes kBytesPerCall = Bytes{32} << 10;

/// Of a program whose buffers travel: what the lanes' threads copy through, and a checksum of 8 bytes for each
/// piece of kPieceBytes that lies in the file at a time, taken as all of it for every copy out. State that lies there
/// has checksums of its own, and a piece of memory through which the host reads and writes it; where its rows are scattered over pieces,
/// all of it, `scatteredBytes` of the largest.
inline Bytes slowMemoryBytes(Bytes bytesOut, int64_t copiesOut, Bytes stateBytes = 0,
                             int64_t states = 0, Bytes scatteredBytes = 0) {
  return slow::kLaneBytes + 8 * (bytesOut / slow::kPieceBytes + copiesOut) + scatteredBytes +
         (states > 0 ? slow::kPieceBytes + 8 * (stateBytes / slow::kPieceBytes + states) : 0);
}

} // namespace stow::host
