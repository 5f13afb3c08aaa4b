// A step in 16 bits: what of it stays in f32, chosen once for every budget.
//
//   step in 16 bits -- with everything kept no larger than in f32 --> taken
//        ^   |
//        |   | the nodes that run where it is larger, in f32
//        +---+ a few times, then all of it
//
// The choice depends on the step alone: what is rounded to 16 bits, and with it every bit of the result, no budget changes, nor
// what is computed again. What may make 16 bits the larger one: calls that convert what they cannot cut into pieces, casts of
// weights, engines with more scratch, gradients that wait for a verdict.
#pragma once

#include "passes/plan/Steps.h"

namespace stow {

class StoredTypes {
public:
  explicit StoredTypes(Steps &steps) : steps(steps) {}

  /// The step to take for `asked`, which is in 16 bits, by a data sheet. Throws as StepSource::prepare.
  std::shared_ptr<ModelStep> choose(const StepVariant &asked);

private:
  Steps &steps;
};

} // namespace stow
