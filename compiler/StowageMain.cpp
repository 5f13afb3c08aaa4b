// stowage: the compiler's command line.
#include "compiler/Commands.h"
#include "compiler/Options.h"
#include "compiler/plan/PackCommand.h"
#include "compiler/plan/RematCommand.h"
#include "runtime/base/Error.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

void printHelp() {
  std::printf(
      "stowage: compiles a model into an executable that trains it in one planned arena\n\n"
      "  stowage compile MODEL -o OUT [flags]   an executable: OUT train --data=x.npz\n"
      "  stowage plan MODEL [flags] [--format=text|json|csv]   the memory report only\n"
      "  stowage frontier MODEL [flags] [--format=text|csv|svg] [-o FILE]   time against "
      "memory\n"
      "  stowage max-batch MODEL --memory-budget=BYTES [flags]   the largest batch that "
      "fits\n"
      "  stowage inspect OUT [--format=text|json|csv]   the report of an executable\n"
      "  stowage pack FILE.csv   packs a bare instance\n"
      "  stowage remat FILE.json --memory-budget=B   schedules a bare graph\n\n"
      "MODEL is a .onnx file or a .mlir file in the model form. Flags of compile and plan:\n"
      "%s\nExit codes: 0 done, 1 bad input, 2 infeasible, 3 internal error.\n",
      stow::compileHelp().c_str());
}

int runCommand(int argc, char **argv) {
  std::string command = argc > 1 ? argv[1] : "--help";
  std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  bool isBare = command == "pack" || command == "remat"; // these have a help of their own
  if (command == "help" || command == "--help" || command == "-h" ||
      (!isBare && std::ranges::find(arguments, "--help") != arguments.end())) {
    printHelp();
    return 0;
  }
  if (command == "compile")
    return stow::compileCommand(arguments);
  if (command == "plan")
    return stow::planCommand(arguments);
  if (command == "frontier")
    return stow::frontierCommand(arguments);
  if (command == "max-batch")
    return stow::maxBatchCommand(arguments);
  if (command == "inspect")
    return stow::inspectCommand(arguments);
  if (command == "pack")
    return stow::runPackCommand(argc - 1, argv + 1);
  if (command == "remat")
    return stow::runRematCommand(argc - 1, argv + 1);
  throw stow::Error::badInput("unknown command \"" + command +
                              "\"; known are compile, plan, frontier, max-batch, inspect, "
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
    std::fprintf(stderr, "internal error: %s\n", error.what());
    return 3;
  }
}
