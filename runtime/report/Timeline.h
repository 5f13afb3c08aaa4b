// A graph's steps on a clock, and what is live at each of them.
#pragma once

#include "runtime/format/Plan.h"

#include <array>
#include <utility>
#include <vector>

namespace stow {

class Timeline {
public:
  /// Steps follow each other without a gap, each for its planned time; those of unknown time take a
  /// microsecond. O(steps + buffers).
  explicit Timeline(const GraphPlan &graph);

  /// Nanoseconds from the graph's start to that of step `step`, and to its end.
  int64_t begin(size_t step) const { return starts[step]; }
  int64_t end(size_t step) const { return starts[step + 1]; }

  /// Sum of the sizes of the buffers that are live at `step`.
  Bytes liveBytes(size_t step) const;

  /// The same by kind, all kinds, in the order of the enumeration.
  std::array<std::pair<BufferKind, Bytes>, kBufferKinds> liveByKind(size_t step) const;

private:
  std::vector<int64_t> starts;                       ///< by step, and the end of the last
  std::vector<std::array<Bytes, kBufferKinds>> live; ///< by step and kind
};

} // namespace stow
