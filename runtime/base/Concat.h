// Text from pieces, for messages of the rooms that executables hold. The tools' own rooms use Abseil
// (docs/decisions/2026-11-23-abseil.md).
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace stow {

/// What `concat` writes in decimal digits, the enumerations of C among them. The digits of a floating
/// number are the caller's choice.
template <typename T>
concept WholeNumber = (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) ||
                      (std::is_enum_v<T> && std::convertible_to<T, long long>);

/// Adds every piece to the end of `text`: text, a character or a whole number.
template <typename... Pieces> void append(std::string &text, const Pieces &...pieces) {
  auto add = [&](const auto &piece) {
    using Piece = std::remove_cvref_t<decltype(piece)>;
    if constexpr (WholeNumber<Piece>)
      text += std::to_string(+piece);
    else if constexpr (std::same_as<Piece, char>)
      text += piece;
    else
      text += std::string_view(piece);
  };
  (add(pieces), ...);
}

/// All pieces as one text.
template <typename... Pieces> std::string concat(const Pieces &...pieces) {
  std::string text;
  append(text, pieces...);
  return text;
}

/// The pieces of a range with `separator` between them.
template <typename Range> std::string joined(const Range &range, std::string_view separator) {
  std::string text;
  for (bool isFirst = true; const auto &piece : range) {
    append(text, isFirst ? "" : separator, piece);
    isFirst = false;
  }
  return text;
}

} // namespace stow
