// A whole file, mapped read-only.
#pragma once

#include <span>
#include <string>

namespace stow {

/// The bytes stay valid for the object's lifetime and are loaded when first touched. A file that
/// another process truncates meanwhile ends this one with a bus error, as for every mapping.
class MappedFile {
public:
  /// Throws Error(BadInput) naming the path and the system's reason.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return filePath; }
  std::span<const char> bytes() const { return contents; }

private:
  std::string filePath;
  std::span<const char> contents;
};

/// The pages of a mapped file with this part of it leave the process's memory; they are loaded again where they are touched again. So a
/// file that is read from its beginning to its end takes no more than the part at hand.
void releasePages(std::span<const char> part);

} // namespace stow
