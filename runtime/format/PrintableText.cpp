#include "runtime/format/PrintableText.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace stow {

namespace {

/// Bytes of UTF-8 that begin a character.
bool begins(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The first `count` characters.
std::string_view head(std::string_view text, size_t count) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (begins(text[at]) && count-- == 0)
      break;
  return text.substr(0, at);
}

} // namespace

size_t displayWidth(std::string_view text) { return std::ranges::count_if(text, begins); }

std::string printableText(std::string_view text, size_t most) {
  // Bytes that are no UTF-8 are replaced, and what turns the direction of writing is taken out.
  std::string valid = Json::parse(dumpJson(Json(text), -1)).get<std::string>();
  std::string shown;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    const auto next = static_cast<unsigned char>(i + 1 < valid.size() ? valid[i + 1] : 0);
    const auto last = static_cast<unsigned char>(i + 2 < valid.size() ? valid[i + 2] : 0);
    const bool isDirection =
        c == 0xe2 &&
        ((next == 0x80 && (last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae))) ||
         (next == 0x81 && last >= 0xa6 && last <= 0xa9));
    const bool isControl = c < 32 || c == 127 || (c == 0xc2 && next >= 0x80 && next < 0xa0);
    shown += isControl || isDirection ? '?' : valid[i];
    i += isDirection ? 2 : isControl && c == 0xc2 ? 1 : 0;
  }
  const size_t width = displayWidth(shown);
  if (width <= most)
    return shown;
  const size_t front = (most - 2) / 2, back = most - 2 - front;
  const std::string_view start = head(shown, front), before = head(shown, width - back);
  return std::string(start) + ".." + shown.substr(before.size());
}

} // namespace stow
