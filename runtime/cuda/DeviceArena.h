// The arena's memory on a GPU, which is taken last.
//
//   addresses   |<--------------------- reserved ---------------------->|
//   rehearsal   | piece | piece | piece | piece | piece | piece | piece |   one allocation, at all of them
//   afterwards  |           an allocation of the arena's size           |
//
// Libraries bring their code to the device when a call runs for the first time, and a graph is captured with the
// addresses that it uses. The addresses are therefore there before the memory is: a rehearsal puts a piece of memory
// behind all of them, with which commands may run for the sake of what they load, and what they compute is lost. What a
// process takes beside its arena is all there, and known, when the arena is taken.
//
// By CUDA's functions for virtual memory (docs.nvidia.com/cuda/cuda-driver-api, "Virtual Memory Management"; one
// allocation at several addresses: the programming guide's "Virtual Aliasing Support"). Where a GPU has none, or they
// fail, the arena is taken at once.
#pragma once

#include "runtime/base/Bytes.h"
#include "runtime/cuda/Driver.h"

#include <string>
#include <vector>

namespace stow::cuda {

class DeviceArena {
public:
  /// Reserves addresses for `bytes` bytes on GPU `device`, whose context is current in this thread, as it is in all
  /// calls. `isShared`: other processes of the machine may map the memory, and networks read and
  /// write it where the GPU lets them, as NCCL does with what is registered.
  DeviceArena(const Driver &driver, int device, Bytes bytes, bool isShared = false);
  /// Nothing may be on its way to or from the arena.
  ~DeviceArena();
  DeviceArena(const DeviceArena &) = delete;
  DeviceArena &operator=(const DeviceArena &) = delete;

  /// Where it lies; without reserved addresses 0 before it is taken.
  Address address() const { return first; }
  bool isReserved() const { return reservedBytes > 0; }
  bool isTaken() const { return taken; }

  /// Lets commands use the addresses, without relying on what is there. False where that cannot be had: then nothing is
  /// reserved any more, and there is an obstacle.
  bool rehearse();
  /// Device memory that the rehearsal takes; 0 before and after it.
  Bytes rehearsalBytes() const { return taken || mappings.empty() ? 0 : pieceBytes; }
  /// Ends the rehearsal, of which nothing may run any more, and takes the memory, whose content is undefined. False
  /// where the device does not have it; throws Error(BadInput) for other failures.
  bool take();

  /// Why the arena cannot be taken last; empty where it can.
  const std::string &obstacle() const { return why; }

private:
  struct Mapping {
    Address address = 0;
    Bytes bytes = 0;
  };

  Result reserve(int device);
  Result map(Bytes bytes, Bytes count);
  void unmap();
  void leaveAddresses();

  const Driver &driver;
  const Bytes bytes; ///< of the arena
  AllocationProperties properties = {};
  Bytes granularity = 1;
  Bytes pieceBytes = 0, pieces = 0; ///< of the rehearsal
  Bytes reservedBytes = 0;
  Address first = 0;
  AllocationHandle memory = 0; ///< behind the mappings
  std::vector<Mapping> mappings;
  bool taken = false;
  std::string why;
};

} // namespace stow::cuda
