#include "passes/layout/Weights.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"

using namespace mlir;

namespace stow {
namespace {

/// What generated kernels read: channels innermost, as in the images.
RankedTensorType channelsInnermost(RankedTensorType weight) {
  Order order = rowMajorOrder(weight.getRank());
  std::rotate(order.begin(), order.begin() + 2, order.end());
  return withOrder(weight, order);
}

/// Position of the weight among operands and results.
unsigned weightPosition(Operation *call) { return isa<Conv2dGradWeightOp>(call) ? 2 : 1; }

} // namespace

bool isPadded(RankedTensorType type) {
  return storedBytesOf(type) > storedBytesOf(withoutLayout(type)) * 101 / 100;
}

RankedTensorType imageType(const Target &target, Operation *call, RankedTensorType image) {
  return target.orderWish(call) == OrderWish::RowMajor
             ? withoutLayout(image)
             : withOrder(image, channelsLastOrder(image.getRank()));
}

SmallVector<Operation *> WeightLayouts::readersOf(Value weight) {
  SmallVector<Operation *> readers;
  for (OpOperand &use : weight.getUses())
    if (isa<CastOp>(use.getOwner()))
      llvm::append_range(readers, readersOf(use.getOwner()->getResult(0)));
    else if (isa<Conv2dOp, Conv2dGradInputOp>(use.getOwner()) && use.getOperandNumber() == 1)
      readers.push_back(use.getOwner());
  return readers;
}

Conv2dGradWeightOp WeightLayouts::gradientOf(Conv2dOp convolution) {
  ArrayRef<int64_t> weight = convolution.getWeight().getType().getShape();
  for (Operation *user : convolution.getX().getUsers())
    if (auto gradient = dyn_cast<Conv2dGradWeightOp>(user);
        gradient && gradient.getDweight().getType().getShape() == weight &&
        gradient.getGroups() == convolution.getGroups())
      return gradient;
  return {};
}

FailureOr<WeightLayouts::Answer> WeightLayouts::ask(Operation *call,
                                                    std::optional<RankedTensorType> stored) {
  unsigned position = weightPosition(call);
  SmallVector<Value> values(call->getOperands());
  llvm::append_range(values, call->getResults());
  SmallVector<Type> before;
  for (auto [i, value] : llvm::enumerate(values)) {
    before.push_back(value.getType());
    if (auto type = tensorType(value); i != position && type.getRank() > 1)
      value.setType(imageType(target, call, type));
  }
  RankedTensorType plain = withoutLayout(tensorType(values[position]));
  values[position].setType(stored ? withLayout(plain, layoutOf(*stored)) : plain);
  SmallVector<bool> free(values.size(), false);
  free[position] = !stored;
  auto answer = target.query(call, free);
  for (auto [value, type] : llvm::zip_equal(values, before))
    value.setType(cast<RankedTensorType>(type));
  if (failed(answer))
    return failure();
  return Answer{withLayout(plain, answer->layouts[position]), answer->isReference,
                answer->isConverted};
}

FailureOr<bool> WeightLayouts::isFast(Operation *call, RankedTensorType stored) {
  auto answer = ask(call, stored);
  if (failed(answer))
    return failure();
  if (answer->isReference || !answer->isConverted)
    return !answer->isReference;
  auto liked = ask(call, std::nullopt);
  if (failed(liked))
    return failure();
  return liked->isConverted;
}

FailureOr<RankedTensorType> WeightLayouts::forState(Value weight) {
  // Among layouts that suit as many calls, the gradient's comes first, so that the update reads
  // what it wrote, and the backward's last.
  SmallVector<Conv2dOp> forward;
  SmallVector<Operation *> calls, backward;
  for (Operation *reader : readersOf(weight))
    if (auto convolution = dyn_cast<Conv2dOp>(reader))
      forward.push_back(convolution);
    else
      backward.push_back(reader);
  for (Conv2dOp convolution : forward)
    if (Operation *gradient = gradientOf(convolution);
        gradient && !llvm::is_contained(calls, gradient))
      calls.push_back(gradient);
  llvm::append_range(calls, forward);
  llvm::append_range(calls, backward);
  if (llvm::any_of(calls, [&](Operation *call) { return isGenerated(call); }))
    return channelsInnermost(tensorType(weight));
  RankedTensorType best = withoutLayout(tensorType(weight));
  SmallVector<RankedTensorType> candidates;
  for (Operation *call : calls) {
    auto liked = ask(call, std::nullopt);
    if (failed(liked))
      return failure();
    const RankedTensorType candidate = withLayout(best, layoutOf(liked->weight));
    if (!isPadded(candidate) && !llvm::is_contained(candidates, candidate))
      candidates.push_back(candidate);
  }
  candidates.push_back(best);
  size_t most = 0;
  for (RankedTensorType candidate : candidates) {
    size_t fast = 0;
    for (Operation *call : calls) {
      auto isFastHere = isFast(call, candidate);
      if (failed(isFastHere))
        return failure();
      fast += *isFastHere;
    }
    if (fast > most) {
      most = fast;
      best = candidate;
    }
  }
  return best;
}

FailureOr<RankedTensorType> WeightLayouts::forCall(Operation *call, RankedTensorType stored) {
  if (isGenerated(call))
    return isPlain(stored) ? stored : channelsInnermost(stored);
  auto isFastHere = isFast(call, stored);
  if (failed(isFastHere) || *isFastHere)
    return failed(isFastHere) ? FailureOr<RankedTensorType>(failure()) : stored;
  auto liked = ask(call, std::nullopt);
  if (failed(liked))
    return failure();
  return liked->isReference ? stored : liked->weight;
}

} // namespace stow
