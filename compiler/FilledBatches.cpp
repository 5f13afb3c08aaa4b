#include "compiler/FilledBatches.h"

#include "compiler/PartialEvaluation.h"
#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/SampleParts.h"
#include "passes/plan/Shapes.h"

using namespace mlir;

namespace stow {
namespace {

/// What a value is made of, casts and other shapes aside.
Operation *makerOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<CastOp, ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// The losses by row, 0 for rows whose label does not count, of which `loss` is the sum, or the mean over those that count. Null where it
/// is anything else.
Value countedRows(Value loss) {
  Operation *op = makerOf(loss);
  if (auto mean = dyn_cast_or_null<DivOp>(op)) {
    Operation *divisor = makerOf(mean.getB());
    if (auto sum = dyn_cast_or_null<ReduceSumOp>(divisor))
      divisor = isa_and_nonnull<ClassWeightsOp>(makerOf(sum.getX())) ? divisor : nullptr;
    if (!isa_and_nonnull<CountValidOp, ReduceSumOp>(divisor))
      return {};
    op = makerOf(mean.getA());
  }
  auto sum = dyn_cast_or_null<ReduceSumOp>(op);
  Operation *rows = sum ? makerOf(sum.getX()) : nullptr;
  return isa_and_nonnull<CrossEntropyRowsOp, NllRowsOp>(rows) ? rows->getResult(0) : Value();
}

Value lossOf(func::FuncOp graph) {
  Operation *terminator = graph.front().getTerminator();
  for (unsigned i = 0; i < graph.getNumResults(); ++i)
    if (auto name = graph.getResultAttrOfType<StringAttr>(i, kNameAttr); name && name == "loss")
      return terminator->getOperand(i);
  return {};
}

bool updatesStatistics(func::FuncOp graph) {
  llvm::DenseSet<Attribute> statistics;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (kindOfArgument(graph, i) == ArgumentKind::Statistic)
      statistics.insert(graph.getArgAttr(i, kNameAttr));
  return llvm::any_of(llvm::seq(graph.getNumResults()), [&](unsigned i) {
    return statistics.contains(graph.getResultAttr(i, kStateAttr));
  });
}

bool hasIgnoredLabels(func::FuncOp graph) {
  return llvm::any_of(llvm::seq(graph.getNumArguments()), [&](unsigned i) {
    const auto kind = kindOfArgument(graph, i);
    return (kind == ArgumentKind::Input || kind == ArgumentKind::Target) &&
           ignoredLabel(graph.getArgument(i));
  });
}

/// Gives a graph that evaluates a loss its scores and labels in place of all results; false where it has none.
bool giveScores(func::FuncOp graph, StringRef loss) {
  Operation *terminator = graph.front().getTerminator();
  Value rows;
  for (unsigned i = 0; i < graph.getNumResults(); ++i)
    if (auto name = graph.getResultAttrOfType<StringAttr>(i, kNameAttr); name && name == loss)
      rows = countedRows(terminator->getOperand(i));
  if (!rows)
    return false;
  const DictionaryAttr none = Builder(graph).getDictionaryAttr({});
  Operation *op = rows.getDefiningOp();
  setResults(graph, {{op->getOperand(0), none}, {op->getOperand(1), none}});
  eraseDeadOps(graph);
  return true;
}

} // namespace

bool fillsBatches(MLIRContext &context, const CompileOptions &options, StepVariant variant,
                  const Backend &backend) {
  if (variant.batches != 1)
    return false;
  variant.lossChunks = variant.rowChunks = 1;
  variant.awayPercent = 0;
  variant.eightBitPercent = 0;
  auto stepAt = [&](std::optional<int64_t> samples) {
    variant.samples = samples;
    return silentStep(context, options, variant, backend);
  };
  OwningOpRef<ModuleOp> own = stepAt(variant.samples);
  if (!own)
    return false;
  auto train = findGraph(*own, Role::Train), evaluation = findGraph(*own, Role::Eval);
  if (!train || !evaluation || !countedRows(lossOf(train)) || updatesStatistics(train) ||
      !hasIgnoredLabels(train))
    return false;
  int64_t batch = 0;
  for (unsigned i = 0; i < train.getNumArguments() && batch == 0; ++i)
    if (kindOfArgument(train, i) == ArgumentKind::Input &&
        tensorType(train.getArgument(i)).getRank() > 0)
      batch = tensorType(train.getArgument(i)).getDimSize(0);
  OwningOpRef<ModuleOp> other = batch > 0 ? stepAt(batch + 1) : nullptr;
  auto otherEvaluation = other ? findGraph(*other, Role::Eval) : func::FuncOp();
  if (!otherEvaluation)
    return false;
  if (options.loss.kind == LossSpec::Kind::Output &&
      (!giveScores(evaluation, options.loss.output) ||
       !giveScores(otherEvaluation, options.loss.output)))
    return false;
  const SampleParts parts = samplePartsOf(evaluation, otherEvaluation, batch, batch + 1);
  return parts.obstacle.empty() &&
         llvm::all_of(parts.results, [](Joining joining) { return joining == Joining::Rows; });
}

} // namespace stow
