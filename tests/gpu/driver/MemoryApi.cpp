// Device memory, pinned host memory, copies.
#include "runtime/base/Concat.h"
#include "tests/gpu/driver/State.h"

#include <cstdlib>
#include <cstring>

using namespace stow::sim;
using stow::append;
using stow::concat;

namespace {

using Kind = DeviceMemory::Kind;

/// A call about memory that the driver does not have; what is no memory of the driver is the program's own.
void requireDeviceBytes(const Driver &driver, CUdeviceptr address, size_t bytes, const char *what) {
  require(bytes == 0 || driver.memory->host(address, bytes),
          concat(what, " of ", bytes,
                 " bytes is not inside one allocation: ", driver.memory->describe(address)));
}

/// The bytes that work reads or writes now that it runs: its memory may be gone meanwhile.
uint8_t *deviceBytes(Driver &driver, CUdeviceptr address, size_t bytes, const char *what) {
  uint8_t *host = bytes ? driver.memory->host(address, bytes) : nullptr;
  if (bytes && !host)
    throw Fault(Fault::Kind::IllegalAddress,
                concat(what, " of ", bytes, " bytes is not inside one allocation any more: ",
                       driver.memory->describe(address)));
  if (const std::string other = driver.busyWith(address, bytes); !other.empty())
    throw Fault(Fault::Kind::Race, concat("race: ", what, " of ", bytes, " bytes has bytes that ",
                                          other, " writes, and nothing orders the two"));
  return host;
}

bool isPinned(Driver &driver, const void *memory) {
  const auto *found = driver.memory->find(reinterpret_cast<uint64_t>(memory));
  return found && found->kind == Kind::PinnedHost;
}

void copy(Driver &driver, void *to, const void *from, size_t bytes) {
  if (CUresult result = driver.injected("copy"))
    throw Refusal{result, "a copy was asked to fail by the test"};
  if (bytes)
    memmove(to, from, bytes);
  driver.counters.copies++;
  driver.counters.copiedBytes += bytes;
  driver.now += 2e-6 + static_cast<double>(bytes) / 25e9;
}

/// How a copy is submitted: waited for at once where `wait` holds.
void submitCopy(Driver &driver, CUstream stream, std::function<void()> run, bool wait,
                std::vector<Range> reads, std::vector<Range> writes) {
  stream = driver.requireStream(stream);
  if (wait && stream->capture)
    wait = false; // becomes a node
  else if (wait)
    driver.counters.synchronizations++;
  driver.submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, std::move(run));
  driver.noteCopy(stream, std::move(reads), std::move(writes));
  if (wait)
    driver.finishStream(stream);
}

void noteCopy(Driver &driver, CUdeviceptr device, const void *host, size_t bytes, CUstream stream) {
  driver.note = concat(
      "bytes=", bytes, " device=", device, " host=", reinterpret_cast<uintptr_t>(host),
      " pinned=", isPinned(driver, host) ? 1 : 0, " stream=", driver.requireStream(stream)->number);
}

std::vector<Range> hostRange(const void *memory, size_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  return {{begin, begin + bytes, ""}};
}

void toDevice(Driver &driver, CUdeviceptr to, const void *from, size_t bytes, CUstream stream,
              bool wait) {
  require(from || bytes == 0, "a copy from nowhere");
  requireDeviceBytes(driver, to, bytes, "the target of a copy");
  noteCopy(driver, to, from, bytes, stream);
  submitCopy(driver, stream,
             [=, &driver] {
               copy(driver, deviceBytes(driver, to, bytes, "the target of a copy"), from, bytes);
             },
             wait || !isPinned(driver, from), hostRange(from, bytes),
             {{to, to + bytes, ""}}); // pageable memory is read before the call returns
}

void toHost(Driver &driver, void *to, CUdeviceptr from, size_t bytes, CUstream stream, bool wait) {
  require(to || bytes == 0, "a copy to nowhere");
  requireDeviceBytes(driver, from, bytes, "the source of a copy");
  require(!bytes || !driver.memory->find(from)->isAliased,
          "a copy to the host of memory that is at several addresses");
  noteCopy(driver, from, to, bytes, stream);
  submitCopy(
      driver, stream,
      [=, &driver] {
        copy(driver, to, deviceBytes(driver, from, bytes, "the source of a copy"), bytes);
      },
      wait || !isPinned(driver, to), {{from, from + bytes, ""}}, hostRange(to, bytes));
}

