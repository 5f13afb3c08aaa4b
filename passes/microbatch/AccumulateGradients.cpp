// Gradient accumulation. The sums of gradients are state: they are there from batch to batch, as large
// as the parameters together, while activations are those of one batch. On several devices each batch's gradients go into the sum in the order
// of the ranks, so that it is that of all their batches in a row. O(ops).
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "passes/microbatch/Passes.h.inc"

namespace {

//===--------------------------------------------------------------------------------------------===//
// --stow-accumulate-gradients
//===--------------------------------------------------------------------------------------------===//

/// Marks what is computed from gradients as part of the backward.
class BackwardMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
  }
};

struct AccumulateGradients : impl::AccumulateGradientsPassBase<AccumulateGradients> {
  using Base::Base;

  void runOnOperation() override {
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train || failed(checkOptions(train)))
      return signalPassFailure();
    warnAboutBatchNorms(train);
    addSums(train);
    func::FuncOp first = train.clone();
    first.setSymName(stringifyRole(Role::Accumulate));
    setRole(first, Role::Accumulate);
    OpBuilder behind(&getContext());
    behind.setInsertionPointAfter(train);
    behind.insert(first);
    sum(first);
    finish(train);
    Builder types(&getContext());
    getOperation()->setAttr(kBatchesAttr, types.getI64IntegerAttr(batches));
    if (ranks > 1)
      getOperation()->setAttr(kDevicesAttr, types.getI64IntegerAttr(ranks));
  }

  LogicalResult checkOptions(func::FuncOp train) {
    if (batches < 2)
      return getOperation().emitError()
             << "batches: expected 2 or more, found " << int64_t(batches);
    if (ranks < 1)
      return getOperation().emitError() << "ranks: expected 1 or more, found " << int64_t(ranks);
    for (const GraphResult &result : resultsOf(train))
      if (!isSummed(result) && result.get(kStateAttr).empty())
        return train.emitError() << "result \"" << result.get(kNameAttr)
                                 << "\" is of one batch and has no sum over several";
    return success();
  }

  static bool isSummed(const GraphResult &result) {
    StringRef name = result.get(kNameAttr);
    return !result.get("stow.gradient_of").empty() || name == "loss" || name == kLossDivisorName;
  }

  /// State for the sums of all results that have one, each at the location of its parameter, whose
  /// module it belongs to.
  void addSums(func::FuncOp graph) {
    ArgumentNames names(getOperation());
    const auto parameters = argumentsByName(graph);
    sums.clear();
    for (const GraphResult &result : resultsOf(graph)) {
      if (!isSummed(result))
        continue;
      StringRef name = result.get("stow.gradient_of");
      Value parameter = name.empty() ? Value() : parameters.lookup(name);
      std::string wanted =
          name.empty() ? (result.get(kNameAttr) + ".sum").str() : (name + ".gradient_sum").str();
      BlockArgument sum =
          addOwnArgument(graph, names, result.value.getType(), wanted, ArgumentKind::Accumulator,
                         InitAttr::get(&getContext(), "constant", APFloat(0.0), APFloat(0.0)),
                         parameter ? parameter.getLoc() : graph.getLoc());
      graph.setArgAttr(sum.getArgNumber(), kUnsavedAttr, UnitAttr::get(&getContext()));
      sums[result.get(kNameAttr)] = sum.getArgNumber();
    }
  }

  /// Of either graph, whose arguments are the same.
  BlockArgument sumOf(func::FuncOp graph, const GraphResult &result) const {
    return graph.getArgument(sums.find(result.get(kNameAttr))->second);
  }

  /// The sum of all batches before, and this one's value. Of several ranks the first alone has that sum, the others zero: what follows in the
  /// order of the ranks is then (sum + rank 0's) + rank 1's + ...
  Value together(OpBuilder &builder, func::FuncOp graph, const GraphResult &result) {
    builder.setInsertionPointAfterValue(result.value);
    Formula f(builder, result.value.getLoc());
    Value sum = f.add(sumOf(graph, result), result.value);
    return ranks > 1 ? f.build<AllReduceOp>(sum.getType(), sum, static_cast<uint64_t>(ranks)).getY()
                     : sum;
  }

  DictionaryAttr stateOf(func::FuncOp graph, const GraphResult &result) const {
    return stringAttributes(graph.getContext(), {{kStateAttr, nameOf(sumOf(graph, result))}});
  }

  /// Every batch but the last.
  void sum(func::FuncOp graph) {
    BackwardMarker marker;
    SmallVector<GraphResult> results, sums;
    for (const GraphResult &result : resultsOf(graph)) {
      const bool isGradient = !result.get("stow.gradient_of").empty();
      OpBuilder builder(&getContext(), isGradient ? &marker : nullptr);
      if (isSummed(result))
        sums.push_back({together(builder, graph, result), stateOf(graph, result)});
      if (isGradient || result.get(kNameAttr) == kLossDivisorName)
        continue;
      results.push_back(result);
      if (ranks > 1 && isSummed(result)) // the loss of one rank's batch is none of the others'
        results.back().value = sums.back().value;
    }
    llvm::append_range(results, sums);
    setResults(graph, results);
  }

  /// The last batch: sums become what one large batch would give.
  void finish(func::FuncOp graph) {
    BackwardMarker marker;
    OpBuilder plain(&getContext()), backward(&getContext(), &marker);
    SmallVector<GraphResult> results;
    Value inverse; // of the divisors' sum
    for (const GraphResult &result : resultsOf(graph))
      if (result.get(kNameAttr) == kLossDivisorName)
        inverse =
            ReciprocalOp::create(plain, result.value.getLoc(), together(plain, graph, result));
    for (GraphResult result : resultsOf(graph)) {
      if (result.get(kNameAttr) == kLossDivisorName)
        continue;
      if (isSummed(result)) {
        const bool isGradient = !result.get("stow.gradient_of").empty();
        OpBuilder &builder = isGradient ? backward : plain;
        DictionaryAttr state = stateOf(graph, result);
        Value sum = together(builder, graph, result);
        if (inverse && sum.getDefiningOp()->isBeforeInBlock(inverse.getDefiningOp()))
          builder.setInsertionPointAfterValue(inverse);
        Formula f(builder, sum.getLoc());
        result.value = inverse ? f.mul(sum, inverse)
                       : mean  ? f.mul(sum, 1.0 / static_cast<double>(batches * ranks))
                               : sum;
        if (isGradient && keepSums)
          results.push_back({result.value, state});
      }
      results.push_back(result);
    }
    setResults(graph, results);
  }

  void warnAboutBatchNorms(func::FuncOp train) {
    auto norms = llvm::to_vector(train.front().getOps<BatchNormTrainingOp>());
    if (norms.empty())
      return;
    const int64_t samples = tensorType(norms.front().getX()).getDimSize(0);
    const int64_t all = batches * ranks;
    train.emitWarning() << norms.size() << " batch normalization" << (norms.size() == 1 ? "" : "s")
                        << " in training mode: each of the " << all
                        << " batches of a step is normalized by the statistics of its own "
                        << samples << " samples, not of the step's " << samples * all
                        << ", and running statistics follow every batch"
                        << (ranks > 1 ? " of rank 0" : "")
                        << ", as in PyTorch; "
                           "--freeze-batch-norm keeps them as they are";
  }

  llvm::StringMap<unsigned> sums; ///< the argument that sums a result, by the result's name
};

} // namespace

void registerMicrobatchPasses() {
  registerPass([] { return createSeparateDivisorPass(); });
  registerPass([] { return createAccumulateGradientsPass(); });
  registerPass([] { return createReduceOverRanksPass(); });
  registerPass([] { return createShardParametersPass(); });
  registerPass([] { return createKeepDataPass(); });
}

} // namespace stow
