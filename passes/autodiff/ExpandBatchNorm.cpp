// Batch normalization as generated kernels where the target says so: O(ops + inputs of concats).
//
// A dense block normalizes all its channels anew in every layer. With scale and bias folded into
// one pass, and the statistics of each channel computed where the channel is made, a layer reads
// its channels once and writes them once; the library's call passes over them for the statistics,
// too, and is fast only where they are dense.
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_EXPANDBATCHNORMPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

ConcatOp concatOfChannels(Value x) {
  auto concat = x.getDefiningOp<ConcatOp>();
  return concat && concat.getAxis() == 1 ? concat : ConcatOp();
}

/// New ops stand in the phase of the op they replace.
class PhaseMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, phase);
  }
  Phase phase = Phase::Forward;
};

class Expansion {
public:
  Expansion(func::FuncOp graph, const Target &target)
      : graph(graph), target(target), builder(graph.getContext(), &marker) {}

  void run() {
    for (auto norm : graph.getOps<BatchNormTrainingOp>())
      if (target.decomposes(norm))
        if (ConcatOp concat = concatOfChannels(norm.getX()))
          noteInputs(concat);
    for (Operation &op : llvm::make_early_inc_range(graph.front())) {
      marker.phase = phaseOf(&op);
      builder.setInsertionPoint(&op);
      if (auto norm = dyn_cast<BatchNormOp>(op); norm && target.decomposes(norm)) {
        replace(op, normalize(norm, norm.getMean(), norm.getVariance()));
      } else if (auto norm = dyn_cast<BatchNormTrainingOp>(op); norm && isExpanded(norm)) {
        Moments moments = momentsOf(norm.getX());
        builder.setInsertionPoint(&op);
        replace(op,
                {normalize(norm, moments.mean, moments.variance), moments.mean, moments.variance});
      } else if (auto grad = dyn_cast<BatchNormGradOp>(op); grad && isExpanded(grad)) {
        expand(grad);
      }
    }
  }

private:
  struct Moments {
    Value mean, variance;
  };

  /// Notes which values have their statistics computed for a concat, and the first that reads each.
  void noteInputs(ConcatOp concat) {
    for (Value input : concat.getInputs())
      if (firstConcat.try_emplace(input, concat).second)
        if (ConcatOp inner = concatOfChannels(input))
          noteInputs(inner);
  }

  /// Of a normalization or its gradient, whose first operand is x.
  bool isExpanded(Operation *norm) const {
    return target.decomposes(norm) || firstConcat.contains(norm->getOperand(0));
  }

  void replace(Operation &op, ValueRange values) {
    op.replaceAllUsesWith(values);
    op.erase();
  }

  /// Behind the op that makes x, where its channels are at hand.
  Moments momentsOf(Value x) {
    if (auto known = moments.find(x); known != moments.end())
      return known->second;
    Moments result;
    if (ConcatOp concat = concatOfChannels(x)) {
      SmallVector<Value> means, variances;
      for (Value input : concat.getInputs()) {
        Moments part = momentsOf(input);
        means.push_back(part.mean);
        variances.push_back(part.variance);
      }
      builder.setInsertionPointAfterValue(x);
      Formula f(builder, x.getLoc());
      result = {f.build<ConcatOp>(means, 0).getY(), f.build<ConcatOp>(variances, 0).getY()};
    } else {
      builder.setInsertionPointAfterValue(x);
      auto op = ChannelMomentsOp::create(builder, x.getLoc(), x);
      result = {op.getMean(), op.getVariance()};
    }
    moments[x] = result;
    return result;
  }

  /// A vector with one element per channel, over the dimensions of x.
  static Value spread(Formula &f, Value vector, Value x) {
    SmallVector<int64_t> shape(tensorType(x).getRank(), 1);
    shape[1] = tensorType(x).getDimSize(1);
    return f.reshape(vector, shape);
  }

  static Value inverseDeviation(Formula &f, Value variance, const APFloat &epsilon) {
    Value deviation = f.build<SqrtOp>(f.add(variance, epsilon.convertToDouble())).getY();
    return f.build<ReciprocalOp>(deviation).getY();
  }

  template <typename Norm> Value normalize(Norm norm, Value mean, Value variance) {
    Formula f(builder, norm.getLoc());
    Value x = norm.getX();
    Value slope = f.mul(norm.getScale(), inverseDeviation(f, variance, norm.getEpsilon()));
    Value centred = f.sub(x, spread(f, mean, x));
    return f.add(f.mul(centred, spread(f, slope, x)), spread(f, norm.getBias(), x));
  }

  void expand(BatchNormGradOp grad) {
    Formula f(builder, grad.getLoc());
    Value x = slices.contains(grad.getX()) ? slices.lookup(grad.getX()) : grad.getX();
    Value dy = grad.getDy();
    auto sums =
        f.build<BatchNormScaleGradOp>(dy, x, grad.getMean(), grad.getVariance(), grad.getEpsilon());
    if (!grad.getDx().use_empty()) {
      double share = static_cast<double>(tensorType(x).getDimSize(1)) /
                     static_cast<double>(tensorType(x).getNumElements());
      Value inverse = inverseDeviation(f, grad.getVariance(), grad.getEpsilon());
      Value slope = f.mul(grad.getScale(), inverse);
      Value bend = f.mul(f.mul(f.mul(sums.getDscale(), slope), inverse), share);
      Value level = f.mul(f.mul(sums.getDbias(), slope), share);
      Value centred = f.sub(x, spread(f, grad.getMean(), x));
      Value dx = f.sub(f.sub(f.mul(dy, spread(f, slope, x)), f.mul(centred, spread(f, bend, x))),
                       spread(f, level, x));
      grad.getDx().replaceAllUsesWith(dx);
    }
    grad.getDscale().replaceAllUsesWith(sums.getDscale());
    grad.getDbias().replaceAllUsesWith(sums.getDbias());
    if (ConcatOp concat = concatOfChannels(x))
      sliceInputs(f, concat);
    grad.erase();
  }

  /// Inputs that are normalized themselves are read from the concat from here on, where it would
  /// otherwise die: an input that a library call made is copied into the concat and dies there.
  void sliceInputs(Formula &f, ConcatOp concat) {
    for (auto [number, input] : llvm::enumerate(concat.getInputs()))
      if (!concatOfChannels(input) && firstConcat.lookup(input) == concat &&
          llvm::any_of(input.getUsers(), llvm::IsaPred<BatchNormGradOp>))
        slices[input] = f.build<SliceOp>(concat.getY(), concat.getStartsOf(number),
                                         tensorType(input).getShape())
                            .getY();
  }

  func::FuncOp graph;
  const Target &target;
  PhaseMarker marker;
  OpBuilder builder;
  llvm::DenseMap<Value, Moments> moments;
  llvm::DenseMap<Value, ConcatOp> firstConcat;
  llvm::DenseMap<Value, Value> slices; ///< of concats, by the input that they are
};

//===--------------------------------------------------------------------------------------------===//
// --stow-expand-batch-norm
//===--------------------------------------------------------------------------------------------===//

struct ExpandBatchNorm : impl::ExpandBatchNormPassBase<ExpandBatchNorm> {
  explicit ExpandBatchNorm(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      Expansion(graph, target).run();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createExpandBatchNormPass(const Target &target) {
  return std::make_unique<ExpandBatchNorm>(target);
}

} // namespace stow
