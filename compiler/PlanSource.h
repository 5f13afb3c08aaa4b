// Commands that take a plan take whatever a plan can come from.
#pragma once

#include "runtime/format/Plan.h"

#include <string>
#include <vector>

namespace stow {

/// Takes the words that are no flags off the words of a command: its files.
std::vector<std::string> takeFiles(std::vector<std::string> &words);

/// The plan in a file (PlanFile.h), or of the model in it as `flags`, those of stowage plan, ask
/// for. Throws Error.
Plan planFromAny(const std::string &path, const std::vector<std::string> &flags);

} // namespace stow
