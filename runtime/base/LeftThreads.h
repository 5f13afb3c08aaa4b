// Threads of a process that was forked.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

namespace stow {

/// For the process that fork() made: threads of the other one cannot be joined here, and a condition on which they wait cannot be
/// destroyed. All are made anew in their place, and what they held is the other process's.
inline void leaveThreads(std::span<std::thread> threads, std::condition_variable &changed,
                         std::mutex &mutex) {
  for (std::thread &thread : threads)
    std::construct_at(&thread);
  std::construct_at(&changed);
  std::construct_at(&mutex);
}

} // namespace stow
