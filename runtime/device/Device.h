// The door between a run and the device that it runs on.
//
// A run needs little of a device: one arena of exactly the planned size, bytes brought there and
// back, the commands of its program bound to places in that arena, and the list of a graph run.
// Nobody outside a device's own room has an address in the arena: places are offsets, and bytes
// pass through staging memory that the device lends for the length of a transfer. On a device whose
// memory the host addresses, staging is the place itself and costs no copy.
//
// Calls take effect in the order in which they are made, as on one stream. Only downloads and await() wait
// for those before them; an upload, a fill or a run may return before it has happened. A device is
// used by one thread at a time. After the constructor and bind() no call allocates memory.
#pragma once

#include "runtime/base/CopyPace.h"
#include "runtime/base/Error.h"
#include "runtime/format/Program.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// The parts of an executable's image that its program refers to by index or offset.
struct ProgramImage {
  std::span<const StowKernelFn> kernels; ///< for the host
  std::span<const char> constants;       ///< initial values, read by the host
  std::span<const char> deviceCode =
      {}; ///< for GPUs (runtime/format/DeviceCode.h); empty without one
};

/// Where what travels is kept, for programs with Program::slowBytes.
struct SlowMemoryOptions {
  std::string folder; ///< for the file of a device whose slow memory is one
  CopyPace pace = {};
};

/// Which of the kernels that a library has for a call run, on devices whose libraries have several.
struct Algorithms {
  /// None: nobody has said. Off: the first that the library names. Load: the fastest, as timed by bind().
  enum class Tuning : uint8_t { None, Off, Load } tuning = Tuning::None;
  std::string chosen =
      {}; ///< what Device::algorithms() said in an earlier run, to be taken again unless Off
};

class Ranks;

/// What a device has to know to take its memory.
struct DeviceOptions {
  Bytes arenaBytes = 0;
  Bytes stagingBytes = 0; ///< of the largest transfer between beginUpload() and endUpload(), and of
                          ///< the largest that download() gives at once; where a step's inputs
  ///< fit in together, a device can take a whole batch while another one runs
  int64_t threads = 1; ///< of the host, for a device that runs on it
  SlowMemoryOptions slow = {};
  /// Which GPU, by the order of its driver; none: the first. A device that is none refuses it.
  std::optional<int64_t> gpu = {};
  Bytes slowBytes = 0; ///< of slow memory; 0: nothing travels
  Algorithms algorithms = {};
  /// The processes that train together, of a program for several devices; null: this one is alone. Outlives the
  /// device.
  Ranks *ranks = nullptr;
};

/// What commands have waited for collectives that were started before, in all runs but the first, in which ranks meet.
struct ExchangeWaits {
  double seconds = 0;
  int64_t runs = 0;
};

/// What becomes of buffers that die.
enum class Poison : uint8_t {
  None,
  Dying, ///< filled with poisonByte right after the command that reads them last
};

/// Makes NaN in every floating type.
inline constexpr uint8_t poisonByte = 0xff;

/// What one command took. The times of a graph's commands add up to those of its run, or to less
/// where the device was idle between them.
struct CommandTime {
  double seconds = 0;
  double processorSeconds = 0; ///< of all threads of the host
};

/// Bytes of the arena that the host is to get, and where.
struct Readback {
  Bytes offset = 0, bytes = 0;
  void *to = nullptr;
};

/// What the driver of a device with memory of its own says about it. Its figures are of all
/// processes.
struct DriverMemory {
  std::string device;         ///< name, and version of the driver
  Bytes inUse = 0, total = 0; ///< now
  Bytes contexts = 0;         ///< of inUse: what was there before anything was loaded
  Bytes code = 0;             ///< by how much modules and libraries raised it
  Bytes graphs = 0;           ///< by how much the graphs that run() launches raised it
};

/// Memory that a device takes beside the arena.
struct OutsideMemory {
  Bytes heap = 0;      ///< most that the library calls of one command take while they run
  Bytes workspace = 0; ///< scratch that is no planned buffer
  Bytes fixed = 0;     ///< contexts, code and staging, whatever the commands are

  Bytes total() const { return heap + workspace + fixed; }
};

/// What has travelled between the arena and slow memory so far.
struct SlowTraffic {
  std::string place; ///< of the slow memory, for people
  Bytes slowBytes = 0;
  Bytes bytesOut = 0, bytesIn = 0;
};

/// A device that failed in such a way that nothing in its arena can be had any more.
class DeviceLost : public Error {
public:
  explicit DeviceLost(const std::string &message) : Error(ErrorKind::BadInput, message) {}
};

class Device {
public:
  virtual ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  Bytes arenaBytes() const { return options.arenaBytes; }
  Bytes stagingBytes() const { return options.stagingBytes; }

  /// The most that is transferred at once from `offset` on: the staging memory, or, of state that lies in slow memory, a piece.
  /// It is transferred in such pieces from its place on, the last one what is left of it.
  Bytes transferBytes(Bytes offset) const;

  // Transfers. Places from slowBeginOf(arenaBytes()) on are state that lies in slow memory, between runs. Ranges that are not
  // inside the arena or slow memory, or transfers larger than transferBytes(),
  // are Error(Internal). -------------------------------------------------------------------------

