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
  const uint64_t address = next;
  if (!place(bytes, kind, name, address))
    return 0;
  next = roundUp(next + whole, kGap) + kGap;
  if (kind == Kind::Device)
    usedBytes += whole;
  return address;
}

/// An allocation at these addresses. False where the host has no memory for it.
bool DeviceMemory::place(uint64_t bytes, Kind kind, const std::string &name, uint64_t address) {
  void *host = mmap(nullptr, roundUp(bytes, kUnit), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED)
    return false;
  memset(host, 0xFF, bytes);
  Allocation allocation;
  allocation.begin = address, allocation.bytes = bytes;
  allocation.host = static_cast<uint8_t *>(host);
  allocation.kind = kind, allocation.number = ++numbers, allocation.name = name;
  allocations[address] = allocation;
  return true;
}

uint64_t DeviceMemory::reserve(uint64_t bytes, uint64_t alignment) {
  std::lock_guard lock(mutex);
  if (bytes == 0)
    return 0;
  const uint64_t address = roundUp(next, std::max<uint64_t>(alignment, kUnit));
  next = roundUp(address + bytes, kGap) + kGap;
  reservations[address].bytes = bytes;
  return address;
}

bool DeviceMemory::unreserve(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.bytes != bytes ||
      !found->second.mappings.empty())
    return false;
  reservations.erase(found);
  return true;
}

uint64_t DeviceMemory::create(uint64_t bytes) {
  std::lock_guard lock(mutex);
  const uint64_t whole = roundUp(bytes, kUnit);
  if (bytes == 0 || whole > limit - std::min(limit, usedBytes))
    return 0;
  usedBytes += whole;
  created[++lastCreated].bytes = bytes;
  return lastCreated;
}

bool DeviceMemory::drop(uint64_t memory) {
  std::lock_guard lock(mutex);
  const auto found = created.find(memory);
  if (found == created.end() || found->second.isDropped)
    return false;
  found->second.isDropped = true;
  forgetIfUnused(memory);
  return true;
}

void DeviceMemory::forgetIfUnused(uint64_t memory) {
  const Created &one = created.at(memory);
  if (!one.isDropped || one.mappings > 0)
    return;
  usedBytes -= roundUp(one.bytes, kUnit);
  created.erase(memory);
}

bool DeviceMemory::map(uint64_t address, uint64_t bytes, uint64_t memory) {
  std::lock_guard lock(mutex);
  const auto one = created.find(memory);
  auto within = reservations.upper_bound(address);
  if (one == created.end() || one->second.bytes != bytes || within == reservations.begin())
    return false;
  auto &[begin, reservation] = *std::prev(within);
  if (address != begin + reservation.mapped || bytes > reservation.bytes - reservation.mapped ||
      allocations.contains(begin))
    return false;
  reservation.mapped += bytes;
  reservation.mappings[address] = {bytes, memory};
  one->second.mappings++;
  return true;
}

bool DeviceMemory::unmap(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex);
  auto within = reservations.upper_bound(address);
  if (within == reservations.begin())
    return false;
  auto &[begin, reservation] = *std::prev(within);
  const auto found = reservation.mappings.find(address);
  if (found == reservation.mappings.end() || found->second.bytes != bytes)
    return false;
  if (const auto open = allocations.find(begin); open != allocations.end()) {
    munmap(open->second.host, roundUp(open->second.bytes, kUnit));
    allocations.erase(open);
  }
  const uint64_t memory = found->second.memory;
  reservation.mappings.erase(found);
  if (reservation.mappings.empty())
    reservation.mapped = 0;
  created.at(memory).mappings--;
  forgetIfUnused(memory);
  return true;
}

bool DeviceMemory::allow(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.mapped != bytes || bytes == 0 ||
      allocations.contains(address) || !place(bytes, Kind::Device, "", address))
    return false;
  Allocation &open = allocations.at(address);
  open.isMapped = true;
  for (const auto &[begin, mapping] : found->second.mappings)
    open.isAliased |= created.at(mapping.memory).mappings > 1;
  return true;
}

void DeviceMemory::addPinned(void *memory, uint64_t bytes) {
  std::lock_guard lock(mutex);
  auto begin = reinterpret_cast<uint64_t>(memory);
  Allocation allocation;
  allocation.begin = begin, allocation.bytes = bytes;
  allocation.host = static_cast<uint8_t *>(memory);
  allocation.kind = Kind::PinnedHost, allocation.number = ++numbers;
  allocations[begin] = allocation;
}

bool DeviceMemory::release(uint64_t address, Kind kind) {
  std::lock_guard lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.kind != kind || found->second.isMapped)
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
