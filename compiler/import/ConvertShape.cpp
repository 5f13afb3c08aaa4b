// Shapes, views and data movement. Ops on known tensors were folded before they come here.
#include "compiler/import/ConvertResample.h"
#include "ir/StowDetachOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <limits>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

void convertConstant(NodeImport &node) {
  Literal literal;
  const auto &attributes = node.node().attributes;
  auto given = [&](const char *name) { return attributes.count(name) != 0; };
  if (given("value_int")) {
    literal.ints = {node.integer("value_int", 0)};
  } else if (given("value_ints")) {
    literal = Literal::vector(*node.integers("value_ints"));
  } else if (given("value_float")) {
    literal.type = ElementType::Float;
    literal.floats = {node.number("value_float", 0)};
  } else if (given("value_floats")) {
    literal.type = ElementType::Float;
    for (float value : attributes.at("value_floats").floats)
      literal.floats.push_back(value);
    literal.shape = {static_cast<int64_t>(literal.floats.size())};
  } else {
    throw Error::badInput("holds no dense number or tensor");
  }
  node.bindLiteral(0, std::move(literal));
}

/// Sources are bound before conversion; what is left has no valid form.
void convertSource(NodeImport &) { throw Error::badInput("has no output"); }

/// The importer takes the graphs inside these nodes before it comes to a converter.
void convertGraphNode(NodeImport &) { throw Error::badInput("has no graph"); }

/// Ops that only exist on known integers: shape arithmetic.
void convertFolded(NodeImport &node) {
  for (size_t i = 0; i < node.inputCount(); ++i)
    if (node.has(i))
      node.constant(i, "input");
  throw Error::badInput("is supported on constants only");
}

void convertShapeOp(NodeImport &node) {
  const Shape &shape = node.shape(0);
  int64_t rank = static_cast<int64_t>(shape.size());
  SliceRange range = sliceRange(node.integer("start", 0),
                                node.integer("end", std::numeric_limits<int64_t>::max()), 1, rank);
  node.bindLiteral(
      0, Literal::vector({shape.begin() + range.start, shape.begin() + range.start + range.count}));
}

/// Ones along a diagonal of a matrix of the input's shape.
void convertEyeLike(NodeImport &node) {
  const Shape &shape = node.shape(0);
  if (shape.size() != 2)
    throw Error::badInput(
        absl::StrCat("takes the shape of a tensor of rank ", shape.size(), "; expected a matrix"));
  Literal eye;
  eye.type =
      static_cast<ElementType>(node.integer("dtype", static_cast<int64_t>(node.elementType(0))));
  eye.shape = shape;
  if (std::optional<int64_t> count = checkedElementCount(shape); !count || *count > kLiteralLimit)
    throw Error::badInput(absl::StrCat("has more than ", kLiteralLimit, " elements"));
  int64_t diagonal = node.integer("k", 0);
  for (int64_t row = 0; row < shape[0]; ++row)
    for (int64_t column = 0; column < shape[1]; ++column) {
      bool isOne = column - row == diagonal;
      if (eye.isFloat())
        eye.floats.push_back(isOne);
      else
        eye.ints.push_back(isOne);
    }
  node.bindLiteral(0, std::move(eye));
}

void convertSize(NodeImport &node) {
  Literal literal;
  literal.ints = {elementCount(node.shape(0))};
  node.bindLiteral(0, literal);
}

/// The target shape with a baked-in batch replaced, where the data grew with the batch. A target
/// that was computed from shapes knows the batch itself.
std::vector<int64_t> rebatched(NodeImport &node, std::vector<int64_t> target, const Shape &input) {
  const Shape *before = node.inputShapeBefore(0), *result = node.outputShapeBefore(0);
  if (!before || !result || *before == input || !node.batchChange())
    return target;
  if (node.followsBatch(1)) {
    try {
      reshapedShape(input, target, node.flag("allowzero", false));
      return target;
    } catch (const Error &) {
      // Only a part of it was computed.
    }
  }
  auto [from, to] = *node.batchChange();
  return carriedShape(*before, input, *result, {from, to}, node.mergedDims()).value_or(target);
}

void convertReshape(NodeImport &node) {
  Value x = node.value(0);
  const Literal &target = node.constant(1, "shape");
  if (target.isFloat())
    throw Error::badInput("reshapes to a float shape");
  Shape shape = shapeOf(x);
  node.bind(0, node.reshape(x, reshapedShape(shape, rebatched(node, target.ints, shape),
                                             node.flag("allowzero", false))));
}

void convertFlatten(NodeImport &node) {
  node.bind(0, node.reshape(node.value(0), flattenedShape(node.shape(0), node.integer("axis", 1))));
}

