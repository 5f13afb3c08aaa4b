#include "runtime/program/Executor.h"

#include "runtime/base/BlockQuantizer.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/base/Shards.h"
#include "runtime/device/CheckedDevice.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/program/Init.h"
#include "runtime/program/NextInputs.h"
#include "runtime/ranks/Ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace stow {

namespace {

/// Elements per task of the initialization; a multiple of the generator's pair.
constexpr int64_t initChunk = 4096;

/// State in row-major order passes in pieces of at most this, everything else whole.
constexpr Bytes pieceBytes = Bytes{16} << 20;
/// Codes of quantized state pass in such pieces: 8 MiB of numbers in f32 make one of nf4.
constexpr Bytes codePieceBytes = Bytes{1} << 20;

std::string nameOf(const Command &command) { return "command " + command.title(); }

/// Throws unless the operand is well formed and lies inside the arena.
void checkPlace(const Operand &place, Bytes arenaBytes, const std::string &what) {
  for (int64_t dim : place.shape)
    if (dim < 0)
      throw Error::badInput(what + " has a negative dimension");
  checkLayout(place.layout, place.shape);
  Bytes bytes = storedBytes(place.layout, place.shape, place.dtype);
  if (place.offset < 0 || bytes > arenaBytes || place.offset > arenaBytes - bytes)
    throw Error::badInput(concat(what, " lies at [", place.offset, ", ", place.offset + bytes,
                                 "), outside the arena of ", formatBytesExact(arenaBytes)));
}

void checkCommand(const Command &command, Bytes arenaBytes) {
  for (size_t i = 0; i < command.operands.size(); ++i)
    checkPlace(command.operands[i], arenaBytes, concat("operand ", i, " of ", nameOf(command)));
  for (const Operand &dead : command.dying)
    checkPlace(dead, arenaBytes, "a dying operand of " + nameOf(command));
  Operand workspace{command.workspaceOffset, DType::U8, {command.workspaceBytes}, {}};
  checkPlace(workspace, arenaBytes, "the workspace of " + nameOf(command));
}

int64_t chooseThreads(int64_t planned, int64_t asked) {
  if (asked < 0)
    throw Error::badInput(concat("--threads=", asked, " is not a thread count"));
  if (asked > planned)
    throw Error::badInput(concat("the program's workspaces are planned for ", planned, " threads, ",
                                 asked, " are asked for; recompile with --threads=", asked));
  return asked == 0 ? std::clamp<int64_t>(planned, 1, availableProcessors()) : asked;
}

/// The largest transfer of the program, or all inputs of a graph.
Bytes stagingBytes(const Program &program) {
  Bytes largest = pieceBytes;
  auto include = [&](const Operand &place) {
    largest = std::max(largest, storedBytes(place.layout, place.shape, place.dtype));
  };
  for (const StateTensor &state : program.state)
    if (!state.place.layout.isRowMajor() && state.place.offset < program.plan.arenaBytes)
      include(state.place);
  for (const GraphProgram &graph : program.graphs) {
    Bytes inputs = 0;
    for (const GraphInput &input : graph.inputs)
      inputs += std::max<Bytes>(
          alignUp(storedBytes(input.place.layout, input.place.shape, input.place.dtype), 64), 64);
    largest = std::max(largest, inputs);
    for (const GraphOutput &output : graph.outputs)
      if (!output.place.layout.isRowMajor())
        include(output.place);
  }
  return std::min(largest, program.plan.arenaBytes);
}

/// Whether a tensor takes several transfers: in slow memory, where a transfer is a piece.
bool isInPieces(const Device &device, const Operand &place) {
  return storedBytes(place.layout, place.shape, place.dtype) > device.transferBytes(place.offset);
}

/// Calls visit(part, first) for parts of `place` that cover it in order and can be transferred:
/// `part` is where the elements from row-major number `first` on lie.
template <typename Visit>
void forEachPart(const Device &device, const Operand &place, const Visit &visit) {
  if (!place.layout.isRowMajor())
    return visit(place, int64_t{0});
  const Bytes elementBytes = sizeOf(place.dtype);
  const int64_t count = elementCount(place.shape),
                most = std::min(pieceBytes, device.transferBytes(place.offset)) / elementBytes;
  for (int64_t first = 0; first < count; first += most)
    visit(
        Operand{
            place.offset + first * elementBytes, place.dtype, {std::min(most, count - first)}, {}},
        first);
}

/// As --check takes it.
const char *nameOf(RunCheck check) {
  switch (check) {
  case RunCheck::None:
    return "";
  case RunCheck::Canaries:
    return "--check=canaries";
  case RunCheck::EarlyCopies:
    return "--check=early-copies";
  case RunCheck::LateCopies:
    return "--check=late-copies";
  }
  return "";
}

bool isOfCopies(RunCheck check) {
  return check == RunCheck::EarlyCopies || check == RunCheck::LateCopies;
}

/// Throws Error(BadInput) where slow memory is spoken of and the program has none, and where a bandwidth is asked of
/// copies that a check makes at once.
SlowMemoryOptions slowMemoryOf(const Program &program, const ExecutorOptions &options) {
  const std::string flag = flagOfCopies(options);
  const bool isOfExchanges = isOfCopies(options.check) && startsExchanges(program);
  if (program.slowBytes == 0 && !flag.empty() && !isOfExchanges)
    throw Error::badInput(flag + " is about buffers that travel to slow memory, and of this "
                                 "program none does; compile the model with --memory-budget and "
                                 "--offload, or leave the flag out");
  if (options.slow.pace.outBytesPerSecond > 0 && options.check != RunCheck::None)
    throw Error::badInput(concat("--offload-bandwidth holds copies back that are made beside the "
                                 "step, and with ",
                                 nameOf(options.check), " none is; leave one of them out"));
  SlowMemoryOptions slow = options.slow;
  if (slow.folder.empty())
    slow.folder = program.slowFolder;
  if (isOfCopies(options.check))
    slow.pace.time = options.check == RunCheck::EarlyCopies ? CopyTime::Early : CopyTime::Late;
  return slow;
}

std::unique_ptr<Device> open(const Program &program, int64_t threads,
                             const ExecutorOptions &given) {
  const DeviceOptions options = {program.plan.arenaBytes,
                                 stagingBytes(program),
                                 threads,
                                 slowMemoryOf(program, given),
                                 given.gpu,
                                 program.slowBytes,
                                 given.algorithms,
                                 given.ranks};
  auto openIt = [&](const DeviceOptions &wanted) { return openDevice(program.target, wanted); };
  if (given.check == RunCheck::Canaries)
    return std::make_unique<CheckedDevice>(options, openIt);
  return openIt(options);
}

} // namespace

