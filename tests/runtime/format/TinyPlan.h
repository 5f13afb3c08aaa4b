// A plan small enough to draw by hand; shared by the format tests.
//
//   offset
//    448 +-------+
//        | work  |
//    384 +-------+-------+
//        |  hidden  (a)  |  grad
//    256 +---+-----------+---+       train: 5 steps, peak at step 2
//        | x             |
//    192 +---------------+---+
//        | w.momentum            128..192
//     64 | w                       0..128
//      0 +-----------------------+
#pragma once

#include "runtime/format/Plan.h"

namespace stow {

inline PlannedBuffer makeBuffer(std::string name, BufferKind kind, Shape shape, Bytes offset,
                                Bytes size, int64_t begin, int64_t end) {
  PlannedBuffer buffer;
  buffer.name = std::move(name);
  buffer.kind = kind;
  buffer.dtype = DType::F32;
  buffer.shape = std::move(shape);
  buffer.source = "tiny.onnx:" + buffer.name;
  buffer.offset = offset;
  buffer.size = buffer.logicalSize = size;
  buffer.begin = begin;
  buffer.end = end;
  return buffer;
}

/// A step that takes half a millisecond.
inline PlannedStep makeStep(std::string op, std::optional<StepPhase> phase,
                            std::vector<int64_t> reads, std::vector<int64_t> writes) {
  PlannedStep step;
  step.name = step.op = std::move(op);
  step.source = "tiny.onnx:" + step.op;
  step.module = "net." + step.op;
  step.phase = phase;
  step.seconds = 0.0005;
  step.reads = std::move(reads);
  step.writes = std::move(writes);
  return step;
}

/// Live bytes per step of "train": 256, 392, 456, 384, 192; the arena is 512.
inline Plan makeTinyPlan() {
  Plan plan;
  plan.model = "tiny";
  plan.arenaBytes = 512;
  plan.persistentBytes = 192;
  plan.alignment = 64;
  plan.lowerBoundBytes = plan.logicalBoundBytes = 512;
  plan.livePeakBytes = 456;
  plan.status = "optimal";
  plan.extraTimeFraction = 0.125;
  plan.extraTimeBound = 0.0625;
  plan.stepSeconds = 0.25;
  plan.costSource = "measured on tiny, 2 threads";
  plan.withoutRecomputeBytes = 640;
  plan.outsideArenaBytes = 1 << 20;
  plan.tensors = {{3, 1234}, {1, 32}, {}, {2, 5}, "the file's graph signature"};

  GraphPlan train;
  train.role = GraphRole::Train;
  train.stepCount = 5;
  train.steps = {
      makeStep("load", StepPhase::Forward, {0}, {2}),
      makeStep("matmul", StepPhase::Forward, {0, 2}, {3, 5}),
      makeStep("loss", StepPhase::Forward, {3}, {4, 5}),
      makeStep("matmul", StepPhase::Backward, {0, 2}, {3}),
      makeStep("sgd", StepPhase::Update, {0, 1}, {0, 1}),
  };
  train.steps[3].name = "matmul of again";
  train.steps[3].recomputes = 1;
  train.livePeakBytes = 456;
  train.peakStep = 2;
  train.lowerBoundBytes = 512;
  train.buffers = {
      makeBuffer("w", BufferKind::Parameter, {8, 4}, 0, 128, 0, 5),
      makeBuffer("w.momentum", BufferKind::Optimizer, {4, 4}, 128, 64, 0, 5),
      makeBuffer("x", BufferKind::Input, {4, 4}, 192, 64, 0, 4),
      makeBuffer("hidden", BufferKind::Activation, {8, 4}, 256, 128, 1, 4),
      makeBuffer("scratch", BufferKind::Workspace, {18}, 384, 72, 2, 3),
      makeBuffer("loss, mean", BufferKind::Output, {2}, 384, 8, 1, 2),
  };
  train.buffers[3].aliases = {{"hidden.relu", AliasKind::InPlace, 2},
                              {"hidden.flat", AliasKind::View, std::nullopt}};
  train.buffers[3].recomputed = true;
  train.buffers[3].module = "net";
  train.buffers[3].layout = "1,0";
  train.buffers[3].reason = "computed again instead of kept";
  train.buffers[3].recomputeSeconds = 0.0005;

  GraphPlan eval;
  eval.role = GraphRole::Eval;
  eval.stepCount = 2;
  eval.steps = {makeStep("load", StepPhase::Forward, {0}, {2}),
                makeStep("matmul", StepPhase::Forward, {0, 2}, {3})};
  eval.livePeakBytes = 320;
  eval.peakStep = 1;
  eval.lowerBoundBytes = 320;
  eval.buffers = {
      makeBuffer("w", BufferKind::Parameter, {8, 4}, 0, 128, 0, 2),
      makeBuffer("w.momentum", BufferKind::Optimizer, {4, 4}, 128, 64, 0, 2),
      makeBuffer("x", BufferKind::Input, {4, 4}, 192, 64, 0, 2),
      makeBuffer("hidden", BufferKind::Activation, {4, 4}, 256, 64, 1, 2),
  };
  plan.graphs = {train, eval};
  return plan;
}

} // namespace stow
