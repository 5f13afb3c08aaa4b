// What stow-gather-updates runs in one launch.
#pragma once

#include <cstdint>

namespace stow {

/// The largest parameter whose update shares a launch with others, in elements: 64 blocks of 256 threads with four elements
/// each, less than half of a large chip's multiprocessors.
constexpr int64_t kMostGatheredElements = 1 << 16;

} // namespace stow