std::string flagOfCopies(const ExecutorOptions &options) {
  return !options.slow.folder.empty()              ? "--offload"
         : options.slow.pace.outBytesPerSecond > 0 ? "--offload-bandwidth"
         : isOfCopies(options.check)               ? nameOf(options.check)
                                                   : "";
}

struct Executor::Impl {
  Program program;
  ProgramImage image;
  int64_t threads;
  Ranks *ranks;
  std::unique_ptr<Device> device;

  Impl(Program given, ProgramImage image, const ExecutorOptions &options)
      : program(std::move(given)), image(image),
        threads(chooseThreads(program.threads, options.threads)), ranks(options.ranks),
        device(open(program, threads, options)) {
    checkState();
    for (const GraphProgram &graph : program.graphs)
      checkGraph(graph);
    device->bind(program, this->image, options.poison ? Poison::Dying : Poison::None);
    if (options.poison)
      device->fill(0, device->arenaBytes(), poisonByte);
  }

  void checkState() const {
    const std::vector<SlowState> away = slowStateOf(program);
    for (const StateTensor &state : program.state) {
      if (std::ranges::find(away, state.name, &SlowState::name) == away.end())
        checkPlace(state.place, device->arenaBytes(), "state tensor '" + state.name + "'");
      if (state.shardOf)
        checkShard(state);
      if (state.init.kind != Init::Kind::Data)
        continue;
      const Shape &shape = state.shardOf ? *state.shardOf : state.place.shape;
      uint64_t bytes = static_cast<uint64_t>(elementCount(shape) * sizeOf(state.place.dtype));
      if (bytes > image.constants.size() || state.init.dataOffset > image.constants.size() - bytes)
        throw Error::badInput(concat(
            "the initial value of '", state.name, "' at ", state.init.dataOffset, " with ", bytes,
            " bytes lies outside the constants of ", image.constants.size(), " bytes"));
    }
  }

  void checkShard(const StateTensor &state) const {
    const int64_t elements = shardElements(elementCount(*state.shardOf), program.devices);
    if (state.place.dtype != DType::F32 || state.place.shape != Shape{elements})
      throw Error::badInput(concat("state tensor '", state.name, "': expected a shard of ",
                                   elements, " numbers in f32 on each of ", program.devices,
                                   " devices, found ", elementCount(state.place.shape)));
  }

