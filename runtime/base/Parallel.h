// The process's one thread pool.
//
// oneDNN runs its primitives on libgomp's pool. Generated kernels and host loops run on the same
// pool, so that a step neither keeps two sets of threads nor hands the cores back and forth between
// them. libgomp is called through its public entry points, which any compiler can link; building
// with -fopenmp is neither needed nor wanted (clang would bring its own runtime along).
#pragma once

#include <cstdint>

namespace stow {

/// Sets how many threads parallelFor and the library may use from the calling thread on.
/// `threads` is at least 1; it may exceed the number of cores.
void setThreads(int64_t threads);

/// The number of threads the next parallel region of the calling thread may use.
int64_t currentThreads();

/// Sets the thread count for a scope and restores the previous one at its end.
class ThreadScope {
public:
  explicit ThreadScope(int64_t threads) : previous(currentThreads()) { setThreads(threads); }
  ~ThreadScope() { setThreads(previous); }
  ThreadScope(const ThreadScope &) = delete;
  ThreadScope &operator=(const ThreadScope &) = delete;

private:
  int64_t previous;
};

namespace detail {
void parallelForErased(int64_t tasks, int64_t threads, const void *body,
                       void (*call)(const void *body, int64_t begin, int64_t end));
} // namespace detail

/// Splits the tasks [0, tasks) into one contiguous range per thread, sizes differing by at most
/// one, and calls `body(begin, end)` for each range that is not empty; returns when all are done.
/// The split depends on `tasks` and the thread count alone. Runs on the calling thread when threads
/// or tasks is 1, or inside another parallel region. `body` must not throw. Allocates nothing once
/// the pool has its threads.
template <typename Body> void parallelFor(int64_t tasks, int64_t threads, const Body &body) {
  detail::parallelForErased(tasks, threads, &body,
                            [](const void *erased, int64_t begin, int64_t end) {
                              (*static_cast<const Body *>(erased))(begin, end);
                            });
}

} // namespace stow
