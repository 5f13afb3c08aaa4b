// A device for tests that proves that nobody cheats.
//
// It computes with the host's commands, but its arena is memory that nobody can touch except inside
// the calls of the door, and inside a command nobody but in the bytes that the plan gives to it:
//
//             closed     open      closed           a command's operands and workspace: open
//   arena  |----------|##====##|------------|       #  other bytes of the pages they touch: garbage
//          page       page     page                 -  pages of others: a touch ends the process
//
// Every command runs twice, from the same inputs. Bytes that it must not read hold other garbage in
// the second run: those of its pages that are no operand's, operands that it only writes, its
// workspace, and what nothing has written yet or has died. Garbage that has changed was written,
// results that differ have read garbage. Inputs must be what they were. What dies is forgotten.
//
// Errors are Error(Internal) naming the command and the byte.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Footprint.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/BoundCommand.h"
#include "tests/runtime/device/GuardedMemory.h"

#include <string>
#include <vector>

namespace stow::test {

class GuardedDevice : public Device {
public:
  /// What was asked of the device, in order.
  struct Record {
    enum class Kind : uint8_t { Upload, Download, Fill, Run, Command };
    Kind kind;
    Bytes offset = 0, bytes = 0;   ///< of transfers and fills
    size_t graph = 0, command = 0; ///< of runs and commands
  };

  explicit GuardedDevice(const DeviceOptions &options);
  ~GuardedDevice() override;

  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  void run(size_t graph, std::span<CommandTime> times) override;
  OutsideMemory outsideMemory() const override { return {}; }

  const std::vector<Record> &records() const { return recorded; }

  /// Totals of all guarded devices of this process so far: "{"devices": 1, "uploads": ...}".
  static std::string report();

private:
  struct Guarded {
    host::BoundCommand command;
    std::vector<Segment> allowed; ///< what it may touch
    std::vector<Segment> pages;   ///< ranges of whole pages that `allowed` touches; no uses
    std::vector<Segment> gaps;    ///< the bytes of `pages` that are not in `allowed`; no uses
    std::vector<Segment> dying;
    std::string title;
    std::optional<size_t> copy =
        {}; ///< its number, of a command that starts a copy or waits for it
    bool isStart = false;
  };

  char *stage(Bytes offset, Bytes bytes) override;
  void commit(Bytes offset, Bytes bytes) override;
  const char *fetch(Bytes offset, Bytes bytes) override;
  void set(Bytes offset, Bytes bytes, uint8_t value) override;

  Bytes lend(Bytes bytes, GuardedMemory::Access access);
  void record(const Record &record);
  void runGuarded(const Guarded &guarded);
  void runCopy(const Guarded &guarded, const SlowCopy &copy);
  void dieWith(const Guarded &guarded);
  void runOnce(const Guarded &guarded, const std::vector<char> &before, uint64_t run);
  void compareRuns(const Guarded &guarded, const std::vector<char> &before,
                   const std::vector<char> &first);
  std::vector<char> copyOf(const std::vector<Segment> &segments) const;
  void putBack(const std::vector<Segment> &segments, const std::vector<char> &bytes);
  bool isGiven(Bytes at, uint8_t uses) const {
    return defined[static_cast<size_t>(at)] && uses & Reads;
  }

  GuardedMemory arena, staging;
  Poison poison = Poison::None;
  std::vector<uint8_t> defined; ///< by byte of the arena: written and not dead
  std::vector<std::vector<Guarded>> graphs;
  std::vector<std::vector<SlowCopy>> copies; ///< by graph and number
  std::vector<char> slow;                    ///< the slow memory
  std::vector<uint8_t> slowDefined;          ///< by byte of it
  std::vector<Record> recorded;
};

} // namespace stow::test
