// Elementwise fusion: single-reader merging in program order, O(ops).
//
// Merging a producer into its only reader removes one tensor and one pass over memory and never
// computes anything twice. Values with several readers are kept: duplicating them trades memory
// for time, which stow-rederive-saved and the schedule decide. So is a producer far from its reader
// that replaces several values by one: merged, it would keep all of them alive until then. A weight
// that many products share is the case that matters, its gradient being a long chain of sums:
//
//   dw0 --+                      dw0 --+
//   dw1 --+-- s1 --+             dw1 --+
//   dw2 -----------+-- s2   or   dw2 --+-- s2     two values alive, or all
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowKernelOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/Liveness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FUSEELEMENTWISEPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// The immediate that a splat constant stands for, as a scalar in a map body.
Value scalarConstant(OpBuilder &builder, Location location, ConstantOp constant) {
  auto splat = cast<DenseElementsAttr>(constant.getValue());
  return arith::ConstantOp::create(builder, location,
                                   cast<TypedAttr>(splat.getSplatValue<Attribute>()));
}

/// An elementwise op as a map of its own; constants among its operands become immediates.
MapOp toMap(OpBuilder &builder, ElementwiseOpInterface op) {
  SmallVector<Value> inputs;
  for (Value operand : op->getOperands())
    if (!operand.getDefiningOp<ConstantOp>())
      inputs.push_back(operand);
  SmallVector<int64_t> updates;
  if (auto alias = dyn_cast<AliasOpInterface>(op.getOperation()))
    for (OpResult result : op->getResults())
      if (auto operand = alias.getUpdatedOperand(result.getResultNumber()))
        updates.append({result.getResultNumber(),
                        llvm::find(inputs, op->getOperand(*operand)) - inputs.begin()});

  builder.setInsertionPoint(op);
  auto map = MapOp::create(builder, op.getLoc(), op->getResultTypes(), inputs,
                           builder.getDenseI64ArrayAttr(updates));
  copyPhase(op, map);
  Block &block = map.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&block);
  SmallVector<Value> elements;
  for (Value operand : op->getOperands()) {
    if (auto constant = operand.getDefiningOp<ConstantOp>())
      elements.push_back(scalarConstant(builder, op.getLoc(), constant));
    else
      elements.push_back(block.addArgument(tensorType(operand).getElementType(), op.getLoc()));
  }
  SmallVector<Value> results = op.emitBody(builder, elements);
  YieldOp::create(builder, op.getLoc(), results);
  op->replaceAllUsesWith(map);
  op->erase();
  return map;
}

/// A reshape of a splat is a splat: automatic differentiation seeds sums this way.
void foldReshape(OpBuilder &builder, ReshapeOp reshape) {
  auto constant = reshape.getX().getDefiningOp<ConstantOp>();
  auto value = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!value || !value.isSplat())
    return;
  builder.setInsertionPoint(reshape);
  auto folded = ConstantOp::create(builder, reshape.getLoc(),
                                   value.resizeSplat(cast<ShapedType>(reshape.getY().getType())));
  copyPhase(reshape, folded);
  reshape.replaceAllUsesWith(Value(folded));
  reshape.erase();
}

/// A constant that others than kernels read becomes a map without operands that fills its result.
void fill(OpBuilder &builder, ConstantOp constant) {
  builder.setInsertionPoint(constant);
  auto map = MapOp::create(builder, constant.getLoc(), TypeRange(constant.getType()), ValueRange(),
                           builder.getDenseI64ArrayAttr({}));
  copyPhase(constant, map);
  builder.setInsertionPointToStart(&map.getBody().emplaceBlock());
  Value element = scalarConstant(builder, constant.getLoc(), constant);
  YieldOp::create(builder, constant.getLoc(), ValueRange{element});
  constant.replaceAllUsesWith(map.getResult(0));
  constant.erase();
}

/// True when nothing but elementwise ops, views and constants stands between the two: values that
/// merging keeps alive longer meet no other kernel's.
bool areNeighbours(MapOp producer, MapOp consumer) {
  constexpr int farthest = 64;
  Operation *op = producer->getNextNode();
  for (int steps = 0; op != consumer && steps < farthest; ++steps, op = op->getNextNode())
    if (!op || !isa<MapOp, ElementwiseOpInterface, ReshapeOp, ConstantOp>(op))
      return false;
  return op == consumer;
}

/// A value that a kernel computes and reads itself is not rounded to the 16 bits that it would have
/// had in memory.
void dropRounding(Block &body) {
  for (auto widened : llvm::make_early_inc_range(body.getOps<arith::ExtFOp>())) {
    auto rounded = widened.getIn().getDefiningOp<arith::TruncFOp>();
    if (!rounded || rounded.getIn().getType() != widened.getType())
      continue;
    widened.replaceAllUsesWith(rounded.getIn());
    widened.erase();
    if (rounded->use_empty())
      rounded.erase();
  }
}

