// A guard in front of JSON parsers.
#pragma once

#include <string_view>

namespace stow {

/// More than any document of ours needs.
constexpr int mostJsonLevels = 64;

/// True if lists and objects nest deeper than `mostJsonLevels`: nlohmann's values copy themselves
/// recursively, so such a text would overflow the stack. O(length); says nothing of other faults.
constexpr bool nestsTooDeep(std::string_view json) {
  int levels = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (inString) {
      if (c == '\\')
        ++i;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++levels > mostJsonLevels)
        return true;
    } else if (c == ']' || c == '}') {
      --levels;
    }
  }
  return false;
}

} // namespace stow
