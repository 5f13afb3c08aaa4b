#include "runtime/base/AtomicFile.h"

#include "runtime/base/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace stow {

AtomicFile::AtomicFile(const std::string &path) : path(path), partPath(path + ".part") {
  file = ::open(partPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    fail("write");
}

AtomicFile::~AtomicFile() {
  if (file < 0)
    return;
  ::close(file);
  ::unlink(partPath.c_str());
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
  if (::rename(partPath.c_str(), path.c_str()) != 0)
    fail("rename");
  ::close(file);
  file = -1;
  // The rename itself lasts once the folder is on the disk.
  std::string folder = std::filesystem::path(path).parent_path().string();
  int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
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
  if (std::filesystem::is_directory(path))
    throw Error::badInput("cannot write '" + path + "': it is a folder");
  if (!isPipeOrDevice(path))
    AtomicFile probe(path);
}

} // namespace stow
