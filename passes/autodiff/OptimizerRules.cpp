#include "passes/autodiff/OptimizerRules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace stow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OptimizerSetting atLeastZero(std::string name, double fallback) {
  return {std::move(name), fallback, 0, kInfinity, /*excludesMost=*/true};
}
/// A share in [0, 1).
OptimizerSetting share(std::string name, double fallback) {
  return {std::move(name), fallback, 0, 1, /*excludesMost=*/true};
}
OptimizerSetting toggle(std::string name) {
  return {std::move(name), 0, 0, 1, /*excludesMost=*/false, /*isSwitch=*/true};
}

std::vector<OptimizerRule> makeRules() {
  const double ofType = std::nan("");
  std::vector<OptimizerRule> rules = {
      {"sgd", 0.01, {share("momentum", 0), toggle("nesterov"), atLeastZero("weight-decay", 0)}},
      {"adam",
       0.001,
       {share("beta1", 0.9), share("beta2", 0.999), atLeastZero("epsilon", 1e-8),
        atLeastZero("weight-decay", 0), toggle("amsgrad")}},
      {"adamw",
       0.001,
       {share("beta1", 0.9), share("beta2", 0.999), atLeastZero("epsilon", 1e-8),
        atLeastZero("weight-decay", 0.01), toggle("amsgrad")}},
      {"rmsprop",
       0.01,
       {share("alpha", 0.99), share("momentum", 0), toggle("centered"),
        atLeastZero("epsilon", 1e-8), atLeastZero("weight-decay", 0)}},
      {"adagrad",
       0.01,
       {atLeastZero("lr-decay", 0), atLeastZero("initial-accumulator", 0),
        atLeastZero("epsilon", 1e-10), atLeastZero("weight-decay", 0)}},
      {"lion", 0.0001, {share("beta1", 0.9), share("beta2", 0.99), atLeastZero("weight-decay", 0)}},
      {"adafactor",
       0.01,
       {{"beta2-decay", -0.8, -kInfinity, 0},
        atLeastZero("epsilon1", ofType),
        atLeastZero("epsilon2", 1e-3),
        {"threshold", 1, 1, kInfinity, /*excludesMost=*/true},
        atLeastZero("weight-decay", 0)}},
  };
  return rules;
}

std::string text(double number) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%g", number);
  return digits;
}

/// "a number in [0, 1)".
std::string intervalOf(const OptimizerSetting &setting) {
  if (setting.isSwitch)
    return "true or false";
  if (setting.most == kInfinity)
    return "a number of at least " + text(setting.least);
  if (setting.least == -kInfinity)
    return "a number of at most " + text(setting.most);
  return "a number in [" + text(setting.least) + ", " + text(setting.most) +
         (setting.excludesMost ? ")" : "]");
}

} // namespace

const std::vector<OptimizerRule> &optimizerRules() {
  static const std::vector<OptimizerRule> rules = makeRules();
  return rules;
}

std::string optimizerNames() {
  std::string names;
  for (const OptimizerRule &rule : optimizerRules())
    names += (names.empty() ? "" : ", ") + rule.name;
  return names;
}

const OptimizerRule *findOptimizer(const std::string &name) {
  auto found = std::ranges::find(optimizerRules(), name, &OptimizerRule::name);
  return found == optimizerRules().end() ? nullptr : &*found;
}

std::string completeSettings(const OptimizerRule &rule, std::map<std::string, double> &settings) {
  for (const auto &[name, value] : settings) {
    auto setting = std::ranges::find(rule.settings, name, &OptimizerSetting::name);
    if (setting == rule.settings.end()) {
      std::string known = "lr";
      for (const OptimizerSetting &candidate : rule.settings)
        known += ", " + candidate.name;
      return "optimizer " + rule.name + " has no setting \"" + name + "\"; known are " + known;
    }
    bool isInside = value >= setting->least &&
                    (setting->excludesMost ? value < setting->most : value <= setting->most) &&
                    std::isfinite(value);
    if (!isInside)
      return "optimizer " + rule.name + ": " + name + ": expected " + intervalOf(*setting) +
             ", found " + text(value);
  }
  for (const OptimizerSetting &setting : rule.settings)
    settings.try_emplace(setting.name, setting.fallback);
  if (rule.name == "sgd" && settings["nesterov"] != 0 && settings["momentum"] == 0)
    return "optimizer sgd: nesterov needs a momentum above 0";
  return "";
}

} // namespace stow
