// Shortens the list of forward values that the backward reads: a minimum cut.
//
// A kernel of the backward that waits for memory may compute what it reads itself, element by
// element, from other saved values. SiLU as exporters spell it, x * sigmoid(x), then saves x and
// not sigmoid(x) as well; GELU saves x and neither x / sqrt 2 nor 1 + erf. Which values to save is
// a minimum cut between what kernels of the backward read (D) and what no cheap kernel makes (O):
//
//   conv -> x (O) --+--> [sigmoid] -> s (D) --+--> [mul] -> y       cut {x} instead of {x, s}
//                   |                         |
//                   +-------------------------+
//
// A value costs its bytes where it is cut, and nothing where it is there anyway: state, and what
// other ops of the backward read at least as long. Of several minimum cuts the one nearest to the
// readers is taken, so that nothing is computed twice without a gain. What the cut leaves out is
// computed by clones in front of each kernel that reads it, which stow-fuse-elementwise takes into
// the kernel; so only values of the kernel's own shape are left out. A kernel that compares a value
// with constants and reads nothing else of it may be cut off it as well: then the forward makes a mask
// of the value while it is there, and the kernel reads that. The arithmetic is bounded by
// what moving the value to memory and back would take. The cut is that of AOTAutograd's
// partitioner in PyTorch (functorch, 2022), with bytes for weights and without library calls.
// O(values) but for the maximum flow.
#include "passes/fuse/OnlyBit.h"
#include "passes/fuse/Passes.h"

#include "ir/StepGraphs.h"
#include "ir/StowKernelOps.h"
#include "ir/StowStatisticsOps.h"
#include "passes/memory/Liveness.h"
#include "passes/solvers/schedule/MaxFlow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_REDERIVESAVEDPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// Operations per element that take about as long as writing and reading a float;
/// a function of the math dialect counts as kFunctionWork of them.
constexpr int64_t kMostWork = 64;
constexpr int64_t kFunctionWork = 16;

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// The operand whose bytes the op's result is; null when the op is no view.
Value viewedOperandOf(Operation *op) {
  std::optional<unsigned> viewed = viewedOperand(op);
  return viewed ? op->getOperand(*viewed) : Value();
}

/// True when the reader's result keeps the bytes of what it reads here: a view, or a larger tensor
/// that may have them inside.
bool isKeptByResult(OpOperand &use) {
  return viewedOperand(use.getOwner()) == use.getOperandNumber() || partOfResult(use);
}

/// Where the map reads `value`, of which it uses one bit an element; null where it uses more.
Value bitOf(MapOp map, Value value, unsigned &index) {
  if (llvm::count(map.getInputs(), value) != 1)
    return {};
  index = llvm::find(map.getInputs(), value) - map.getInputs().begin();
  return onlyBitOf(map, index);
}

RankedTensorType maskTypeOf(Value value) {
  RankedTensorType type = tensorType(value);
  return RankedTensorType::get(type.getShape(), IntegerType::get(type.getContext(), 1),
                               type.getEncoding());
}

/// Operations that the map's body takes for one element.
int64_t workOf(MapOp map) {
  int64_t work = 0;
  for (Operation &op : map.getBody().front().without_terminator()) {
    const bool isFunction = op.getName().getDialectNamespace() == "math" &&
                            !isa<math::AbsFOp, math::CeilOp, math::FloorOp, math::FmaOp,
                                 math::RoundEvenOp, math::SqrtOp, math::TruncOp>(op);
    work += isFunction ? kFunctionWork : 1;
  }
  return work;
}

/// The values of one graph that maps of the backward read or may be computed from.
class SavedValues {
public:
  explicit SavedValues(func::FuncOp graph) : graph(graph) {
    Block &block = graph.getBody().front();
    int64_t count = 0;
    for (Operation &op : block)
      position[&op] = count++;
    for (Operation &op : llvm::reverse(block))
      if (isForward(&op))
        for (Value result : op.getResults())
          findReaders(result);
    for (Value argument : block.getArguments())
      findReaders(argument);
    std::ranges::reverse(demands);
    for (auto &[value, node] : nodes)
      if (node.isDemanded && isReadForBits(value))
        node.bitBytes = storedBytesOf(maskTypeOf(value));
  }

