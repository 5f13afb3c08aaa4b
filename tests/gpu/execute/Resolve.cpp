#include "tests/gpu/execute/Resolve.h"
#include "runtime/base/Concat.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stow::sim {

static std::string hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

static const char *verb(Access access) {
  return access == Access::Read ? "read" : access == Access::Write ? "write" : "atomic update";
}

static std::string what(Access access, unsigned bytes, const char *space, uint64_t address) {
  return concat(verb(access), " of ", bytes, " bytes of ", space, " memory at ", hex(address));
}

static void checkAligned(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                         Access access, const char *space) {
  if (address & (bytes - 1))
    warp.fail(Fault::Kind::Misaligned, op, lane,
              what(access, bytes, space, address) + " is not aligned to its size");
}

//===-- races ---------------------------------------------------------------------------------===//

static void noteTouch(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                      Access access) {
  Races::Access touch;
  touch.by = {static_cast<uint32_t>(warp.block.number), warp.clock.time,
              static_cast<uint16_t>(warp.number * kWarpLanes + lane), access == Access::Atomic};
  touch.clock = &warp.clock;
  touch.writes = access != Access::Read;
  auto conflict = warp.worker.races->touch(address, bytes, touch);
  if (!conflict)
    return;
  const Touch &other = conflict->other;
  bool same = other.block == touch.by.block;
  warp.fail(Fault::Kind::Race, op, lane,
            concat("race: ", verb(access), " of ", hex(address), ", which thread ", other.thread,
                   same ? " of the same block" : concat(" of block ", other.block),
                   conflict->otherWrote ? " wrote" : " read",
                   same ? " with no barrier between them" : " in the same launch"));
}

//===-- global memory -------------------------------------------------------------------------===//

static std::string plannedNearby(const Checks &checks, uint64_t address, Access access) {
  const Range *best = nullptr;
  uint64_t distance = ~uint64_t{0};
  auto consider = [&](const std::vector<Range> &ranges) {
    for (const Range &range : ranges) {
      uint64_t away = address < range.begin ? range.begin - address
                      : address < range.end ? 0
                                            : address - range.end + 1;
      if (away < distance)
        distance = away, best = &range;
    }
  };
  consider(checks.writes);
  consider(checks.reads);
  if (!best)
    return "the command has no planned operand";
  std::string name = (best->name.empty() ? "" : "'" + best->name + "' ") + "[" + hex(best->begin) +
                     ", " + hex(best->end) + ")";
  if (distance == 0)
    return "it reaches beyond, or the command only reads, " + name;
  return "the nearest planned operand is " + name;
}

/// Takes what is written by something else meanwhile away from a window around the access, and from one to write what is read.
static void keepOffBusy(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                        Access access, Worker::Window &window) {
  uint64_t begin = window.begin, end = window.begin + window.room;
  auto keepOff = [&](const Range &range, const char *does) {
    if (address < range.end && range.begin < address + bytes) {
      window = {};
      warp.fail(Fault::Kind::Race, op, lane,
                concat("race: ", what(access, bytes, "global", address), ", inside [",
                       hex(range.begin), ", ", hex(range.end), "), which ", range.name, does,
                       ", and nothing orders the two"));
    }
    if (range.end <= address)
      begin = std::max(begin, range.end);
    else
      end = std::min(end, range.begin);
  };
  for (const Range &range : warp.worker.launch.checks.busy)
    keepOff(range, " writes");
  if (access != Access::Read)
    for (const Range &range : warp.worker.launch.checks.kept)
      keepOff(range, " reads");
  window = {begin, end - begin, window.host + (begin - window.begin)};
}

/// Sets the instruction's window to what holds `address` and the launch may touch.
static void findAllowed(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                        Access access, Worker::Window &window) {
  DeviceMemory &memory = warp.worker.memory;
  const DeviceMemory::Allocation *allocation = memory.find(address);
  if (!allocation || bytes > allocation->end() - address)
    warp.fail(Fault::Kind::IllegalAddress, op, lane,
              what(access, bytes, "global", address) + ", " + memory.describe(address));
  if (allocation->readOnly && access != Access::Read)
    warp.fail(Fault::Kind::IllegalAddress, op, lane,
              what(access, bytes, "global", address) + ", which is constant, " +
                  memory.describe(address));
  window = {allocation->begin, allocation->bytes, allocation->host};
  const Checks &checks = warp.worker.launch.checks;
  if (!checks.planned || allocation->kind == DeviceMemory::Kind::Module)
    return;
  auto inside = [&](const std::vector<Range> &ranges) {
    for (const Range &range : ranges)
      if (address >= range.begin && address < range.end && bytes <= range.end - address) {
        uint64_t begin = std::max(range.begin, allocation->begin);
        uint64_t end = std::min(range.end, allocation->end());
        window = {begin, end - begin, allocation->host + (begin - allocation->begin)};
        return true;
      }
    return false;
  };
  if (inside(checks.writes) || (access == Access::Read && inside(checks.reads)))
    return;
  window = {};
  warp.fail(Fault::Kind::Unplanned, op, lane,
            what(access, bytes, "global", address) + " is outside the command's operands: " +
                plannedNearby(checks, address, access) + "; it lies " + memory.describe(address));
}

/// Sets the instruction's window to what it may touch around `address`.
static void refill(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                   Access access, Worker::Window &window) {
  findAllowed(warp, op, lane, address, bytes, access, window);
  const Checks &checks = warp.worker.launch.checks;
  if (!checks.busy.empty() || !checks.kept.empty())
    keepOffBusy(warp, op, lane, address, bytes, access, window);
}

