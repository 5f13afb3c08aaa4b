// `stowage inspect`: the plan of a file, whatever kind of file: an executable (which is not run), a
// plan's JSON, or a model, which is planned now.
#include "compiler/Commands.h"
#include "compiler/PlanFile.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"

#include <algorithm>

namespace stow {

int inspectCommand(const std::vector<std::string> &arguments) {
  if (std::ranges::any_of(arguments, isModelFile))
    return planCommand(arguments);
  std::vector<std::string> words = arguments;
  const std::string format = takePlanFormat(words), output = takeOutput(words);
  std::string path;
  for (const std::string &word : words)
    if (word.starts_with("-"))
      throw Error::badInput("unknown flag \"" + word + "\"; known are --format=" + planFormats() +
                            " and -o FILE");
    else if (path.empty())
      path = word;
    else
      throw Error::badInput("two files given: \"" + path + "\" and \"" + word + "\"");
  if (path.empty())
    throw Error::badInput("no file given; expected a model, a plan's JSON, or what stowage compile "
                          "has written");
  writePlan(readPlanFile(path), format, output);
  return 0;
}

} // namespace stow
