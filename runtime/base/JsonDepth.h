// A guard in front of JSON parsers.
#pragma once

#include "runtime/base/Error.h"

#include <string>
#include <string_view>

namespace stow {

/// Throws Error(BadInput) naming `source` if lists and objects nest deeper than any document of
/// ours: nlohmann's values copy themselves recursively, so such a text would overflow the stack.
/// O(length); says nothing of other faults.
inline void checkJsonDepth(std::string_view json, std::string_view source) {
  constexpr int mostLevels = 64;
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
      if (++levels > mostLevels)
        throw Error::badInput(std::string(source) + ": more than " + std::to_string(mostLevels) +
                              " levels of nested JSON");
    } else if (c == ']' || c == '}') {
      --levels;
    }
  }
}

} // namespace stow
