// --worst: which rows of a data file make a step's arena as large as it is.
#pragma once

#include "compiler/Compile.h"

namespace stow {

/// For each shape of the plan, the largest first, how many rows of `options.worstPath` need it, which of them are the longest, and what
/// the arena would be without them, a sentence each. Throws Error(BadInput) where the step has one shape, or where the file has no array
/// for an input or a row that no shape holds.
std::vector<std::string> worstRows(const CompiledPlan &compiled, const CompileOptions &options);

/// Adds --worst.
void addWorstFlag(CommandLine &line, CompileOptions &options);

} // namespace stow
