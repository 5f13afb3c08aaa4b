#include "runtime/data/MappedFile.h"

#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace stow {

MappedFile::MappedFile(const std::string &path) : filePath(path) {
  const InputFile file(path);
  if (file.size() == 0)
    return;
  void *address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED)
    throw Error::badInput("cannot map '" + path + "': " + std::strerror(errno));
  contents = {static_cast<const char *>(address), file.size()};
}

MappedFile::~MappedFile() {
  if (!contents.empty())
    ::munmap(const_cast<char *>(contents.data()), contents.size());
}

} // namespace stow
