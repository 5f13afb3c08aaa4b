// The command line of a compiled model: train, eval, plan.
#pragma once

#include "runtime/program/Executor.h"

namespace stow {

/// Runs the command in `argv` and returns the process's exit code: 0 done, 1 bad input, 3 internal
/// error, 128 + a signal that stopped it. Results go to standard output, errors to standard error
/// as one line that starts with "error: ".
int stowMain(int argc, char **argv, const Program &program, ProgramImage image);

} // namespace stow
