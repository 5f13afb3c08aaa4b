// Preloaded into a compiled model: kills the process, as SIGKILL does, in front of the call with
// the number STOWAGE_KILL_AT of those that change files: write, fsync, fdatasync, linkat and rename.
// STOWAGE_FULL=FIRST-LAST: writes with these numbers find no space on the device, and the call in
// front of them room for half of what it has to write. STOWAGE_KILL_AT_COPY: in front of the pread or
// pwrite with this number, which are the pieces of copies to slow memory and back.
// STOWAGE_COPY_FAULT=KIND@NUMBER lets the one with this number fail ("error": ENOSPC where it writes, EIO
// where it reads), pass nothing ("end"), pass half of its blocks ("half") or change a bit on the way
// ("bit"). When the process ends by itself, writes how many calls there were, and how many of copies, to
// the file that STOWAGE_CALLS names.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string_view>
#include <unistd.h>

namespace {

std::atomic<long> calls{0}, copies{0};

/// The number of this call, from 1.
long countCall() {
  static const char *text = std::getenv("STOWAGE_KILL_AT");
  static const long last = text ? std::atol(text) : -1;
  const long number = ++calls;
  if (number == last)
    raise(SIGKILL);
  return number;
}

constexpr size_t kBlock = 4096; // which a file that passes the page cache takes at least

/// What befalls this piece of a copy; empty: nothing.
std::string_view countCopy() {
  static const char *text = std::getenv("STOWAGE_KILL_AT_COPY");
  static const long last = text ? std::atol(text) : -1;
  static const char *fault = std::getenv("STOWAGE_COPY_FAULT");
  static const char *at = fault ? std::strchr(fault, '@') : nullptr;
  static const long faulty = at ? std::atol(at + 1) : -1;
  const long number = ++copies;
  if (number == last)
    raise(SIGKILL);
  return number == faulty ? std::string_view(fault, at) : std::string_view();
}

/// Of a transfer, what it passes with `fault`, through `call`; `problem` is the error of one that fails.
template <typename Call>
ssize_t transfer(std::string_view fault, size_t size, int problem, const Call &call) {
  if (fault == "error") {
    errno = problem;
    return -1;
  }
  if (fault == "end")
    return 0;
  return call(fault == "half" && size >= 2 * kBlock ? size / 2 / kBlock * kBlock : size);
}

struct Free {
  void operator()(char *memory) const { std::free(memory); }
};

/// How many of `size` bytes the write with this number finds room for.
size_t roomFor(long number, int file, size_t size) {
  static const char *text = std::getenv("STOWAGE_FULL");
  static long first = 0, last = 0;
  [[maybe_unused]] static const bool isRead =
      text && std::sscanf(text, "%ld-%ld", &first, &last) == 2;
  if (file <= STDERR_FILENO || first == 0)
    return size;
  if (number >= first && number <= last)
    return 0;
  return number == first - 1 && size > 1 ? size / 2 : size;
}

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

struct Report {
  ~Report() {
    const char *path = std::getenv("STOWAGE_CALLS");
    if (FILE *file = path ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%ld %ld\n", calls.load(), copies.load());
      std::fclose(file);
    }
  }
} report;

} // namespace

extern "C" {
ssize_t write(int file, const void *data, size_t size) {
  static const auto call = next<ssize_t (*)(int, const void *, size_t)>("write");
  const size_t room = roomFor(countCall(), file, size);
  if (room == 0 && size > 0) {
    errno = ENOSPC;
    return -1;
  }
  return call(file, data, room);
}
ssize_t countedPread(int file, void *data, size_t size, off_t offset) __asm__("pread");
ssize_t countedPwrite(int file, const void *data, size_t size, off_t offset) __asm__("pwrite");
ssize_t countedPread(int file, void *data, size_t size, off_t offset) {
  static const auto call = next<ssize_t (*)(int, void *, size_t, off_t)>("pread");
  const std::string_view fault = countCopy();
  const ssize_t got =
      transfer(fault, size, EIO, [&](size_t most) { return call(file, data, most, offset); });
  if (fault == "bit" && got > 0)
    static_cast<char *>(data)[got / 2] ^= 4;
  return got;
}
ssize_t countedPwrite(int file, const void *data, size_t size, off_t offset) {
  static const auto call = next<ssize_t (*)(int, const void *, size_t, off_t)>("pwrite");
  const std::string_view fault = countCopy();
  std::unique_ptr<char, Free> changed;
  if (fault == "bit") {
    changed.reset(static_cast<char *>(std::aligned_alloc(kBlock, size)));
    std::memcpy(changed.get(), data, size);
    changed.get()[size / 2] ^= 4;
    data = changed.get();
  }
  return transfer(fault, size, ENOSPC, [&](size_t most) { return call(file, data, most, offset); });
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
int linkat(int from, const char *path, int to, const char *name, int flags) {
  static const auto call = next<int (*)(int, const char *, int, const char *, int)>("linkat");
  countCall();
  return call(from, path, to, name, flags);
}
int rename(const char *from, const char *to) {
  static const auto call = next<int (*)(const char *, const char *)>("rename");
  countCall();
  return call(from, to);
}
}