  /// Memory of the host, aligned to 64 bytes where `offset` is, for what is to lie in the arena at
  /// [offset, offset + bytes). Its content is undefined and the caller writes all of it; nothing
  /// else is called before endUpload(), after which the memory is not the caller's any more.
  char *beginUpload(Bytes offset, Bytes bytes);
  /// Between the two: the first `end` bytes are written, stay as they are, and may be on their way already.
  void sendUpload(Bytes end);
  void endUpload();
  void cancelUpload(); ///< instead: the bytes of that range are undefined then

  /// The bytes [offset, offset + bytes) of the arena, in memory of the host with the alignment of
  /// beginUpload() that holds them until the next call of this device.
  const char *download(Bytes offset, Bytes bytes);

  /// The same from and to memory of the caller, of any size.
  void upload(Bytes offset, const void *from, Bytes bytes);
  void download(void *to, Bytes offset, Bytes bytes);

  /// A few ranges, mostReadbackBytes together at most, as everything asked for before leaves them.
  /// Returns without waiting; they are where they are to be after await(), and what is asked for
  /// between the two runs meanwhile.
  void request(std::span<const Readback> ranges);
  void await();
  static constexpr Bytes mostReadbackBytes = 256;

  void fill(Bytes offset, Bytes bytes, uint8_t value);

  // Commands. ------------------------------------------------------------------------------------

  /// Binds every command of `program`, whose places the caller has checked. Once, before the first
  /// run; the content of the arena is undefined then. Both arguments outlive the device. Throws
  /// Error(BadInput) naming the command that this device cannot run or has planned too little
  /// workspace for.
  virtual void bind(const Program &program, const ProgramImage &image, Poison poison) = 0;

  /// Runs the commands of `program.graphs[graph]` in their order. With `times`, one for each
  /// command, waits for them and says what each took.
  virtual void run(size_t graph, std::span<CommandTime> times) = 0;

  /// Runs one of these commands and waits for it, for whoever looks for the one that does wrong. Unless
  /// a device overrides it, Error(BadInput).
  virtual void runCommand(size_t graph, size_t command);

  /// What it takes beside the arena to run what was bound.
  virtual OutsideMemory outsideMemory() const = 0;

  /// None where the arena is the host's memory.
  virtual std::optional<DriverMemory> driverMemory() const { return std::nullopt; }

  /// None where nothing travels.
  virtual std::optional<SlowTraffic> slowTraffic() const { return std::nullopt; }

  /// None where no collective is started ahead of its await.
  virtual std::optional<ExchangeWaits> exchangeWaits() const { return std::nullopt; }

  /// Seconds that copy `copy` of a graph (SlowCopies.h) took when it was done last, beside the commands that
  /// ran meanwhile; asked after a run of that graph.
  virtual double copySeconds(size_t graph, size_t copy) const { return 0; }

  /// Which algorithms bind() has chosen by timing, or taken from an earlier run; empty where it has chosen none.
  virtual std::string algorithms() const { return {}; }

  /// In what the bound commands are not as planned, and what a user should know of the slow memory, a sentence each.
  virtual std::vector<std::string> notes() const { return {}; }

protected:
  /// The constructor of a device, bind() or the first transfer allocates its arena, whose content is undefined at
  /// first, or throws Error(BadInput) naming what is needed and what there is.
  explicit Device(const DeviceOptions &options);

  const DeviceOptions options;

  /// Whether a place is one of slow memory.
  bool isSlow(Bytes offset) const;

private:
  virtual char *stage(Bytes offset, Bytes bytes) = 0;
  virtual void commit(Bytes offset, Bytes bytes) = 0; ///< of what was staged last
  /// The first `end` of its bytes, of devices that bring a part before the rest is there; once the caller gives up, what was sent is
  /// not waited for.
  virtual void send(Bytes offset, Bytes bytes, Bytes end) {}
  virtual void giveUp(Bytes bytes) {}
  virtual const char *fetch(Bytes offset, Bytes bytes) = 0;
  virtual void set(Bytes offset, Bytes bytes, uint8_t value) = 0;
  /// Unless a device can do better, the ranges are fetched one after another.
  virtual void startReadback(std::span<const Readback> ranges);
  virtual void finishReadback() {}

  void requireInside(const char *what, Bytes offset, Bytes bytes) const;
  void requireTransfer(const char *what, Bytes offset, Bytes bytes) const;

  struct Upload {
    Bytes offset = 0, bytes = 0;
  };
  std::optional<Upload> pending; ///< between beginUpload() and endUpload()
  bool isRequested = false;      ///< between request() and await()
};

/// A kind of device that a process has: what --target names, up to a colon, and what opens one.
struct DeviceKind {
  std::string_view name;
  std::unique_ptr<Device> (*open)(const DeviceOptions &);
};

template <typename AnyDevice> std::unique_ptr<Device> makeDevice(const DeviceOptions &options) {
  return std::make_unique<AnyDevice>(options);
}

/// The device of the kind that `target` names. Throws Error(BadInput) where there is none among
/// `kinds`, and as that device does.
std::unique_ptr<Device> openDevice(std::span<const DeviceKind> kinds, std::string_view target,
                                   const DeviceOptions &options);

/// The device that a program compiled for `target` runs on. The one definition in an executable says
/// which kinds there are (runtime/program/OpenDevice.cpp); tests link another.
std::unique_ptr<Device> openDevice(std::string_view target, const DeviceOptions &options);

} // namespace stow
