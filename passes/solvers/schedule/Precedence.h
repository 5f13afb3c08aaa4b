// Which op's first run precedes which: ancestors and descendants of every op, as bit matrices.
#pragma once

#include "passes/solvers/schedule/Core.h"

namespace stow::schedule {

/// Every op precedes itself. Rows are sets of ops: bit `op % 64` of word `op / 64`.
class Precedence {
public:
  explicit Precedence(const Core &core);

  /// Adds u before v, and what follows from it.
  void add(size_t u, size_t v);

  size_t words() const { return wordCount; }
  const uint64_t *above(size_t v) const { return &ancestors[v * wordCount]; }
  const uint64_t *below(size_t v) const { return &descendants[v * wordCount]; }
  static bool has(const uint64_t *set, size_t op) { return set[op / 64] >> (op % 64) & 1; }

  bool precedes(size_t u, size_t v) const { return has(above(v), u); }
  std::vector<char> aboveOf(size_t v) const { return marks(above(v)); }
  std::vector<char> belowOf(size_t v) const { return marks(below(v)); }

private:
  using Matrix = std::vector<uint64_t>;
  void merge(Matrix &matrix, size_t to, const uint64_t *set) const;
  std::vector<char> marks(const uint64_t *set) const;

  size_t count, wordCount;
  Matrix ancestors, descendants;
};

} // namespace stow::schedule