  /// Decides which values are computed again.
  void decide() {
    do {
      cut();
    } while (dropDear() || dropFurtherReads());
  }

  struct Demand {
    Value value;
    MapOp reader;
  };
  /// Reads of the backward that may be computed again, in program order of what is read.
  const std::vector<Demand> &all() const { return demands; }

  bool isComputedAgain(Value value) const {
    auto found = nodes.find(value);
    return found != nodes.end() && found->second.isComputedAgain;
  }

  /// True when each of the value's readers in the backward reads a mask that the forward makes of it.
  bool isKeptAsBits(Value value) const {
    auto found = nodes.find(value);
    return found != nodes.end() && found->second.isKeptAsBits;
  }

private:
  struct Node {
    int64_t readUntil = -1; ///< last reader in the backward that computes nothing again
    int64_t mapsUntil = -1; ///< last map of the backward that reads it or is computed from it
    bool isDemanded = false;
    bool isOrigin = false; ///< never computed again
    bool isComputedAgain = false;
    Bytes bitBytes = 0;        ///< of the mask that would do for all readers; 0: none would
    bool isKeptAsBits = false; ///< as that mask
  };

  /// A map of the forward that a map of the backward could run again for itself, until its last
  /// reader `until`: one that is cheap and reads no state that an update has overwritten by then.
  bool mayRunAgain(Operation *op, int64_t until) const {
    auto map = dyn_cast_or_null<MapOp>(op);
    if (!map || !isForward(map) || map->getNumResults() != 1 || !map.isRecomputable() ||
        workOf(map) > kMostWork)
      return false;
    return llvm::none_of(map.getInputs(), [&](Value input) {
      Value root = viewedValue(input);
      return isa<BlockArgument>(root) && isOverwrittenBefore(root, until);
    });
  }

  bool isOverwrittenBefore(Value argument, int64_t until) const {
    return llvm::any_of(argument.getUses(), [&](OpOperand &use) {
      return position.lookup(use.getOwner()) < until && isUpdate(use);
    });
  }