/// Axes of Squeeze and Unsqueeze: an attribute before opset 13, an input since.
std::optional<std::vector<int64_t>> givenAxes(NodeImport &node) {
  return axesOf(node.node(), "axes", node.has(1) ? &node.constant(1, "axes") : nullptr);
}

void convertSqueeze(NodeImport &node) {
  node.bind(0, node.reshape(node.value(0), squeezedShape(node.shape(0), givenAxes(node))));
}

void convertUnsqueeze(NodeImport &node) {
  auto axes = givenAxes(node);
  if (!axes)
    throw Error::badInput("lacks axes");
  node.bind(0, node.reshape(node.value(0), unsqueezedShape(node.shape(0), *axes)));
}

/// PyTorch's default exporter writes a detach as an Identity, beside the operation that it was. The
/// former one leaves it out.
void convertIdentity(NodeImport &node) {
  const std::string operation = operationOf(node.node().fxNode);
  bool isDetach = operation == "detach.default" || operation == "detach_.default";
  if (!isDetach || node.literal(0) || !isa<FloatType>(elementOf(node.value(0))))
    return node.bindSlot(0, 0);
  node.bind(0, node.emit<DetachOp>(node.value(0)));
}

void convertTranspose(NodeImport &node) {
  Value x = node.value(0);
  std::vector<int64_t> order(shapeOf(x).size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.integers("perm").value_or(order);
  checkPermutation(order, shapeOf(x).size());
  if (llvm::is_sorted(order))
    return node.bindSlot(0, 0);
  node.bind(0, node.emit<TransposeOp>(
                   x, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); }));
}

void convertConcat(NodeImport &node) {
  if (node.readsRowParts())
    return node.bind(0, node.joinedRowParts(node.integer("axis", 0)));
  SmallVector<Value> inputs;
  size_t last = 0;
  for (size_t i = 0; i < node.inputCount(); ++i) {
    if (elementCount(node.shape(i)) == 0) // adds nothing, whatever it is: no tensor is made of it
      continue;
    last = i;
    inputs.push_back(node.value(i));
  }
  if (inputs.size() <= 1)
    return node.bindSlot(0, last);
  if (!node.node().attributes.count("axis"))
    throw Error::badInput("lacks attribute 'axis'");
  int64_t axis = normalizedAxis(node.integer("axis", 0), node.shape(0).size());
  node.bind(0,
            node.emit<ConcatOp>(inputs, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); }));
}

/// A part of input 0 without elements: known, though what it is taken from is not. Joined, it adds nothing.
Literal nothingOf(NodeImport &node, const Shape &shape) {
  Literal nothing;
  nothing.type = node.elementType(0);
  nothing.shape = shape;
  return nothing;
}

/// Sizes of the parts: given, or equal with a smaller last one.
std::vector<int64_t> splitSizes(NodeImport &node, int64_t extent) {
  std::optional<std::vector<int64_t>> given = node.integers("split");
  if (node.has(1))
    given = node.constant(1, "split").ints;
  if (given)
    return *given;
  int64_t parts = node.integer("num_outputs", node.node().outputs.size());
  if (parts < 1 || parts > extent)
    throw Error::badInput(absl::StrCat("splits ", extent, " elements into ", parts, " parts"));
  int64_t size = (extent + parts - 1) / parts;
  std::vector<int64_t> sizes(parts, size);
  sizes.back() = extent - size * (parts - 1);
  return sizes;
}

void convertSplit(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x), starts(shape.size(), 0);
  int64_t axis = normalizedAxis(node.integer("axis", 0), shape.size());
  std::vector<int64_t> sizes = splitSizes(node, shape[axis]);
  int64_t left = shape[axis];
  for (int64_t size : sizes)
    if (size < 0 || (left -= size) < 0)
      throw Error::badInput(absl::StrCat("the parts do not fit ", shape[axis], " elements"));
  if (left != 0 || sizes.size() != node.node().outputs.size())
    throw Error::badInput(
        absl::StrCat("the parts do not add up to ", shape[axis], " elements, one part per output"));
  for (size_t i = 0; i < sizes.size(); ++i) {
    Shape part = shape;
    part[axis] = sizes[i];
    if (node.isRead(i) && elementCount(part) == 0)
      node.bindLiteral(i, nothingOf(node, part));
    else if (node.isRead(i))
      node.bind(i, node.slice(x, starts, part));
    starts[axis] += sizes[i];
  }
}

