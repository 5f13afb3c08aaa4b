#include "runtime/base/CommandLine.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"
#include "runtime/base/Text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace stow {

namespace {

std::string spelled(const CLI::Option &option) { return "--" + option.get_lnames().front(); }

/// One line per flag, in two columns.
class FlagLines : public CLI::Formatter {
public:
  std::string make_help(const CLI::App *app, std::string, CLI::AppFormatMode) const override {
    auto left = [](const CLI::Option *option) {
      const std::string letter =
          option->get_snames().empty() ? "" : "-" + option->get_snames().front() + ", ";
      return "  " + letter + spelled(*option) + option->get_option_text();
    };
    const auto flags = app->get_options([&](const CLI::Option *option) {
      return option->nonpositional() && option != app->get_help_ptr() &&
             option != app->get_version_ptr();
    });
    size_t width = 0;
    for (const CLI::Option *flag : flags)
      width = std::max(width, left(flag).size());
    std::string text;
    for (const CLI::Option *flag : flags) {
      text += left(flag);
      text.resize(text.size() + width + 2 - left(flag).size(), ' ');
      text += flag->get_description() + "\n";
    }
    return text;
  }
};

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

struct CommandLine::Parser {
  struct Flag {
    CLI::Option *option;
    std::string valueName; ///< empty: it takes no value
    Store store;
    bool needsValue() const { return option->get_expected_max() > 0; }

    /// The error for a value that is missing, by the shorter of its spellings.
    Error lacksValue() const {
      const std::string name = option->get_snames().empty() ? spelled(*option) + "="
                                                            : "-" + option->get_snames()[0] + " ";
      return Error::badInput(name.substr(0, name.size() - 1) + " needs a value: " + name +
                             valueName);
    }
  };

  explicit Parser(CLI::App &app) : app(app) {
    app.formatter(std::make_shared<FlagLines>());
    app.allow_extras();
  }

  /// Values are taken as text, each as it comes; conversions are the stores'.
  void add(const std::string &names, const std::string &valueName, int values,
           const std::string &text, const std::string &help, Store store) {
    const size_t comma = names.find(',');
    const std::string letter = comma == std::string::npos ? "" : ",-" + names.substr(comma + 1);
    CLI::Option *option = app.add_option(
        "--" + names.substr(0, comma) + letter, [](const CLI::results_t &) { return true; }, help);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->option_text(text);
    // A value may be missing as far as CLI11 is concerned: the error for it is our own.
    option->expected(0, values);
    flags.push_back({option, valueName, std::move(store)});
  }

  /// CLI11 takes the word after "--name=" for its value.
  void refuseEmptyValues(const std::vector<std::string> &arguments) const {
    for (const Flag &flag : flags)
      if (!flag.valueName.empty() &&
          std::ranges::find(arguments, spelled(*flag.option) + "=") != arguments.end())
        throw Error::badInput(spelled(*flag.option) + "= needs a value: " + spelled(*flag.option) +
                              "=" + flag.valueName);
  }

  [[noreturn]] void refuseCommand(const std::string &word) const {
    std::vector<std::string> names;
    for (const CLI::App *command : app.get_subcommands({}))
      names.push_back(command->get_name());
    const std::string near = nearest(word, names);
    throw Error::badInput(
        "unknown command '" + word + "'; " +
        (near.empty() ? "known are " + joined(names) : "did you mean " + near + "?"));
  }

  /// Throws the error for a word that nothing takes.
  [[noreturn]] void refuse(const std::string &word) const {
    if (word == "--" || (!word.starts_with("-") && commands.empty()))
      throw Error::badInput("unexpected word '" + word + "'; options start with --");
    if (!word.starts_with("-"))
      refuseCommand(word);
    const std::string name = word.substr(0, word.find('='));
    if (const auto other = elsewhere.find(name); other != elsewhere.end())
      throw Error::badInput(name + other->second);
    std::vector<std::string> names;
    for (const Flag &flag : flags)
      names.push_back(spelled(*flag.option));
    const std::string near = nearest(name, names);
    throw Error::badInput("unknown flag " + name +
                          (near.empty() ? "; --help lists all" : "; did you mean " + near + "?"));
  }

