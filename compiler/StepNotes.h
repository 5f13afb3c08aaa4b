// What was chosen for a step and why, in sentences: the notes of a plan.
#pragma once

#include "compiler/Options.h"
#include "passes/plan/Question.h"

#include <string>

namespace stow {

/// What of a step in 16 bits stays in f32; empty where nothing does.
std::string noteOf(const LeftWide &left, const CompileOptions &options);

/// What became of --accumulate; empty where it was not asked for.
std::string noteOfBatches(const StepAnswer &answer);

/// The numbers of batches that --accumulate=auto looked at.
std::string describeTried(const StepAnswer &answer);

/// Why nothing that is done about activations lowers this plan's peak: a sentence, or nothing where
/// state does not outweigh them.
std::string whyStateIsThePeak(const Plan &plan);

} // namespace stow
