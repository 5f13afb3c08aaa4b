#include "runtime/slow/Checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace stow::slow {
namespace {

// Tests what damage looks like: a bit, words or pages that change places, a page of zeros, one that is missing.
TEST(ChecksumTest, NoticesDamage) {
  std::vector<char> bytes(4 * 4096);
  uint32_t word = 7;
  for (char &byte : bytes)
    byte = static_cast<char>((word = word * 1664525 + 1013904223) >> 24);
  const uint64_t whole = checksumOf(bytes);
  EXPECT_EQ(checksumOf(bytes), whole);
  auto damaged = [&](auto damage) {
    std::vector<char> copy = bytes;
    damage(copy);
    return checksumOf(copy);
  };
  for (size_t at = 0; at < bytes.size(); at += 509)
    EXPECT_NE(damaged([&](auto &b) { b[at] ^= 1; }), whole) << at;
  EXPECT_NE(damaged([](auto &b) { std::swap_ranges(b.begin(), b.begin() + 8, b.begin() + 8); }),
            whole);
  EXPECT_NE(damaged([](auto &b) { std::swap_ranges(b.begin(), b.begin() + 64, b.begin() + 64); }),
            whole);
  EXPECT_NE(damaged([](auto &b) { std::swap_ranges(b.begin(), b.begin() + 4096, b.end() - 4096); }),
            whole);
  EXPECT_NE(damaged([](auto &b) { std::fill_n(b.begin() + 4096, 4096, char{}); }), whole);
  EXPECT_NE(damaged([](auto &b) { b.resize(3 * 4096); }), whole);
  EXPECT_NE(checksumOf(std::vector<char>(4096)), checksumOf(std::vector<char>(8192)));
}

} // namespace
} // namespace stow::slow
