#include "tests/compiler/TrainPlaced.h"

#include "codegen/Backend.h"
#include "runtime/host/Float16.h"
#include "runtime/program/Executor.h"

#include <algorithm>
#include <filesystem>

using namespace mlir;

namespace stow {
namespace {

/// A deterministic number in [-1, 1).
float someFloat(uint64_t &state) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return static_cast<float>(state >> 40) / (1 << 23) - 1;
}

void writeInputs(Executor &executor, const GraphProgram &graph, int64_t step, uint64_t &state) {
  for (const GraphInput &input : graph.inputs) {
    size_t count = static_cast<size_t>(elementCount(input.place.shape));
    std::vector<float> values(count);
    for (float &value : values)
      value = input.role == InputRole::LearningRate ? 0.05f : someFloat(state);
    std::vector<int64_t> integers(count, step);
    const bool isStep = input.role == InputRole::Step || input.role == InputRole::Seed;
    const bool isClass = !isStep && input.place.dtype == DType::I64;
    for (int64_t &integer : integers)
      if (isClass)
        integer = static_cast<int64_t>(10 * (someFloat(state) + 1)); // 0 to 19
    std::vector<uint16_t> halves(count); // an input that products alone read may be stored so
    std::ranges::transform(values, halves.begin(),
                           input.place.dtype == DType::BF16 ? host::narrowBf16 : host::narrowF16);
    executor.writeTensor(input.place, isStep || isClass ? static_cast<void *>(integers.data())
                                      : is16Bit(input.place.dtype)
                                          ? halves.data()
                                          : static_cast<void *>(values.data()));
  }
}

} // namespace

struct PlacedProgram::Impl {
  std::unique_ptr<Backend> backend = createBackend({});
  BuiltProgram built;
  std::unique_ptr<LoadedCode> loaded;
};

PlacedProgram::PlacedProgram(ModuleOp placed) : impl(std::make_unique<Impl>()) {
  auto built = impl->backend->build(placed);
  if (failed(built))
    throw std::runtime_error("the module cannot be built");
  impl->built = std::move(*built);
  impl->loaded = impl->backend->load(impl->built);
  impl->built.program.threads = 2;
}

PlacedProgram::~PlacedProgram() = default;

std::vector<char> PlacedProgram::train(Poison poison) const {
  const Program &program = impl->built.program;
  ExecutorOptions options;
  options.poison = poison == Poison::Dying;
  if (program.slowBytes > 0)
    options.slow.folder = std::filesystem::temp_directory_path();
  Executor executor(program, {impl->loaded->kernels(), impl->built.constants}, options);
  // What the plan states beside the arena covers what the device says it takes.
  if (executor.device().outsideMemory().total() > program.plan.outsideArenaBytes)
    throw std::runtime_error("the device takes more beside the arena than the plan states");
  executor.initializeState(7);
  std::vector<char> bits;
  auto read = [&](const Operand &place) {
    std::vector<char> bytes(static_cast<size_t>(elementCount(place.shape) * sizeOf(place.dtype)));
    executor.readTensor(place, bytes.data());
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  };
  const size_t train = graphIndex(program, GraphRole::Train);
  const size_t eval = graphIndex(program, GraphRole::Eval);
  uint64_t state = 1;
  for (int64_t step = 1; step <= 3; ++step) {
    writeInputs(executor, program.graphs[train], step, state);
    executor.run(train);
    for (const GraphOutput &output : program.graphs[train].outputs)
      read(output.place);
  }
  for (const StateTensor &tensor : program.state)
    read(tensor.place);
  writeInputs(executor, program.graphs[eval], 0, state);
  executor.run(eval);
  for (const GraphOutput &output : program.graphs[eval].outputs)
    read(output.place);
  return bits;
}

std::vector<char> trainPlaced(ModuleOp placed, Poison poison) {
  return PlacedProgram(placed).train(poison);
}

} // namespace stow
