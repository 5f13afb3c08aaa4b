// Graphs inside nodes: the branch of an If that a constant condition chooses, and the bodies of
// Loop and Scan, once for each of a known number of iterations.
//
// A body is imported like the graph around it, whose tensors it sees by name. What it defines
// stands under its own names while it is imported; the next iteration takes them anew. Weights are
// read from around the body, so that all iterations share them.
#include "compiler/import/GraphImport.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

using namespace mlir;

namespace stow::onnx {
namespace {

/// More iterations than this are taken for a mistake: every one becomes ops of its own.
constexpr int64_t kMostIterations = 1 << 16;

using Slots = std::vector<std::shared_ptr<Slot>>;

const Graph &bodyOf(const Node &node, const char *name) {
  auto found = node.attributes.find(name);
  if (found == node.attributes.end() || found->second.kind != NodeAttribute::Kind::Graph)
    throw Error::badInput(std::string("lacks the graph '") + name + "'");
  return *found->second.graph;
}

/// Checks how many inputs or outputs the body has.
void expectCount(const char *what, size_t found, size_t expected) {
  if (found != expected)
    throw Error::badInput(absl::StrCat("its body has ", found, " ", what, ", expected ", expected));
}

/// The results of all iterations behind one another, with a dimension of their own at `axis`.
/// Known ones are joined here.
std::shared_ptr<Slot> stacked(NodeImport &node, const Slots &parts, int64_t axis) {
  if (parts.empty())
    throw Error::badInput("collects the results of no iteration: a tensor without elements");
  axis = normalizedAxis(axis, parts[0]->shape.size() + 1);
  std::vector<Literal> known;
  for (const auto &part : parts)
    if (const Literal *literal = node.literal(*part))
      known.push_back(*literal);
  if (known.size() == parts.size()) {
    std::vector<const Literal *> inputs;
    for (Literal &literal : known) {
      literal.shape.insert(literal.shape.begin() + axis, 1);
      inputs.push_back(&literal);
    }
    Node concat;
    concat.type = "Concat";
    concat.outputs.resize(1);
    concat.attributes["axis"].kind = NodeAttribute::Kind::Int;
    concat.attributes["axis"].i = axis;
    return node.newSlot(std::move((*fold(concat, inputs))[0]));
  }
  SmallVector<Value> values;
  for (const auto &part : parts) {
    Value value = node.value(*part);
    Shape shape = shapeOf(value);
    shape.insert(shape.begin() + axis, 1);
    values.push_back(node.reshape(value, shape));
  }
  if (values.size() == 1)
    return node.newSlot(values[0]);
  return node.newSlot(
      node.emit<ConcatOp>(values, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); }));
}

/// Element `at` of `from` along `axis`.
std::shared_ptr<Slot> pickedFrom(NodeImport &node, Slot &from, int64_t axis, int64_t at) {
  Shape shape = from.shape, starts(shape.size(), 0), one = shape, rest = shape;
  starts[axis] = at;
  one[axis] = 1;
  rest.erase(rest.begin() + axis);
  if (const Literal *known = node.literal(from)) {
    int64_t inner = elementCount(Shape(shape.begin() + axis + 1, shape.end()));
    Literal part{known->type, rest, {}, {}};
    for (int64_t i = 0; i < elementCount(rest); ++i) {
      int64_t source = (i / inner * shape[axis] + at) * inner + i % inner;
      if (known->isFloat())
        part.floats.push_back(known->floats[source]);
      else
        part.ints.push_back(known->ints[source]);
    }
    return node.newSlot(std::move(part));
  }
  return node.newSlot(node.reshape(node.slice(node.value(from), starts, one), rest));
}

Literal scalarLiteral(ElementType type, int64_t value) { return {type, {}, {value}, {}}; }

/// The one integer or boolean of a known input.
int64_t knownScalar(const Literal &literal, const char *what) {
  if (literal.isFloat() || literal.size() != 1)
    throw Error::badInput(std::string("expects one whole number or boolean as ") + what);
  return literal.ints[0];
}

/// A list of one number per scanned tensor; `fallback` for all where it is absent.
std::vector<int64_t> perTensor(NodeImport &node, const char *name, size_t count) {
  auto given = node.integers(name);
  if (given && given->size() != count)
    throw Error::badInput(
        absl::StrCat("attribute '", name, "' has ", given->size(), " elements, expected ", count));
  return given.value_or(std::vector<int64_t>(count, 0));
}

} // namespace

