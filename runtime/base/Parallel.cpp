#include "runtime/base/Parallel.h"

#include <algorithm>

// libgomp's public interface, as compilers emit it for "#pragma omp parallel" and as <omp.h>
// declares it. Declared here because <omp.h> is not on clang's include path without its own OpenMP.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace stow {

void setThreads(int64_t threads) {
  omp_set_num_threads(static_cast<int>(std::max<int64_t>(threads, 1)));
}

int64_t currentThreads() { return omp_get_max_threads(); }

namespace {

struct Region {
  int64_t tasks;
  const void *body;
  void (*call)(const void *, int64_t, int64_t);
};

/// Runs the calling thread's share. The team may be smaller than asked for (thread limits, nested
/// regions), so the split follows its actual size.
void runShare(void *data) {
  const Region &region = *static_cast<const Region *>(data);
  int64_t team = omp_get_num_threads();
  int64_t member = omp_get_thread_num();
  int64_t share = region.tasks / team, rest = region.tasks % team;
  int64_t begin = member * share + std::min(member, rest);
  int64_t end = begin + share + (member < rest ? 1 : 0);
  if (begin < end)
    region.call(region.body, begin, end);
}

} // namespace

void detail::parallelForErased(int64_t tasks, int64_t threads, const void *body,
                               void (*call)(const void *, int64_t, int64_t)) {
  if (tasks <= 0)
    return;
  threads = std::min(threads, tasks);
  if (threads <= 1)
    return call(body, 0, tasks);
  Region region{tasks, body, call};
  GOMP_parallel(runShare, &region, static_cast<unsigned>(threads), 0);
}

} // namespace stow