  /// The last reader in the backward of the value's bytes, maps included, through what keeps them.
  int64_t lastReader(Value value) const {
    int64_t last = -1;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (!isForward(user) || user->hasTrait<OpTrait::IsTerminator>())
        last = std::max(last, position.lookup(user));
      else if (isKeptByResult(use))
        last = std::max(last, lastReader(user->getResult(0)));
    }
    return last;
  }

  /// True when a mask in place of the value would free it for nothing: one kernel of the forward reads it,
  /// which may make the mask as well (stow-join-masks), and what the backward reads of it, or of the
  /// bytes that it is a view of, is a bit an element.
  bool isReadForBits(Value value) const {
    Value root = viewedValue(value);
    auto isForwardReader = [](Operation *user) { return isForward(user); };
    auto forwardReaders = llvm::make_filter_range(value.getUsers(), isForwardReader);
    if (isa<BlockArgument>(root) || !llvm::hasSingleElement(forwardReaders))
      return false;
    auto maker = dyn_cast<MapOp>(*forwardReaders.begin());
    if (!maker || !maker.getUpdates().empty() || shapeOf(maker.getResult(0)) != shapeOf(value))
      return false;
    int64_t readers = 0;
    for (const Demand &demand : demands) {
      if (demand.value != value)
        continue;
      unsigned index = 0;
      if (++readers > 1 || !bitOf(demand.reader, value, index))
        return false;
    }
    return readersInBackward(root) == readers;
  }

  /// Reads of the value's bytes in the backward, through what keeps them.
  int64_t readersInBackward(Value value) const {
    int64_t readers = 0;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (!isForward(user) || user->hasTrait<OpTrait::IsTerminator>())
        ++readers;
      else if (isKeptByResult(use))
        readers += readersInBackward(user->getResult(0));
    }
    return readers;
  }

  /// Fills the value's node from its users, whose results have theirs.
  void findReaders(Value value) {
    Node node;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      auto map = dyn_cast<MapOp>(user);
      const bool fits = map && shapeOf(value) == shapeOf(map.getResult(0));
      if (fits && !isForward(user)) {
        node.isDemanded = true;
        node.mapsUntil = std::max(node.mapsUntil, position.lookup(user));
        if (llvm::none_of(demands, [&](const Demand &known) {
              return known.value == value && known.reader == map;
            }))
          demands.push_back({value, map});
      } else if (!isForward(user) || user->hasTrait<OpTrait::IsTerminator>()) {
        node.readUntil = std::max(node.readUntil, position.lookup(user));
      } else if (isKeptByResult(use)) {
        node.readUntil = std::max(node.readUntil, lastReader(user->getResult(0)));
      }
      // What it is read for by clones.
      if (user->getNumResults() != 1 || !isForward(user))
        continue;
      auto of = nodes.find(user->getResult(0));
      if (of == nodes.end() || of->second.mapsUntil < 0)
        continue;
      const bool isView = viewedOperandOf(user) == value;
      if (!isView && of->second.isOrigin)
        continue;
      node.mapsUntil = std::max(node.mapsUntil, of->second.mapsUntil);
      node.isOrigin |= isView || !fits;
    }
    if (node.mapsUntil < 0)
      return;
    node.isOrigin |= !mayRunAgain(value.getDefiningOp(), node.mapsUntil);
    nodes[value] = node;
  }

  /// Bytes that saving the value takes beyond what is there anyway.
  int64_t costOf(Value value, const Node &node) const {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && isStateArgument(graph, argument.getArgNumber()))
      return 0;
    return node.readUntil >= node.mapsUntil ? 0 : storedBytesOf(value.getType());
  }

  /// The minimum cut nearest to the readers: flow runs from them to the origins.
  void cut() {
    const int32_t source = 0, sink = 1;
    llvm::DenseMap<Value, int32_t> first; // of two nodes: what is read, and what it is made of
    for (auto &[value, node] : nodes)
      first.try_emplace(value, 2 + 2 * int32_t(first.size()));
    schedule::MaxFlow flow(2 + 2 * int32_t(nodes.size()));
    for (auto &[value, node] : nodes) {
      const int32_t read = first[value], made = read + 1;
      if (node.isDemanded)
        flow.addArc(source, read, node.bitBytes ? node.bitBytes : schedule::MaxFlow::unbounded);
      Operation *op = value.getDefiningOp();
      if (Value root = op ? viewedOperandOf(op) : Value()) {
        flow.addArc(read, first[root], schedule::MaxFlow::unbounded);
        continue;
      }
      flow.addArc(read, made, costOf(value, node));
      if (node.isOrigin)
        flow.addArc(made, sink, schedule::MaxFlow::unbounded);
      else
        for (Value input : op->getOperands())
          flow.addArc(made, first[input], schedule::MaxFlow::unbounded);
    }
    flow.solve(source, sink);
    for (auto &[value, node] : nodes) {
      node.isComputedAgain =
          !node.isOrigin && flow.sourceSide()[first[value]] && flow.sourceSide()[first[value] + 1];
      node.isKeptAsBits = node.bitBytes && !flow.sourceSide()[first[value]];
    }
  }

  /// Makes origins of read values that take too much work; true when there were any.
  bool dropDear() {
    bool dropped = false;
    llvm::DenseMap<Value, int64_t> work;
    for (auto &[value, node] : llvm::reverse(nodes)) { // in program order
      if (!node.isComputedAgain)
        continue;
      auto map = value.getDefiningOp<MapOp>();
      int64_t total = workOf(map);
      for (Value input : map.getInputs())
        total += work.lookup(input);
      if (node.isDemanded && total > kMostWork) {
        node.isOrigin = dropped = true;
        total = 0;
      }
      work[value] = std::min<int64_t>(total, 1 << 20);
    }
    return dropped;
  }

  /// Makes origins of normalized values that another op of the backward reads as well, and that a map would
  /// compute from more bytes than it reads now, as at the end of a residual block: all that is gained is
  /// that the value dies somewhat earlier. True when there were any.
  bool dropFurtherReads() {
    bool dropped = false;
    for (auto [value, reader] : demands) {
      Node &node = nodes[value];
      if (!node.isComputedAgain || node.readUntil < 0 || !isNormalized(value))
        continue;
      llvm::SmallSetVector<Value, 4> sources;
      findSources(value, value, sources);
      for (Value known : reader.getInputs())
        sources.remove(known);
      Bytes read = 0;
      for (Value source : sources)
        read += storedBytesOf(source.getType());
      if (read > storedBytesOf(value.getType()))
        node.isOrigin = dropped = true;
    }
    return dropped;
  }

  /// True for what a map makes of a batch normalization that it computes (stow-split-batch-norm).
  static bool isNormalized(Value value) {
    return llvm::any_of(value.getDefiningOp<MapOp>().getInputs(), [](Value input) {
      return isa_and_nonnull<BatchNormStatisticsOp>(viewedValue(input).getDefiningOp());
    });
  }

  /// The tensors of `value`'s shape that `part` of it is computed from again.
  void findSources(Value value, Value part, llvm::SmallSetVector<Value, 4> &found) const {
    for (Value input : part.getDefiningOp<MapOp>().getInputs())
      if (isComputedAgain(input))
        findSources(value, input, found);
      else if (shapeOf(input) == shapeOf(value))
        found.insert(input);
  }

  func::FuncOp graph;
  llvm::DenseMap<Operation *, int64_t> position;
  llvm::MapVector<Value, Node> nodes; ///< in reverse program order, arguments last
  std::vector<Demand> demands;
};

