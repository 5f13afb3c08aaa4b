#include "passes/autodiff/LossScale.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/OptimizerUpdates.h"

#include <limits>

using namespace mlir;

namespace stow {
namespace {

constexpr double kGrowthInterval = 2000;
/// Below it 1 / scale would soon be infinite, and nothing is left to gain.
constexpr double kSmallestScale = 0x1p-20;

constexpr StringLiteral kGoodStepsName = "loss_scale.good_steps";
constexpr StringLiteral kSkippedStepsName = "loss_scale.skipped_steps";

} // namespace

std::optional<LossScale> LossScale::of(func::FuncOp train, LossScaleMode mode) {
  BlockArgument scale = findArgument(train, kLossScaleName);
  if (!scale || kindOfArgument(train, scale.getArgNumber()) != ArgumentKind::Optimizer)
    return std::nullopt;
  return LossScale(train, scale, mode);
}

Value LossScale::select(OpBuilder &builder, Value condition, Value a, Value b) {
  return SelectOp::create(builder, train.getLoc(), condition, a, b).getY();
}

Value LossScale::isFinite(OpBuilder &builder, Value squares) {
  Formula f(builder, squares.getLoc());
  Value infinity = f.scalar(std::numeric_limits<double>::infinity(), squares);
  return f.build<CompareOp>(squares, infinity, "lt").getMask(); // false for NaN
}

LogicalResult LossScale::judge(OpBuilder &builder, ArrayRef<GraphResult> gradients) {
  auto zero = InitAttr::get(builder.getContext(), "constant", APFloat(0.0), APFloat(0.0));
  auto add = [&](StringRef name) {
    return addKnownArgument(train, scale.getType(), name, ArgumentKind::Optimizer, zero,
                            train.getLoc());
  };
  if (!(goodSteps = add(kGoodStepsName)) || !(skippedSteps = add(kSkippedStepsName)))
    return failure();
  builder.setInsertionPointToStart(&train.front());
  inverse = ReciprocalOp::create(builder, train.getLoc(), scale).getY();
  for (const GraphResult &gradient : gradients) {
    builder.setInsertionPointAfterValue(gradient.value);
    squaresOf.push_back(sumOfSquares(builder, gradient.value.getLoc(), gradient.value));
  }
  builder.setInsertionPoint(train.front().getTerminator());
  Formula f(builder, train.getLoc());
  for (Value squares : squaresOf)
    total = total ? f.add(total, squares) : squares;
  if (total)
    allFinite = isFinite(builder, total);
  return success();
}

Value LossScale::squares(OpBuilder &builder) {
  Formula f(builder, train.getLoc());
  return f.mul(f.mul(total, inverse), inverse);
}

Value LossScale::unscaled(OpBuilder &builder, Value gradient) {
  return Formula(builder, gradient.getLoc()).mul(gradient, inverse);
}

Value LossScale::applies(OpBuilder &builder, size_t gradient) {
  return waits() ? allFinite : isFinite(builder, squaresOf[gradient]);
}

Value LossScale::rate(OpBuilder &builder, Value rate, size_t gradient) {
  if (commonRate)
    return commonRate;
  Formula f(builder, train.getLoc());
  Value none = f.scalar(std::numeric_limits<double>::quiet_NaN(), rate);
  Value chosen = select(builder, applies(builder, gradient), rate, none);
  if (waits())
    commonRate = chosen;
  return chosen;
}

Value LossScale::step(OpBuilder &builder, Value step, size_t gradient) {
  if (commonStep)
    return commonStep;
  Formula f(builder, train.getLoc());
  Value skipped = f.build<CastOp>(step.getType(), skippedSteps).getY();
  auto zero = DenseElementsAttr::get(tensorType(step), builder.getI64IntegerAttr(0).getValue());
  Value chosen =
      select(builder, applies(builder, gradient), f.sub(step, skipped), f.build<ConstantOp>(zero));
  if (waits())
    commonStep = chosen;
  return chosen;
}

void LossScale::finish(OpBuilder &builder, SmallVectorImpl<GraphResult> &results) {
  builder.setInsertionPoint(train.front().getTerminator());
  Formula f(builder, train.getLoc());
  const auto arguments = argumentsByName(train);
  for (GraphResult &result : results) {
    BlockArgument state = arguments.lookup(result.get(kStateAttr));
    Operation *producer = result.value.getDefiningOp(); // null: an input
    if (state && (!producer || phaseOf(producer) != Phase::Update))
      result.value = allFinite ? select(builder, allFinite, result.value, state) // statistics
                               : result.value;
    else if (!state && result.get(kNameAttr) != "loss")
      result.value = unscaled(builder, result.value); // the gradient of an input
  }

  auto keep = [&](Value state, Value value) {
    auto name = argumentAttr(train, cast<BlockArgument>(state).getArgNumber(), kNameAttr);
    results.push_back({value, stringAttributes(builder.getContext(), {{kStateAttr, name}})});
  };
  if (!allFinite) { // nothing is trained
    for (Value state : {Value(scale), goodSteps, skippedSteps})
      keep(state, state);
    return;
  }
  Value good = f.add(goodSteps, 1.0);
  Value grows = f.build<CompareOp>(good, f.scalar(kGrowthInterval, good), "ge").getMask();
  Value zero = f.scalar(0.0, good);
  Value halved = f.build<MaximumOp>(f.mul(scale, 0.5), f.scalar(kSmallestScale, scale)).getY();
  keep(scale, select(builder, allFinite, select(builder, grows, f.mul(scale, 2.0), scale), halved));
  keep(goodSteps, select(builder, allFinite, select(builder, grows, zero, good), zero));
  keep(skippedSteps, select(builder, allFinite, skippedSteps, f.add(skippedSteps, 1.0)));
}

} // namespace stow
