// Binding turns a program into flat arrays: addresses instead of offsets, primitives instead of
// attributes. Running walks those arrays and does nothing else.
#include "runtime/program/Executor.h"

#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/Library.h"
#include "runtime/program/Arena.h"
#include "runtime/program/Init.h"
#include "runtime/program/StoredTensor.h"

#include <algorithm>
#include <cstring>

namespace stow {

namespace {

/// Kernels that move fewer bytes (or do fewer operations) than this run on the calling thread: one
/// core does them in 2 to 7 microseconds, from cache or memory, and handing them to the pool takes
/// about as long.
constexpr double parallelCost = 1 << 17;

/// Elements per task of the initialization; a multiple of the generator's pair.
constexpr int64_t initChunk = 4096;

constexpr int poisonByte = 0xff; // NaN in every floating type

struct Range {
  char *begin;
  size_t bytes;
};

struct BoundCommand {
  StowKernelFn kernel = nullptr; ///< or a library call
  int64_t tasks = 0;
  int64_t threads = 1;
  std::vector<char *> arguments;
  std::unique_ptr<host::LibraryCall> call;
  std::vector<Range> dying; ///< filled when poisoning
};

std::string nameOf(const Command &command) {
  return "command '" + command.op + "' of node '" + command.name + "'";
}

/// Throws unless the operand is well formed and lies inside the arena.
void checkPlace(const Operand &place, Bytes arenaBytes, const std::string &what) {
  for (int64_t dim : place.shape)
    if (dim < 0)
      throw Error::badInput(what + " has a negative dimension");
  checkLayout(place.layout, place.shape);
  Bytes bytes = storedBytes(place.layout, place.shape, place.dtype);
  if (place.offset < 0 || bytes > arenaBytes || place.offset > arenaBytes - bytes)
    throw Error::badInput(what + " lies at [" + std::to_string(place.offset) + ", " +
                          std::to_string(place.offset + bytes) + "), outside the arena of " +
                          formatBytesExact(arenaBytes));
}

void checkCommand(const Command &command, Bytes arenaBytes) {
  for (size_t i = 0; i < command.operands.size(); ++i)
    checkPlace(command.operands[i], arenaBytes,
               "operand " + std::to_string(i) + " of " + nameOf(command));
  for (const Operand &dead : command.dying)
    checkPlace(dead, arenaBytes, "a dying operand of " + nameOf(command));
  Operand workspace{command.workspaceOffset, DType::U8, {command.workspaceBytes}, {}};
  checkPlace(workspace, arenaBytes, "the workspace of " + nameOf(command));
}

int64_t chooseThreads(int64_t planned, int64_t asked) {
  if (asked < 0)
    throw Error::badInput("--threads=" + std::to_string(asked) + " is not a thread count");
  if (asked > planned)
    throw Error::badInput("the program's workspaces are planned for " + std::to_string(planned) +
                          " threads, " + std::to_string(asked) +
                          " are asked for; recompile with --threads=" + std::to_string(asked));
  return asked == 0 ? std::clamp<int64_t>(planned, 1, availableProcessors()) : asked;
}

} // namespace

struct Executor::Impl {
  Program program;
  ProgramImage image;
  ExecutorOptions options;
  int64_t threads;
  Arena arena;
  std::vector<std::vector<BoundCommand>> graphs;

  Impl(Program given, ProgramImage image, ExecutorOptions options)
      : program(std::move(given)), image(image), options(options),
        threads(chooseThreads(program.threads, options.threads)), arena(program.plan.arenaBytes) {
    checkState();
    ThreadScope scope(threads);
    for (const GraphProgram &graph : program.graphs)
      bindGraph(graph);
    if (options.poison) // last: binding writes the zero padding of blocked operands
      std::memset(arena.data(), poisonByte, static_cast<size_t>(arena.size()));
  }

  void checkState() const {
    for (const StateTensor &state : program.state) {
      checkPlace(state.place, arena.size(), "state tensor '" + state.name + "'");
      if (state.init.kind != Init::Kind::Data)
        continue;
      uint64_t bytes =
          static_cast<uint64_t>(elementCount(state.place.shape) * sizeOf(state.place.dtype));
      if (bytes > image.constants.size() || state.init.dataOffset > image.constants.size() - bytes)
        throw Error::badInput("the initial value of '" + state.name + "' at " +
                              std::to_string(state.init.dataOffset) + " with " +
                              std::to_string(bytes) + " bytes lies outside the constants of " +
                              std::to_string(image.constants.size()) + " bytes");
    }
  }

  void bindGraph(const GraphProgram &graph) {
    for (const GraphInput &input : graph.inputs)
      checkPlace(input.place, arena.size(), "input '" + input.name + "'");
    for (const GraphOutput &output : graph.outputs)
      checkPlace(output.place, arena.size(), "output '" + output.name + "'");
    std::vector<BoundCommand> &bound = graphs.emplace_back();
    bound.reserve(graph.commands.size());
    for (const Command &command : graph.commands) {
      checkCommand(command, arena.size());
      bound.push_back(bindCommand(command));
    }
  }

