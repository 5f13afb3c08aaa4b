// An NVIDIA GPU: the arena in its memory, the commands of a graph as one CUDA graph.
//
//   host    |fill A|        |fill B|           await                 |fill A|
//   stream          copy A  commands ... k ... copy of the loss   B to its place  commands ... k ...
//   copies                               `- copy B --------------------'                       `- copy A
//
// Commands are on one stream, in the order of the calls. What a run reads is packed into one of two pinned
// blocks, in turns; the host fills one while the stream works on the other. Where the program has places for
// next inputs, free from command k of a graph on, the copy of a block waits for that command alone, on a second stream; the
// first one waits for the copy before anything else is put on it, and brings what came to where it was
// uploaded to, so that calls take effect in their order. All other copies are on the first stream. The event
// behind a run's readback is all that the host waits for: it says that the block of that run is free, too.
//
// What travels to slow memory does so beside the commands, on two streams more, which fork from the first and join it
// (SlowMemory.h).
//
// Any thread may call, one at a time: each call makes the context that of its thread.
//
// bind() captures the commands of every graph and makes them executable; runs launch that. The arena is taken
// behind that (DeviceArena.h), or by the first transfer that comes before. After bind() nothing is allocated.
#pragma once

#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/DeviceArena.h"
#include "runtime/cuda/LibraryCall.h"
#include "runtime/cuda/SlowMemory.h"
#include "runtime/cuda/Tuned.h"
#include "runtime/device/Device.h"

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace stow::cuda {

/// What the arena's address is a multiple of: more makes no difference to a library or a kernel.
inline constexpr uint64_t kArenaAlignment = 256;

class CudaDevice : public Device {
public:
  /// Reserves the arena's addresses, aligned to kArenaAlignment, and takes three pinned blocks of options.stagingBytes on
  /// GPU options.gpu of the driver's order (CUDA_VISIBLE_DEVICES changes it), or the first. Throws
  /// Error(BadInput) where there is no driver, no such GPU or too little free memory, with the sizes.
  explicit CudaDevice(const DeviceOptions &options);
  ~CudaDevice() override;

  void bind(const Program &program, const ProgramImage &image, Poison poison) override;
  void run(size_t graph, std::span<CommandTime> times) override;
  void runCommand(size_t graph, size_t command) override;
  OutsideMemory outsideMemory() const override { return outside; }
  std::optional<DriverMemory> driverMemory() const override;
  std::vector<std::string> notes() const override;
  std::string algorithms() const override { return tuned.text(); }
  std::optional<SlowTraffic> slowTraffic() const override;
  double copySeconds(size_t graph, size_t copy) const override;

private:
  char *stage(Bytes offset, Bytes bytes) override;
  void commit(Bytes offset, Bytes bytes) override;
  void send(Bytes offset, Bytes bytes, Bytes end) override;
  void giveUp(Bytes bytes) override;
  const char *fetch(Bytes offset, Bytes bytes) override;
  void set(Bytes offset, Bytes bytes, uint8_t value) override;
  void startReadback(std::span<const Readback> ranges) override;
  void finishReadback() override;

  /// The start of a copy to or from slow memory, or the wait for one.
  struct CopyStep {
    size_t graph = 0, number = 0;
    bool isStart = false;
  };

  /// A call of a library, one kernel with its parameters, whose addresses the launch reads, a copy, or a sequence
  /// of these.
  struct BoundCommand {
    /// Notes where the parameters lie: to be called when the command moves no more.
    void keepPlaces();
    void eachCall(const std::function<void(LibraryCall &)> &visit) const;

    std::vector<BoundCommand> parts;   ///< of a sequence
    std::unique_ptr<LibraryCall> call; ///< null: no call
    Function function = nullptr;       ///< null: no kernel
    std::optional<CopyStep> copy;      ///< absent: no copy
    unsigned blocks = 0, threads = 0;
    unsigned sharedBytes = 0; ///< of each block, beside the kernel's own
    std::string name;         ///< the user's node
    std::vector<uint64_t> parameters;
    std::vector<void *> addresses;
    std::vector<Operand> dying;
  };
  /// Products with something behind them that the library has no call for, by what that is.
  struct SplitProducts {
    std::string words, first; ///< and the first command
    int count = 0;
  };
  /// Bytes of the arena that are free while the last commands of a graph run.
  struct Room {
    Bytes offset = 0, bytes = 0;
  };
  struct BoundGraph {
    std::vector<BoundCommand> commands;
    GraphExec executable = nullptr;
    std::vector<Event> marks; ///< around the commands; made by the first run that is timed
    std::vector<Room> rooms;  ///< for next inputs
    std::optional<size_t> roomsFrom;
    Event roomsAreFree = nullptr; ///< recorded by every launch before that command; null: no rooms
  };
  /// Pinned memory of the host, and the mark behind its last transfer.
  struct Block {
    char *bytes = nullptr;
    Event done = nullptr;
    uint64_t mark = 0; ///< of the stream, counted from 1
    Bytes used = 0;    ///< by transfers that have no mark yet
  };

  /// The upload that is under way, of which a part is sent.
  struct Sent {
    Bytes to = 0;  ///< where its first byte comes to
    Bytes end = 0; ///< what is on its way
    Stream by = nullptr;
  };

  /// An upload that is in a room, or comes there on `copies`, and belongs elsewhere.
  struct Arrival {
    Bytes room = 0, offset = 0, bytes = 0;
  };

  void enter() const;
  std::optional<Bytes> roomFor(Bytes offset, Bytes bytes);
  void bringArrivals();
  void bindRooms(const GraphProgram &graph, BoundGraph &bound);
  BoundCommand bindCommand(const Command &command, const Program &program);
  void chooseAlgorithms(const Program &program);
  double secondsOf(LibraryCall &call, int runs);
  std::optional<size_t> fastestOf(LibraryCall &call);
  void forEachCall(const std::function<void(LibraryCall &)> &visit) const;
  void warmUpAlternatives();
  void warmUpAlternatives(LibraryCall &call);
  int alternativesAsked() const;
  void bindEpilogue(const Command &command, const Program &program, BoundCommand &bound);
  BoundCommand bindKernel(const Command &command, const Program &program);
  void warmUp();
  BoundCommand bindCopy(const Command &command, size_t graph);
  void submit(const BoundCommand &command, bool isTimed = false);
  char *slowBytesAt(Bytes offset);
  void fillInOrder(Bytes offset, Bytes bytes, uint8_t value);
  void capture(BoundGraph &graph, const std::string &what);
  void mark(Block &block);
  void waitFor(const Block &block, const char *what);
  void waitForStream(const char *what);
  void destroyGraphs();
  void leaveBlock();
  Bytes inUse() const;
  void runTimed(size_t number, std::span<CommandTime> times);
  void reserveArena();
  void placeArena();
  void takeArena();
  /// What is free. Throws Error(BadInput) where the arena is larger.
  Bytes requireArenaFits() const;
  void enterWithArena();
  void rehearse();
  Block makeBlock(Bytes bytes);
  void release();

  const Driver &driver;
  int device = 0;
  Context context = nullptr;
  Stream stream = nullptr, copies = nullptr;
  std::optional<DeviceArena> memoryOfArena;
  Address arena = 0; ///< where it lies, or will
  std::array<Block, 2> uploads;
  size_t nextUpload = 0;
  std::optional<Sent> sent;
  Block downloads, readbacks;
  std::array<Readback, 8> requested;
  size_t requestedCount = 0;
  const BoundGraph *launched =
      nullptr; ///< whose rooms uploads may take: nothing was put on the stream
               ///< behind it but readbacks
  std::vector<Arrival> arrivals;
  Event arrived = nullptr;             ///< behind them, on `copies`
  uint64_t marks = 0, passedMarks = 0; ///< put on the stream, and known to have been passed
  size_t chip = 0;                     ///< number among those that the program was planned for
  Module module = nullptr;
  int multiprocessors = 1;
  std::vector<BoundGraph> graphs;
  std::optional<Communicator> collectives; ///< of a bound program for several devices
  std::optional<SlowMemory> slow;          ///< of a bound program of which something travels
  std::vector<std::string> slowCopies;     ///< sentences on those that take longer than planned
  std::vector<SplitProducts> splitProducts;
  Tuned tuned;
  std::array<Event, 2> timing = {};
  double tuningSeconds =
      0; ///< between events, from before a call is put on the stream to behind it
  std::set<std::string> late; ///< questions whose alternatives have not run, for want of time
  size_t goneAlgorithms = 0, untimed = 0; ///< of an earlier run; for want of time
  size_t otherQuestions = 0;              ///< that the earlier run has not asked
  OutsideMemory outside;
  DriverMemory memory; ///< but for what is in use now
};

} // namespace stow::cuda
