// The host as a device: one mapping for the arena, commands on the process's thread pool. Binding
// turns a program into flat arrays, addresses instead of offsets and primitives instead of
// attributes; running walks those arrays and does nothing else.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/Arena.h"
#include "runtime/host/BoundCommand.h"

#include <vector>

namespace stow::host {

class HostDevice : public Device {
public:
  /// Throws Error(BadInput) when the machine has less memory available than the arena needs.
  explicit HostDevice(const DeviceOptions &options);

  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  void run(size_t graph, std::span<CommandTime> times) override;
  void runCommand(size_t graph, size_t command) override;
  OutsideMemory outsideMemory() const override { return outside; }

private:
  char *stage(Bytes offset, Bytes bytes) override { return arena.data() + offset; }
  void commit(Bytes offset, Bytes bytes) override {}
  const char *fetch(Bytes offset, Bytes bytes) override { return arena.data() + offset; }
  void set(Bytes offset, Bytes bytes, uint8_t value) override;

  Arena arena;
  std::vector<std::vector<BoundCommand>> graphs;
  OutsideMemory outside;
};

} // namespace stow::host
