#include "runtime/base/Signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace stow {

namespace {

/// Paths; a handler takes them out as their owners do.
std::array<std::atomic<char *>, 64> unfinished = {};

/// Removes the files of a folder by system calls alone: a handler may not call readdir.
void emptyFolder(int folder) {
  alignas(8) char block[4096];
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, folder, block, sizeof block)) > 0)
    for (long at = 0; at < size;) {
      unsigned short length = 0;
      std::memcpy(&length, block + at + offsetof(dirent64, d_reclen), sizeof length);
      ::unlinkat(folder, block + at + offsetof(dirent64, d_name), 0);
      at += length;
    }
}

void removePath(const char *path) {
  if (::unlink(path) == 0)
    return;
  int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return;
  // Another thread, or a linker, may put a file into it meanwhile.
  for (int attempt = 0; attempt < 8; ++attempt) {
    ::lseek(folder, 0, SEEK_SET);
    emptyFolder(folder);
    if (::rmdir(path) == 0)
      break;
  }
  ::close(folder);
}

} // namespace

void addUnfinished(const std::string &path) {
  char *copy = ::strdup(path.c_str());
  for (std::atomic<char *> &slot : unfinished) {
    char *none = nullptr;
    if (copy && slot.compare_exchange_strong(none, copy))
      return;
  }
  std::free(copy);
}

void forgetUnfinished(const std::string &path) {
  for (std::atomic<char *> &slot : unfinished) {
    char *noted = slot.load();
    if (noted && path == noted && slot.compare_exchange_strong(noted, nullptr))
      return std::free(noted);
  }
}

void removeUnfinished() {
  for (std::atomic<char *> &path : unfinished)
    if (const char *taken = path.exchange(nullptr)) // its memory goes with the process
      removePath(taken);
}

void endBySignal(int signal) {
  removeUnfinished();
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  std::raise(signal);
  ::_exit(128 + signal);
}

void takeSignals() {
  struct sigaction action = {}, previous = {};
  action.sa_handler = endBySignal;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (sigaction(signal, nullptr, &previous) == 0 && previous.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace stow
