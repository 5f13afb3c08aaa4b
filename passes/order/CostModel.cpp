#include "passes/order/CostModel.h"

#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace stow {
namespace {

/// How much slower a library's reference code computes than its other code: 200 to 4,000 times were
/// measured for convolutions, 12,000 for matrix products.
constexpr double kReferenceSlowdown = 300;

/// 16-bit factors with sums in f32 run at the 16-bit rate.
double peakOf(const CostModel &model, Operation *op) {
  auto type = op->getNumResults() ? dyn_cast<RankedTensorType>(op->hasTrait<Multiplies>()
                                                                   ? op->getOperand(0).getType()
                                                                   : op->getResult(0).getType())
                                  : RankedTensorType();
  auto found = model.flopsPerSecond.end();
  if (type)
    found = model.flopsPerSecond.find(dtypeOf(type.getElementType()));
  if (found == model.flopsPerSecond.end())
    found = model.flopsPerSecond.find(DType::F32);
  return found->second;
}

/// When the lanes and the ops go on.
class LaneClock {
public:
  explicit LaneClock(const SlowMemory &slow) : slow(slow) {}

  /// Time that `op`, an await, holds what is behind it.
  schedule::Cost pass(Operation *op, schedule::Cost cost) {
    now += cost;
    if (isa<CopyOutOp>(op))
      return start(op, slow.out, outFree, 0);
    if (auto in = dyn_cast<CopyInOp>(op))
      return start(op, slow.in, inFree, endOf(copyOutOf(in.getToken())));
    schedule::Cost end = now;
    if (auto await = dyn_cast<AwaitOutOp>(op))
      end = endOf(copyOutOf(await.getToken()));
    else if (auto await = dyn_cast<AwaitInOp>(op))
      end = endOf(await.getComing().getDefiningOp());
    const schedule::Cost wait = std::max<schedule::Cost>(end - now, 0);
    now += wait;
    return wait;
  }

  llvm::DenseMap<Operation *, std::pair<schedule::Cost, schedule::Cost>> takeCopies() {
    return std::move(copies);
  }

private:
  /// 0 where nothing was copied: the bytes are there.
  schedule::Cost endOf(Operation *start) const { return copies.lookup(start).second; }

  schedule::Cost start(Operation *op, const schedule::Link &link, schedule::Cost &free,
                       schedule::Cost ready) {
    const schedule::Cost begin = std::max({now, free, ready});
    free = begin + SlowMemory::durationOf(link, copiedBytes(op));
    copies[op] = {begin, free};
    return 0;
  }

  const SlowMemory &slow;
  schedule::Cost now = 0, outFree = 0, inFree = 0;
  llvm::DenseMap<Operation *, std::pair<schedule::Cost, schedule::Cost>> copies; ///< by start
};

} // namespace

schedule::Cost SlowMemory::durationOf(const schedule::Link &link, Bytes bytes) {
  return link.duration(alignUp(bytes, kSlowAlignment));
}

schedule::Cost CostModel::costOf(Operation *op) const {
  return costOf(op, chosenImplementation(op));
}

schedule::Cost CostModel::costOf(Operation *op, unsigned implementation) const {
  if (isCopyOrAwait(op))
    return 0;
  const schedule::Cost fastest = costOfFastest(op);
  const auto choices = implementationsOf(op);
  if (choices.empty() || choices[implementation].slowdown == 1)
    return fastest;
  return std::llround(static_cast<double>(fastest) * choices[implementation].slowdown);
}

schedule::Cost CostModel::costOfFastest(Operation *op) const {
  if (auto known = op->getAttrOfType<IntegerAttr>(kCostAttr))
    return known.getInt();
  double flops = defaultFlops(op);
  double moved = static_cast<double>(defaultBytesMoved(op));
  if (auto cost = dyn_cast<CostOpInterface>(op)) {
    flops = cost.getFlops();
    moved = static_cast<double>(cost.getBytesMoved());
  }
  // A sum that a product makes reads what the product reads, in its launch.
  const bool isBesideProduct = isa<ReduceSumOp>(op) && op->hasAttr(kTogetherAttr);
  if (isBesideProduct)
    moved = static_cast<double>(storedBytesOf(op->getResult(0).getType()));
  double peak = peakOf(*this, op) / (op->hasAttr(kReferenceAttr) ? kReferenceSlowdown : 1);
  double seconds =
      (isBesideProduct ? 0 : launchSeconds) + std::max(flops / peak, moved / bytesPerSecond);
  return std::max<schedule::Cost>(1, std::llround(seconds * 1e9));
}

CostModel::GraphTime CostModel::timeOf(func::FuncOp graph) const {
  GraphTime time;
  for (Operation &op : graph.getBody().front()) {
    if (launchesNothing(&op))
      continue;
    const schedule::Cost cost = costOf(&op),
                         least = op.hasAttr(kRecomputeAttr) ? 0 : costOf(&op, 0);
    time.once += least;
    time.extra += cost - least;
    if (slow && isa<CopyOutOp, CopyInOp>(op))
      time.copies +=
          SlowMemory::durationOf(isa<CopyOutOp>(op) ? slow->out : slow->in, copiedBytes(&op));
  }
  for (const auto &[await, wait] : waitsIn(graph))
    time.waits += wait;
  return time;
}

CostModel::LaneTimes CostModel::lanesIn(func::FuncOp graph) const {
  LaneTimes times;
  if (!slow)
    return times;
  LaneClock clock(*slow);
  for (Operation &op : graph.getBody().front())
    if (!launchesNothing(&op))
      if (const schedule::Cost wait = clock.pass(&op, costOf(&op)))
        times.waits[&op] = wait;
  times.copies = clock.takeCopies();
  return times;
}

} // namespace stow