/// Imports the nodes of `graph` with its inputs bound, and returns its outputs; none after an
/// obstacle. `place` tells iterations from one another in names.
Slots GraphImport::importGraph(NodeImport &import, const Graph &graph, const Slots &inputs,
                               const std::string &place) {
  std::set<std::string> own(graph.inputs.begin(), graph.inputs.end());
  for (const auto &[name, tensor] : graph.initializers)
    own.insert(name);
  for (const Node &inner : graph.nodes) {
    own.insert(inner.outputs.begin(), inner.outputs.end());
    readByNodes.insert(inner.inputs.begin(), inner.inputs.end());
    readByNodes.insert(inner.captured.begin(), inner.captured.end());
  }
  readByNodes.insert(graph.outputs.begin(), graph.outputs.end());
  std::map<std::string, std::shared_ptr<Slot>> hidden;
  for (const std::string &name : own)
    if (auto outer = slots.extract(name))
      hidden[name] = outer.mapped();
  const bool hadFailed = std::exchange(failed, false);
  for (const auto &[name, tensor] : graph.initializers)
    addInitializer(name, tensor);
  for (size_t i = 0; i < inputs.size(); ++i)
    slots[graph.inputs[i]] = inputs[i];
  for (const Node &inner : graph.nodes) {
    NodeImport nested(
        *this, inner,
        NameLoc::get(builder.getStringAttr(import.node().name + place + "/" + inner.name),
                     import.location));
    importNode(nested);
  }
  Slots outputs;
  for (const std::string &name : graph.outputs) {
    auto found = slots.find(name);
    if (found == slots.end())
      throw Error::badInput("its graph defines no '" + name + "'");
    outputs.push_back(found->second);
  }
  for (auto &[name, slot] : hidden)
    slots[name] = slot;
  if (failed)
    outputs.clear();
  failed |= hadFailed;
  return outputs;
}

/// The branch that a constant condition chooses, in the If's place.
void GraphImport::importBranch(NodeImport &import) {
  const Node &node = import.node();
  bool condition = knownScalar(import.constant(0, "condition"), "condition") != 0;
  const Graph &branch = bodyOf(node, condition ? "then_branch" : "else_branch");
  if (branch.outputs.size() != node.outputs.size())
    throw Error::badInput("lacks a branch with as many outputs as it has itself");
  expectCount("inputs", branch.inputs.size(), 0);
  Slots outputs = importGraph(import, branch, {}, "");
  if (outputs.size() != node.outputs.size())
    return failOutputs(node);
  for (size_t i = 0; i < outputs.size(); ++i)
    import.bindShared(i, outputs[i]);
}

