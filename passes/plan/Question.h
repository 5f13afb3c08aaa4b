// One question about a step, and its answer. What cannot be met is an answer, with its evidence, not an error.
// Open axes (kAny) are closed one after another; README.md has the table of what is tried, in which order, and why.
#pragma once

#include "passes/plan/Steps.h"
#include "runtime/format/Plan.h"

#include <functional>
#include <optional>
#include <vector>

namespace stow {

struct StepQuestion {
  StepVariant asked;
  std::optional<ByteBudget> budget; ///< absent: no more than `allowance` and `inSegments` say
  Allowance allowance = Allowance::usual();
  bool inSegments = false; ///< Chen's segments, where there is no budget
  bool asGiven = false;    ///< the batches that are asked for, also where they save no memory
  Times times = Times::Sheet;
  bool endsEarly = false; ///< Ctrl-C ends the search for a plan with the best so far
  /// Bytes that the budget covers beside the arena of a choice; empty: none.
  std::function<Bytes(const StepChoice &)> beside = {};
};

/// A number of batches that was looked at where it was open.
struct BatchesTried {
  int64_t batches = 1;
  bool fits = false;
  double stepSeconds = 0;
  double recomputedFraction = 0, waitSeconds = 0; ///< of its plan
};

/// What a number of batches that was asked for does to the memory, before anything is computed again.
struct BatchesWeighed {
  int64_t batches = 1;
  Bytes arenaBytes = 0;
  Plan inOne; ///< the step in one batch
  bool helps() const { return arenaBytes < inOne.arenaBytes; }
};

struct StepAnswer {
  /// The step that is taken; where none fits, the one that the evidence is about.
  std::shared_ptr<ModelStep> step;
  std::optional<StepChoice> choice; ///< absent: the budget cannot be met
  Plan plan;                        ///< of the choice, finished by the source
  Bytes within =
      0; ///< the arena that the choice was to keep to: the budget's, or its own where no budget decided
  Bytes budgetBytes = 0;                  ///< where there is a budget: all that it covers
  Bytes besideBytes = 0;                  ///< of it, what was left to what is beside the arena
  std::vector<BatchesTried> batchesTried; ///< where they were open
  std::optional<BatchesWeighed> batchesWeighed; ///< where they were given

  Bytes arenaBudget() const { return std::max<Bytes>(budgetBytes - besideBytes, 0); }
};

/// The answer, every axis settled. Throws as StepSource::prepare, and Interrupted where Ctrl-C came before anything fits.
StepAnswer answer(Steps &steps, const StepQuestion &question);

/// The answer with the axes settled as in `best`, whose plans were compared in another allowance of time.
StepAnswer askedAgain(Steps &steps, const StepQuestion &question, StepAnswer best);

/// The plan of a variant with everything kept and each op run once, finished by the source.
struct KeptStep {
  std::shared_ptr<ModelStep> step;
  mlir::OwningOpRef<mlir::ModuleOp> placed;
  Plan plan;
};
KeptStep keepingAll(Steps &steps, const StepVariant &variant);

/// The question with a budget that is a share of an arena in bytes: of the one with all state in it, in f32 where that is open, and
/// everything kept. So a share means the same whatever of the state lies in slow memory.
StepQuestion withBudgetInBytes(Steps &steps, StepQuestion question);

/// The variant in one batch and one chunk, where these are open.
StepVariant undivided(StepVariant variant);

/// The rules of open axes; each asks for the answer with its axis settled.
StepAnswer inBestChunks(Steps &steps, const StepQuestion &question, int64_t StepVariant::*chunks);
StepAnswer inBestBatches(Steps &steps, const StepQuestion &question);
StepAnswer inBatchesThatHelp(Steps &steps, const StepQuestion &question);
StepAnswer inShardsThatFit(Steps &steps, const StepQuestion &question);
StepAnswer inStateThatFits(Steps &steps, const StepQuestion &question);
StepAnswer withStateAwayThatFits(Steps &steps, const StepQuestion &question);

} // namespace stow
