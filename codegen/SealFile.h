// The checksums of a linked file: written after the link, compared when the file is read again.
#pragma once

#include "llvm/Support/MemoryBufferRef.h"

#include <string>

namespace stow {

/// Where an executable's last loaded bytes are, if the linker placed them so: room for the path of its interpreter (PT_INTERP).
inline constexpr char kInterpreterSymbol[] = "stow_interpreter";
inline constexpr unsigned kInterpreterRoom = 64;

/// Writes its checksums (runtime/format/Seal.h) into a file that the linker has just written, and lets an executable name its interpreter
/// at kInterpreterSymbol: of a file that is cut short the system then cannot read that name and refuses to start it, where it would
/// otherwise begin to write to pages that are not there. Throws Error.
void sealFile(const std::string &path);

/// Throws Error(BadInput), naming the file as the buffer does, unless its bytes are those that were sealed.
void requireSealed(llvm::MemoryBufferRef buffer);

} // namespace stow
