#include "runtime/base/AtomicFile.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Signals.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stow {

namespace {

std::string folderOf(const std::string &path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string nameOfOpen(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// Calls make(name) for names beside `path` that no other writer of this machine tries, until one is
/// made; returns it, or nothing where none can be.
template <typename Make> std::string takeName(const std::string &path, const Make &make) {
  static std::atomic<int> count{0};
  do {
    const std::string name = concat(folderOf(path), "/stowage-", ::getpid(), "-", ++count, ".part");
    if (make(name.c_str())) {
      addUnfinished(name);
      return name;
    }
  } while (errno == EEXIST);
  return "";
}

/// A file without a name in the folder of `path`; -1 where the file system, or the lack of /proc, does
/// not allow to give it one later.
int openNameless(const std::string &path) {
  const int file = ::open(folderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0 || ::access(nameOfOpen(file).c_str(), F_OK) == 0)
    return file;
  ::close(file);
  return -1;
}

} // namespace

/// The file that writers of `path` begin one after the other, so that one which was killed leaves what the next one takes; -1 where another has it now.
static int openNamed(const std::string &name) {
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  struct stat opened = {}, there = {};
  if (file < 0 || (::flock(file, LOCK_EX | LOCK_NB) == 0 && ::fstat(file, &opened) == 0 &&
                   ::stat(name.c_str(), &there) == 0 &&
                   opened.st_ino == there.st_ino && // not renamed meanwhile
                   ::ftruncate(file, 0) == 0))
    return file;
  ::close(file);
  return -1;
}

AtomicFile::AtomicFile(const std::string &path, Part part) : path(path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 && errno != ENOENT)
    fail("write");
  if (part == Part::Nameless) {
    file = openNameless(path);
  } else {
    const std::string name = concat(folderOf(path), "/stowage-",
                                    std::filesystem::path(path).filename().string(), ".part");
    file = openNamed(name);
    if (file >= 0)
      addUnfinished(partPath = name);
  }
  if (file < 0)
    partPath = takeName(path, [&](const char *name) {
      file = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return file >= 0;
    });
  if (file < 0)
    fail("write");
}

AtomicFile::~AtomicFile() {
  if (file < 0)
    return;
  if (!partPath.empty()) {
    ::unlink(partPath.c_str());
    forgetUnfinished(partPath);
  }
  ::close(file);
}

void AtomicFile::fail(const char *what) const {
  throw Error::badInput("cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

void AtomicFile::write(const void *data, size_t size) {
  const char *at = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written = ::write(file, at, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      fail("write");
    at += written;
    size -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(file) != 0)
    fail("write through");
  if (partPath.empty())
    partPath = takeName(path, [&](const char *name) {
      return ::linkat(AT_FDCWD, nameOfOpen(file).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    });
  if (partPath.empty() || ::rename(partPath.c_str(), path.c_str()) != 0)
    fail("rename");
  forgetUnfinished(partPath);
  ::close(file);
  file = -1;
  // The rename itself lasts once the folder is on the disk.
  const int directory = ::open(folderOf(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

FilePart::FilePart(const std::string &path) : file(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (file < 0)
    number = errno;
}

FilePart::~FilePart() {
  if (file >= 0)
    ::close(file);
}

void FilePart::write(const char *data, size_t size, int64_t begin) {
  while (size > 0 && number == 0) {
    const ssize_t written = ::pwrite(file, data, size, begin);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      number = written < 0 ? errno : EIO;
      return;
    }
    data += written;
    begin += written;
    size -= static_cast<size_t>(written);
  }
}

void FilePart::finish() {
  if (number == 0 && ::fsync(file) != 0)
    number = errno;
}

/// True for pipes and devices, which are written to as they are.
static bool isPipeOrDevice(const std::string &path) {
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(path, unknown);
  return std::filesystem::exists(status) && std::filesystem::is_other(status);
}

void writeFile(const std::string &path, std::string_view text) {
  if (isPipeOrDevice(path)) {
    std::ofstream stream(path, std::ios::binary);
    stream << text;
    if (!stream.flush())
      throw Error::badInput("cannot write '" + path + "': " + std::strerror(errno));
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void checkWritable(const std::string &path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    throw Error::badInput("cannot write '" + path + "': it is a folder");
  if (!isPipeOrDevice(path))
    AtomicFile probe(path);
}

} // namespace stow
