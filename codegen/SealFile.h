// The checksums of a linked file: written after the link, compared when the file is read again.
#pragma once

#include "llvm/Support/MemoryBufferRef.h"

#include <string>

namespace stow {

/// Writes its checksums (runtime/format/Seal.h) into a file that the linker has just written. Throws
/// Error.
void sealFile(const std::string &path);

/// Throws Error(BadInput), naming the file as the buffer does, unless its bytes are those that were sealed.
void requireSealed(llvm::MemoryBufferRef buffer);

} // namespace stow