/// Takes as long as the shorter one is.
bool isShorter(Block &block, Block &other) {
  auto own = block.begin(), others = other.begin();
  while (own != block.end() && others != other.end())
    ++own, ++others;
  return own == block.end();
}

/// Values that a map reads, each once, and their numbers.
using Inputs = llvm::MapVector<Value, unsigned>;

/// Makes the arguments of `body` the elements of `inputs`, the first `ahead` of which are new in front of those of
/// `source`, whose body it was. What is no input stays for the caller to replace; `isOut` marks it and what was replaced.
SmallVector<Value> rearrange(Block &body, MapOp source, const Inputs &inputs, unsigned ahead,
                             llvm::BitVector &isOut) {
  SmallVector<Value> elements; // by input
  auto typeOf = [](Value input) { return tensorType(input).getElementType(); };
  for (Value input : llvm::make_first_range(ArrayRef(inputs.getArrayRef()).take_front(ahead)))
    elements.push_back(body.insertArgument(elements.size(), typeOf(input), source.getLoc()));
  isOut.resize(body.getNumArguments());
  for (auto [i, input] : llvm::enumerate(source.getInputs())) {
    BlockArgument argument = body.getArgument(ahead + i);
    auto known = inputs.find(input);
    if (known != inputs.end() && known->second == elements.size()) {
      elements.push_back(argument);
      continue;
    }
    isOut.set(ahead + i);
    if (known != inputs.end())
      argument.replaceAllUsesWith(elements[known->second]);
  }
  for (Value input : llvm::make_first_range(inputs.getArrayRef().drop_front(elements.size())))
    elements.push_back(body.addArgument(typeOf(input), source.getLoc()));
  isOut.resize(body.getNumArguments());
  return elements;
}

/// One map that computes `producer` and then `consumer`, placed at the consumer. It takes over the longer of the two
/// bodies, which in a long chain is all that was merged before, and moves the operations of the other one there.
MapOp merge(OpBuilder &builder, MapOp producer, MapOp consumer) {
  const Value merged = producer.getResult(0);
  Inputs inputs; // the consumer's, then the producer's
  inputs.reserve(consumer->getNumOperands() + producer->getNumOperands());
  unsigned ofConsumer = 0;
  for (MapOp source : {consumer, producer}) {
    for (Value input : source.getInputs())
      if (input != merged)
        inputs.try_emplace(input, inputs.size());
    if (source == consumer)
      ofConsumer = inputs.size();
  }
  SmallVector<int64_t> updates(consumer.getUpdates());
  for (size_t i = 1; i < updates.size(); i += 2)
    updates[i] = inputs.lookup(consumer.getOperand(updates[i]));

  builder.setInsertionPoint(consumer);
  auto map = MapOp::create(builder, consumer.getLoc(), consumer.getResultTypes(),
                           llvm::to_vector(llvm::make_first_range(inputs)),
                           builder.getDenseI64ArrayAttr(updates));
  copyPhase(consumer, map);
  Block &first = producer.getBody().front(), &second = consumer.getBody().front();
  const bool isFirstMoved = isShorter(first, second);
  MapOp longer = isFirstMoved ? consumer : producer, shorter = isFirstMoved ? producer : consumer;
  Block &moved = shorter.getBody().front();
  map.getBody().takeBody(longer.getBody());
  Block &block = map.getBody().front();
  llvm::BitVector isOut;
  const SmallVector<Value> elements =
      rearrange(block, longer, inputs, isFirstMoved ? 0 : ofConsumer, isOut);
  for (auto [i, input] : llvm::enumerate(shorter.getInputs()))
    if (input != merged)
      moved.getArgument(i).replaceAllUsesWith(elements[inputs.lookup(input)]);
  const Value produced = first.getTerminator()->getOperand(0);
  for (auto [i, input] : llvm::enumerate(consumer.getInputs()))
    if (input == merged)
      second.getArgument(i).replaceAllUsesWith(produced);
  first.getTerminator()->erase();
  block.eraseArguments(isOut);
  if (isFirstMoved)
    block.getOperations().splice(block.begin(), moved.getOperations());
  else
    block.getOperations().splice(block.end(), moved.getOperations());
  if (isa<Float16Type, BFloat16Type>(produced.getType()))
    dropRounding(block);
  consumer->replaceAllUsesWith(map);
  consumer->erase();
  producer->erase();
  return map;
}

/// Fusion of one graph.
class GraphFusion {
public:
  GraphFusion(func::FuncOp graph, OpBuilder &builder) : graph(graph), builder(builder) {
    int64_t count = 0;
    for (Operation &op : graph.getBody().front())
      position[&op] = count++;
  }

