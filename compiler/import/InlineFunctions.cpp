#include "compiler/import/InlineFunctions.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <set>
#include <utility>

namespace stow::onnx {
namespace {

/// Functions that call functions to this depth; none may call itself.
constexpr int kMostNested = 64;

/// Nodes that a model's calls may become: a function of two calls of one that has two calls, and so on, doubles them at each depth.
constexpr int64_t kMostNodes = int64_t(1) << 20;

using Names = std::map<std::string, std::string>;

class Inliner {
public:
  Inliner(Model &model, const std::function<bool(const Node &)> &isWhole)
      : model(model), isWhole(isWhole) {}

  void run() {
    for (const auto &[name, tensor] : model.initializers)
      names.insert(name);
    for (const Input &input : model.inputs)
      names.insert(input.name);
    for (const Node &node : model.nodes)
      names.insert(node.outputs.begin(), node.outputs.end());
    countNodes();
    model.nodes = inlined(std::move(model.nodes), 0);
    for (std::string &text : obstacles)
      if (std::find(model.obstacles.begin(), model.obstacles.end(), text) == model.obstacles.end())
        model.obstacles.push_back(std::move(text));
  }

private:
  const Function *calleeOf(const Node &node) const {
    auto found = model.functions.find({node.domain, node.type});
    return found == model.functions.end() || isWhole(node) ? nullptr : &found->second;
  }

  /// What each function's body becomes, its calls within it; as far as functions may be nested, and no more than one above the limit.
  void countNodes() {
    for (int depth = 0, changes = 1; changes > 0 && depth <= kMostNested; ++depth) {
      changes = 0;
      for (const auto &[name, function] : model.functions) {
        int64_t &count = counts[&function];
        const int64_t now = countOf(function.nodes);
        changes += now != count;
        count = now;
      }
    }
  }

  int64_t countOf(const std::vector<Node> &nodes) const {
    int64_t count = 1; // of the call itself, so that functions without nodes are counted too
    for (const Node &node : nodes) {
      const Function *callee = calleeOf(node);
      const auto known = counts.find(callee);
      count += known == counts.end() ? 1 : known->second;
      for (const auto &[name, attribute] : node.attributes)
        if (attribute.graph)
          count += countOf(attribute.graph->nodes);
      count = std::min(count, kMostNodes + 1);
    }
    return count;
  }

  std::vector<Node> inlined(std::vector<Node> nodes, int depth) {
    std::vector<Node> result;
    for (Node &node : nodes) {
      for (auto &[name, attribute] : node.attributes)
        if (attribute.graph) {
          auto graph = std::make_shared<Graph>(*attribute.graph);
          graph->nodes = inlined(std::move(graph->nodes), depth);
          attribute.graph = graph;
        }
      const Function *callee = calleeOf(node);
      if (!callee || !isReadable(node, *callee, depth)) {
        result.push_back(std::move(node));
        continue;
      }
      for (Node &inner : inlined(bodyFor(node, *callee), depth + 1))
        result.push_back(std::move(inner));
    }
    return result;
  }

  bool isReadable(const Node &call, const Function &callee, int depth) {
    std::string reason;
    const auto opset = callee.opsets.find("");
    const auto own = std::as_const(model).opsets.find("");
    if (depth == kMostNested)
      reason = absl::StrCat("is called ", depth, " functions deep; a function may not call itself");
    else if (call.inputs.size() > callee.inputs.size() ||
             call.outputs.size() > callee.outputs.size())
      reason = absl::StrCat("has ", callee.inputs.size(), " inputs and ", callee.outputs.size(),
                            " outputs; node '", call.name, "' gives ", call.inputs.size(), " and ",
                            call.outputs.size());
    else if (opset != callee.opsets.end() && own != model.opsets.end() &&
             opset->second != own->second)
      reason = absl::StrCat("is written in opset ", opset->second, " of ai.onnx, the model in ",
                            own->second, "; bring both to one with onnx.version_converter");
    else if (depth == 0 && counts.at(&callee) > room)
      reason = absl::StrCat(
          "becomes ", counts.at(&callee) > kMostNodes ? "more than " : "",
          std::min(counts.at(&callee), kMostNodes), " nodes where node '", call.name,
          "' calls it, with the functions that it calls; the calls of a model may become ",
          kMostNodes, " nodes together; export the model without these functions");
    if (reason.empty()) {
      if (depth == 0)
        room -= counts.at(&callee);
      return true;
    }
    obstacles.push_back(
        absl::StrCat("function '", call.type, "' of domain '", call.domain, "' ", reason));
    return false;
  }

