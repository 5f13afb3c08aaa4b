#include "runtime/cuda/DeviceArena.h"

#include "runtime/base/Error.h"

#include <algorithm>

namespace stow::cuda {

namespace {

/// Of the rehearsal: little beside what a process takes anyway, and 140 GB are two thousand of them.
constexpr Bytes kMostPieceBytes = Bytes{64} << 20;

} // namespace

DeviceArena::DeviceArena(const Driver &driver, int device, Bytes bytes, bool isShared)
    : driver(driver), bytes(bytes), taken(bytes == 0) {
  if (taken)
    return;
  int isSupported = 0;
  if (isShared) {
    properties.handleTypes = kFileDescriptor;
    driver.require(driver.deviceGetAttribute(&isSupported, kRemoteAccessSupported, device),
                   "asking the GPU for access by networks");
    properties.remoteAccess = isSupported ? 1 : 0;
  }
  driver.require(driver.deviceGetAttribute(&isSupported, kVirtualMemorySupported, device),
                 "asking the GPU for virtual memory");
  if (!isSupported)
    why = "this GPU has no virtual memory management";
  else if (const Result result = reserve(device); result != 0)
    why = "reserving addresses failed: " + driver.describe(result);
}

/// The addresses, whole pieces of the rehearsal.
Result DeviceArena::reserve(int device) {
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, device};
  size_t unit = 0;
  Result result = driver.memGetAllocationGranularity(&unit, &properties, kGranularityRecommended);
  if (result == 0) {
    granularity = static_cast<Bytes>(unit);
    pieces = (bytes + kMostPieceBytes - 1) / kMostPieceBytes;
    pieceBytes = alignUp((bytes + pieces - 1) / pieces, granularity);
    result = driver.memAddressReserve(&first, static_cast<size_t>(pieces * pieceBytes), 0, 0, 0);
  }
  if (result == 0)
    reservedBytes = pieces * pieceBytes;
  else
    first = 0;
  return result;
}

DeviceArena::~DeviceArena() {
  unmap();
  if (isReserved())
    leaveAddresses();
  else if (first != 0)
    driver.memFree(first);
}

void DeviceArena::leaveAddresses() {
  driver.memAddressFree(first, static_cast<size_t>(reservedBytes));
  first = 0, reservedBytes = 0;
}

/// Puts `memory`, of `size` bytes, at the first `count` places of that size.
Result DeviceArena::map(Bytes size, Bytes count) {
  for (Bytes i = 0; i < count; ++i) {
    const Address at = first + static_cast<Address>(i * size);
    if (const Result result = driver.memMap(at, static_cast<size_t>(size), 0, memory, 0))
      return result;
    mappings.push_back({at, size});
  }
  const AccessDescription access = {properties.location, kAccessReadWrite};
  return driver.memSetAccess(first, static_cast<size_t>(count * size), &access, 1);
}

/// Results do not matter: what is left is of no use.
void DeviceArena::unmap() {
  for (const Mapping &mapping : mappings)
    driver.memUnmap(mapping.address, static_cast<size_t>(mapping.bytes));
  mappings.clear();
  if (memory != 0)
    driver.memRelease(memory);
  memory = 0;
}

bool DeviceArena::rehearse() {
  Result result = driver.memCreate(&memory, static_cast<size_t>(pieceBytes), &properties, 0);
  if (result == 0)
    result = map(pieceBytes, pieces);
  if (result == 0)
    return true;
  unmap();
  leaveAddresses();
  why = "taking memory to load with failed: " + driver.describe(result);
  return false;
}

bool DeviceArena::take() {
  unmap();
  const Bytes whole = alignUp(bytes, granularity);
  Result result = isReserved()
                      ? driver.memCreate(&memory, static_cast<size_t>(whole), &properties, 0)
                      : driver.memAlloc(&first, static_cast<size_t>(bytes));
  if (result == kOutOfMemory)
    return false;
  if (result == 0 && isReserved())
    result = map(whole, 1);
  driver.require(result, "taking the arena");
  taken = true;
  return true;
}

} // namespace stow::cuda
