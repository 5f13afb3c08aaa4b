// stowage: the compiler's command line.
#include "codegen/BundledLinker.h"
#include "compiler/Commands.h"
#include "compiler/FatalErrors.h"
#include "compiler/ProgressLine.h"
#include "compiler/plan/PackCommand.h"
#include "compiler/plan/RematCommand.h"
#include "runtime/base/Error.h"
#include "runtime/base/LongWork.h"
#include "runtime/base/Signals.h"
#include "runtime/base/Version.h"

#include "llvm/Support/raw_ostream.h"

#include <absl/strings/str_format.h>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <malloc.h>
#include <map>
#include <string_view>

namespace {

struct Command {
  const char *name, *words, *purpose;
  stow::Run (*declare)(stow::CommandLine &line);
  const char *note = "";
};

const Command commands[] = {
    {"compile", "MODEL -o OUT [flags]", "an executable: OUT train --data=x.npz",
     stow::compileCommand},
    {"plan", "MODEL [flags]", "the memory report only", stow::planCommand},
    {"frontier", "MODEL [flags]", "time against memory", stow::frontierCommand},
    {"max-batch", "MODEL --memory-budget=BYTES [flags]", "the largest batch that fits",
     stow::maxBatchCommand},
    {"inspect", "FILE [flags]", "the report of an executable, a plan's JSON or a model",
     stow::inspectCommand},
    {"explain", "FILE [flags]", "why a plan needs its memory, in words", stow::explainCommand},
    {"diff", "A B [flags]", "two plans, models or executables compared", stow::diffCommand,
     "\nExit code 1 when the arena of B is larger than that of A, 2 for bad input.\n"},
    {"pack", "FILE.csv [flags]", "packs a bare instance", stow::packCommand},
    {"remat", "FILE.json --memory-budget=B [flags]", "schedules a bare graph", stow::rematCommand},
};

std::string usageOf(const Command &command) {
  return std::string("  stowage ") + command.name + " " + command.words + "   " + command.purpose +
         "\n";
}

/// The help of a command, or of the program where `name` is empty.
std::string helpFor(const std::string &name,
                    const std::map<std::string, stow::CommandLine *> &lines) {
  std::string text;
  if (name.empty()) {
    text = "stowage: compiles a model into an executable that trains it in one planned arena\n\n";
    for (const Command &command : commands)
      text += usageOf(command);
    text += "  stowage COMMAND --help   the flags of a command\n"
            "  stowage --version\n\n"
            "MODEL is a .onnx file or a .mlir file in the model form. Flags of compile:\n" +
            lines.at("compile")->help();
  } else {
    const Command &command = *std::ranges::find(commands, name, &Command::name);
    text = usageOf(command) + "\n" + lines.at(name)->help() + command.note;
  }
  return text + "\nExit codes: 0 done, 1 bad input, 2 infeasible, 3 internal error.\n";
}

int runCommand(const std::vector<std::string> &arguments) {
  stow::CommandLine line;
  bool wantsVersion = false;
  line.flag("version", "print the version", [&] { wantsVersion = true; });
  std::map<std::string, stow::CommandLine *> lines;
  std::map<std::string, stow::Run> runs;
  for (const Command &command : commands) {
    lines[command.name] = &line.command(command.name);
    runs[command.name] = command.declare(*lines[command.name]);
  }
  line.command("help");
  if (!arguments.empty() &&
      (arguments.front().ends_with(".onnx") || arguments.front().ends_with(".mlir")))
    throw stow::Error::badInput(
        "a command is missing before \"" + arguments.front() +
        "\"; did you mean stowage plan MODEL or stowage compile MODEL -o OUT?");
  const stow::CommandLine::Request request = line.parse(arguments);
  if (wantsVersion) {
    absl::PrintF("stowage %s\nwith %s\n", stow::version(), STOWAGE_LIBRARIES);
    return 0;
  }
  if (!request.wantsHelp && runs.contains(request.command))
    return runs[request.command]();
  std::fputs(helpFor(runs.contains(request.command) ? request.command : "", lines).c_str(), stdout);
  return 0;
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

/// Memory that was freed is kept for the next allocation. Import and planning make and drop large arrays by
/// the thousand; mapped and returned each time, their pages took a fifth of the time of a plan of a
/// model of 7 billion parameters, and the peak is the same.
void keepFreedMemory() {
  if (!::mallopt(M_MMAP_THRESHOLD, INT_MAX))
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that older versions of glibc take
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

} // namespace

int main(int argc, char **argv) {
#ifdef STOWAGE_BUNDLED_LINKER
  if (argc > 0 && std::string_view(argv[0]) == stow::kBundledLinkerName)
    return stow::runBundledLinker(argc, argv, llvm::errs());
#endif
  keepFreedMemory();
  stow::takeSignals();
  stow::reportFatalErrors();
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const stow::ProgressLine progress;
  try {
    int code = runCommand(arguments);
    flushOutput();
    return code;
  } catch (const stow::Interrupted &) {
    stow::hideProgress();
    std::fputs("error: interrupted before a first plan was found\n", stderr);
    return stow::kInterruptedCode;
  } catch (const stow::Error &error) {
    stow::hideProgress();
    absl::FPrintF(stderr, "error: %s\n", error.what());
    // With diff, 1 says that the arena grew.
    const bool isDiff = !arguments.empty() && arguments.front() == "diff";
    return isDiff && error.kind() == stow::ErrorKind::BadInput ? 2 : error.exitCode();
  } catch (const std::exception &error) {
    absl::FPrintF(stderr, "error: internal: %s\n", error.what());
    return 3;
  }
}
