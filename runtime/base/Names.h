// Names that people type: which of the known ones is meant, and what to say where none is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// Where among `known` the name is that `text` spells, in capitals or small letters and whatever its parts are
/// joined by: "AdamW" is adamw, "cross_entropy" cross-entropy. Absent: none.
std::optional<size_t> findName(std::string_view text, const std::vector<std::string> &known);

/// The same; of none throws Error(BadInput): unknown `what` "text"[ for `flag`], the known ones and the nearest.
size_t oneOf(std::string_view text, const std::vector<std::string> &known, std::string_view what,
             std::string_view flag = "");

/// "; did you mean b?" where a known name is near, else nothing.
std::string didYouMean(std::string_view text, const std::vector<std::string> &known);

/// How an error about `text` ends: "; known are a, b", and where one is near "; did you mean b?".
std::string knownNames(std::string_view text, const std::vector<std::string> &known);

/// The candidate that `word` is a misspelling, the beginning or a part of, or empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

} // namespace stow
