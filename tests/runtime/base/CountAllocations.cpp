#include "tests/runtime/base/CountAllocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STOW_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define STOW_COUNT_ALLOCATIONS 0
#endif
#endif
#ifndef STOW_COUNT_ALLOCATIONS
#define STOW_COUNT_ALLOCATIONS 1
#endif

namespace {

std::atomic<int64_t> calls{0}, bytes{0}, largest{0};

[[maybe_unused]] void count(size_t size) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  int64_t seen = largest.load(std::memory_order_relaxed);
  while (static_cast<int64_t>(size) > seen &&
         !largest.compare_exchange_weak(seen, static_cast<int64_t>(size))) {
  }
}

} // namespace

#if STOW_COUNT_ALLOCATIONS
// glibc's own names of the functions replaced here.
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}
void *calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}
void *realloc(void *old, size_t size) {
  count(size);
  return __libc_realloc(old, size);
}
void *memalign(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void **result, size_t alignment, size_t size) {
  count(size);
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}
}
#endif

bool stow::test::allocationsAreCounted() { return STOW_COUNT_ALLOCATIONS != 0; }

stow::test::Allocations stow::test::allocationsSoFar() {
  return {calls.load(), bytes.load(), largest.load()};
}
