// Preloaded into a compiled model: kills the process, as SIGKILL does, in front of the call with
// the number STOWAGE_KILL_AT of those that change files: write, fsync, fdatasync and rename. When
// the process ends by itself, writes how many there were to the file that STOWAGE_CALLS names.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace {

std::atomic<long> calls{0};

void countCall() {
  static const char *text = std::getenv("STOWAGE_KILL_AT");
  static const long last = text ? std::atol(text) : -1;
  if (++calls == last)
    raise(SIGKILL);
}

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

struct Report {
  ~Report() {
    const char *path = std::getenv("STOWAGE_CALLS");
    if (FILE *file = path ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%ld\n", calls.load());
      std::fclose(file);
    }
  }
} report;

} // namespace

extern "C" {
ssize_t write(int file, const void *data, size_t size) {
  static const auto call = next<ssize_t (*)(int, const void *, size_t)>("write");
  countCall();
  return call(file, data, size);
}
int fsync(int file) {
  static const auto call = next<int (*)(int)>("fsync");
  countCall();
  return call(file);
}
int fdatasync(int file) {
  static const auto call = next<int (*)(int)>("fdatasync");
  countCall();
  return call(file);
}
int rename(const char *from, const char *to) {
  static const auto call = next<int (*)(const char *, const char *)>("rename");
  countCall();
  return call(from, to);
}
}
