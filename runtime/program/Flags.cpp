#include "runtime/program/Flags.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stow {

namespace {

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

template <typename Number>
Number parseNumber(const std::string &flag, const std::string &text, const char *expected) {
  Number number = {};
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end)
    throw Error::badInput("--" + flag + ": expected " + expected + ", found '" + text + "'");
  return number;
}

} // namespace

std::string nearest(std::string_view word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = word.size() / 3 + 2;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(word, candidate);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

void Flags::value(const std::string &name, const std::string &valueName, const std::string &help,
                  Store store) {
  flags.push_back({name, valueName, help, Value::Required, std::move(store)});
}

void Flags::optionalValue(const std::string &name, const std::string &valueName,
                          const std::string &help, Store store) {
  flags.push_back({name, valueName, help, Value::Optional, std::move(store)});
}

void Flags::flag(const std::string &name, const std::string &help, std::function<void()> store) {
  flags.push_back({name, "", help, Value::None, [store](const std::string &) { store(); }});
}

const Flags::Flag &Flags::find(const std::string &name) const {
  std::vector<std::string> names;
  for (const Flag &flag : flags) {
    if (flag.name == name)
      return flag;
    names.push_back(flag.name);
  }
  std::string near = nearest(name, names);
  throw Error::badInput("unknown flag --" + name +
                        (near.empty() ? "; --help lists all" : "; did you mean --" + near + "?"));
}

bool Flags::takesNextWord(const std::string &argument) const {
  return std::ranges::any_of(flags, [&](const Flag &flag) {
    return flag.value == Value::Required && argument == "--" + flag.name;
  });
}

void Flags::parse(const std::vector<std::string> &arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() == 2)
      throw Error::badInput("unexpected word '" + argument + "'; options start with --");
    size_t equals = argument.find('=');
    const Flag &flag = find(argument.substr(2, equals == std::string::npos ? equals : equals - 2));
    if (equals != std::string::npos) {
      if (flag.value == Value::None)
        throw Error::badInput("--" + flag.name + " takes no value");
      std::string text = argument.substr(equals + 1);
      if (text.empty())
        throw Error::badInput("--" + flag.name + "= needs a value: --" + flag.name + "=" +
                              flag.valueName);
      flag.store(text);
    } else if (flag.value != Value::Required) {
      flag.store("");
    } else {
      if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))
        throw Error::badInput("--" + flag.name + " needs a value: --" + flag.name + "=" +
                              flag.valueName);
      flag.store(arguments[++i]);
    }
  }
}

std::string Flags::help() const {
  auto left = [](const Flag &flag) {
    std::string text = "  --" + flag.name;
    if (flag.value == Value::Required)
      text += "=" + flag.valueName;
    if (flag.value == Value::Optional)
      text += "[=" + flag.valueName + "]";
    return text;
  };
  size_t width = 0;
  for (const Flag &flag : flags)
    width = std::max(width, left(flag).size());
  std::string out;
  for (const Flag &flag : flags) {
    std::string text = left(flag);
    out += text + std::string(width + 2 - text.size(), ' ') + flag.help + "\n";
  }
  return out;
}

int64_t parseCount(const std::string &flag, const std::string &text, int64_t least,
                   std::optional<int64_t> most) {
  std::string expected =
      most ? "a whole number from " + std::to_string(least) + " to " + std::to_string(*most)
           : "a whole number of at least " + std::to_string(least);
  auto number = parseNumber<int64_t>(flag, text, expected.c_str());
  if (number < least || (most && number > *most))
    throw Error::badInput("--" + flag + ": expected " + expected + ", found " + text);
  return number;
}

uint64_t parseSeed(const std::string &flag, const std::string &text) {
  return parseNumber<uint64_t>(flag, text, "a whole number from 0 to 2^64-1");
}

double parseReal(const std::string &flag, const std::string &text) {
  auto number = parseNumber<double>(flag, text, "a number");
  if (!std::isfinite(number))
    throw Error::badInput("--" + flag + ": expected a finite number, found '" + text + "'");
  return number;
}

double parseRate(const std::string &flag, const std::string &text) {
  double number = parseReal(flag, text);
  if (number < 0)
    throw Error::badInput("--" + flag + ": expected a number of at least 0, found '" + text + "'");
  return number;
}

} // namespace stow
