#include "compiler/import/GraphSignature.h"

#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <algorithm>

namespace stow::onnx {
namespace {

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\r'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// Takes the line's first word, up to a space.
std::string_view takeWord(std::string_view &line) {
  size_t end = line.find(' ');
  std::string_view word = line.substr(0, end);
  line = end == std::string_view::npos ? std::string_view() : trimmed(line.substr(end));
  return word;
}

GraphSignature::Kind kindOf(std::string_view word) {
  using Kind = GraphSignature::Kind;
  if (word == "PARAMETER")
    return Kind::Parameter;
  if (word == "BUFFER")
    return Kind::Buffer;
  if (word == "CONSTANT_TENSOR")
    return Kind::Constant;
  return word == "USER_INPUT" ? Kind::UserInput : Kind::Other;
}

/// The text between the quotes of target='...'; absent where the line names none.
std::optional<std::string> targetOf(std::string_view line) {
  constexpr std::string_view key = "target='";
  size_t begin = line.find(key);
  if (begin == std::string_view::npos)
    return std::nullopt;
  line.remove_prefix(begin + key.size());
  size_t end = line.find('\'');
  return end == std::string_view::npos ? std::nullopt
                                       : std::optional(std::string(line.substr(0, end)));
}

} // namespace

const GraphSignature::Entry *GraphSignature::find(const std::string &name) const {
  auto found = byTarget.find(name);
  return found == byTarget.end() ? nullptr : &inputs[found->second];
}

bool GraphSignature::hasNextValue(const std::string &name) const {
  return std::any_of(nextValues.begin(), nextValues.end(),
                     [&](const auto &entry) { return entry.second == name; });
}

const GraphSignature::Entry *GraphSignature::findArgument(const std::string &argument) const {
  auto found = byArgument.find(argument);
  return found == byArgument.end() ? nullptr : &inputs[found->second];
}

GraphSignature parseGraphSignature(std::string_view text) {
  GraphSignature signature;
  bool inOutputs = false;
  for (size_t number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty())
      continue;
    if (line.front() == '#') {
      inOutputs = trimmed(line.substr(1)) == "outputs";
      continue;
    }
    const std::string whole(line.substr(0, 120));
    std::string_view name = takeWord(line);
    std::string_view word = takeWord(line);
    auto fail = [&] {
      throw Error::badInput(absl::StrCat("line ", number, " of the graph signature reads '", whole,
                                         "'; expected \"NAME: KIND target='NAME'\""));
    };
    // An output that is None has no name.
    if (name.empty() || name.back() != ':' || word.empty() || (name.size() < 2 && !inOutputs))
      fail();
    name.remove_suffix(1);
    std::optional<std::string> target = targetOf(line);
    if (inOutputs) {
      if (word == "BUFFER_MUTATION" && target)
        signature.mutatedBuffers.insert(*target);
      if (word == "PARAMETER_MUTATION" && target)
        signature.mutatedParameters.insert(*target);
      continue;
    }
    GraphSignature::Entry entry{kindOf(word), std::string(name), target.value_or("")};
    bool needsTarget = entry.kind == GraphSignature::Kind::Parameter ||
                       entry.kind == GraphSignature::Kind::Buffer ||
                       entry.kind == GraphSignature::Kind::Constant;
    size_t index = signature.inputs.size();
    if ((needsTarget && entry.target.empty()) ||
        !signature.byArgument.emplace(entry.argument, index).second ||
        (needsTarget && !signature.byTarget.emplace(entry.target, index).second))
      fail();
    signature.inputs.push_back(std::move(entry));
  }
  return signature;
}

std::map<std::string, std::string> parseNextValues(const std::string &text,
                                                   const GraphSignature &signature) {
  std::map<std::string, std::string> result;
  std::set<std::string> buffers;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string &line : lines) {
    const std::pair<std::string, std::string> entry =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    const GraphSignature::Entry *buffer = signature.find(entry.second);
    if (!buffer || buffer->kind != GraphSignature::Kind::Buffer)
      throw Error::badInput(
          absl::StrCat("its list of next values has the line '", line,
                       "'; expected an output and a buffer of the signature, a tab "
                       "between them"));
    if (!buffers.insert(entry.second).second || !result.insert(entry).second)
      throw Error::badInput(absl::StrCat(
          "its list of next values names the output or the buffer of '", line, "' twice"));
  }
  return result;
}

std::map<std::string, std::string> parseStoredTypes(const std::string &text) {
  std::map<std::string, std::string> result;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string &line : lines) {
    const std::pair<std::string, std::string> entry =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    if (entry.second != "bfloat16" && entry.second != "float16")
      throw Error::badInput(
          absl::StrCat("its list of stored types has the line '", line,
                       "'; expected a name and bfloat16 or float16, a tab between them"));
    result.insert(entry);
  }
  return result;
}

std::map<std::string, std::vector<std::string>> parseOtherNames(const std::string &text) {
  std::map<std::string, std::vector<std::string>> result;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string &line : lines) {
    const std::vector<std::string> names = absl::StrSplit(line, '\t');
    if (names.size() != 2 || names[0].empty() || names[1].empty() || names[0] == names[1])
      throw Error::badInput(absl::StrCat("its list of tied names has the line '", line,
                                         "'; expected two names of a tensor, a tab between them"));
    result[names[0]].push_back(names[1]);
  }
  return result;
}

std::vector<std::string> argumentsOf(std::string_view fxNode) {
  std::vector<std::string> names;
  size_t from = fxNode.find("args = (");
  while (from < fxNode.size() && (from = fxNode.find('%', from)) != std::string_view::npos) {
    size_t end = ++from;
    while (end < fxNode.size() && isNameCharacter(fxNode[end]))
      ++end;
    if (end > from)
      names.emplace_back(fxNode.substr(from, end - from));
    from = end;
  }
  return names;
}

std::string argumentOf(std::string_view fxNode, size_t position) {
  constexpr std::string_view key = "args = (";
  size_t from = fxNode.find(key);
  if (from == std::string_view::npos)
    return "";
  from += key.size();
  int depth = 0;
  for (size_t at = from; at < fxNode.size(); ++at) {
    const char c = fxNode[at];
    depth += c == '[' || c == '(';
    depth -= c == ']' || (c == ')' && depth > 0);
    if (depth > 0 || (c != ',' && c != ')'))
      continue;
    if (position-- == 0) {
      std::string_view text = trimmed(fxNode.substr(from, at - from));
      return text.starts_with('[') || text.starts_with('(') ? "" : std::string(text);
    }
    if (c == ')')
      return "";
    from = at + 1;
  }
  return "";
}

std::string operationOf(std::string_view fxNode) {
  constexpr std::string_view key = "target=torch.ops.";
  size_t begin = fxNode.find(key);
  if (begin == std::string_view::npos)
    return "";
  begin += key.size();
  std::string_view name = fxNode.substr(begin, fxNode.find(']', begin) - begin);
  size_t dot = name.find('.');
  return std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

} // namespace stow::onnx
