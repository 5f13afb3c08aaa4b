// The part of the zip format that NumPy and its readers use: stored and deflated entries, zip64.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stow {

struct ZipEntry {
  std::string name;
  uint64_t localHeader = 0; ///< byte position
  uint64_t compressedBytes = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
  uint16_t method = 0; ///< 0 stored, 8 deflated
};

/// Reads the directory of a zip archive. `place` opens every message. Throws Error(BadInput) for a
/// file that is no archive, damaged, split, encrypted or has two entries of one name.
std::vector<ZipEntry> readZipDirectory(std::span<const char> file, const std::string &place);

/// The contents of an entry. Stored entries point into `file`, so that they cost no memory;
/// deflated ones are inflated into `owner` and their checksum is verified.
struct ZipContents {
  std::span<const char> bytes;
  std::shared_ptr<const char[]> owner;
};
ZipContents readZipEntry(std::span<const char> file, const ZipEntry &entry,
                         const std::string &place);

} // namespace stow