void inside(Driver &driver, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  requireDeviceBytes(driver, from, bytes, "the source of a copy");
  requireDeviceBytes(driver, to, bytes, "the target of a copy");
  driver.note = concat("bytes=", bytes, " from=", from, " to=", to,
                       " stream=", driver.requireStream(stream)->number);
  submitCopy(driver, stream,
             [=, &driver] {
               copy(driver, deviceBytes(driver, to, bytes, "the target of a copy"),
                    deviceBytes(driver, from, bytes, "the source of a copy"), bytes);
             },
             false, {{from, from + bytes, ""}}, {{to, to + bytes, ""}});
}

template <class T>
void set(Driver &driver, CUdeviceptr to, T value, size_t count, CUstream stream) {
  require(to % sizeof(T) == 0, "the address of a memset is not aligned");
  requireDeviceBytes(driver, to, count * sizeof(T), "the target of a memset");
  driver.submit(driver.requireStream(stream), CU_GRAPH_NODE_TYPE_MEMSET, [=, &driver] {
    uint8_t *bytes = deviceBytes(driver, to, count * sizeof(T), "the target of a memset");
    if (const std::string other = driver.keptBy(to, count * sizeof(T)); !other.empty())
      throw Fault(Fault::Kind::Race,
                  concat("race: a memset of ", count * sizeof(T), " bytes writes bytes that ",
                         other, " reads, and nothing orders the two"));
    for (size_t i = 0; i < count; ++i)
      memcpy(bytes + i * sizeof(T), &value, sizeof(T));
    driver.counters.sets++;
    driver.now += 2e-6;
  });
}

void allocatePinned(Driver &driver, void **memory, size_t bytes) {
  driver.requireNoCapture("an allocation");
  require(bytes > 0, "an allocation of no bytes");
  *memory = nullptr;
  if (posix_memalign(memory, 4096, (bytes + 4095) / 4096 * 4096))
    throw std::bad_alloc();
  memset(*memory, 0xFF, bytes);
  driver.memory->addPinned(*memory, bytes);
  driver.counters.hostAllocations++;
  driver.note = concat("bytes=", bytes, " address=", reinterpret_cast<uintptr_t>(*memory));
}

} // namespace

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  return call("cuMemGetInfo", Needs::Context, [&](Driver &driver) {
    *total = driver.memory->capacity();
    *free = driver.freeBytes();
  });
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  return call("cuMemAlloc", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuMemAlloc");
    require(bytes > 0, "an allocation of no bytes");
    driver.note = concat("bytes=", bytes);
    *address = bytes <= driver.freeBytes() ? driver.memory->allocate(bytes) : 0;
    require(*address,
            concat("cuMemAlloc of ", bytes, " bytes: ", driver.freeBytes(), " of ",
                   driver.memory->capacity(), " are free"),
            CUDA_ERROR_OUT_OF_MEMORY);
    append(driver.note, " address=", *address);
    StandInCounters &counters = driver.counters;
    counters.allocations++;
    counters.allocatedBytes = driver.memory->used();
    counters.peakBytes = std::max(counters.peakBytes, counters.allocatedBytes);
  });
}

/// Waits for the device, as the driver does.
CUresult cuMemFree(CUdeviceptr address) {
  return call("cuMemFree", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuMemFree");
    if (!address)
      return;
    driver.counters.synchronizations++;
    driver.finishAll();
    require(driver.memory->release(address, Kind::Device),
            "cuMemFree of an address that no cuMemAlloc gave: " + driver.memory->describe(address));
    driver.counters.frees++;
    driver.counters.allocatedBytes = driver.memory->used();
  });
}

//===-- memory apart from its addresses -------------------------------------------------------===//

