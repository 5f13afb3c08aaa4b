// `stowage diff`: two plans beside each other.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "compiler/PlanFile.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"
#include "runtime/program/Flags.h"
#include "runtime/report/Diff.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace stow {
namespace {

int diff(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  const std::string output = takeOutput(words);
  const std::string format = takeFlag(words, "format").value_or("text");
  if (format != "text" && format != "json" && format != "html")
    throw Error::badInput("unknown format \"" + format + "\"; known are text, json, html");
  size_t rows = 20;
  if (auto text = takeFlag(words, "rows"))
    rows = parseCount("rows", *text, 0);
  const std::vector<std::string> files = takeFiles(words);
  if (files.size() != 2)
    throw Error::badInput("expected two files, models, plans or executables, found " +
                          std::to_string(files.size()));
  if (!words.empty() && std::ranges::none_of(files, isModelFile))
    throw Error::badInput("unknown flag \"" + words.front() +
                          "\"; known are --format=text|json|html, --rows=N and -o FILE, and with a "
                          "model those of stowage plan");
  const Plan before = planFromAny(files[0], words), after = planFromAny(files[1], words);
  auto name = [](const std::string &path) {
    return std::filesystem::path(path).filename().string();
  };
  const std::string first = name(files[0]), second = name(files[1]);
  writeReport(format == "json"   ? differenceToJson(before, after)
              : format == "html" ? drawComparison(before, after, first, second)
                                 : renderDifference(before, after, first, second, rows),
              output);
  return after.arenaBytes > before.arenaBytes ? 1 : 0;
}

} // namespace

int diffCommand(const std::vector<std::string> &arguments) {
  try {
    return diff(arguments);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::BadInput)
      throw;
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2; // 1 says that the arena grew
  }
}

} // namespace stow
