// Batch and layer normalization, local response normalization and dropout.
#include "compiler/import/GraphImport.h"

#include <cmath>

using namespace mlir;

namespace stow::onnx {
namespace {

/// Any form of the node becomes stow.batch_norm, which trains with batch statistics. ONNX weighs
/// the old statistics with its momentum, stow (as PyTorch) the new ones.
void convertBatchNorm(NodeImport &node) {
  if (node.opset() < 9 && !node.flag("spatial", true))
    throw Error::badInput("normalizes every position by itself (spatial=0); only per-channel "
                          "statistics are supported");
  for (size_t i = 1; i < node.node().outputs.size(); ++i) {
    if (node.isReadByNode(i))
      throw Error::badInput("its statistics (output " + std::to_string(i) +
                            ") are read by another node; only the normalized tensor is supported");
    node.dropResult(i);
  }
  double momentum = decimal(static_cast<float>(1 - node.number("momentum", 0.9)));
  momentum = node.batchNormMomentum().value_or(momentum);
  if (!(momentum >= 0 && momentum <= 1))
    throw Error::badInput("momentum " + std::to_string(momentum) + " lies outside [0, 1]");
  SmallVector<Value> operands;
  for (size_t i = 0; i < 5; ++i)
    operands.push_back(node.value(i));
  for (size_t i : {3, 4})
    if (!isa<BlockArgument>(operands[i]))
      throw Error::badInput("its running statistics ('" + node.node().inputs[i] +
                            "') are computed; they must be stored in the model");
  // [N,C,spatial...] of rank 5 and more keeps its channels when the rest is flattened.
  Shape shape = shapeOf(operands[0]);
  if (shape.size() > 4)
    operands[0] = node.reshape(operands[0], reshapedShape(shape, {0, 0, -1}, false));
  Value y = node.emit<BatchNormOp>(operands, [&](BatchNormOp::Properties &p) {
    p.epsilon = node.f64(node.number("epsilon", 1e-5));
    p.momentum = node.f64(momentum);
  });
  node.bind(0, node.reshape(y, shape));
}

/// y = x * (bias + alpha / size * s) ^ -beta, s the sum of squares over `size` channels.
void convertLrn(NodeImport &node) {
  int64_t size = node.integer("size", 0);
  if (size < 1 || size > INT32_MAX)
    throw Error::badInput("attribute 'size' is " + std::to_string(size));
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

/// Normalization of the dimensions from `axis` on, which become one. Mean and inverse deviation
/// keep those dimensions with extent 1.
void convertLayerNorm(NodeImport &node) {
  Value x = node.value(0);
  Shape shape = shapeOf(x);
  auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0)
    throw Error::badInput("normalizes a scalar");
  int64_t axis = normalizedAxis(node.integer("axis", -1), rank);
  Shape row(shape.begin() + axis, shape.end()), rows(shape.begin(), shape.begin() + axis);
  int64_t length = elementCount(row);
  auto vector = [&](size_t i) {
    Value given = node.value(i);
    auto type = cast<RankedTensorType>(given.getType());
    auto joined = broadcastShapes(type.getShape(), row);
    if (mlir::failed(joined) || Shape(joined->begin(), joined->end()) != row)
      throw Error::badInput("scale or bias does not broadcast to the normalized dimensions");
    if (shapeOf(given) != row)
      given = node.emitAs<BroadcastToOp>(given, RankedTensorType::get(row, type.getElementType()));
    return node.reshape(given, {length});
  };
  Shape flat = rows.empty() ? Shape{1} : rows;
  flat.push_back(length);
  SmallVector<Value> operands = {node.reshape(x, flat), vector(1)};
  if (node.has(2))
    operands.push_back(vector(2));
  Value y = node.emit<LayerNormOp>(operands, [&](LayerNormOp::Properties &p) {
    p.epsilon = node.f64(node.number("epsilon", 1e-5));
  });
  node.bind(0, node.reshape(y, shape));
  Shape kept = rows;
  kept.resize(rank, 1);
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
    throw Error::badInput("ratio " + std::to_string(ratio) + " lies outside [0, 1)");
  if (node.isRead(1))
    throw Error::badInput("its mask is read; only the output is supported");
  if (ratio == 0)
    return node.bindSlot(0, 0);
  node.bind(0, node.emit<DropoutOp>(node.value(0),
                                    [&](DropoutOp::Properties &p) { p.ratio = node.f64(ratio); }));
}

} // namespace

void addNormRules(RuleTable &table) {
  table["BatchNormalization"] = {convertBatchNorm, 5, 5};
  table["LayerNormalization"] = {convertLayerNorm, 2, 3};
  table["LRN"] = {convertLrn, 1, 1};
  table["Dropout"] = {convertDropout, 1, 3};
}

} // namespace stow::onnx
