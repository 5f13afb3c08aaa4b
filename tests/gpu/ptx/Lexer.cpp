#include "tests/gpu/ptx/Lexer.h"

#include "runtime/base/Concat.h"
#include "tests/gpu/ptx/Module.h"

#include <bit>
#include <cctype>
#include <cstdlib>

namespace stow::sim {
namespace {

bool startsName(char c) { return isalpha(c) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool insideName(char c) { return isalnum(c) || c == '_' || c == '$' || c == '.'; }

class Lexer {
public:
  explicit Lexer(const std::string &text) : text(text) {}

  std::vector<Token> run() {
    for (skipBlank(); at < text.size(); skipBlank())
      tokens.push_back(next());
    tokens.push_back({Token::Kind::End, "end of file", 0, line});
    return std::move(tokens);
  }

private:
  char look(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void skipBlank() {
    for (; at < text.size(); ++at) {
      if (look() == '\n')
        ++line;
      else if (look() == '/' && look(1) == '/') {
        while (look(1) != '\n' && at + 1 < text.size())
          ++at;
      } else if (look() == '/' && look(1) == '*') {
        for (at += 2; at < text.size() && !(look() == '*' && look(1) == '/'); ++at)
          line += look() == '\n';
        ++at;
      } else if (!isspace(static_cast<unsigned char>(look())) && look() != '\0')
        return;
    }
  }

  Token next() {
    char c = look();
    if (isdigit(c))
      return number();
    if (startsName(c))
      return name();
    if (c == '"')
      return string();
    ++at;
    return {Token::Kind::Sign, std::string(1, c), 0, line};
  }

  Token name() {
    size_t begin = at++;
    while (true)
      if (insideName(look()))
        ++at;
      else if (look() == ':' && look(1) == ':' && insideName(look(2))) // .L2::128B
        at += 2;
      else
        break;
    return {Token::Kind::Name, text.substr(begin, at - begin), 0, line};
  }

  Token string() {
    size_t begin = ++at;
    while (at < text.size() && look() != '"')
      ++at;
    return {Token::Kind::String, text.substr(begin, at++ - begin), 0, line};
  }

  Token number() {
    size_t begin = at;
    char second = look(1);
    if (look() == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D'))
      return hexFloat(tolower(second) == 'f');
    bool isFloat = false;
    if (look() == '0' && (second == 'x' || second == 'X' || second == 'b' || second == 'B'))
      for (at += 2; isxdigit(look());)
        ++at;
    else
      while (isdigit(look()) || look() == '.' || ((look() == 'e' || look() == 'E') && isFloat)) {
        isFloat |= look() == '.';
        if ((look() == 'e' || look() == 'E') && (look(1) == '-' || look(1) == '+'))
          ++at;
        ++at;
      }
    std::string digits = text.substr(begin, at - begin);
    if (isFloat)
      return {Token::Kind::Double, digits, std::bit_cast<uint64_t>(strtod(digits.c_str(), nullptr)),
              line};
    bool binary = digits.size() > 1 && tolower(digits[1]) == 'b';
    unsigned long long value = strtoull(digits.c_str() + (binary ? 2 : 0), nullptr, binary ? 2 : 0);
    if (look() == 'U')
      ++at;
    return {Token::Kind::Integer, digits, value, line};
  }

  Token hexFloat(bool single) {
    size_t begin = at, digits = single ? 8 : 16;
    at += 2;
    while (isxdigit(look()) && at - begin < 2 + digits)
      ++at;
    std::string all = text.substr(begin, at - begin);
    if (all.size() != 2 + digits)
      throw PtxError(concat("PTX line ", line, ": ", all, " has not ", digits, " digits"));
    return {single ? Token::Kind::Float : Token::Kind::Double, all,
            strtoull(all.c_str() + 2, nullptr, 16), line};
  }

  const std::string &text;
  size_t at = 0;
  int line = 1;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> lexPtx(const std::string &text) { return Lexer(text).run(); }

} // namespace stow::sim
