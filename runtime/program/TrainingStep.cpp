#include "runtime/program/TrainingStep.h"

#include "runtime/base/Error.h"
#include "runtime/base/Philox.h"
#include "runtime/data/Element.h"
#include "runtime/program/Evaluator.h"

#include <algorithm>
#include <array>

namespace stow {

namespace {

constexpr ElementType real = {ElementType::Kind::Float, 8};
constexpr ElementType whole = {ElementType::Kind::Signed, 8};

const Operand *requireScalar(const Operand &place, const std::string &name) {
  if (elementCount(place.shape) != 1)
    throw Error::badInput("'" + name + "' of the program is not a scalar");
  return &place;
}

/// Writes one number of the host's `type` into the arena, as the program stores it.
void setScalar(Executor &executor, const Operand &place, ElementType type, const void *value) {
  alignas(8) char stored[8];
  convertElements(type, static_cast<const char *>(value), place.dtype, stored, 1);
  executor.writeTensor(place, stored);
}

} // namespace

TrainingStep::TrainingStep(Executor &executor) : executor(executor) {
  const Program &program = executor.program();
  for (size_t shape = 0; shape < program.shapeCount(); ++shape)
    graphs.push_back(
        {describe(program, stepGraphIndex(program, 0, shape)),
         describe(program, stepGraphIndex(program, program.batchesPerStep - 1, shape))});
  for (const StateTensor &state : executor.program().state) {
    if (state.kind == BufferKind::Optimizer && state.name == "loss_scale")
      scale.place = requireScalar(state.place, state.name);
    if (state.kind == BufferKind::Optimizer && state.name == "loss_scale.skipped_steps")
      skippedSteps.place = requireScalar(state.place, state.name);
    if (state.kind == BufferKind::Accumulator)
      sums.push_back(&state.place);
  }
}

TrainingStep::StepGraph TrainingStep::describe(const Program &program, size_t index) {
  const GraphProgram &graph = program.graphs[index];
  StepGraph found;
  found.index = index;
  for (const GraphInput &input : graph.inputs)
    if (input.role == InputRole::LearningRate || input.role == InputRole::Step ||
        input.role == InputRole::Seed)
      found.scalars.push_back({input.role, requireScalar(input.place, input.name)});
  auto output = std::ranges::find(graph.outputs, "loss", &GraphOutput::name);
  if (output == graph.outputs.end())
    throw Error::badInput("the program's graph '" + graph.name() + "' gives no loss");
  found.loss.place = requireScalar(output->place, "loss");
  return found;
}

Readback TrainingStep::ScalarResult::readback() {
  return {place->offset, sizeOf(place->dtype), stored};
}

double TrainingStep::ScalarResult::value() const {
  double value = 0;
  toDoubles(place->dtype, stored, &value, 1);
  return value;
}

std::optional<LossScaleState> TrainingStep::lossScale() const {
  if (!scale.place || !skippedSteps.place)
    return std::nullopt;
  ScalarResult now = scale, skipped = skippedSteps;
  if (!hasRun) {
    executor.readTensor(*now.place, now.stored);
    executor.readTensor(*skipped.place, skipped.stored);
  }
  return LossScaleState{now.value(), static_cast<int64_t>(skipped.value())};
}

void TrainingStep::start(const StepSettings &settings, Profile *profile, int64_t batch,
                         size_t shape) {
  const int64_t batches = executor.program().batchesPerStep;
  StepGraphs &ofShape = graphs.at(shape);
  started = batch == batches - 1 ? &ofShape.last : &ofShape.first;
  if (batch == 0 || settings.rank > 0)
    for (const Operand *sum : sums)
      executor.device().fill(sum->offset, storedBytes(sum->layout, sum->shape, sum->dtype), 0);
  int64_t number = settings.step + 1;
  int64_t seed =
      stepSeed(settings.seed,
               (settings.step * batches + batch) * executor.program().devices + settings.rank);
  for (const ScalarInput &input : started->scalars) {
    if (input.role == InputRole::LearningRate)
      setScalar(executor, *input.place, real, &settings.learningRate);
    else
      setScalar(executor, *input.place, whole, input.role == InputRole::Step ? &number : &seed);
  }
  executor.run(started->index, profile);
  if (scale.place && skippedSteps.place)
    executor.device().request(
        std::array{started->loss.readback(), scale.readback(), skippedSteps.readback()});
  else
    executor.device().request(std::array{started->loss.readback()});
}

double TrainingStep::finish() {
  executor.device().await();
  hasRun = true;
  return started->loss.value();
}

int64_t stepSeed(uint64_t runSeed, int64_t step) {
  auto counter = static_cast<uint64_t>(step);
  // The third word sets these numbers apart from the epochs' orders under the same key.
  PhiloxCounter block =
      philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0x73746570,
              0x73656564},
             {static_cast<uint32_t>(runSeed), static_cast<uint32_t>(runSeed >> 32)});
  uint64_t bits = block[0] | static_cast<uint64_t>(block[1]) << 32;
  return static_cast<int64_t>(bits >> 1);
}

} // namespace stow
