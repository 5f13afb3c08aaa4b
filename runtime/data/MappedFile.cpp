#include "runtime/data/MappedFile.h"

#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

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

void releasePages(std::span<const char> part) {
  if (part.empty())
    return;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // Advice: where the system does not take it, the pages stay.
  ::madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
}

} // namespace stow
