#include "compiler/PlanSource.h"

#include "compiler/CardVerdict.h"
#include "compiler/Pipeline.h"
#include "compiler/PlanFile.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>

namespace stow {

void addPlanSource(CommandLine &line, PlanSource &source) {
  source.ownFlags = line.flagNames().size();
  addCompileFlags(line, source.options);
  line.words([&](const std::string &file) { source.files.push_back(file); });
}

void refuseIdleFlags(const CommandLine &line, const PlanSource &source) {
  if (std::ranges::any_of(source.files, isModelFile))
    return;
  const std::vector<std::string> names = line.flagNames();
  const std::string own = joined({names.begin(), names.begin() + source.ownFlags});
  for (size_t i = source.ownFlags; i < names.size(); ++i)
    if (line.isGiven(names[i]))
      throw Error::badInput(names[i] +
                            " is how a model is planned, and no file here is a model; "
                            "known for plans and executables are " +
                            own);
}

Plan planFromAny(const std::string &path, const CompileOptions &given) {
  if (!isModelFile(path))
    return readPlanFile(path);
  CompileOptions options = given;
  options.modelPath = path;
  finishOptions(options);
  if (options.stopAfter != Form::Program || options.listParameters)
    throw Error::badInput("this command plans models to the end; leave out --stop-after and "
                          "--list-parameters");
  mlir::MLIRContext context;
  prepareContext(context);
  StageTimer timer;
  return compileToPlan(context, options, timer).plan;
}

std::optional<Card> cardFromAny(const std::string &path, const CompileOptions &given) {
  if (!isModelFile(path))
    return readCardFile(path);
  CompileOptions options = given;
  options.modelPath = path;
  finishOptions(options);
  return cardOf(options);
}

} // namespace stow
