// Which loss a step minimizes: the text of --loss, which an executable carries too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stow {

/// A loss as torch.nn.functional defines it; what each setting means stands in docs/training.md.
struct LossSpec {
  enum class Kind : uint8_t {
    CrossEntropy,
    NegativeLogLikelihood,
    BinaryCrossEntropy, ///< of logits
    KullbackLeibler,
    SquaredError,
    AbsoluteError,
    SmoothL1,
    Huber,
    Output, ///< the model computes it
  };
  enum class Reduction : uint8_t { Mean, Sum, BatchMean };

  Kind kind = Kind::CrossEntropy;
  Reduction reduction = Reduction::Mean;
  bool hasReduction = false;  ///< the text names one
  int64_t ignoreIndex = -100; ///< classes that do not count
  int64_t classAxis = 1;      ///< dimension of the output; negative ones count from the end
  double labelSmoothing = 0;  ///< in [0, 1]
  bool probabilities = false; ///< cross-entropy: targets are a distribution over the classes
  std::vector<double> weight; ///< per class; empty: 1
  std::vector<double> positiveWeight; ///< bce: per last dimension, or one; empty: 1
  double beta = 1;                    ///< smooth-l1: beta; huber: delta
  bool logTarget = false;             ///< kl-div: targets are logarithms
  std::string output;                 ///< Kind::Output: the model's output

  /// True when targets are classes, not values.
  bool readsClasses() const {
    return (kind == Kind::CrossEntropy && !probabilities) || kind == Kind::NegativeLogLikelihood;
  }
};

/// What the model's output goes through in evaluation that the loss applies itself in training.
enum class OutputActivation : uint8_t { None, Softmax, Sigmoid };

std::string nameOf(OutputActivation activation); ///< "", "softmax", "sigmoid"
OutputActivation parseOutputActivation(const std::string &name);

/// "cross-entropy", "nll", ...; "output" for the model's own.
std::string nameOf(LossSpec::Kind kind);
std::string nameOf(LossSpec::Reduction reduction); ///< "mean", "sum", "batchmean"

/// Reads the numbers of a file that a setting names. Throws Error(BadInput).
using ReadNumbers = std::function<std::vector<double>(const std::string &path)>;

/// Reads "NAME[:SETTING=VALUE,...]", lists as "[1,2,3]". Other values of list settings are files
/// for `readNumbers`, an error without one. Throws Error(BadInput) naming the setting, what was
/// expected and what is known.
LossSpec parseLoss(const std::string &text, const ReadNumbers &readNumbers = nullptr);

/// The text that parseLoss reads back to the same loss: settings that differ from their defaults.
std::string print(const LossSpec &loss);

/// The same for people: long lists only by their length.
std::string describe(const LossSpec &loss);

/// Every loss with its settings, one per line, for --help.
std::string lossHelp();

} // namespace stow
