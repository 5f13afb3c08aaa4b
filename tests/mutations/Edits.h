// Damage to files: drawn from a seed, applied, told, and made as small as still fails.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace stow::test {

/// `removed` bytes at `at` become `inserted`.
struct Edit {
  size_t at = 0, removed = 0;
  std::string inserted;
};

enum class Content { Text, Binary };

/// One to four edits of `bytes`, each of what the ones before have left. Both kinds of files get random
/// and telling bytes, flipped bits, lost, repeated and cut off stretches; texts get other numbers,
/// words and lines from their own, binary files telling numbers of two to eight bytes.
std::vector<Edit> drawEdits(std::string_view bytes, Content content, std::mt19937_64 &random);

/// The edits in their order. An edit beyond the end is one at the end.
std::string edited(std::string bytes, const std::vector<Edit> &edits);

/// A line for each edit: where it is, what was there and what is there now.
std::string describe(std::string bytes, const std::vector<Edit> &edits);

/// Leaves out and shortens edits as long as `fails` holds for what is left. It holds for `edits`.
std::vector<Edit> reduce(std::vector<Edit> edits,
                         const std::function<bool(const std::vector<Edit> &)> &fails);

} // namespace stow::test
