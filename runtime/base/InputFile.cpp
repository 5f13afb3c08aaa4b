#include "runtime/base/InputFile.h"

#include "runtime/base/Error.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stow {

namespace {

std::string ownName(int file) { return "/proc/self/fd/" + std::to_string(file); }

const char *kindOf(const struct stat &status) {
  if (S_ISDIR(status.st_mode))
    return "it is a folder";
  return S_ISFIFO(status.st_mode) ? "it is a pipe and not a regular file"
                                  : "it is not a regular file";
}

[[noreturn]] void fail(const char *what, const std::string &path, const char *reason) {
  throw Error::badInput("cannot " + std::string(what) + " '" + path + "': " + reason);
}

} // namespace

InputFile::InputFile(const std::string &path) : path(path) {
  // This finds the file and does not open it; what is opened then is this very file.
  int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0)
    fail("open", path, std::strerror(errno));
  struct stat status = {};
  const bool isKnown = ::fstat(found, &status) == 0;
  if (isKnown && S_ISREG(status.st_mode)) {
    file = ::open(ownName(found).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) // no /proc here
      file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  const int problem = errno;
  ::close(found);
  if (isKnown && !S_ISREG(status.st_mode))
    fail("read", path, kindOf(status));
  if (file < 0)
    fail("open", path, std::strerror(problem));
  bytes = static_cast<size_t>(status.st_size);
}

InputFile::~InputFile() {
  if (file >= 0)
    ::close(file);
}

std::string InputFile::realPath() const {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(ownName(file).c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : std::string();
}

std::string InputFile::read(size_t offset, size_t size) const {
  std::string text(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t part =
        ::pread(file, text.data() + done, size - done, static_cast<off_t>(offset + done));
    if (part < 0 && errno == EINTR)
      continue;
    if (part <= 0)
      fail("read", path, part < 0 ? std::strerror(errno) : "it ends too early");
    done += static_cast<size_t>(part);
  }
  return text;
}

std::string readInputFile(const std::string &path) {
  const InputFile file(path);
  return file.read(0, file.size());
}

} // namespace stow
