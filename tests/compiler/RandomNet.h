// Random networks for properties of plans: nests of concats, slices, reshapes and transposes on any
// axis, with ops between them that may run in place, residual adds, library calls and several
// readers of one value.
#pragma once

#include <cstdint>
#include <string>

namespace stow {

/// True for the seeds whose networks join and slice: four of five.
bool movesData(uint64_t seed);

/// A model of the model form with input "x" and output "out", a function of `seed` and of `scale` alone, by which its tensors are
/// larger.
std::string randomNet(uint64_t seed, int64_t scale = 1);

} // namespace stow