  BoundCommand bindCommand(const Command &command) {
    BoundCommand bound;
    if (command.op == "kernel")
      bindKernel(command, bound);
    else
      bound.call = host::bindLibraryCall(command, arena.data(), threads);
    if (!options.poison)
      return bound;
    for (const Operand &dead : command.dying)
      bound.dying.push_back(
          {arena.data() + dead.offset,
           static_cast<size_t>(storedBytes(dead.layout, dead.shape, dead.dtype))});
    // Library scratch dies with its command.
    bound.dying.push_back(
        {arena.data() + command.workspaceOffset, static_cast<size_t>(command.workspaceBytes)});
    return bound;
  }

  void bindKernel(const Command &command, BoundCommand &bound) const {
    if (command.kernel < 0 || static_cast<size_t>(command.kernel) >= image.kernels.size())
      throw Error::badInput(nameOf(command) + " runs kernel " + std::to_string(command.kernel) +
                            ", the executable has " + std::to_string(image.kernels.size()));
    bound.kernel = image.kernels[static_cast<size_t>(command.kernel)];
    bound.tasks = command.tasks;
    double cost = std::max(command.flops, command.bytes);
    bool pays = cost <= 0 || cost >= parallelCost; // 0: unknown
    bound.threads = pays ? threads : 1;
    for (const Operand &operand : command.operands)
      bound.arguments.push_back(arena.data() + operand.offset);
  }

  static void run(BoundCommand &command) {
    if (command.call)
      command.call->run();
    else
      parallelFor(command.tasks, command.threads, [&](int64_t begin, int64_t end) {
        command.kernel(begin, end, command.arguments.data());
      });
    for (const Range &dead : command.dying)
      std::memset(dead.begin, poisonByte, dead.bytes);
  }

  void run(std::vector<BoundCommand> &commands, Profile *profile) const {
    ThreadScope scope(threads);
    if (!profile) {
      for (BoundCommand &command : commands)
        run(command);
      return;
    }
    profile->beginRun();
    for (size_t i = 0; i < commands.size(); ++i) {
      run(commands[i]);
      profile->endCommand(i);
    }
  }

  void initialize(const StateTensor &state, uint64_t seed) const {
    StoredTensor tensor(state.place, arena.data());
    if (tensor.hasPadding())
      tensor.clear();
    int64_t count = tensor.elementCount();
    if (state.init.kind == Init::Kind::Data) {
      tensor.store(0, count, image.constants.data() + state.init.dataOffset);
      return;
    }
    uint64_t key = tensorKey(seed, state.name);
    parallelFor((count + initChunk - 1) / initChunk, threads, [&](int64_t first, int64_t last) {
      double values[initChunk];
      alignas(8) char elements[initChunk * 8];
      for (int64_t chunk = first; chunk < last; ++chunk) {
        int64_t begin = chunk * initChunk, end = std::min(begin + initChunk, count);
        initialValues(state.init, key, begin, end - begin, values);
        encodeValues(state.place.dtype, values, end - begin, elements);
        tensor.store(begin, end, elements);
      }
    });
  }
};

Executor::Executor(Program program, ProgramImage image, ExecutorOptions options)
    : impl(std::make_unique<Impl>(std::move(program), image, options)) {}

Executor::~Executor() = default;

const Program &Executor::program() const { return impl->program; }

int64_t Executor::threads() const { return impl->threads; }

std::span<char> Executor::arena() {
  return {impl->arena.data(), static_cast<size_t>(impl->arena.size())};
}

void Executor::initializeState(uint64_t seed) {
  for (const StateTensor &state : impl->program.state)
    impl->initialize(state, seed);
}

void Executor::run(size_t graph, Profile *profile) {
  if (graph >= impl->graphs.size())
    throw Error::badInput("the program has " + std::to_string(impl->graphs.size()) +
                          " graphs, graph " + std::to_string(graph) + " is asked for");
  impl->run(impl->graphs[graph], profile);
}

void Executor::writeTensor(const Operand &place, const void *rowMajor) {
  StoredTensor tensor(place, impl->arena.data());
  if (tensor.hasPadding())
    tensor.clear();
  tensor.store(0, tensor.elementCount(), rowMajor);
}

void Executor::readTensor(const Operand &place, void *rowMajor) const {
  StoredTensor tensor(place, impl->arena.data());
  tensor.load(0, tensor.elementCount(), rowMajor);
}

void Executor::writeTensorRow(const Operand &place, int64_t row, const void *rowMajor) {
  if (place.shape.empty() || place.layout.groups > 1 || row < 0 || row >= place.shape[0])
    throw Error::badInput("row " + std::to_string(row) + " does not exist in a tensor of " +
                          std::to_string(place.shape.empty() ? 0 : place.shape[0]) + " rows");
  StoredTensor tensor(place, impl->arena.data());
  tensor.clearPaddingOfRow(row);
  int64_t rowElements = tensor.elementCount() / place.shape[0];
  tensor.store(row * rowElements, (row + 1) * rowElements, rowMajor);
}

} // namespace stow
