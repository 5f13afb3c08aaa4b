// From the addresses of a warp's lanes to bytes of the host, with all checks.
#pragma once

#include "tests/gpu/execute/Lanes.h"

namespace stow::sim {

/// What an access does; decides which checks apply.
enum class Access : uint8_t { Read, Write, Atomic };

/// Bytes of each lane; those of lanes outside the mask are not set.
using Pointers = uint8_t *[kWarpLanes];

/// The address of a lane in its space: slot op.a, whose width is op.target, plus op.immediate.
inline uint64_t laneAddress(Warp &warp, const Op &op, unsigned lane) {
  uint64_t base =
      op.target == 8 ? warp.lanes<uint64_t>(op.a)[lane] : warp.lanes<uint32_t>(op.a)[lane];
  return base + static_cast<uint64_t>(op.immediate);
}

/// Finds the `bytes` bytes of each lane of `mask` in `space` (Const is Global here). Throws Fault.
template <Space space>
void resolve(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access, Pointers &at);

template <> void resolve<Space::Global>(Warp &, const Op &, uint32_t, unsigned, Access, Pointers &);
template <> void resolve<Space::Shared>(Warp &, const Op &, uint32_t, unsigned, Access, Pointers &);
template <> void resolve<Space::Local>(Warp &, const Op &, uint32_t, unsigned, Access, Pointers &);
template <> void resolve<Space::Param>(Warp &, const Op &, uint32_t, unsigned, Access, Pointers &);
template <>
void resolve<Space::Generic>(Warp &, const Op &, uint32_t, unsigned, Access, Pointers &);

/// One address of one lane, in the space's own terms.
uint8_t *globalBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                     Access access);
uint8_t *sharedBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                     Access access);

/// In Block::written: never, on its way by cp.async, in no variable, written.
inline constexpr uint8_t kNeverWritten = 0, kCopyPending = 1, kOutside = 2, kWritten = 0xFF;

} // namespace stow::sim
