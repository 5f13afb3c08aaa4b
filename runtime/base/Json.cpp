#include "runtime/base/Json.h"
#include "runtime/base/Concat.h"

#include <algorithm>
#include <limits>

namespace stow {

namespace {

std::string_view describe(const Json &value) {
  switch (value.type()) {
  case Json::value_t::null:
    return "null";
  case Json::value_t::object:
    return "an object";
  case Json::value_t::array:
    return "an array";
  case Json::value_t::string:
    return "a string";
  case Json::value_t::boolean:
    return "a boolean";
  case Json::value_t::number_integer:
  case Json::value_t::number_unsigned:
  case Json::value_t::number_float:
    return "a number";
  default:
    return "a value of unknown type";
  }
}

[[noreturn]] void failAt(const std::string &path, std::string_view expected, const Json &found) {
  std::string shown(describe(found));
  if (found.is_number())
    shown = "the number " + found.dump();
  throw Error::badInput(path + ": expected " + std::string(expected) + ", found " + shown);
}

/// "graph.json:3:17", given the number of bytes that a parser has read before the fault.
std::string placeOf(std::string_view text, std::string_view document, size_t bytes) {
  const size_t at = std::min(text.size(), bytes ? bytes - 1 : 0);
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  const size_t lineStart = text.rfind('\n', at ? at - 1 : 0);
  const size_t column =
      lineStart == std::string_view::npos || at <= lineStart ? at + 1 : at - lineStart;
  return concat(document, ":", line, ":", column);
}

/// What the parser says behind its own names for the fault and the place.
std::string reasonOf(const Json::exception &error) {
  std::string_view text = error.what();
  for (std::string_view opening : {"] ", "syntax error ", " - "})
    if (size_t at = text.find(opening); at != std::string_view::npos)
      text.remove_prefix(at + opening.size());
  return std::string(text);
}

/// O(length); says nothing of other faults.
void checkDepth(std::string_view text, std::string_view document) {
  constexpr int mostLevels = 64;
  int levels = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++levels > mostLevels)
        throw Error::badInput(concat(placeOf(text, document, i + 1), ": more than ", mostLevels,
                                     " levels of nested JSON"));
    } else if (c == ']' || c == '}') {
      --levels;
    }
  }
}

/// The integer in `value`, or a failure at `path`.
int64_t integerAt(const Json &value, const std::string &path) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    failAt(path, "an integer below 2^63", value);
  if (!value.is_number_integer())
    failAt(path, "an integer", value);
  return value.get<int64_t>();
}

} // namespace

std::string dumpJson(const Json &json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

static bool isRecord(const Json &json) {
  for (const Json &member : json) {
    if (!member.is_structured())
      continue;
    if (member.is_object() || json.is_array())
      return false;
    for (const Json &element : member)
      if (element.is_structured())
        return false;
  }
  return true;
}

static void dumpLines(const Json &json, const std::string &indent, std::string &text) {
  if (!json.is_structured() || isRecord(json)) {
    text += dumpJson(json, -1);
    return;
  }
  const std::string inner = indent + "  ";
  const char *separator = "\n";
  text += json.is_object() ? "{" : "[";
  for (auto item = json.begin(); item != json.end(); ++item) {
    text += separator + inner;
    if (json.is_object())
      text += dumpJson(item.key(), -1) + ": ";
    dumpLines(*item, inner, text);
    separator = ",\n";
  }
  text += "\n" + indent + (json.is_object() ? "}" : "]");
}

std::string dumpJsonLines(const Json &json) {
  std::string text;
  dumpLines(json, "", text);
  return text;
}

Json parseJson(std::string_view text, std::string_view document) {
  checkDepth(text, document);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error &error) {
    throw Error::badInput(placeOf(text, document, error.byte) +
                          ": not valid JSON: " + reasonOf(error));
  } catch (const Json::exception &error) { // a number out of range, of which no place is known
    throw Error::badInput(std::string(document) + ": not valid JSON: " + reasonOf(error));
  }
}

JsonNode::JsonNode(const Json &root, std::string_view document)
    : json(&root), path(document), isRoot(true) {
  if (!root.is_object())
    failAt(path, "an object", root);
}

