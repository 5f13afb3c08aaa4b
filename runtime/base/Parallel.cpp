// A pool of threads that wait briefly and then sleep, and libgomp's interface on top of it.
//
// A region is a function that every member of a team calls with its number, 0 being the thread that
// opened the region. Each member has a slot, an atomic word that says in which region its share was
// last opened and whether somebody has taken it:
//
//     region 7 opens           member 1 wakes           member 0 is done first and
//     slot 1: 7 open           slot 1: 7 taken          takes the share of member 2, which sleeps
//     slot 2: 7 open           slot 2: 7 open           slot 2: 7 taken
//
// Taking a share is one compare-and-swap, so a thread that wakes late finds its share taken, or
// opened again by a later region, and never touches a region that has ended: a region ends only
// when every share that was taken is done. Shares of OpenMP regions are not taken from others,
// because they may wait for each other.
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <dlfcn.h>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace stow {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A word that threads wait on and others change.
struct WaitWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  /// Wakes whoever sleeps on the word; call after the change. Both sides use sequentially
  /// consistent accesses: either the sleeper sees the change, or this sees the sleeper.
  void wake() {
    if (sleepers.load() != 0)
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
};
static_assert(sizeof(std::atomic<uint32_t>) == 4, "futexes are 32 bits wide");

/// How long a thread spins before it sleeps. On a machine that is free, the next region comes
/// within microseconds and spinning finds it; on one that is not, spinning takes the processor from
/// the very thread that is waited for. Which of both holds is learned from wait to wait.
class Patience {
public:
  /// Returns once `word` is no longer `seen`.
  void waitWhile(WaitWord &word, uint32_t seen, int team) {
    if (team <= processors && spin(word, seen))
      return;
    word.sleepers.fetch_add(1);
    while (word.value.load() == seen)
      syscall(SYS_futex, &word.value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    word.sleepers.fetch_sub(1);
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds longest{200'000}, shortest{1'000};

  bool spin(const WaitWord &word, uint32_t seen) {
    const Clock::time_point end = Clock::now() + budget;
    do {
      for (int i = 0; i < 16; ++i) {
        if (word.value.load(std::memory_order_acquire) != seen) {
          budget = std::min(2 * budget, longest);
          return true;
        }
        pause();
      }
    } while (Clock::now() < end);
    budget = std::max(budget / 2, shortest);
    return false;
  }

  std::chrono::nanoseconds budget = longest;
  int64_t processors = availableProcessors();
};

/// What the calling thread runs at the moment.
struct Membership {
  int64_t limit = availableProcessors(); ///< threads of the next region it opens
  int number = 0;                        ///< among the members of the region
  int team = 1;
  bool inRegion = false;
  Patience patience;
};
thread_local Membership self;

struct Region {
  void (*function)(void *) = nullptr;
  void *data = nullptr;
  int team = 1;
  bool sharesAreFree = false; ///< any member may run any share
};

class Pool {
public:
  /// The process's pool. It is never destroyed: its threads sleep when the process ends. A forked
  /// process has none of the threads and starts with a new pool.
  static Pool &get() {
    static Pool *pool = [] {
      pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
      return new Pool;
    }();
    return *pool;
  }

  /// Calls `function(data)` once for each of `team` members, 2 to maxThreads. One region runs at a
  /// time: regions that other threads open wait for it.
  void run(const Region &wanted);

  /// Returns when all members of the running team have called it.
  void barrier();

private:
  struct alignas(64) Slot {
    WaitWord word; ///< 2 * region while its share is open, one more once it is taken
  };

  void grow(int team);
  [[noreturn]] void work(int member);
  bool take(int member, uint32_t open) {
    return slots[member].word.value.compare_exchange_strong(open, open + 1);
  }
  void runShares(const Region &current, int member, uint32_t open);

  std::mutex mutex; ///< held by the thread whose region runs
  int members = 1;  ///< slots that have a thread; the first belongs to whoever opens a region
  std::array<Slot, maxThreads> slots;
  Region region;       ///< written while no share is open
  uint32_t number = 0; ///< of the region, from 1; wraps around at 31 bits
  alignas(64) WaitWord unfinished;
  alignas(64) std::atomic<int> arrived{0};
  WaitWord barrierRound;
};

void Pool::grow(int team) {
  for (; members < team; ++members)
    std::thread([this, member = members] { work(member); }).detach();
}

/// Runs the share of `member`, which the calling thread has taken, and what is left of others.
void Pool::runShares(const Region &current, int member, uint32_t open) {
  uint32_t done = 0;
  for (int i = 0; i < (current.sharesAreFree ? current.team : 1); ++i) {
    int share = (member + i) % current.team;
    if (i > 0 && !take(share, open))
      continue;
    self.number = share;
    current.function(current.data);
    ++done;
  }
  if (unfinished.value.fetch_sub(done) == done)
    unfinished.wake();
}

void Pool::work(int member) {
  WaitWord &word = slots[member].word;
  self.inRegion = true;
  for (;;) {
    uint32_t seen = word.value.load(std::memory_order_acquire);
    bool isOpen = seen % 2 == 0 && seen != 0;
    if (isOpen && take(member, seen)) {
      Region current = region;
      self.team = current.team;
      runShares(current, member, seen);
    } else if (!isOpen) {
      self.patience.waitWhile(word, seen, self.team);
    }
  }
}

void Pool::run(const Region &wanted) {
  std::lock_guard lock(mutex);
  grow(wanted.team);
  region = wanted;
  number = number % 0x7fffffff + 1;
  const uint32_t open = 2 * number;
  unfinished.value.store(static_cast<uint32_t>(wanted.team));
  slots[0].word.value.store(open + 1);
  for (int member = 1; member < wanted.team; ++member) {
    slots[member].word.value.store(open);
    slots[member].word.wake();
  }
  self.team = wanted.team;
  self.inRegion = true;
  runShares(wanted, 0, open);
  self.number = 0;
  self.team = 1;
  self.inRegion = false;
  while (uint32_t left = unfinished.value.load())
    self.patience.waitWhile(unfinished, left, wanted.team);
}

void Pool::barrier() {
  uint32_t round = barrierRound.value.load();
  if (arrived.fetch_add(1) + 1 < self.team) {
    self.patience.waitWhile(barrierRound, round, self.team);
    return;
  }
  arrived.store(0);
  barrierRound.value.fetch_add(1);
  barrierRound.wake();
}

/// One region of parallelFor.
struct Split {
  int64_t tasks;
  const void *body;
  void (*call)(const void *, int64_t, int64_t);
};

void runRange(void *data) {
  const Split &split = *static_cast<const Split *>(data);
  int64_t share = split.tasks / self.team, rest = split.tasks % self.team;
  int64_t begin = self.number * share + std::min<int64_t>(self.number, rest);
  split.call(split.body, begin, begin + share + (self.number < rest ? 1 : 0));
}

/// The thread count of the libgomp that the process has loaded, if any: other users of it, such as
/// PyTorch, have one of their own on this thread. Found in libgomp itself, because this program may
/// define omp_get_max_threads.
struct ProcessOpenMp {
  void (*setMost)(int) = nullptr;
  int (*most)() = nullptr;

  static const ProcessOpenMp &get() {
    static const ProcessOpenMp found;
    return found;
  }

private:
  ProcessOpenMp() {
    void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    Dl_info info{};
    if (!set || !dladdr(set, &info))
      return;
    if (void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      setMost = reinterpret_cast<void (*)(int)>(set);
      most = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
    }
    if (!most)
      setMost = nullptr;
  }
};

} // namespace

int64_t availableProcessors() {
  static const int64_t count = [] {
    cpu_set_t set;
    bool isKnown = sched_getaffinity(0, sizeof(set), &set) == 0;
    return std::max<int64_t>(isKnown ? CPU_COUNT(&set) : std::thread::hardware_concurrency(), 1);
  }();
  return count;
}

void setThreads(int64_t threads) {
  self.limit = std::clamp<int64_t>(threads, 1, maxThreads);
  if (ProcessOpenMp::get().setMost)
    ProcessOpenMp::get().setMost(static_cast<int>(self.limit));
}

ThreadScope::ThreadScope(int64_t threads) : previous(self.limit) {
  if (ProcessOpenMp::get().most)
    previousOpenMp = ProcessOpenMp::get().most();
  setThreads(threads);
}

ThreadScope::~ThreadScope() {
  self.limit = previous;
  if (previousOpenMp > 0)
    ProcessOpenMp::get().setMost(previousOpenMp);
}

int64_t currentThreads() { return self.limit; }

void detail::parallelForErased(int64_t tasks, int64_t threads, const void *body,
                               void (*call)(const void *, int64_t, int64_t)) {
  if (tasks <= 0)
    return;
  threads = std::min({threads, tasks, maxThreads});
  if (threads <= 1 || self.inRegion)
    return call(body, 0, tasks);
  Split split{tasks, body, call};
  Pool::get().run({runRange, &split, static_cast<int>(threads), /*sharesAreFree=*/true});
}

} // namespace stow

// What oneDNN calls of libgomp, with the meaning that OpenMP gives it; nested regions have one
// member. tests/e2e/promises.py holds the list to what the installed oneDNN calls.
extern "C" {

void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned) {
  using namespace stow;
  int64_t team = std::min<int64_t>(threads == 0 ? self.limit : threads, maxThreads);
  if (team > 1 && !self.inRegion)
    return Pool::get().run({function, data, static_cast<int>(team), /*sharesAreFree=*/false});
  int number = std::exchange(self.number, 0), outer = std::exchange(self.team, 1);
  function(data);
  self.number = number;
  self.team = outer;
}

void GOMP_barrier(void) {
  if (stow::self.team > 1)
    stow::Pool::get().barrier();
}

int omp_get_thread_num(void) { return stow::self.number; }
int omp_get_num_threads(void) { return stow::self.team; }
int omp_get_max_threads(void) { return static_cast<int>(stow::self.limit); }
int omp_in_parallel(void) { return stow::self.inRegion; }
}
