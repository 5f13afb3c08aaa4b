#include "compiler/plan/PackCommand.h"
#include "compiler/plan/ReadInput.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

namespace stow {

namespace {

constexpr const char *usage =
    "usage: stowage pack x.csv [--capacity=BYTES] [--minimize] [--timeout=SECONDS]\n"
    "                          [--work=STEPS] [-o out.csv]\n"
    "  --capacity=BYTES   decide whether the buffers fit (1048576, 900MB, 2GiB, ...)\n"
    "  --minimize         with --capacity: look for a lower packing too\n"
    "  --timeout=SECONDS  search until this time has passed\n"
    "  --work=STEPS       stop after this many elementary steps (default 2000000000, some\n"
    "                     seconds); unlike a time limit this gives the same packing everywhere\n"
    "  -o out.csv         write the buffers with their offsets; - is standard output, without the\n"
    "                     report\n";

struct Arguments {
  std::string input;
  std::string output;
  std::optional<Bytes> capacity;
  bool minimize = false;
  std::optional<double> timeoutSeconds;
  std::optional<int64_t> work;
};

double parseSeconds(const std::string &text) {
  double seconds = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) ||
      seconds < 0)
    throw Error::badInput("--timeout is '" + text + "'; expected seconds, such as 10 or 0.5");
  return seconds;
}

int64_t parseSteps(const std::string &text) {
  int64_t steps = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error != std::errc() || end != text.data() + text.size() || steps < 0)
    throw Error::badInput("--work is '" + text + "'; expected a number of steps");
  return steps;
}

/// nullopt when only the usage was asked for.
std::optional<Arguments> parseArguments(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    auto value = [&](const std::string &flag) -> std::optional<std::string> {
      if (text.rfind(flag + "=", 0) != 0)
        return std::nullopt;
      return text.substr(flag.size() + 1);
    };
    if (text == "--help" || text == "-h")
      return std::nullopt;
    if (text == "--minimize")
      arguments.minimize = true;
    else if (auto capacity = value("--capacity"))
      arguments.capacity = parseBytes(*capacity);
    else if (auto seconds = value("--timeout"))
      arguments.timeoutSeconds = parseSeconds(*seconds);
    else if (auto steps = value("--work"))
      arguments.work = parseSteps(*steps);
    else if (text == "-o") {
      if (++i == argc)
        throw Error::badInput("-o needs a file name");
      arguments.output = argv[i];
    } else if (text.size() > 1 && text[0] == '-')
      throw Error::badInput("unknown option '" + text + "'; see stowage pack --help");
    else if (!arguments.input.empty())
      throw Error::badInput("two input files, '" + arguments.input + "' and '" + text +
                            "'; expected one");
    else
      arguments.input = text;
  }
  if (arguments.input.empty())
    throw Error::badInput("no input file; see stowage pack --help");
  return arguments;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f%%", 100 * share);
  return text;
}

void report(const pack::Problem &problem, const pack::PackResult &result,
            const Arguments &arguments, double seconds) {
  char line[64];
  std::snprintf(line, sizeof line, "%.3f s, %.3g steps", seconds, static_cast<double>(result.work));
  std::cout << "buffers:     " << problem.buffers.size() << "\n";
  std::cout << "status:      " << pack::name(result.status) << "\n";
  if (arguments.capacity)
    std::cout << "capacity:    " << formatBytesExact(*arguments.capacity) << "\n";
  if (result.solution) {
    std::cout << "height:      " << formatBytesExact(result.solution->height) << "\n";
    std::cout << "lower bound: " << formatBytesExact(result.lowerBound) << " (gap "
              << percent(result.gap()) << ")\n";
    if (!result.method.empty())
      std::cout << "method:      " << result.method << "\n";
  } else {
    std::cout << "lower bound: " << formatBytesExact(result.lowerBound) << "\n";
  }
  std::cout << "effort:      " << line << "\n";
  if (result.conflict.empty())
    return;
  const bool isOne = result.conflict.size() == 1;
  std::cout << (result.conflictIsMinimal ? "smallest conflict" : "conflict") << ": "
            << result.conflict.size()
            << (isOne ? " buffer does not fit\n" : " buffers do not fit together\n");
  for (pack::BufferId id : result.conflict) {
    const pack::Buffer &buffer = problem.buffers[id];
    std::cout << "  " << buffer.name << " [" << buffer.life.begin << ", " << buffer.life.end << ") "
              << buffer.size << " bytes";
    if (buffer.fixedOffset)
      std::cout << " fixed at " << *buffer.fixedOffset;
    std::cout << "\n";
  }
}

int run(const Arguments &arguments) {
  const pack::Problem problem = pack::parse(readInput(arguments.input), inputName(arguments.input));
  const bool toStandardOutput = arguments.output == "-";
  if (!arguments.output.empty() && !toStandardOutput)
    checkWritable(arguments.output);
  const auto start = std::chrono::steady_clock::now();
  pack::PackOptions options;
  options.capacity = arguments.minimize ? std::nullopt : arguments.capacity;
  options.timeoutSeconds = arguments.timeoutSeconds;
  if (arguments.work)
    options.workBudget = *arguments.work;
  else if (arguments.timeoutSeconds)
    options.workBudget = std::numeric_limits<int64_t>::max() / 4;
  pack::PackResult result = packBuffers(problem, options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (result.solution)
    if (auto violations = pack::verify(problem, *result.solution); !violations.empty())
      throw Error::internal("packing is wrong: " + violations.front().message);
  const bool packed =
      result.solution && (!arguments.capacity || result.solution->height <= *arguments.capacity);
  if (packed && toStandardOutput)
    std::cout << pack::print(problem, *result.solution);
  else
    report(problem, result, arguments, spent.count());
  if (packed && !arguments.output.empty() && !toStandardOutput)
    writeFile(arguments.output, pack::print(problem, *result.solution));
  if (packed)
    return 0;
  if (result.status == pack::PackStatus::Infeasible || result.lowerBound > *arguments.capacity)
    std::cerr << "error: the buffers do not fit\n";
  else
    std::cerr << "error: no packing within the capacity was found; raise --timeout, --work or "
                 "--capacity\n";
  return static_cast<int>(ErrorKind::Infeasible);
}

} // namespace

int runPackCommand(int argc, char **argv) {
  try {
    std::optional<Arguments> arguments = parseArguments(argc, argv);
    if (!arguments) {
      std::cout << usage;
      return 0;
    }
    return run(*arguments);
  } catch (const Error &error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exitCode();
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return static_cast<int>(ErrorKind::Internal);
  }
}

} // namespace stow
