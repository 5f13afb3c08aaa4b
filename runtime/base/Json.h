// Typed access to JSON documents whose errors name the key.
//
// Every file format here that is JSON (plan, program, safetensors header, schedule problem) is read
// through JsonNode, so that a wrong document fails with e.g.
//
//   program: graphs[0].commands[12].operands[1].dtype: expected a string, found a number
//   graph.json:3:17: not valid JSON: unexpected '}'; expected '[', '{', or a literal
#pragma once

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// Keys stay in the order in which they were written, so that output is stable.
using Json = nlohmann::ordered_json;

/// The document as text; `indent` < 0 puts it on one line. Names that are not UTF-8 lose their
/// invalid bytes instead of failing.
std::string dumpJson(const Json &json, int indent);

/// The document as text, an object or array that holds only numbers, words and lists of them on one
/// line: a long list of records has a line per record.
std::string dumpJsonLines(const Json &json);

/// Parses `text`; throws Error(BadInput) with `document`, line and column, also where lists and
/// objects nest deeper than any document of ours: values copy themselves recursively, so such a text
/// would overflow the stack.
Json parseJson(std::string_view text, std::string_view document);

/// A value of a document and its place there. Cheap to copy apart from the path; it must not
/// outlive the document.
class JsonNode {
public:
  /// The root; `document` opens every error message.
  JsonNode(const Json &root, std::string_view document);

  bool has(const char *key) const;
  JsonNode at(const char *key) const;    ///< a required member
  JsonNode element(size_t number) const; ///< of an array
  size_t size() const;                   ///< of an array

  /// Required members by type; out-of-range and fractional numbers are errors.
  int64_t integer(const char *key) const;
  int64_t integerIn(const char *key, int64_t least, int64_t greatest) const;
  int64_t count(const char *key) const; ///< an integer that is not negative
  uint64_t unsignedInteger(const char *key) const;
  double number(const char *key) const;
  bool boolean(const char *key) const;
  std::string text(const char *key) const;

  /// A string member turned into a value by `parse`, whose Error is given the place.
  template <typename Parse> auto parsed(const char *key, Parse parse) const {
    return parsedAt(pathOf(key), text(key), parse);
  }

  /// Whole array members.
  std::vector<int64_t> integers(const char *key) const;
  std::vector<int64_t> counts(const char *key) const; ///< integers that are not negative
  std::vector<std::string> texts(const char *key) const;

  /// The strings of an array member, each turned into a value as `parsed` does it.
  template <typename Parse> auto parsedTexts(const char *key, Parse parse) const {
    std::vector<decltype(parse(std::string()))> values;
    for (const std::string &value : texts(key))
      values.push_back(parsedAt(concat(pathOf(key), "[", values.size(), "]"), value, parse));
    return values;
  }

  /// Calls `visit(JsonNode)` for each element of an array member.
  template <typename Visit> void forEach(const char *key, Visit visit) const {
    const JsonNode array = at(key);
    const size_t size = array.size();
    for (size_t i = 0; i < size; ++i)
      visit(array.element(i));
  }

  /// Calls `visit(key, JsonNode)` for each member of this object, or of an object member.
  template <typename Visit> void forEachMember(Visit visit) const {
    requireObject();
    for (const auto &item : json->items())
      visit(item.key(), JsonNode(item.value(), pathOf(item.key()), FromPath{}));
  }
  template <typename Visit> void forEachMember(const char *key, Visit visit) const {
    at(key).forEachMember(visit);
  }

  const Json &value() const { return *json; }

  /// This node as a number, an integer, an array of integers or a string.
  double asNumber() const;
  int64_t asIntegerIn(int64_t least, int64_t greatest) const;
  std::vector<int64_t> asIntegers() const;
  std::string asText() const;

  /// Throws Error(BadInput) unless this is an object.
  void requireObject() const {
    if (!json->is_object())
      failExpected("an object");
  }

  /// Throws Error(BadInput): "<place>: expected <expected>, found <what is there>".
  [[noreturn]] void failExpected(std::string_view expected) const;
  /// Throws Error(BadInput): "<place>: <problem>".
  [[noreturn]] void fail(std::string_view problem) const;
  /// Throws Error(BadInput): "<place>.<key>: <problem>".
  [[noreturn]] void fail(const char *key, std::string_view problem) const;

private:
  struct FromPath {};
  JsonNode(const Json &value, std::string path, FromPath);

  template <typename Parse>
  static auto parsedAt(const std::string &path, const std::string &value, Parse parse) {
    try {
      return parse(value);
    } catch (const Error &error) {
      throw Error::badInput(path + ": " + error.what());
    }
  }

  std::string pathOf(std::string_view key) const;
  const Json &member(const char *key) const;

  const Json *json;
  std::string path;    ///< "program", "program: graphs[0]"
  bool isRoot = false; ///< the document's name is set apart from the keys by a colon
};

} // namespace stow
