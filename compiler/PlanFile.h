// Plans out of files: of an executable or library that stowage wrote, or of a plan's own JSON.
#pragma once

#include "runtime/format/Plan.h"
#include "runtime/report/Verdict.h"

#include <optional>
#include <string>

namespace stow {

/// Whether `path` names a model that a plan must be made for: it ends in .onnx or .mlir.
bool isModelFile(const std::string &path);

/// A plan, and what its file says beside it.
struct PlanFile {
  Plan plan;
  std::string target; ///< of an executable, as --target names it; empty: the file does not say it
  std::optional<Verdict> verdict; ///< of a plan's JSON where its card is known
};

/// What the file holds. Throws Error(BadInput) with the file's name, what was expected and what is wrong.
PlanFile readPlanFile(const std::string &path);

} // namespace stow
