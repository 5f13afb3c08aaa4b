// How a step updates its parameters: the text of --optimizer, which an executable carries too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// An optimizer as torch.optim defines it, Lion as its authors do; what each setting means stands in
/// docs/training.md. Settings that an optimizer does not have are zero.
struct OptimizerSpec {
  enum class Kind : uint8_t { Sgd, Adam, AdamW, Rmsprop, Adagrad, Lion, Adafactor };

  Kind kind = Kind::Sgd;
  double learningRate = 0;
  double weightDecay = 0;
  double momentum = 0;            ///< SGD, RMSprop; 0 keeps no state
  bool nesterov = false;          ///< SGD
  double beta1 = 0;               ///< Adam: decay of the first moment; Lion: of the mixture
  double beta2 = 0;               ///< Adam: decay of the second moment; Lion: of the momentum
  double epsilon = 0;             ///< added to the root
  bool amsgrad = false;           ///< Adam
  double alpha = 0;               ///< RMSprop: decay of the second moment
  bool centered = false;          ///< RMSprop
  double rateDecay = 0;           ///< Adagrad: of the learning rate
  double initialSum = 0;          ///< Adagrad: first value of the sums
  double beta2Decay = 0;          ///< Adafactor: exponent of the step in the weight of new moments
  std::optional<double> epsilon1; ///< Adafactor: least root; absent: that of the parameter's type
  double epsilon2 = 0;            ///< Adafactor: least size that a parameter is taken to have
  double threshold = 0; ///< Adafactor: root mean square above which an update is scaled down
  std::string text;     ///< as given, e.g. "adamw:lr=0.001": what plans and checkpoints call it
};

std::string nameOf(OptimizerSpec::Kind kind); ///< "sgd", "adamw", ...

/// Reads "NAME[:SETTING=VALUE,...]"; a switch needs no value. Defaults are PyTorch's, except that
/// sgd's learning rate is 0.01. Throws Error(BadInput) naming the setting, what was expected and
/// what is known.
OptimizerSpec parseOptimizer(const std::string &text);

/// Every optimizer with its settings, for --help.
std::string optimizerHelp();

/// What a group changes for its parameters; the parameters that `pattern` (a glob over names)
/// matches before any earlier group's does are its own.
struct ParameterGroup {
  std::string pattern;
  std::optional<double> weightDecay; ///< absent: the optimizer's
  double rateScale = 1;              ///< of the learning rate, at least 0
};

/// Reads "PATTERN:weight-decay=X,lr-scale=Y". Throws Error(BadInput) naming the setting, what was
/// expected and what is known.
ParameterGroup parseGroup(const std::string &text);

/// The text that parseGroup reads back to the same group.
std::string print(const ParameterGroup &group);

} // namespace stow
