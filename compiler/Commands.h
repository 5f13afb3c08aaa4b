// The commands of `stowage`.
#pragma once

#include "runtime/format/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace stow {

/// Takes "--name=VALUE" out of the words of a command; the last one counts.
std::optional<std::string> takeFlag(std::vector<std::string> &words, const std::string &name);

/// "text|json|csv|...".
std::string planFormats();

/// Takes --format=FORMAT off the words of a command; without it, text. Throws Error(BadInput) for
/// unknown ones.
std::string takePlanFormat(std::vector<std::string> &arguments);

/// Takes -o FILE or --output=FILE off the words of a command; empty without it. Throws
/// Error(BadInput) when the name is missing, or the file cannot be written.
std::string takeOutput(std::vector<std::string> &arguments);

/// Writes a report to the file, or to standard output where `path` is empty.
void writeReport(const std::string &text, const std::string &path);

/// Writes a plan in one of its formats.
void writePlan(const Plan &plan, const std::string &format, const std::string &path);

// Each takes the words after the command's name, prints to standard output, and throws Error.

/// compile MODEL -o OUT: an executable that trains the model.
int compileCommand(const std::vector<std::string> &arguments);

/// plan MODEL [-o FILE]: the memory report; nothing is compiled or run.
int planCommand(const std::vector<std::string> &arguments);

/// frontier MODEL [--format=text|csv|svg|html] [-o FILE]: time against memory.
int frontierCommand(const std::vector<std::string> &arguments);

/// max-batch MODEL --memory-budget=BYTES: the largest batch that fits.
int maxBatchCommand(const std::vector<std::string> &arguments);

/// diff A B: two plans; 1 when the second arena is larger, 2 for bad input.
int diffCommand(const std::vector<std::string> &arguments);

/// explain FILE [--at=MOMENT|--buffer=NAME|--below=BYTES]: why memory is needed, in words.
int explainCommand(const std::vector<std::string> &arguments);

/// inspect FILE [--times=PROFILE] [-o FILE]: the report of a compiled model, of a plan's JSON, or
/// of a model; with a profile, the page that shows what a run took.
int inspectCommand(const std::vector<std::string> &arguments);

} // namespace stow
