// What each tensor of a model is for: which inputs carry data, which tensors are weights.
//
// A file with a graph signature (GraphSignature.h) says what is trained: its PARAMETERs, and
// nothing else. ONNX itself does not. The rules for other files, for float tensors of rank >= 1:
//  1. A tensor that stands where an operator takes weights, as the operator's entry in the table of
//     operators says (OpWeights), is a parameter, also when it gets there through Transpose, Reshape,
//     Identity and the like; so is a summand of a weight's product. Mean and variance of
//     BatchNormalization are statistics.
//  2. An initializer used in other arithmetic (a scale, an added embedding) is a parameter too,
//     unless it meets the data before any weight does, which normalizes the input; is a mask; has
//     one element and no name that a module would give it; or repeats one value that PyTorch's
//     exporter computed.
//  3. Everything else is a constant: exponents, bounds, Constant nodes in plain arithmetic, and in
//     PyTorch's files, which hold parameters as initializers, every Constant node.
//  4. A graph input is data. Only one that the user names, or one of static shape that a module has
//     named ("norm.weight": arguments of a function have no dot) and that is used as rules 1 and 2 say,
//     is a parameter whose values the file lacks. Where the user names the data, the rest are parameters.
// What the user names as a parameter is one, whatever the rules say.
#pragma once

#include "compiler/import/OnnxModel.h"

#include <set>

namespace stow::onnx {

/// Position in which a tensor is used. Those from ConvWeight on are weight positions (rule 1).
enum class Use {
  None,        ///< no rule says what it is for
  Setting,     ///< a size, a bound, an exponent: it is never trained
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

/// True where rule 1 or 2 may make it a parameter.
inline bool isLearnable(Use use) { return use >= Use::Shift; }

class Analysis;

/// One node, as the entry of its operator sees it.
class UseSite {
public:
  UseSite(Analysis &analysis, const Node &node) : node(node), analysis(analysis) {}

  const Node &node;
  bool flag(const char *name) const;

  /// True for a tensor that comes with values or a recipe for them, or whose values the file lacks.
  bool isOwn(size_t i) const;
  bool hasData(size_t i) const;
  bool isFromData(size_t i) const;
  /// True for what a Constant node holds.
  bool isConstantNode(size_t i) const;
  /// The rank of an initializer, also where views of it are read.
  std::optional<size_t> rankOf(size_t i) const;
  /// True for an initializer of PyTorch's that a module has named, not its exporter.
  bool isNamedByModule(size_t i) const;

  /// The earliest weight position wins; nodes are visited last to first.
  void use(size_t i, Use kind);
  /// One of the two factors is a weight: which one, those say that are there with values.
  void useProduct(Use left, Use right);

private:
  Analysis &analysis;
};

/// Where an operator takes weights: a part of its entry in the table of operators.
struct OpWeights {
  enum class Kind {
    Data,     ///< nowhere: what it reads is data, and an initializer there is told to the user
    Settings, ///< nowhere: an initializer there is a size, a bound, a mask
    View,     ///< its first input is used as its result is, the others are settings
    Altered, ///< as View, of another content: a weight behind it is not taken for one that is there
    Join,    ///< all of its inputs are used as its result is
    Function, ///< of its first input, which may be learned
    Sum,
    Scaling,
    Product, ///< sums of products with a weight; what is added to it is a bias
    Layer,   ///< has weights of its own
  };
  Kind kind = Kind::Data;
  void (*find)(UseSite &) = nullptr; ///< what its inputs are used for; absent: as the kind says
};

/// The entry of an operator; null where there is none.
using WeightsOf = const OpWeights *(*)(const std::string &type);

struct Roles {
  std::vector<bool> live;           ///< per node: some graph output depends on it
  std::map<std::string, Use> uses;  ///< absent: None
  std::set<std::string> dataInputs; ///< graph inputs that carry data
  std::set<std::string> fromData;   ///< tensors that depend on a data input
  std::set<std::string> named;      ///< inputs and initializers that the user calls parameters

  /// Initializers of more than one element that no rule reaches, with the operators that read them.
  std::map<std::string, std::string> unreached;

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

/// Which tensors the user named.
struct NamedTensors {
  std::vector<std::string> data;    ///< inputs that carry data; empty leaves it to rule 4
  std::set<std::string> parameters; ///< inputs and initializers that are trained
};

/// Applies the rules. Throws Error(BadInput) for a named input that the model does not have.
Roles analyzeRoles(const Model &model, const NamedTensors &named, WeightsOf weightsOf);

} // namespace stow::onnx
