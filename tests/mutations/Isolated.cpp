#include "tests/mutations/Isolated.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stow::test {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool isSanitized = true;
#elif defined(__has_feature)
constexpr bool isSanitized = __has_feature(address_sanitizer) || __has_feature(memory_sanitizer);
#else
constexpr bool isSanitized = false;
#endif

constexpr rlim_t mostMemory = rlim_t{4} << 30;
constexpr int threwCode = 98, noMemoryCode = 97;

/// What both processes see.
struct Shared {
  volatile int64_t current, accepted;
  char message[4000];
};

Shared *newShared() {
  void *memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("no memory to share with a process");
  return new (memory) Shared{};
}

void limitItem() {
  const itimerval seconds = {{0, 0}, {60, 0}};
  ::setitimer(ITIMER_PROF, &seconds, nullptr);
  ::alarm(600);
}

[[noreturn]] void child(Shared &shared, int64_t first, int64_t limit, int words,
                        const std::function<bool(int64_t)> &work) {
  ::dup2(words, STDERR_FILENO);
  if (!std::freopen("/dev/null", "w", stdout))
    ::_exit(threwCode);
  const rlimit noCore = {0, 0}, memory = {mostMemory, mostMemory};
  ::setrlimit(RLIMIT_CORE, &noCore);
  if (!isSanitized)
    ::setrlimit(RLIMIT_AS, &memory);
  std::set_new_handler([] { ::_exit(noMemoryCode); });
  for (int64_t item = first; item < limit; ++item) {
    shared.current = item;
    limitItem();
    try {
      shared.accepted = shared.accepted + (work(item) ? 1 : 0);
    } catch (const std::exception &error) {
      std::snprintf(shared.message, sizeof shared.message, "%s", error.what());
      ::_exit(threwCode);
    }
  }
  shared.current = limit;
  ::_exit(0); // what static objects do at the end is not what is tested
}

std::string lastWords(std::FILE *file) {
  std::string text;
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file), most = 3000;
  std::fseek(file, std::max(0l, size - most), SEEK_SET);
  text.resize(static_cast<size_t>(std::min(size, most)));
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

} // namespace

Ending runIsolated(int64_t first, int64_t limit, const std::function<bool(int64_t)> &work) {
  Shared *shared = newShared();
  std::FILE *words = std::tmpfile();
  if (!words)
    throw std::runtime_error("no temporary file");
  std::fflush(stdout);
  const pid_t process = ::fork();
  if (process < 0)
    throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
  if (process == 0)
    child(*shared, first, limit, ::fileno(words), work);
  int status = 0;
  rusage usage = {};
  while (::wait4(process, &status, 0, &usage) < 0 && errno == EINTR)
    ;
  Ending ending;
  ending.next = shared->current;
  ending.accepted = shared->accepted;
  ending.processorSeconds =
      static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
      1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    ending.cause = signal == SIGPROF ? "more than 60 s of processor time"
                   : signal == SIGALRM
                       ? "no end in 10 minutes"
                       : "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  } else if (code == threwCode) {
    ending.cause = shared->message;
  } else if (code != 0 && code != noMemoryCode) {
    ending.cause = "exit code " + std::to_string(code);
  }
  ending.isFailure = !ending.cause.empty();
  ending.words = lastWords(words);
  std::fclose(words);
  ::munmap(shared, sizeof(Shared));
  return ending;
}

} // namespace stow::test
