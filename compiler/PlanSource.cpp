#include "compiler/PlanSource.h"

#include "compiler/CardVerdict.h"
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

/// The options for the model in `path`.
static CompileOptions optionsFor(const std::string &path, const CompileOptions &given) {
  CompileOptions options = given;
  options.modelPath = path;
  finishOptions(options);
  if (options.stopAfter != Form::Program || options.listParameters)
    throw Error::badInput("this command plans models to the end; leave out --stop-after and "
                          "--list-parameters");
  return options;
}

static CompiledPlan planModel(mlir::MLIRContext &context, const CompileOptions &options,
                              StageTimer &timer) {
  prepareContext(context);
  return compileToPlan(context, options, timer);
}

Plan planFromAny(const std::string &path, const CompileOptions &given) {
  if (!isModelFile(path))
    return readPlanFile(path).plan;
  mlir::MLIRContext context;
  const CompileOptions options = optionsFor(path, given);
  StageTimer timer;
  return planModel(context, options, timer).plan;
}

std::optional<Card> cardFromAny(const std::string &path, const CompileOptions &given) {
  return isModelFile(path) ? cardOf(optionsFor(path, given)) : cardOf(readPlanFile(path), given);
}

JudgedPlan judgedFromAny(const std::string &path, const CompileOptions &given) {
  if (!isModelFile(path)) {
    PlanFile file = readPlanFile(path);
    std::optional<Verdict> verdict;
    if (const std::optional<Card> card = cardOf(file, given))
      verdict = verdictOn(file, *card);
    return {std::move(file.plan), std::move(verdict)};
  }
  const CompileOptions options = optionsFor(path, given);
  const std::optional<Card> card = cardOf(options);
  mlir::MLIRContext context;
  StageTimer timer;
  CompiledPlan compiled = planModel(context, options, timer);
  std::optional<Verdict> verdict;
  if (card)
    verdict = verdictOn(context, options, compiled, *card);
  return {std::move(compiled.plan), std::move(verdict)};
}

} // namespace stow
