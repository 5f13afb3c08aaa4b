#include "compiler/import/ExportCheck.h"

#include "compiler/import/TensorContent.h"
#include "runtime/base/Text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <filesystem>

namespace stow::onnx {
namespace {

/// Largest tensors that the exporter merges by their values (onnx_ir's DeduplicateInitializersPass)
/// when it optimizes.
constexpr int64_t kMergeLimit = 1024;

/// Lines of a message before "and N more".
constexpr size_t kShown = 12;

std::string inQuotes(const std::string &name) { return "'" + name + "'"; }

/// The scope in a node's name: "/layers.0/linear1" of "/layers.0/linear1/MatMul".
std::string scopeOf(const Node &node) {
  size_t end = node.name.rfind('/');
  return end == std::string::npos ? "" : node.name.substr(0, end);
}

/// True when `second` is a further call of the module of scope `first`: its components are the same
/// but for the "_1", "_2", ... that the legacy exporter appends to the calls after the first.
bool isSameModule(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    auto take = [](std::string_view &path) {
      path.remove_prefix(path.starts_with('/') ? 1 : 0);
      std::string_view component = path.substr(0, path.find('/'));
      path.remove_prefix(component.size());
      return component;
    };
    std::string_view a = take(first), b = take(second);
    if (a == b)
      continue;
    if (!b.starts_with(a) || b.size() < a.size() + 2 || b[a.size()] != '_' ||
        b.find_first_not_of("0123456789", a.size() + 1) != std::string_view::npos)
      return false;
  }
  return true;
}

/// "node 'n' (layer1.conv1, resnet.py:92)".
std::string place(const Node &node) {
  std::string where = node.modulePath;
  if (!node.pythonLine.empty())
    where += (where.empty() ? "" : ", ") + node.pythonLine;
  return "node " + inQuotes(node.name) + (where.empty() ? "" : " (" + where + ")");
}

bool startsWithAny(const std::string &text, std::initializer_list<const char *> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char *prefix) { return text.starts_with(prefix); });
}

class Check {
public:
  Check(const Model &model, const Roles &roles) : model(model), roles(roles) {
    for (size_t i = 0; i < model.nodes.size(); ++i) {
      if (!roles.live[i])
        continue;
      for (const std::string &output : model.nodes[i].outputs)
        producers[output] = i;
      for (const std::string &input : model.nodes[i].inputs)
        if (model.initializers.count(input))
          liveTensors.insert(input);
    }
  }

  ExportFindings run() {
    if (model.signature) {
      checkStated();
      checkMutatedBuffers();
    } else if (isFromPyTorch(model))
      checkNames();
    checkEvaluationMode();
    return std::move(findings);
  }

private:
  /// The nodes that were made from one operation of the exported program.
  struct Operation {
    std::string fxNode;
    const Node *last = nullptr;
    std::vector<std::string> reads; ///< initializers, directly or through arithmetic on constants
    std::string rules;
  };

  bool isStated(const std::string &name) const { return model.signature->find(name) != nullptr; }

  /// A float tensor that may hold parameters: more than one element, and no mask.
  bool mayHoldParameters(const std::string &name) const {
    const Tensor &tensor = model.initializers.at(name);
    return isFloat(tensor.type) && checkedElementCount(tensor.shape).value_or(0) > 1 &&
           !roles.masks.count(name);
  }

