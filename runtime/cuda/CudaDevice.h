// An NVIDIA GPU: the arena in its memory, the commands of a graph as one CUDA graph.
//
//   beginUpload  endUpload   run   download          calls, on one stream
//   |pinned A|---copy------->|                       two pinned blocks, in turns: the host fills one while
//   |pinned B|               |commands|              the other travels
//   |pinned C|<------------------------copy---|      waited for, and nothing else is
//
// The first run of a graph captures its commands; later runs launch what was captured. After bind()
// nothing is allocated but what the driver takes for the captured graphs.
#pragma once

#include "runtime/cuda/Products.h"
#include "runtime/device/Device.h"

#include <array>
#include <vector>

namespace stow::cuda {

class CudaDevice : public Device {
public:
  /// Takes the arena and three pinned blocks of options.stagingBytes on GPU 0 of the driver's order
  /// (CUDA_VISIBLE_DEVICES changes it). Throws Error(BadInput) where there is no driver, no GPU or too
  /// little free memory, with the sizes.
  explicit CudaDevice(const DeviceOptions &options);
  ~CudaDevice() override;

  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  void run(size_t graph, std::span<CommandTime> times) override;
  OutsideMemory outsideMemory() const override { return outside; }

private:
  char *stage(Bytes offset, Bytes bytes) override;
  void commit(Bytes offset, Bytes bytes) override;
  const char *fetch(Bytes offset, Bytes bytes) override;
  void set(Bytes offset, Bytes bytes, uint8_t value) override;

  /// A product, or one kernel with its parameters, whose addresses the launch reads.
  struct BoundCommand {
    std::unique_ptr<Product> product; ///< null: a kernel
    Function function = nullptr;
    unsigned blocks = 0, threads = 0;
    std::string name; ///< the user's node
    std::vector<uint64_t> parameters;
    std::vector<void *> addresses;
    std::vector<Operand> dying;
  };
  struct BoundGraph {
    std::vector<BoundCommand> commands;
    GraphExec executable = nullptr;
    std::vector<Event> marks; ///< around the commands; made by the first run that is timed
  };
  /// Pinned memory of the host, and when its last transfer has ended.
  struct Block {
    char *bytes = nullptr;
    Event done = nullptr;
  };

  BoundCommand bindCommand(const Command &command, const Program &program);
  BoundCommand bindKernel(const Command &command, const Program &program);
  void submit(const BoundCommand &command);
  GraphExec capture(const BoundGraph &graph);
  void runTimed(BoundGraph &graph, std::span<CommandTime> times);
  void takeArena();
  Block makeBlock();
  void release();

  const Driver &driver;
  int device = 0;
  Context context = nullptr;
  Stream stream = nullptr;
  Address arena = 0;
  std::array<Block, 2> uploads;
  size_t nextUpload = 0;
  Block downloads;
  Module module = nullptr;
  int multiprocessors = 1;
  std::vector<BoundGraph> graphs;
  OutsideMemory outside;
};

} // namespace stow::cuda
