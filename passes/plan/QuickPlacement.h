// Another step of a model, placed without a walk down the ladder: is it a remedy?
//
//   a larger batch that does not fit -- its schedule, as it is --------> place --> fits?
//                  this batch -- what cuts alone find ------------> place --> fits?
//   the same batch in chunks -- the least that cuts alone find ---> place --> how much?
//
// No search runs, and nothing is packed but these few schedules; so it takes little longer than to read
// the model, and finds most of what a whole plan would.
#pragma once

#include "passes/plan/Steps.h"

namespace stow {

struct QuickPlacement {
  bool fits = false;
  Bytes arenaBytes = 0; ///< where nothing fits: the least that any of those tried takes
};

/// `other` is the choice of another batch of the same model.
QuickPlacement placeWithin(Bytes budget, const ModelStep &step, const StepChoice &other);

/// An arena that a whole plan of `step` keeps to: a percent above the schedule for the least live bytes that cuts
/// alone find. Above `budget` no more than a bound of it.
Bytes leastPlacement(Bytes budget, const ModelStep &step);

/// A plan near the smallest: the schedule for the least live bytes that cuts alone find. Refused where the checks refuse it.
StepChoice nearlySmallest(const ModelStep &step);

} // namespace stow
