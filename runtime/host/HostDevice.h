// The host as a device: one mapping for the arena, commands on the process's thread pool. Binding
// turns a program into flat arrays, addresses instead of offsets and primitives instead of
// attributes; running walks those arrays and does nothing else.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/AllReduce.h"
#include "runtime/host/Arena.h"
#include "runtime/host/BoundCommand.h"
#include "runtime/host/ExchangeLane.h"
#include "runtime/host/SlowMemory.h"

#include <vector>

namespace stow::host {

class HostDevice : public Device {
public:
  /// Throws Error(BadInput) when the machine has less memory available than the arena needs.
  explicit HostDevice(const DeviceOptions &options);

  /// Opens the file of slow memory, too, where buffers of the program travel. Throws Error(BadInput) where
  /// there is no room for it.
  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  void run(size_t graph, std::span<CommandTime> times) override;
  void runCommand(size_t graph, size_t command) override;
  OutsideMemory outsideMemory() const override { return outside; }
  std::optional<SlowTraffic> slowTraffic() const override;
  double copySeconds(size_t graph, size_t copy) const override;
  std::vector<std::string> notes() const override;
  std::optional<ExchangeWaits> exchangeWaits() const override;

private:
  char *stage(Bytes offset, Bytes bytes) override;
  void commit(Bytes offset, Bytes bytes) override;
  const char *fetch(Bytes offset, Bytes bytes) override;
  void set(Bytes offset, Bytes bytes, uint8_t value) override;

  /// The collectives that a graph starts, by their own numbers.
  struct Started {
    std::vector<size_t> onLane;                       ///< the lane's numbers
    std::unique_ptr<SumsTogether> together = nullptr; ///< the latest, to which more may come
  };
  std::unique_ptr<LibraryCall> bindExchange(const Command &command, Started &started);
  std::unique_ptr<LibraryCall> bindStart(const Command &command, std::unique_ptr<Exchange> exchange,
                                         Started &started);
  template <typename Action> void orCancelCopies(const Action &action);
  void requireArena() const;
  SlowMemory &slowMemory();

  Arena arena;
  std::optional<SlowMemory> slow;    ///< its threads end before the arena does
  std::optional<ExchangeLane> lane;  ///< likewise; absent where no collective is started
  std::vector<char> startsExchanges; ///< by graph
  int64_t runsOfLane = 0;            ///< that started collectives
  std::vector<std::vector<BoundCommand>> graphs;
  OutsideMemory outside;
  std::string lost; ///< why nothing in the arena can be had any more; empty: it can
};

} // namespace stow::host
