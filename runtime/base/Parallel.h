// The process's one thread pool.
//
// Generated kernels, host loops and oneDNN all run on it, so that a step neither keeps two sets of
// threads nor hands the cores back and forth between them. oneDNN is built for OpenMP and calls six
// functions of libgomp; Parallel.cpp defines them, and a program that links it gives oneDNN this
// pool in place of libgomp's, whose threads spin for milliseconds before they sleep. That is what
// makes a program with two threads many times slower than one with a single thread as soon as the
// machine has other work (docs/decisions/2026-11-22-waiting-threads.md).
//
// A thread that waits spins for at most 200 microseconds, less after each wait that spinning did
// not end, and not at all when the team is larger than the number of processors; then it sleeps.
#pragma once

#include <cstdint>

namespace stow {

/// The most threads that a parallel region can have.
inline constexpr int64_t maxThreads = 1024;

/// Sets how many threads parallelFor and the library may use from the calling thread on. In a
/// shared library, whose symbols are hidden, oneDNN runs on the libgomp of the process: it is told,
/// too. `threads` is from 1 to maxThreads; it may exceed the number of processors.
void setThreads(int64_t threads);

/// The number of threads the next parallel region of the calling thread may use; at first the
/// number of processors this process may run on.
int64_t currentThreads();

/// The number of processors this process may run on, at least 1.
int64_t availableProcessors();

/// Sets the thread count for a scope and restores at its end the previous one, and what libgomp
/// had: a process that loads a shared library may have chosen that for its own use.
class ThreadScope {
public:
  explicit ThreadScope(int64_t threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope &) = delete;
  ThreadScope &operator=(const ThreadScope &) = delete;

private:
  int64_t previous;
  int previousOpenMp = 0; ///< 0: the process has no libgomp
};

namespace detail {
void parallelForErased(int64_t tasks, int64_t threads, const void *body,
                       void (*call)(const void *body, int64_t begin, int64_t end));
} // namespace detail

/// Splits the tasks [0, tasks) into one contiguous range per thread, sizes differing by at most
/// one, and calls `body(begin, end)` for each range that is not empty; returns when all are done.
/// The split depends on `tasks` and the thread count alone; which thread runs a range depends on
/// who is free: one that the system has not scheduled yet does not hold up the others. Runs on the
/// calling thread when threads or tasks is 1, or inside another parallel region. `body` must not
/// throw, and no range may wait for another. Allocates nothing once the pool has its threads.
template <typename Body> void parallelFor(int64_t tasks, int64_t threads, const Body &body) {
  detail::parallelForErased(tasks, threads, &body,
                            [](const void *erased, int64_t begin, int64_t end) {
                              (*static_cast<const Body *>(erased))(begin, end);
                            });
}

} // namespace stow
