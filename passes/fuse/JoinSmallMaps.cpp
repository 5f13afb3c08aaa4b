// Small maps that stand between the same two launches as one: O(maps * ops between two launches).
//
//   product -> y --+-- [sigmoid] -> i --+
//                  +-- [sigmoid] -> f --+-- [f c' + i g] -> c --+-- [o tanh c] -> h
//                  +-- [tanh]    -> g --+                       |
//                  +-- [sigmoid] -> o --------------------------+
//
//   product -> y, c' -- [all of it] -> i, f, g, o, c, h
//
// stow-fuse-elementwise merges what has one reader; here the values that others read as well are kept, as further
// results. An unrolled recurrent cell is the case that matters: a step of an LSTM is six small kernels, and as many
// in the backward, each of which is launched for longer than it runs. What a map reads at once is the price: its operands live until
// all of it has run. So no joined map reads more bytes than some launch of the graph holds anyway.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/PackedMasks.h"
#include "ir/ProductMaps.h"
#include "ir/Sharing.h"
#include "ir/StowKernelOps.h"
#include "passes/SmallLaunches.h"
#include "passes/Target.h"
#include "passes/memory/Liveness.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_JOINSMALLMAPSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// A thread reads a vector of four numbers of each operand before it computes, in 96 of its 255 registers. One of the two may have more already.
constexpr size_t kMostOperands = 24, kMostResults = 8;
/// Between two launches that are no maps stand a few dozen; a map does not wait for longer than that.
constexpr size_t kFarthest = 64;

/// What the value is, or may be placed as, a part of.
Value rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    const Sharings sharings = sharingsOf(op);
    const auto *part = llvm::find_if(sharings, [&](const Sharing &sharing) {
      return op->getResult(sharing.result) == value &&
             (sharing.kind == SharingKind::View || sharing.kind == SharingKind::PartOfOperand);
    });
    if (part == sharings.end())
      break;
    value = op->getOperand(part->operand);
  }
  return value;
}

/// Bytes of all that a launch reads and writes, which are in memory while it runs.
Bytes heldBytes(ValueRange operands, ValueRange results = {}) {
  llvm::SmallSetVector<Value, 16> values;
  for (Value value : operands)
    values.insert(viewedValue(value));
  values.insert(results.begin(), results.end());
  Bytes bytes = 0;
  for (Value value : values)
    bytes += storedBytesOf(value.getType());
  return bytes;
}

bool hasPackedMask(MapOp map) {
  for (unsigned i = 0; i < map->getNumOperands() + map->getNumResults(); ++i)
    if (isPackedMask(map, i))
      return true;
  return false;
}

bool isNumber(Value value) { return tensorType(value).getNumElements() == 1; }

/// The maps of one graph.
class GraphMaps {
public:
  GraphMaps(func::FuncOp graph, const Target &target) : graph(graph), target(target) {
    for (Operation &op : graph.getBody().front().without_terminator())
      if (!launchesNothing(&op))
        most = std::max(most, heldBytes(op.getOperands(), op.getResults()));
  }

  /// True where any are joined.
  bool run() {
    bool isAny = false;
    SmallVector<MapOp> before; // since the last launch that is no map, in program order
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front())) {
      auto map = dyn_cast<MapOp>(&op);
      if (!map && !launchesNothing(&op) &&
          (op.getNumResults() == 0 || rootOf(op.getResult(0)) == op.getResult(0)))
        before.clear();
      if (!map || !isSmall(map))
        continue;
      for (MapOp &other : llvm::reverse(before))
        if (mayJoin(other, map)) {
          map = join(other, map);
          other = {};
          isAny = true;
        }
      llvm::erase_if(before, [](MapOp taken) { return !taken; });
      before.push_back(map);
      if (before.size() > kFarthest)
        before.erase(before.begin());
    }
    return isAny;
  }

