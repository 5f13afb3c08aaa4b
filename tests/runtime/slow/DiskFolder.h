// A folder where the system keeps temporary files, which is a disk on most machines; it disappears with the object.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace stow::test {

class DiskFolder {
public:
  DiskFolder() {
    static std::atomic<int> count = 0;
    folder = std::filesystem::temp_directory_path() /
             ("stowage-slow-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(folder);
  }
  ~DiskFolder() { std::filesystem::remove_all(folder); }
  DiskFolder(const DiskFolder &) = delete;
  DiskFolder &operator=(const DiskFolder &) = delete;

  std::string path() const { return folder.string(); }
  std::string path(const char *name) const { return (folder / name).string(); }
  bool isEmpty() const { return std::filesystem::is_empty(folder); }

private:
  std::filesystem::path folder;
};

} // namespace stow::test
