// Command lines of all programs: commands, flags and words, their help and their errors.
//
// CLI11 takes the words apart. What this adds: nothing is stored before all words are understood, so
// that --help answers beside any mistake, and errors that say what to type instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace stow {

/// A program, or one of its commands. A default stands where the value is used, never here.
class CommandLine {
public:
  using Store = std::function<void(const std::string &)>;

  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine &) = delete;
  CommandLine &operator=(const CommandLine &) = delete;

  /// A command of this program, by its first word. The result lives as long as this.
  CommandLine &command(const std::string &name);

  /// --name=VALUE or --name VALUE; "name,n" takes -n VALUE as well. `store` gets each in turn: of
  /// several the last one counts, unless it collects them.
  void value(const std::string &name, const std::string &valueName, const std::string &help,
             Store store);
  /// --name, or --name=VALUE; without a value `store` gets an empty string.
  void optionalValue(const std::string &name, const std::string &valueName, const std::string &help,
                     Store store);
  /// --name.
  void flag(const std::string &name, const std::string &help, std::function<void()> store);
  /// Words that are no flags, in their order.
  void words(Store store);

  /// Flags that are not known here but to another program: the error is one's name and `answer`.
  void elsewhere(const std::vector<std::string> &flagNames, const std::string &answer);

  /// The flags in the order of their declaration: "--epochs".
  std::vector<std::string> flagNames() const;
  /// Whether the flag was among the words.
  bool isGiven(const std::string &flagName) const;

  /// What was asked for, beside what was stored.
  struct Request {
    std::string command;    ///< its name; empty: none was given
    bool wantsHelp = false; ///< --help or -h
  };

  /// Takes `arguments` (without the program's name) apart and stores what they say; nothing is
  /// stored where they ask for help. Throws Error(BadInput) for unknown flags and commands (with
  /// the nearest known one), missing and superfluous values, and words where none are taken.
  Request parse(const std::vector<std::string> &arguments);

  /// One line per flag, indented by two.
  std::string help() const;

private:
  struct Parser;
  explicit CommandLine(CLI::App &app);

  std::unique_ptr<Parser> parser;
};

/// Values of flags. Throw Error(BadInput) naming flag, text and what was expected.
int64_t parseCount(const std::string &flag, const std::string &text, int64_t least,
                   std::optional<int64_t> most = std::nullopt);
uint64_t parseSeed(const std::string &flag, const std::string &text);
double parseReal(const std::string &flag, const std::string &text);
/// A finite number of at least 0: learning rates and factors of them.
double parseRate(const std::string &flag, const std::string &text);

} // namespace stow
