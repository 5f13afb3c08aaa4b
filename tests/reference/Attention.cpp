// Attention with all of its scores, and its gradients by the formula of the softmax's.
#include "tests/reference/Rules.h"

#include "ir/StowAttentionOps.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// What scores a query has of which head, and how they become weights.
template <typename Op> struct Weights {
  /// `extra`: operands between v and the mask.
  Weights(Op op, Operands operands, size_t extra)
      : op(op), q(operands[0]), k(operands[1]), v(operands[2]) {
    std::vector<int64_t> shape = q.shape;
    shape.back() = k.shape[k.shape.size() - 2];
    scores = Tensor(shape);
    factors = Tensor(shape, 1);
    isUnseen = Tensor(shape);
    const Tensor *mask = op.getMask() ? &operands[3 + extra] : nullptr;
    const Tensor *documents =
        op.getKeyDocuments() ? &operands[3 + extra + (mask ? 1 : 0)] : nullptr;
    const Tensor *seed = op.getSeed() ? &operands.back() : nullptr;
    const bool isBoolean =
        mask && cast<RankedTensorType>(op.getMask().getType()).getElementType().isInteger(1);
    forEachIndex(scores.shape, [&](const Index &at) {
      const int64_t row = at[at.size() - 2], key = at.back();
      double &score = scores(at);
      for (int64_t d = 0; d < q.shape.back(); ++d)
        score += number(op.getScale()) * q(query(at, d)) * k(shared(at, key, d));
      if (mask && isBoolean)
        score = mask->broadcast(at) != 0 ? score : -infinity;
      else if (mask)
        score += mask->broadcast(at);
      const int64_t last = row + static_cast<int64_t>(op.getDiagonal().value_or(0));
      if ((op.getDiagonal() && key > last) ||
          (op.getWindow() && key + static_cast<int64_t>(*op.getWindow()) <= last) ||
          (documents &&
           documents[0].broadcast(rowOf(at, row)) != documents[1].broadcast(rowOf(at, key)))) {
        score = -infinity;
        isUnseen(at) = 1;
      }
      const double keep = 1 - number(op.getRatio());
      if (seed && keep < 1) {
        const auto words =
            randomWords(scores.offset(at), op.getStream(), static_cast<uint64_t>(seed->values[0]));
        factors(at) = words[0] < std::floor(keep * 4294967296.0) ? 1 / keep : 0;
      }
    });
  }

  /// Of row `row` of what has one number a row: its index among the matrices of `at`.
  static Index rowOf(Index at, int64_t row) {
    at.pop_back();
    at.back() = row;
    return at;
  }
  /// Of the query whose score `at` is: element `d`.
  static Index query(Index at, int64_t d) {
    at.back() = d;
    return at;
  }
  /// Of the key or value `row` that belongs to the head of `at`: element `d`.
  Index shared(Index at, int64_t row, int64_t d) const {
    at[at.size() - 2] = row;
    at.back() = d;
    if (at.size() > 2)
      at[at.size() - 3] /= q.shape[at.size() - 3] / k.shape[at.size() - 3];
    return at;
  }

  Op op;
  const Tensor &q, &k, &v;
  Tensor scores, factors;
  Tensor isUnseen; ///< 1 outside of diagonal, window and documents: no gradient comes from there
};

/// Visits the first element of each row of matrices.
void forEachRow(std::vector<int64_t> shape, llvm::function_ref<void(Index)> visit) {
  shape.back() = 1;
  forEachIndex(shape, visit);
}

std::vector<Tensor> attention(Operation *op, Operands operands) {
  auto typed = cast<AttentionOp>(op);
  Weights weights(typed, operands, 0);
  Tensor y(shapeOf(typed.getY())), lse(shapeOf(typed.getLse()));
  const int64_t keys = weights.scores.shape.back();
  forEachRow(lse.shape, [&](Index at) {
    double most = -infinity, sum = 0;
    for (at.back() = 0; at.back() < keys; ++at.back())
      most = std::max(most, weights.scores(at));
    for (at.back() = 0; at.back() < keys; ++at.back())
      sum += std::exp(weights.scores(at) - most);
    const bool isZero = most == -infinity && typed.getZeroRows();
    const double maximum = isZero ? 0 : most, logSum = isZero ? 0 : std::log(sum);
    lse(weights.query(at, 0)) = maximum;
    lse(weights.query(at, 1)) = logSum;
    for (at.back() = 0; at.back() < keys; ++at.back())
      for (int64_t d = 0; d < y.shape.back(); ++d)
        y(weights.query(at, d)) += std::exp(weights.scores(at) - maximum - logSum) *
                                   weights.factors(at) *
                                   weights.v(weights.shared(at, at.back(), d));
  });
  return {y, lse};
}

std::vector<Tensor> attentionGradient(Operation *op, Operands operands) {
  auto typed = cast<AttentionGradientOp>(op);
  Weights weights(typed, operands, 3);
  const Tensor &lse = operands[4], &dy = operands[5];
  Tensor dq(weights.q.shape), dk(weights.k.shape), dv(weights.v.shape);
  const int64_t keys = weights.scores.shape.back();
  forEachRow(lse.shape, [&](Index at) {
    const double maximum = lse(weights.query(at, 0)), logSum = lse(weights.query(at, 1));
    std::vector<double> weight(keys), gradient(keys);
    double product = 0;
    for (at.back() = 0; at.back() < keys; ++at.back()) {
      const int64_t key = at.back();
      if (weights.isUnseen(at) != 0)
        continue;
      weight[key] = std::exp(weights.scores(at) - maximum - logSum);
      for (int64_t d = 0; d < dv.shape.back(); ++d) {
        const double dyAt = weights.factors(at) * dy(weights.query(at, d));
        dv(weights.shared(at, key, d)) += weight[key] * dyAt;
        gradient[key] += dyAt * weights.v(weights.shared(at, key, d));
      }
      product += weight[key] * gradient[key];
    }
    for (at.back() = 0; at.back() < keys; ++at.back()) {
      const int64_t key = at.back();
      if (weights.isUnseen(at) != 0)
        continue;
      const double dscore = number(typed.getScale()) * weight[key] * (gradient[key] - product);
      for (int64_t d = 0; d < dq.shape.back(); ++d) {
        dq(weights.query(at, d)) += dscore * weights.k(weights.shared(at, key, d));
        dk(weights.shared(at, key, d)) += dscore * weights.q(weights.query(at, d));
      }
    }
  });
  return {dq, dk, dv};
}

} // namespace

void addAttentionRules(Rules &rules) {
  rules["stow.attention"] = attention;
  rules["stow.attention_gradient"] = attentionGradient;
}

} // namespace stow::reference
