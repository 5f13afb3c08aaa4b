#include "compiler/import/Roles.h"

#include "compiler/import/TensorContent.h"
#include "runtime/base/Error.h"

#include <absl/strings/match.h>
#include <algorithm>

namespace stow::onnx {

static bool isOneOf(const std::string &text, std::initializer_list<const char *> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

using Kind = OpWeights::Kind;

class Analysis {
public:
  Analysis(const Model &model, const NamedTensors &named, WeightsOf weightsOf)
      : model(model), named(named), weightsOf(weightsOf) {
    for (const Input &input : model.inputs)
      inputs[input.name] = &input;
    addProducers(model.nodes);
  }

  Roles run() {
    for (const std::string &name : named.data)
      if (!inputs.count(name))
        throw Error::badInput("the model has no input '" + name + "'; its inputs are " +
                              inputNames());
    markLive();
    findCandidates();
    assignUses();
    chooseDataInputs();
    findNormalizers();
    findConstants();
    findUnreached();
    roles.named = named.parameters;
    return std::move(roles);
  }

private:
  friend class UseSite;

  Kind kindOf(const Node &node) const {
    const OpWeights *entry = node.domain.empty() ? weightsOf(node.type) : nullptr;
    return entry ? entry->kind : Kind::Data;
  }
  bool isView(const Node &node) const {
    const Kind kind = kindOf(node);
    return kind == Kind::View || kind == Kind::Join;
  }

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
      if (found == producers.end() || !isView(*found->second) || found->second->inputs.empty())
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

  /// "norm.weight": arguments of a function have no dot in their names. The former exporter numbers some of them, "input.1".
  static bool isOfModule(const std::string &name) {
    const size_t dot = name.rfind('.');
    return dot != std::string::npos &&
           name.find_first_not_of("0123456789", dot + 1) != std::string::npos;
  }

  /// Inputs that may be parameters without values, and what depends on the others.
  void findCandidates() {
    for (const Input &input : model.inputs) {
      bool isStatic = input.dims && !input.dims->empty();
      for (size_t d = 0; isStatic && d < input.dims->size(); ++d)
        isStatic = (*input.dims)[d].size.has_value();
      const bool isNamed = named.parameters.count(input.name) != 0;
      const bool isLeft = !named.data.empty() && std::find(named.data.begin(), named.data.end(),
                                                           input.name) == named.data.end();
      const bool isStated =
          named.data.empty() && model.signature && model.signature->find(input.name);
      const bool isModules = named.data.empty() && !model.signature && isStatic &&
                             isFloat(input.type) && isOfModule(input.name);
      if (isNamed || isLeft || isStated || isModules)
        candidates.insert(input.name);
      else
        roles.fromData.insert(input.name);
    }
    for (size_t n = 0; n < model.nodes.size(); ++n)
      if (roles.live[n] && readsAny(model.nodes[n], roles.fromData))
        addResults(model.nodes[n], roles.fromData);
  }

  static bool readsAny(const Node &node, const std::set<std::string> &names) {
    auto isOne = [&](const std::string &name) { return names.count(name) != 0; };
    return std::any_of(node.inputs.begin(), node.inputs.end(), isOne) ||
           std::any_of(node.captured.begin(), node.captured.end(), isOne);
  }

  /// The node's results but shapes, which hold none of the data.
  static void addResults(const Node &node, std::set<std::string> &to) {
    if (node.type != "Shape" && node.type != "Size")
      to.insert(node.outputs.begin(), node.outputs.end());
  }

  /// True where views of it lead to an input whose values the file lacks.
  bool isUnfilledInput(const std::string &name) const {
    return candidates.count(originOf(name)) != 0;
  }

  void use(const Node &node, size_t i, Use kind) {
    if (i >= node.inputs.size() || node.inputs[i].empty() || kind == Use::None)
      return;
    Use &known = roles.uses[node.inputs[i]];
    if (isWeightPosition(kind) || (!isWeightPosition(known) && kind != Use::Setting) ||
        known == Use::None)
      known = kind;
  }

  bool isWeightProduct(const Node &node) const {
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 2); ++i)
      if (hasData(node.inputs[i]) || isUnfilledInput(node.inputs[i]))
        return kindOf(node) == Kind::Product;
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

  void assignUses(const Node &node) {
    assignGraphUses(node);
    const OpWeights *entry = node.domain.empty() ? weightsOf(node.type) : nullptr;
    const Kind kind = entry ? entry->kind : Kind::Data;
    if (kind == Kind::View || kind == Kind::Altered || kind == Kind::Join)
      passOn(node);
    if (entry && entry->find) {
      UseSite site(*this, node);
      entry->find(site);
    } else if (kind == Kind::View || kind == Kind::Altered || kind == Kind::Function ||
               kind == Kind::Settings) {
      const size_t first = kind == Kind::Settings ? 0 : 1;
      if (kind == Kind::Function)
        use(node, 0, Use::Shift);
      for (size_t i = first; i < node.inputs.size(); ++i)
        use(node, i, Use::Setting);
    } else if (kind == Kind::Sum || kind == Kind::Scaling) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        use(node, i, isBias(node, i) ? Use::Bias : kind == Kind::Scaling ? Use::Scale : Use::Shift);
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
    if (kindOf(node) != Kind::Join)
      return use(node, 0, passed);
    const bool joinsData = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](const std::string &input) { return !hasData(input); });
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // A learned token beside the data's: named by the module.
      const std::string origin = originOf(node.inputs[i]);
      const bool isToken = joinsData && isFromPyTorch(model) && model.initializers.count(origin) &&
                           !isExporterMade(origin);
      use(node, i, isToken && !isLearnable(passed) ? Use::Shift : passed);
    }
  }

  void chooseDataInputs() {
    for (const auto &[name, input] : inputs) {
      const bool isNamed =
          named.parameters.count(name) != 0 || !named.data.empty() || model.signature;
      if (!candidates.count(name) || !(isNamed || isLearnable(roles.useOf(name))))
        roles.dataInputs.insert(name);
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
      bool touchesRaw = false, isRaw = true;
      for (const std::string &input : node.inputs) {
        touchesRaw |= raw.count(input) != 0;
        isRaw &= input.empty() || raw.count(input) || hasData(input);
      }
      const Kind kind = kindOf(node);
      isRaw &= touchesRaw && kind != Kind::Product && kind != Kind::Layer;
      for (const std::string &input : node.inputs)
        if (model.initializers.count(input)) {
          if (kind == Kind::Sum)
            summands.insert(input);
          if (kind == Kind::Scaling)
            factors.insert(input);
          (isRaw && (kind == Kind::Sum || kind == Kind::Scaling) ? normalizers : elsewhere)
              .insert(input);
        }
      if (isRaw)
        raw.insert(node.outputs.begin(), node.outputs.end());
      if (readsAny(node, roles.fromData))
        addResults(node, roles.fromData);
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
      if ((last != "running_mean" && last != "running_var") || !isLearnable(use) ||
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

  /// Weights, or not: the rules do not say.
  void findUnreached() {
    for (size_t n = 0; n < model.nodes.size(); ++n) {
      const Node &node = model.nodes[n];
      if (!roles.live[n])
        continue;
      for (const std::string &input : node.inputs) {
        auto found = model.initializers.find(input);
        if (found == model.initializers.end() || !isFloat(found->second.type) ||
            found->second.shape.empty() || checkedElementCount(found->second.shape) == 1 ||
            roles.useOf(input) != Use::None || named.parameters.count(input) ||
            roles.constants.count(input))
          continue;
        std::string &readers = roles.unreached[input];
        if (!absl::StrContains(", " + readers + ",", ", " + node.type + ","))
          readers += (readers.empty() ? "" : ", ") + node.type;
      }
    }
  }

  const Model &model;
  const NamedTensors &named;
  WeightsOf weightsOf;
  std::map<std::string, const Input *> inputs;
  std::set<std::string> candidates; ///< inputs that may be parameters
  std::map<std::string, const Node *> producers;
  std::set<std::string> summands, factors; ///< initializers that are added, or multiplied by
  Roles roles;
};

bool UseSite::flag(const char *name) const {
  auto found = node.attributes.find(name);
  return found != node.attributes.end() && found->second.i != 0;
}

bool UseSite::hasData(size_t i) const {
  return i < node.inputs.size() && analysis.hasData(node.inputs[i]);
}

bool UseSite::isOwn(size_t i) const {
  return hasData(i) || (i < node.inputs.size() && analysis.isUnfilledInput(node.inputs[i]));
}

bool UseSite::isFromData(size_t i) const {
  return i < node.inputs.size() && analysis.roles.fromData.count(node.inputs[i]) != 0;
}

bool UseSite::isConstantNode(size_t i) const {
  auto producer =
      i < node.inputs.size() ? analysis.producers.find(node.inputs[i]) : analysis.producers.end();
  return producer != analysis.producers.end() && producer->second->type == "Constant";
}

std::optional<size_t> UseSite::rankOf(size_t i) const {
  auto found = analysis.model.initializers.find(analysis.originOf(node.inputs.at(i)));
  return found == analysis.model.initializers.end() ? std::nullopt
                                                    : std::optional(found->second.shape.size());
}

bool UseSite::isNamedByModule(size_t i) const {
  const std::string origin = analysis.originOf(node.inputs.at(i));
  return isFromPyTorch(analysis.model) && analysis.model.initializers.count(origin) &&
         !isExporterMade(origin);
}

void UseSite::use(size_t i, Use kind) { analysis.use(node, i, kind); }

void UseSite::useProduct(Use left, Use right) {
  if (node.inputs.size() < 2)
    return;
  const std::string &first = node.inputs[0], &second = node.inputs[1];
  const bool isUnfilled = analysis.isUnfilledInput(second);
  if (hasData(1)) {
    use(1, right);
    // A learned initial state or query: named by the module, multiplied by its weight.
    if (analysis.model.initializers.count(first) && isNamedByModule(0))
      use(0, Use::Shift);
  } else if (isUnfilled && analysis.model.inputs.size() > 1 &&
             !analysis.model.initializers.count(analysis.originOf(first))) {
    // In a file without weights these are inputs: a constant beside one is an initial state.
    use(1, right);
  } else if (hasData(0)) {
    use(0, left);
  } else if (isUnfilled) {
    use(1, right);
  }
}

std::string describe(Use use) {
  switch (use) {
  case Use::None:
    return "no rule reaches it";
  case Use::Setting:
    return "a setting of an operator";
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

Roles analyzeRoles(const Model &model, const NamedTensors &named, WeightsOf weightsOf) {
  return Analysis(model, named, weightsOf).run();
}

} // namespace stow::onnx
