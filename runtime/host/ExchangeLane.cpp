#include "runtime/host/ExchangeLane.h"

#include "runtime/base/Error.h"
#include "runtime/base/LeftThreads.h"

#include <cstdlib>
#include <new>
#include <string>
#include <system_error>

namespace stow::host {

namespace {

constexpr size_t kScratchAlignment = 64;

/// One exchange of a lane, started, awaited, or both.
class LaneCall : public LibraryCall {
public:
  LaneCall(ExchangeLane &lane, size_t number, bool starts, bool awaits)
      : lane(lane), number(number), starts(starts), awaits(awaits) {}
  void run() override {
    if (starts)
      lane.start(number);
    if (awaits)
      lane.await(number);
  }

private:
  ExchangeLane &lane;
  size_t number;
  bool starts, awaits;
};

} // namespace

void ExchangeLane::Free::operator()(char *memory) const { std::free(memory); }

ExchangeLane::ExchangeLane(CopyTime time, Bytes scratchBytes)
    : time(time), memory(static_cast<char *>(std::aligned_alloc(
                      kScratchAlignment, alignUp(scratchBytes, Bytes{kScratchAlignment})))) {
  if (!memory)
    throw std::bad_alloc();
  if (time != CopyTime::Background)
    return;
  try {
    thread = std::thread([this] { work(); });
  } catch (const std::system_error &error) {
    throw Error::badInput(std::string("cannot start the thread that exchanges with other ranks: ") +
                          error.what());
  }
}

/// A process that was forked has no such thread: there it is not joined, and what it waits for is left as it is.
ExchangeLane::~ExchangeLane() {
  if (!thread.joinable())
    return;
  if (::getpid() != process) {
    leaveThreads({&thread, 1}, changed, mutex);
    return;
  }
  {
    const std::lock_guard lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  thread.join();
}

size_t ExchangeLane::add(std::unique_ptr<Exchange> exchange) {
  const std::lock_guard lock(mutex);
  jobs.push_back(std::make_unique<Job>(Job{std::move(exchange)}));
  return jobs.size() - 1;
}

size_t ExchangeLane::nextNumber() {
  const std::lock_guard lock(mutex);
  return jobs.size();
}

void ExchangeLane::start(size_t number) {
  Job &job = *jobs.at(number);
  job.exchange->prepare();
  if (time != CopyTime::Background) {
    job.isEnded = false;
    if (time == CopyTime::Early)
      runNow(job);
    else
      queue.push_back(&job);
    return;
  }
  {
    const std::lock_guard lock(mutex);
    job.isEnded = false;
    queue.push_back(&job);
  }
  changed.notify_all();
}

/// Late exchanges are made in the order of their starts, too: all ranks await the same one here.
void ExchangeLane::await(size_t number) {
  Job &job = *jobs.at(number);
  if (time != CopyTime::Background) {
    while (!job.isEnded) {
      Job &next = *queue.front();
      queue.pop_front();
      runNow(next);
    }
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return job.isEnded || problem; });
  waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (problem)
    std::rethrow_exception(problem);
}

void ExchangeLane::runNow(Job &job) {
  job.exchange->exchange();
  job.isEnded = true;
}

void ExchangeLane::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return isStopping || (!queue.empty() && !problem); });
    if (isStopping)
      return;
    Job &job = *queue.front();
    queue.pop_front();
    lock.unlock();
    std::exception_ptr thrown;
    try {
      job.exchange->exchange();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    job.isEnded = true;
    if (thrown)
      problem = thrown;
    changed.notify_all();
  }
}

std::unique_ptr<LibraryCall> startOf(ExchangeLane &lane, size_t number) {
  return std::make_unique<LaneCall>(lane, number, true, false);
}

std::unique_ptr<LibraryCall> awaitOf(ExchangeLane &lane, size_t number) {
  return std::make_unique<LaneCall>(lane, number, false, true);
}

std::unique_ptr<LibraryCall> startAndAwait(ExchangeLane &lane, size_t number) {
  return std::make_unique<LaneCall>(lane, number, true, true);
}

} // namespace stow::host
