// Byte quantities: how users write them and how reports print them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stow {

/// A byte count. Signed so that differences are exact; never negative in a plan.
using Bytes = int64_t;

/// A memory budget as the user wrote it: bytes, or a share of the unconstrained peak.
struct ByteBudget {
  std::optional<Bytes> bytes;        ///< set for "2GiB", "900MB", "1048576"
  std::optional<double> peakPercent; ///< set for "70%"
};

/// Parses "2GiB", "512MiB", "900MB", "1.5GB", "4KiB", "123456" (bytes) or "70%".
/// GB, MB and KB are powers of ten; GiB, MiB and KiB powers of two. Fractions of a byte round
/// down. Throws Error(BadInput) naming the text and the accepted forms.
ByteBudget parseByteBudget(std::string_view text);

/// As parseByteBudget, but a percentage is an error.
Bytes parseBytes(std::string_view text);

/// "1.50 MiB", "12 B": the largest binary unit in which the value is at least one.
std::string formatBytes(Bytes bytes);

/// "1.50 MiB (1572864 bytes)": for every figure a user may want to add up.
std::string formatBytesExact(Bytes bytes);

/// `value` rounded up to a multiple of `alignment` (a positive integer).
constexpr Bytes alignUp(Bytes value, Bytes alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace stow
