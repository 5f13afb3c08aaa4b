// Short ways to write packing problems in tests.
#pragma once

#include "ir/plan/pack/Problem.h"

namespace stow::pack::test {

/// A buffer named b0, b1, ... by its position.
inline BufferId add(Problem &problem, Time begin, Time end, Bytes size, Bytes alignment = 1) {
  const auto id = static_cast<BufferId>(problem.buffers.size());
  Buffer buffer;
  buffer.name = "b" + std::to_string(id);
  buffer.life = {begin, end};
  buffer.size = size;
  buffer.alignment = alignment;
  problem.buffers.push_back(buffer);
  return id;
}

/// The picture of Problem.h: a 2 high in [0, 5), b 2 high in [1, 4), c 4 high in [4, 7) above
/// nothing but a, d 2 high in [5, 8).
inline Problem picture() {
  Problem problem;
  add(problem, 0, 5, 2);
  add(problem, 1, 4, 2);
  add(problem, 4, 7, 4);
  add(problem, 5, 8, 2);
  return problem;
}

} // namespace stow::pack::test
