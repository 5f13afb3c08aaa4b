#include "tests/gpu/execute/Races.h"

#include "tests/gpu/execute/Memory.h"

namespace stow::sim {

void WarpClock::meet(uint32_t mask, uint32_t alive) {
  if ((alive & ~mask) == 0) {
    whole = time;
    meetings.clear();
  } else {
    meetings.push_back({time, mask});
  }
  ++time;
}

bool WarpClock::isOver(unsigned earlier, uint32_t when, unsigned later) const {
  if (when <= whole)
    return true;
  uint32_t reached = 1u << earlier; // who knows of it
  for (const Meeting &meeting : meetings)
    if (meeting.time >= when && (meeting.lanes & reached) != 0)
      reached |= meeting.lanes;
  return (reached >> later & 1) != 0;
}

/// An odd multiplier spreads neighbouring pages (Knuth, The Art of Computer Programming 3, 6.4).
bool Races::isWatched(uint64_t address) const {
  const bool isShared = address >= kSharedWindow && address < kSharedWindow + kWindowBytes;
  return oneIn == 1 || isShared || (address / kPage * 0x9E3779B97F4A7C15 >> 32) % oneIn == 0;
}

bool Races::ordered(const Touch &earlier, const Access &access) const {
  if (earlier.time == 0)
    return true;
  if (earlier.block != access.by.block)
    return earlier.atomic && access.by.atomic;
  if (earlier.thread == access.by.thread || (earlier.atomic && access.by.atomic))
    return true;
  unsigned warp = earlier.thread / 32;
  if (warp == access.by.thread / 32u)
    return access.clock->isOver(earlier.thread % 32, earlier.time, access.by.thread % 32);
  return earlier.time <= access.clock->known[warp];
}

Races::Byte *Races::pageOf(uint64_t number) {
  if (!lastPage || number != lastNumber) { // neighbours in a warp are neighbours in memory
    std::unique_ptr<Byte[]> &page = pages[number];
    if (!page)
      page = std::make_unique<Byte[]>(kPage);
    lastPage = page.get();
    lastNumber = number;
  }
  return lastPage;
}

std::optional<Races::Conflict> Races::touch(uint64_t address, unsigned bytes,
                                            const Access &access) {
  if (!isWatched(address)) // an access is aligned to its size, so it lies in one page
    return std::nullopt;
  Byte *page = nullptr;
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (!page || at % kPage == 0)
      page = pageOf(at / kPage);
    Byte &byte = page[at % kPage];
    if (!ordered(byte.writer, access))
      return Conflict{byte.writer, true};
    if (access.writes) {
      for (const Touch &reader : {byte.reader, byte.readerBefore})
        if (!ordered(reader, access))
          return Conflict{reader, false};
      byte.writer = access.by;
    } else {
      if (byte.reader.block != access.by.block || byte.reader.thread != access.by.thread)
        byte.readerBefore = byte.reader;
      byte.reader = access.by;
    }
  }
  return std::nullopt;
}

void Races::forgetShared() {
  lastPage = nullptr;
  pages.erase(pages.lower_bound(kSharedWindow / kPage),
              pages.lower_bound((kSharedWindow + kWindowBytes) / kPage));
}

} // namespace stow::sim