/// Inputs: count, condition, carried tensors. The body maps (number, condition, carried) to
/// (condition, carried, collected). The loop runs `count` times, or until a condition is false;
/// both must be known before anything is computed.
void GraphImport::importLoop(NodeImport &import) {
  const Node &node = import.node();
  const Graph &body = bodyOf(node, "body");
  size_t carriedCount = node.inputs.size() - 2;
  expectCount("inputs", body.inputs.size(), carriedCount + 2);
  expectCount("outputs", body.outputs.size(), node.outputs.size() + 1);
  if (node.outputs.size() < carriedCount)
    throw Error::badInput(
        absl::StrCat("has ", node.outputs.size(), " outputs, expected ", carriedCount, " or more"));
  std::optional<int64_t> count;
  if (import.has(0))
    count = knownScalar(import.constant(0, "trip count"), "trip count");
  bool goesOn = !import.has(1) || knownScalar(import.constant(1, "condition"), "condition") != 0;
  Slots carried;
  for (size_t i = 2; i < node.inputs.size(); ++i)
    carried.push_back(import.sharedSlot(i));
  std::vector<Slots> collected(node.outputs.size() - carriedCount);
  for (int64_t i = 0; goesOn && (!count || i < *count); ++i) {
    if (i == kMostIterations)
      throw Error::badInput(absl::StrCat("runs more than ", kMostIterations, " times"));
    Slots inputs = {import.newSlot(scalarLiteral(ElementType::Int64, i)),
                    import.newSlot(scalarLiteral(ElementType::Bool, 1))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Slots outputs = importGraph(import, body, inputs, absl::StrCat("/", i));
    if (outputs.size() != body.outputs.size())
      return failOutputs(node);
    const Literal *condition = literalOf(*outputs[0]);
    if (!condition)
      throw Error::badInput(absl::StrCat("how often it runs depends on data: its condition '",
                                         body.outputs[0], "' is computed from data in iteration ",
                                         i, "; write the loop with a fixed number of steps"));
    goesOn = knownScalar(*condition, "condition") != 0;
    carried.assign(outputs.begin() + 1, outputs.begin() + 1 + carriedCount);
    for (size_t k = 0; k < collected.size(); ++k)
      collected[k].push_back(outputs[1 + carriedCount + k]);
  }
  for (size_t i = 0; i < carriedCount; ++i)
    import.bindShared(i, carried[i]);
  for (size_t k = 0; k < collected.size(); ++k)
    if (import.isRead(carriedCount + k))
      import.bindShared(carriedCount + k, stacked(import, collected[k], 0));
}

/// Inputs: states, then tensors that are scanned. The body maps (states, elements) to (states,
/// collected).
void GraphImport::importScan(NodeImport &import) {
  const Node &node = import.node();
  if (opset < 9)
    throw Error::badInput("has a batch of its own in opset 8; convert the model to opset 9 or "
                          "later with onnx.version_converter");
  const Graph &body = bodyOf(node, "body");
  int64_t given = import.integer("num_scan_inputs", 0);
  if (given < 1 || given > static_cast<int64_t>(node.inputs.size()))
    throw Error::badInput(absl::StrCat("attribute 'num_scan_inputs' is ", given, ", expected 1 to ",
                                       node.inputs.size()));
  auto scanned = static_cast<size_t>(given);
  size_t stateCount = node.inputs.size() - scanned;
  expectCount("inputs", body.inputs.size(), node.inputs.size());
  expectCount("outputs", body.outputs.size(), node.outputs.size());
  if (node.outputs.size() < stateCount)
    throw Error::badInput(
        absl::StrCat("has ", node.outputs.size(), " outputs, expected ", stateCount, " or more"));
  size_t collectedCount = node.outputs.size() - stateCount;
  std::vector<int64_t> axes = perTensor(import, "scan_input_axes", scanned);
  std::vector<int64_t> reversed = perTensor(import, "scan_input_directions", scanned);
  std::vector<int64_t> outputAxes = perTensor(import, "scan_output_axes", collectedCount);
  std::vector<int64_t> prepends = perTensor(import, "scan_output_directions", collectedCount);
  std::optional<int64_t> count;
  for (size_t k = 0; k < scanned; ++k) {
    const Shape &shape = import.shape(stateCount + k);
    axes[k] = normalizedAxis(axes[k], shape.size());
    if (count && *count != shape[axes[k]])
      throw Error::badInput(
          absl::StrCat("scans tensors of ", *count, " and ", shape[axes[k]], " elements"));
    count = shape[axes[k]];
  }
  if (*count > kMostIterations)
    throw Error::badInput(absl::StrCat("runs more than ", kMostIterations, " times"));
  Slots states;
  for (size_t i = 0; i < stateCount; ++i)
    states.push_back(import.sharedSlot(i));
  std::vector<Slots> collected(collectedCount);
  for (int64_t i = 0; i < *count; ++i) {
    Slots inputs = states;
    for (size_t k = 0; k < scanned; ++k)
      inputs.push_back(pickedFrom(import, import.slot(stateCount + k), axes[k],
                                  reversed[k] ? *count - 1 - i : i));
    Slots outputs = importGraph(import, body, inputs, absl::StrCat("/", i));
    if (outputs.size() != body.outputs.size())
      return failOutputs(node);
    states.assign(outputs.begin(), outputs.begin() + stateCount);
    for (size_t k = 0; k < collectedCount; ++k)
      collected[k].push_back(outputs[stateCount + k]);
  }
  for (size_t i = 0; i < stateCount; ++i)
    import.bindShared(i, states[i]);
  for (size_t k = 0; k < collectedCount; ++k) {
    if (prepends[k])
      std::reverse(collected[k].begin(), collected[k].end());
    if (import.isRead(stateCount + k))
      import.bindShared(stateCount + k, stacked(import, collected[k], outputAxes[k]));
  }
}

} // namespace stow::onnx