void convertSlice(NodeImport &node) {
  auto list = [&](const char *name, size_t i) -> std::optional<std::vector<int64_t>> {
    if (node.has(i))
      return node.constant(i, name).ints;
    return node.integers(name);
  };
  auto first = list("starts", 1), last = list("ends", 2), axes = list("axes", 3);
  auto steps = list("steps", 4);
  if (!first || !last || first->size() != last->size() || (axes && axes->size() != first->size()) ||
      (steps && steps->size() != first->size()))
    throw Error::badInput("starts, ends, axes and steps disagree in length");
  Value x = node.value(0);
  Shape shape = shapeOf(x), starts(shape.size(), 0), sizes = shape, strides(shape.size(), 1);
  for (size_t k = 0; k < first->size(); ++k) {
    int64_t axis = normalizedAxis(axes ? (*axes)[k] : k, shape.size());
    SliceRange range = sliceRange((*first)[k], (*last)[k], steps ? (*steps)[k] : 1, shape[axis]);
    starts[axis] = range.start;
    sizes[axis] = range.count;
    strides[axis] = range.count > 1 ? range.step : 1;
  }
  if (elementCount(sizes) == 0)
    return node.bindLiteral(0, nothingOf(node, sizes));
  if (strides != Shape(shape.size(), 1))
    return node.bind(0, node.emit<StridedSliceOp>(x, [&](StridedSliceOp::Properties &p) {
      p.starts = node.array(starts);
      p.sizes = node.array(sizes);
      p.steps = node.array(strides);
    }));
  if (sizes == shape)
    return node.bindSlot(0, 0);
  node.bind(0, node.slice(x, starts, sizes));
}

/// Pads and value are attributes before opset 11 and inputs since. Negative pads cut.
void convertPad(NodeImport &node) {
  std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    throw Error::badInput("pads in mode '" + mode + "'; expected constant, reflect, edge or wrap");
  std::optional<std::vector<int64_t>> pads = node.integers("pads");
  double value = node.number("value", 0);
  if (node.has(1))
    pads = node.constant(1, "pads").ints;
  if (node.has(2)) {
    const Literal &given = node.constant(2, "value");
    if (given.size() != 1)
      throw Error::badInput("expects one value to pad with");
    value = given.number(0);
  }
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3))
    axes = node.constant(3, "axes").ints;
  if (!pads || pads->size() != 2 * axes.size())
    throw Error::badInput("expects two pads per axis");
  Shape before(shape.size(), 0), after(shape.size(), 0), cut(shape.size(), 0), sizes = shape;
  std::vector<AxisRows> own; // padding by the tensor's own elements
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t axis = normalizedAxis(axes[k], shape.size());
    int64_t low = (*pads)[k], high = (*pads)[k + axes.size()];
    if (std::max(std::abs(low >> 1), std::abs(high >> 1)) > (int64_t(1) << 31))
      throw Error::badInput(absl::StrCat("pads by ", low, " and ", high));
    if (mode != "constant") {
      if (shape[axis] + low + high < 1 || low + high > (1 << 22))
        throw Error::badInput(absl::StrCat("pads dimension ", axis, " of ", shape[axis],
                                           " elements by ", low, " and ", high));
      if (low != 0 || high != 0)
        own.push_back({axis, paddingRows(mode, shape[axis], low, high)});
      continue;
    }
    before[axis] = std::max<int64_t>(low, 0);
    after[axis] = std::max<int64_t>(high, 0);
    cut[axis] = std::max<int64_t>(-low, 0);
    sizes[axis] -= cut[axis] + std::max<int64_t>(-high, 0);
  }
  if (!own.empty())
    return node.bind(0, resample(node, x, std::move(own)));
  if (sizes != shape)
    x = node.slice(x, cut, sizes);
  if (elementCount(before) == 0 && before == after && before == Shape(shape.size(), 0))
    return node.bind(0, x);
  node.bind(0, node.emit<PadOp>(x, [&](PadOp::Properties &p) {
    p.before = node.array(before);
    p.after = node.array(after);
    p.value = node.f64(value);
  }));
}

/// The middle of each axis that is too long, zeros around one that is too short; of an odd number of
/// elements the larger part lies behind.
void convertCenterCropPad(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x), starts(shape.size(), 0), sizes = shape;
  Shape before(shape.size(), 0), after(shape.size(), 0);
  const Literal &target = node.constant(1, "shape");
  std::vector<int64_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes").value_or(axes);
  if (target.isFloat() || target.size() != static_cast<int64_t>(axes.size()))
    throw Error::badInput("expects one whole extent per axis");
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t axis = normalizedAxis(axes[k], shape.size()), wanted = target.ints[k];
    if (wanted < 1 || wanted > (int64_t(1) << 31))
      throw Error::badInput(absl::StrCat("makes dimension ", axis, " ", wanted, " elements long"));
    int64_t missing = std::max<int64_t>(wanted - shape[axis], 0);
    starts[axis] = std::max<int64_t>(shape[axis] - wanted, 0) / 2;
    sizes[axis] = std::min(shape[axis], wanted);
    before[axis] = missing / 2;
    after[axis] = missing - missing / 2;
  }
  if (sizes != shape)
    x = node.slice(x, starts, sizes);
  if (after != Shape(shape.size(), 0))
    x = node.emit<PadOp>(x, [&](PadOp::Properties &p) {
      p.before = node.array(before);
      p.after = node.array(after);
      p.value = node.f64(0);
    });
  node.bind(0, x);
}