//===--------------------------------------------------------------------------------------------===//
// --stow-rederive-saved
//===--------------------------------------------------------------------------------------------===//

struct RederiveSavedPass : impl::RederiveSavedPassBase<RederiveSavedPass> {
  using RederiveSavedPassBase::RederiveSavedPassBase;

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (isStepGraph(graph))
        rederive(graph);
  }

private:
  void rederive(func::FuncOp graph) {
    SavedValues saved(graph);
    saved.decide();
    llvm::DenseMap<Operation *, llvm::DenseMap<Value, Value>> clonesOf; // by reader
    llvm::SmallSetVector<Value, 16> rederived;
    for (auto [value, reader] : saved.all()) {
      if (saved.isKeptAsBits(value))
        keepAsBits(value, reader);
      if (!saved.isComputedAgain(value))
        continue;
      Value again = compute(value, reader, saved, clonesOf[reader]);
      reader->replaceUsesOfWith(value, again);
      rederived.insert(value);
    }
    for (Value value : rederived)
      if (value.use_empty())
        value.getDefiningOp()->erase();
  }

  /// The mask is made where the value is: what reads it last in the forward may then overwrite it.
  void keepAsBits(Value value, MapOp reader) {
    OpBuilder builder(reader);
    builder.setInsertionPointAfterValue(value);
    unsigned index = 0;
    Value bit = bitOf(reader, value, index);
    readBit(reader, index, bit, computeBit(builder, reader, index, bit).getResult(0));
  }

  /// `value` computed in front of `reader` from what is saved.
  Value compute(Value value, MapOp reader, const SavedValues &saved,
                llvm::DenseMap<Value, Value> &clones) {
    if (!saved.isComputedAgain(value))
      return value;
    if (Value known = clones.lookup(value))
      return known;
    SmallVector<Value> inputs =
        llvm::map_to_vector(value.getDefiningOp()->getOperands(),
                            [&](Value input) { return compute(input, reader, saved, clones); });
    OpBuilder builder(reader);
    Operation *clone = builder.clone(*value.getDefiningOp());
    clone->setOperands(inputs);
    setPhase(clone, Phase::Backward);
    return clones[value] = clone->getResult(0);
  }
};

} // namespace
} // namespace stow
