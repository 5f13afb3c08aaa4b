// The largest batch under a budget, in about ten plans' time: each probe is a plan that cuts alone find.
//
//   everything kept fits |   recomputation, in the time that it may take   | too slow, or proven not to fit
//   1 ------------------ g ------------------------------------------------ r ------------------------>  batch
//
// Bytes are close to lines over the batch: that of everything kept says where to look first (g), that of the bound
// where to look next (r); between what fits and what does not it is halved.
#pragma once

#include "passes/plan/Steps.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace stow {

/// Of the time without recomputation: batches that take more do not count where nothing else is said.
constexpr double kMostExtraTime = 0.5;

/// What is asked about the samples of one graph run: which step, and the bytes that it must fit. Plans are weighed by a data
/// sheet.
struct BatchQuestion {
  Steps &steps;
  StepVariant asked; ///< whatever its samples
  Bytes budget = 0;
  double mostExtraTime = kMostExtraTime;

  std::shared_ptr<ModelStep> stepAt(int64_t batch) const {
    StepVariant sized = asked;
    sized.samples = batch * asked.batches;
    return steps.at(sized);
  }
};

/// A batch with its plan: a point of the curve of time over batches.
struct BatchPoint {
  int64_t batch = 0;
  Bytes arenaBytes = 0;
  schedule::Cost time = 0; ///< of a step, in nanoseconds
  double extraTime = 0;    ///< recomputed time over time once
};

/// The largest batch found that fits, and what is known of larger ones.
struct BatchAnswer {
  int64_t batch = 0;    ///< 0: not even one sample
  Bytes arenaBytes = 0; ///< of `batch`
  double extraTime = 0; ///< likewise
  int64_t firstNot =
      0; ///< the least larger one tried, which does not fit or takes too long; 0: none was
  bool isTooSlow =
      false;            ///< `firstNot`, or where `batch` is 0 one sample, fits, but takes too long
  Bytes leastBytes = 0; ///< where one sample does not fit: the smallest arena found for it
  std::optional<int64_t> provenAbove; ///< this batch and larger ones cannot fit
  Bytes provenBytes = 0;              ///< the lower bound that proves it
  std::vector<BatchPoint> curve;      ///< by rising batch, the answer's the last
  bool isPartial = false;             ///< Ctrl-C has ended it
  std::vector<Refusal> refusals;      ///< candidates of all probes that the checks refused
};

/// Batches above `limit` are not tried. Throws Error as Steps::at does.
BatchAnswer findMaxBatch(const BatchQuestion &question, int64_t limit);

/// A batch and its choice with the smallest arena.
struct BatchChoice {
  int64_t batch = 0;
  const StepChoice *choice = nullptr;
};

/// A batch near `guess` that fits, each probe one QuickPlacement; `batch` is 0 if none of them does.
/// A probe that fails draws a line to `tooLarge`, a larger batch that does not fit, and the next one
/// goes where that meets the budget. Its extra time is not worked out. Throws Error as Steps::at does.
BatchAnswer findSomeBatch(const BatchQuestion &question, int64_t guess, BatchChoice tooLarge);

} // namespace stow
