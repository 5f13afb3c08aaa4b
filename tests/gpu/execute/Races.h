// Finds accesses that nothing orders: one of two threads writes a byte that the other reads or writes
// without a barrier between them.
//
// Vector clocks of warps: a warp's own time advances at every barrier; whoever meets it there learns
// that time. An access is ordered before a later one when the later one's warp knows its time. Method
// of FastTrack (Flanagan and Freund, PLDI 2009), with warps as threads and the two last readers kept.
//
// Lanes of a warp are threads like others: what one has done is ordered before what another does where both have met since, or
// a third that met one and then the other. They meet at bar.warp.sync and at barriers of the block; shuffles, votes and products of
// matrices, which a warp does together as well, order nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stow::sim {

struct WarpClock {
  uint32_t time = 1;
  std::vector<uint32_t> known; ///< per warp of the block, the last time that is over

  /// The lanes of `mask` meet, of those of `alive`.
  void meet(uint32_t mask, uint32_t alive);
  /// Whether what lane `earlier` did at `when` is over for lane `later` now.
  bool isOver(unsigned earlier, uint32_t when, unsigned later) const;

private:
  struct Meeting {
    uint32_t time, lanes;
  };
  uint32_t whole = 0;            ///< the last time at which all lanes met
  std::vector<Meeting> meetings; ///< of some of them since, by time
};

/// Who touched a byte and when.
struct Touch {
  uint32_t block = 0, time = 0; ///< time 0: nobody
  uint16_t thread = 0;          ///< of the block
  bool atomic = false;
};

class Races {
public:
  /// Of global memory one page of kPage bytes in `oneIn` is watched, chosen by a hash of its address; of shared memory all.
  explicit Races(uint32_t oneIn) : oneIn(oneIn) {}

  struct Conflict {
    Touch other;
    bool otherWrote;
  };
  struct Access {
    Touch by;
    const WarpClock *clock;
    bool writes;
  };
  /// Notes an access to `bytes` bytes at `address`; a conflict with an earlier one.
  std::optional<Conflict> touch(uint64_t address, unsigned bytes, const Access &access);
  /// Forgets the bytes of shared memory: another block begins.
  void forgetShared();

private:
  struct Byte {
    Touch writer, reader, readerBefore;
  };
  static constexpr uint64_t kPage = 256;
  bool isWatched(uint64_t address) const;
  bool ordered(const Touch &earlier, const Access &access) const;
  Byte *pageOf(uint64_t number);
  std::map<uint64_t, std::unique_ptr<Byte[]>> pages;
  const uint32_t oneIn;
  Byte *lastPage = nullptr;
  uint64_t lastNumber = 0;
};

} // namespace stow::sim
