// Batch, group, layer and root-mean-square normalization, local response normalization and dropout.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

//===-- Planes --------------------------------------------------------------------------------===//

Value meanOf(NodeImport &node, Value x, int64_t axis) {
  return node.emit<ReduceMeanOp>(x, [&](ReduceMeanOp::Properties &p) {
    p.axes = node.array({axis});
    p.keepdims = node.boolean(true);
  });
}

Value broadcast(NodeImport &node, Value x, const Shape &shape) {
  auto type = RankedTensorType::get(shape, cast<RankedTensorType>(x.getType()).getElementType());
  return x.getType() == type ? x : node.emitAs<BroadcastToOp>(x, type);
}

/// Normalization over the planes of `groups` groups of channels, scaled and shifted per channel by
/// vectors of C elements, either of which may be null. The moments of a group come from those of
/// its planes: the mean of the means, and of variance plus squared distance of the means.
Value normalizePlanes(NodeImport &node, Value x, int64_t groups, Value scale, Value bias,
                      double epsilon) {
  Shape shape = shapeOf(x), planes = shape;
  if (planes.size() == 2)
    planes.push_back(1);
  int64_t samples = shape[0], channels = shape[1];
  if (groups < 1 || channels % groups != 0)
    throw Error::badInput(
        absl::StrCat("normalizes ", channels, " channels in ", groups, " groups"));
  x = node.reshape(x, planes);
  Shape grouped = {samples, groups, channels / groups};
  Value moments = node.emit<PlaneMomentsOp>(x);
  Value mean = node.reshape(moments, grouped);
  Value variance = node.reshape(moments.getDefiningOp()->getResult(1), grouped);
  if (grouped[2] > 1) {
    Value centre = meanOf(node, mean, 2), distance = node.emit<SubOp>({mean, centre});
    Value squared = node.emit<MulOp>({distance, distance});
    variance = meanOf(node, node.emit<AddOp>({variance, squared}), 2);
    mean = centre;
  }
  Value deviation = node.emit<SqrtOp>(node.emit<AddOp>({variance, node.scalar(epsilon, x)}));
  Value slope = node.emit<ReciprocalOp>(deviation);
  if (scale)
    slope = node.emit<MulOp>({slope, node.reshape(scale, {groups, grouped[2]})});
  Value shift = bias ? bias : node.scalar(0, x);
  Shape numbers(planes.size(), 1);
  numbers[0] = samples;
  numbers[1] = channels;
  SmallVector<Value> operands = {x};
  for (Value value : {mean, slope})
    operands.push_back(node.reshape(broadcast(node, value, grouped), numbers));
  operands.push_back(node.reshape(broadcast(node, shift, {samples, channels}), numbers));
  return node.reshape(node.emit<PlaneNormalizeOp>(operands), shape);
}

/// True for a constant of `value` everywhere.
bool isConstantOf(NodeImport &node, size_t i, double value) {
  const Literal *known = node.literal(i);
  if (!known || known->size() == 0)
    return false;
  for (int64_t k = 0; k < known->size(); ++k)
    if (known->number(k) != value)
      return false;
  return true;
}

void requireVector(NodeImport &node, size_t i, int64_t count) {
  if (node.shape(i) != Shape{count})
    throw Error::badInput(absl::StrCat("expects a vector of ", count, " elements as input ", i));
}

/// PyTorch exports group normalization as instance normalization of [N, groups, rest], without
/// scale: that is done where the tensor lies, whatever its layout.
void convertInstanceNorm(NodeImport &node) {
  const Shape &shape = node.shape(0);
  if (shape.size() < 2)
    throw Error::badInput("works on a tensor without channels");
  requireVector(node, 1, shape[1]);
  requireVector(node, 2, shape[1]);
  double epsilon = node.number("epsilon", 1e-5);
  Value x = node.value(0);
  auto view = x.getDefiningOp<ReshapeOp>();
  if (view && isConstantOf(node, 1, 1) && isConstantOf(node, 2, 0)) {
    Shape source = shapeOf(view.getX());
    if (source.size() > 2 && source[0] == shape[0] && source[1] % shape[1] == 0) {
      Value y = normalizePlanes(node, view.getX(), shape[1], {}, {}, epsilon);
      return node.bind(0, node.reshape(y, shape));
    }
  }
  node.bind(0, normalizePlanes(node, x, shape[1], node.value(1), node.value(2), epsilon));
}

