// stowage: the compiler's command line.
#include "compiler/Commands.h"
#include "compiler/Options.h"
#include "compiler/plan/PackCommand.h"
#include "compiler/plan/RematCommand.h"
#include "runtime/base/Error.h"
#include "runtime/base/Version.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

/// A command that takes a model or an executable. `pack` and `remat` have a help of their own.
struct Command {
  const char *name, *words, *purpose;
  int (*run)(const std::vector<std::string> &arguments);
  const char *flags; ///< beside those of a compilation
  bool compiles, writes;
};

constexpr const char *planFormat =
    "  --format=NAME   text, json, csv, perfetto, memory-viz, dot or html (default: text)\n"
    "  -o FILE         write there instead of to standard output\n";
constexpr const char *inspectFlags =
    "  --format=NAME   text, json, csv, perfetto, memory-viz, dot or html (default: text)\n"
    "  --times=FILE    of ./model train --profile=FILE: measured beside planned times; with html\n"
    "  -o FILE         write there instead of to standard output\n";
const Command commands[] = {
    {"compile", "MODEL -o OUT [flags]", "an executable: OUT train --data=x.npz",
     stow::compileCommand, "", true, true},
    {"plan", "MODEL [flags]", "the memory report only", stow::planCommand, planFormat, true, false},
    {"frontier", "MODEL [flags] [-o FILE]", "time against memory", stow::frontierCommand,
     "  --format=NAME   text, csv, svg or html (default: text)\n"
     "  --step=PERCENT  distance of the budgets that are planned (default: 5)\n",
     true, true},
    {"max-batch", "MODEL --memory-budget=BYTES [flags]", "the largest batch that fits",
     stow::maxBatchCommand, "  --limit=N       the largest batch tried (default: 1048576)\n", true,
     false},
    {"inspect", "FILE [flags]", "the report of an executable, a plan's JSON or a model",
     stow::inspectCommand, inspectFlags, false, false},
    {"explain", "FILE [flags]", "why a plan needs its memory, in words", stow::explainCommand,
     "  --at=MOMENT     peak, the number of a command, a time (1.5ms), or part of a node's name\n"
     "  --buffer=NAME   a buffer, or part of the name of a node or module\n"
     "  --below=BYTES   what it would take to need no more than that\n"
     "  --rows=N        lines of each list (default: 10)\n"
     "  -o FILE         write there instead of to standard output\n"
     "With a model: the flags of stowage plan.\n",
     false, false},
    {"diff", "A B [flags]", "two plans, models or executables compared", stow::diffCommand,
     "  --format=NAME   text, json or html (default: text)\n"
     "  --rows=N        buffers listed (default: 20)\n"
     "  -o FILE         write there instead of to standard output\n"
     "With a model: the flags of stowage plan, for both.\n"
     "Exit code 1 when the arena of B is larger than that of A, 2 for bad input.\n",
     false, false},
};

constexpr const char *exitCodes = "\nExit codes: 0 done, 1 bad input, 2 infeasible, 3 internal "
                                  "error.\n";

std::string line(const Command &command) {
  return std::string("  stowage ") + command.name + " " + command.words + "   " + command.purpose +
         "\n";
}

void printHelp() {
  std::string text =
      "stowage: compiles a model into an executable that trains it in one planned arena\n\n";
  for (const Command &command : commands)
    text += line(command);
  text += "  stowage pack FILE.csv   packs a bare instance\n"
          "  stowage remat FILE.json --memory-budget=B   schedules a bare graph\n"
          "  stowage COMMAND --help   the flags of a command\n"
          "  stowage --version\n\n"
          "MODEL is a .onnx file or a .mlir file in the model form. Flags of compile:\n" +
          stow::compileHelp(/*wantsOutput=*/true) + exitCodes;
  std::fputs(text.c_str(), stdout);
}

void printHelp(const Command &command) {
  std::string text = line(command) + "\n" + command.flags;
  if (command.compiles)
    text += stow::compileHelp(command.writes);
  std::fputs((text + exitCodes).c_str(), stdout);
}

bool asksForHelp(const std::string &word) { return word == "--help" || word == "-h"; }

int runCommand(int argc, char **argv) {
  std::string name = argc > 1 ? argv[1] : "--help";
  std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  if (name == "help" || asksForHelp(name)) {
    printHelp();
    return 0;
  }
  if (name == "--version") {
    std::printf("stowage %s\n", stow::version());
    return 0;
  }
  if (name == "pack")
    return stow::runPackCommand(argc - 1, argv + 1);
  if (name == "remat")
    return stow::runRematCommand(argc - 1, argv + 1);
  std::string known;
  for (const Command &command : commands) {
    if (name != command.name) {
      known += std::string(command.name) + ", ";
      continue;
    }
    if (std::ranges::none_of(arguments, asksForHelp))
      return command.run(arguments);
    printHelp(command);
    return 0;
  }
  throw stow::Error::badInput("unknown command \"" + name + "\"; known are " + known +
                              "pack, remat");
}

/// Results that standard output did not take are a failure, as those of a file are.
void flushOutput() {
  std::string problem;
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    problem = std::strerror(errno);
  llvm::outs().flush();
  if (llvm::outs().has_error()) {
    problem = llvm::outs().error().message();
    llvm::outs().clear_error(); // its destructor would end the process
  }
  if (!problem.empty())
    throw stow::Error::badInput("cannot write to standard output: " + problem);
}

} // namespace

int main(int argc, char **argv) {
  try {
    int code = runCommand(argc, argv);
    flushOutput();
    return code;
  } catch (const stow::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exitCode();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: internal: %s\n", error.what());
    return 3;
  }
}
