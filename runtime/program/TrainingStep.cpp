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

TrainingStep::TrainingStep(Executor &executor)
    : executor(executor), graph(graphIndex(executor.program(), GraphRole::Train)) {
  const GraphProgram &train = executor.program().graphs[graph];
  for (const GraphInput &input : train.inputs)
    if (input.role != InputRole::Data && input.role != InputRole::Target)
      scalars.push_back({input.role, requireScalar(input.place, input.name)});
  auto output = std::ranges::find(train.outputs, "loss", &GraphOutput::name);
  if (output == train.outputs.end())
    throw Error::badInput("the program's training graph gives no loss");
  loss.place = requireScalar(output->place, "loss");
  for (const StateTensor &state : executor.program().state) {
    if (state.kind == BufferKind::Optimizer && state.name == "loss_scale")
      scale.place = requireScalar(state.place, state.name);
    if (state.kind == BufferKind::Optimizer && state.name == "loss_scale.skipped_steps")
      skippedSteps.place = requireScalar(state.place, state.name);
  }
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

void TrainingStep::start(const StepSettings &settings, Profile *profile) {
  int64_t number = settings.step + 1;
  int64_t seed = stepSeed(settings.seed, settings.step);
  for (const ScalarInput &input : scalars) {
    if (input.role == InputRole::LearningRate)
      setScalar(executor, *input.place, real, &settings.learningRate);
    else
      setScalar(executor, *input.place, whole, input.role == InputRole::Step ? &number : &seed);
  }
  executor.run(graph, profile);
  if (scale.place && skippedSteps.place)
    executor.device().request(
        std::array{loss.readback(), scale.readback(), skippedSteps.readback()});
  else
    executor.device().request(std::array{loss.readback()});
}

double TrainingStep::finish() {
  executor.device().await();
  hasRun = true;
  return loss.value();
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
