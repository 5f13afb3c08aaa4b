// Products that are used up tile by tile: O(ops).
//
//   %dw = matmul %dy, %x               %w1, %m1 = product_map %dy, %x, %w, %m { the update }
//   %w1, %m1 = map %dw, %w, %m
//
// The right side never has all of %dw: a tile of its rows in scratch, the kernel over those rows, and
// on to the next. That pays where the kernel's results lie in what it reads anyway, as new state and
// sums do. It costs that %dy and %x live until the kernel runs.
//
// In a step over several batches or devices a gradient is used up in one graph and stored in another, and is to
// have the same bits in both: products whose loops sum in an order of their own take these everywhere.
#include "passes/fuse/Passes.h"

#include "ir/ProductMaps.h"
#include "ir/StepGraphs.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "passes/Target.h"
#include "passes/memory/Liveness.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FUSEPRODUCTCONSUMERSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// True when an update writes over what `value` is or looks at: the tiles behind the first would
/// read new state.
bool isUpdatedState(Value value) {
  Value root = viewedValue(value);
  return isa<BlockArgument>(root) && llvm::any_of(root.getUses(), isUpdate);
}

class GraphProducts {
public:
  GraphProducts(func::FuncOp graph, const Target &target, bool sumsAlike)
      : graph(graph), target(target), sumsAlike(sumsAlike) {
    int64_t count = 0;
    for (Operation &op : graph.getBody().front())
      position[&op] = count++;
  }

  void run() {
    for (auto map : llvm::make_early_inc_range(graph.getOps<MapOp>()))
      if (std::optional<unsigned> input = consumable(map))
        consume(map, *input);
    if (sumsAlike)
      for (auto product : llvm::make_early_inc_range(graph.getOps<MatmulOp>()))
        takeLoops(product);
  }

private:
  /// The input of `map` that is best made tile by tile: of several products the last, so that the
  /// others are sums already. None where there is none.
  std::optional<unsigned> consumable(MapOp map) const {
    std::optional<unsigned> found;
    for (auto [number, input] : llvm::enumerate(map.getInputs())) {
      auto product = input.getDefiningOp<MatmulOp>();
      if (!product || !mayConsume(product, map) || !isGain(product, map))
        continue;
      if (!found || isBefore(map.getInputs()[*found].getDefiningOp(), product))
        found = number;
    }
    return found;
  }

  bool isBefore(Operation *a, Operation *b) const {
    return position.lookup(a) < position.lookup(b);
  }

  bool mayConsume(MatmulOp product, MapOp map) const {
    auto type = product.getY().getType();
    auto leading = [](Value factor) { return tensorType(factor).getShape().drop_back(2); };
    if (product.getBias() || !product.getY().hasOneUse() ||
        leading(product.getA()) != leading(product.getB()) || phaseOf(product) == Phase::Forward ||
        phaseOf(map) == Phase::Forward)
      return false;
    if (type.getShape() != tensorType(map.getResult(0)).getShape() ||
        type.getElementType() != sumTypeOf(product) ||
        !map.getBody().getOps<ElementIndexOp>().empty())
      return false;
    return !isUpdatedState(product.getA()) && !isUpdatedState(product.getB());
  }

  /// What the elements of `product` are summed in: a kernel that uses them up reads that.
  static Type sumTypeOf(MatmulOp product) {
    auto a = product.getA().getType(), b = product.getB().getType();
    if (a.getElementTypeBitWidth() == 16 || b.getElementTypeBitWidth() == 16)
      return Float32Type::get(product.getContext());
    return a.getElementType();
  }

  /// True when nothing runs between the two: the factors live until the kernel runs in any case.
  static bool isNext(MatmulOp product, MapOp map) {
    Operation *op = product->getNextNode();
    while (op != map && op && launchesNothing(op))
      op = op->getNextNode();
    return op == map;
  }

  /// True when all results lie in something else than the product, and the factors that are kept for
  /// the kernel have no more bytes than the product.
  bool isGain(MatmulOp product, MapOp map) const {
    for (OpResult result : map->getResults()) {
      auto mayLieIn = [&](Value input) {
        return input != product.getY() && input.getType() == result.getType() &&
               input.getDefiningOp() && viewedValue(input) == input && !isReadBehind(input, map);
      };
      if (!map.getUpdatedOperand(result.getResultNumber()) &&
          !llvm::any_of(map.getInputs(), mayLieIn) && !isNewState(result, map))
        return false;
    }
    if (isNext(product, map))
      return true;
    Bytes kept = 0;
    for (Value factor : {Value(product.getA()), Value(product.getB())}) {
      Value root = viewedValue(factor);
      if (!isState(root) && !isReadBehind(root, map))
        kept += storedBytesOf(root.getType());
    }
    return kept <= storedBytesOf(product.getY().getType());
  }