/// Scale and bias have one element per group in opset 18 and one per channel since 21.
void convertGroupNorm(NodeImport &node) {
  const Shape &shape = node.shape(0);
  if (shape.size() < 2)
    throw Error::badInput("works on a tensor without channels");
  int64_t groups = node.integer("num_groups", 0), channels = shape[1];
  if (groups < 1 || channels % groups != 0)
    throw Error::badInput(
        absl::StrCat("normalizes ", channels, " channels in ", groups, " groups"));
  auto perChannel = [&](size_t i) {
    if (node.opset() >= 21) {
      requireVector(node, i, channels);
      return node.value(i);
    }
    requireVector(node, i, groups);
    Value column = node.reshape(node.value(i), {groups, 1});
    return node.reshape(broadcast(node, column, {groups, channels / groups}), {channels});
  };
  node.bind(0, normalizePlanes(node, node.value(0), groups, perChannel(1), perChannel(2),
                               node.number("epsilon", 1e-5)));
}

//===-- Batches -------------------------------------------------------------------------------===//

/// `x` with the channels before the samples, or the reverse.
Value swapped(NodeImport &node, Value x) {
  Shape order(shapeOf(x).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[1]);
  return node.emit<TransposeOp>(
      x, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); });
}

/// `x` as the planes of one sample: all elements of a channel are one.
Value channelPlanes(NodeImport &node, Value x) {
  Shape shape = shapeOf(x);
  Value channels = shape[0] == 1 ? x : swapped(node, x);
  return node.reshape(channels, {1, shape[1], elementCount(shape) / shape[1]});
}

/// The statistics after a step, outputs 1 and 2 of a training node: those before and the batch's own,
/// weighed by the momentum.
void bindStatistics(NodeImport &node, Value x) {
  if (!node.isRead(1) && !node.isRead(2))
    return;
  Value moments = node.emit<PlaneMomentsOp>(channelPlanes(node, x));
  const double momentum = node.number("momentum", 0.9);
  for (unsigned i : {1, 2}) {
    Value before = node.value(i + 2), own = moments.getDefiningOp()->getResult(i - 1);
    own = node.reshape(own, shapeOf(before));
    if (node.isRead(i))
      node.bind(i, node.emit<AddOp>({node.emit<MulOp>({before, node.scalar(momentum, before)}),
                                     node.emit<MulOp>({own, node.scalar(1 - momentum, own)})}));
  }
}

/// Statistics that the graph computes: with them in inference, without them in training, where the
/// batch's own count. A batch of one is its planes.
Value normalizeByComputed(NodeImport &node, bool isTraining) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  double epsilon = node.number("epsilon", 1e-5);
  if (!isTraining) {
    Shape numbers(shape.size() - 1, 1);
    numbers[0] = shape[1];
    auto spread = [&](size_t i) { return node.reshape(node.value(i), numbers); };
    Value centred = node.emit<SubOp>({x, spread(3)});
    Value deviation = node.emit<SqrtOp>(node.emit<AddOp>({node.value(4), node.scalar(epsilon, x)}));
    Value slope = node.emit<DivOp>({node.value(1), deviation});
    return node.emit<AddOp>({node.emit<MulOp>({centred, node.reshape(slope, numbers)}), spread(2)});
  }
  if (shape[0] == 1)
    return normalizePlanes(node, x, shape[1], node.value(1), node.value(2), epsilon);
  Value y = normalizePlanes(node, channelPlanes(node, x), shape[1], node.value(1), node.value(2),
                            epsilon);
  Shape apart = shape;
  std::swap(apart[0], apart[1]);
  return swapped(node, node.reshape(y, apart));
}

