// How many cases a property test tries.
//
// Properties that hold for random problems are tried on many of them in the night
// (scripts/nightly.sh) and on the first fifth of the same problems whenever the tests run.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace stow::test {

/// True in the nightly run: its tests are registered with STOWAGE_NIGHTLY (cmake/Stowage.cmake).
inline bool isNight() { return std::getenv("STOWAGE_NIGHTLY") != nullptr; }

/// `count` in the nightly run; otherwise a fifth of it, at least one.
template <typename Number> Number cases(Number count) {
  return isNight() ? count : std::max<Number>(count / 5, 1);
}

} // namespace stow::test