  void storeAll() const {
    if (std::vector<std::string> rest = app.remaining(); !rest.empty()) {
      auto flag =
          std::ranges::find_if(rest, [](const std::string &w) { return w.starts_with("-"); });
      refuse(flag == rest.end() ? rest.front() : *flag);
    }
    for (const Flag &flag : flags)
      for (const std::string &value : flag.option->results()) {
        if (value.empty() && flag.needsValue())
          throw flag.lacksValue();
        if (!value.empty() && flag.valueName.empty())
          throw Error::badInput(spelled(*flag.option) + " takes no value");
        flag.store(value);
      }
    if (words)
      for (const std::string &word : words->results())
        storeWord(word);
  }

  std::unique_ptr<CLI::App> program; ///< null for a command: it belongs to its program
  CLI::App &app;
  std::vector<Flag> flags;
  std::map<std::string, std::string> elsewhere; ///< what to say of flags of another program
  CLI::Option *words = nullptr;                 ///< null: none are taken
  Store storeWord;
  std::map<std::string, std::unique_ptr<CommandLine>> commands;
};

CommandLine::CommandLine() {
  auto program = std::make_unique<CLI::App>();
  parser = std::make_unique<Parser>(*program);
  parser->program = std::move(program);
}

CommandLine::CommandLine(CLI::App &app) : parser(std::make_unique<Parser>(app)) {}

CommandLine::~CommandLine() = default;

CommandLine &CommandLine::command(const std::string &name) {
  parser->app.require_subcommand(0, 1);
  auto &made = parser->commands[name];
  made.reset(new CommandLine(*parser->app.add_subcommand(name)));
  return *made;
}

void CommandLine::value(const std::string &name, const std::string &valueName,
                        const std::string &help, Store store) {
  parser->add(name, valueName, 1, "=" + valueName, help, std::move(store));
}

void CommandLine::optionalValue(const std::string &name, const std::string &valueName,
                                const std::string &help, Store store) {
  parser->add(name, valueName, 0, "[=" + valueName + "]", help, std::move(store));
}

void CommandLine::flag(const std::string &name, const std::string &help,
                       std::function<void()> store) {
  parser->add(name, "", 0, "", help, [store = std::move(store)](const std::string &) { store(); });
}

void CommandLine::words(Store store) {
  parser->words = parser->app.add_option("words", [](const CLI::results_t &) { return true; });
  parser->words->expected(0, 1 << 20)->allow_extra_args();
  parser->storeWord = std::move(store);
}

void CommandLine::elsewhere(const std::vector<std::string> &flagNames, const std::string &answer) {
  for (const std::string &name : flagNames)
    parser->elsewhere[name] = answer;
}

std::vector<std::string> CommandLine::flagNames() const {
  std::vector<std::string> names;
  for (const Parser::Flag &flag : parser->flags)
    names.push_back(spelled(*flag.option));
  return names;
}

bool CommandLine::isGiven(const std::string &flagName) const {
  return parser->app.get_option(flagName)->count() > 0;
}

CommandLine::Request CommandLine::parse(const std::vector<std::string> &arguments) {
  Request request;
  try {
    // CLI11 takes words from the back.
    parser->app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp &) {
    request.wantsHelp = true;
  } catch (const CLI::ParseError &error) {
    throw Error::badInput(error.what());
  }
  const Parser *taken = parser.get();
  if (const auto chosen = parser->app.get_subcommands(); !chosen.empty()) {
    request.command = chosen.front()->get_name();
    taken = parser->commands.at(request.command)->parser.get();
    if (!parser->app.remaining().empty() && !request.wantsHelp)
      parser->refuse("--"); // which ends a command's words for CLI11
  }
  if (request.wantsHelp)
    return request;
  taken->refuseEmptyValues(arguments);
  taken->storeAll();
  return request;
}

std::string CommandLine::help() const { return parser->app.help(); }

int64_t parseCount(const std::string &flag, const std::string &text, int64_t least,
                   std::optional<int64_t> most) {
  std::string expected = most ? concat("a whole number from ", least, " to ", *most)
                              : concat("a whole number of at least ", least);
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
