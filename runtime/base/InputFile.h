// Files that are read: opened without waiting, and only where they are files.
#pragma once

#include <string>

namespace stow {

/// A regular file, open for reading. Opening a pipe would wait for whoever writes to it, and opening a
/// device may do anything, so that neither is opened.
class InputFile {
public:
  /// Throws Error(BadInput) naming the path and the reason.
  explicit InputFile(const std::string &path);
  ~InputFile();
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;

  int descriptor() const { return file; }
  size_t size() const { return bytes; }

  /// Where the file lies: absolute, without links. Empty where the system does not say.
  std::string realPath() const;

  /// The bytes [offset, offset + size). Throws Error(BadInput) where they cannot be read.
  std::string read(size_t offset, size_t size) const;

private:
  std::string path;
  int file = -1;
  size_t bytes = 0;
};

/// The contents of a regular file. Throws as InputFile does.
std::string readInputFile(const std::string &path);

} // namespace stow
