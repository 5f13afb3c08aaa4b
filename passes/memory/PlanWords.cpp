#include "passes/memory/PlanWords.h"

#include "runtime/base/Error.h"

using namespace mlir;

namespace stow {

BufferKind bufferKindOf(ArgumentKind kind) {
  switch (kind) {
  case ArgumentKind::Parameter:
    return BufferKind::Parameter;
  case ArgumentKind::Frozen:
    return BufferKind::Frozen;
  case ArgumentKind::Statistic:
    return BufferKind::Statistic;
  case ArgumentKind::Optimizer:
    return BufferKind::Optimizer;
  case ArgumentKind::Accumulator:
    return BufferKind::Accumulator;
  case ArgumentKind::Input:
  case ArgumentKind::Target:
  case ArgumentKind::LearningRate:
  case ArgumentKind::Step:
  case ArgumentKind::Seed:
    break;
  }
  return BufferKind::Input;
}

std::optional<InputRole> inputRoleOf(ArgumentKind kind) {
  switch (kind) {
  case ArgumentKind::Input:
    return InputRole::Data;
  case ArgumentKind::Target:
    return InputRole::Target;
  case ArgumentKind::LearningRate:
    return InputRole::LearningRate;
  case ArgumentKind::Step:
    return InputRole::Step;
  case ArgumentKind::Seed:
    return InputRole::Seed;
  case ArgumentKind::Parameter:
  case ArgumentKind::Frozen:
  case ArgumentKind::Statistic:
  case ArgumentKind::Optimizer:
  case ArgumentKind::Accumulator:
    break;
  }
  return std::nullopt;
}

StepPhase stepPhaseOf(Phase phase) {
  switch (phase) {
  case Phase::Backward:
    return StepPhase::Backward;
  case Phase::Update:
    return StepPhase::Update;
  case Phase::Forward:
    break;
  }
  return StepPhase::Forward;
}

GraphRole graphRoleOf(func::FuncOp graph) {
  auto role = roleOf(graph);
  if (!role)
    throw Error::internal("function @" + graph.getSymName().str() + " has no stow.role");
  switch (*role) {
  case Role::Train:
    return GraphRole::Train;
  case Role::Eval:
    return GraphRole::Eval;
  case Role::Accumulate:
    return GraphRole::Accumulate;
  case Role::Commit:
    return GraphRole::Commit;
  case Role::Measure:
    return GraphRole::Measure;
  case Role::Model:
    break;
  }
  throw Error::internal("function @" + graph.getSymName().str() +
                        " is the model, which is no part of a program");
}

} // namespace stow
