#include "ir/StowNormOps.h"
#include "tests/reference/Rules.h"

#include <cmath>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

/// Sum of `term(index)` per channel (dimension 1) of `shape`.
Tensor sumPerChannel(const std::vector<int64_t> &shape,
                     const std::function<double(const Index &)> &term) {
  Tensor sums({shape[1]});
  forEachIndex(shape, [&](const Index &at) { sums.values[at[1]] += term(at); });
  return sums;
}

double perChannel(const Tensor &x) {
  return static_cast<double>(x.size()) / static_cast<double>(x.shape[1]);
}

Tensor normalize(const Tensor &x, const Tensor &scale, const Tensor &bias, const Tensor &mean,
                 const Tensor &variance, double epsilon) {
  Tensor y(x.shape);
  forEachIndex(x.shape, [&](const Index &at) {
    int64_t c = at[1];
    y(at) = scale.values[c] * (x(at) - mean.values[c]) / std::sqrt(variance.values[c] + epsilon) +
            bias.values[c];
  });
  return y;
}

std::vector<Tensor> batchNorm(Operation *op, Operands o) {
  return {normalize(o[0], o[1], o[2], o[3], o[4], number(cast<BatchNormOp>(op).getEpsilon()))};
}

std::vector<Tensor> batchNormTraining(Operation *op, Operands operands) {
  const Tensor &x = operands[0];
  Tensor mean = sumPerChannel(x.shape, [&](const Index &at) { return x(at) / perChannel(x); });
  Tensor variance = sumPerChannel(x.shape, [&](const Index &at) {
    double centred = x(at) - mean.values[at[1]];
    return centred * centred / perChannel(x);
  });
  double epsilon = number(cast<BatchNormTrainingOp>(op).getEpsilon());
  return {normalize(x, operands[1], operands[2], mean, variance, epsilon), mean, variance};
}

/// With x' = (x - mean) / sigma: dscale = sum(dy * x'), dbias = sum(dy),
/// dx = scale / sigma * (dy - dbias / n - x' * dscale / n).
std::vector<Tensor> batchNormGrad(Operation *op, Operands operands) {
  const Tensor &x = operands[0], &mean = operands[1], &variance = operands[2];
  const Tensor &scale = operands[3], &dy = operands[4];
  double epsilon = number(cast<BatchNormGradOp>(op).getEpsilon());
  auto sigma = [&](int64_t c) { return std::sqrt(variance.values[c] + epsilon); };
  auto normalized = [&](const Index &at) { return (x(at) - mean.values[at[1]]) / sigma(at[1]); };
  Tensor dscale = sumPerChannel(x.shape, [&](const Index &at) { return dy(at) * normalized(at); });
  Tensor dbias = sumPerChannel(x.shape, [&](const Index &at) { return dy(at); });
  Tensor dx(x.shape);
  double n = perChannel(x);
  forEachIndex(x.shape, [&](const Index &at) {
    int64_t c = at[1];
    dx(at) = scale.values[c] / sigma(c) *
             (dy(at) - dbias.values[c] / n - normalized(at) * dscale.values[c] / n);
  });
  return {dx, dscale, dbias};
}

std::vector<Tensor> channelMoments(Operation *, Operands operands) {
  const Tensor &x = operands[0];
  Tensor mean = sumPerChannel(x.shape, [&](const Index &at) { return x(at) / perChannel(x); });
  Tensor squares = sumPerChannel(x.shape, [&](const Index &at) { return x(at) * x(at); });
  Tensor variance({x.shape[1]});
  for (int64_t c = 0; c < x.shape[1]; ++c)
    variance.values[c] = squares.values[c] / perChannel(x) - mean.values[c] * mean.values[c];
  return {mean, variance};
}

