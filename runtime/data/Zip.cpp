// Zip as PKWARE's APPNOTE 6.3 describes it. Every position read from the file is checked against
// the file's size before use.
#include "runtime/data/Zip.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <string_view>

namespace stow {

namespace {

constexpr uint32_t endSignature = 0x06054b50;
constexpr uint32_t end64Signature = 0x06064b50;
constexpr uint32_t locator64Signature = 0x07064b50;
constexpr uint32_t directorySignature = 0x02014b50;
constexpr uint32_t localSignature = 0x04034b50;
constexpr uint64_t endBytes = 22, locator64Bytes = 20, end64Bytes = 56;
constexpr uint64_t directoryBytes = 46, localBytes = 30;
constexpr uint16_t zip64Extra = 1;
/// Deflate never packs more than 1032 bytes into one.
constexpr uint64_t deflateLimit = 1032;

/// Bounds-checked little-endian reads.
class Reader {
public:
  Reader(std::span<const char> file, const std::string &place) : file(file), place(place) {}

  [[noreturn]] void fail(const std::string &problem) const {
    throw Error::badInput(place + ": " + problem);
  }

  std::span<const char> bytes(uint64_t at, uint64_t size) const {
    if (at > file.size() || size > file.size() - at)
      fail(concat("the archive is damaged: ", size, " bytes at position ", at,
                  " lie beyond its end"));
    return file.subspan(at, size);
  }

  template <typename T> T read(uint64_t at) const {
    T value;
    std::memcpy(&value, bytes(at, sizeof(T)).data(), sizeof(T));
    return value;
  }

