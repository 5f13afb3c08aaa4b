#include "compiler/import/Roles.h"

#include "compiler/import/TensorContent.h"
#include "runtime/base/Error.h"

#include <absl/strings/match.h>
#include <algorithm>

namespace stow::onnx {
namespace {

bool isOneOf(const std::string &text, std::initializer_list<const char *> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Ops that pass a weight on: what their result is used for, their first input is used for. A
/// scatter does, too: a bias of which a part is kept at zero.
bool isViewLike(const Node &node) {
  return isOneOf(node.type, {"Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten",
                             "Cast", "CastLike", "Expand", "Tile", "Slice", "Split", "Concat",
                             "ScatterND", "ScatterElements"});
}

bool isProduct(const Node &node) {
  return isOneOf(node.type, {"MatMul", "Gemm", "Conv", "ConvTranspose"});
}

bool isRecurrent(const Node &node) { return isOneOf(node.type, {"GRU", "LSTM", "RNN"}); }

bool isSum(const Node &node) { return isOneOf(node.type, {"Add", "Sub", "Sum"}); }
bool isScaling(const Node &node) { return isOneOf(node.type, {"Mul", "Div"}); }

/// Functions of their first input that a learned tensor may go through (an exponential of a learned
/// scale).
bool isFunction(const Node &node) {
  return isOneOf(node.type, {"Exp", "Log", "Sqrt", "Neg", "Abs", "Clip", "Sigmoid", "Tanh",
                             "Softplus", "Relu", "Softmax", "ReduceMean", "ReduceSum", "ReduceL2"});
}

class Analysis {
public:
  Analysis(const Model &model, const std::vector<std::string> &named) : model(model), named(named) {
    for (const Input &input : model.inputs)
      inputs[input.name] = &input;
    addProducers(model.nodes);
  }

  Roles run() {
    for (const std::string &name : named)
      if (!inputs.count(name))
        throw Error::badInput("the model has no input '" + name + "'; its inputs are " +
                              inputNames());
    markLive();
    assignUses();
    chooseDataInputs();
    findNormalizers();
    findConstants();
    return std::move(roles);
  }

private:
  void addProducers(const std::vector<Node> &nodes) {
    for (const Node &node : nodes) {
      for (const std::string &output : node.outputs)
        producers[output] = &node;
      for (const auto &[name, attribute] : node.attributes)
        if (attribute.graph)
          addProducers(attribute.graph->nodes);
    }
  }

  std::string inputNames() const {
    std::string text;
    for (const Input &input : model.inputs)
      text += (text.empty() ? "'" : ", '") + input.name + "'";
    return text.empty() ? "none" : text;
  }

  void markLive() {
    std::set<std::string> wanted(model.outputs.begin(), model.outputs.end());
    roles.live.assign(model.nodes.size(), false);
    for (size_t i = model.nodes.size(); i-- > 0;) {
      const Node &node = model.nodes[i];
      for (const std::string &output : node.outputs)
        roles.live[i] = roles.live[i] || (!output.empty() && wanted.count(output));
      if (!roles.live[i])
        continue;
      wanted.insert(node.inputs.begin(), node.inputs.end());
      wanted.insert(node.captured.begin(), node.captured.end());
    }
  }

  /// The tensor a chain of view-like nodes starts from.
  std::string originOf(std::string name) const {
    for (size_t step = 0; step < model.nodes.size(); ++step) {
      auto found = producers.find(name);
      if (found == producers.end() || !isViewLike(*found->second) || found->second->inputs.empty())
        break;
      name = found->second->inputs[0];
    }
    return name;
  }

  /// True for tensors that come with data or a recipe for it.
  bool hasData(const std::string &name) const {
    std::string origin = originOf(name);
    if (model.initializers.count(origin))
      return true;
    auto found = producers.find(origin);
    return found != producers.end() &&
           isOneOf(found->second->type,
                   {"Constant", "ConstantOfShape", "RandomNormal", "RandomUniform"});
  }

  bool isUnfilledInput(const std::string &name) const { return inputs.count(originOf(name)) != 0; }

  /// The earliest weight position wins; nodes are visited last to first.
  void use(const Node &node, size_t i, Use kind) {
    if (i >= node.inputs.size() || node.inputs[i].empty() || kind == Use::None)
      return;
    Use &known = roles.uses[node.inputs[i]];
    if (isWeightPosition(kind) || !isWeightPosition(known))
      known = kind;
  }

  void useProduct(const Node &node, Use left, Use right) {
    if (node.inputs.size() < 2)
      return;
    const std::string &first = node.inputs[0], &second = node.inputs[1];
    if (hasData(second)) {
      use(node, 1, right);
      // A learned initial state or query: named by the module, multiplied by its weight.
      if (isFromPyTorch(model) && model.initializers.count(first) && !isExporterMade(first))
        use(node, 0, Use::Shift);
    } else if (isUnfilledInput(second) && model.inputs.size() > 1 &&
               !model.initializers.count(originOf(first))) {
      // In a file without weights these are inputs: a constant beside one is an initial state.
      use(node, 1, right);
    } else if (hasData(first)) {
      use(node, 0, left);
    } else if (isUnfilledInput(second)) {
      use(node, 1, right);
    }
  }

  bool isWeightProduct(const Node &node) const {
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 2); ++i)
      if (hasData(node.inputs[i]) || isUnfilledInput(node.inputs[i]))
        return isProduct(node);
    return false;
  }