private:
  bool isSmall(MapOp map) const {
    return map.getUpdates().empty() && phaseOf(map) != Phase::Update && !hasPackedMask(map) &&
           !map->hasAttr(kEpilogueAttr) && !isNumber(map.getResult(0)) &&
           llvm::all_of(map.getResults(),
                        [&](Value result) {
                          return result.getType() == map.getResult(0).getType() ||
                                 storedBytesOf(result.getType()) <= target.launchBytes();
                        }) &&
           storedBytesOf(map.getResult(0).getType()) <= target.launchBytes();
  }

  /// True when `second` reads what `first` makes, or something that `first` reads too.
  static bool areRelated(MapOp first, MapOp second) {
    llvm::SmallDenseSet<Value> roots;
    for (Value input : first.getInputs())
      if (!isNumber(input))
        roots.insert(rootOf(input));
    return llvm::any_of(second.getInputs(), [&](Value input) {
      return input.getDefiningOp() == first || (!isNumber(input) && roots.contains(rootOf(input)));
    });
  }

  /// True when `first` may run where `second` stands: nothing between them reads its results, or writes over state
  /// that it reads.
  static bool mayWait(MapOp first, MapOp second) {
    llvm::SmallDenseSet<Value> state;
    for (Value input : first.getInputs())
      if (Value root = viewedValue(input); isa<BlockArgument>(root))
        state.insert(root);
    for (Operation *op = first->getNextNode(); op != second; op = op->getNextNode())
      for (OpOperand &operand : op->getOpOperands())
        if (operand.get().getDefiningOp() == first ||
            (isUpdate(operand) && state.contains(viewedValue(operand.get()))))
          return false;
    return true;
  }

  bool mayJoin(MapOp first, MapOp second) const {
    const RankedTensorType a = tensorType(first.getResult(0)), b = tensorType(second.getResult(0));
    if (phaseOf(first) != phaseOf(second) || a.getShape() != b.getShape() ||
        layoutOf(a) != layoutOf(b) || !areRelated(first, second) || !mayWait(first, second))
      return false;
    const SmallVector<Value> operands = operandsOf(first, second),
                             results = resultsOf(first, second);
    const size_t own = std::max(first->getNumOperands(), second->getNumOperands());
    return operands.size() <= std::max(own, kMostOperands) && results.size() <= kMostResults &&
           heldBytes(operands) <= most;
  }

  /// What both read, and neither makes.
  static SmallVector<Value> operandsOf(MapOp first, MapOp second) {
    llvm::SmallSetVector<Value, 16> operands;
    for (Value input : second.getInputs())
      if (input.getDefiningOp() != first)
        operands.insert(input);
    operands.insert(first.getInputs().begin(), first.getInputs().end());
    return llvm::to_vector(operands);
  }

  /// What others than the two read: of `second`, then of `first`.
  static SmallVector<Value> resultsOf(MapOp first, MapOp second) {
    SmallVector<Value> results(second.getResults());
    for (Value result : first.getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return user != second; }))
        results.push_back(result);
    return results;
  }

  /// One map in place of `second` that computes both. What is kept in 16 bits is rounded before `second` reads it, as in memory.
  static MapOp join(MapOp first, MapOp second) {
    const SmallVector<Value> operands = operandsOf(first, second),
                             results = resultsOf(first, second);
    OpBuilder builder(second);
    auto map =
        MapOp::create(builder, builder.getFusedLoc({second.getLoc(), first.getLoc()}),
                      TypeRange(ValueRange(results)), operands, builder.getDenseI64ArrayAttr({}));
    copyPhase(second, map);
    Block &block = map.getBody().emplaceBlock();
    builder.setInsertionPointToStart(&block);
    llvm::DenseMap<Value, Value> elements; // of tensors
    for (Value operand : operands)
      elements[operand] = block.addArgument(tensorType(operand).getElementType(), map.getLoc());
    for (MapOp source : {first, second}) {
      Block &body = source.getBody().front();
      IRMapping mapping;
      for (auto [argument, input] : llvm::zip_equal(body.getArguments(), source.getInputs()))
        mapping.map(argument, elements.lookup(input));
      for (Operation &op : body.without_terminator())
        builder.clone(op, mapping);
      for (auto [result, yielded] :
           llvm::zip_equal(source.getResults(), body.getTerminator()->getOperands()))
        elements[result] = mapping.lookup(yielded);
    }
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(elements.lookup(result));
    YieldOp::create(builder, map.getLoc(), yielded);
    for (auto [result, joined] : llvm::zip(results, map.getResults()))
      Value(result).replaceUsesWithIf(joined,
                                      [&](OpOperand &use) { return use.getOwner() != second; });
    second->erase();
    first->erase();
    return map;
  }

  func::FuncOp graph;
  const Target &target;
  Bytes most = 0; ///< that a launch of the graph holds
};

//===-- --stow-join-small-maps ---------------------------------------------------------------===//

struct JoinSmallMapsPass : impl::JoinSmallMapsPassBase<JoinSmallMapsPass> {
  explicit JoinSmallMapsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    if (target.launchBytes() == 0 || areLaunchesApart(getOperation()))
      return;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (GraphMaps(graph, target).run())
        setLaunchesJoined(getOperation());
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createJoinSmallMapsPass(const Target &target) {
  return std::make_unique<JoinSmallMapsPass>(target);
}

} // namespace stow
