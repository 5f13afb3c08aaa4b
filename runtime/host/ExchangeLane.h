// The network's lane: what ranks exchange while the caller computes.
//
//   caller   start(a) | compute ... start(b) ... | await(a) | compute ... | await(b)
//   lane         |======= a ========|======= b =======|                                  one thread, in the order of the starts
//
// All ranks start the same exchanges in the same order, and the engine sees them in that order on each.
#pragma once

#include "runtime/base/CopyPace.h"
#include "runtime/host/Library.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stow::host {

/// What a rank does in a collective.
class Exchange : public LibraryCall {
public:
  /// What the caller does before it starts: reads what is its own again behind that. Needs no other rank.
  virtual void prepare() {}
  /// The rest, on whatever thread; in it the ranks meet.
  virtual void exchange() = 0;
  void run() final {
    prepare();
    exchange();
  }
};

class ExchangeLane {
public:
  /// `time`: exchanges pass on the lane's thread, or, for tests, at their starts or their awaits on the caller's. `scratchBytes`: of
  /// memory in which exchanges of the lane make their sums, one after the other.
  ExchangeLane(CopyTime time, Bytes scratchBytes);
  /// Waits for what is under way.
  ~ExchangeLane();
  ExchangeLane(const ExchangeLane &) = delete;
  ExchangeLane &operator=(const ExchangeLane &) = delete;

  char *scratch() { return memory.get(); }

  /// Notes an exchange to make again and again; returns its number.
  size_t add(std::unique_ptr<Exchange> exchange);

  /// The number that the next one gets.
  size_t nextNumber();

  /// Starts one, which has been awaited if it was started before.
  void start(size_t number);
  /// Returns when it has ended. Throws what it threw; one behind an exchange that threw is not made, and throws the same.
  void await(size_t number);

  /// Seconds that awaits have held their caller so far.
  double waitedSeconds() const { return waited; }
  void forgetWaits() { waited = 0; }

private:
  struct Job {
    std::unique_ptr<Exchange> exchange;
    bool isEnded = false;
  };
  struct Free {
    void operator()(char *memory) const;
  };

  void work();
  void runNow(Job &job);

  const CopyTime time;
  const pid_t process = ::getpid();
  std::unique_ptr<char, Free> memory;
  std::mutex mutex;
  std::condition_variable changed; ///< of anything below
  std::vector<std::unique_ptr<Job>> jobs;
  std::deque<Job *> queue;
  std::exception_ptr problem; ///< of the first exchange that threw
  bool isStopping = false;
  double waited = 0;
  std::thread thread;
};

/// The two commands of a started exchange.
std::unique_ptr<LibraryCall> startOf(ExchangeLane &lane, size_t number);
std::unique_ptr<LibraryCall> awaitOf(ExchangeLane &lane, size_t number);
/// Both as one command.
std::unique_ptr<LibraryCall> startAndAwait(ExchangeLane &lane, size_t number);

} // namespace stow::host
