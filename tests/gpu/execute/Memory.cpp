#include "tests/gpu/execute/Memory.h"
#include "runtime/base/Concat.h"

#include <cstring>
#include <iterator>
#include <sys/mman.h>

namespace stow::sim {

static constexpr uint64_t kUnit = 512, kGap = 1 << 20;

static uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static std::string hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

/// Takes the devices' address range away from the process; shared by all DeviceMemory of it, each
/// of which hands out its own part.
static uint64_t reservePart() {
  static std::mutex mutex;
  static uint64_t parts = 0;
  static void *reserved = nullptr;
  constexpr uint64_t kParts = 16, kPart = uint64_t{1} << 40;
  std::lock_guard lock(mutex);
  if (!reserved) {
    void *wanted = reinterpret_cast<void *>(kDeviceBase);
    uint64_t bytes = kLocalWindow + 2 * kWindowBytes - kDeviceBase;
    reserved = mmap(wanted, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (reserved != wanted) {
      reserved = nullptr;
      throw std::runtime_error("the range of device addresses from " + hex(kDeviceBase) +
                               " is in use in this process");
    }
  }
  return kDeviceBase + (parts++ % (kParts - 2)) * kPart;
}

DeviceMemory::DeviceMemory(uint64_t capacity) : limit(capacity), next(reservePart()) {}

DeviceMemory::~DeviceMemory() {
  for (auto &[begin, allocation] : allocations)
    if (allocation.kind != Kind::PinnedHost)
      munmap(allocation.host, roundUp(allocation.bytes, kUnit));
}

uint64_t DeviceMemory::allocate(uint64_t bytes, Kind kind, const std::string &name) {
  std::lock_guard lock(mutex);
  uint64_t whole = roundUp(bytes, kUnit);
  if (bytes == 0 || whole < bytes ||
      (kind == Kind::Device && whole > limit - std::min(limit, usedBytes)))
    return 0;
  void *host = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED)
    return 0;
  memset(host, 0xFF, bytes);
  Allocation allocation{next, bytes, static_cast<uint8_t *>(host), kind, ++numbers, name, false};
  next = roundUp(next + whole, kGap) + kGap;
  if (kind == Kind::Device)
    usedBytes += whole;
  allocations[allocation.begin] = allocation;
  return allocation.begin;
}

void DeviceMemory::addPinned(void *memory, uint64_t bytes) {
  std::lock_guard lock(mutex);
  auto begin = reinterpret_cast<uint64_t>(memory);
  allocations[begin] = {begin, bytes, static_cast<uint8_t *>(memory), Kind::PinnedHost, ++numbers,
                        "",    false};
}

bool DeviceMemory::release(uint64_t address, Kind kind) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.kind != kind)
    return false;
  uint64_t whole = roundUp(found->second.bytes, kUnit);
  if (kind != Kind::PinnedHost)
    munmap(found->second.host, whole);
  if (kind == Kind::Device)
    usedBytes -= whole;
  allocations.erase(found);
  return true;
}

void DeviceMemory::setReadOnly(uint64_t address) {
  std::lock_guard lock(mutex);
  allocations.at(address).readOnly = true;
}

const DeviceMemory::Allocation *DeviceMemory::find(uint64_t address) const {
  std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return nullptr;
  const Allocation &allocation = std::prev(after)->second;
  return address < allocation.end() ? &allocation : nullptr;
}

uint8_t *DeviceMemory::host(uint64_t address, uint64_t bytes) const {
  const Allocation *allocation = find(address);
  if (!allocation || bytes > allocation->end() - address)
    return nullptr;
  return allocation->host + (address - allocation->begin);
}

std::string DeviceMemory::describe(uint64_t address) const {
  std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) {
    if (after == allocations.end())
      return "there is no allocation";
    return concat(after->second.begin - address, " bytes before allocation ", after->second.number,
                  ", the first");
  }
  const Allocation &near = std::prev(after)->second;
  std::string name =
      concat("allocation ", near.number, near.name.empty() ? "" : " '" + near.name + "'", " (",
             near.bytes, " bytes from ", hex(near.begin), ")");
  if (address < near.end())
    return concat("at byte ", address - near.begin, " of ", name);
  return concat(address - near.end(), " bytes behind the end of ", name);
}

size_t DeviceMemory::count(Kind kind) const {
  std::lock_guard lock(mutex);
  size_t found = 0;
  for (auto &[begin, allocation] : allocations)
    found += allocation.kind == kind;
  return found;
}

} // namespace stow::sim