  /// A summand that is the source of a bias: it has data or is an input, the other is the product
  /// of a weight. What is added to a product of data, such as attention scores, is none.
  bool isBias(const Node &node, size_t i) const {
    if (node.type != "Add" || node.inputs.size() != 2)
      return false;
    auto other = producers.find(node.inputs[1 - i]);
    return other != producers.end() && isWeightProduct(*other->second) &&
           (hasData(node.inputs[i]) || isUnfilledInput(node.inputs[i]));
  }

  /// A tensor that Gather reads rows of: one with data of its own, or an input read by data.
  bool isTable(const Node &node) const {
    if (node.inputs.size() != 2)
      return false;
    // Nobody picks fixed samples of a batch: read by constants along dimension 0, it is a table
    // too.
    auto axis = node.attributes.find("axis");
    bool alongFirst = axis == node.attributes.end() || axis->second.i == 0;
    if (!hasData(node.inputs[0]))
      return isUnfilledInput(node.inputs[0]) && (!hasData(node.inputs[1]) || alongFirst);
    auto initializer = model.initializers.find(originOf(node.inputs[0]));
    return initializer == model.initializers.end() || initializer->second.shape.size() >= 2;
  }

  void assignUses() {
    for (size_t n = model.nodes.size(); n-- > 0;)
      if (roles.live[n] && model.nodes[n].domain.empty())
        assignUses(model.nodes[n]);
  }

  /// The nodes of graphs inside the node: their results are used as the node's are, and the
  /// node's inputs as those of a body.
  void assignGraphUses(const Node &node) {
    // A Loop's body also has the number of the iteration and gives a condition.
    const size_t skipped = node.type == "Loop" ? 1 : 0;
    for (const auto &[name, attribute] : node.attributes) {
      if (!attribute.graph)
        continue;
      const Graph &graph = *attribute.graph;
      for (size_t i = 0; i < node.outputs.size() && i + skipped < graph.outputs.size(); ++i) {
        Use &known = roles.uses[graph.outputs[i + skipped]];
        known = std::max(known, roles.useOf(node.outputs[i]));
      }
      for (size_t n = graph.nodes.size(); n-- > 0;)
        assignUses(graph.nodes[n]);
      for (size_t i = 2 * skipped; i < std::min(graph.inputs.size(), node.inputs.size()); ++i)
        use(node, i, roles.useOf(graph.inputs[i]));
    }
  }

  /// True for the ones and zeros that PyTorch gives an InstanceNormalization, as Constant nodes,
  /// where it stands for a group normalization: nobody trains them.
  bool isGroupConstant(const Node &node, size_t i) const {
    if (node.type != "InstanceNormalization" || i >= node.inputs.size())
      return false;
    auto producer = producers.find(node.inputs[i]);
    return producer != producers.end() && producer->second->type == "Constant";
  }

