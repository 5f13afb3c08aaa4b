// Sequences of static length: lists of slots that exist only during import.
#include "compiler/import/GraphImport.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

using Slots = std::vector<std::shared_ptr<Slot>>;

/// Folds an op of one input with these attributes; the input is a known tensor.
std::vector<Literal> folded(const char *type, const std::vector<const Literal *> &inputs,
                            std::map<std::string, NodeAttribute> attributes, size_t outputs) {
  Node node;
  node.type = type;
  node.outputs.resize(outputs);
  node.attributes = std::move(attributes);
  return *fold(node, inputs);
}

NodeAttribute integerAttribute(int64_t value) {
  NodeAttribute attribute;
  attribute.kind = NodeAttribute::Kind::Int;
  attribute.i = value;
  return attribute;
}

NodeAttribute listAttribute(std::vector<int64_t> values) {
  NodeAttribute attribute;
  attribute.kind = NodeAttribute::Kind::Ints;
  attribute.ints = std::move(values);
  return attribute;
}

/// Extents of the parts: given, equal ones of the given extent, or 1 each.
std::vector<int64_t> partSizes(NodeImport &node, int64_t extent) {
  if (!node.has(1))
    return std::vector<int64_t>(extent, 1);
  const Literal &given = node.constant(1, "split");
  if (given.isFloat())
    throw Error::badInput("splits by a float");
  std::vector<int64_t> sizes = given.ints;
  if (given.shape.empty() && !sizes.empty()) {
    int64_t size = sizes[0];
    if (size < 1)
      throw Error::badInput(absl::StrCat("splits into parts of ", size, " elements"));
    sizes.clear();
    for (int64_t at = 0; at < extent; at += size)
      sizes.push_back(std::min(size, extent - at));
  }
  int64_t sum = 0;
  for (int64_t size : sizes)
    if (size < 0 || (sum += size) > extent)
      throw Error::badInput(absl::StrCat("the parts do not fit ", extent, " elements"));
  if (sum != extent)
    throw Error::badInput(absl::StrCat("the parts do not add up to ", extent, " elements"));
  return sizes;
}

void convertSplitToSequence(NodeImport &node) {
  Shape shape = node.shape(0);
  int64_t axis = normalizedAxis(node.integer("axis", 0), shape.size());
  if (node.has(1) && !node.literal(1) && axis == 0)
    return node.bindSequence(0, node.rowParts(node.value(0), 1));
  std::vector<int64_t> sizes = partSizes(node, shape[axis]);
  bool drops = !node.has(1) && !node.flag("keepdims", true);
  Slots parts;
  if (const Literal *known = node.literal(0)) {
    for (Literal &part : folded("Split", {known},
                                {{"axis", integerAttribute(axis)}, {"split", listAttribute(sizes)}},
                                sizes.size())) {
      if (drops)
        part.shape.erase(part.shape.begin() + axis);
      parts.push_back(node.newSlot(std::move(part)));
    }
    return node.bindSequence(0, parts);
  }
  Value x = node.value(0);
  Shape starts(shape.size(), 0);
  for (int64_t size : sizes) {
    Shape part = shape;
    part[axis] = size;
    if (size == 0) { // known, though what it is taken from is not
      parts.push_back(node.newSlot(Literal{node.elementType(0), part, {}, {}}));
      continue;
    }
    Value y = part == shape ? x : node.slice(x, starts, part);
    if (drops)
      part.erase(part.begin() + axis);
    parts.push_back(node.newSlot(node.reshape(y, part)));
    starts[axis] += size;
  }
  node.bindSequence(0, parts);
}

void convertSequenceConstruct(NodeImport &node) {
  Slots parts;
  for (size_t i = 0; i < node.inputCount(); ++i)
    parts.push_back(node.sharedSlot(i));
  node.bindSequence(0, parts);
}

void convertSequenceEmpty(NodeImport &node) { node.bindSequence(0, {}); }

/// The position that input `i` names among `count`; `absent` without one.
int64_t positionOf(NodeImport &node, size_t i, int64_t count, int64_t absent) {
  if (!node.has(i))
    return absent;
  const Literal &given = node.constant(i, "position");
  if (given.isFloat() || given.size() != 1)
    throw Error::badInput("expects one integer as position");
  int64_t at = given.ints[0] + (given.ints[0] < 0 ? count : 0);
  if (at < 0 || at >= count)
    throw Error::badInput(absl::StrCat("names element ", given.ints[0], " of ", count));
  return at;
}

void convertSequenceAt(NodeImport &node) {
  Slots parts = node.sequence(0);
  node.bindShared(0, parts[positionOf(node, 1, parts.size(), 0)]);
}

void convertSequenceInsert(NodeImport &node) {
  Slots parts = node.sequence(0);
  auto count = static_cast<int64_t>(parts.size());
  parts.insert(parts.begin() + positionOf(node, 2, count + 1, count), node.sharedSlot(1));
  node.bindSequence(0, parts);
}

void convertSequenceLength(NodeImport &node) {
  Literal length;
  length.ints = {static_cast<int64_t>(node.sequence(0).size())};
  node.bindLiteral(0, std::move(length));
}

/// With new_axis the parts are stacked along a dimension of their own.
void convertConcatFromSequence(NodeImport &node) {
  Slots parts = node.sequence(0);
  if (parts.empty())
    throw Error::badInput("joins the elements of an empty sequence");
  bool stacks = node.flag("new_axis", false);
  int64_t rank = static_cast<int64_t>(parts[0]->shape.size()) + stacks;
  int64_t axis = normalizedAxis(node.integer("axis", 0), rank);
  std::vector<Literal> literals;
  for (const auto &part : parts)
    if (const Literal *known = node.literal(*part))
      literals.push_back(*known);
  if (literals.size() == parts.size()) {
    std::vector<const Literal *> inputs;
    for (Literal &literal : literals) {
      if (stacks)
        literal.shape.insert(literal.shape.begin() + axis, 1);
      inputs.push_back(&literal);
    }
    return node.bindLiteral(0, folded("Concat", inputs, {{"axis", integerAttribute(axis)}}, 1)[0]);
  }
  SmallVector<Value> values;
  for (const auto &part : parts) {
    Value value = node.value(*part);
    Shape shape = shapeOf(value);
    if (stacks)
      shape.insert(shape.begin() + axis, 1);
    values.push_back(node.reshape(value, shape));
  }
  if (values.size() == 1)
    return node.bind(0, values[0]);
  node.bind(0,
            node.emit<ConcatOp>(values, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); }));
}

} // namespace

void addSequenceRules(RuleTable &table) {
  table["SplitToSequence"] = {convertSplitToSequence, 1, 2};
  table["SequenceConstruct"] = {convertSequenceConstruct, 1, SIZE_MAX};
  table["SequenceEmpty"] = {convertSequenceEmpty, 0, 0};
  table["SequenceAt"] = {convertSequenceAt, 2, 2};
  table["SequenceInsert"] = {convertSequenceInsert, 2, 3};
  table["SequenceLength"] = {convertSequenceLength, 1, 1};
  table["ConcatFromSequence"] = {convertConcatFromSequence, 1, 1};
}

} // namespace stow::onnx
