// Initial distributions of parameters that come without data.
//
//   pytorch   what torch.nn modules do: weights of convolutions and linear layers and their biases
//             U(-b, b) with b = 1 / sqrt(fan in), of recurrent layers 1 / sqrt(hidden size); batch
//             norm 1 and 0; PRelu slope 0.25
//   kaiming   weights N(0, sqrt(2 / fan in)) (He et al. 2015, forward), biases 0
//   xavier    weights U(-b, b) with b = sqrt(6 / (fan in + fan out)) (Glorot & Bengio 2010),
//             biases 0
//   normal    weights N(0, stddev), 0.02 unless given as normal:stddev; biases 0
//   uniform   weights U(-bound, bound), 0.05 unless given as uniform:bound; biases 0
// Norm scales, running variances and other factors start at 1, shifts and running means at 0.
#pragma once

#include "compiler/import/Roles.h"

namespace stow::onnx {

struct Distribution {
  enum class Kind { Constant, Normal, Uniform };
  Kind kind = Kind::Constant;
  double a = 0; ///< value, mean or low end
  double b = 0; ///< 0, standard deviation or high end
};

struct Initialization {
  enum class Rule { PyTorch, Kaiming, Xavier, Normal, Uniform };
  Rule rule = Rule::PyTorch;
  double parameter = 0;
};

/// Parses the text of --init; throws Error(BadInput) listing the choices.
Initialization parseInitialization(const std::string &text);

/// Distribution of a tensor of `shape` in position `use`. `fanIn` is that of the layer a bias
/// belongs to, of a recurrent layer its hidden size, where known.
Distribution distributionFor(const Initialization &init, Use use, const Shape &shape,
                             std::optional<int64_t> fanIn);

/// Inputs that one output of a weight sums over.
int64_t fanInOf(Use use, const Shape &shape);

} // namespace stow::onnx
