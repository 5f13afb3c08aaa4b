// Commands that take a plan take whatever a plan can come from.
#pragma once

#include "compiler/Options.h"
#include "runtime/format/Plan.h"
#include "runtime/report/Verdict.h"

#include <optional>
#include <string>
#include <vector>

namespace stow {

/// The words and flags of such a command: files, and what models among them are planned with.
struct PlanSource {
  std::vector<std::string> files;
  CompileOptions options;
  size_t ownFlags = 0; ///< how many the command has beside those of `options`
};

/// Adds the files, and the flags of stowage plan after the command's own.
void addPlanSource(CommandLine &line, PlanSource &source);

/// Refuses flags of stowage plan where no file is a model. Throws Error(BadInput) naming the first.
void refuseIdleFlags(const CommandLine &line, const PlanSource &source);

/// The plan in a file (PlanFile.h), or of the model in it as `options` ask for. Throws Error.
Plan planFromAny(const std::string &path, const CompileOptions &options);

/// The card that such a plan is to fit, if one is known (CardVerdict.h).
std::optional<Card> cardFromAny(const std::string &path, const CompileOptions &options);

struct JudgedPlan {
  Plan plan;
  std::optional<Verdict> verdict; ///< where its card is known
};

/// Such a plan with the verdict on it.
JudgedPlan judgedFromAny(const std::string &path, const CompileOptions &options);

} // namespace stow
