// The commands of `stowage`.
#pragma once

#include <string>
#include <vector>

namespace stow {

// Each takes the words after the command's name, prints to standard output, and throws Error.

/// compile MODEL -o OUT: an executable that trains the model.
int compileCommand(const std::vector<std::string> &arguments);

/// plan MODEL: the memory report; nothing is compiled or run.
int planCommand(const std::vector<std::string> &arguments);

/// inspect EXECUTABLE: the report of a compiled model.
int inspectCommand(const std::vector<std::string> &arguments);

} // namespace stow