/// Any form of the node with stored statistics becomes stow.batch_norm, which trains with batch
/// statistics unless the file shows that its module evaluates it. ONNX weighs the old statistics with its momentum, stow (as PyTorch) the new ones.
void convertBatchNorm(NodeImport &node) {
  if (node.opset() < 9 && !node.flag("spatial", true))
    throw Error::badInput("normalizes every position by itself (spatial=0); only per-channel "
                          "statistics are supported");
  double momentum = decimal(static_cast<float>(1 - node.number("momentum", 0.9)));
  momentum = node.batchNormMomentum().value_or(momentum);
  if (!(momentum >= 0 && momentum <= 1))
    throw Error::badInput(absl::StrFormat("momentum %f lies outside [0, 1]", momentum));
  if (node.shape(0).size() < 2)
    throw Error::badInput("works on a tensor without channels");
  for (size_t i = 1; i < 5; ++i)
    requireVector(node, i, node.shape(0)[1]);
  SmallVector<Value> operands;
  for (size_t i = 0; i < 5; ++i)
    operands.push_back(node.value(i));
  if (!node.isState(3) || !node.isState(4)) {
    // Further outputs are those of training; before opset 14 they alone say so, and PyTorch writes
    // an instance normalization with running statistics in that form at every opset.
    bool isTraining = node.flag("training_mode", false) || node.node().outputs.size() > 1;
    bindStatistics(node, operands[0]);
    return node.bind(0, normalizeByComputed(node, isTraining));
  }
  for (size_t i = 1; i < node.node().outputs.size(); ++i) {
    if (node.isReadByNode(i))
      throw Error::badInput(absl::StrCat(
          "its statistics (output ", i,
          ") are read by another node, and are stored: the step updates them itself; only the "
          "normalized tensor is supported"));
    node.dropResult(i);
  }
  // [N,C,spatial...] of rank 6 and more keeps its channels when the rest is flattened.
  Shape shape = shapeOf(operands[0]);
  if (shape.size() > 5)
    operands[0] = node.reshape(operands[0], reshapedShape(shape, {0, 0, -1}, false));
  Value y = node.emit<BatchNormOp>(operands, [&](BatchNormOp::Properties &p) {
    p.epsilon = node.f64(node.number("epsilon", 1e-5));
    p.momentum = node.f64(momentum);
    p.frozen = node.isEvaluatedNorm() ? node.unit() : UnitAttr();
  });
  node.bind(0, node.reshape(y, shape));
}

/// y = x * (bias + alpha / size * s) ^ -beta, s the sum of squares over `size` channels.
void convertLrn(NodeImport &node) {
  int64_t size = node.integer("size", 0);
  if (size < 1 || size > INT32_MAX)
    throw Error::badInput(absl::StrCat("attribute 'size' is ", size));
  double alpha = node.number("alpha", 1e-4), beta = node.number("beta", 0.75);
  Value x = node.value(0);
  if (shapeOf(x).size() < 2)
    throw Error::badInput("works on a tensor without channels");
  Value sum = node.emit<ChannelWindowSumOp>(node.emit<MulOp>({x, x}), [&](auto &p) {
    p.before = node.i64((size - 1) / 2);
    p.after = node.i64(size / 2);
  });
  Value scale = node.emit<MulOp>({sum, node.scalar(alpha / double(size), x)});
  Value base = node.emit<AddOp>({scale, node.scalar(node.number("bias", 1), x)});
  Value factor = node.emit<PowOp>({base, node.scalar(-beta, x)});
  node.bind(0, node.emit<MulOp>({x, factor}));
}

/// The dimensions from `axis` on as one row.
struct Rows {
  explicit Rows(NodeImport &node) : shape(node.shape(0)) {
    auto rank = static_cast<int64_t>(shape.size());
    if (rank == 0)
      throw Error::badInput("normalizes a scalar");
    int64_t axis = normalizedAxis(node.integer("axis", -1), rank);
    row.assign(shape.begin() + axis, shape.end());
    rows.assign(shape.begin(), shape.begin() + axis);
    flat = rows.empty() ? Shape{1} : rows;
    flat.push_back(elementCount(row));
  }

