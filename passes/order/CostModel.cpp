#include "passes/order/CostModel.h"

#include "ir/StowCollectiveOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "passes/memory/Exchanges.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/SlowCopies.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace mlir;

namespace stow {
namespace {

/// How much slower a library's reference code computes than its other code: 200 to 4,000 times were
/// measured for convolutions, 12,000 for matrix products.
constexpr double kReferenceSlowdown = 300;

/// 16-bit factors with sums in f32 run at the 16-bit rate.
double peakOf(const CostModel &model, Operation *op) {
  const bool isProduct = op->hasTrait<Multiplies>();
  auto type = op->getNumResults()
                  ? dyn_cast<RankedTensorType>(isProduct ? op->getOperand(0).getType()
                                                         : op->getResult(0).getType())
                  : RankedTensorType();
  if (isProduct && type && type.getElementType().isF32() && model.f32ProductsPerSecond > 0)
    return model.f32ProductsPerSecond;
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
  LaneClock(const std::optional<SlowMemory> &slow, const std::optional<Network> &network)
      : slow(slow), network(network) {}

  /// Time that `op`, an await or a collective that nothing awaits, holds what is behind it.
  schedule::Cost pass(Operation *op, schedule::Cost cost) {
    if (!(network && isa<UnshardOp>(op)))
      now += cost;
    if (slow && isa<CopyOutOp>(op))
      return start(times.copies[op], outFree, 0,
                   SlowMemory::durationOf(slow->out, copiedBytes(op)));
    if (auto in = dyn_cast<CopyInOp>(op); in && slow)
      return start(times.copies[op], inFree, endOf(copyOutOf(in.getToken())),
                   SlowMemory::durationOf(slow->in, copiedBytes(op)));
    if (network && isCollective(op)) {
      if (op->hasAttr(kWithNextAttr)) {
        together.push_back(op);
        return 0;
      }
      start(times.exchanges[op], networkFree, 0, network->durationOf(op));
      for (Operation *member : std::exchange(together, {})) // over when the last one is
        times.exchanges[member] = {networkFree, networkFree};
      if (isStartedCollective(op))
        return 0;
      const schedule::Cost wait = waitUntil(networkFree);
      return isa<UnshardOp>(op) ? 0 : wait; // whose time is its cost
    }
    if (auto await = dyn_cast<AwaitOutOp>(op))
      return waitUntil(endOf(copyOutOf(await.getToken())));
    if (auto await = dyn_cast<AwaitInOp>(op))
      return waitUntil(endOf(await.getComing().getDefiningOp()));
    if (Operation *collective = awaitedCollective(op))
      return waitUntil(times.exchanges.lookup(collective).second);
    return 0;
  }

  CostModel::LaneTimes times;

private:
  /// 0 where nothing was copied: the bytes are there.
  schedule::Cost endOf(Operation *start) const { return times.copies.lookup(start).second; }

  schedule::Cost waitUntil(schedule::Cost end) {
    const schedule::Cost wait = std::max<schedule::Cost>(end - now, 0);
    now += wait;
    return wait;
  }

  schedule::Cost start(std::pair<schedule::Cost, schedule::Cost> &spell, schedule::Cost &free,
                       schedule::Cost ready, schedule::Cost duration) {
    const schedule::Cost begin = std::max({now, free, ready});
    free = begin + duration;
    spell = {begin, free};
    return 0;
  }

  const std::optional<SlowMemory> &slow;
  const std::optional<Network> &network;
  schedule::Cost now = 0, outFree = 0, inFree = 0, networkFree = 0;
  SmallVector<Operation *> together; ///< sums that wait for the one they are exchanged with
};

} // namespace

schedule::Cost SlowMemory::durationOf(const schedule::Link &link, Bytes bytes) {
  return link.duration(alignUp(bytes, kSlowAlignment));
}

schedule::Cost Network::durationOf(Operation *collective) const {
  const Exchanged exchanged = exchangedBy(collective);
  schedule::Link bytes = link;
  bytes.latency = 0;
  return exchanged.exchanges * link.latency + bytes.duration(exchanged.sentBytes);
}

schedule::Cost CostModel::costOf(Operation *op) const {
  return costOf(op, chosenImplementation(op));
}

schedule::Cost CostModel::costOf(Operation *op, unsigned implementation) const {
  if (isCopyOrAwait(op) || awaitedCollective(op))
    return 0;
  // What may run again costs what it takes, so that keeping it can be weighed; on the lane it is waited for at its await.
  if (network && isa<UnshardOp>(op))
    return isStartedCollective(op) ? 0 : network->durationOf(op);
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
  const LaneTimes lanes = lanesIn(graph);
  for (const auto &[await, wait] : lanes.waits)
    (isCopyOrAwait(await) ? time.waits : time.exposed) += wait;
  for (const auto &[collective, spell] : lanes.exchanges)
    time.exchanges += spell.second - spell.first;
  return time;
}

CostModel::LaneTimes CostModel::lanesIn(func::FuncOp graph) const {
  if (!slow && !network)
    return LaneTimes();
  LaneClock clock(slow, network);
  for (Operation &op : graph.getBody().front())
    if (!launchesNothing(&op))
      if (const schedule::Cost wait = clock.pass(&op, costOf(&op)))
        clock.times.waits[&op] = wait;
  return std::move(clock.times);
}

} // namespace stow
