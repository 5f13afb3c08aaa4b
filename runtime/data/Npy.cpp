#include "runtime/data/Npy.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace stow {

namespace {

/// Reads the Python dictionary in a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3,)}
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string &place) : text(text), place(place) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      std::string key = quoted();
      expect(':');
      if (key == "descr")
        type = elementType();
      else if (key == "fortran_order")
        columnMajor = boolean();
      else if (key == "shape")
        shape = tuple();
      else
        fail("the header has the unknown key '" + key + "'");
      if (!accept(',') && peek() != '}')
        fail("expected ',' or '}' in the header");
    }
    if (!type || !columnMajor || !shape)
      fail("the header lacks one of descr, fortran_order, shape");
    if (*columnMajor && shape->size() > 1)
      fail("the array is in column-major (Fortran) order; save numpy.ascontiguousarray of it");
    return {*type, *shape, 0};
  }

private:
  [[noreturn]] void fail(const std::string &problem) const {
    throw Error::badInput(place + ": " + problem);
  }

  char peek() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
    return at < text.size() ? text[at] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || at >= text.size())
      return false;
    ++at;
    return true;
  }

  void expect(char c) {
    if (!accept(c))
      fail(concat("expected '", c, "' at byte ", at, " of the header"));
  }

  std::string quoted() {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      fail(concat("expected a quoted name at byte ", at,
                  " of the header (structured arrays are not supported)"));
    size_t end = text.find(quote, at + 1);
    if (end == std::string_view::npos)
      fail("the header has an unfinished string");
    std::string value(text.substr(at + 1, end - at - 1));
    at = end + 1;
    return value;
  }

  bool boolean() {
    peek();
    for (bool value : {false, true}) {
      std::string_view word = value ? "True" : "False";
      if (text.substr(at).starts_with(word)) {
        at += word.size();
        return value;
      }
    }
    fail("expected True or False as fortran_order");
  }

  Shape tuple() {
    Shape dims;
    expect('(');
    while (!accept(')')) {
      dims.push_back(dimension());
      accept('L'); // written by Python 2
      if (!accept(',') && peek() != ')')
        fail("expected ',' or ')' in the shape");
    }
    return dims;
  }

  int64_t dimension() {
    if (!std::isdigit(static_cast<unsigned char>(peek())))
      fail(concat("expected a dimension at byte ", at, " of the header"));
    int64_t value = 0;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text[at] - '0', &value))
        fail("a dimension of the shape is too large");
    return value;
  }

  ElementType elementType() {
    std::string descr = quoted();
    using Kind = ElementType::Kind;
    constexpr std::string_view kinds = "fiub";
    constexpr Kind values[] = {Kind::Float, Kind::Signed, Kind::Unsigned, Kind::Boolean};
    size_t kind = descr.size() == 3 ? kinds.find(descr[1]) : std::string_view::npos;
    int bytes = descr.size() == 3 ? descr[2] - '0' : 0;
    bool known = kind != std::string_view::npos &&
                 (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) &&
                 !(values[kind] == Kind::Float && bytes == 1) &&
                 !(values[kind] == Kind::Boolean && bytes != 1) &&
                 std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
    if (!known)
      fail("expected elements of type f2, f4, f8, i1 to i8, u1 to u8 or b1, found '" + descr + "'");
    if (descr[0] == '>' && bytes > 1)
      fail("the elements '" + descr + "' are big-endian; save them as little-endian");
    return {values[kind], bytes};
  }

  std::string_view text;
  const std::string &place;
  size_t at = 0;
  std::optional<ElementType> type;
  std::optional<bool> columnMajor;
  std::optional<Shape> shape;
};

} // namespace

NpyHeader readNpyHeader(std::span<const char> bytes, const std::string &place) {
  auto fail = [&](const std::string &problem) { throw Error::badInput(place + ": " + problem); };
  constexpr std::string_view magic("\x93NUMPY", 6);
  if (bytes.size() < 10 || std::string_view(bytes.data(), 6) != magic)
    fail("this is not a NumPy array: it does not start with \\x93NUMPY");
  int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    fail(concat("expected format version 1, 2 or 3, found ", version));
  size_t start = version == 1 ? 10 : 12;
  uint32_t length = 0;
  if (bytes.size() >= start)
    std::memcpy(&length, bytes.data() + 8, start - 8);
  if (bytes.size() < start || length > bytes.size() - start)
    fail(concat("the header of ", length, " bytes ends beyond the file"));
  NpyHeader header = HeaderParser(std::string_view(bytes.data() + start, length), place).parse();
  header.headerBytes = start + length;

  int64_t expected = header.type.bytes;
  for (int64_t dim : header.shape)
    if (__builtin_mul_overflow(expected, dim, &expected))
      fail("the shape is too large");
  size_t found = bytes.size() - header.headerBytes;
  if (static_cast<uint64_t>(expected) != found)
    fail(concat("expected ", expected, " bytes of elements, found ", found));
  return header;
}

} // namespace stow
