// The commands of `stowage`.
#pragma once

#include "runtime/format/Plan.h"

#include <string>
#include <vector>

namespace stow {

/// Takes --format=FORMAT off the words of a command: text (the default), json or csv. Throws
/// Error(BadInput) for others.
std::string takePlanFormat(std::vector<std::string> &arguments);

/// Prints a plan to standard output in one of those formats.
void printPlan(const Plan &plan, const std::string &format);

// Each takes the words after the command's name, prints to standard output, and throws Error.

/// compile MODEL -o OUT: an executable that trains the model.
int compileCommand(const std::vector<std::string> &arguments);

/// plan MODEL: the memory report; nothing is compiled or run.
int planCommand(const std::vector<std::string> &arguments);

/// frontier MODEL [--format=text|csv|svg] [-o FILE]: time against memory.
int frontierCommand(const std::vector<std::string> &arguments);

/// max-batch MODEL --memory-budget=BYTES: the largest batch that fits.
int maxBatchCommand(const std::vector<std::string> &arguments);

/// inspect EXECUTABLE: the report of a compiled model.
int inspectCommand(const std::vector<std::string> &arguments);

} // namespace stow
