#include "tests/mutations/Edits.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <iomanip>
#include <sstream>

namespace stow::test {

namespace {

/// Draws one edit of `bytes`, which are not empty.
class Draw {
public:
  Draw(std::string_view bytes, std::mt19937_64 &random) : bytes(bytes), random(random) {}

  Edit anyEdit(Content content) {
    if (content == Content::Text && below(3) != 0)
      return textEdit();
    switch (below(content == Content::Binary ? 8 : 7)) {
    case 0:
      return byteAt(static_cast<char>(random()));
    case 1:
      return byteAt("\x00\x01\x7f\x80\xff"[below(5)]);
    case 2: {
      const size_t at = below(bytes.size());
      return {at, 1, std::string(1, static_cast<char>(bytes[at] ^ 1 << below(8)))};
    }
    case 3:
      return {below(bytes.size()), 1 + below(8), ""};
    case 4: // a stretch that may be most of the file
      return {below(bytes.size()), 1 + below(bytes.size()) / (1 + below(16)), ""};
    case 5:
      return {below(bytes.size()), 0, stretch(1 + below(64))};
    case 6:
      return {below(bytes.size()), bytes.size(), ""}; // cut off
    default:
      return number();
    }
  }

private:
  size_t below(size_t limit) { return static_cast<size_t>(random() % limit); }

  Edit byteAt(char byte) { return {below(bytes.size()), 1, std::string(1, byte)}; }

  std::string stretch(size_t most) { return std::string(bytes.substr(below(bytes.size()), most)); }

  Edit number() {
    const uint64_t telling[] = {
        0,     1,          2,          255,        bytes.size(), 1ull << 31,
        ~0ull, 1ull << 63, 1ull << 32, 1ull << 40, random(),     bytes.size() + 1};
    const uint64_t value = telling[below(std::size(telling))];
    const size_t size = size_t{2} << below(3);
    std::string text(size, '\0');
    std::memcpy(text.data(), &value, size);
    return {below(bytes.size()), size, text};
  }

  /// The run of characters of one class around a random place.
  template <typename Holds> std::pair<size_t, size_t> tokenOf(const Holds &holds) {
    size_t begin = below(bytes.size()), tries = 0;
    while (!holds(bytes[begin]) && ++tries < 64)
      begin = below(bytes.size());
    size_t end = begin;
    while (begin > 0 && holds(bytes[begin - 1]))
      --begin;
    while (end < bytes.size() && holds(bytes[end]))
      ++end;
    return {begin, end};
  }

  static bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
  static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  static bool isInLine(char c) { return c != '\n'; }

  Edit textEdit() {
    static constexpr std::array<const char *, 22> numbers = {"0",
                                                             "1",
                                                             "-1",
                                                             "2",
                                                             "3",
                                                             "7",
                                                             "64",
                                                             "255",
                                                             "4294967296",
                                                             "2147483647",
                                                             "-2147483648",
                                                             "9223372036854775807",
                                                             "-9223372036854775808",
                                                             "18446744073709551616",
                                                             "1099511627776",
                                                             "0.5",
                                                             "1e308",
                                                             "1e-320",
                                                             "-0",
                                                             "1e999",
                                                             "nan",
                                                             "inf"};
    auto replace = [&](std::pair<size_t, size_t> token, std::string by) {
      return Edit{token.first, token.second - token.first, std::move(by)};
    };
    switch (below(6)) {
    case 0:
    case 1:
      return replace(tokenOf(isDigit), numbers[below(numbers.size())]);
    case 2: {
      const auto [begin, end] = tokenOf(isWord);
      return replace(tokenOf(isWord), std::string(bytes.substr(begin, end - begin)));
    }
    case 3: { // a line again, elsewhere
      const auto [begin, end] = tokenOf(isInLine);
      return {tokenOf(isInLine).first, 0, std::string(bytes.substr(begin, end - begin)) + "\n"};
    }
    case 4:
      return replace(tokenOf(isInLine), "");
    default:
      return {below(bytes.size()), below(2), std::string(1, "{}[]()<>\",:;#%@=-?\n"[below(19)])};
    }
  }

  std::string_view bytes;
  std::mt19937_64 &random;
};

void applyTo(std::string &bytes, const Edit &edit) {
  const size_t at = std::min(edit.at, bytes.size());
  bytes.replace(at, edit.removed, edit.inserted);
}

/// In quotes, at most 40 bytes of it.
std::string printed(std::string_view bytes) {
  std::string text = "\"";
  for (char byte : bytes.substr(0, 40)) {
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(byte));
    const bool isPlain = byte >= ' ' && byte < 127 && byte != '"' && byte != '\\';
    text += isPlain ? std::string(1, byte) : code;
  }
  return text + (bytes.size() > 40 ? "\"..." : "\"");
}

/// Edits that do a part of what `edit` does.
std::vector<Edit> smaller(const Edit &edit) {
  std::vector<Edit> list;
  const size_t half = edit.inserted.size() / 2;
  if (!edit.inserted.empty())
    for (const std::string &text : {std::string(), edit.inserted.substr(0, half),
                                    edit.inserted.substr(half), edit.inserted.substr(1)})
      if (text.size() < edit.inserted.size())
        list.push_back({edit.at, edit.removed, text});
  for (size_t removed :
       {size_t{0}, edit.removed / 2, edit.removed - std::min<size_t>(edit.removed, 1)})
    if (removed < edit.removed)
      list.push_back({edit.at, removed, edit.inserted});
  return list;
}

} // namespace

std::vector<Edit> drawEdits(std::string_view bytes, Content content, std::mt19937_64 &random) {
  std::vector<Edit> edits;
  std::string current(bytes);
  // Half of the files have one edit: what two of them break is seldom read any further.
  size_t count = 1;
  while (count < 4 && random() % 2 == 1)
    ++count;
  for (; count > 0 && !current.empty(); --count) {
    Edit edit = Draw(current, random).anyEdit(content);
    edit.removed = std::min(edit.removed, current.size() - edit.at);
    applyTo(current, edit);
    edits.push_back(std::move(edit));
  }
  return edits;
}

std::string edited(std::string bytes, const std::vector<Edit> &edits) {
  for (const Edit &edit : edits)
    applyTo(bytes, edit);
  return bytes;
}

std::string describe(std::string bytes, const std::vector<Edit> &edits) {
  std::string text;
  for (const Edit &edit : edits) {
    const size_t at = std::min(edit.at, bytes.size());
    text += "    at " + std::to_string(at) + ": " + std::to_string(edit.removed) + " bytes " +
            printed(std::string_view(bytes).substr(at, edit.removed)) + " become " +
            std::to_string(edit.inserted.size()) + " bytes " + printed(edit.inserted) + "\n";
    applyTo(bytes, edit);
  }
  return text;
}

std::vector<Edit> reduce(std::vector<Edit> edits,
                         const std::function<bool(const std::vector<Edit> &)> &fails) {
  for (bool isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (size_t i = edits.size(); i-- > 0;) {
      std::vector<Edit> without = edits;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(without)) {
        edits = std::move(without);
        isSmaller = true;
        continue;
      }
      for (const Edit &part : smaller(edits[i])) {
        std::vector<Edit> shorter = edits;
        shorter[i] = part;
        if (fails(shorter)) {
          edits = std::move(shorter);
          isSmaller = true;
          break;
        }
      }
    }
  }
  return edits;
}

} // namespace stow::test
