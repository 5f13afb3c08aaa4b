#include "codegen/LinkedFile.h"

using namespace llvm;

namespace stow {
namespace {

using Elf = object::ELF64LE;

Expected<StringRef> bytesFrom(const object::ELFFile<Elf> &file, const Elf::Sym &symbol) {
  Expected<const Elf::Shdr *> section = file.getSection(symbol.st_shndx);
  if (!section)
    return section.takeError();
  Expected<ArrayRef<uint8_t>> contents = file.getSectionContents(**section);
  if (!contents)
    return contents.takeError();
  const uint64_t offset = symbol.st_value - (*section)->sh_addr;
  if (offset > contents->size())
    return createStringError("a symbol lies behind its section");
  return toStringRef(contents->drop_front(offset));
}

} // namespace

Expected<ElfObject> openLinkedFile(MemoryBufferRef buffer) {
  if (!buffer.getBuffer().starts_with(StringRef("\x7f"
                                                "ELF\x02\x01",
                                                6)))
    return createStringError("it is no linked file of 64 bits");
  // The table of sections, which linkers write last.
  const auto *header = reinterpret_cast<const Elf::Ehdr *>(buffer.getBufferStart());
  const uint64_t size = buffer.getBufferSize();
  if (size < sizeof *header)
    return createStringError("the file is cut short: " + Twine(size) + " bytes of it are there");
  const uint64_t tableSize = uint64_t{header->e_shnum} * header->e_shentsize;
  const uint64_t whole = header->e_shoff + tableSize;
  if (whole >= tableSize && size < whole)
    return createStringError("the file is cut short: " + Twine(size) + " of at least " +
                             Twine(whole) + " bytes are there; copy or compile it again");
  return ElfObject::create(buffer);
}

Expected<StringRef> bytesAtSymbol(const ElfObject &object, StringRef wanted) {
  const object::ELFFile<Elf> &file = object.getELFFile();
  Expected<Elf::ShdrRange> sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const Elf::Shdr &table : *sections) {
    if (table.sh_type != ELF::SHT_SYMTAB)
      continue;
    // Unlike ELFObjectFile::symbols, this compares the table's size with the file's.
    Expected<Elf::SymRange> symbols = file.symbols(&table);
    if (!symbols)
      return symbols.takeError();
    Expected<StringRef> names = file.getStringTableForSymtab(table);
    if (!names)
      return names.takeError();
    for (const Elf::Sym &symbol : *symbols) {
      Expected<StringRef> name = symbol.getName(*names);
      if (!name)
        return name.takeError();
      if (*name == wanted && symbol.isDefined())
        return bytesFrom(file, symbol);
    }
  }
  return StringRef();
}

} // namespace stow
