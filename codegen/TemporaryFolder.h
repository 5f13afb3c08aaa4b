// A folder for the files of one compilation.
#pragma once

#include <filesystem>
#include <string>

namespace stow {

/// Removes its files when it goes. Throws Error(BadInput) when it cannot be created.
class TemporaryFolder {
public:
  /// In the system's folder for such files.
  TemporaryFolder();

  /// In a folder of one's own choice, so that a file can be moved to its place there.
  explicit TemporaryFolder(const std::filesystem::path &parent);

  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string file(const std::string &name) const { return path / name; }

private:
  std::filesystem::path path;
};

} // namespace stow
