// Attention and RotaryEmbedding of opset 23, by the ops they stand for.
#include "compiler/import/GraphImport.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include <absl/strings/str_cat.h>
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace stow::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value transposed(NodeImport &node, Value x, ArrayRef<int64_t> order) {
  return node.emit<TransposeOp>(
      x, [&](TransposeOp::Properties &p) { p.permutation = node.array(order); });
}

Value joined(NodeImport &node, ValueRange parts, int64_t axis) {
  return node.emit<ConcatOp>(parts, [&](ConcatOp::Properties &p) { p.axis = node.i64(axis); });
}

Value product(NodeImport &node, Value a, Value b, bool transposeB) {
  return node.emit<MatmulOp>({a, b}, [&](MatmulOp::Properties &p) {
    p.transpose_a = node.boolean(false);
    p.transpose_b = node.boolean(transposeB);
  });
}

/// Input `i` as [batch, heads, positions, size].
Value heads(NodeImport &node, size_t i, const char *attribute) {
  Value x = node.value(i);
  Shape shape = shapeOf(x);
  if (shape.size() == 4)
    return x;
  int64_t count = node.integer(attribute, 0);
  if (shape.size() != 3 || count < 1 || shape[2] % count != 0)
    throw Error::badInput(absl::StrCat(
        "input ", i, " has no heads: expects rank 4, or rank 3 and attribute '", attribute, "'"));
  return transposed(node, node.reshape(x, {shape[0], shape[1], count, shape[2] / count}),
                    {0, 2, 1, 3});
}

/// Positions 0 to count - 1 from `first` on, as a constant of `shape`.
Value positions(NodeImport &node, int64_t first, int64_t count, const Shape &shape) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return node.integers(values, shape);
}

/// Scores that the mask, and with is_causal the order of positions, leave; -infinity elsewhere.
Value masked(NodeImport &node, Value scores, int64_t past) {
  Shape shape = shapeOf(scores);
  Value none = node.scalar(-kInfinity, scores);
  if (node.has(3)) {
    Value mask = node.value(3);
    Shape given = shapeOf(mask);
    if (given.empty() || (given.back() != shape[3] && given.back() != 1))
      throw Error::badInput(absl::StrCat("has a mask for ", given.empty() ? 0 : given.back(),
                                         " keys, expected ", shape[3]));
    scores = elementOf(mask).isInteger(1) ? node.emit<SelectOp>({mask, scores, none})
                                          : node.emit<AddOp>({scores, mask});
    if (shapeOf(scores) != shape)
      throw Error::badInput("has a mask that does not broadcast to the scores");
  }
  if (!node.flag("is_causal", false))
    return scores;
  Value seen = node.compare(positions(node, 0, shape[3], {shape[3]}),
                            positions(node, past, shape[2], {shape[2], 1}), "le");
  return node.emit<SelectOp>({seen, scores, none});
}

/// True unless it is known that the mask, and with is_causal the order of positions, leave each query a key. The mask broadcasts to
/// `scores`, [batch, heads, queries, keys].
bool mayLeaveNoKey(NodeImport &node, const Shape &scores, int64_t past) {
  if (!node.has(3))
    return false;
  const Literal *mask = node.literal(3);
  if (!mask || mask->shape.empty() || mask->shape.back() != scores[3])
    return true;
  const int64_t keys = scores[3];
  const int64_t rows = mask->shape.size() > 1 ? mask->shape[mask->shape.size() - 2] : 1;
  const bool isCausal = node.flag("is_causal", false);
  for (int64_t row = 0; row < mask->size() / keys; ++row) {
    // A row for all queries counts for the first of them, which sees the fewest keys.
    const int64_t query = rows == 1 ? 0 : row % rows;
    bool leavesNone = true;
    for (int64_t key = 0; leavesNone && key < (isCausal ? std::min(keys, past + query + 1) : keys);
         ++key)
      leavesNone = mask->isFloat() ? mask->floats[row * keys + key] == -kInfinity
                                   : mask->ints[row * keys + key] == 0;
    if (leavesNone)
      return true;
  }
  return false;
}