JsonNode::JsonNode(const Json &value, std::string path, FromPath)
    : json(&value), path(std::move(path)) {}

std::string JsonNode::pathOf(std::string_view key) const {
  return path + (isRoot ? ": " : ".") + std::string(key);
}

bool JsonNode::has(const char *key) const { return json->is_object() && json->contains(key); }

const Json &JsonNode::member(const char *key) const {
  if (!json->is_object())
    failAt(path, "an object", *json);
  auto found = json->find(key);
  if (found == json->end())
    throw Error::badInput(pathOf(key) + ": this key is missing");
  return *found;
}

JsonNode JsonNode::at(const char *key) const { return {member(key), pathOf(key), FromPath{}}; }

JsonNode JsonNode::element(size_t number) const {
  return {(*json)[number], concat(path, "[", number, "]"), FromPath{}};
}

size_t JsonNode::size() const {
  if (!json->is_array())
    failExpected("an array");
  return json->size();
}

int64_t JsonNode::integer(const char *key) const {
  const Json &value = member(key);
  if (value.is_number_integer() && !value.is_number_unsigned())
    return value.get<int64_t>();
  return integerAt(value, pathOf(key));
}

int64_t JsonNode::integerIn(const char *key, int64_t least, int64_t greatest) const {
  return at(key).asIntegerIn(least, greatest);
}

int64_t JsonNode::count(const char *key) const {
  int64_t value = integer(key);
  if (value < 0)
    failAt(pathOf(key), "an integer that is not negative", member(key));
  return value;
}

uint64_t JsonNode::unsignedInteger(const char *key) const {
  const Json &value = member(key);
  if (!value.is_number_unsigned())
    failAt(pathOf(key), "an integer that is not negative", value);
  return value.get<uint64_t>();
}

double JsonNode::number(const char *key) const {
  const Json &value = member(key);
  if (!value.is_number())
    failAt(pathOf(key), "a number", value);
  return value.get<double>();
}

bool JsonNode::boolean(const char *key) const {
  const Json &value = member(key);
  if (!value.is_boolean())
    failAt(pathOf(key), "true or false", value);
  return value.get<bool>();
}

std::string JsonNode::text(const char *key) const {
  const Json &value = member(key);
  if (!value.is_string())
    failAt(pathOf(key), "a string", value);
  return value.get<std::string>();
}

double JsonNode::asNumber() const {
  if (!json->is_number())
    failExpected("a number");
  return json->get<double>();
}

int64_t JsonNode::asIntegerIn(int64_t least, int64_t greatest) const {
  const bool isWhole = json->is_number_integer() &&
                       !(json->is_number_unsigned() &&
                         json->get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()));
  const int64_t value = isWhole ? json->get<int64_t>() : 0;
  if (!isWhole || value < least || value > greatest)
    failExpected(concat("an integer in [", least, ", ", greatest, "]"));
  return value;
}

std::vector<int64_t> JsonNode::asIntegers() const {
  std::vector<int64_t> values;
  const size_t count = size();
  values.reserve(count);
  for (size_t i = 0; i < count; ++i)
    values.push_back(integerAt((*json)[i], concat(path, "[", i, "]")));
  return values;
}

std::string JsonNode::asText() const {
  if (!json->is_string())
    failExpected("a string");
  return json->get<std::string>();
}

std::vector<int64_t> JsonNode::integers(const char *key) const { return at(key).asIntegers(); }

std::vector<int64_t> JsonNode::counts(const char *key) const {
  std::vector<int64_t> values = integers(key);
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0)
      failAt(concat(pathOf(key), "[", i, "]"), "an integer that is not negative", member(key)[i]);
  return values;
}

std::vector<std::string> JsonNode::texts(const char *key) const {
  std::vector<std::string> values;
  forEach(key, [&](const JsonNode &node) { values.push_back(node.asText()); });
  return values;
}

void JsonNode::failExpected(std::string_view expected) const { failAt(path, expected, *json); }

void JsonNode::fail(std::string_view problem) const {
  throw Error::badInput(path + ": " + std::string(problem));
}

void JsonNode::fail(const char *key, std::string_view problem) const {
  throw Error::badInput(pathOf(key) + ": " + std::string(problem));
}

} // namespace stow
