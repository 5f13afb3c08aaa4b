#include "runtime/format/Optimizer.h"

#include "runtime/base/CommandLine.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <ranges>
#include <variant>

namespace stow {
namespace {

using Kind = OptimizerSpec::Kind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Where a setting is kept: a number, one that may be absent, or a switch.
using Member = std::variant<double OptimizerSpec::*, std::optional<double> OptimizerSpec::*,
                            bool OptimizerSpec::*>;

/// One setting of an optimizer and the numbers it may be.
struct Setting {
  const char *name;
  Member member;
  double fallback = 0; ///< of a number that is not absent
  double least = 0, most = kInfinity;
  bool excludesMost = true; ///< the interval is open at `most`
};

struct Rule {
  Kind kind;
  const char *name;
  double learningRate; ///< default
  std::vector<Setting> settings;
};

/// A share in [0, 1).
Setting share(const char *name, double OptimizerSpec::*member, double fallback) {
  return {name, member, fallback, 0, 1};
}

std::vector<Rule> makeRules() {
  using Spec = OptimizerSpec;
  auto decay = [](double fallback) {
    return Setting{"weight-decay", &Spec::weightDecay, fallback};
  };
  auto epsilon = [](double fallback) { return Setting{"epsilon", &Spec::epsilon, fallback}; };
  auto adam = [&](Kind kind, const char *name, double weightDecay) {
    return Rule{kind,
                name,
                0.001,
                {share("beta1", &Spec::beta1, 0.9), share("beta2", &Spec::beta2, 0.999),
                 epsilon(1e-8), decay(weightDecay), Setting{"amsgrad", &Spec::amsgrad}}};
  };
  return {
      {Kind::Sgd,
       "sgd",
       0.01,
       {share("momentum", &Spec::momentum, 0), {"nesterov", &Spec::nesterov}, decay(0)}},
      adam(Kind::Adam, "adam", 0),
      adam(Kind::AdamW, "adamw", 0.01),
      {Kind::Rmsprop,
       "rmsprop",
       0.01,
       {share("alpha", &Spec::alpha, 0.99),
        share("momentum", &Spec::momentum, 0),
        {"centered", &Spec::centered},
        epsilon(1e-8),
        decay(0)}},
      {Kind::Adagrad,
       "adagrad",
       0.01,
       {{"lr-decay", &Spec::rateDecay},
        {"initial-accumulator", &Spec::initialSum},
        epsilon(1e-10),
        decay(0)}},
      {Kind::Lion,
       "lion",
       0.0001,
       {share("beta1", &Spec::beta1, 0.9), share("beta2", &Spec::beta2, 0.99), decay(0)}},
      {Kind::Adafactor,
       "adafactor",
       0.01,
       {{"beta2-decay", &Spec::beta2Decay, -0.8, -kInfinity, 0, /*excludesMost=*/false},
        {"epsilon1", &Spec::epsilon1},
        {"epsilon2", &Spec::epsilon2, 1e-3},
        {"threshold", &Spec::threshold, 1, 1},
        decay(0)}},
  };
}

const std::vector<Rule> &rules() {
  static const std::vector<Rule> all = makeRules();
  return all;
}

template <typename Named> std::vector<std::string> namesOf(const std::vector<Named> &all) {
  std::vector<std::string> names;
  for (const Named &one : all)
    names.emplace_back(one.name);
  return names;
}

bool isSwitch(const Setting &setting) {
  return std::holds_alternative<bool OptimizerSpec::*>(setting.member);
}

std::string shortText(double number) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%g", number);
  return digits;
}

/// "a number in [0, 1)".
std::string intervalOf(const Setting &setting) {
  if (setting.most == kInfinity)
    return "a number of at least " + shortText(setting.least);
  if (setting.least == -kInfinity)
    return "a number of at most " + shortText(setting.most);
  return "a number in [" + shortText(setting.least) + ", " + shortText(setting.most) +
         (setting.excludesMost ? ")" : "]");
}

/// The settings of "key=value,key": a key alone is "true".
std::vector<std::pair<std::string, std::string>> splitSettings(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = part.find('=');
    settings.emplace_back(part.substr(0, equals),
                          equals == std::string::npos ? "true" : part.substr(equals + 1));
    at = end + 1;
  }
  return settings;
}

