// Text from pieces, for messages of the rooms that executables hold. The tools' own rooms use Abseil
// (docs/decisions/2026-11-23-abseil.md).
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace stow {

/// What `concat` writes in decimal digits, the enumerations of C among them. The digits of a floating
/// number are the caller's choice.
template <typename T>
concept WholeNumber = (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) ||
                      (std::is_enum_v<T> && std::convertible_to<T, int64_t>);

/// A text, a character or a whole number as text, for the length of one call.
class TextPiece {
public:
  TextPiece(std::string_view text) : text(text) {}
  TextPiece(const std::string &text) : text(text) {}
  TextPiece(const char *text) : text(text) {}
  TextPiece(char character) : digits{character}, text(digits, 1) {}
  template <WholeNumber T> TextPiece(T number) {
    if constexpr (std::is_signed_v<decltype(+number)>)
      write(int64_t{+number});
    else
      write(uint64_t{+number});
  }
  template <typename T>
    requires std::floating_point<T> || std::same_as<T, bool>
  TextPiece(T) = delete;
  TextPiece(const TextPiece &) = delete;

  std::string_view view() const { return text; }

private:
  void write(int64_t number);
  void write(uint64_t number);

  char digits[20]; ///< of a number, with its sign; a character
  std::string_view text;
};

void appendPieces(std::string &text, std::initializer_list<TextPiece> pieces);
std::string concatPieces(std::initializer_list<TextPiece> pieces);

/// Adds every piece to the end of `text`.
template <typename... Pieces> void append(std::string &text, const Pieces &...pieces) {
  appendPieces(text, {TextPiece(pieces)...});
}

/// All pieces as one text.
template <typename... Pieces> std::string concat(const Pieces &...pieces) {
  return concatPieces({TextPiece(pieces)...});
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
