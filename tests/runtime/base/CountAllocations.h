// Counts what the whole process allocates, by replacing the C allocator in the test's binary: the
// shared libraries it loads, oneDNN and libgomp among them, resolve to the same functions.
#pragma once

#include <cstdint>

namespace stow::test {

/// False under sanitizers, which replace the allocator themselves.
bool allocationsAreCounted();

/// Totals since the start, over all threads: calls of malloc, calloc, realloc and their aligned
/// variants, the bytes asked for, and the most that one call asked for.
struct Allocations {
  int64_t calls = 0;
  int64_t bytes = 0;
  int64_t largest = 0;
};
Allocations allocationsSoFar();

} // namespace stow::test