  /// Input `i`, a scale or bias, as long as a row.
  Value vector(NodeImport &node, size_t i) const {
    Value given = node.value(i);
    auto joined = broadcastShapes(shapeOf(given), row);
    if (mlir::failed(joined) || Shape(joined->begin(), joined->end()) != row)
      throw Error::badInput("scale or bias does not broadcast to the normalized dimensions");
    return node.reshape(broadcast(node, given, row), {flat.back()});
  }

  Shape shape, row, rows, flat;
};

/// Root-mean-square normalization of the dimensions from `axis` on.
void convertRmsNorm(NodeImport &node) {
  Rows rows(node);
  SmallVector<Value> operands = {node.reshape(node.value(0), rows.flat), rows.vector(node, 1)};
  Value y = node.emit<RmsNormOp>(operands, [&](RmsNormOp::Properties &p) {
    p.epsilon = node.f64(node.number("epsilon", 1e-5));
  });
  node.bind(0, node.reshape(y, rows.shape));
}

/// Normalization of the dimensions from `axis` on, which become one. Mean and inverse deviation
/// keep those dimensions with extent 1.
void convertLayerNorm(NodeImport &node) {
  Rows rows(node);
  SmallVector<Value> operands = {node.reshape(node.value(0), rows.flat), rows.vector(node, 1)};
  if (node.has(2))
    operands.push_back(rows.vector(node, 2));
  Value y = node.emit<LayerNormOp>(operands, [&](LayerNormOp::Properties &p) {
    p.epsilon = node.f64(node.number("epsilon", 1e-5));
  });
  node.bind(0, node.reshape(y, rows.shape));
  Shape kept = rows.rows;
  kept.resize(rows.shape.size(), 1);
  for (unsigned i : {1, 2})
    if (node.isRead(i))
      node.bind(i, node.reshape(y.getDefiningOp()->getResult(i), kept));
}

void convertDropout(NodeImport &node) {
  double ratio = node.number("ratio", 0.5);
  if (node.has(1)) {
    const Literal &given = node.constant(1, "ratio");
    if (given.size() != 1)
      throw Error::badInput("expects one ratio");
    ratio = given.type == ElementType::Float ? decimal(float(given.number(0))) : given.number(0);
  }
  if (!(ratio >= 0 && ratio < 1))
    throw Error::badInput(absl::StrFormat("ratio %f lies outside [0, 1)", ratio));
  if (node.isRead(1))
    throw Error::badInput("its mask is read; only the output is supported");
  if (ratio == 0)
    return node.bindSlot(0, 0);
  node.bind(0, node.emit<DropoutOp>(node.value(0),
                                    [&](DropoutOp::Properties &p) { p.ratio = node.f64(ratio); }));
}

/// Scale and shift, and the statistics of a batch normalization. The ones and zeros that PyTorch gives an
/// InstanceNormalization, as Constant nodes, where it stands for a group normalization, nobody trains.
void usesOfNorm(UseSite &site) {
  const std::string &type = site.node.type;
  for (auto [i, kind] : {std::pair{1, Use::NormScale}, {2, Use::NormShift}})
    if (type != "InstanceNormalization" || !site.isConstantNode(i))
      site.use(i, kind);
  if (type == "BatchNormalization") {
    site.use(3, Use::Mean);
    site.use(4, Use::Variance);
  }
}

} // namespace

void addNormRules(RuleTable &table) {
  table["BatchNormalization"] = {convertBatchNorm, 5, 5};
  table["GroupNormalization"] = {convertGroupNorm, 3, 3};
  table["InstanceNormalization"] = {convertInstanceNorm, 3, 3};
  table["LayerNormalization"] = {convertLayerNorm, 2, 3};
  table["RMSNormalization"] = {convertRmsNorm, 2, 2};
  table["SimplifiedLayerNormalization"] = {convertRmsNorm, 2, 2};
  table["LRN"] = {convertLrn, 1, 1};
  table["Dropout"] = {convertDropout, 1, 3};
  takeWeights(table, {OpWeights::Kind::Layer, usesOfNorm},
              {"BatchNormalization", "GroupNormalization", "InstanceNormalization",
               "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"});
  takeWeights(table, {OpWeights::Kind::Altered}, {"Dropout"});
}

} // namespace stow::onnx
