#include "runtime/base/FileLock.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Signals.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stow {
namespace {

/// Whether `path` still names the open file: its owner may have removed it before it was locked here.
bool isNamed(const std::string &path, int file) {
  struct stat named = {}, open = {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

/// " (process 1234)", where the lock file says which.
std::string ownerOf(int file) {
  char digits[24] = {};
  const ssize_t size = ::pread(file, digits, sizeof digits - 1, 0);
  return size > 0 ? concat(" (process ", digits, ")") : "";
}

} // namespace

FileLock::FileLock(const std::string &path) : lockPath(path + ".lock") {
  for (;;) {
    file = ::open(lockPath.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0)
      throw Error::badInput(concat("cannot lock '", path, "': ", std::strerror(errno)));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool isTaken = errno == EWOULDBLOCK;
      const std::string owner = ownerOf(file);
      ::close(file);
      file = -1;
      if (!isTaken)
        return; // a file system without locks
      throw Error::badInput(
          concat("another run", owner, " saves to '", path,
                 "'; expected one run for a file: name another, or let that one end first"));
    }
    if (isNamed(lockPath, file))
      break;
    ::close(file);
  }
  addUnfinished(lockPath);
  const std::string number = std::to_string(::getpid());
  [[maybe_unused]] const bool isSaid =
      ::ftruncate(file, 0) == 0 && ::write(file, number.data(), number.size()) > 0;
}

FileLock::~FileLock() {
  if (file < 0)
    return;
  ::unlink(lockPath.c_str()); // while it is still locked
  forgetUnfinished(lockPath);
  ::close(file);
}

} // namespace stow
