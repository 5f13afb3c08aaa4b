// Data parallelism: every rank computes gradients on a batch of its own, and all update with their sum. O(ops).
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_REDUCEOVERRANKSPASS
#include "passes/microbatch/Passes.h.inc"

namespace {

bool isGradient(const GraphResult &result) { return !result.get("stow.gradient_of").empty(); }

//===--------------------------------------------------------------------------------------------===//
// --stow-reduce-over-ranks
//===--------------------------------------------------------------------------------------------===//

struct ReduceOverRanks : impl::ReduceOverRanksPassBase<ReduceOverRanks> {
  using Base::Base;

  void runOnOperation() override {
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train || failed(check(train)))
      return signalPassFailure();
    warnAboutBatchNorms(train);
    reduce(train);
    getOperation()->setAttr(kDevicesAttr, Builder(&getContext()).getI64IntegerAttr(ranks));
  }

  LogicalResult check(func::FuncOp train) {
    if (ranks < 2)
      return getOperation().emitError() << "ranks: expected 2 or more, found " << int64_t(ranks);
    for (const GraphResult &result : resultsOf(train)) {
      if (result.get(kStateAttr).empty() && !isReduced(result))
        return train.emitError() << "result \"" << result.get(kNameAttr)
                                 << "\" is of one rank's batch and has no sum over the ranks";
      if (isReduced(result) && !tensorType(result.value).getElementType().isF32())
        return train.emitError() << "result \"" << result.get(kNameAttr) << "\" is of type "
                                 << result.value.getType() << "; sums over ranks are of f32";
    }
    return success();
  }

  static bool isReduced(const GraphResult &result) {
    StringRef name = result.get(kNameAttr);
    return isGradient(result) || name == "loss" || name == kLossDivisorName;
  }

  void setPhaseOf(Value value, bool ofGradient) {
    if (ofGradient)
      setPhase(value.getDefiningOp(), Phase::Backward);
  }

  Value sumOverRanks(OpBuilder &builder, Value value, bool ofGradient) {
    builder.setInsertionPointAfterValue(value);
    auto reduced = AllReduceOp::create(builder, value.getLoc(), value.getType(), value,
                                       static_cast<uint64_t>(static_cast<int64_t>(ranks)));
    setPhaseOf(reduced.getY(), ofGradient);
    return reduced.getY();
  }

  void reduce(func::FuncOp train) {
    OpBuilder builder(&getContext());
    Value inverse; // of the divisors' sum
    SmallVector<GraphResult> results;
    for (const GraphResult &result : resultsOf(train))
      if (result.get(kNameAttr) == kLossDivisorName)
        inverse = ReciprocalOp::create(builder, result.value.getLoc(),
                                       sumOverRanks(builder, result.value, false));
    for (GraphResult result : resultsOf(train)) {
      if (result.get(kNameAttr) == kLossDivisorName)
        continue;
      if (isReduced(result)) {
        const bool ofGradient = isGradient(result);
        Value sum = sumOverRanks(builder, result.value, ofGradient);
        if (inverse && sum.getDefiningOp()->isBeforeInBlock(inverse.getDefiningOp()))
          builder.setInsertionPointAfterValue(inverse);
        Formula f(builder, sum.getLoc());
        result.value = inverse ? f.mul(sum, inverse)
                       : mean  ? f.mul(sum, 1.0 / static_cast<double>(ranks))
                               : sum;
        setPhaseOf(result.value, ofGradient);
      }
      results.push_back(result);
    }
    setResults(train, results);
  }

  void warnAboutBatchNorms(func::FuncOp train) {
    auto norms = llvm::to_vector(train.front().getOps<BatchNormTrainingOp>());
    if (norms.empty())
      return;
    train.emitWarning() << norms.size() << " batch normalization" << (norms.size() == 1 ? "" : "s")
                        << " in training mode: each of the " << int64_t(ranks)
                        << " devices normalizes by the statistics of its own "
                        << tensorType(norms.front().getX()).getDimSize(0)
                        << " samples, and running statistics are those of rank 0, as in PyTorch's "
                           "DistributedDataParallel; --sync-batch-norm normalizes by those of all, "
                           "--freeze-batch-norm keeps them as they are";
  }
};

} // namespace
} // namespace stow
