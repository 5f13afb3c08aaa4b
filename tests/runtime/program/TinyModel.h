// A compiled model in miniature: one linear layer with its loss, gradient and optimizer as four
// hand-written kernels, and the program that strings them together.
//
//   train   logits = x W^T | loss and gradient, in place | W, V updated (momentum 0.9)
//   eval    logits = x W^T | loss
//
// The gradient carries a little noise drawn from the step's seed, as dropout would, so that a wrong
// seed after a resume shows in the loss. State: W and V, and a tensor in a blocked layout that no
// kernel touches.
#pragma once

#include "runtime/program/Executor.h"

#include <functional>

namespace stow::test {

struct TinyOptions {
  int64_t batch = 32;
  int64_t features = 64;
  int64_t classes = 10; ///< outputs for mse
  bool regression = false;
  bool travels =
      false; ///< batch and gradient go to slow memory, in no folder, and back before the update
  bool hasStateAway =
      false; ///< the momentum lies in slow memory, in no folder, and is fetched for the update
  bool hasFrozenAway =
      false; ///< what no step changes, the sizes, lies there, and is fetched for the forward, again for the update, and in
             ///< evaluations
};

Program makeTinyModel(const TinyOptions &options);

/// The kernels of all tiny models, in the order of Command::kernel.
void tinyForward(int64_t begin, int64_t end, char *const *arguments);
void tinyCrossEntropy(int64_t begin, int64_t end, char *const *arguments);
void tinyMeanSquares(int64_t begin, int64_t end, char *const *arguments);
void tinyUpdate(int64_t begin, int64_t end, char *const *arguments);

/// Kernels and constants of the model made last.
ProgramImage tinyImage();

/// Called by the update kernel after each training step with the step's number, from 1. Tests
/// interrupt or kill the process here.
extern std::function<void(int64_t)> afterTinyStep;

} // namespace stow::test
