// `stowage pack`: packs a bare instance file, without a model around it.
//
//   stowage pack x.csv [--capacity=BYTES] [--minimize] [--timeout=SECONDS] [--work=STEPS]
//                      [-o out.csv]
//
// With --capacity the question is whether the buffers fit; --minimize then goes on below the
// capacity. Without --capacity the height is minimized. The format is described in
// ir/plan/pack/Text.h; `-` reads standard input.
#pragma once

namespace stow {

/// Runs the command on its arguments (argv[0] is the command's name). Prints the report to standard
/// output and errors to standard error. Returns the exit code: 0 packed, 1 bad input, 2 infeasible
/// or nothing found within the capacity, 3 internal.
int runPackCommand(int argc, char **argv);

} // namespace stow
