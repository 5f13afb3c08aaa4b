#include "runtime/report/Pickle.h"

#include "runtime/base/Json.h"

#include <limits>

namespace stow {

namespace {

constexpr int64_t kBatch = 1000;

// Opcodes of protocol 4, by their names in Python's pickle.py.
constexpr char kProto = '\x80', kMark = '(', kStop = '.', kBinInt = 'J', kLong1 = '\x8a',
               kTrue = '\x88', kFalse = '\x89', kShortText = '\x8c', kText = 'X', kMemoize = '\x94',
               kGet = 'h', kLongGet = 'j';

/// `value` with bytes that are not UTF-8 replaced, as JSON output does it.
std::string asUtf8(std::string_view value) {
  const std::string quoted = dumpJson(Json(value), -1);
  return Json::parse(quoted).get<std::string>();
}

} // namespace

PickleWriter::PickleWriter() : out{kProto, 4} {}

void PickleWriter::bytes(uint64_t value, int number) {
  for (int i = 0; i < number; ++i)
    out += static_cast<char>(value >> (8 * i));
}

void PickleWriter::begin(char empty) {
  count();
  out += empty;
  out += kMark;
  open.push_back({empty == ']' ? 'e' : 'u', 0});
}

void PickleWriter::end(char append) {
  out += append;
  open.pop_back();
}

/// A batch ends before its next value, where a dictionary's is a key.
void PickleWriter::count() {
  if (open.empty())
    return;
  Container &container = open.back();
  if (container.values == kBatch) {
    out += container.append;
    out += kMark;
    container.values = 0;
  }
  ++container.values;
}

void PickleWriter::integer(int64_t value) {
  count();
  const bool isShort =
      value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  out += isShort ? kBinInt : kLong1;
  if (!isShort)
    out += 8;
  bytes(static_cast<uint64_t>(value), isShort ? 4 : 8);
}

void PickleWriter::boolean(bool value) {
  count();
  out += value ? kTrue : kFalse;
}

void PickleWriter::text(std::string_view value) {
  count();
  const auto number = static_cast<uint32_t>(known.size());
  auto [place, isNew] = known.emplace(value, number);
  if (!isNew) {
    const bool isShort = place->second < 256;
    out += isShort ? kGet : kLongGet;
    bytes(place->second, isShort ? 1 : 4);
    return;
  }
  const std::string written = asUtf8(value);
  const bool isShort = written.size() < 256;
  out += isShort ? kShortText : kText;
  bytes(written.size(), isShort ? 1 : 4);
  out += written + kMemoize;
}

std::string PickleWriter::finish() {
  out += kStop;
  return std::move(out);
}

} // namespace stow
