#include "codegen/host/TemporaryFolder.h"

#include "runtime/base/Error.h"

#include <cstdlib>

namespace stow {

TemporaryFolder::TemporaryFolder() {
  // mkdtemp demands six X at the end and writes a name that is free over them.
  std::string pattern = (std::filesystem::temp_directory_path() / "stowage-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error::badInput("cannot create a folder in " +
                          std::filesystem::temp_directory_path().string());
  path = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace stow
