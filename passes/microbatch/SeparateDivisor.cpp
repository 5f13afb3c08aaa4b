// A mean over what counts in a batch has a divisor of its own. O(ops).
#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowReduceOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_SEPARATEDIVISORPASS
#include "passes/microbatch/Passes.h.inc"

namespace {

/// True when a parameter is among what `value` is computed from.
bool readsParameter(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return false;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return kindOfArgument(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                          argument.getArgNumber()) == ArgumentKind::Parameter;
  return llvm::any_of(value.getDefiningOp()->getOperands(),
                      [&](Value operand) { return readsParameter(operand, seen); });
}

/// How many elements a divisor sums.
int64_t countOfTerms(Value divisor) {
  Operation *op = divisor.getDefiningOp();
  if (!isa_and_nonnull<CountValidOp, ReduceSumOp>(op))
    return 1;
  return tensorType(op->getOperand(0)).getNumElements();
}

//===--------------------------------------------------------------------------------------------===//
// --stow-separate-divisor
//===--------------------------------------------------------------------------------------------===//

struct SeparateDivisor : impl::SeparateDivisorPassBase<SeparateDivisor> {
  using Base::Base;

  void runOnOperation() override {
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train)
      return signalPassFailure();
    SmallVector<GraphResult> results = resultsOf(train);
    if (results.empty() || results.front().get(kNameAttr) != "loss") {
      train.emitError("expects \"loss\" as its first result; run stow-attach-loss first");
      return signalPassFailure();
    }
    auto quotient = results.front().value.getDefiningOp<DivOp>();
    llvm::DenseSet<Value> seen;
    if (!quotient || tensorType(quotient.getB()).getRank() != 0 ||
        tensorType(quotient.getA()).getRank() != 0 || readsParameter(quotient.getB(), seen))
      return;
    OpBuilder builder(train.front().getTerminator());
    Formula f(builder, quotient.getLoc());
    const int64_t scaled = terms > 0 ? int64_t(terms) : countOfTerms(quotient.getB());
    const double scale = 1.0 / static_cast<double>(scaled);
    getOperation()->setAttr(kDivisorTermsAttr, builder.getI64IntegerAttr(scaled));
    results.front().value = f.mul(quotient.getA(), scale);
    results.push_back({f.mul(quotient.getB(), scale),
                       stringAttributes(&getContext(), {{kNameAttr, kLossDivisorName}})});
    setResults(train, results);
    eraseDeadOps(train);
  }
};

} // namespace
} // namespace stow
