// --check=canaries: every command alone, and every byte that it may not write held to what it was.
//
//   guard     arena                                            guard
//   |0xff...|-- tensors -- 0xff where nothing lives -- ... ---|0xff...|
//
// It stands between a run and any device that can run single commands. Behind each of them the whole
// arena and the guards around it come to the host and are compared with the copy that is kept there: what
// has changed must lie in results or workspace of the command, bytes that died with it hold the poison.
// This needs no room between buffers, sees writes at any distance inside arena and guards, and misses
// only those that write what was there. Reads are not seen; what they find of the dead is NaN.
//
// Copies to slow memory and back are made at their start. From there to its await a copy's buffer is nobody's: the
// command that changes what it read, or what it has brought, is named, also one whose result the plan puts there.
//
// It takes the host's memory once more, and a copy of the arena per command: some steps, not a training.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Footprint.h"

#include <functional>

namespace stow {

class CheckedDevice : public Device {
public:
  using Open = std::function<std::unique_ptr<Device>(const DeviceOptions &)>;

  /// `open` makes the device that runs the commands, with guards around the arena of `options`.
  CheckedDevice(const DeviceOptions &options, const Open &open);

  /// Poisons whatever is asked for.
  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  /// Throws Error(Internal) naming the command, its node, the first byte that it must not have changed
  /// and what lies there; where the device itself fails, its error with the command and its offsets.
  void run(size_t graph, std::span<CommandTime> times) override;
  OutsideMemory outsideMemory() const override { return inner->outsideMemory(); }
  std::optional<DriverMemory> driverMemory() const override { return inner->driverMemory(); }
  std::optional<SlowTraffic> slowTraffic() const override { return inner->slowTraffic(); }
  std::optional<ExchangeWaits> exchangeWaits() const override { return inner->exchangeWaits(); }
  std::vector<std::string> notes() const override { return inner->notes(); }
  std::string algorithms() const override { return inner->algorithms(); }

private:
  char *stage(Bytes offset, Bytes bytes) override;
  void commit(Bytes offset, Bytes bytes) override;
  const char *fetch(Bytes offset, Bytes bytes) override;
  void set(Bytes offset, Bytes bytes, uint8_t value) override;

  Bytes placeOf(Bytes offset) const;
  void compare(size_t graph, size_t command);
  [[noreturn]] void report(size_t graph, size_t command, Bytes at, char expected, char found) const;

  std::unique_ptr<Device> inner;
  Program program;         ///< with every offset behind the guard
  std::vector<char> known; ///< what arena and guards hold
  std::vector<std::vector<std::vector<Segment>>>
      writable; ///< by graph and command: disjoint, rising, without what a copy is reading or writing
  const char *staged = nullptr;
};

} // namespace stow