  void run() {
    for (Operation &op : llvm::make_early_inc_range(graph.getBody().front())) {
      if (auto reshape = dyn_cast<ReshapeOp>(&op)) {
        foldReshape(builder, reshape);
      } else if (auto elementwise = dyn_cast<ElementwiseOpInterface>(&op)) {
        int64_t at = position.lookup(&op);
        MapOp map = toMap(builder, elementwise);
        position[map] = at;
        mergeProducers(map);
      } else if (auto map = dyn_cast<MapOp>(&op)) {
        mergeProducers(map);
      }
    }
    for (auto &[op, locations] : sources)
      op->setLoc(builder.getFusedLoc(locations));
  }

private:
  /// Where the ops come from that `map` is made of; it is asked for once.
  SmallVector<Location> takeSources(MapOp map) {
    auto known = sources.find(map);
    if (known == sources.end())
      return {map.getLoc()};
    SmallVector<Location> taken = std::move(known->second);
    sources.erase(known);
    return taken;
  }

  void mergeProducers(MapOp map) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (Value input : map.getInputs()) {
        auto producer = input.getDefiningOp<MapOp>();
        if (!producer || !mayMerge(producer, map))
          continue;
        int64_t at = position.lookup(map);
        SmallVector<Location> locations = takeSources(map);
        llvm::append_range(locations, takeSources(producer));
        map = merge(builder, producer, map);
        position[map] = at;
        sources[map] = std::move(locations);
        changed = true;
        break;
      }
    }
  }

  bool isBefore(Operation *a, Operation *b) const {
    return position.lookup(a) < position.lookup(b);
  }

  /// True when an op between the two overwrites state that `producer` reads, itself or a view of
  /// it: computed at the consumer it would read the new value.
  bool readsOverwrittenState(MapOp producer, MapOp consumer) const {
    if (producer->getNextNode() == consumer)
      return false;
    return llvm::any_of(producer.getInputs(), [&](Value input) {
      Value root = viewedValue(input);
      return isa<BlockArgument>(root) && llvm::any_of(root.getUses(), [&](OpOperand &use) {
               Operation *user = use.getOwner();
               return isBefore(producer, user) && isBefore(user, consumer) && isUpdate(use);
             });
    });
  }

  /// True when merging keeps more bytes alive from producer to consumer than the value it removes:
  /// those of inputs that nobody reads after the producer.
  bool keepsMoreAlive(MapOp producer, MapOp consumer) const {
    if (areNeighbours(producer, consumer))
      return false;
    Bytes kept = 0;
    for (Value input : producer.getInputs()) {
      auto isLater = [&](Operation *user) { return isBefore(producer, user); };
      if (!isa<BlockArgument>(input) && !viewedOperand(input.getDefiningOp()) &&
          llvm::none_of(input.getUsers(), isLater))
        kept += storedBytesOf(input.getType());
    }
    return kept > storedBytesOf(producer.getResult(0).getType());
  }

  /// True when `producer`, all of whose uses are in `consumer`, may be computed inside it.
  bool mayMerge(MapOp producer, MapOp consumer) const {
    if (producer.getNumResults() != 1 || !producer.getUpdates().empty())
      return false;
    Value value = producer.getResult(0);
    if (!llvm::all_of(value.getUsers(), [&](Operation *user) { return user == consumer; }))
      return false;
    if (phaseOf(producer) != phaseOf(consumer) && phaseOf(consumer) != Phase::Update)
      return false;
    RankedTensorType type = tensorType(value), space = tensorType(consumer.getResult(0));
    auto usesIndex = [&] { return !producer.getBody().getOps<ElementIndexOp>().empty(); };
    if (type.getShape() != space.getShape() && (type.getNumElements() != 1 || usesIndex()))
      return false;
    return !readsOverwrittenState(producer, consumer) && !keepsMoreAlive(producer, consumer);
  }

  func::FuncOp graph;
  OpBuilder &builder;
  /// Program order; a map stands where the op it stems from stood. MLIR's own order of a block is
  /// numbered anew, all of it, after a few insertions in one place.
  llvm::DenseMap<Operation *, int64_t> position;
  /// Of maps that were merged: joined at the end, since a location of many others is made anew with each.
  llvm::DenseMap<Operation *, SmallVector<Location>> sources;
};

//===-- --stow-fuse-elementwise --------------------------------------------------------------===//

struct FuseElementwisePass : impl::FuseElementwisePassBase<FuseElementwisePass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(&getContext());
      GraphFusion(graph, builder).run();
      for (auto constant : llvm::make_early_inc_range(graph.getOps<ConstantOp>())) {
        if (constant->use_empty())
          constant->erase();
        else
          fill(builder, constant);
      }
    }
  }
};

} // namespace

void registerFusePasses() {
  registerPass(createExpandOuterProductsPass);
  registerPass(createFuseElementwisePass);
  registerPass(createJoinMasksPass);
  registerPass(createPackMasksPass);
  registerPass(createRederiveSavedPass);
  registerPass(createScatterIntoSumsPass);
}

} // namespace stow