std::vector<Tensor> batchNormScaleGrad(Operation *op, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1], &mean = operands[2], &variance = operands[3];
  double epsilon = number(cast<BatchNormScaleGradOp>(op).getEpsilon());
  Tensor dbias = sumPerChannel(x.shape, [&](const Index &at) { return dy(at); });
  Tensor dscale = sumPerChannel(x.shape, [&](const Index &at) {
    return dy(at) * (x(at) - mean.values[at[1]]) / std::sqrt(variance.values[at[1]] + epsilon);
  });
  return {dscale, dbias};
}

std::vector<Tensor> channelWindowSum(Operation *op, Operands operands) {
  auto typed = cast<ChannelWindowSumOp>(op);
  const Tensor &x = operands[0];
  int64_t before = typed.getBefore(), after = typed.getAfter();
  Tensor y(x.shape);
  forEachIndex(x.shape, [&](const Index &at) {
    Index from = at;
    for (int64_t c = at[1] - before; c <= at[1] + after; ++c) {
      from[1] = c;
      if (c >= 0 && c < x.shape[1])
        y(at) += x(from);
    }
  });
  return {y};
}

/// Calls `visit(row, first)` for every row of the last dimension; `first` is its first element.
void forEachRow(const Tensor &x, const std::function<void(int64_t, int64_t)> &visit) {
  for (int64_t row = 0; row < x.size() / x.shape.back(); ++row)
    visit(row, row * x.shape.back());
}

std::vector<int64_t> rowNumbers(const Tensor &x) { return {x.shape.begin(), x.shape.end() - 1}; }

std::vector<Tensor> layerNorm(Operation *op, Operands operands) {
  const Tensor &x = operands[0];
  int64_t n = x.shape.back();
  double epsilon = number(cast<LayerNormOp>(op).getEpsilon());
  Tensor y(x.shape), mean(rowNumbers(x)), rstd(rowNumbers(x));
  forEachRow(x, [&](int64_t row, int64_t first) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += x.values[first + i];
    double centre = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      squares += (x.values[first + i] - centre) * (x.values[first + i] - centre);
    double scale = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (int64_t i = 0; i < n; ++i)
      y.values[first + i] = (x.values[first + i] - centre) * scale * operands[1].values[i] +
                            (operands.size() > 2 ? operands[2].values[i] : 0);
    mean.values[row] = centre;
    rstd.values[row] = scale;
  });
  return {y, mean, rstd};
}

/// By the chain rule through mean and deviation, term by term.
std::vector<Tensor> layerNormGrad(Operation *, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1], &mean = operands[2], &rstd = operands[3];
  int64_t n = x.shape.back();
  Tensor dx(x.shape);
  forEachRow(x, [&](int64_t row, int64_t first) {
    double m = mean.values[row], r = rstd.values[row];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double g = dy.values[first + j] * operands[4].values[j];
        double slope = ((i == j) - 1.0 / static_cast<double>(n)) * r -
                       (x.values[first + j] - m) * (x.values[first + i] - m) * r * r * r /
                           static_cast<double>(n);
        dx.values[first + i] += g * slope;
      }
  });
  return {dx};
}

std::vector<Tensor> layerNormScaleGrad(Operation *, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1], &mean = operands[2], &rstd = operands[3];
  int64_t n = x.shape.back();
  Tensor dscale({n}), dbias({n});
  forEachRow(x, [&](int64_t row, int64_t first) {
    for (int64_t i = 0; i < n; ++i) {
      double value = dy.values[first + i];
      dscale.values[i] += value * (x.values[first + i] - mean.values[row]) * rstd.values[row];
      dbias.values[i] += value;
    }
  });
  return {dscale, dbias};
}

std::vector<Tensor> rmsNorm(Operation *op, Operands operands) {
  const Tensor &x = operands[0];
  int64_t n = x.shape.back();
  double epsilon = number(cast<RmsNormOp>(op).getEpsilon());
  Tensor y(x.shape), rstd(rowNumbers(x));
  forEachRow(x, [&](int64_t row, int64_t first) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i)
      squares += x.values[first + i] * x.values[first + i];
    rstd.values[row] = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (int64_t i = 0; i < n; ++i)
      y.values[first + i] = x.values[first + i] * rstd.values[row] * operands[1].values[i];
  });
  return {y, rstd};
}

