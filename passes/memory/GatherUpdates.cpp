// Small updates of one body in one launch: O(updates * launches that they could wait for).
//
// An update may wait from where it stands until the launch before the first that writes what it reads or
// touches what it writes. Launches are points of a line, updates intervals on it; the fewest points that
// meet all intervals are found from the earliest end on (interval stabbing), per body:
//
//   update a   |-----------x                 x: a launch takes the gradient's bytes
//   update b        |----------------x
//   update c             |----------------->
//                        ^ a, b and c run here: where the last of them stood
#include "passes/memory/GatherUpdates.h"
#include "passes/memory/Launches.h"
#include "passes/memory/Passes.h"

#include "ir/PackedMasks.h"
#include "ir/StowKernelOps.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_GATHERUPDATESPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// Kernels take 4 KiB of parameters: as many addresses, and room for what else there is.
constexpr size_t kMostAddresses = 480;

/// A small update: where it stands, and the last launch behind which it may run.
struct Update {
  MapOp op;
  size_t stands = 0, latest = 0;
};

bool isNumber(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements() == 1; }

size_t addressesOf(MapOp map) { return map->getNumOperands() + map->getNumResults(); }

/// True for a map whose tensors, numbers aside, lie alike and whose results are new state. One that sums the gradients of
/// many uses of its parameter may have more addresses than a launch of several.
bool isSmallUpdate(func::FuncOp graph, MapOp map) {
  auto type = cast<RankedTensorType>(map.getResult(0).getType());
  if (addressesOf(map) > kMostAddresses)
    return false;
  if (type.getNumElements() > kMostGatheredElements || type.getNumElements() < 2 ||
      layoutOf(type).pitch)
    return false;
  for (Value value : llvm::concat<Value>(SmallVector<Value>(map.getOperands()),
                                         SmallVector<Value>(map.getResults()))) {
    auto tensor = cast<RankedTensorType>(value.getType());
    if (!isNumber(value) &&
        (tensor.getShape() != type.getShape() || layoutOf(tensor) != layoutOf(type)))
      return false;
  }
  if (llvm::any_of(map.getBody().front(), llvm::IsaPred<ElementIndexOp>))
    return false; // depends on where an element stands in its tensor
  for (unsigned i = 0; i < map->getNumOperands() + map->getNumResults(); ++i)
    if (isPackedMask(map, i))
      return false;
  return llvm::all_of(map.getResults(), [&](OpResult result) {
    return !isNumber(result) && llvm::all_of(result.getUses(), [&](OpOperand &use) {
      return use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
             graph.getResultAttr(use.getOperandNumber(), kStateAttr);
    });
  });
}

/// True for maps that one kernel can run: the same body over the same numbers, tensors of the same types.
bool areAlike(MapOp a, MapOp b) {
  if (a->getNumOperands() != b->getNumOperands() || a->getNumResults() != b->getNumResults() ||
      phaseOf(a) != phaseOf(b))
    return false;
  for (auto [x, y] : llvm::zip(a.getOperands(), b.getOperands()))
    if (isNumber(x) != isNumber(y) || (isNumber(x) && x != y) ||
        getElementTypeOrSelf(x.getType()) != getElementTypeOrSelf(y.getType()))
      return false;
  for (auto [x, y] : llvm::zip(a.getResults(), b.getResults()))
    if (getElementTypeOrSelf(x.getType()) != getElementTypeOrSelf(y.getType()))
      return false;
  return OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    OperationEquivalence::IgnoreLocations);
}

/// Gathers the updates of one graph.
class Gatherer {
public:
  explicit Gatherer(func::FuncOp graph) : graph(graph), launches(launchesOf(graph)) {}

  void run() {
    std::vector<std::vector<Update>> kinds;
    for (size_t i = 0; i < launches.size(); ++i) {
      auto map = dyn_cast<MapOp>(launches[i].op);
      if (!map || !isSmallUpdate(graph, map))
        continue;
      auto kind = llvm::find_if(kinds, [&](auto &k) { return areAlike(k.front().op, map); });
      if (kind == kinds.end())
        kind = kinds.insert(kinds.end(), std::vector<Update>());
      kind->push_back({map, i, latestFor(i)});
    }
    for (const std::vector<Update> &kind : kinds)
      gather(kind);
  }

private:
  size_t latestFor(size_t stands) const {
    size_t latest = stands;
    while (latest + 1 < launches.size() && launches[stands].commutesWith(launches[latest + 1]))
      ++latest;
    return latest;
  }

  /// Updates in the order in which they stand.
  void gather(std::vector<Update> waiting) {
    while (!waiting.empty()) {
      const size_t point =
          llvm::min_element(waiting, [](auto &a, auto &b) { return a.latest < b.latest; })->latest;
      std::vector<Update> together, rest;
      size_t addresses = 0;
      for (const Update &update : waiting) {
        const size_t own = addressesOf(update.op);
        const bool joins = update.stands <= point && addresses + own <= kMostAddresses;
        addresses += joins ? own : 0;
        (joins ? together : rest).push_back(update);
      }
      MapOp last = together.back().op;
      for (const Update &update : llvm::drop_end(together))
        update.op->moveBefore(last);
      for (const Update &update : llvm::drop_begin(together))
        update.op->setAttr(kTogetherAttr, UnitAttr::get(graph.getContext()));
      waiting = std::move(rest);
    }
  }

  func::FuncOp graph;
  const std::vector<PlacedLaunch> launches;
};

//===-- --stow-gather-updates ----------------------------------------------------------------===//

struct GatherUpdatesPass : impl::GatherUpdatesPassBase<GatherUpdatesPass> {
  using GatherUpdatesPassBase::GatherUpdatesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(requirePlaced(module)))
      return signalPassFailure();
    for (auto graph : module.getOps<func::FuncOp>())
      Gatherer(graph).run();
    raiseLowerBounds(module);
  }
};

} // namespace

} // namespace stow