/// Numpy broadcast to a constant shape. A leading dimension equal to the file's batch follows the
/// new one, as the result meets data of that batch; so does one whose data grew.
void convertExpand(NodeImport &node) {
  const Literal &target = node.constant(1, "shape");
  if (target.isFloat())
    throw Error::badInput("expands to a float shape");
  Value x = node.value(0);
  SmallVector<int64_t> wanted(target.ints.begin(), target.ints.end());
  auto change = node.batchChange();
  const bool isStatic = change && !node.followsBatch(1);
  if (isStatic && wanted.size() >= 2 && wanted[0] == change->first)
    wanted[0] = change->second;
  const Shape now = shapeOf(x), *before = node.inputShapeBefore(0);
  const bool isKnown = isStatic && before && before->size() == now.size();
  for (size_t d = 0; isKnown && d < std::min(now.size(), wanted.size()); ++d)
    if (size_t i = now.size() - 1 - d, w = wanted.size() - 1 - d;
        (*before)[i] != now[i] && wanted[w] == (*before)[i])
      wanted[w] = now[i];
  auto shape = broadcastShapes(shapeOf(x), wanted);
  if (mlir::failed(shape))
    throw Error::badInput("the data does not broadcast to the shape");
  Shape result(shape->begin(), shape->end());
  if (result == shapeOf(x))
    return node.bindSlot(0, 0);
  auto element = cast<RankedTensorType>(x.getType()).getElementType();
  if (!checkedElementCount(result) || *checkedElementCount(result) == 0)
    throw Error::badInput("expands to an empty or too large shape");
  node.bind(0, node.emitAs<BroadcastToOp>(x, RankedTensorType::get(result, element)));
}

/// Boolean masks as indices.
void convertNonZero(NodeImport &node) {
  if (!node.literal(0))
    throw Error::badInput("picks what a mask ('" + node.node().inputs[0] +
                          "') holds true, and how much that is would depend on data; select by "
                          "Where or multiply by the mask instead, and keep what is known, such as "
                          "the edges of a fixed graph, in a buffer of the module");
  convertFolded(node);
}

} // namespace

void addShapeRules(RuleTable &table) {
  table["If"] = {convertGraphNode, 1, 1};
  table["Loop"] = {convertGraphNode, 2, SIZE_MAX};
  table["Scan"] = {convertGraphNode, 1, SIZE_MAX};
  table["Constant"] = {convertConstant, 0, 0};
  table["ConstantOfShape"] = {convertSource, 1, 1};
  table["Shape"] = {convertShapeOp, 1, 1};
  table["Size"] = {convertSize, 1, 1};
  table["Reshape"] = {convertReshape, 2, 2};
  table["Flatten"] = {convertFlatten, 1, 1};
  table["Squeeze"] = {convertSqueeze, 1, 2};
  table["Unsqueeze"] = {convertUnsqueeze, 1, 2};
  table["Identity"] = {convertIdentity, 1, 1};
  table["Transpose"] = {convertTranspose, 1, 1};
  table["Concat"] = {convertConcat, 1, SIZE_MAX};
  table["Split"] = {convertSplit, 1, 2};
  table["Slice"] = {convertSlice, 1, 5};
  table["Pad"] = {convertPad, 1, 4};
  table["CenterCropPad"] = {convertCenterCropPad, 2, 2};
  table["EyeLike"] = {convertEyeLike, 1, 1};
  table["Expand"] = {convertExpand, 2, 2};
  table["Range"] = {convertFolded, 1, 3};
  table["NonZero"] = {convertNonZero, 1, 1};
  takeWeights(table, {OpWeights::Kind::View},
              {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "Split",
               "Slice", "Expand"});
  takeWeights(table, {OpWeights::Kind::Altered}, {"Pad", "CenterCropPad"});
  takeWeights(table, {OpWeights::Kind::Join}, {"Concat"});
  takeWeights(table, {OpWeights::Kind::Settings},
              {"Shape", "Size", "EyeLike", "Range", "NonZero", "ConstantOfShape"});
}

} // namespace stow::onnx
