// Preloaded into a compiled model: counts heap allocations over the life of the process and writes
// "<calls> <bytes> <largest>" to the file that STOWAGE_ALLOCATIONS names when it ends.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
}

namespace {

std::atomic<size_t> calls, bytes, largest;

void count(size_t size) {
  ++calls;
  bytes += size;
  size_t seen = largest;
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {
  }
}

struct Report {
  ~Report() {
    const char *path = std::getenv("STOWAGE_ALLOCATIONS");
    size_t totals[] = {calls, bytes, largest};
    if (FILE *file = path ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%zu %zu %zu\n", totals[0], totals[1], totals[2]);
      std::fclose(file);
    }
  }
} report;

} // namespace

extern "C" {
void *malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}
void *calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}
void *realloc(void *block, size_t size) {
  count(size);
  return __libc_realloc(block, size);
}
void *memalign(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block ? 0 : 12; // ENOMEM
}
}
