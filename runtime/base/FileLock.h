// A file that one process at a time writes.
#pragma once

#include <string>

namespace stow {

/// While an object lives, no other of this machine, nor of one that shares the file system and its locks, is made
/// for the same file. The lock is a file of its own beside it, FILE.lock, which goes with the object; what a killed
/// process leaves of it holds nobody up.
class FileLock {
public:
  /// Throws Error(BadInput) where another process has the lock, with its number.
  explicit FileLock(const std::string &path);
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  std::string lockPath;
  int file = -1; ///< none where the file system has no locks
};

} // namespace stow