/// By the chain rule through the deviation, term by term.
std::vector<Tensor> rmsNormGrad(Operation *, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1], &rstd = operands[2];
  int64_t n = x.shape.back();
  Tensor dx(x.shape);
  forEachRow(x, [&](int64_t row, int64_t first) {
    double r = rstd.values[row];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        dx.values[first + i] += dy.values[first + j] * operands[3].values[j] *
                                ((i == j) * r - x.values[first + j] * x.values[first + i] * r * r *
                                                    r / static_cast<double>(n));
  });
  return {dx};
}

std::vector<Tensor> rmsNormScaleGrad(Operation *, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1];
  Tensor dscale({x.shape.back()});
  forEachRow(x, [&](int64_t row, int64_t first) {
    for (int64_t i = 0; i < x.shape.back(); ++i)
      dscale.values[i] += dy.values[first + i] * x.values[first + i] * operands[2].values[row];
  });
  return {dscale};
}

/// Sum of `term(index)` per plane (dimensions 0 and 1) of `shape`.
Tensor sumPerPlane(const std::vector<int64_t> &shape,
                   const std::function<double(const Index &)> &term) {
  Tensor sums({shape[0], shape[1]});
  forEachIndex(shape, [&](const Index &at) { sums({at[0], at[1]}) += term(at); });
  return sums;
}

std::vector<Tensor> planeMoments(Operation *, Operands operands) {
  const Tensor &x = operands[0];
  double n = static_cast<double>(x.size()) / static_cast<double>(x.shape[0] * x.shape[1]);
  Tensor mean = sumPerPlane(x.shape, [&](const Index &at) { return x(at) / n; });
  Tensor variance = sumPerPlane(x.shape, [&](const Index &at) {
    double centred = x(at) - mean({at[0], at[1]});
    return centred * centred / n;
  });
  return {mean, variance};
}

std::vector<Tensor> planeNormalize(Operation *, Operands operands) {
  Tensor y(operands[0].shape);
  forEachIndex(y.shape, [&](const Index &at) {
    y(at) = (operands[0](at) - operands[1].broadcast(at)) * operands[2].broadcast(at) +
            operands[3].broadcast(at);
  });
  return {y};
}

std::vector<Tensor> planeProducts(Operation *, Operands operands) {
  const Tensor &dy = operands[0], &x = operands[1], &mean = operands[2];
  return {sumPerPlane(x.shape,
                      [&](const Index &at) { return dy(at) * (x(at) - mean({at[0], at[1]})); }),
          sumPerPlane(x.shape, [&](const Index &at) { return dy(at); })};
}

} // namespace

void addNormRules(Rules &rules) {
  rules["stow.plane_moments"] = planeMoments;
  rules["stow.plane_normalize"] = planeNormalize;
  rules["stow.plane_products"] = planeProducts;
  rules["stow.rms_norm"] = rmsNorm;
  rules["stow.rms_norm_grad"] = rmsNormGrad;
  rules["stow.rms_norm_scale_grad"] = rmsNormScaleGrad;
  rules["stow.layer_norm"] = layerNorm;
  rules["stow.layer_norm_grad"] = layerNormGrad;
  rules["stow.layer_norm_scale_grad"] = layerNormScaleGrad;
  rules["stow.batch_norm"] = batchNorm;
  rules["stow.batch_norm_training"] = batchNormTraining;
  rules["stow.batch_norm_grad"] = batchNormGrad;
  rules["stow.channel_moments"] = channelMoments;
  rules["stow.batch_norm_scale_grad"] = batchNormScaleGrad;
  rules["stow.channel_window_sum"] = channelWindowSum;
}

} // namespace stow::reference
