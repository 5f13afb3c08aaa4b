// Tokens of PTX.
#pragma once

#include <string>
#include <vector>

namespace stow::sim {

struct Token {
  enum class Kind { Name, Integer, Float, Double, String, Sign, End };
  Kind kind = Kind::End;
  std::string text;             ///< as written; strings without quotes
  unsigned long long value = 0; ///< of integers; bits of floats
  int line = 0;
};

/// All tokens of `text`, comments dropped, closed by an End. A name may begin with a dot, a percent
/// or a dollar sign and holds dots: `ld.global.b32`, `%tid.x`. Throws PtxError.
std::vector<Token> lexPtx(const std::string &text);

} // namespace stow::sim