  /// Samples that are kept lie one behind the other, a batch of them at least, and something says which are the batch.
  void checkKept(const GraphProgram &graph, const GraphInput &input) const {
    if (!input.keptRows)
      return;
    const auto rows = std::ranges::find(graph.inputs, InputRole::Rows, &GraphInput::role);
    if (input.place.shape.empty() || !input.place.layout.isRowMajor() ||
        *input.keptRows < input.place.shape.front() || rows == graph.inputs.end() ||
        rows->place.dtype != DType::I64 || rows->place.shape != Shape{input.place.shape.front()})
      throw Error::badInput(concat("input '", input.name, "' of graph '", graph.name(), "' keeps ",
                                   *input.keptRows,
                                   " samples: expected a batch of them or more, row-major, and "
                                   "an input of role rows with the numbers of the batch's"));
  }

  void checkGraph(const GraphProgram &graph) const {
    for (const GraphInput &input : graph.inputs)
      checkKept(graph, input);
    for (const GraphInput &input : graph.inputs)
      checkPlace(input.whole(), device->arenaBytes(), "input '" + input.name + "'");
    for (const GraphOutput &output : graph.outputs)
      checkPlace(output.place, device->arenaBytes(), "output '" + output.name + "'");
    for (const Command &command : graph.commands)
      checkCommand(command, device->arenaBytes());
    checkNextInputs(program, graph);
  }

  /// Of the whole tensor's first values the elements of this rank's shard, zero behind the end.
  void initializeShard(const StateTensor &state, uint64_t seed) {
    const ShardRange own =
        shardRange(elementCount(*state.shardOf), program.devices, ranks ? ranks->rank() : 0);
    const uint64_t key = tensorKey(seed, state.name);
    writeElements(state.place, {[&](int64_t first, int64_t count, char *to) {
                    const int64_t given = std::clamp<int64_t>(own.size() - first, 0, count),
                                  begin = own.begin + first;
                    auto *elements = reinterpret_cast<float *>(to);
                    if (state.init.kind == Init::Kind::Data) {
                      std::memcpy(elements,
                                  image.constants.data() + state.init.dataOffset +
                                      begin * sizeof(float),
                                  static_cast<size_t>(given) * sizeof(float));
                    } else if (given > 0) {
                      double values[initChunk + 1];
                      const int64_t odd = begin % 2; // drawn in pairs
                      initialValues(state.init, key, begin - odd, given + odd, values);
                      encodeValues(DType::F32, values + odd, given, elements);
                    }
                    std::fill(elements + given, elements + count, 0.0f);
                  }});
  }

  void initialize(const StateTensor &state, uint64_t seed) {
    if (state.shardOf)
      return initializeShard(state, seed);
    if (state.init.kind == Init::Kind::Data)
      return write(state.place, image.constants.data() + state.init.dataOffset);
    const uint64_t key = tensorKey(seed, state.name);
    const DType type = state.quantized ? DType::F32 : state.place.dtype;
    const ElementSource drawn = {[&](int64_t first, int64_t count, char *to) {
      double values[initChunk];
      initialValues(state.init, key, first, count, values);
      encodeValues(type, values, count, to);
    }};
    state.quantized ? writeQuantized(state, drawn) : writeElements(state.place, drawn);
  }

  /// Calls body(begin, end) for ranges of at most `chunk` that cover [0, count).
  template <typename Body>
  void forEachChunk(int64_t count, int64_t chunk, bool isParallel, const Body &body) const {
    parallelFor((count + chunk - 1) / chunk, isParallel ? threads : 1,
                [&](int64_t number, int64_t last) {
                  for (; number < last; ++number)
                    body(number * chunk, std::min((number + 1) * chunk, count));
                });
  }

  void writeElements(const Operand &place, const ElementSource &source) {
    forEachPart(*device, place, [&](const Operand &part, int64_t first) {
      TensorUpload upload(*device, part);
      const int64_t count = elementCount(part.shape);
      forEachChunk(count, initChunk, source.isParallel, [&](int64_t begin, int64_t end) {
        alignas(8) char elements[initChunk * 8];
        source.elements(first + begin, end - begin, elements);
        upload.store(begin, end, elements);
      });
      upload.finish();
      if (source.done)
        source.done(first, count);
    });
  }