namespace {

void requireProperties(const Driver &driver, const CUmemAllocationProp *properties) {
  require(driver.granularity > 0, "STANDIN_GRANULARITY is 0", CUDA_ERROR_NOT_SUPPORTED);
  require(properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
              (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
               properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
              properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              properties->location.id >= 0 && properties->location.id < driver.devices &&
              !properties->win32HandleMetaData && properties->allocFlags.compressionType == 0 &&
              properties->allocFlags.usage == 0,
          "properties that are not those of memory of this device");
}

void requireUnits(const Driver &driver, size_t bytes, const char *what) {
  require(bytes > 0 && bytes % driver.granularity == 0,
          concat(what, " of ", bytes, " bytes, which are no multiple of ", driver.granularity));
}

} // namespace

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
  return call("cuMemGetAllocationGranularity", Needs::Driver, [&](Driver &driver) {
    require(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
                option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            "a granularity that is neither the least nor the recommended one");
    requireProperties(driver, properties);
    *bytes = driver.granularity;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags) {
  return call("cuMemAddressReserve", Needs::Driver, [&](Driver &driver) {
    requireUnits(driver, bytes, "addresses");
    require(alignment == 0 && wanted == 0 && flags == 0,
            "an alignment, an address or flags, which the stand-in does not know");
    *address = driver.memory->reserve(bytes, driver.granularity);
    driver.note = concat("bytes=", bytes, " address=", *address);
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return call("cuMemAddressFree", Needs::Driver, [&](Driver &driver) {
    require(driver.memory->unreserve(address, bytes),
            "addresses that were not reserved so, or are in use");
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *memory, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags) {
  return call("cuMemCreate", Needs::Driver, [&](Driver &driver) {
    driver.requireNoCapture("cuMemCreate");
    requireProperties(driver, properties);
    requireUnits(driver, bytes, "memory");
    require(flags == 0, "flags of cuMemCreate must be 0");
    driver.note = concat("bytes=", bytes);
    *memory = bytes <= driver.freeBytes() ? driver.memory->create(bytes) : 0;
    require(*memory,
            concat("cuMemCreate of ", bytes, " bytes: ", driver.freeBytes(), " of ",
                   driver.memory->capacity(), " are free"),
            CUDA_ERROR_OUT_OF_MEMORY);
    append(driver.note, " memory=", *memory,
           " shared=", properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE ? 1 : 0,
           " remote=", properties->allocFlags.gpuDirectRDMACapable != 0 ? 1 : 0);
    StandInCounters &counters = driver.counters;
    counters.allocations++;
    counters.allocatedBytes = driver.memory->used();
    counters.peakBytes = std::max(counters.peakBytes, counters.allocatedBytes);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
  return call("cuMemRelease", Needs::Driver, [&](Driver &driver) {
    require(driver.memory->drop(memory), "memory that no cuMemCreate gave");
    driver.counters.frees++;
    driver.counters.allocatedBytes = driver.memory->used();
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle memory, unsigned long long flags) {
  return call("cuMemMap", Needs::Driver, [&](Driver &driver) {
    driver.requireNoCapture("cuMemMap");
    require(offset == 0 && flags == 0, "offset and flags of cuMemMap must be 0");
    driver.note = concat("address=", address, " bytes=", bytes, " memory=", memory);
    require(driver.memory->map(address, bytes, memory),
            "all of a piece of memory comes behind what is mapped of reserved addresses, and to "
            "which nothing has access: not so here");
  });
}

/// Does not wait for the device: work that touches the memory and is not done finds it gone.
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return call("cuMemUnmap", Needs::Driver, [&](Driver &driver) {
    driver.requireNoCapture("cuMemUnmap");
    require(driver.memory->unmap(address, bytes), "addresses that no cuMemMap gave memory to");
    driver.counters.allocatedBytes = driver.memory->used();
    driver.runReady("cuMemUnmap");
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                        size_t count) {
  return call("cuMemSetAccess", Needs::Driver, [&](Driver &driver) {
    require(count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                access->location.id >= 0 && access->location.id < driver.devices &&
                access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            "access for others than the device");
    require(driver.memory->allow(address, bytes),
            "addresses that are not all that is mapped of a reservation");
  });
}

CUresult cuMemAllocHost(void **memory, size_t bytes) {
  return call("cuMemAllocHost", Needs::Context,
              [&](Driver &driver) { allocatePinned(driver, memory, bytes); });
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", Needs::Context, [&](Driver &driver) {
    require((flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                       CU_MEMHOSTALLOC_WRITECOMBINED)) == 0,
            "flags that cuMemHostAlloc does not have");
    allocatePinned(driver, memory, bytes);
  });
}

CUresult cuMemFreeHost(void *memory) {
  return call("cuMemFreeHost", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuMemFreeHost");
    driver.counters.synchronizations++;
    driver.finishAll();
    require(driver.memory->release(reinterpret_cast<uint64_t>(memory), Kind::PinnedHost),
            "cuMemFreeHost of memory that is not pinned");
    free(memory);
  });
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned) {
  return call("cuMemHostRegister", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuMemHostRegister");
    require(bytes > 0 && !isPinned(driver, memory), "memory that is pinned already, or none");
    driver.memory->addPinned(memory, bytes);
  });
}

CUresult cuMemHostUnregister(void *memory) {
  return call("cuMemHostUnregister", Needs::Context, [&](Driver &driver) {
    driver.counters.synchronizations++;
    driver.finishAll();
    require(driver.memory->release(reinterpret_cast<uint64_t>(memory), Kind::PinnedHost),
            "memory that is not registered");
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned) {
  return call("cuMemHostGetDevicePointer", Needs::Context, [&](Driver &driver) {
    require(isPinned(driver, memory), "memory that is not pinned");
    *address = reinterpret_cast<CUdeviceptr>(memory);
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  return call("cuMemGetAddressRange", Needs::Context, [&](Driver &driver) {
    const auto *found = driver.memory->find(address);
    require(found, driver.memory->describe(address), CUDA_ERROR_NOT_FOUND);
    if (base)
      *base = found->begin;
    if (bytes)
      *bytes = found->bytes;
  });
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr address) {
  return call("cuPointerGetAttribute", Needs::Context, [&](Driver &driver) {
    const auto *found = driver.memory->find(address);
    require(found, "an address that the driver does not know");
    if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned *>(data) =
          found->kind == Kind::PinnedHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    else if (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
      *static_cast<CUdeviceptr *>(data) = address;
    else
      throw Refusal{CUDA_ERROR_INVALID_VALUE,
                    "a pointer attribute that the stand-in does not know"};
  });
}

//===-- copies --------------------------------------------------------------------------------===//

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return call("cuMemcpyHtoD", Needs::Context,
              [&](Driver &driver) { toDevice(driver, to, from, bytes, nullptr, true); });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return call("cuMemcpyHtoDAsync", Needs::Context,
              [&](Driver &driver) { toDevice(driver, to, from, bytes, stream, false); });
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoH", Needs::Context,
              [&](Driver &driver) { toHost(driver, to, from, bytes, nullptr, true); });
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync", Needs::Context,
              [&](Driver &driver) { toHost(driver, to, from, bytes, stream, false); });
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoD", Needs::Context,
              [&](Driver &driver) { inside(driver, to, from, bytes, nullptr); });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoDAsync", Needs::Context,
              [&](Driver &driver) { inside(driver, to, from, bytes, stream); });
}

/// Between any two places: an address says where it lies.
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  auto isDevice = [](CUdeviceptr address) {
    return address - kDeviceBase < kDeviceLimit - kDeviceBase;
  };
  if (isDevice(to) && isDevice(from))
    return cuMemcpyDtoDAsync(to, from, bytes, stream);
  if (isDevice(to))
    return cuMemcpyHtoDAsync(to, reinterpret_cast<const void *>(from), bytes, stream);
  if (isDevice(from))
    return cuMemcpyDtoHAsync(reinterpret_cast<void *>(to), from, bytes, stream);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return call("cuMemsetD8", Needs::Context,
              [&](Driver &driver) { set<uint8_t>(driver, to, value, count, nullptr); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return call("cuMemsetD8Async", Needs::Context,
              [&](Driver &driver) { set<uint8_t>(driver, to, value, count, stream); });
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return call("cuMemsetD16Async", Needs::Context,
              [&](Driver &driver) { set<uint16_t>(driver, to, value, count, stream); });
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return call("cuMemsetD32", Needs::Context,
              [&](Driver &driver) { set<uint32_t>(driver, to, value, count, nullptr); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return call("cuMemsetD32Async", Needs::Context,
              [&](Driver &driver) { set<uint32_t>(driver, to, value, count, stream); });
}
