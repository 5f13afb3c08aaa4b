#include "runtime/report/Timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stow {

Timeline::Timeline(const GraphPlan &graph) : starts{0}, live(graph.steps.size() + 1) {
  for (const PlannedStep &step : graph.steps)
    starts.push_back(starts.back() + (step.seconds > 0
                                          ? std::max<int64_t>(1, std::llround(step.seconds * 1e9))
                                          : 1000));
  for (const PlannedBuffer &buffer : graph.buffers) {
    live[buffer.begin][static_cast<size_t>(buffer.kind)] += buffer.size;
    live[buffer.end][static_cast<size_t>(buffer.kind)] -= buffer.size;
  }
  for (size_t i = 1; i < live.size(); ++i)
    for (size_t kind = 0; kind < kBufferKinds; ++kind)
      live[i][kind] += live[i - 1][kind];
}

Bytes Timeline::liveBytes(size_t step) const {
  return std::accumulate(live[step].begin(), live[step].end(), Bytes{0});
}

std::array<std::pair<BufferKind, Bytes>, kBufferKinds> Timeline::liveByKind(size_t step) const {
  std::array<std::pair<BufferKind, Bytes>, kBufferKinds> kinds;
  for (size_t kind = 0; kind < kBufferKinds; ++kind)
    kinds[kind] = {static_cast<BufferKind>(kind), live[step][kind]};
  return kinds;
}

} // namespace stow
