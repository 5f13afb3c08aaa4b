// A program on its device: the arena, the state in it, and the runs of its graphs.
//
// The executor opens the device, which owns the one allocation of a run. Binding creates every
// library primitive; after the constructor returns, run() allocates no memory for tensors or
// workspaces. Tensors are brought to the arena and back in the layouts of the program.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/program/Profile.h"
#include "runtime/program/StoredTensor.h"

#include <functional>
#include <memory>
#include <vector>

namespace stow {

/// The elements of a tensor, asked for piece by piece.
struct ElementSource {
  /// Writes elements [first, first + count), in row-major order, to `to`.
  std::function<void(int64_t first, int64_t count, char *to)> elements;
  /// `elements` throws nothing and may be called by several threads at once.
  bool isParallel = true;
  /// Elements [first, first + count) are not asked for again. May be empty.
  std::function<void(int64_t first, int64_t count)> done = {};
};

/// What --check names.
enum class RunCheck : uint8_t {
  None,
  Canaries,    ///< run commands one by one and hold what they may not write to what it was
  EarlyCopies, ///< make copies to slow memory and back at their start
  LateCopies,  ///< and where they are awaited
};

struct ExecutorOptions {
  int64_t threads = 0; ///< 0 = the number the program was planned for
  bool poison = false; ///< fill buffers with NaN (0xFF bytes) when they die
  RunCheck check = RunCheck::None;
  /// Of programs whose buffers travel; its folder, if one is named, in place of the program's. What `check` says
  /// of copies goes before its time.
  SlowMemoryOptions slow = {};
  std::optional<int64_t> gpu = {}; ///< as DeviceOptions has it
  Algorithms algorithms = {};
  Ranks *ranks = nullptr; ///< as DeviceOptions has it
};

/// The flag of `options` that says something of copies to slow memory; empty: none.
std::string flagOfCopies(const ExecutorOptions &options);

class Executor {
public:
  /// Allocates the arena and binds every command. Throws Error(BadInput) when the machine lacks the
  /// memory or a library needs more workspace than planned.
  Executor(Program program, ProgramImage image, ExecutorOptions options);
  ~Executor();

  const Program &program() const;
  int64_t threads() const; ///< of the host
  int64_t rank() const;    ///< among ExecutorOptions::ranks; 0 without
  Device &device();

  /// Gives every state tensor its first value, in stored layout (padding zero), but for those at the positions for which `isGiven`,
  /// whose value comes from elsewhere.
  void initializeState(
      uint64_t seed, const std::function<bool(size_t)> &isGiven = [](size_t) { return false; });

  /// Runs the graph of that number once (graphIndex finds it by its role). Inputs must lie in the arena. Notes the time of each
  /// command in `profile`, which must be one of this graph, if given.
  void run(size_t graph, Profile *profile = nullptr);

  /// Copies between row-major host memory and a stored tensor, converting the layout. `bytes` is
  /// elementCount * sizeOf(dtype). Neither allocates.
  void writeTensor(const Operand &place, const void *rowMajor);
  void readTensor(const Operand &place, void *rowMajor) const;

  /// The same from elements in the place's own type that come piece by piece, and, of a tensor that is stored quantized, from the
  /// numbers that it is to stand for, in f32. Neither needs the tensor whole.
  void writeTensor(const Operand &place, const ElementSource &source);
  void writeQuantized(const StateTensor &tensor, const ElementSource &numbers);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// A tensor on its way to the arena, for callers that have its elements piece by piece. Until it is
/// finished nothing else is asked of the device; destroyed before, it is not sent.
class TensorUpload {
public:
  TensorUpload(Device &device, const Operand &place);
  ~TensorUpload();
  TensorUpload(const TensorUpload &) = delete;
  TensorUpload &operator=(const TensorUpload &) = delete;

  /// The elements with row-major numbers [begin, end); all of them before finish(). From several
  /// threads at once, for different elements.
  void store(int64_t begin, int64_t end, const void *rowMajor) {
    tensor.store(stored, begin, end, rowMajor);
  }
  /// The first `rows` are stored: they may go ahead of the others.
  void send(int64_t rows) { device.sendUpload(tensor.bytesOfRows(rows)); }
  void finish();

private:
  Device &device;
  StoredTensor tensor;
  const Bytes offset;
  std::vector<char> whole; ///< what is transferred in pieces, each of which has parts of many rows
  char *stored;            ///< null when done
};

} // namespace stow
