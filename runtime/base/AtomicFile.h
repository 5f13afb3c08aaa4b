// Files that are either wholly there or not there at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stow {

/// Writes a file without a name, or of one that no other writer has, in the folder of `path`. commit()
/// puts it in place in one step; whatever ends the process before leaves the previous file as it was.
/// After commit() returns, the contents also survive a power failure. Of several writers the last stays.
class AtomicFile {
public:
  enum class Part : uint8_t {
    Nameless, ///< where the file system can do that
    Named, ///< other processes are to write to it as well (FilePart); the next writer of `path` takes what one leaves that is killed
  };

  /// Throws Error(BadInput) when the folder cannot be written.
  explicit AtomicFile(const std::string &path, Part part = Part::Nameless);
  /// Removes the unfinished file unless commit() was reached.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// What the file is called before commit(), where it has a name.
  const std::string &partName() const { return partPath; }

  /// Writes through to the disk, renames, and writes the folder through.
  void commit();

private:
  [[noreturn]] void fail(const char *what) const;

  std::string path;
  std::string partPath;
  int file = -1;
};

/// Pieces of a file that other processes write to as well. Numbers are those of errno, 0: none; the first that is not stays.
class FilePart {
public:
  explicit FilePart(const std::string &path);
  ~FilePart();
  FilePart(const FilePart &) = delete;
  FilePart &operator=(const FilePart &) = delete;

  int problem() const { return number; }
  void write(const char *data, size_t size, int64_t begin);
  /// Writes through to the disk, so that whoever renames the file may do so.
  void finish();

private:
  int file = -1, number = 0;
};

/// Replaces `path` by `text` with an AtomicFile; a pipe or a device is written to as it is.
void writeFile(const std::string &path, std::string_view text);

/// Throws Error(BadInput) unless writeFile could replace `path` now. Long runs ask before they
/// start.
void checkWritable(const std::string &path);

} // namespace stow
