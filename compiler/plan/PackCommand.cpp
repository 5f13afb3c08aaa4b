#include "compiler/plan/PackCommand.h"
#include "compiler/plan/ReadInput.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_format.h>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>

namespace stow {

namespace {

struct Arguments {
  std::string input;
  std::string output;
  std::optional<Bytes> capacity;
  bool minimize = false;
  std::optional<double> timeoutSeconds;
  std::optional<int64_t> work;
};

std::string percent(double share) { return absl::StrFormat("%.4f%%", 100 * share); }

void report(const pack::Problem &problem, const pack::PackResult &result,
            const Arguments &arguments, double seconds) {
  const std::string line = absl::StrFormat("%.3f s, %.3g steps", seconds, double(result.work));
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

int packInstance(const Arguments &arguments) {
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
  const pack::PackResult result =
      options.capacity ? packBuffers(problem, options) : packLowest(problem, options);
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

std::function<int()> packCommand(CommandLine &line) {
  auto arguments = std::make_shared<Arguments>();
  line.words([arguments](const std::string &word) { takeInput(arguments->input, word); });
  line.value("capacity", "BYTES", "decide whether the buffers fit (1048576, 900MB, 2GiB, ...)",
             [arguments](const std::string &text) { arguments->capacity = parseBytes(text); });
  line.flag("minimize", "with --capacity: look for a lower packing too",
            [arguments] { arguments->minimize = true; });
  line.value("timeout", "SECONDS", "search until this time has passed",
             [arguments](const std::string &text) {
               arguments->timeoutSeconds = parseRate("timeout", text);
             });
  line.value(
      "work", "STEPS",
      "stop after this many elementary steps (default: 2000000000, some seconds), and twice as "
      "many without --capacity; unlike a time limit this gives the same packing everywhere",
      [arguments](const std::string &text) { arguments->work = parseCount("work", text, 0); });
  line.value("output,o", "FILE",
             "write the buffers with their offsets; - is standard output, without the report",
             [arguments](const std::string &path) { arguments->output = path; });
  return [arguments] {
    requireInput(arguments->input);
    return packInstance(*arguments);
  };
}

} // namespace stow
