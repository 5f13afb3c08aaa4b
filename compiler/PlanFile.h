// Plans out of files: of an executable or library that stowage wrote, or of a plan's own JSON.
#pragma once

#include "runtime/format/Card.h"
#include "runtime/format/Plan.h"

#include <optional>
#include <string>

namespace stow {

/// Whether `path` names a model that a plan must be made for: it ends in .onnx or .mlir.
bool isModelFile(const std::string &path);

/// The plan that the file holds. Throws Error(BadInput) with the file's name, what was expected and
/// what is wrong.
Plan readPlanFile(const std::string &path);

/// The card that the verdict of a plan's JSON is about; none without a verdict, as in executables.
std::optional<Card> readCardFile(const std::string &path);

} // namespace stow
