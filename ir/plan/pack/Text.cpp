#include "ir/plan/pack/Text.h"
#include "runtime/base/Error.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <limits>

namespace stow::pack {

namespace {

enum Column { Id, Lower, Upper, Size, Alignment, Offset, Persistent, SameAs, InsideOf, Hint };
constexpr size_t columnCount = Hint + 1;
constexpr std::array<std::string_view, columnCount> columnNames = {
    "id",     "lower",      "upper",   "size",   "alignment",
    "offset", "persistent", "same_as", "inside", "hint"};

/// A field of the current line and the column (from 1) at which it starts.
struct Field {
  std::string_view text;
  size_t column;
};

std::string_view trim(std::string_view text, size_t &column) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
    ++column;
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

class Parser {
public:
  Parser(std::string_view text, const std::string &fileName) : text(text), fileName(fileName) {
    constexpr std::string_view byteOrderMark = "\xef\xbb\xbf";
    if (text.substr(0, byteOrderMark.size()) == byteOrderMark)
      this->text.remove_prefix(byteOrderMark.size());
  }

  Problem run() {
    std::vector<Field> fields;
    while (nextLine(fields)) {
      if (columns.empty())
        readHeader(fields);
      else
        readBuffer(fields);
    }
    if (columns.empty()) {
      line = std::max<size_t>(line, 1);
      fail(1, "no header; expected a line such as 'id,lower,upper,size'");
    }
    resolveNames();
    std::vector<std::string> findings = check(problem);
    if (!findings.empty())
      throw Error::badInput(fileName + ": " + findings.front());
    return std::move(problem);
  }

private:
  /// A name that is resolved once all buffers are known.
  struct Link {
    BufferId buffer;
    std::string_view target;
    std::optional<Bytes> offset; ///< set for `inside`
    size_t line, column;
  };

  [[noreturn]] void fail(size_t column, const std::string &message) const {
    failAt(line, column, message);
  }

  [[noreturn]] void failAt(size_t line, size_t column, const std::string &message) const {
    throw Error::badInput(absl::StrCat(fileName, ":", line, ":", column, ": ", message));
  }

  /// Splits the next line that is neither blank nor a comment; false at the end of the text.
  bool nextLine(std::vector<Field> &fields) {
    while (position < text.size()) {
      const size_t end = std::min(text.find('\n', position), text.size());
      std::string_view content = text.substr(position, end - position);
      position = end + 1;
      ++line;
      if (!content.empty() && content.back() == '\r')
        content.remove_suffix(1);
      if (content.find_first_not_of(" \t") == std::string_view::npos || content.front() == '#')
        continue;
      fields.clear();
      for (size_t start = 0; start <= content.size();)
        fields.push_back(nextField(content, start));
      return true;
    }
    return false;
  }

  /// The field of `content` at `start`, which moves behind the comma that follows.
  Field nextField(std::string_view content, size_t &start) {
    const size_t quote = content.find_first_not_of(" \t", start);
    if (quote != std::string_view::npos && content[quote] == '"')
      return quotedField(content, quote, start);
    const size_t comma = std::min(content.find(',', start), content.size());
    size_t column = start + 1;
    const std::string_view field = trim(content.substr(start, comma - start), column);
    start = comma + 1;
    return {field, column};
  }

  /// A field in quotes, in which commas mean nothing and "" stands for one quote.
  Field quotedField(std::string_view content, size_t quote, size_t &start) {
    std::string plain;
    size_t at = quote + 1;
    for (;; ++at) {
      if (at >= content.size())
        fail(quote + 1, "the quote is not closed on this line");
      if (content[at] != '"')
        plain += content[at];
      else if (at + 1 < content.size() && content[at + 1] == '"')
        plain += content[at++];
      else
        break;
    }
    const size_t next = std::min(content.find_first_not_of(" \t", at + 1), content.size());
    if (next < content.size() && content[next] != ',')
      fail(next + 1, "expected a comma after the closing quote");
    start = next + 1;
    return {unquoted.emplace_back(std::move(plain)), quote + 1};
  }

  void readHeader(const std::vector<Field> &fields) {
    for (const Field &field : fields) {
      std::string_view name = field.text;
      if (name == "start" || name == "begin")
        name = "lower";
      if (name == "buffer" || name == "buffer_id")
        name = "id";
      if (name == "end") {
        name = "upper";
        upperIsInclusive = true;
      }
      auto found = std::find(columnNames.begin(), columnNames.end(), name);
      if (found == columnNames.end())
        fail(field.column, "unknown column '" + std::string(field.text) +
                               "'; expected id, lower, upper, size, alignment, offset, "
                               "persistent, same_as or inside");
      const auto column = static_cast<Column>(found - columnNames.begin());
      if (std::find(columns.begin(), columns.end(), column) != columns.end())
        fail(field.column, "column '" + std::string(name) + "' is given twice");
      columns.push_back(column);
    }
    for (Column needed : {Id, Lower, Upper, Size})
      if (std::find(columns.begin(), columns.end(), needed) == columns.end())
        fail(1, "column '" + std::string(columnNames[needed]) + "' is missing");
  }

  int64_t integer(const Field &field, std::string_view what) const {
    int64_t value = 0;
    const char *end = field.text.data() + field.text.size();
    auto [stop, error] = std::from_chars(field.text.data(), end, value);
    if (error == std::errc::result_out_of_range)
      fail(field.column,
           std::string(what) + " '" + std::string(field.text) + "' does not fit into 64 bits");
    if (error != std::errc() || stop != end)
      fail(field.column,
           std::string(what) + " is '" + std::string(field.text) + "'; expected a decimal integer");
    return value;
  }