/// softmax(scale * Q K' + mask) V. Heads that share keys are rows of one product, so that neither
/// keys nor values are repeated.
void convertAttention(NodeImport &node) {
  if (node.has(6))
    throw Error::badInput("has input 6 (nonpad_kv_seqlen), which is not supported; give a mask");
  if (node.has(4) != node.has(5))
    throw Error::badInput("has past keys without past values, or the reverse");
  for (const char *window : {"left_window_size", "right_window_size"})
    if (node.integer(window, -1) != -1)
      throw Error::badInput(std::string("attribute '") + window +
                            "' is not supported; give a mask");
  bool isFlat = node.shape(0).size() == 3;
  Value q = heads(node, 0, "q_num_heads"), k = heads(node, 1, "kv_num_heads");
  Value v = heads(node, 2, "kv_num_heads");
  int64_t past = 0;
  if (node.has(4)) {
    past = node.shape(4).at(2);
    k = joined(node, {node.value(4), k}, 2);
    v = joined(node, {node.value(5), v}, 2);
  }
  if (node.isRead(1))
    node.bind(1, k);
  if (node.isRead(2))
    node.bind(2, v);
  Shape query = shapeOf(q), key = shapeOf(k), value = shapeOf(v);
  if (key[1] < 1 || query[1] % key[1] != 0 || value[1] != key[1] || query[3] != key[3] ||
      value[2] != key[2] || query[0] != key[0] || value[0] != key[0])
    throw Error::badInput("has queries, keys and values whose shapes do not fit");
  int64_t rows = query[1] / key[1] * query[2];
  double scale = node.number("scale", 1 / std::sqrt(double(query[3])));
  q = node.emit<MulOp>({q, node.scalar(scale, q)});
  Value scores = product(node, node.reshape(q, {query[0], key[1], rows, query[3]}), k, true);
  scores = node.reshape(scores, {query[0], query[1], query[2], key[2]});
  if (double cap = node.number("softcap", 0); cap != 0) {
    Value bounded = node.emit<TanhOp>(node.emit<MulOp>({scores, node.scalar(1 / cap, scores)}));
    scores = node.emit<MulOp>({bounded, node.scalar(cap, scores)});
  }
  Value weights = node.emit<SoftmaxOp>(masked(node, scores, past),
                                       [&](SoftmaxOp::Properties &p) { p.axis = node.i64(3); });
  // A query that the mask leaves no key has weights 0, not NaN.
  if (mayLeaveNoKey(node, shapeOf(scores), past))
    weights = node.emit<SelectOp>(
        {node.compare(weights, weights, "eq"), weights, node.scalar(0, weights)});
  Value y = product(node, node.reshape(weights, {query[0], key[1], rows, key[2]}), v, false);
  y = node.reshape(y, {query[0], query[1], query[2], value[3]});
  if (isFlat)
    y = node.reshape(transposed(node, y, {0, 2, 1, 3}), {query[0], query[2], query[1] * value[3]});
  node.bind(0, y);
}

/// Angles of every position: rows of the cache, or the cache as it is; [batch, positions, 1, half]
/// or, for inputs with heads first, [batch, 1, positions, half].
Value angles(NodeImport &node, size_t i, bool headsFirst) {
  Value cache = node.value(i);
  if (node.has(3))
    cache = node.emit<EmbeddingOp>({cache, node.value(3)});
  Shape shape = shapeOf(cache);
  if (shape.size() != 3)
    throw Error::badInput("expects angles of rank 3, or of rank 2 with position_ids");
  shape.insert(shape.begin() + (headsFirst ? 1 : 2), 1);
  return node.reshape(cache, shape);
}

void convertRotaryEmbedding(NodeImport &node) {
  Value x = node.value(0);
  Shape given = shapeOf(x), shape = given;
  bool headsFirst = shape.size() == 4, interleaved = node.flag("interleaved", false);
  if (!headsFirst) {
    int64_t count = node.integer("num_heads", 0);
    if (shape.size() != 3 || count < 1 || shape[2] % count != 0)
      throw Error::badInput("expects rank 4, or rank 3 and attribute 'num_heads'");
    shape = {shape[0], shape[1], count, shape[2] / count};
    x = node.reshape(x, shape);
  }
  int64_t size = shape[3], turned = node.integer("rotary_embedding_dim", 0);
  turned = turned == 0 ? size : turned;
  if (turned < 2 || turned > size || turned % 2 != 0)
    throw Error::badInput(absl::StrCat("attribute 'rotary_embedding_dim' is ", turned));
  Value cosine = angles(node, 1, headsFirst), sine = angles(node, 2, headsFirst);
  if (shapeOf(cosine)[3] != turned / 2 || shapeOf(sine)[3] != turned / 2)
    throw Error::badInput(absl::StrCat("expects ", turned / 2, " angles per position"));
  Shape start(4, 0), half = shape, apart = shape, steps(4, 1);
  half[3] = turned / 2;
  auto part = [&](int64_t number) -> Value {
    start[3] = interleaved ? number : number * turned / 2;
    if (!interleaved)
      return node.slice(x, start, half);
    steps[3] = 2;
    return node.emit<StridedSliceOp>(x, [&](StridedSliceOp::Properties &p) {
      p.starts = node.array(start);
      p.sizes = node.array(half);
      p.steps = node.array(steps);
    });
  };
  Value first = part(0), second = part(1);
  auto times = [&](Value a, Value b) -> Value { return node.emit<MulOp>({a, b}); };
  Value real = node.emit<SubOp>({times(cosine, first), times(sine, second)});
  Value imaginary = node.emit<AddOp>({times(sine, first), times(cosine, second)});
  if (shapeOf(real) != half)
    throw Error::badInput("has angles that do not fit the positions");
  Value y;
  if (interleaved) {
    Shape column = half, both = shape;
    column.push_back(1);
    both[3] = turned;
    y = node.reshape(joined(node, {node.reshape(real, column), node.reshape(imaginary, column)}, 4),
                     both);
  } else {
    y = joined(node, {real, imaginary}, 3);
  }
  if (turned < size) {
    start[3] = turned;
    apart[3] = size - turned;
    y = joined(node, {y, node.slice(x, start, apart)}, 3);
  }
  node.bind(0, node.reshape(y, given));
}

} // namespace

void addAttentionRules(RuleTable &table) {
  table["Attention"] = {convertAttention, 3, 7};
  table["RotaryEmbedding"] = {convertRotaryEmbedding, 3, 4};
  // Masks and the sine and cosine of positions are settings.
  const OpWeights settings{OpWeights::Kind::Layer, [](UseSite &site) {
                             for (size_t i = site.node.type == "Attention" ? 3 : 1;
                                  i < site.node.inputs.size(); ++i)
                               site.use(i, Use::Setting);
                           }};
  takeWeights(table, settings, {"Attention", "RotaryEmbedding"});
}

} // namespace stow::onnx
