// Numbers that updates compute from numbers alone, once for all of them: O(operations of maps * kinds of numbers).
//
//   @update p, g, rate, t:  p - g * f32(rate / (1 - 0.9^t))      in every thread, of every parameter
//
//   s = [f32(rate / (1 - 0.9^t))]                                one number, by one thread
//   @update p, g, s:        p - g * s
//
// Adam's bias corrections are such numbers: some eighty operations in double, as PyTorch has them on the host. Consumer
// GPUs compute one double where they compute 64 floats, and a thread often updates four elements. The operations
// are the same, and so are the bits.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/Sharing.h"
#include "ir/StowKernelOps.h"
#include "passes/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_HOISTSCALARSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

bool isNumber(Value value) { return tensorType(value).getNumElements() == 1; }

/// True for a number that stays what it is while the graph runs.
bool isLasting(Value value) { return isNumber(value) && !llvm::any_of(value.getUses(), isUpdate); }

/// What a map's body computes from numbers alone.
class Scalars {
public:
  explicit Scalars(MapOp map) : map(map) {
    Block &body = map.getBody().front();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), map.getInputs()))
      if (isLasting(input))
        known.insert(argument);
    for (Operation &op : body.without_terminator())
      if (op.getNumRegions() == 0 && !isa<ElementIndexOp>(op) && isPure(&op) &&
          llvm::all_of(op.getOperands(), [&](Value value) { return known.contains(value); })) {
        known.insert(op.getResults().begin(), op.getResults().end());
        if (isInDoubles(op))
          doubles.insert(&op);
      }
    for (Operation *op : doubles)
      takeEnds(op);
  }

  /// Values that depend on an operation in double and that the rest of the body reads, in the order of the body.
  SmallVector<Value> ends() {
    SmallVector<Value> found;
    for (Operation &op : map.getBody().front())
      for (Value result : op.getResults())
        if (read.contains(result))
          found.push_back(result);
    return found;
  }

  /// A map without a place that computes `ends`.
  MapOp make(OpBuilder &builder) {
    llvm::SmallSetVector<Operation *, 32> needed;
    llvm::SmallSetVector<unsigned, 4> inputs;
    SmallVector<Value> open = ends();
    while (!open.empty()) {
      Value value = open.pop_back_val();
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        inputs.insert(argument.getArgNumber());
      } else if (needed.insert(value.getDefiningOp())) {
        llvm::append_range(open, value.getDefiningOp()->getOperands());
      }
    }
    SmallVector<unsigned> numbers(inputs.begin(), inputs.end());
    llvm::sort(numbers);
    SmallVector<Value> operands;
    for (unsigned number : numbers)
      operands.push_back(map.getInputs()[number]);
    SmallVector<Type> types;
    for (Value end : ends())
      types.push_back(RankedTensorType::get({}, end.getType()));
    auto scalars =
        MapOp::create(builder, map.getLoc(), types, operands, builder.getDenseI64ArrayAttr({}));
    copyPhase(map, scalars);
    Block &body = map.getBody().front(), &block = scalars.getBody().emplaceBlock();
    OpBuilder inside = OpBuilder::atBlockEnd(&block);
    IRMapping mapping;
    for (auto [number, operand] : llvm::zip_equal(numbers, operands))
      mapping.map(body.getArgument(number),
                  block.addArgument(tensorType(operand).getElementType(), map.getLoc()));
    for (Operation &op : body)
      if (needed.contains(&op))
        inside.clone(op, mapping);
    SmallVector<Value> yielded;
    for (Value end : ends())
      yielded.push_back(mapping.lookup(end));
    YieldOp::create(inside, map.getLoc(), yielded);
    return scalars;
  }

private:
  /// True for what computes with doubles. A number that is widened and rounded again is what it was.
  static bool isInDoubles(Operation &op) {
    auto isDouble = [](Type type) { return type.isF64(); };
    return !isa<arith::ConstantOp, arith::ExtFOp, arith::TruncFOp>(op) &&
           (llvm::any_of(op.getOperandTypes(), isDouble) ||
            llvm::any_of(op.getResultTypes(), isDouble));
  }

  /// Follows `op` to the last values that are known: what reads those is not.
  void takeEnds(Operation *op) {
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers())
        if (user->getNumResults() > 0 && known.contains(user->getResult(0)))
          takeKnown(user);
        else
          read.insert(result);
  }

  void takeKnown(Operation *user) {
    if (seen.insert(user).second)
      takeEnds(user);
  }

  MapOp map;
  llvm::SmallDenseSet<Value, 32> known, read;
  llvm::SmallSetVector<Operation *, 32> doubles;
  llvm::SmallDenseSet<Operation *, 32> seen;
};

/// The map with `scalars` among its inputs, in place of what it computed for itself.
void readScalars(MapOp map, ArrayRef<Value> ends, MapOp scalars) {
  OpBuilder builder(map);
  SmallVector<Value> inputs(map.getInputs());
  llvm::append_range(inputs, scalars.getResults());
  Block &body = map.getBody().front();
  for (Value end : ends) {
    Value read = body.addArgument(end.getType(), map.getLoc());
    end.replaceAllUsesWith(read);
  }
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  llvm::BitVector unread(body.getNumArguments());
  SmallVector<Value> kept;
  SmallVector<unsigned> numbers(body.getNumArguments());
  for (BlockArgument argument : body.getArguments()) {
    const unsigned number = argument.getArgNumber();
    const bool isUpdated = llvm::any_of(map->getResults(), [&](OpResult result) {
      return map.getUpdatedOperand(result.getResultNumber()) == number;
    });
    if (argument.use_empty() && isNumber(inputs[number]) && !isUpdated) {
      unread.set(number);
    } else {
      numbers[number] = kept.size();
      kept.push_back(inputs[number]);
    }
  }
  body.eraseArguments(unread);
  SmallVector<int64_t> updates(map.getUpdates());
  for (size_t i = 1; i < updates.size(); i += 2)
    updates[i] = numbers[updates[i]];
  auto reading = MapOp::create(builder, map.getLoc(), map.getResultTypes(), kept,
                               builder.getDenseI64ArrayAttr(updates));
  copyPhase(map, reading);
  reading.getBody().takeBody(map.getBody());
  map->replaceAllUsesWith(reading);
  map->erase();
}

//===-- --stow-hoist-scalars ------------------------------------------------------------------===//

struct HoistScalarsPass : impl::HoistScalarsPassBase<HoistScalarsPass> {
  explicit HoistScalarsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    if (target.launchBytes() == 0)
      return;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      hoist(graph);
  }

  static void hoist(func::FuncOp graph) {
    SmallVector<MapOp> made;
    for (auto map : llvm::make_early_inc_range(graph.getOps<MapOp>())) {
      if (isNumber(map.getResult(0)))
        continue;
      Scalars scalars(map);
      const SmallVector<Value> ends = scalars.ends();
      if (ends.empty())
        continue;
      OpBuilder builder(map);
      MapOp own = scalars.make(builder);
      auto same = llvm::find_if(made, [&](MapOp other) {
        return llvm::equal(own.getInputs(), other.getInputs()) && phaseOf(own) == phaseOf(other) &&
               OperationEquivalence::isRegionEquivalentTo(&own.getBody(), &other.getBody(),
                                                          OperationEquivalence::IgnoreLocations);
      });
      if (same == made.end()) {
        made.push_back(own);
        readScalars(map, ends, own);
      } else {
        own->erase();
        readScalars(map, ends, *same);
      }
    }
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createHoistScalarsPass(const Target &target) {
  return std::make_unique<HoistScalarsPass>(target);
}

} // namespace stow
