// Command lines: --name=value, --name value, --switch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stow {

/// The flags of one command, with the text that --help prints. A default stands where the value is
/// used, never here.
class Flags {
public:
  using Store = std::function<void(const std::string &)>;

  /// --name=VALUE or --name VALUE.
  void value(const std::string &name, const std::string &valueName, const std::string &help,
             Store store);
  /// --name, or --name=VALUE; without a value `store` gets an empty string.
  void optionalValue(const std::string &name, const std::string &valueName, const std::string &help,
                     Store store);
  /// --name.
  void flag(const std::string &name, const std::string &help, std::function<void()> store);

  /// True when `argument` is a flag whose value is the next word: "--name" that needs a VALUE.
  bool takesNextWord(const std::string &argument) const;

  /// Throws Error(BadInput) for unknown flags (with the nearest known one), missing and superfluous
  /// values and words that are no flags.
  void parse(const std::vector<std::string> &arguments) const;

  /// One line per flag, indented by two.
  std::string help() const;

private:
  enum class Value { None, Optional, Required };
  struct Flag {
    std::string name, valueName, help;
    Value value;
    Store store;
  };
  const Flag &find(const std::string &name) const;

  std::vector<Flag> flags;
};

/// Values of flags. Throw Error(BadInput) naming flag, text and what was expected.
int64_t parseCount(const std::string &flag, const std::string &text, int64_t least,
                   std::optional<int64_t> most = std::nullopt);
uint64_t parseSeed(const std::string &flag, const std::string &text);
double parseReal(const std::string &flag, const std::string &text);
/// A finite number of at least 0: learning rates and factors of them.
double parseRate(const std::string &flag, const std::string &text);

/// The candidate nearest to `word` by edit distance, or empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

} // namespace stow
