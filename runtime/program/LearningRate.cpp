#include "runtime/program/LearningRate.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Names.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>
#include <utility>

namespace stow {

namespace {

using Kind = LearningRate::Kind;

constexpr std::pair<Kind, const char *> kinds[] = {
    {Kind::Constant, "constant"},       {Kind::Cosine, "cosine"},
    {Kind::Linear, "linear"},           {Kind::Step, "step"},
    {Kind::Exponential, "exponential"}, {Kind::OneCycle, "one-cycle"}};

/// Half a cosine wave from `from` at 0 to `to` at 1.
double wave(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

} // namespace

double LearningRate::oneCycle(int64_t step) const {
  constexpr double first = 1.0 / 25, last = 1e-4 / 25, rise = 0.3;
  // Steps at which the phases end, as PyTorch counts them: fractions of a step are meant.
  double top = (warmupSteps > 0 ? static_cast<double>(warmupSteps)
                                : rise * static_cast<double>(totalSteps)) -
               1;
  double end = static_cast<double>(totalSteps) - 1, now = static_cast<double>(step);
  if (now <= top || end <= top)
    return base * wave(first, 1, top > 0 ? std::fmin(now / top, 1) : 1);
  return base * wave(1, last, std::fmin((now - top) / (end - top), 1));
}

double LearningRate::at(int64_t step) const {
  if (kind == Kind::OneCycle)
    return oneCycle(step);
  double rate = base;
  if (kind == Kind::Cosine || kind == Kind::Linear) {
    // The warm-up is not part of the half wave, nor of the line.
    double span = static_cast<double>(totalSteps - warmupSteps);
    double progress = span > 0 ? static_cast<double>(step - warmupSteps) / span : 0;
    progress = std::fmin(progress, 1);
    if (progress > 0)
      rate *=
          kind == Kind::Linear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  if (kind == Kind::Step)
    rate *= std::pow(decay, static_cast<double>(step / stepsPerEpoch / decayEpochs));
  if (kind == Kind::Exponential)
    rate *= std::pow(decay, static_cast<double>(step / stepsPerEpoch));
  if (step < warmupSteps)
    rate *= static_cast<double>(step + 1) / static_cast<double>(warmupSteps);
  return rate;
}

std::string nameOf(LearningRate::Kind kind) {
  return std::ranges::find(kinds, kind, &std::pair<Kind, const char *>::first)->second;
}

std::string learningRateKinds() { return joined(kinds | std::views::values, ", "); }

LearningRate::Kind parseLearningRateKind(const std::string &name) {
  std::vector<std::string> names;
  for (const auto &[kind, known] : kinds)
    names.emplace_back(known);
  return kinds[oneOf(name, names, "schedule", "--lr-schedule")].first;
}

} // namespace stow