  void readBuffer(const std::vector<Field> &fields) {
    if (fields.size() != columns.size())
      fail(1, absl::StrCat("found ", fields.size(), " fields; the header has ", columns.size()));
    if (problem.buffers.size() >= static_cast<size_t>(std::numeric_limits<BufferId>::max()))
      fail(1, "more than 2^31 - 1 buffers");
    const auto id = static_cast<BufferId>(problem.buffers.size());
    Buffer buffer;
    for (size_t i = 0; i < fields.size(); ++i)
      readField(columns[i], fields[i], id, buffer);
    problem.buffers.push_back(std::move(buffer));
  }

  void readField(Column column, const Field &field, BufferId id, Buffer &buffer) {
    if (field.text.empty() && column > Size)
      return;
    switch (column) {
    case Id:
      if (field.text.empty())
        fail(field.column, "the id is empty");
      buffer.name = field.text;
      return;
    case Lower:
      buffer.life.begin = integer(field, "lower");
      return;
    case Upper:
      buffer.life.end = integer(field, "upper");
      if (upperIsInclusive && buffer.life.end == std::numeric_limits<Time>::max())
        fail(field.column, "end '" + std::string(field.text) + "' does not fit into 64 bits");
      buffer.life.end += upperIsInclusive;
      return;
    case Size:
      buffer.size = integer(field, "size");
      return;
    case Alignment:
      buffer.alignment = integer(field, "alignment");
      return;
    case Offset:
      buffer.fixedOffset = integer(field, "offset");
      return;
    case Persistent:
      if (field.text != "0" && field.text != "1")
        fail(field.column, "persistent is '" + std::string(field.text) + "'; expected 0 or 1");
      buffer.persistent = field.text == "1";
      return;
    case SameAs:
      links.push_back({id, field.text, std::nullopt, line, field.column});
      return;
    case InsideOf: {
      const size_t plus = field.text.rfind('+');
      if (plus == std::string_view::npos || plus == 0)
        fail(field.column, "inside is '" + std::string(field.text) + "'; expected name+offset");
      const Field offset{field.text.substr(plus + 1), field.column + plus + 1};
      links.push_back(
          {id, field.text.substr(0, plus), integer(offset, "offset"), line, field.column});
      return;
    }
    case Hint:
      return;
    }
  }

  void resolveNames() {
    if (links.empty())
      return;
    std::vector<std::pair<std::string_view, BufferId>> names;
    for (BufferId id = 0; id < static_cast<BufferId>(problem.buffers.size()); ++id)
      names.push_back({problem.buffers[id].name, id});
    std::sort(names.begin(), names.end());
    for (const Link &link : links) {
      auto found =
          std::lower_bound(names.begin(), names.end(), std::pair(link.target, BufferId(0)));
      if (found == names.end() || found->first != link.target)
        failAt(link.line, link.column, "no buffer is named '" + std::string(link.target) + "'");
      if (link.offset)
        problem.buffers[link.buffer].inside = Inside{found->second, *link.offset};
      else
        problem.buffers[link.buffer].sameAs = found->second;
    }
  }

  std::string_view text;
  const std::string &fileName;
  size_t position = 0;
  size_t line = 0;
  bool upperIsInclusive = false;
  std::vector<Column> columns;
  std::vector<Link> links;
  std::deque<std::string> unquoted; ///< what fields in quotes refer to
  Problem problem;
};

/// `text` as one field: in quotes where it would not be read back otherwise.
std::string asField(const std::string &text) {
  const bool isPlain = text.empty() || (text.find_first_of(",\"") == std::string::npos &&
                                        text.front() != '#' && text.find_first_of(" \t") != 0 &&
                                        text.find_last_of(" \t") != text.size() - 1);
  if (isPlain)
    return text;
  std::string quoted = "\"";
  for (char letter : text)
    quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
}

std::string printWith(const Problem &problem, const Solution *solution) {
  bool alignments = false, offsets = solution != nullptr, persistents = false, sames = false,
       insides = false;
  for (const Buffer &buffer : problem.buffers) {
    alignments |= buffer.alignment != 1;
    offsets |= buffer.fixedOffset.has_value();
    persistents |= buffer.persistent;
    sames |= buffer.sameAs.has_value();
    insides |= buffer.inside.has_value();
  }
  std::string out = "id,lower,upper,size";
  out += alignments ? ",alignment" : "";
  out += persistents ? ",persistent" : "";
  out += sames ? ",same_as" : "";
  out += insides ? ",inside" : "";
  out += offsets ? ",offset\n" : "\n";
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer &buffer = problem.buffers[i];
    absl::StrAppend(&out, asField(buffer.name), ",", buffer.life.begin, ",", buffer.life.end, ",",
                    buffer.size);
    if (alignments)
      absl::StrAppend(&out, ",", buffer.alignment);
    if (persistents)
      out += buffer.persistent ? ",1" : ",0";
    if (sames)
      out += ',' + (buffer.sameAs ? asField(problem.buffers[*buffer.sameAs].name) : "");
    if (insides)
      out += ',' + (buffer.inside
                        ? asField(absl::StrCat(problem.buffers[buffer.inside->container].name, "+",
                                               buffer.inside->offset))
                        : "");
    if (offsets)
      out += ',';
    if (solution)
      absl::StrAppend(&out, solution->offsets[i]);
    else if (buffer.fixedOffset)
      absl::StrAppend(&out, *buffer.fixedOffset);
    out += '\n';
  }
  return out;
}

} // namespace

Problem parse(std::string_view text, const std::string &fileName) {
  return Parser(text, fileName).run();
}

std::string print(const Problem &problem) { return printWith(problem, nullptr); }

std::string print(const Problem &problem, const Solution &solution) {
  return printWith(problem, &solution);
}

} // namespace stow::pack
