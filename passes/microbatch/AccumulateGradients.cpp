// Gradient accumulation. The sums of gradients are state: they are there from batch to batch, as large
// as the parameters together, while activations are those of one batch. O(ops).
#include "ir/StepGraphs.h"
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
    getOperation()->setAttr(kBatchesAttr, Builder(&getContext()).getI64IntegerAttr(batches));
  }

  LogicalResult checkOptions(func::FuncOp train) {
    if (batches < 2)
      return getOperation().emitError()
             << "batches: expected 2 or more, found " << int64_t(batches);
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

  /// The sum of all batches but the last, and this one's value.
  Value together(OpBuilder &builder, func::FuncOp graph, const GraphResult &result) {
    builder.setInsertionPointAfterValue(result.value);
    Formula f(builder, result.value.getLoc());
    return f.add(sumOf(graph, result), result.value);
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
      if (!isGradient && result.get(kNameAttr) != kLossDivisorName)
        results.push_back(result);
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
                       : mean  ? f.mul(sum, 1.0 / static_cast<double>(batches))
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
    train.emitWarning() << norms.size() << " batch normalization" << (norms.size() == 1 ? "" : "s")
                        << " in training mode: each of the " << int64_t(batches)
                        << " batches of a step is normalized by the statistics of its own "
                        << samples << " samples, not of the step's " << samples * batches
                        << ", and running statistics follow every batch, as in PyTorch; "
                           "--freeze-batch-norm keeps them as they are";
  }

  llvm::StringMap<unsigned> sums; ///< the argument that sums a result, by the result's name
};

} // namespace

void registerMicrobatchPasses() {
  registerPass([] { return createSeparateDivisorPass(); });
  registerPass([] { return createAccumulateGradientsPass(); });
  registerPass([] { return createReduceOverRanksPass(); });
  registerPass([] { return createKeepDataPass(); });
}

} // namespace stow
