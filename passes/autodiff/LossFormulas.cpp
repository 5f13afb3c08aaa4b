#include "passes/autodiff/LossFormulas.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <limits>

using namespace mlir;

namespace stow {

Value classRows(Formula &f, Value output, int64_t axis) {
  ArrayRef<int64_t> shape = tensorType(output).getShape();
  int64_t classes = shape[axis], rows = tensorType(output).getNumElements() / classes;
  auto rank = static_cast<int64_t>(shape.size());
  bool movesNothing = llvm::all_of(shape.drop_front(axis + 1), [](int64_t n) { return n == 1; });
  if (!movesNothing) {
    SmallVector<int64_t> permutation;
    for (int64_t dim = 0; dim < rank; ++dim)
      if (dim != axis)
        permutation.push_back(dim);
    permutation.push_back(axis);
    output = f.build<TransposeOp>(output, permutation).getY();
  }
  return f.reshape(output, {rows, classes});
}

static Value classWeights(Formula &f, const LossSpec &loss, Value target, Value weight) {
  return f.build<ClassWeightsOp>(target, weight, loss.ignoreIndex).getY();
}

Value classLosses(Formula &f, const LossSpec &loss, Value scores, Value target, Value weight) {
  if (loss.kind == LossSpec::Kind::CrossEntropy)
    return f
        .build<CrossEntropyRowsOp>(scores, target, weight, loss.ignoreIndex,
                                   APFloat(loss.labelSmoothing))
        .getRowLoss();
  Value losses = f.build<NllRowsOp>(scores, target, loss.ignoreIndex).getRowLoss();
  return weight ? f.mul(losses, classWeights(f, loss, target, weight)) : losses;
}

Value reduceClassLosses(Formula &f, const LossSpec &loss, Value losses, Value target,
                        Value weight) {
  Value sum = f.sum(losses, {0});
  if (loss.reduction != LossSpec::Reduction::Mean)
    return sum;
  if (weight)
    return f.div(sum, f.sum(classWeights(f, loss, target, weight), {0}));
  Type element = tensorType(losses).getElementType();
  return f.div(sum, f.build<CountValidOp>(target, loss.ignoreIndex, element).getCount());
}

Value distributionLosses(Formula &f, const LossSpec &loss, Value scores, Value target,
                         Value weight) {
  if (loss.labelSmoothing != 0) {
    double share = loss.labelSmoothing / static_cast<double>(tensorType(scores).getDimSize(1));
    target = f.add(f.mul(target, 1 - loss.labelSmoothing), share);
  }
  if (weight)
    target = f.mul(target, weight);
  Value logarithms = f.build<LogSoftmaxOp>(scores, /*axis=*/1).getY();
  return f.neg(f.sum(f.mul(logarithms, target), {1}));
}

/// (1 - t) x + (1 + (p - 1) t) softplus(-x), which is exact for scores of any size.
static Value binaryCrossEntropy(Formula &f, Value x, Value target, LossWeights weights) {
  Value positive = f.build<SoftplusOp>(f.neg(x)).getY();
  if (weights.positiveWeight)
    positive = f.mul(positive, f.add(f.mul(target, f.add(weights.positiveWeight, -1.0)), 1.0));
  Value losses = f.add(f.mul(f.sub(1.0, target), x), positive);
  return weights.weight ? f.mul(losses, weights.weight) : losses;
}

/// t (ln t - x), 0 where t is 0, or exp(t) (t - x) for targets that are logarithms.
static Value divergence(Formula &f, const LossSpec &loss, Value x, Value target) {
  if (loss.logTarget)
    return f.mul(f.build<ExpOp>(target).getY(), f.sub(target, x));
  auto element = cast<FloatType>(tensorType(x).getElementType());
  double least = element.isF64() ? std::numeric_limits<double>::min()
                                 : static_cast<double>(std::numeric_limits<float>::min());
  Value floor = f.build<MaximumOp>(target, f.scalar(least, target)).getY();
  Value entropy = f.mul(target, f.build<LogOp>(floor).getY());
  return f.sub(entropy, f.mul(target, x));
}

Value elementLosses(Formula &f, const LossSpec &loss, Value output, Value target,
                    LossWeights weights) {
  using Kind = LossSpec::Kind;
  if (loss.kind == Kind::BinaryCrossEntropy)
    return binaryCrossEntropy(f, output, target, weights);
  if (loss.kind == Kind::KullbackLeibler)
    return divergence(f, loss, output, target);
  Value difference = f.sub(output, target);
  if (loss.kind == Kind::SquaredError)
    return f.mul(difference, difference);
  if (loss.kind == Kind::AbsoluteError || loss.beta == 0)
    return f.build<AbsOp>(difference).getY();
  // With c the difference clamped to [-beta, beta]: c (d - c / 2), a square inside and a line
  // outside. Smooth L1 divides that by beta.
  Value inner = f.build<ClipOp>(difference, APFloat(-loss.beta), APFloat(loss.beta)).getY();
  Value losses = f.mul(inner, f.sub(difference, f.mul(inner, 0.5)));
  return loss.kind == Kind::SmoothL1 && loss.beta != 1 ? f.mul(losses, 1 / loss.beta) : losses;
}

Value reduceLoss(Formula &f, LossSpec::Reduction reduction, Value x) {
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
  if (axes.empty())
    return x;
  if (reduction == LossSpec::Reduction::Mean)
    return f.build<ReduceMeanOp>(x, axes, /*keepdims=*/false).getY();
  Value sum = f.sum(x, axes);
  if (reduction == LossSpec::Reduction::Sum)
    return sum;
  return f.mul(sum, 1.0 / static_cast<double>(tensorType(x).getDimSize(0)));
}

} // namespace stow
