// The ways to run a convolution on every chip that a program is for: an engine for each chip, all of
// them within the same scratch.
//
//   scratch   a100, fastest within      h100, fastest within        choice
//   5,000     engine 1  (5,000 bytes)   engine 7  (288 bytes)       0: engines 1 and 7, 5,000 bytes
//     512     engine 4    (512 bytes)   engine 7  (288 bytes)       1: engines 4 and 7,   512 bytes
//       0     engine 0      (0 bytes)   engine 9    (0 bytes)       2: engines 0 and 9,     0 bytes
//
// A program has one arena for all its chips, so that scratch which one chip's engine needs is there for
// the others, too: within it each takes its fastest. There are at most as many choices as all chips have
// engines.
#pragma once

#include "codegen/cuda/CudnnPlans.h"

#include <span>

namespace stow::cuda {

/// A chip's plans of one convolution.
struct ChipPlans {
  std::string chip;
  const std::vector<EnginePlan> *plans;
};

struct EngineChoice {
  std::string name;         ///< unique among the choices; says every chip's engine and scratch
  Bytes workspaceBytes = 0; ///< the most that one of the engines needs
  double slowdown = 1;      ///< mean of the chips' times, each by that of its fastest engine
  std::vector<const EnginePlan *> engines; ///< by chip
};

/// The choices, the fastest first. Scratch counts in units of `alignment`, as it does in the arena. Every
/// chip has plans; they outlive the choices.
std::vector<EngineChoice> engineChoices(std::span<const ChipPlans> chips, Bytes alignment);

} // namespace stow::cuda
