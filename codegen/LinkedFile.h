// What a linked file defines, found without believing what its headers say of their own sizes.
#pragma once

#include "llvm/Object/ELFObjectFile.h"

namespace stow {

using ElfObject = llvm::object::ELFObjectFile<llvm::object::ELF64LE>;

/// Errors: bytes that do not begin as those of a linked file of 64 bits do, and a file that ends before what its header names.
llvm::Expected<ElfObject> openLinkedFile(llvm::MemoryBufferRef buffer);

/// The bytes from the symbol's address to the end of its section, which lie in the file's own; empty where the file defines no
/// such symbol. Errors: a symbol table, a name or a section that reaches behind the file.
llvm::Expected<llvm::StringRef> bytesAtSymbol(const ElfObject &object, llvm::StringRef wanted);

} // namespace stow
