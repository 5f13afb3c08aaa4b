// Failures that no exception reports.
#pragma once

namespace stow {

/// For the compiler's main function. Memory or a stack that runs out, inside MLIR and LLVM too, becomes
/// an error of bad input, a fatal error of LLVM an internal one; a crash says so before it ends the process
/// as it would. What is unfinished is removed first (runtime/base/Signals.h).
void reportFatalErrors();

} // namespace stow
