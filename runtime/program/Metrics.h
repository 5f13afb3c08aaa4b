// Loss and accuracy of a model's outputs, computed on the host in double precision.
//
// The evaluation graph always runs whole batches. Its own loss would count the rows that pad the
// last one, so results come from the outputs of the real rows instead.
#pragma once

#include "runtime/base/Layout.h"
#include "runtime/format/Loss.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stow {

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

/// The loss is a mean as training's: over samples and positions by the weight of their classes, or
/// over all values. Losses that training sums are means here, so that sizes compare; only that of
/// `kl-div:reduction=batchmean` is a sum per sample.
struct Metrics {
  int64_t rows = 0;    ///< samples
  int64_t targets = 0; ///< predictions counted: without ignored ones; without classes, values
  int64_t correct = 0;
  double lossSum = 0;
  double weightSum = 0; ///< what the mean divides by
  bool hasAccuracy = false;

  double loss() const { return weightSum > 0 ? lossSum / weightSum : 0; }
  double accuracy() const {
    return targets > 0 ? static_cast<double>(correct) / static_cast<double>(targets) : 0;
  }

  /// Adds one sample with a class per position. On a tie the first class is the prediction.
  void addClassified(const LossSpec &loss, const ClassLayout &layout,
                     std::span<const double> scores, std::span<const int64_t> labels);
  /// Adds one sample with a distribution over the classes per position, laid out as the scores; the
  /// prediction is correct where it is the most probable class.
  void addDistributed(const LossSpec &loss, const ClassLayout &layout,
                      std::span<const double> scores, std::span<const double> wanted);
  /// Adds one sample of values. For bce-with-logits a prediction is correct when score and target
  /// lie on one side, 0 and 1/2 being the borders.
  void addValues(const LossSpec &loss, std::span<const double> outputs,
                 std::span<const double> wanted);
  /// Adds a batch whose loss the model has computed.
  void addBatch(double loss, int64_t samples);
};

/// Undoes what the model's output went through and the loss applies itself: probabilities become logits, no smaller than -100 and no larger than 100.
void undoActivation(OutputActivation activation, std::span<double> outputs);

/// "loss 0.0512, accuracy 98.33 % (354 of 360)".
std::string describe(const Metrics &metrics);

} // namespace stow
