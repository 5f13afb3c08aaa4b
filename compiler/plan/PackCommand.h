// `stowage pack`: packs a bare instance file, without a model around it.
//
//   stowage pack x.csv [--capacity=BYTES] [--minimize] [--timeout=SECONDS] [--work=STEPS]
//                      [-o out.csv]
//
// With --capacity the question is whether the buffers fit; --minimize then goes on below the
// capacity. Without --capacity the height is minimized. The format is described in
// ir/plan/pack/Text.h; `-` reads standard input.
#pragma once

#include "runtime/base/CommandLine.h"

namespace stow {

/// Declares the command on `line`, which outlives what is returned: the command itself. It prints
/// the report to standard output and the reason of a failure to standard error, and returns the exit
/// code: 0 packed, 2 infeasible or nothing found within the capacity. Throws Error for the rest.
std::function<int()> packCommand(CommandLine &line);

} // namespace stow
