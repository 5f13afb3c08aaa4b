#include "runtime/data/MappedFile.h"

#include "runtime/base/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stow {

MappedFile::MappedFile(const std::string &path) : filePath(path) {
  auto fail = [&](const char *what) {
    throw Error::badInput("cannot " + std::string(what) + " '" + path +
                          "': " + std::strerror(errno));
  };
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    fail("open");
  struct stat info = {};
  void *address = MAP_FAILED;
  bool isRegular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  size_t size = isRegular ? static_cast<size_t>(info.st_size) : 0;
  if (size > 0)
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  int savedErrno = errno;
  ::close(file);
  errno = savedErrno;
  if (!isRegular)
    throw Error::badInput("cannot read '" + path + "': it is not a regular file");
  if (size > 0 && address == MAP_FAILED)
    fail("map");
  if (size > 0)
    contents = {static_cast<const char *>(address), size};
}

MappedFile::~MappedFile() {
  if (!contents.empty())
    ::munmap(const_cast<char *>(contents.data()), contents.size());
}

} // namespace stow
