// The order in which an epoch visits the samples.
#pragma once

#include <cstdint>
#include <span>

namespace stow {

/// Fills `order` with a permutation of [0, order.size()) that depends on seed, epoch and size
/// alone, so that a resumed run finds the order of its epoch again. Method: Fisher-Yates over a
/// Philox stream. Allocates nothing.
void shuffleEpoch(std::span<int64_t> order, uint64_t seed, uint64_t epoch);

} // namespace stow
