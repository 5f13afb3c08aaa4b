#include "runtime/host/Arena.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include <sys/mman.h>

namespace stow::host {

namespace {

constexpr Bytes hugePageBytes = Bytes{2} << 20;
constexpr Bytes pageBytes = 4096;

/// Reads the number a file such as memory.max begins with; false when there is none ("max").
bool readNumber(const char *path, Bytes &value) {
  std::ifstream in(path);
  return static_cast<bool>(in >> value);
}

} // namespace

Bytes availableMemory() {
  Bytes available = std::numeric_limits<Bytes>::max();
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  Bytes kibibytes = 0, sum = 0;
  bool found = false;
  while (in >> key >> kibibytes && std::getline(in, unit)) {
    if (key == "MemAvailable:" || key == "SwapFree:") {
      sum += kibibytes * 1024;
      found |= key == "MemAvailable:";
    }
  }
  if (found)
    available = sum;
  // What the container already uses is mostly page cache, which it gives back: only a limit that is
  // too small as a whole is certain.
  Bytes limit = 0;
  if (readNumber("/sys/fs/cgroup/memory.max", limit))
    available = std::min(available, limit);
  return available;
}

Arena::Arena(Bytes bytes) : sizeBytes(std::max<Bytes>(bytes, 1)) {
  auto fail = [&](const std::string &why) {
    throw Error::badInput("the arena needs " + formatBytesExact(sizeBytes) + ", but " + why +
                          "; compile with a smaller --memory-budget or --batch");
  };
  Bytes available = availableMemory();
  if (sizeBytes > available)
    fail("this machine has " + formatBytes(available) + " available");
  // Large arenas start at a huge page; the head of the mapping before it is never touched.
  Bytes alignment = sizeBytes >= hugePageBytes ? hugePageBytes : pageBytes;
  mappingBytes = static_cast<size_t>(alignUp(sizeBytes, alignment) + alignment);
  mapping = mmap(nullptr, mappingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    fail(std::string("the system refused it: ") + std::strerror(errno));
  base = reinterpret_cast<char *>(
      alignUp(static_cast<Bytes>(reinterpret_cast<uintptr_t>(mapping)), alignment));
  if (alignment == hugePageBytes) // advice only: without huge pages the arena works the same
    madvise(base, static_cast<size_t>(alignUp(sizeBytes, alignment)), MADV_HUGEPAGE);
}

Arena::~Arena() { munmap(mapping, mappingBytes); }

} // namespace stow::host
