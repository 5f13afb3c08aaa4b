#include "runtime/base/Text.h"
#include "runtime/base/Concat.h"

namespace stow {

std::string shapeText(const Shape &shape) { return concat("[", joined(shape, ","), "]"); }

std::string joined(const std::vector<std::string> &words) { return joined(words, ", "); }

std::string quotedText(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      continue;
    }
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

} // namespace stow
