#include "runtime/format/Seal.h"

#include <elf.h>
#include <zlib.h>

namespace stow {

uint64_t addToChecksum(uint64_t before, std::span<const char> bytes) {
  return crc32_z(before, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size());
}

uint64_t addSegment(uint64_t before, const LoadedSegment &segment) {
  if (segment.type != PT_LOAD || (segment.flags & PF_W))
    return before;
  const bool hasHeader = segment.offset == 0 && segment.bytes.size() > sizeof(Elf64_Ehdr);
  return addToChecksum(before, segment.bytes.subspan(hasHeader ? sizeof(Elf64_Ehdr) : 0));
}

} // namespace stow
