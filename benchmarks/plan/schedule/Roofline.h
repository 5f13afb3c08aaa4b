// Training steps with the costs of a GPU's kernels, for the benchmarks of schedules.
#pragma once

#include "ir/plan/Random.h"
#include "ir/plan/schedule/Generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace stow::schedule {

/// Costs as a profile of kernels has them, instead of FLOPs: nanoseconds on a GPU of 15.7 TFLOP/s
/// and 0.9 TB/s (V100) with 3 us per launch, times a factor from 0.5 to 2 for each kind of op and
/// from 0.8 to 1.25 for each op, forward and backward by themselves.
inline Problem rooflineStep(Problem forward, uint64_t seed) {
  Random random(seed);
  auto factor = [&](double most) { return std::pow(most, 2 * random.real() - 1); };
  std::map<std::string, double> ofKind;
  for (Op &op : forward.ops) {
    double bytes = 0;
    for (const std::vector<ValueId> *list : {&op.inputs, &op.outputs})
      for (ValueId value : *list)
        bytes += static_cast<double>(forward.storages[forward.values[value].storage].sizeBytes);
    const std::string kind = op.name.substr(0, op.name.find_first_of("0123456789._"));
    const double scale = ofKind.try_emplace(kind, factor(2)).first->second;
    for (Alternative &way : op.alternatives)
      way.cost = std::llround(
          scale * (3e3 + std::max(static_cast<double>(way.cost) / 15.7e3, bytes / 0.9e3)));
  }
  Problem step = trainingStep(forward);
  for (Op &op : step.ops)
    for (Alternative &way : op.alternatives)
      way.cost = std::max<Cost>(1, std::llround(static_cast<double>(way.cost) * factor(1.25)));
  return step;
}

} // namespace stow::schedule
