#include "runtime/slow/Checksum.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace stow::slow {

uint64_t checksumOf(std::span<const char> bytes) {
  constexpr size_t lanes = 8;
  std::array<uint64_t, lanes> first = {}, second = {}, words;
  for (size_t at = 0; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (size_t lane = 0; lane < lanes; ++lane) {
      first[lane] += words[lane];
      second[lane] += first[lane];
    }
  }
  constexpr uint64_t odd = 0x9E3779B97F4A7C15; // 2^64 by the golden ratio
  uint64_t sum = bytes.size();
  for (const std::array<uint64_t, lanes> &sums : {first, second})
    for (uint64_t value : sums)
      sum = (sum ^ value) * odd;
  return sum;
}

} // namespace stow::slow
