// The optimizers, their settings and the defaults: PyTorch's, and for Lion its authors'.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stow {

/// One setting of an optimizer and the numbers it may be.
struct OptimizerSetting {
  std::string name;
  double fallback = 0; ///< NaN: depends on the parameter's type
  double least = 0, most = 0;
  bool excludesMost = false; ///< the interval is open at `most`
  bool isSwitch = false;     ///< 0 or 1, in text true or false
};

struct OptimizerRule {
  std::string name;
  double learningRate; ///< default
  std::vector<OptimizerSetting> settings;
};

/// All optimizers, sgd first.
const std::vector<OptimizerRule> &optimizerRules();

/// "sgd, adam, ...".
std::string optimizerNames();

/// The rule of that name, or null.
const OptimizerRule *findOptimizer(const std::string &name);

/// Checks the settings given for an optimizer, adds the defaults of the others to them, and returns
/// "" or what is wrong with one: naming it, what was expected and found, and what is known.
std::string completeSettings(const OptimizerRule &rule, std::map<std::string, double> &settings);

} // namespace stow
