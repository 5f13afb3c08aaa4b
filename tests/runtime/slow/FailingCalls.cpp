#include "tests/runtime/slow/FailingCalls.h"

#include <cerrno>
#include <cstdarg>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace stow::test {

FailingCalls failingCalls;

} // namespace stow::test

using stow::test::failingCalls;

namespace {

int failed(int problem) {
  errno = problem;
  return -1;
}

} // namespace

extern "C" {

int open(const char *path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  if ((flags & O_TMPFILE) == O_TMPFILE && failingCalls.nameless)
    return failed(failingCalls.nameless);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int fcntl(int file, int command, ...) {
  std::va_list more;
  va_start(more, command);
  const long argument = va_arg(more, long);
  va_end(more);
  if (command == F_SETFL && argument & O_DIRECT && failingCalls.direct)
    return failed(failingCalls.direct);
  return static_cast<int>(::syscall(SYS_fcntl, file, command, argument));
}

int fallocate(int file, int mode, off_t offset, off_t bytes) {
  if (failingCalls.reserve)
    return failed(failingCalls.reserve);
  return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, bytes));
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t offset) {
  const stow::test::FailingCalls calls = failingCalls;
  if (calls.directWrite && ::syscall(SYS_fcntl, file, F_GETFL) & O_DIRECT) {
    ::usleep(calls.microseconds);
    return failed(calls.directWrite);
  }
  return ::syscall(SYS_pwrite64, file, from, bytes, offset);
}

ssize_t pread(int file, void *to, size_t bytes, off_t offset) {
  if (failingCalls.read)
    return failed(failingCalls.read);
  return ::syscall(SYS_pread64, file, to, bytes, offset);
}

int sync_file_range(int file, off_t offset, off_t bytes, unsigned flags) {
  if (failingCalls.writeBack)
    return failed(failingCalls.writeBack);
  return static_cast<int>(::syscall(SYS_sync_file_range, file, offset, bytes, flags));
}
}
