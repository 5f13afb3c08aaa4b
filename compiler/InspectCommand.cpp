// `stowage inspect`: the plan of a file, whatever kind of file: an executable (which is not run), a
// plan's JSON, or a model, which is planned now. With --times, what a run of it took as well.
#include "compiler/Commands.h"
#include "compiler/Picture.h"
#include "compiler/PlanFile.h"
#include "compiler/PlanSource.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"

#include <algorithm>

namespace stow {
namespace {

/// Takes the one file off the words.
std::string takeFile(std::vector<std::string> &words) {
  const std::vector<std::string> files = takeFiles(words);
  if (files.empty())
    throw Error::badInput("no file given; expected a model, a plan's JSON, or what stowage compile "
                          "has written");
  if (files.size() > 1)
    throw Error::badInput("two files given: \"" + files[0] + "\" and \"" + files[1] + "\"");
  return files.front();
}

void refuseFlags(const std::vector<std::string> &words) {
  if (!words.empty())
    throw Error::badInput("unknown flag \"" + words.front() +
                          "\"; known are --format=" + planFormats() + ", --times=FILE and -o FILE");
}

/// The page of a plan with the times of a run.
void inspectTimes(std::vector<std::string> words, const std::string &profile) {
  const std::string format = takePlanFormat(words), output = takeOutput(words);
  if (format != "html")
    throw Error::badInput("--times needs --format=html; the times as text or as a trace are what "
                          "./model train --profile prints and writes");
  const std::string path = takeFile(words);
  if (!isModelFile(path))
    refuseFlags(words);
  const Plan plan = planFromAny(path, words);
  writeReport(drawTimes(plan, StepTimes::load(profile, plan)), output);
}

} // namespace

int inspectCommand(const std::vector<std::string> &arguments) {
  std::vector<std::string> words = arguments;
  if (auto profile = takeFlag(words, "times")) {
    inspectTimes(words, *profile);
    return 0;
  }
  if (std::ranges::any_of(arguments, isModelFile))
    return planCommand(arguments);
  const std::string format = takePlanFormat(words), output = takeOutput(words);
  const std::string path = takeFile(words);
  refuseFlags(words);
  writePlan(readPlanFile(path), format, output);
  return 0;
}

} // namespace stow