  /// True for the new value of state that the kernel reads last: stow-bind-state puts it there.
  bool isNewState(OpResult result, MapOp map) const {
    func::FuncOp function = graph;
    return llvm::any_of(result.getUses(), [&](OpOperand &use) {
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        return false;
      auto name = function.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kStateAttr);
      return name && llvm::any_of(map.getInputs(), [&](Value input) {
               auto argument = dyn_cast<BlockArgument>(input);
               return argument && input.getType() == result.getType() &&
                      function.getArgAttr(argument.getArgNumber(), kNameAttr) == name &&
                      !isReadBehind(input, map);
             });
    });
  }

  bool isState(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && isStateArgument(graph, argument.getArgNumber());
  }

  /// True when an op behind `map` reads `value` or a view of it.
  bool isReadBehind(Value value, MapOp map) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (viewedOperand(user))
        return isReadBehind(user->getResult(0), map);
      return isBefore(map, user);
    });
  }

  /// Puts one op in the place of both, where the target runs it.
  void consume(MapOp map, unsigned input) {
    auto product = map.getInputs()[input].getDefiningOp<MatmulOp>();
    OpBuilder builder(map);
    SmallVector<Value> inputs(map.getInputs());
    inputs.erase(inputs.begin() + input);
    SmallVector<int64_t> updates(map.getUpdates());
    for (size_t i = 1; i < updates.size(); i += 2)
      updates[i] += updates[i] < input ? 2 : 1; // behind both factors, without the product
    Location location = builder.getFusedLoc({map.getLoc(), product.getLoc()});
    auto fused = ProductMapOp::create(builder, location, map.getResultTypes(), product.getA(),
                                      product.getB(), inputs, product.getTransposeA(),
                                      product.getTransposeB(), updates);
    copyPhase(map, fused);
    if (sumsAlike)
      fused->setAttr(kSumsAlikeAttr, builder.getUnitAttr());
    Block &body = fused.getBody().emplaceBlock();
    IRMapping mapping;
    Block &old = map.getBody().front();
    mapping.map(old.getArgument(input),
                body.addArgument(old.getArgument(input).getType(), location));
    for (auto [number, argument] : llvm::enumerate(old.getArguments()))
      if (number != input)
        mapping.map(argument, body.addArgument(argument.getType(), location));
    builder.setInsertionPointToStart(&body);
    for (Operation &op : old)
      builder.clone(op, mapping);
    if (!target.libraryCall(fused)) {
      fused->erase();
      return;
    }
    position[fused] = position.lookup(map);
    map->replaceAllUsesWith(fused);
    map->erase();
    product->erase();
  }

  /// A product of the backward that no kernel uses up, by the loops that it would have there.
  void takeLoops(MatmulOp product) {
    const RankedTensorType type = product.getY().getType();
    if (product.getBias() || phaseOf(product) == Phase::Forward ||
        type.getElementType() != sumTypeOf(product))
      return;
    OpBuilder builder(product);
    auto stored = ProductMapOp::create(builder, product.getLoc(), TypeRange{type}, product.getA(),
                                       product.getB(), ValueRange{}, product.getTransposeA(),
                                       product.getTransposeB(), ArrayRef<int64_t>{});
    copyPhase(product, stored);
    stored->setAttr(kSumsAlikeAttr, builder.getUnitAttr());
    Block &body = stored.getBody().emplaceBlock();
    Value element = body.addArgument(type.getElementType(), product.getLoc());
    builder.setInsertionPointToStart(&body);
    YieldOp::create(builder, product.getLoc(), element);
    if (target.libraryCall(stored) != CommandOp::ProductMap) {
      stored->erase();
      return;
    }
    product.getY().replaceAllUsesWith(stored.getResult(0));
    product->erase();
  }

  func::FuncOp graph;
  const Target &target;
  bool sumsAlike;                                ///< a step over several batches or devices
  llvm::DenseMap<Operation *, int64_t> position; ///< program order
};

//===-- --stow-fuse-product-consumers --------------------------------------------------------------===//

struct FuseProductConsumersPass : impl::FuseProductConsumersPassBase<FuseProductConsumersPass> {
  explicit FuseProductConsumersPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    const bool sumsAlike = batchesPerStep(getOperation()) > 1 || devicesOf(getOperation()) > 1;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      GraphProducts(graph, target, sumsAlike && isStepGraph(graph)).run();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createFuseProductConsumersPass(const Target &target) {
  return std::make_unique<FuseProductConsumersPass>(target);
}

} // namespace stow
