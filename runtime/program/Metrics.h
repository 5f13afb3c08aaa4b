// Loss and accuracy of a model's outputs, computed on the host in double precision.
//
// The evaluation graph always runs whole batches. Its own loss would count the rows that pad the
// last one, so results come from the outputs of the real rows instead.
#pragma once

#include "runtime/base/Layout.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stow {

/// The loss a program was compiled with: "cross-entropy", "cross-entropy:ignore_index=-1", "mse".
struct LossSpec {
  enum class Kind : uint8_t { CrossEntropy, MeanSquaredError };
  Kind kind = Kind::CrossEntropy;
  int64_t ignoreIndex = -100; ///< targets that do not count
  int64_t classAxis = 1;      ///< dimension of the output; negative ones count from the end
};
LossSpec parseLoss(const std::string &text); ///< throws Error(BadInput)

/// Where the class scores of a sample lie in the model's output. Per sample there are `positions`
/// predictions (1 for plain classification, one per pixel or token otherwise).
struct ClassLayout {
  int64_t classes = 0;
  int64_t positions = 1;
  int64_t classStride = 1;
  int64_t positionStride = 0;

  int64_t rowElements() const { return classes * positions; }
};

/// Derives the layout from the output's shape, [N,C], [N,C,d...], [N,d...,C] or [N*d,C], and the
/// target's, [N,d...]. Where both [N,C,d] and [N,d,C] fit, `classAxis` decides. Absent when the two
/// do not fit together.
std::optional<ClassLayout> classLayout(const Shape &output, const Shape &target,
                                       int64_t classAxis = 1);

struct Metrics {
  int64_t rows = 0;    ///< samples
  int64_t targets = 0; ///< predictions counted: without ignored ones; for mse, values
  int64_t correct = 0;
  double lossSum = 0;
  bool hasAccuracy = false;

  double loss() const { return targets > 0 ? lossSum / static_cast<double>(targets) : 0; }
  double accuracy() const {
    return targets > 0 ? static_cast<double>(correct) / static_cast<double>(targets) : 0;
  }

  /// Adds one sample: -log softmax(scores)[label] per position. On a tie the first class is the
  /// prediction.
  void addClassified(const ClassLayout &layout, std::span<const double> scores,
                     std::span<const int64_t> labels, int64_t ignoreIndex);
  /// Adds one sample: squared differences.
  void addRegression(std::span<const double> outputs, std::span<const double> targets);
};

/// "loss 0.0512, accuracy 98.33 % (354 of 360)".
std::string describe(const Metrics &metrics);

} // namespace stow
