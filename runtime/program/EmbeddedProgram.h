// The program that codegen has put beside this code: in symbols, see runtime/format/Program.h.
#pragma once

#include "runtime/program/Executor.h"

namespace stow {

/// Parses the program. Throws Error(Internal) when it is damaged.
Program embeddedProgram();

/// Its kernels and initial values.
ProgramImage embeddedImage();

} // namespace stow
