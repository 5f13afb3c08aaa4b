// The linker inside the compiler of a wheel, for machines that have none.
//
// It runs as a process of its own, the same program under another name: lld maps its output, so that a full disk ends it with a
// bus error, and it keeps what it allocates until it ends.
#pragma once

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace stow {

/// The name under which the program is a linker.
inline constexpr const char *kBundledLinkerName = "ld.lld";

/// Links as lld does, by its command line, and says there what is wrong. Returns its exit code.
int runBundledLinker(int argc, char **argv, llvm::raw_ostream &messages);

} // namespace stow
