// The commands of `stowage`.
//
// Each function declares the flags and words of its command on `line`, which outlives what it
// returns: the command itself, to be called once they are stored. It prints to standard output,
// returns the process's exit code and throws Error.
#pragma once

#include "runtime/base/CommandLine.h"
#include "runtime/format/Plan.h"
#include "runtime/report/Verdict.h"

#include <string>

namespace stow {

using Run = std::function<int()>;

/// compile MODEL -o OUT: an executable that trains the model.
Run compileCommand(CommandLine &line);

/// plan MODEL: the memory report; nothing is compiled or run.
Run planCommand(CommandLine &line);

/// frontier MODEL: time against memory.
Run frontierCommand(CommandLine &line);

/// max-batch MODEL --memory-budget=BYTES: the largest batch that fits.
Run maxBatchCommand(CommandLine &line);

/// diff A B: two plans; 1 when the second arena is larger.
Run diffCommand(CommandLine &line);

/// explain FILE: why memory is needed, in words.
Run explainCommand(CommandLine &line);

/// inspect FILE: the report of a compiled model, of a plan's JSON, or of a model; with a profile,
/// the page that shows what a run took.
Run inspectCommand(CommandLine &line);

/// The exit code of a command whose result is printed: where Ctrl-C has ended its work, after a word on standard error of
/// what is missing.
int exitCodeOf(bool isPartial, const char *missing);

/// How a report is written, and where to.
struct ReportPlace {
  std::string format = "text";
  std::string path; ///< empty: standard output
};

/// Adds -o FILE. Storing throws Error(BadInput) when the file cannot be written.
void addOutputFlag(CommandLine &line, ReportPlace &place);

/// Adds --format=NAME for one of `formats`, and -o FILE. Storing throws Error(BadInput) for others.
void addReportFlags(CommandLine &line, ReportPlace &place, const std::vector<std::string> &formats);

/// The formats of a plan.
std::vector<std::string> planFormats();

/// Writes a report where it belongs.
void writeReport(const std::string &text, const ReportPlace &place);

/// Writes a plan in one of its formats, with what is said of its card in those that have a place for it.
void writePlan(const Plan &plan, const std::optional<Verdict> &verdict, const ReportPlace &place);

} // namespace stow
