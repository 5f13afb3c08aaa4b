#include "compiler/import/Initialization.h"

#include "runtime/base/Error.h"
#include "runtime/base/Names.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stow::onnx {
namespace {

Distribution constant(double value) { return {Distribution::Kind::Constant, value, 0}; }
Distribution uniform(double bound) { return {Distribution::Kind::Uniform, -bound, bound}; }
Distribution normal(double stddev) { return {Distribution::Kind::Normal, 0, stddev}; }

int64_t fanOutOf(Use use, const Shape &shape) {
  int64_t count = elementCount(shape);
  if (use == Use::GateWeight && shape.size() > 1)
    return shape[shape.size() - 2];
  if (use == Use::ConvWeight)
    return shape.size() < 2 ? count : count / std::max<int64_t>(shape[1], 1);
  return count / std::max<int64_t>(fanInOf(use, shape), 1);
}

} // namespace

int64_t fanInOf(Use use, const Shape &stored) {
  if (use == Use::GateWeight && !stored.empty())
    return std::max<int64_t>(stored.back(), 1);
  // Matrices of older models are stored as [1,1,out,in] and reshaped.
  Shape shape;
  std::copy_if(stored.begin(), stored.end(), std::back_inserter(shape),
               [&](int64_t dim) { return dim != 1 || use == Use::ConvWeight; });
  if (shape.empty())
    return 1;
  int64_t count = std::max<int64_t>(elementCount(shape), 1);
  int64_t outputs = use == Use::WeightInOut ? shape.back() : shape.front();
  return std::max<int64_t>(count / std::max<int64_t>(outputs, 1), 1);
}

Initialization parseInitialization(const std::string &text) {
  size_t colon = text.find(':');
  using Rule = Initialization::Rule;
  constexpr Initialization rules[] = {{Rule::PyTorch},
                                      {Rule::Kaiming},
                                      {Rule::Xavier},
                                      {Rule::Normal, 0.02},
                                      {Rule::Uniform, 0.05}};
  Initialization init =
      rules[oneOf(text.substr(0, colon), {"pytorch", "kaiming", "xavier", "normal", "uniform"},
                  "initialization", "--init")];
  const bool takesNumber = init.rule == Rule::Normal || init.rule == Rule::Uniform;
  if (colon == std::string::npos)
    return init;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data() + colon + 1, end, init.parameter);
  if (!takesNumber || error != std::errc() || stop != end || !(init.parameter >= 0) ||
      !std::isfinite(init.parameter))
    throw Error::badInput("initialization '" + text +
                          "': expected a non-negative number after normal: or uniform:");
  return init;
}

Distribution distributionFor(const Initialization &init, Use use, const Shape &shape,
                             std::optional<int64_t> fanIn) {
  using Rule = Initialization::Rule;
  switch (use) {
  case Use::NormScale:
  case Use::Variance:
  case Use::Scale:
    return constant(1);
  case Use::Slope:
    return constant(0.25);
  case Use::Bias:
    return init.rule == Rule::PyTorch && fanIn ? uniform(1 / std::sqrt(double(*fanIn)))
                                               : constant(0);
  case Use::NormShift:
  case Use::Mean:
  case Use::Shift:
  case Use::None:
  case Use::Setting:
    return constant(0);
  case Use::ConvWeight:
  case Use::WeightOutIn:
  case Use::WeightInOut:
  case Use::GateWeight:
    break;
  case Use::Table:
    if (init.rule == Rule::PyTorch)
      return normal(1);
    break;
  }
  double in = double(fanInOf(use, shape));
  switch (init.rule) {
  case Rule::PyTorch:
    return uniform(1 / std::sqrt(use == Use::GateWeight && fanIn ? double(*fanIn) : in));
  case Rule::Kaiming:
    return normal(std::sqrt(2 / in));
  case Rule::Xavier:
    return uniform(std::sqrt(6 / (in + double(fanOutOf(use, shape)))));
  case Rule::Normal:
    return normal(init.parameter);
  case Rule::Uniform:
    return uniform(init.parameter);
  }
  return constant(0);
}

} // namespace stow::onnx
