// Writes small .npy, .npz and other files for tests, byte by byte, so that tests can also write
// wrong ones.
#pragma once

#include "runtime/base/Layout.h"

#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace stow::testfiles {

/// A folder that disappears with the object; in memory where the system has such a place, because
/// the tests write tens of thousands of files.
class TempDir {
public:
  TempDir() {
    static std::atomic<int> count = 0;
    bool inMemory = ::access("/dev/shm", W_OK) == 0;
    folder =
        (inMemory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
        ("stowage-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(folder);
  }
  ~TempDir() { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return (folder / name).string(); }
  /// Of the files in it, in alphabetical order.
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      list.push_back(entry.path().filename().string());
    std::ranges::sort(list);
    return list;
  }

private:
  std::filesystem::path folder;
};

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

template <typename T> void append(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// A .npy file with the given header dictionary.
inline std::string npyWithHeader(std::string header, const std::string &elements, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  size_t prefix = version == 1 ? 10 : 12;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header += '\n';
  if (version == 1)
    append(out, static_cast<uint16_t>(header.size()));
  else
    append(out, static_cast<uint32_t>(header.size()));
  return out + header + elements;
}

inline std::string npy(const std::string &descr, const Shape &shape, const std::string &elements,
                       int version = 1) {
  std::string dims;
  for (int64_t dim : shape)
    dims += std::to_string(dim) + ", ";
  return npyWithHeader("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims +
                           "), }",
                       elements, version);
}

inline std::string npyFloats(const Shape &shape, const std::vector<float> &values) {
  return npy("<f4", shape, bytesOf(values));
}

inline std::string npyLabels(const std::vector<int64_t> &values) {
  return npy("<i8", {static_cast<int64_t>(values.size())}, bytesOf(values));
}

struct ZipMember {
  std::string name;
  std::string contents;
  bool deflated = false;
};

inline std::string deflated(const std::string &bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A zip archive. With `zip64`, sizes and positions are written the 64-bit way although they are
/// small.
inline std::string zip(const std::vector<ZipMember> &members, bool zip64 = false) {
  std::string out, directory;
  for (const ZipMember &member : members) {
    std::string packed = member.deflated ? deflated(member.contents) : member.contents;
    auto crc =
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef *>(member.contents.data()),
                                    static_cast<uInt>(member.contents.size())));
    std::string common; // shared by local header and directory: flags ... sizes, name length
    append<uint16_t>(common, 0);
    append<uint16_t>(common, member.deflated ? 8 : 0);
    append<uint32_t>(common, 0); // time and date
    append<uint32_t>(common, crc);
    append<uint32_t>(common, zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(packed.size()));
    append<uint32_t>(common, zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(member.contents.size()));
    append<uint16_t>(common, static_cast<uint16_t>(member.name.size()));
    std::string extra;
    if (zip64) {
      append<uint16_t>(extra, 1);
      append<uint16_t>(extra, 24);
      append<uint64_t>(extra, member.contents.size());
      append<uint64_t>(extra, packed.size());
      append<uint64_t>(extra, out.size());
    }
    append<uint32_t>(directory, 0x02014b50);
    append<uint32_t>(directory, 45 | 45 << 16);
    directory += common;
    append<uint16_t>(directory, static_cast<uint16_t>(extra.size()));
    append<uint16_t>(directory, 0); // comment
    append<uint32_t>(directory, 0); // disk, internal attributes
    append<uint32_t>(directory, 0); // external attributes
    append<uint32_t>(directory, zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(out.size()));
    directory += member.name + extra;
    append<uint32_t>(out, 0x04034b50);
    append<uint16_t>(out, 45);
    out += common;
    append<uint16_t>(out, 0);
    out += member.name + packed;
  }
  uint64_t start = out.size();
  out += directory;
  uint64_t end64 = out.size();
  if (zip64) {
    append<uint32_t>(out, 0x06064b50);
    append<uint64_t>(out, 44);
    append<uint32_t>(out, 45 | 45 << 16);
    append<uint64_t>(out, 0); // disks
    append<uint64_t>(out, members.size());
    append<uint64_t>(out, members.size());
    append<uint64_t>(out, directory.size());
    append<uint64_t>(out, start);
    append<uint32_t>(out, 0x07064b50);
    append<uint32_t>(out, 0);
    append<uint64_t>(out, end64);
    append<uint32_t>(out, 1);
  }
  append<uint32_t>(out, 0x06054b50);
  append<uint32_t>(out, 0);
  append<uint16_t>(out, zip64 ? 0xFFFF : static_cast<uint16_t>(members.size()));
  append<uint16_t>(out, zip64 ? 0xFFFF : static_cast<uint16_t>(members.size()));
  append<uint32_t>(out, zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(directory.size()));
  append<uint32_t>(out, zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(start));
  append<uint16_t>(out, 0);
  return out;
}

} // namespace stow::testfiles
