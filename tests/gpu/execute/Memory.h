// Device memory: addresses that the host cannot dereference, and the checks of every access.
//
// Device addresses lie in a range of the process that is reserved without any right to access it, so
// that a host which touches one is stopped by the machine; the bytes lie elsewhere. No address is used
// twice, so that nothing reads through a pointer that was freed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace stow::sim {

/// What a kernel did wrong; the message names kernel, PTX line, block and thread.
struct Fault : std::runtime_error {
  enum class Kind {
    IllegalAddress,
    Misaligned,
    IllegalInstruction,
    Assertion,
    Trap,
    Barrier,
    Race,
    Uninitialized,
    Unplanned,
    Timeout,
    BadLaunch
  };
  Fault(Kind kind, const std::string &message) : std::runtime_error(message), kind(kind) {}
  Kind kind;
};

/// Bytes [begin, end) of the device's address space.
struct Range {
  uint64_t begin = 0, end = 0;
  std::string name; ///< of a planned operand, for messages
};

// Windows of the generic address space that are no global memory.
inline constexpr uint64_t kDeviceBase = 0x200000000000, kDeviceLimit = 0x2F0000000000;
inline constexpr uint64_t kSharedWindow = 0x2F0000000000, kLocalWindow = 0x2F1000000000,
                          kParamWindow = 0x2F2000000000, kWindowBytes = 0x1000000000;

class DeviceMemory {
public:
  enum class Kind { Device, Module, PinnedHost };
  struct Allocation {
    uint64_t begin = 0, bytes = 0;
    uint8_t *host = nullptr;
    Kind kind = Kind::Device;
    int number = 0;
    std::string name;
    bool readOnly = false;
    bool isMapped = false;  ///< at addresses that were reserved before
    bool isAliased = false; ///< some of its memory is at other addresses, too
    uint64_t end() const { return begin + bytes; }
  };

  /// `capacity`: bytes that all device allocations together may have.
  explicit DeviceMemory(uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  /// A new allocation, filled with 0xFF (a NaN in every float type). Returns 0 when `capacity` does
  /// not hold it. Sizes are accounted for in units of 512 bytes.
  uint64_t allocate(uint64_t bytes, Kind kind = Kind::Device, const std::string &name = "");
  // Memory apart from its addresses. False, or 0, where the arguments are not as the driver's documentation has them, or where a
  // reservation is not mapped from its beginning on, in one go. Memory that is at several addresses has bytes of its own at each.
  uint64_t reserve(uint64_t bytes, uint64_t alignment);
  bool unreserve(uint64_t address, uint64_t bytes);
  uint64_t create(uint64_t bytes); ///< a number for it; 0 when `capacity` does not hold it
  bool drop(uint64_t memory);      ///< it goes with its last mapping
  bool map(uint64_t address, uint64_t bytes, uint64_t memory);
  bool unmap(uint64_t address, uint64_t bytes);
  /// All that is mapped from `address` on, `bytes`, is an allocation from now on, until one of its mappings ends.
  bool allow(uint64_t address, uint64_t bytes);

  /// Makes host memory accessible under its own address.
  void addPinned(void *memory, uint64_t bytes);
  /// False when no allocation of that kind begins at `address`.
  bool release(uint64_t address, Kind kind);
  void setReadOnly(uint64_t address);

  /// The allocation that holds `address`; null: none.
  const Allocation *find(uint64_t address) const;
  /// Where the bytes [address, address + bytes) lie; null unless one allocation holds them all.
  uint8_t *host(uint64_t address, uint64_t bytes) const;
  /// "in allocation 3 (4096 bytes from 0x...), 16 bytes behind its end".
  std::string describe(uint64_t address) const;

  uint64_t capacity() const { return limit; }
  void setCapacity(uint64_t bytes) { limit = bytes; }
  uint64_t used() const { return usedBytes; }
  size_t count(Kind kind) const;

private:
  struct Created {
    uint64_t bytes = 0;
    int mappings = 0;
    bool isDropped = false;
  };
  struct Mapping {
    uint64_t bytes = 0, memory = 0;
  };
  struct Reservation {
    uint64_t bytes = 0, mapped = 0;
    std::map<uint64_t, Mapping> mappings; ///< by first address
  };
  bool place(uint64_t bytes, Kind kind, const std::string &name, uint64_t address);
  void forgetIfUnused(uint64_t memory);

  mutable std::mutex mutex;
  std::map<uint64_t, Reservation> reservations; ///< by first address
  std::map<uint64_t, Created> created;
  uint64_t lastCreated = 0;
  std::map<uint64_t, Allocation> allocations; ///< by first address
  uint64_t limit, usedBytes = 0, next = 0;
  int numbers = 0;
};

} // namespace stow::sim
