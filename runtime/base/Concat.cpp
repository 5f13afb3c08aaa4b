#include "runtime/base/Concat.h"

#include <charconv>

namespace stow {

void TextPiece::write(int64_t number) {
  text = {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

void TextPiece::write(uint64_t number) {
  text = {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

void appendPieces(std::string &text, std::initializer_list<TextPiece> pieces) {
  for (const TextPiece &piece : pieces)
    text += piece.view();
}

std::string concatPieces(std::initializer_list<TextPiece> pieces) {
  std::string text;
  appendPieces(text, pieces);
  return text;
}

} // namespace stow