  /// A name that no tensor of the graph has yet.
  std::string freshName(const std::string &wanted) {
    std::string name = wanted;
    for (int i = 2; !names.insert(name).second; ++i)
      name = absl::StrCat(wanted, "_", i);
    return name;
  }

  std::vector<Node> bodyFor(const Node &call, const Function &callee) {
    Names known{{"", ""}};
    auto give = [&](const std::vector<std::string> &own, const std::vector<std::string> &given) {
      for (size_t i = 0; i < own.size(); ++i)
        if (i < given.size() && (!given[i].empty() || &given == &call.inputs))
          known[own[i]] = given[i];
    };
    for (const std::string &input : callee.inputs)
      known[input] = ""; // left out, unless it is given
    give(callee.inputs, call.inputs);
    give(callee.outputs, call.outputs);
    std::vector<Node> nodes;
    // An output that is an input of the function has no node of its own.
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (auto input = std::find(callee.inputs.begin(), callee.inputs.end(), callee.outputs[i]);
          input != callee.inputs.end()) {
        Node copy = nodeLike(call, "Identity");
        copy.inputs = {known.at(*input)};
        copy.outputs = {call.outputs[i]};
        nodes.push_back(std::move(copy));
      }
    for (const Node &source : callee.nodes) {
      Node node = source;
      for (auto &[key, attribute] : node.attributes)
        substitute(attribute, call, callee);
      std::erase_if(node.attributes,
                    [](const auto &entry) { return !entry.second.reference.empty(); });
      rename(node, known, call.name + "/");
      node.fxNode = call.fxNode;
      node.modulePath = call.modulePath;
      node.pythonLine = call.pythonLine;
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  static Node nodeLike(const Node &call, const std::string &type) {
    Node node = call;
    node.type = type;
    node.domain.clear();
    node.attributes.clear();
    node.captured.clear();
    return node;
  }

  /// The call's attribute, or the function's default, in the place of a reference to it. One that neither has stays a
  /// reference: the node does without.
  static void substitute(NodeAttribute &attribute, const Node &call, const Function &callee) {
    if (attribute.graph) {
      auto graph = std::make_shared<Graph>(*attribute.graph);
      for (Node &inner : graph->nodes) {
        for (auto &[key, nested] : inner.attributes)
          substitute(nested, call, callee);
        std::erase_if(inner.attributes,
                      [](const auto &entry) { return !entry.second.reference.empty(); });
      }
      attribute.graph = graph;
    }
    if (attribute.reference.empty())
      return;
    const auto given = call.attributes.find(attribute.reference);
    const auto fallback = callee.defaults.find(attribute.reference);
    if (given != call.attributes.end())
      attribute = given->second;
    else if (fallback != callee.defaults.end())
      attribute = fallback->second;
  }

  /// The node's tensors by the names they have around the call; new ones behind `prefix`.
  void rename(Node &node, Names &known, const std::string &prefix) {
    auto renamed = [&](const std::string &name) {
      auto [entry, isNew] = known.try_emplace(name);
      if (isNew)
        entry->second = freshName(prefix + name);
      return entry->second;
    };
    node.name = prefix + node.name;
    for (std::vector<std::string> *list : {&node.inputs, &node.outputs, &node.captured})
      for (std::string &name : *list)
        name = renamed(name);
    for (auto &[key, attribute] : node.attributes) {
      if (!attribute.graph)
        continue;
      auto graph = std::make_shared<Graph>(*attribute.graph);
      std::map<std::string, Tensor> initializers;
      for (auto &[name, tensor] : graph->initializers)
        initializers.emplace(renamed(name), tensor);
      graph->initializers = std::move(initializers);
      for (std::vector<std::string> *list : {&graph->inputs, &graph->outputs})
        for (std::string &name : *list)
          name = renamed(name);
      for (Node &inner : graph->nodes)
        rename(inner, known, prefix);
      attribute.graph = graph;
    }
  }

  Model &model;
  const std::function<bool(const Node &)> &isWhole;
  std::set<std::string> names;
  std::map<const Function *, int64_t>
      counts;                ///< nodes of functions' bodies, with those of their calls
  int64_t room = kMostNodes; ///< nodes that further calls may become
  std::vector<std::string> obstacles;
};

} // namespace

void inlineFunctions(Model &model, const std::function<bool(const Node &)> &isWhole) {
  if (!model.functions.empty())
    Inliner(model, isWhole).run();
}

} // namespace stow::onnx
