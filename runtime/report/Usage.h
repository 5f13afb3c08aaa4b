// Which steps use a buffer.
#pragma once

#include "runtime/format/Plan.h"

#include <optional>
#include <vector>

namespace stow {

class BufferUse {
public:
  /// O(uses).
  explicit BufferUse(const GraphPlan &graph) : writers(graph.buffers.size()), readers(writers) {
    for (size_t i = 0; i < graph.steps.size(); ++i) {
      for (int64_t buffer : graph.steps[i].writes)
        writers[buffer].push_back(static_cast<int64_t>(i));
      for (int64_t buffer : graph.steps[i].reads)
        readers[buffer].push_back(static_cast<int64_t>(i));
    }
  }

  /// Steps in program order.
  const std::vector<int64_t> &writersOf(size_t buffer) const { return writers[buffer]; }
  const std::vector<int64_t> &readersOf(size_t buffer) const { return readers[buffer]; }

  /// The first reader at `step` or later.
  std::optional<int64_t> nextReader(size_t buffer, int64_t step) const {
    for (int64_t reader : readers[buffer])
      if (reader >= step)
        return reader;
    return std::nullopt;
  }

  bool isUsedAt(size_t buffer, int64_t step) const {
    for (const std::vector<int64_t> *users : {&writers[buffer], &readers[buffer]})
      for (int64_t user : *users)
        if (user == step)
          return true;
    return false;
  }

private:
  std::vector<std::vector<int64_t>> writers, readers; ///< by buffer
};

} // namespace stow
