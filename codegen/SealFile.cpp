#include "codegen/SealFile.h"

#include "codegen/LinkedFile.h"
#include "runtime/base/Error.h"
#include "runtime/format/Seal.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileOutputBuffer.h"
#include "llvm/Support/MemoryBuffer.h"

#include <absl/strings/str_format.h>
#include <cstddef>
#include <cstring>
#include <optional>

using namespace llvm;

namespace stow {
namespace {

/// The position of stow_seal in the file.
Expected<uint64_t> sealPosition(const ElfObject &file) {
  Expected<StringRef> seal = bytesAtSymbol(file, "stow_seal");
  if (!seal)
    return seal.takeError();
  if (seal->size() < sizeof(Seal))
    return createStringError("it carries no checksum");
  return static_cast<uint64_t>(seal->data() - file.getData().data());
}

uint64_t checksumOfFile(StringRef bytes, uint64_t seal) {
  const uint64_t slot = seal + offsetof(Seal, file), next = slot + sizeof(Seal::file);
  const std::span<const char> all(bytes.data(), bytes.size());
  return addToChecksum(addToChecksum(0, all.first(slot)), all.subspan(next));
}

Expected<uint64_t> checksumOfLoaded(const ElfObject &file) {
  auto headers = file.getELFFile().program_headers();
  if (!headers)
    return headers.takeError();
  uint64_t sum = 0;
  for (const auto &header : *headers) {
    const StringRef bytes = file.getData().substr(header.p_offset, header.p_filesz);
    if (bytes.size() != header.p_filesz)
      return createStringError("a segment ends behind the file");
    sum = addSegment(
        sum, {header.p_type, header.p_flags, header.p_offset, {bytes.data(), bytes.size()}});
  }
  return sum;
}

/// Copies the interpreter's path into the room at kInterpreterSymbol and lets the program header name all of that, since strip(1) keeps
/// what a header names in whole sections.
llvm::Error nameInterpreterLast(WriteThroughMemoryBuffer &buffer, const ElfObject &file) {
  using Header = object::ELF64LE::Phdr;
  auto headers = file.getELFFile().program_headers();
  if (!headers)
    return headers.takeError();
  auto interpreter = find_if(*headers, [](const Header &h) { return h.p_type == ELF::PT_INTERP; });
  if (interpreter == headers->end()) // a library
    return llvm::Error::success();
  Expected<StringRef> room = bytesAtSymbol(file, kInterpreterSymbol);
  if (!room)
    return room.takeError();
  const StringRef path = file.getData().substr(interpreter->p_offset, interpreter->p_filesz);
  if (room->size() < path.size())
    return createStringError("there is no room for \"" + path + "\"");
  auto positionOf = [&](const void *at) {
    return static_cast<uint64_t>(static_cast<const char *>(at) - file.getData().data());
  };
  Header moved = *interpreter;
  moved.p_offset = positionOf(room->data());
  moved.p_filesz = room->size();
  moved.p_memsz = room->size();
  auto segment = find_if(*headers, [&](const Header &h) {
    return h.p_type == ELF::PT_LOAD && h.p_offset <= moved.p_offset &&
           moved.p_offset < h.p_offset + h.p_filesz;
  });
  if (segment == headers->end())
    return createStringError("what names its interpreter is not loaded");
  moved.p_vaddr = segment->p_vaddr + (moved.p_offset - segment->p_offset);
  moved.p_paddr = moved.p_vaddr;
  char *to = buffer.getBufferStart() + moved.p_offset;
  std::memcpy(to, path.data(), path.size());
  std::memset(to + path.size(), 0, room->size() - path.size());
  std::memcpy(buffer.getBufferStart() + positionOf(interpreter), &moved, sizeof moved);
  return llvm::Error::success();
}

} // namespace

void sealFile(const std::string &path) {
  auto orThrow = [&](auto value) {
    if (!value)
      throw Error::internal("cannot seal \"" + path + "\": " + toString(value.takeError()));
    return std::move(*value);
  };
  auto buffer = orThrow(errorOrToExpected(WriteThroughMemoryBuffer::getFile(path)));
  auto file = orThrow(openLinkedFile(buffer->getMemBufferRef()));
  if (auto error = nameInterpreterLast(*buffer, file))
    throw Error::internal("cannot seal \"" + path + "\": " + toString(std::move(error)));
  const uint64_t position = orThrow(sealPosition(file));
  char *slot = buffer->getBufferStart() + position;
  Seal seal = {orThrow(checksumOfLoaded(file)), 0};
  std::memcpy(slot, &seal, sizeof seal);
  seal.file = checksumOfFile(file.getData(), position);
  std::memcpy(slot, &seal, sizeof seal);
}

void requireSealed(MemoryBufferRef buffer) {
  auto fail = [&](const std::string &problem) {
    throw Error::badInput("\"" + buffer.getBufferIdentifier().str() + "\" is damaged: " + problem +
                          "; compile the model again, or copy the file anew");
  };
  auto file = openLinkedFile(buffer);
  if (!file)
    fail(toString(file.takeError()));
  Expected<uint64_t> position = sealPosition(*file);
  if (!position)
    fail(toString(position.takeError()));
  Seal seal = {};
  std::memcpy(&seal, buffer.getBufferStart() + *position, sizeof seal);
  if (const uint64_t found = checksumOfFile(buffer.getBuffer(), *position); found != seal.file)
    fail(absl::StrFormat("its checksum was %08x when it was written and is %08x now", seal.file,
                         found));
}

} // namespace stow