uint8_t *globalBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                     Access access) {
  Worker::Window &window = warp.worker.windows[&op - warp.worker.kernel.ops.data()];
  uint64_t offset = address - window.begin;
  if (offset >= window.room || bytes > window.room - offset) {
    checkAligned(warp, op, lane, address, bytes, access, "global");
    refill(warp, op, lane, address, bytes, access, window);
  }
  checkAligned(warp, op, lane, address, bytes, access, "global");
  if (warp.worker.races)
    noteTouch(warp, op, lane, address, bytes, access);
  return window.host + (address - window.begin);
}

template <>
void resolve<Space::Global>(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access,
                            Pointers &at) {
  const Worker::Window window = warp.worker.windows[&op - warp.worker.kernel.ops.data()];
  if (op.target == 8 && window.room >= bytes && !warp.worker.races) {
    const uint64_t *base = warp.lanes<uint64_t>(op.a);
    uint64_t shift = static_cast<uint64_t>(op.immediate) - window.begin;
    uint64_t last = window.room - bytes, bad = 0, unaligned = 0;
    auto host = reinterpret_cast<uintptr_t>(window.host);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      uint64_t offset = base[lane] + shift;
      uint64_t isActive = 0 - static_cast<uint64_t>(mask >> lane & 1);
      bad |= static_cast<uint64_t>(offset > last) & isActive;
      unaligned |= (base[lane] + static_cast<uint64_t>(op.immediate)) & isActive;
      at[lane] = reinterpret_cast<uint8_t *>(host + offset); // of inactive lanes: anything
    }
    if (!bad && !(unaligned & (bytes - 1)))
      return;
  }
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      at[lane] = globalBytes(warp, op, lane, laneAddress(warp, op, lane), bytes, access);
}

//===-- shared memory -------------------------------------------------------------------------===//

uint8_t *sharedBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                     Access access) {
  Block &block = warp.block;
  uint8_t *written = block.written.data() + address;
  if (address >= block.shared.size() || bytes > block.shared.size() - address ||
      memchr(written, kOutside, bytes))
    warp.fail(Fault::Kind::IllegalAddress, op, lane,
              concat(what(access, bytes, "shared", address), ", outside the block's variables"));
  checkAligned(warp, op, lane, address, bytes, access, "shared");
  if (access == Access::Write)
    memset(written, kWritten, bytes);
  else
    for (unsigned i = 0; i < bytes; ++i)
      if (written[i] != kWritten)
        warp.fail(Fault::Kind::Uninitialized, op, lane,
                  concat(what(access, bytes, "shared", address), ", whose byte ", i,
                         written[i] == kCopyPending
                             ? " is on its way by cp.async and was not waited for"
                             : " was never written by this block"));
  if (warp.worker.races)
    noteTouch(warp, op, lane, kSharedWindow + address, bytes, access);
  return block.shared.data() + address;
}

template <>
void resolve<Space::Shared>(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access,
                            Pointers &at) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      at[lane] = sharedBytes(warp, op, lane, laneAddress(warp, op, lane), bytes, access);
}

//===-- the thread's own memory and parameters ------------------------------------------------===//

static uint8_t *localBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address,
                           unsigned bytes, Access access) {
  uint64_t size = warp.worker.kernel.localBytes;
  if (address >= size || bytes > size - address)
    warp.fail(Fault::Kind::IllegalAddress, op, lane,
              concat(what(access, bytes, "local", address), ", the thread has ", size, " bytes"));
  checkAligned(warp, op, lane, address, bytes, access, "local");
  return warp.local.data() + lane * size + address;
}

static uint8_t *paramBytes(Warp &warp, const Op &op, unsigned lane, uint64_t address,
                           unsigned bytes, Access access) {
  const std::vector<uint8_t> &params = warp.worker.launch.params;
  if (address >= params.size() || bytes > params.size() - address || access != Access::Read)
    warp.fail(Fault::Kind::IllegalAddress, op, lane,
              concat(what(access, bytes, "parameter", address), ", the kernel has ", params.size(),
                     " bytes to read"));
  checkAligned(warp, op, lane, address, bytes, access, "parameter");
  return const_cast<uint8_t *>(params.data()) + address;
}

template <>
void resolve<Space::Local>(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access,
                           Pointers &at) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      at[lane] = localBytes(warp, op, lane, laneAddress(warp, op, lane), bytes, access);
}

template <>
void resolve<Space::Param>(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access,
                           Pointers &at) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (mask >> lane & 1)
      at[lane] = paramBytes(warp, op, lane, laneAddress(warp, op, lane), bytes, access);
}

//===-- generic addresses ---------------------------------------------------------------------===//

template <>
void resolve<Space::Generic>(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Access access,
                             Pointers &at) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    uint64_t address = laneAddress(warp, op, lane);
    if (address - kSharedWindow < kWindowBytes)
      at[lane] = sharedBytes(warp, op, lane, address - kSharedWindow, bytes, access);
    else if (address - kLocalWindow < kWindowBytes)
      at[lane] = localBytes(warp, op, lane, address - kLocalWindow, bytes, access);
    else if (address - kParamWindow < kWindowBytes)
      at[lane] = paramBytes(warp, op, lane, address - kParamWindow, bytes, access);
    else
      at[lane] = globalBytes(warp, op, lane, address, bytes, access);
  }
}

} // namespace stow::sim
