// Finds accesses that nothing orders: one of two threads writes a byte that the other reads or writes
// without a barrier between them.
//
// Vector clocks of warps: a warp's own time advances at every barrier; whoever meets it there learns
// that time. An access is ordered before a later one when the later one's warp knows its time. Method
// of FastTrack (Flanagan and Freund, PLDI 2009), with warps as threads and the two last readers kept.
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
};

/// Who touched a byte and when.
struct Touch {
  uint32_t block = 0, time = 0; ///< time 0: nobody
  uint16_t thread = 0;          ///< of the block
  bool atomic = false;
};

class Races {
public:
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
  bool ordered(const Touch &earlier, const Access &access) const;
  Byte *pageOf(uint64_t number);
  std::map<uint64_t, std::unique_ptr<Byte[]>> pages;
  Byte *lastPage = nullptr;
  uint64_t lastNumber = 0;
};

} // namespace stow::sim
