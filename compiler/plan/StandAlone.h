// A command on bare instances as a program of its own, for builds of the planner without MLIR.
#pragma once

#include "runtime/base/CommandLine.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_format.h>
#include <algorithm>
#include <cstdio>

namespace stow {

/// Runs the command on `argv`; argv[0] is the program's name. Returns the exit code of the command,
/// or that of an error, which goes to standard error.
inline int runAlone(int argc, char **argv, std::function<int()> (*declare)(CommandLine &)) {
  try {
    CommandLine line;
    const std::function<int()> run = declare(line);
    if (!line.parse({argv + std::min(argc, 1), argv + argc}).wantsHelp)
      return run();
    absl::PrintF("usage: %s FILE [flags]\n\n%s", argv[0], line.help());
    return 0;
  } catch (const Error &error) {
    absl::FPrintF(stderr, "error: %s\n", error.what());
    return error.exitCode();
  } catch (const std::exception &error) {
    absl::FPrintF(stderr, "error: internal: %s\n", error.what());
    return static_cast<int>(ErrorKind::Internal);
  }
}

} // namespace stow
