#include "runtime/program/Metrics.h"

#include "runtime/base/Error.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace stow {

LossSpec parseLoss(const std::string &text) {
  LossSpec spec;
  size_t colon = text.find(':');
  std::string name = text.substr(0, colon);
  if (name == "mse")
    spec.kind = LossSpec::Kind::MeanSquaredError;
  else if (name != "cross-entropy")
    throw Error::badInput("the program's loss is '" + text + "'; expected cross-entropy or mse");
  // Settings: key=value, separated by commas. Those that do not change evaluation are passed over.
  for (size_t at = colon; at != std::string::npos;) {
    size_t end = text.find(',', at + 1);
    std::string setting = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    for (auto [key, value] : {std::pair(std::string_view("ignore_index="), &spec.ignoreIndex),
                              std::pair(std::string_view("class_axis="), &spec.classAxis)}) {
      if (!setting.starts_with(key))
        continue;
      const char *last = setting.data() + setting.size();
      auto [stop, error] = std::from_chars(setting.data() + key.size(), last, *value);
      if (error != std::errc() || stop != last)
        throw Error::badInput("the program's loss is '" + text + "'; expected a whole number as " +
                              std::string(key.substr(0, key.size() - 1)));
    }
    at = end;
  }
  return spec;
}

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

void Metrics::addClassified(const ClassLayout &layout, std::span<const double> scores,
                            std::span<const int64_t> labels, int64_t ignoreIndex) {
  hasAccuracy = true;
  ++rows;
  for (int64_t position = 0; position < layout.positions; ++position) {
    int64_t label = labels[position];
    if (label == ignoreIndex)
      continue;
    const double *first = scores.data() + position * layout.positionStride;
    double largest = -std::numeric_limits<double>::infinity();
    int64_t prediction = 0;
    for (int64_t c = 0; c < layout.classes; ++c)
      if (first[c * layout.classStride] > largest) {
        largest = first[c * layout.classStride];
        prediction = c;
      }
    double sum = 0;
    for (int64_t c = 0; c < layout.classes; ++c)
      sum += std::exp(first[c * layout.classStride] - largest);
    lossSum += std::log(sum) + largest - first[label * layout.classStride];
    correct += prediction == label;
    ++targets;
  }
}

void Metrics::addRegression(std::span<const double> outputs, std::span<const double> wanted) {
  ++rows;
  for (size_t i = 0; i < outputs.size(); ++i)
    lossSum += (outputs[i] - wanted[i]) * (outputs[i] - wanted[i]);
  targets += static_cast<int64_t>(outputs.size());
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