  uint64_t size() const { return file.size(); }

private:
  std::span<const char> file;
  const std::string &place;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

/// The end record lies within the last 64 KiB: only a comment may follow it.
uint64_t findEnd(const Reader &reader) {
  if (reader.size() >= endBytes) {
    uint64_t first = reader.size() - endBytes;
    uint64_t last = first > 65535 ? first - 65535 : 0;
    for (uint64_t at = first + 1; at-- > last;)
      if (reader.read<uint32_t>(at) == endSignature)
        return at;
  }
  reader.fail("this is not an npz file: it has no zip directory");
}

Directory locateDirectory(const Reader &reader) {
  uint64_t end = findEnd(reader);
  Directory directory;
  directory.entries = reader.read<uint16_t>(end + 10);
  directory.bytes = reader.read<uint32_t>(end + 12);
  directory.offset = reader.read<uint32_t>(end + 16);
  bool needs64 = directory.entries == 0xFFFF || directory.bytes == 0xFFFFFFFF ||
                 directory.offset == 0xFFFFFFFF;
  if (needs64 && end >= locator64Bytes &&
      reader.read<uint32_t>(end - locator64Bytes) == locator64Signature) {
    uint64_t end64 = reader.read<uint64_t>(end - locator64Bytes + 8);
    reader.bytes(end64, end64Bytes);
    if (reader.read<uint32_t>(end64) != end64Signature)
      reader.fail("the archive is damaged: its zip64 record is not where it should be");
    directory.entries = reader.read<uint64_t>(end64 + 32);
    directory.bytes = reader.read<uint64_t>(end64 + 40);
    directory.offset = reader.read<uint64_t>(end64 + 48);
  }
  reader.bytes(directory.offset, directory.bytes);
  return directory;
}

/// Replaces fields that overflowed 32 bits by those of the zip64 extra field.
void applyZip64(const Reader &reader, uint64_t extra, uint64_t extraBytes, ZipEntry &entry) {
  uint64_t end = extra + extraBytes;
  while (extra + 4 <= end) {
    uint64_t size = reader.read<uint16_t>(extra + 2);
    uint64_t at = extra + 4;
    uint64_t next = at + size;
    if (reader.read<uint16_t>(extra) == zip64Extra)
      for (uint64_t *field : {&entry.bytes, &entry.compressedBytes, &entry.localHeader})
        if (*field == 0xFFFFFFFF) {
          if (at + 8 > std::min(next, end))
            reader.fail("entry '" + entry.name + "' has a damaged zip64 field");
          *field = reader.read<uint64_t>(at);
          at += 8;
        }
    extra = next;
  }
}

} // namespace

std::vector<ZipEntry> readZipDirectory(std::span<const char> file, const std::string &place) {
  Reader reader(file, place);
  Directory directory = locateDirectory(reader);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    reader.bytes(at, directoryBytes);
    if (reader.read<uint32_t>(at) != directorySignature)
      reader.fail(concat("the archive is damaged: no directory entry at position ", at));
    ZipEntry entry;
    uint16_t flags = reader.read<uint16_t>(at + 8);
    entry.method = reader.read<uint16_t>(at + 10);
    entry.crc = reader.read<uint32_t>(at + 16);
    entry.compressedBytes = reader.read<uint32_t>(at + 20);
    entry.bytes = reader.read<uint32_t>(at + 24);
    entry.localHeader = reader.read<uint32_t>(at + 42);
    uint64_t nameBytes = reader.read<uint16_t>(at + 28);
    uint64_t extraBytes = reader.read<uint16_t>(at + 30);
    uint64_t commentBytes = reader.read<uint16_t>(at + 32);
    std::span<const char> name = reader.bytes(at + directoryBytes, nameBytes);
    entry.name.assign(name.begin(), name.end());
    if (flags & 1)
      reader.fail("entry '" + entry.name + "' is encrypted");
    applyZip64(reader, at + directoryBytes + nameBytes, extraBytes, entry);
    if (!names.insert(entry.name).second)
      reader.fail("there are two entries '" + entry.name + "'");
    entries.push_back(std::move(entry));
    at += directoryBytes + nameBytes + extraBytes + commentBytes;
  }
  return entries;
}

namespace {

std::shared_ptr<const char[]> inflateEntry(std::span<const char> packed, const ZipEntry &entry,
                                           const Reader &reader) {
  std::string quoted = "entry '" + entry.name + "'";
  if (entry.bytes > packed.size() * deflateLimit + 64)
    reader.fail(concat(quoted, " claims ", entry.bytes, " bytes, more than ", packed.size(),
                       " packed bytes can hold"));
  std::shared_ptr<char[]> target;
  try {
    target.reset(new char[std::max<uint64_t>(entry.bytes, 1)]);
  } catch (const std::bad_alloc &) {
    reader.fail(
        concat(quoted, " needs ", entry.bytes,
               " bytes of memory; store it uncompressed (numpy.savez) to read it in place"));
  }
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    reader.fail(quoted + ": zlib could not be started");
  uint64_t taken = 0, given = 0;
  int state = Z_OK;
  // zlib counts in 32 bits, so large entries go through in portions.
  while (state == Z_OK) {
    constexpr uint64_t portion = 1 << 30;
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min(portion, packed.size() - taken));
    stream.next_out = reinterpret_cast<Bytef *>(target.get() + given);
    stream.avail_out = static_cast<uInt>(std::min(portion, entry.bytes - given));
    uInt in = stream.avail_in, out = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    given += out - stream.avail_out;
    if (state == Z_OK && in == stream.avail_in && out == stream.avail_out)
      state = Z_BUF_ERROR; // no progress: truncated, or longer than it claims
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || given != entry.bytes)
    reader.fail(concat(quoted, " is damaged: it does not inflate to ", entry.bytes, " bytes"));
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef *>(target.get()), entry.bytes);
  if (crc != entry.crc)
    reader.fail(quoted + " is damaged: its checksum does not match");
  return target;
}

} // namespace

ZipContents readZipEntry(std::span<const char> file, const ZipEntry &entry,
                         const std::string &place) {
  Reader reader(file, place);
  reader.bytes(entry.localHeader, localBytes);
  if (reader.read<uint32_t>(entry.localHeader) != localSignature)
    reader.fail("the archive is damaged: entry '" + entry.name + "' is not where it should be");
  uint64_t start = entry.localHeader + localBytes + reader.read<uint16_t>(entry.localHeader + 26) +
                   reader.read<uint16_t>(entry.localHeader + 28);
  std::span<const char> packed = reader.bytes(start, entry.compressedBytes);
  if (entry.method == 0) {
    // Checking the sum would read the whole array in before the first batch; the array's own header
    // is checked against the size instead.
    if (entry.bytes != entry.compressedBytes)
      reader.fail("entry '" + entry.name + "' is damaged: its two sizes differ");
    return {packed, nullptr};
  }
  if (entry.method != 8)
    reader.fail(concat("entry '", entry.name, "' is packed by method ", entry.method,
                       "; expected 0 (stored) or 8 (deflated)"));
  std::shared_ptr<const char[]> owner = inflateEntry(packed, entry, reader);
  return {{owner.get(), entry.bytes}, owner};
}

} // namespace stow
