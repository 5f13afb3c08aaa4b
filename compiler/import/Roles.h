// What each tensor of a model is for: which inputs carry data, which tensors are weights.
//
// A file with a graph signature (GraphSignature.h) says what is trained: its PARAMETERs, and
// nothing else. ONNX itself does not. The rules for other files, for float tensors of rank >= 1:
//  1. A tensor at a weight position (weight and bias of Conv, Gemm and recurrent layers, an operand
//     of MatMul, scale and shift of BatchNormalization and LayerNormalization, the slope of PRelu, the table of a
//     Gather by data, a summand of a weight's product) is a parameter, also when it gets there
//     through Transpose, Reshape, Identity and the like. Mean and variance of BatchNormalization
//     are statistics.
//  2. An initializer used in other arithmetic (a scale, an added embedding) is a parameter too,
//     unless it meets the data before any weight does, which normalizes the input; is a mask; has
//     one element and no name that a module would give it; or repeats one value that PyTorch's
//     exporter computed.
//  3. Everything else is a constant: exponents, bounds, Constant nodes in plain arithmetic, and in
//     PyTorch's files, which hold parameters as initializers, every Constant node.
//  4. A graph input without data is a parameter when rule 1 finds it, or other arithmetic uses it and its name has a dot as
//     a module's ("norm.weight"), and it has a static shape; else it is data. Names given by the user decide instead: those are data, the rest parameters.
#pragma once

#include "compiler/import/OnnxModel.h"

#include <set>

namespace stow::onnx {

/// Position in which a tensor is used. Those from ConvWeight on are weight positions (rule 1).
enum class Use {
  None,
  Shift,       ///< added, subtracted, or under an elementwise function
  Scale,       ///< multiplied or divided by
  ConvWeight,  ///< [out, in / groups, window...]
  WeightOutIn, ///< matrix with the outputs first
  WeightInOut, ///< matrix with the inputs first
  GateWeight,  ///< of a recurrent layer, [directions, gates * hidden, inputs]
  Bias,        ///< added to a product or convolution
  NormScale,
  NormShift,
  Mean,
  Variance,
  Slope,
  Table, ///< rows read by index, [rows, width...]
};

inline bool isWeightPosition(Use use) { return use >= Use::ConvWeight; }

struct Roles {
  std::vector<bool> live;           ///< per node: some graph output depends on it
  std::map<std::string, Use> uses;  ///< absent: None
  std::set<std::string> dataInputs; ///< graph inputs that carry data
  std::set<std::string> fromData;   ///< tensors that depend on a data input

  /// Initializers that rule 2 keeps constant, with the reason, and those of them that are masks: a
  /// mask is none at a bias' position either.
  std::map<std::string, std::string> constants;
  std::set<std::string> masks;

  Use useOf(const std::string &name) const {
    auto found = uses.find(name);
    return found == uses.end() ? Use::None : found->second;
  }
};

/// "a weight of Conv", "scale of a normalization", ...; what --list-parameters gives as the reason.
std::string describe(Use use);

/// True for files that PyTorch's exporters wrote.
bool isFromPyTorch(const Model &model);

/// True for a batch normalization in training form: the batch's statistics count.
bool isTrainingNorm(const Node &node);

/// True where a batch normalization in inference form is one that its module evaluates while it
/// trains the rest: a file that was exported in evaluation mode as a whole has no other.
bool keepsModes(const Model &model);

/// Applies the rules. `named` are the inputs the user calls data; empty leaves it to rule 4. Throws
/// Error(BadInput) for a named input that the model does not have.
Roles analyzeRoles(const Model &model, const std::vector<std::string> &named);

} // namespace stow::onnx
