// Damaged files of every format that Stowage reads.
//
//   MutatedFiles [--night] [--format=NAME] [--first=SEED] [--cases=N] [--keep=FOLDER]
//
// Each file is a good one with one to four edits, drawn from its seed. Reading it, and what is done with
// what was read, must end by itself: in an Error of bad input, or without one. A crash, a hang, a
// sanitizer's report and an internal error are failures. Each is told with its seed and with the smallest part of its
// edits that still fails, and the file is kept.
#include "tests/mutations/Campaign.h"

#include "runtime/base/CommandLine.h"
#include "runtime/base/Error.h"

#include <cstdio>
#include <filesystem>

namespace stow::test {
namespace {

int run(const std::vector<std::string> &arguments) {
  CampaignOptions options;
  std::string only;
  bool isNight = false;
  std::optional<int64_t> cases;
  CommandLine line;
  line.flag("night", "as many files as in the night", [&] { isNight = true; });
  line.value("format", "NAME", "no other format", [&](const std::string &text) { only = text; });
  line.value("first", "SEED", "of the first file (default: 1)",
             [&](const std::string &text) { options.first = parseCount("first", text, 0); });
  line.value("cases", "N", "files of each format",
             [&](const std::string &text) { cases = parseCount("cases", text, 1); });
  line.value("keep", "FOLDER", "where files that fail are written",
             [&](const std::string &text) { options.keep = text; });
  if (line.parse(arguments).wantsHelp) {
    std::printf("%s", line.help().c_str());
    return 0;
  }
  int64_t failures = 0, formats = 0, files = 0;
  for (const Format &format : allFormats()) {
    if (!only.empty() && format.name != only)
      continue;
    options.count = cases.value_or(isNight ? format.byNight : format.byDay);
    const CampaignResult result = runCampaign(format, options);
    std::printf("%-12s %6lld files, %6lld accepted, %6lld refused, %7.2f s of processor time\n",
                format.name.c_str(), static_cast<long long>(options.count),
                static_cast<long long>(result.accepted), static_cast<long long>(result.refused),
                result.processorSeconds);
    for (const std::string &failure : result.failures)
      std::printf("%s", failure.c_str());
    std::fflush(stdout);
    failures += static_cast<int64_t>(result.failures.size());
    files += options.count;
    ++formats;
  }
  if (formats == 0)
    throw Error::badInput("no format '" + only + "'");
  std::printf("%lld files of %lld formats, %lld failures\n", static_cast<long long>(files),
              static_cast<long long>(formats), static_cast<long long>(failures));
  return failures == 0 ? 0 : 1;
}

} // namespace
} // namespace stow::test

int main(int argc, char **argv) {
  try {
    return stow::test::run({argv + 1, argv + argc});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
