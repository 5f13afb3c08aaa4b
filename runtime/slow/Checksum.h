// The checksum of a piece that travels: Fletcher's two sums, of words of 64 bits.
//
// It is computed twice per byte beside a copy, so it has to cost less than the copy itself. Eight sums
// side by side make vector code out of it. A changed word changes the first sum; words that change
// places, or a page that is another one, change the second.
#pragma once

#include <cstdint>
#include <span>

namespace stow::slow {

/// Of a multiple of 64 bytes.
uint64_t checksumOf(std::span<const char> bytes);

} // namespace stow::slow
