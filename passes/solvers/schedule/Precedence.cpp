#include "passes/solvers/schedule/Precedence.h"

namespace stow::schedule {

Precedence::Precedence(const Core &core)
    : count(core.ops.size()), wordCount((count + 63) / 64), ancestors(count * wordCount),
      descendants(ancestors) {
  for (size_t v = 0; v < count; ++v)
    for (Matrix *matrix : {&ancestors, &descendants})
      (*matrix)[v * wordCount + v / 64] |= uint64_t(1) << (v % 64);
  for (size_t v = 0; v < count; ++v)
    for (int32_t value : core.ops[v].inputs)
      if (core.values[value].producer)
        merge(ancestors, v, above(*core.values[value].producer));
  for (size_t v = count; v-- > 0;)
    for (int32_t value : core.ops[v].inputs)
      if (core.values[value].producer)
        merge(descendants, *core.values[value].producer, below(v));
}

void Precedence::add(size_t u, size_t v) {
  const std::vector<uint64_t> before(above(u), above(u) + wordCount),
      after(below(v), below(v) + wordCount);
  for (size_t w = 0; w < count; ++w) {
    if (has(after.data(), w))
      merge(ancestors, w, before.data());
    if (has(before.data(), w))
      merge(descendants, w, after.data());
  }
}

void Precedence::merge(Matrix &matrix, size_t to, const uint64_t *set) const {
  for (size_t w = 0; w < wordCount; ++w)
    matrix[to * wordCount + w] |= set[w];
}

std::vector<char> Precedence::marks(const uint64_t *set) const {
  std::vector<char> result(count);
  for (size_t u = 0; u < count; ++u)
    result[u] = has(set, u);
  return result;
}

} // namespace stow::schedule