  void assignUses(const Node &node) {
    assignGraphUses(node);
    auto flag = [&](const char *name) {
      auto found = node.attributes.find(name);
      return found != node.attributes.end() && found->second.i != 0;
    };
    if (node.type == "DeformConv") {
      use(node, 1, Use::ConvWeight);
      use(node, 3, Use::Bias);
    } else if (isOneOf(node.type, {"Conv", "ConvTranspose"})) {
      use(node, 1, Use::ConvWeight);
      use(node, 2, Use::Bias);
    } else if (node.type == "Gemm") {
      useProduct(node, flag("transA") ? Use::WeightInOut : Use::WeightOutIn,
                 flag("transB") ? Use::WeightOutIn : Use::WeightInOut);
      use(node, 2, Use::Bias);
    } else if (isRecurrent(node)) {
      use(node, 1, Use::GateWeight);
      use(node, 2, Use::GateWeight);
      use(node, 3, Use::Bias);
    } else if (node.type == "MatMul") {
      useProduct(node, Use::WeightOutIn, Use::WeightInOut);
    } else if (node.type == "BatchNormalization") {
      use(node, 1, Use::NormScale);
      use(node, 2, Use::NormShift);
      use(node, 3, Use::Mean);
      use(node, 4, Use::Variance);
    } else if (isOneOf(node.type,
                       {"LayerNormalization", "GroupNormalization", "InstanceNormalization",
                        "RMSNormalization", "SimplifiedLayerNormalization"})) {
      for (auto [i, kind] : {std::pair{1, Use::NormScale}, {2, Use::NormShift}})
        if (!isGroupConstant(node, i))
          use(node, i, kind);
    } else if (node.type == "Gather") {
      if (isTable(node))
        use(node, 0, Use::Table);
    } else if (node.type == "PRelu") {
      use(node, 1, Use::Slope);
    } else if (isViewLike(node)) {
      passOn(node);
    } else if (isFunction(node)) {
      use(node, 0, Use::Shift);
    } else if (isSum(node) || isScaling(node)) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        use(node, i, isBias(node, i) ? Use::Bias : isScaling(node) ? Use::Scale : Use::Shift);
    }
  }

  void passOn(const Node &node) {
    Use passed = Use::None;
    for (const std::string &output : node.outputs)
      passed = std::max(passed, roles.useOf(output));
    if (node.type == "Transpose" && passed == Use::WeightInOut)
      passed = Use::WeightOutIn;
    else if (node.type == "Transpose" && passed == Use::WeightOutIn)
      passed = Use::WeightInOut;
    if (node.type != "Concat")
      return use(node, 0, passed);
    const bool joinsData = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](const std::string &input) { return !hasData(input); });
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // A learned token beside the data's: named by the module.
      const std::string origin = originOf(node.inputs[i]);
      const bool isToken = joinsData && isFromPyTorch(model) && model.initializers.count(origin) &&
                           !isExporterMade(origin);
      use(node, i, isToken && passed == Use::None ? Use::Shift : passed);
    }
  }

  /// "norm.weight": arguments of a function have no dot in their names. The former exporter numbers some of them, "input.1".
  static bool isOfModule(const std::string &name) {
    const size_t dot = name.rfind('.');
    return dot != std::string::npos &&
           name.find_first_not_of("0123456789", dot + 1) != std::string::npos;
  }

  void chooseDataInputs() {
    roles.dataInputs.insert(named.begin(), named.end());
    if (!named.empty())
      return;
    if (model.signature) {
      for (const Input &input : model.inputs)
        if (!model.signature->find(input.name))
          roles.dataInputs.insert(input.name);
      return;
    }
    for (const Input &input : model.inputs) {
      bool isStatic = input.dims && !input.dims->empty();
      for (size_t d = 0; isStatic && d < input.dims->size(); ++d)
        isStatic = (*input.dims)[d].size.has_value();
      const Use use = roles.useOf(input.name);
      const bool isParameter =
          isWeightPosition(use) || (use != Use::None && isOfModule(input.name));
      if (!isStatic || !isFloat(input.type) || !isParameter)
        roles.dataInputs.insert(input.name);
    }
  }

  /// Follows the data until it meets a weight; the initializers it meets before are normalizers.
  void findNormalizers() {
    std::set<std::string> raw = roles.dataInputs, normalizers, elsewhere;
    roles.fromData = roles.dataInputs;
    for (size_t n = 0; n < model.nodes.size(); ++n) {
      const Node &node = model.nodes[n];
      if (!roles.live[n])
        continue;
      bool touchesRaw = false, touchesData = false, isRaw = true;
      for (const std::string &input : node.inputs) {
        touchesRaw |= raw.count(input) != 0;
        touchesData |= roles.fromData.count(input) != 0;
        isRaw &= input.empty() || raw.count(input) || hasData(input);
      }
      for (const std::string &input : node.captured)
        touchesData |= roles.fromData.count(input) != 0;
      isRaw &= touchesRaw && !isProduct(node) && !isRecurrent(node) &&
               !isOneOf(node.type, {"BatchNormalization", "Gather", "GroupNormalization",
                                    "InstanceNormalization", "LayerNormalization", "PRelu",
                                    "RMSNormalization", "SimplifiedLayerNormalization"});
      for (const std::string &input : node.inputs)
        if (model.initializers.count(input)) {
          if (isSum(node))
            summands.insert(input);
          if (isScaling(node))
            factors.insert(input);
          (isRaw && (isSum(node) || isScaling(node)) ? normalizers : elsewhere).insert(input);
        }
      for (const std::string &output : node.outputs) {
        if (isRaw)
          raw.insert(output);
        if (touchesData && node.type != "Shape" && node.type != "Size")
          roles.fromData.insert(output);
      }
    }
    for (const std::string &name : normalizers)
      if (!elsewhere.count(name))
        roles.constants[name] = "normalizes the input before any weight";
  }

  /// Running statistics in plain arithmetic are buffers, and so are the scale and shift beside them:
  /// normalizations that were frozen (torchvision's FrozenBatchNorm2d).
  void findFrozenNorms() {
    for (const auto &[name, tensor] : model.initializers) {
      const size_t end = name.rfind('.');
      const std::string prefix = name.substr(0, end == std::string::npos ? 0 : end + 1);
      const std::string last = name.substr(prefix.size());
      const Use use = roles.useOf(name);
      if ((last != "running_mean" && last != "running_var") || use == Use::None ||
          isWeightPosition(use))
        continue;
      for (const char *sibling : {"running_mean", "running_var", "weight", "bias"})
        if (model.initializers.count(prefix + sibling) &&
            !isWeightPosition(roles.useOf(prefix + sibling)))
          roles.constants.emplace(prefix + sibling, "of a frozen normalization");
    }
  }

  /// The other exceptions of rule 2.
  void findConstants() {
    const bool isTorch = isFromPyTorch(model);
    for (const std::string &name : summands)
      if (isAdditiveMask(model.initializers.at(name))) {
        roles.constants[name] = "a mask";
        roles.masks.insert(name);
      }
    for (const std::string &name : factors)
      if (isBinaryMask(model.initializers.at(name))) {
        roles.constants[name] = "a mask of zeros and ones";
        roles.masks.insert(name);
      }
    if (isTorch)
      findFrozenNorms();
    for (const auto &[name, tensor] : model.initializers) {
      const bool isMade = isExporterMade(name);
      if (checkedElementCount(tensor.shape) == 1 && (!isTorch || isMade))
        roles.constants.emplace(name, "one element");
      else if (isTorch && isMade && isUniform(tensor))
        roles.constants.emplace(name, "one value, computed by the exporter");
    }
  }

  const Model &model;
  const std::vector<std::string> &named;
  std::map<std::string, const Input *> inputs;
  std::map<std::string, const Node *> producers;
  std::set<std::string> summands, factors; ///< initializers that are added, or multiplied by
  Roles roles;
};

} // namespace