  void writeQuantized(const StateTensor &state, const ElementSource &numbers) {
    const QuantizedTensor &tensor = *state.quantized;
    BlockQuantizer quantizer(tensor.scheme, elementCount(tensor.shape));
    const Bytes codeBytes = quantizer.codeBytes();
    const Bytes most = std::min(codePieceBytes, device->transferBytes(state.place.offset) /
                                                    kQuantizedBlock * kQuantizedBlock);
    // The last codes wait for what lies behind them: slow memory takes whole pieces.
    const Bytes waiting = (codeBytes - 1) / most * most;
    std::vector<char> last(static_cast<size_t>(codeBytes - waiting));
    for (Bytes first = 0; first < codeBytes; first += most) {
      const Bytes count = std::min(most, codeBytes - first);
      std::optional<TensorUpload> upload;
      if (first < waiting)
        upload.emplace(*device, Operand{state.place.offset + first, DType::U8, {count}, {}});
      forEachChunk(count, initChunk, numbers.isParallel, [&](int64_t begin, int64_t end) {
        alignas(8) float values[2 * initChunk];
        char codes[initChunk];
        for (int64_t run = 0; run < quantizer.runs(); ++run)
          numbers.elements(run * codeBytes + first + begin, end - begin,
                           reinterpret_cast<char *>(values + run * (end - begin)));
        quantizer.writeCodes(first + begin, end - begin, values, codes);
        if (upload)
          upload->store(begin, end, codes);
        else
          std::memcpy(last.data() + begin, codes, static_cast<size_t>(end - begin));
      });
      if (upload)
        upload->finish();
      for (int64_t run = 0; numbers.done && run < quantizer.runs(); ++run)
        numbers.done(run * codeBytes + first, count);
    }
    const std::vector<char> rest = quantizer.rest();
    last.insert(last.end(), rest.begin(), rest.end());
    device->upload(state.place.offset + waiting, last.data(), static_cast<Bytes>(last.size()));
  }

  void write(const Operand &place, const void *rowMajor) {
    StoredTensor tensor(place);
    if (tensor.isRowMajor())
      return device->upload(place.offset, rowMajor, tensor.storedBytes());
    TensorUpload upload(*device, place);
    upload.store(0, tensor.elementCount(), rowMajor);
    upload.finish();
  }

  void read(const Operand &place, void *rowMajor) {
    StoredTensor tensor(place);
    if (tensor.isRowMajor())
      return device->download(rowMajor, place.offset, tensor.storedBytes());
    std::vector<char> whole;
    if (isInPieces(*device, place)) {
      whole.resize(static_cast<size_t>(tensor.storedBytes()));
      device->download(whole.data(), place.offset, tensor.storedBytes());
    }
    tensor.load(whole.empty() ? device->download(place.offset, tensor.storedBytes()) : whole.data(),
                0, tensor.elementCount(), rowMajor);
  }

  void run(size_t graph, Profile *profile) {
    if (!profile)
      return device->run(graph, {});
    profile->beginRun();
    device->run(graph, profile->commandTimes());
    for (size_t copy = 0; double &seconds : profile->copySeconds())
      seconds = device->copySeconds(graph, copy++);
    profile->endRun();
  }
};

Executor::Executor(Program program, ProgramImage image, ExecutorOptions options)
    : impl(std::make_unique<Impl>(std::move(program), image, options)) {}

Executor::~Executor() = default;

const Program &Executor::program() const { return impl->program; }

int64_t Executor::threads() const { return impl->threads; }

int64_t Executor::rank() const { return impl->ranks ? impl->ranks->rank() : 0; }

Device &Executor::device() { return *impl->device; }

void Executor::initializeState(uint64_t seed, const std::function<bool(size_t)> &isGiven) {
  const std::vector<StateTensor> &state = impl->program.state;
  for (size_t i = 0; i < state.size(); ++i)
    if (!isGiven(i))
      impl->initialize(state[i], seed);
}

void Executor::run(size_t graph, Profile *profile) {
  if (graph >= impl->program.graphs.size())
    throw Error::badInput(concat("the program has ", impl->program.graphs.size(), " graphs, graph ",
                                 graph, " is asked for"));
  impl->run(graph, profile);
}

void Executor::writeTensor(const Operand &place, const void *rowMajor) {
  impl->write(place, rowMajor);
}

void Executor::writeTensor(const Operand &place, const ElementSource &source) {
  impl->writeElements(place, source);
}

void Executor::writeQuantized(const StateTensor &tensor, const ElementSource &numbers) {
  impl->writeQuantized(tensor, numbers);
}

void Executor::readTensor(const Operand &place, void *rowMajor) const {
  impl->read(place, rowMajor);
}

TensorUpload::TensorUpload(Device &device, const Operand &place)
    : device(device), tensor(place), offset(place.offset),
      whole(isInPieces(device, place) ? std::vector<char>(static_cast<size_t>(tensor.storedBytes()))
                                      : std::vector<char>()),
      stored(whole.empty() ? device.beginUpload(offset, tensor.storedBytes()) : whole.data()) {
  if (tensor.hasPadding())
    tensor.clear(stored);
}

TensorUpload::~TensorUpload() {
  if (stored && whole.empty())
    device.cancelUpload();
}

void TensorUpload::finish() {
  if (whole.empty())
    device.endUpload();
  else
    device.upload(offset, whole.data(), tensor.storedBytes());
  stored = nullptr;
}

} // namespace stow