  static bool holds(const std::vector<std::string> &names, const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  void addInitializers(const std::string &name, std::vector<std::string> &reads) const {
    std::set<std::string> seen;
    std::vector<std::string> open = {name};
    while (!open.empty()) {
      std::string at = open.back();
      open.pop_back();
      if (at.empty() || !seen.insert(at).second)
        continue;
      const bool isStored = model.initializers.count(at) != 0;
      if (isStored && !holds(reads, at))
        reads.push_back(at);
      auto producer = producers.find(at);
      if (producer == producers.end() || roles.fromData.count(at))
        continue;
      const Node &node = model.nodes[producer->second];
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  std::vector<Operation> operations() const {
    std::vector<Operation> result;
    std::map<std::string, size_t> known;
    for (size_t i = 0; i < model.nodes.size(); ++i) {
      const Node &node = model.nodes[i];
      if (!roles.live[i] || node.fxNode.empty())
        continue;
      auto [at, isNew] = known.emplace(node.fxNode, result.size());
      if (isNew)
        result.emplace_back().fxNode = node.fxNode;
      Operation &operation = result[at->second];
      operation.last = &node;
      if (!node.rules.empty())
        operation.rules = node.rules;
      for (const std::string &input : node.inputs) {
        addInitializers(input, operation.reads);
        if (!model.initializers.count(input) && model.signature->find(input))
          operation.reads.push_back(input); // a parameter that is a graph input
      }
    }
    return result;
  }

  /// An export without optimizer passes: what is no stated tensor stands in Constant nodes.
  bool isUnoptimized() const {
    bool hasConstants = false;
    for (const Node &node : model.nodes)
      hasConstants |= node.type == "Constant";
    return hasConstants && std::all_of(model.initializers.begin(), model.initializers.end(),
                                       [&](const auto &entry) { return isStated(entry.first); });
  }

  /// Parameters `lost` by an operation are grouped by what it reads instead.
  void checkOperation(const Operation &operation) {
    std::set<std::string> mentioned;
    std::vector<std::string> lost;
    for (const std::string &argument : argumentsOf(operation.fxNode))
      if (auto *entry = model.signature->findArgument(argument);
          entry && entry->kind == GraphSignature::Kind::Parameter &&
          mentioned.insert(entry->target).second && !holds(operation.reads, entry->target))
        lost.push_back(entry->target);
    if (lost.empty())
      return;
    explained.insert(lost.begin(), lost.end());
    const std::string names = absl::StrJoin(
        lost, ", ", [](std::string *text, const auto &name) { text->append(inQuotes(name)); });
    const std::string of = place(*operation.last);
    const bool isNorm = operation.rules.find("BatchNorm") != std::string::npos;
    if (isNorm)
      return change(names + " folded into the weights of " + of + " by " + operation.rules);
    std::vector<std::string> others;
    std::string computed;
    for (const std::string &name : operation.reads)
      if (const GraphSignature::Entry *entry = model.signature->find(name)) {
        if (entry->kind == GraphSignature::Kind::Parameter && !mentioned.count(name))
          others.push_back(name);
      } else if (mayHoldParameters(name)) {
        computed += (computed.empty() ? "" : ", ") + inQuotes(name) + " " +
                    shapeText(model.initializers.at(name).shape);
      }
    if (!computed.empty())
      return change(names + " computed into " + computed + " for " + of + " by constant folding");
    if (others.size() == lost.size()) {
      for (size_t i = 0; i < lost.size(); ++i)
        checkShared(lost[i], others[i], of);
      return;
    }
    if (!others.empty())
      return change(names + " merged with " + inQuotes(others.front()) + " at " + of);
    for (const std::string &name : lost)
      if (!liveTensors.count(name) || operation.rules.find("Remove") != std::string::npos)
        change(inQuotes(name) + " left out of " + of +
               (operation.rules.empty() ? "" : " by " + operation.rules));
  }

  /// `name` reads the tensor of `other`: tied in the module, or merged for its values.
  void checkShared(const std::string &name, const std::string &other, const std::string &of) {
    auto found = model.initializers.find(other);
    const Tensor *tensor = found == model.initializers.end() ? nullptr : &found->second;
    const bool isTied =
        !tensor || (!isUniform(*tensor) &&
                    (unoptimized || checkedElementCount(tensor->shape).value_or(0) > kMergeLimit));
    if (isTied) {
      std::vector<std::string> &names = findings.ties[other];
      if (!holds(names, name))
        names.push_back(name);
      return;
    }
    change(inQuotes(name) + " merged with " + inQuotes(other) + " at " + of +
           (isUniform(*tensor) ? ": their values are equal, they are two parameters"
                               : ": tied in the module, or equal by chance; the file cannot tell"));
  }

  void checkStated() {
    unoptimized = isUnoptimized();
    for (const Operation &operation : operations())
      checkOperation(operation);
    std::vector<std::string> computed;
    for (const std::string &name : liveTensors)
      if (!isStated(name) && mayHoldParameters(name))
        computed.push_back(name);
    checkComputed(computed);
    for (const GraphSignature::Entry &entry : model.signature->inputs) {
      if (entry.kind != GraphSignature::Kind::Parameter || liveTensors.count(entry.target) ||
          explained.count(entry.target) || isLiveInput(entry.target))
        continue;
      if (computed.empty())
        findings.unused.push_back(entry.target);
      else
        change(inQuotes(entry.target) + " is not in the graph; the exporter computed " +
               inQuotes(computed.front()) + " " +
               shapeText(model.initializers.at(computed.front()).shape) +
               (computed.size() > 1 ? " and others" : "") + ", it may stand in there");
    }
  }

  bool isLiveInput(const std::string &name) const {
    for (size_t i = 0; i < model.nodes.size(); ++i)
      if (roles.live[i] && holds(model.nodes[i].inputs, name))
        return !model.initializers.count(name);
    return false;
  }

  /// Tensors that the exporter computed: copies of parameters, and results of layers.
  void checkComputed(const std::vector<std::string> &computed) {
    for (const std::string &name : computed) {
      const Tensor &tensor = model.initializers.at(name);
      if (std::string original = originalOf(tensor); !original.empty())
        change(inQuotes(name) + " " + shapeText(tensor.shape) + " is a copy of " +
               inQuotes(original) + "; trained apart, they are tied no more");
      else if (model.signature &&
               startsWithAny(name, {"linear", "addmm", "conv1d", "conv2d", "conv3d", "embedding",
                                    "layer_norm", "group_norm", "native_layer_norm"}))
        change(inQuotes(name) + " " + shapeText(tensor.shape) +
               " is the output of a layer, computed from its parameters by constant folding");
    }
  }

  /// The module's tensor whose elements `copy` holds, in another order perhaps; empty: none.
  std::string originalOf(const Tensor &copy) {
    if (isUniform(copy))
      return "";
    for (const std::string &name : liveTensors) {
      const Tensor &tensor = model.initializers.at(name);
      const bool isOwn = model.signature ? isStated(name) : !isExporterMade(name);
      if (isOwn && tensor.type == copy.type && tensor.bytes->size() == copy.bytes->size() &&
          hashOf(tensor) == hashOf(copy))
        return name;
    }
    return "";
  }

  uint64_t hashOf(const Tensor &tensor) {
    auto known = hashes.find(tensor.name);
    return known != hashes.end() ? known->second
                                 : hashes.emplace(tensor.name, contentHash(tensor)).first->second;
  }

  /// The legacy exporter's files: what it computed is named after the reader.
  void checkNames() {
    const bool hasNames =
        std::any_of(model.initializers.begin(), model.initializers.end(),
                    [](const auto &entry) { return !isExporterMade(entry.first); });
    if (!hasNames)
      return; // exporters before 2020 numbered every tensor
    std::vector<std::string> computed;
    std::string folded;
    for (const std::string &name : liveTensors)
      if (isExporterMade(name) && mayHoldParameters(name))
        computed.push_back(name);
    for (size_t i = 0; i < model.nodes.size(); ++i) {
      const Node &node = model.nodes[i];
      const bool isConv = node.type == "Conv" || node.type == "ConvTranspose";
      if (roles.live[i] && isConv && node.inputs.size() > 1 && liveTensors.count(node.inputs[1]) &&
          isExporterMade(node.inputs[1]))
        change("the weights of " + place(node) + " are " + inQuotes(node.inputs[1]) +
               ", computed by the exporter: a batch normalization is folded into them");
    }
    checkComputed(computed);
    for (const std::string &name : computed) {
      checkReaders(name);
      const Use use = roles.useOf(name);
      if (isLearnable(use) && !isWeightPosition(use) && !roles.constants.count(name))
        change(inQuotes(name) + " " + shapeText(model.initializers.at(name).shape) +
               " was computed by the exporter, from a parameter or from constants; the file cannot "
               "tell");
    }
    for (const std::string &name : liveTensors)
      if (const Tensor &tensor = model.initializers.at(name);
          tensor.shape.empty() && isFloat(tensor.type) && !isExporterMade(name))
        findings.warnings.push_back(inQuotes(name) +
                                    " is a scalar, which stays constant; exported with dynamo=True "
                                    "the file says whether it is a parameter");
    if (findings.changes.empty() && !computed.empty())
      findings.warnings.push_back(absl::StrCat(
          "computed by the exporter, and trained under that name where it is a weight: '",
          computed.front(), "'",
          computed.size() > 1 ? absl::StrCat(" and ", computed.size() - 1, " more") : "",
          "; exported with do_constant_folding=False the file keeps the module's own"));
  }

  /// A tensor computed for one module that another reads too: equal weights were merged. Layers
  /// that are copies of one, as nn.TransformerEncoder's, start so.
  void checkReaders(const std::string &name) {
    const Node *first = nullptr;
    std::set<std::string> names = {name}; // with those that Identity gives it
    for (size_t i = 0; i < model.nodes.size(); ++i) {
      const Node &node = model.nodes[i];
      if (!roles.live[i] || std::none_of(node.inputs.begin(), node.inputs.end(),
                                         [&](const auto &input) { return names.count(input); }))
        continue;
      if (node.type == "Identity")
        names.insert(node.outputs.begin(), node.outputs.end());
      else if (!first)
        first = &node;
      else if (!isSameModule(scopeOf(*first), scopeOf(node)))
        return change(inQuotes(name) + " is read by " + place(*first) + " and " + place(node) +
                      ": weights of two modules, merged because they are equal");
    }
  }

  /// State that the module's own forward writes, but for the statistics of a normalization, where the
  /// new value is no output of the file.
  void checkMutatedBuffers() {
    for (const std::string &name : model.signature->mutatedParameters)
      change(inQuotes(name) + " is written in place by the module's own forward, and its new value "
                              "is not in the file; forward must compute with a changed copy, the "
                              "training loop may write it between steps");
    for (const std::string &name : model.signature->mutatedBuffers) {
      const Use use = roles.useOf(name);
      if (liveTensors.count(name) && !model.signature->hasNextValue(name) && use != Use::Mean &&
          use != Use::Variance)
        findings.warnings.push_back(
            "buffer " + inQuotes(name) +
            " changes in every step of the module, but its new value is not "
            "in the file: here it keeps its value; stowage.export keeps the new one");
    }
  }

  /// Evaluation mode leaves dropouts out, which cannot be seen; norms in inference form can.
  void checkEvaluationMode() {
    if (!isFromPyTorch(model) || !findings.changes.empty() || keepsModes(model))
      return;
    for (size_t i = 0; i < model.nodes.size(); ++i) {
      const Node &node = model.nodes[i];
      if (!roles.live[i] || node.type != "BatchNormalization")
        continue;
      auto mode = node.attributes.find("training_mode");
      const bool isStatedInference = node.fxNode.find("no_training") != std::string::npos;
      const bool isInference =
          (mode == node.attributes.end() || mode->second.i == 0) && node.outputs.size() == 1;
      if (model.signature ? isStatedInference : isInference) {
        findings.warnings.push_back(
            "exported in evaluation mode: its batch normalizations become training ones, its "
            "dropouts, if the module has any, are not in the file; call model.train() before the "
            "export");
        return;
      }
    }
  }

  void change(const std::string &text) {
    if (!holds(findings.changes, text))
      findings.changes.push_back(text);
  }

  const Model &model;
  const Roles &roles;
  std::map<std::string, size_t> producers;
  std::set<std::string> liveTensors; ///< initializers that live nodes read
  std::set<std::string> explained;   ///< parameters that an operation lost
  std::map<std::string, uint64_t> hashes;
  bool unoptimized = false;
  ExportFindings findings;
};

} // namespace

ExportFindings checkExport(const Model &model, const Roles &roles) {
  return Check(model, roles).run();
}

std::string describeChanges(const ExportFindings &findings, const std::string &path) {
  const std::string file = std::filesystem::path(path).filename().string();
  std::string text = "the exporter changed the model: training this file would not train "
                     "the module it came from";
  for (size_t i = 0; i < std::min(kShown, findings.changes.size()); ++i)
    text += "\n  " + findings.changes[i];
  if (findings.changes.size() > kShown)
    absl::StrAppend(&text, "\n  and ", findings.changes.size() - kShown, " more");
  return text +
         "\nexport it for training, with the package in python/ or with PyTorch alone:\n"
         "  stowage.export(model, args, \"" +
         file +
         "\")\n"
         "  torch.onnx.export(model.train(), args, \"" +
         file +
         "\", dynamo=False, "
         "opset_version=18, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)\n"
         "or, where that exporter lacks an operator:\n"
         "  torch.onnx.export(model.train(), args, \"" +
         file +
         "\", dynamo=True, optimize=False)\n"
         "--allow-folded takes the file as it is";
}

void restoreMerged(Model &model) {
  if (!isFromPyTorch(model) || model.signature)
    return;
  for (Node &node : model.nodes) {
    const bool isMerge = node.type == "Identity" && node.domain.empty() &&
                         node.name.starts_with("Identity") && node.inputs.size() == 1 &&
                         node.outputs.size() == 1;
    if (!isMerge)
      continue;
    const std::string name = node.outputs[0];
    auto kept = model.initializers.find(node.inputs[0]);
    if (kept == model.initializers.end() || isExporterMade(name) ||
        name.find('.') == std::string::npos || model.initializers.count(name))
      continue;
    Tensor own = kept->second;
    own.name = name;
    model.initializers.emplace(name, std::move(own));
    node.inputs.clear();
    node.outputs.clear(); // no output: the node is dead
  }
}

} // namespace stow::onnx