std::string describe(Use use) {
  switch (use) {
  case Use::None:
    return "unused by arithmetic";
  case Use::Shift:
    return "an initializer in arithmetic";
  case Use::Scale:
    return "an initializer that scales";
  case Use::ConvWeight:
    return "weight of a convolution";
  case Use::WeightOutIn:
  case Use::WeightInOut:
    return "weight of a product";
  case Use::GateWeight:
    return "weight of a recurrent layer";
  case Use::Bias:
    return "added to a weight's product";
  case Use::NormScale:
    return "scale of a normalization";
  case Use::NormShift:
    return "shift of a normalization";
  case Use::Mean:
  case Use::Variance:
    return "running statistic";
  case Use::Slope:
    return "slope of a PRelu";
  case Use::Table:
    return "rows read by index";
  }
  return "";
}

bool isFromPyTorch(const Model &model) { return model.producer == "pytorch"; }

bool isTrainingNorm(const Node &node) {
  if (node.type != "BatchNormalization")
    return false;
  // The current exporter writes one form of node for both, and the operation beside it.
  const std::string operation = operationOf(node.fxNode);
  if (absl::StrContains(operation, "batch_norm"))
    return !absl::StrContains(operation, "no_training");
  auto mode = node.attributes.find("training_mode");
  return (mode != node.attributes.end() && mode->second.i != 0) || node.outputs.size() > 1;
}

bool keepsModes(const Model &model) {
  return (model.signature && model.signature->keepsModes) ||
         std::any_of(model.nodes.begin(), model.nodes.end(), isTrainingNorm);
}

Roles analyzeRoles(const Model &model, const std::vector<std::string> &named) {
  return Analysis(model, named).run();
}

} // namespace stow::onnx
