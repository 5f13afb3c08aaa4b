#include "codegen/TemporaryFolder.h"

#include "runtime/base/Error.h"
#include "runtime/base/Signals.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace stow {

TemporaryFolder::TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}

TemporaryFolder::TemporaryFolder(const std::filesystem::path &parent) {
  // mkdtemp demands six X at the end and writes a name that is free over them.
  std::string pattern = (parent / "stowage-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error::badInput("cannot create a folder in \"" + parent.string() +
                          "\": " + std::strerror(errno));
  path = pattern;
  addUnfinished(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  forgetUnfinished(path);
}

} // namespace stow