void apply(OptimizerSpec &spec, const Rule &rule, const Setting &setting,
           const std::string &value) {
  const std::string place = "optimizer " + std::string(rule.name) + ": " + setting.name;
  if (isSwitch(setting)) {
    if (value != "true" && value != "false")
      throw Error::badInput(place + ": expected true or false, found " + value);
    spec.*std::get<bool OptimizerSpec::*>(setting.member) = value == "true";
    return;
  }
  const double number = parseReal("optimizer " + std::string(setting.name), value);
  if (!(number >= setting.least) ||
      !(setting.excludesMost ? number < setting.most : number <= setting.most))
    throw Error::badInput(place + ": expected " + intervalOf(setting) + ", found " +
                          shortText(number));
  if (auto *member = std::get_if<double OptimizerSpec::*>(&setting.member))
    spec.**member = number;
  else
    spec.*std::get<std::optional<double> OptimizerSpec::*>(setting.member) = number;
}

} // namespace

std::string nameOf(OptimizerSpec::Kind kind) {
  return std::ranges::find(rules(), kind, &Rule::kind)->name;
}

OptimizerSpec parseOptimizer(const std::string &text) {
  const size_t colon = text.find(':');
  const Rule *rule = &rules()[oneOf(text.substr(0, colon), namesOf(rules()), "optimizer")];
  const std::string name = rule->name;
  std::vector<std::string> known = namesOf(rule->settings);
  known.insert(known.begin(), "lr");
  OptimizerSpec spec;
  spec.kind = rule->kind;
  spec.text = name;
  spec.learningRate = rule->learningRate;
  for (const Setting &setting : rule->settings)
    if (auto *member = std::get_if<double OptimizerSpec::*>(&setting.member))
      spec.**member = setting.fallback;
  for (const auto &[key, value] :
       splitSettings(colon == std::string::npos ? "" : text.substr(colon + 1))) {
    const std::optional<size_t> found = findName(key, known);
    if (!found)
      throw Error::badInput("optimizer " + name + " has no setting \"" + key + "\"" +
                            knownNames(key, known));
    if (*found == 0)
      spec.learningRate = parseRate("optimizer lr", value);
    else
      apply(spec, *rule, rule->settings[*found - 1], value);
    const bool isAlone = *found > 0 && isSwitch(rule->settings[*found - 1]) && value == "true";
    spec.text += (spec.text == name ? ":" : ",") + known[*found] + (isAlone ? "" : "=" + value);
  }
  if (spec.nesterov && spec.momentum == 0)
    throw Error::badInput("optimizer sgd: nesterov needs a momentum above 0");
  return spec;
}

std::string optimizerHelp() {
  std::string text;
  for (const Rule &rule : rules()) {
    text += std::string(text.empty() ? "" : "; ") + rule.name + "[lr";
    for (const Setting &setting : rule.settings)
      text += ", " + std::string(setting.name);
    text += "]";
  }
  return text;
}

ParameterGroup parseGroup(const std::string &text) {
  ParameterGroup group;
  // Names may hold colons, settings hold none.
  const size_t colon = text.rfind(':');
  group.pattern = text.substr(0, colon);
  auto settings = splitSettings(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (group.pattern.empty() || settings.empty())
    throw Error::badInput("--group=" + text +
                          ": expected PATTERN:weight-decay=X,lr-scale=Y, either or both");
  for (const auto &[key, value] : settings) {
    const std::vector<std::string> known = {"weight-decay", "lr-scale"};
    const std::optional<size_t> setting = findName(key, known);
    if (!setting)
      throw Error::badInput("--group=" + text + " has no setting \"" + key + "\"" +
                            knownNames(key, known));
    const double number = parseRate("group " + known[*setting], value);
    if (*setting == 0)
      group.weightDecay = number;
    else
      group.rateScale = number;
  }
  return group;
}

std::string print(const ParameterGroup &group) {
  auto exact = [](double number) {
    char text[40];
    auto [end, error] = std::to_chars(text, text + sizeof text, number);
    return std::string(text, end);
  };
  return group.pattern + ":lr-scale=" + exact(group.rateScale) +
         (group.weightDecay ? ",weight-decay=" + exact(*group.weightDecay) : "");
}

} // namespace stow
