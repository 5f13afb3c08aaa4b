#include "tests/compiler/TrainPlaced.h"

#include "codegen/Backend.h"
#include "runtime/program/Executor.h"

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
    std::vector<int64_t> steps(count, step);
    bool isStep = input.role == InputRole::Step || input.role == InputRole::Seed;
    executor.writeTensor(input.place, isStep ? static_cast<void *>(steps.data()) : values.data());
  }
}

} // namespace

std::vector<char> trainPlaced(ModuleOp placed, Poison poison) {
  auto backend = createBackend({});
  auto built = backend->build(placed);
  if (failed(built))
    throw std::runtime_error("the module cannot be built");
  auto loaded = backend->load(*built);
  built->program.threads = 2;
  ExecutorOptions options;
  options.poison = poison == Poison::Dying;
  Executor executor(built->program, {loaded->kernels(), built->constants}, options);
  // What the plan states beside the arena covers what the device says it takes.
  if (executor.device().outsideMemory().total() > built->program.plan.outsideArenaBytes)
    throw std::runtime_error("the device takes more beside the arena than the plan states");
  executor.initializeState(7);
  std::vector<char> bits;
  auto read = [&](const Operand &place) {
    std::vector<char> bytes(static_cast<size_t>(elementCount(place.shape) * sizeOf(place.dtype)));
    executor.readTensor(place, bytes.data());
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  };
  const size_t train = graphIndex(built->program, GraphRole::Train);
  const size_t eval = graphIndex(built->program, GraphRole::Eval);
  uint64_t state = 1;
  for (int64_t step = 1; step <= 3; ++step) {
    writeInputs(executor, built->program.graphs[train], step, state);
    executor.run(train);
    for (const GraphOutput &output : built->program.graphs[train].outputs)
      read(output.place);
  }
  for (const StateTensor &tensor : built->program.state)
    read(tensor.place);
  writeInputs(executor, built->program.graphs[eval], 0, state);
  executor.run(eval);
  for (const GraphOutput &output : built->program.graphs[eval].outputs)
    read(output.place);
  return bits;
}

} // namespace stow
