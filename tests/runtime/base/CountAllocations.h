// Counts what the whole process allocates, by replacing the C allocator in the test's binary: the
// shared libraries it loads, oneDNN and libgomp among them, resolve to the same functions.
#pragma once

#include <cstdint>

namespace stow::test {

/// False under sanitizers, which replace the allocator themselves.
bool allocationsAreCounted();

/// Totals since the start, over all threads: calls of malloc, calloc, realloc and their aligned
/// variants, and the bytes asked for.
struct Allocations {
  int64_t calls;
  int64_t bytes;
};
Allocations allocationsSoFar();

} // namespace stow::test
