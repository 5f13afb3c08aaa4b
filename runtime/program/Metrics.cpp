#include "runtime/program/Metrics.h"

#include <cmath>
#include <cstdio>

namespace stow {

namespace {

/// The scores of one position.
class Position {
public:
  Position(const ClassLayout &layout, std::span<const double> scores, int64_t position)
      : first(scores.data() + position * layout.positionStride), layout(layout) {}

  double at(int64_t c) const { return first[c * layout.classStride]; }
  int64_t best() const {
    int64_t best = 0;
    for (int64_t c = 1; c < layout.classes; ++c)
      if (at(c) > at(best))
        best = c;
    return best;
  }

private:
  const double *first;
  const ClassLayout &layout;
};

/// Minus the logarithms of probabilities of classes, which the scores of a position are, or of their softmax.
class Losses {
public:
  Losses(const Position &scores, int64_t classes, bool isLogarithms) : scores(scores) {
    if (isLogarithms)
      return;
    double sum = 0;
    largest = scores.at(scores.best());
    for (int64_t c = 0; c < classes; ++c)
      sum += std::exp(scores.at(c) - largest);
    logSum = std::log(sum);
  }

  double at(int64_t c) const { return logSum - (scores.at(c) - largest); }

private:
  const Position &scores;
  double largest = 0, logSum = 0; // apart: the sum of a huge number and a small one is the huge one
};

double weightOf(const std::vector<double> &weights, size_t i) {
  return weights.empty() ? 1 : weights[i % weights.size()];
}

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

/// The loss of value number `i` of a sample.
double valueLoss(const LossSpec &loss, double x, double wanted, size_t i) {
  double distance = std::fabs(x - wanted);
  switch (loss.kind) {
  case LossSpec::Kind::BinaryCrossEntropy:
    return weightOf(loss.weight, i) *
           ((1 - wanted) * x +
            (1 + (weightOf(loss.positiveWeight, i) - 1) * wanted) * softplus(-x));
  case LossSpec::Kind::KullbackLeibler:
    if (loss.logTarget)
      return std::exp(wanted) * (wanted - x);
    return (wanted > 0 ? wanted * std::log(wanted) : 0) - wanted * x;
  case LossSpec::Kind::AbsoluteError:
    return distance;
  case LossSpec::Kind::SmoothL1:
    return distance < loss.beta ? 0.5 * distance * distance / loss.beta
                                : distance - 0.5 * loss.beta;
  case LossSpec::Kind::Huber:
    return distance < loss.beta ? 0.5 * distance * distance
                                : loss.beta * (distance - 0.5 * loss.beta);
  default:
    return distance * distance;
  }
}

} // namespace

std::optional<ClassLayout> classLayout(const Shape &output, const Shape &target,
                                       int64_t classAxis) {
  if (output.size() < 2 || target.empty() || target[0] <= 0)
    return std::nullopt;
  ClassLayout layout;
  for (size_t i = 1; i < target.size(); ++i)
    layout.positions *= target[i];
  int64_t predictions = target[0] * layout.positions;
  int64_t total = elementCount(output);
  if (predictions <= 0 || total % predictions != 0)
    return std::nullopt;
  layout.classes = total / predictions;
  bool batchFirst = output[0] == target[0];
  auto last = static_cast<int64_t>(output.size()) - 1;
  bool isNamedLast = last > 1 && (classAxis == -1 || classAxis == last);
  if (batchFirst && output[1] == layout.classes && !isNamedLast) { // [N,C] and [N,C,d...]
    layout.classStride = layout.positions;
    layout.positionStride = 1;
    return layout;
  }
  if (output.back() != layout.classes) // neither [N,d...,C] nor [N*d,C]
    return std::nullopt;
  layout.classStride = 1;
  layout.positionStride = layout.classes;
  return layout;
}

void Metrics::addClassified(const LossSpec &loss, const ClassLayout &layout,
                            std::span<const double> scores, std::span<const int64_t> labels) {
  hasAccuracy = true;
  ++rows;
  for (int64_t position = 0; position < layout.positions; ++position) {
    int64_t label = labels[position];
    if (label == loss.ignoreIndex)
      continue;
    Position at(layout, scores, position);
    double weight = weightOf(loss.weight, label);
    Losses losses(at, layout.classes, loss.kind == LossSpec::Kind::NegativeLogLikelihood);
    double sum = weight * losses.at(label) * (1 - loss.labelSmoothing);
    if (loss.labelSmoothing > 0)
      for (int64_t c = 0; c < layout.classes; ++c)
        sum += weightOf(loss.weight, c) * losses.at(c) * loss.labelSmoothing /
               static_cast<double>(layout.classes);
    lossSum += sum;
    weightSum += weight;
    correct += at.best() == label;
    ++targets;
  }
}

void Metrics::addDistributed(const LossSpec &loss, const ClassLayout &layout,
                             std::span<const double> scores, std::span<const double> wanted) {
  hasAccuracy = true;
  ++rows;
  for (int64_t position = 0; position < layout.positions; ++position) {
    Position at(layout, scores, position), target(layout, wanted, position);
    Losses losses(at, layout.classes, /*isLogarithms=*/false);
    for (int64_t c = 0; c < layout.classes; ++c) {
      double share = target.at(c) * (1 - loss.labelSmoothing) +
                     loss.labelSmoothing / static_cast<double>(layout.classes);
      lossSum += weightOf(loss.weight, c) * share * losses.at(c);
    }
    weightSum += 1;
    correct += at.best() == target.best();
    ++targets;
  }
}

void Metrics::addValues(const LossSpec &loss, std::span<const double> outputs,
                        std::span<const double> wanted) {
  hasAccuracy = loss.kind == LossSpec::Kind::BinaryCrossEntropy;
  ++rows;
  for (size_t i = 0; i < outputs.size(); ++i) {
    lossSum += valueLoss(loss, outputs[i], wanted[i], i);
    correct += hasAccuracy && (outputs[i] > 0) == (wanted[i] > 0.5);
  }
  targets += static_cast<int64_t>(outputs.size());
  weightSum +=
      loss.reduction == LossSpec::Reduction::BatchMean ? 1 : static_cast<double>(outputs.size());
}

void Metrics::addBatch(double loss, int64_t samples) {
  rows += samples;
  ++targets;
  lossSum += loss;
  weightSum += 1;
}

void undoActivation(OutputActivation activation, std::span<double> outputs) {
  constexpr double largest = 100; // exp(-100) is nothing to a float beside 1
  if (activation == OutputActivation::Softmax)
    for (double &p : outputs)
      p = std::fmax(std::log(p), -largest);
  else if (activation == OutputActivation::Sigmoid)
    for (double &p : outputs)
      p = std::fmin(std::fmax(std::log(p) - std::log1p(-p), -largest), largest);
}

std::string describe(const Metrics &metrics) {
  char text[160];
  if (metrics.hasAccuracy)
    std::snprintf(text, sizeof(text), "loss %.6g, accuracy %.2f %% (%lld of %lld)", metrics.loss(),
                  100 * metrics.accuracy(), static_cast<long long>(metrics.correct),
                  static_cast<long long>(metrics.targets));
  else
    std::snprintf(text, sizeof(text), "loss %.6g", metrics.loss());
  return text;
}

} // namespace stow
