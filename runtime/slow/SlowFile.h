// Slow memory in a folder: a file without a name, of a length that is reserved before anything is copied.
//
// Bytes pass the page cache by (O_DIRECT) where the file system lets them, so that a copy takes what the disk takes and
// no memory beside the caller's. Where it does not, they go through the cache and are dropped from it at once.
// The file has no name, or loses it before anything is written: whatever ends the process, nothing stays in the folder.
#pragma once

#include "runtime/base/Bytes.h"

#include <string>
#include <vector>

namespace stow::slow {

class SlowFile {
public:
  /// Of places, sizes and the memory that they come from: pages, which are the largest block of a disk in use.
  static constexpr Bytes alignment = 4096;

  /// Throws Error(BadInput) naming the folder: that it is none, may not be written, or has no room for `bytes`, a
  /// multiple of the alignment.
  SlowFile(const std::string &folder, Bytes bytes);
  ~SlowFile();
  SlowFile(const SlowFile &) = delete;
  SlowFile &operator=(const SlowFile &) = delete;

  const std::string &folder() const { return path; }
  Bytes bytes() const { return size; }
  bool isDirect() const { return direct; }     ///< past the page cache
  bool isInMemory() const { return inMemory; } ///< on a tmpfs

  /// What a user should know of this folder, a sentence each.
  std::vector<std::string> notes() const;

  /// Multiples of the alignment all three. By several threads at once. Throws Error(BadInput) with the place, what was
  /// expected and found.
  void write(Bytes offset, const char *from, Bytes count) const;
  void read(Bytes offset, char *to, Bytes count) const;

  /// For tests, which damage it.
  int descriptor() const { return file; }

private:
  int open() const;
  void reserve();
  void probe();
  void dropFromCache(Bytes offset, Bytes count) const;
  [[noreturn]] void fail(const char *what, Bytes offset, Bytes count, Bytes done,
                         int problem) const;

  const std::string path;
  const Bytes size;
  int file = -1;
  bool direct = true;
  bool reserved = true; ///< its length cannot run out of room
  bool inMemory = false;
};

} // namespace stow::slow
