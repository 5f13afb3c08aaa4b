// An ELF object around a blob, written by hand: the format needs a header, one data section, a
// symbol table and two string tables, and the blob is never copied.
//
//   | ELF header | .rodata.stow: blob, size | .symtab | .strtab | .shstrtab | section headers |
#include "codegen/program/ObjectFile.h"

#include "runtime/base/Error.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace stow {
namespace {

using namespace llvm::ELF;

constexpr uint64_t kAlignment = 64;

uint64_t alignTo(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint16_t machineOf(const llvm::Triple &triple) {
  return triple.isAArch64() ? EM_AARCH64 : EM_X86_64;
}

Elf64_Sym objectSymbol(uint32_t name, uint64_t value, uint64_t size) {
  Elf64_Sym symbol = {};
  symbol.st_name = name;
  symbol.setBindingAndType(STB_GLOBAL, STT_OBJECT);
  symbol.st_shndx = 1;
  symbol.st_value = value;
  symbol.st_size = size;
  return symbol;
}

Elf64_Shdr section(uint32_t name, uint32_t type, uint64_t offset, uint64_t size,
                   uint64_t alignment) {
  Elf64_Shdr header = {};
  header.sh_name = name;
  header.sh_type = type;
  header.sh_offset = offset;
  header.sh_size = size;
  header.sh_addralign = alignment;
  return header;
}

} // namespace

void writeBlobObject(const std::string &symbol, std::string_view bytes, const std::string &path) {
  std::string strings(1, '\0');
  strings += symbol + '\0';
  const auto sizeName = static_cast<uint32_t>(strings.size());
  strings += symbol + "_size" + '\0';
  const std::string sections("\0.rodata.stow\0.symtab\0.strtab\0.shstrtab\0", 40);

  uint64_t size = bytes.size(), dataBegin = alignTo(sizeof(Elf64_Ehdr), kAlignment);
  uint64_t sizeOffset = alignTo(size, 8), dataSize = sizeOffset + 8;
  uint64_t symbolBegin = alignTo(dataBegin + dataSize, 8);
  Elf64_Sym symbols[3] = {{}, objectSymbol(1, 0, size), objectSymbol(sizeName, sizeOffset, 8)};
  uint64_t stringBegin = symbolBegin + sizeof(symbols);
  uint64_t sectionNames = stringBegin + strings.size();
  uint64_t headerBegin = alignTo(sectionNames + sections.size(), 8);

  Elf64_Shdr headers[5] = {{},
                           section(1, SHT_PROGBITS, dataBegin, dataSize, kAlignment),
                           section(14, SHT_SYMTAB, symbolBegin, sizeof(symbols), 8),
                           section(22, SHT_STRTAB, stringBegin, strings.size(), 1),
                           section(30, SHT_STRTAB, sectionNames, sections.size(), 1)};
  headers[1].sh_flags = SHF_ALLOC;
  headers[2].sh_link = 3;
  headers[2].sh_info = 1; // first global symbol
  headers[2].sh_entsize = sizeof(Elf64_Sym);

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ElfMagic, 4);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = machineOf(llvm::Triple(llvm::sys::getDefaultTargetTriple()));
  header.e_version = EV_CURRENT;
  header.e_shoff = headerBegin;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 5;
  header.e_shstrndx = 4;

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  auto pad = [&](uint64_t position) {
    static const char zeros[kAlignment] = {};
    file.write(zeros, position - static_cast<uint64_t>(file.tellp()));
  };
  file.write(reinterpret_cast<const char *>(&header), sizeof(header));
  if (file) {
    pad(dataBegin);
    file.write(bytes.data(), size);
    pad(dataBegin + sizeOffset);
    file.write(reinterpret_cast<const char *>(&size), 8);
    pad(symbolBegin);
    file.write(reinterpret_cast<const char *>(symbols), sizeof(symbols));
    file.write(strings.data(), strings.size());
    file.write(sections.data(), sections.size());
    pad(headerBegin);
    file.write(reinterpret_cast<const char *>(headers), sizeof(headers));
    file.close();
  }
  if (!file)
    throw Error(ErrorKind::BadInput, "cannot write \"" + path + "\": " + std::strerror(errno));
}

} // namespace stow
