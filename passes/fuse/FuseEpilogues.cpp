// Kernels that a library runs on a product or a convolution before it writes it: O(ops).
//
//   %p = matmul %x, %w                     %y = product_map %x, %w, %b { max(p + b, 0) }
//   %y = map %p, %b { max(p + b, 0) }
//
//   %p = conv2d %x, %w                     %y = conv2d_map %x, %w, %b { max(p + b, 0) }
//   %y = map %p, %b { max(p + b, 0) }
//
// The left side writes %p and reads it again; the right side never stores it. The op stands where the
// product stood, so that the factors live no longer than before, and its result takes no more bytes than
// the product, so that no order needs more memory than it did: a kernel whose result is larger stays
// behind its product, and so does one that others read the product beside.
//
// Types as the library has them: with 16-bit results it adds 16-bit biases, as PyTorch's autocast does, so
// that a wider bias is cast in front. Leading dimensions of the left factor are rows.
//
// A kernel writes and reads parts of larger tensors, as those of a concat, and a library's convolution does not:
// where one of these stands behind a convolution the kernel stays.
#include "passes/fuse/Epilogues.h"
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/ProductMaps.h"
#include "ir/Sharing.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"
#include "passes/Target.h"
#include "passes/memory/Liveness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "passes/fuse/Passes.h.inc"

namespace {

bool isFloat(Value value) { return isa<FloatType>(tensorType(value).getElementType()); }

/// A vector along the rows of `type`: what may be a bias.
bool isAlongRows(Value value, RankedTensorType type) {
  RankedTensorType own = tensorType(value);
  return own.getRank() == 1 && type.getRank() >= 1 && own.getDimSize(0) == type.getShape().back();
}

bool isPlain(Value value) { return layoutOf(value.getType()).isRowMajor(); }

/// What is common to ops that are put in the place of a product or a convolution and its only reader, with what
/// they need in front.
class FusedCall {
public:
  FusedCall(Operation *call, MapOp map) : map(map), call(call), builder(call) {}

  void drop() {
    for (Operation *op : llvm::reverse(made))
      op->erase();
  }

  /// Puts the op in the place of both.
  void replace(Operation *fused) {
    Value result = fused->getResult(0);
    if (result.getType() != map.getResult(0).getType()) {
      auto reshape = ReshapeOp::create(builder, map.getLoc(), map.getResult(0).getType(), result);
      copyPhase(call, reshape);
      result = reshape;
    }
    map.getResult(0).replaceAllUsesWith(result);
    map->erase();
    call->erase();
    for (Operation *view : behind)
      if (view->use_empty())
        view->erase();
  }

protected:
  template <typename Op> Op keep(Op op) {
    copyPhase(call, op);
    made.push_back(op);
    return op;
  }

  Location bothLocations() { return builder.getFusedLoc({map.getLoc(), call->getLoc()}); }

  /// The cast of `vector` to `type` that an earlier call has in front, if any: a recurrence reads one bias in every step.
  Value castInFront(Value vector, RankedTensorType type) const {
    for (Operation *user : vector.getUsers())
      if (auto cast = dyn_cast<MapOp>(user);
          cast && cast->hasAttr(kEpilogueAttr) && cast.getResult(0).getType() == type &&
          phaseOf(cast) == phaseOf(call) && cast->isBeforeInBlock(call))
        return cast.getResult(0);
    return {};
  }

  /// A vector in the element type of `type`, cast where it has another one.
  Value inTypeOf(Value vector, RankedTensorType type) {
    RankedTensorType own = tensorType(vector);
    Type element = type.getElementType();
    if (own.getElementType() == element || !isFloat(vector) ||
        element.getIntOrFloatBitWidth() != 16)
      return vector;
    const auto narrowed = RankedTensorType::get(own.getShape(), element);
    if (Value known = castInFront(vector, narrowed))
      return known;
    auto cast = keep(MapOp::create(builder, vector.getLoc(), TypeRange{narrowed},
                                   ValueRange{vector}, builder.getDenseI64ArrayAttr({})));
    cast->setAttr(kEpilogueAttr, builder.getUnitAttr());
    OpBuilder inside(builder.getContext());
    Block &body = cast.getBody().emplaceBlock();
    Value wide = body.addArgument(own.getElementType(), vector.getLoc());
    inside.setInsertionPointToStart(&body);
    Value narrow = arith::TruncFOp::create(inside, vector.getLoc(), element, wide);
    YieldOp::create(inside, vector.getLoc(), ValueRange{narrow});
    return cast.getResult(0);
  }

  /// The kernel's body, and in front of it the bias that `inputs` begin with where there is one, over elements
  /// of the product as they were summed. What the kernel would have read rounded it reads as it is.
  void fillBody(Operation *fused, ValueRange inputs, bool hasBias) {
    fused->setAttr(kEpilogueAttr, builder.getUnitAttr());
    Location location = fused->getLoc();
    Block &body = fused->getRegion(0).emplaceBlock(), &old = map.getBody().front();
    const Type element = tensorType(call->getOperand(0)).getElementType();
    const Type summed = element.getIntOrFloatBitWidth() == 16
                            ? Type(Float32Type::get(builder.getContext()))
                            : element;
    Value sum = body.addArgument(summed, location);
    SmallVector<Value> arguments;
    for (Value input : inputs)
      arguments.push_back(body.addArgument(tensorType(input).getElementType(), location));
    OpBuilder inside(builder.getContext());
    inside.setInsertionPointToStart(&body);
    size_t next = 0;
    if (hasBias)
      sum = arith::AddFOp::create(inside, location, sum,
                                  converted(inside, arguments[next++], summed));
    IRMapping mapping;
    for (auto [argument, input] : llvm::zip(old.getArguments(), map.getInputs())) {
      Value value = input == call->getResult(0) ? sum : arguments[next++];
      mapping.map(argument, converted(inside, value, argument.getType()));
    }
    for (Operation &op : old)
      inside.clone(op, mapping);
    for (auto widened : llvm::make_early_inc_range(body.getOps<arith::ExtFOp>()))
      if (auto rounded = widened.getIn().getDefiningOp<arith::TruncFOp>())
        if (rounded.getIn() == sum && sum.getType() == widened.getType()) {
          widened.replaceAllUsesWith(sum);
          widened.erase();
        }
    for (auto rounded : llvm::make_early_inc_range(body.getOps<arith::TruncFOp>()))
      if (rounded->use_empty())
        rounded.erase();
  }

  MapOp map;
  Operation *call;
  OpBuilder builder;                           ///< in front of the call
  llvm::SmallSetVector<Operation *, 4> behind; ///< views that nobody may need any more

private:
  SmallVector<Operation *> made; ///< in order, so that the last can be erased first
};

class FusedProduct : public FusedCall {
public:
  FusedProduct(MatmulOp product, MapOp map) : FusedCall(product, map), product(product) {}

  /// Builds it; null where the two are not of the kind.
  Operation *build() {
    RankedTensorType whole = tensorType(map.getResult(0));
    const auto rows = rowsOfFactors();
    if (!rows)
      return {};
    const RankedTensorType type =
        RankedTensorType::get({*rows, whole.getShape().back()}, whole.getElementType());
    SmallVector<Value> inputs;
    auto add = [&](Value input) {
      inputs.push_back(isAlongRows(input, whole) ? inTypeOf(input, type) : asRows(input, *rows));
    };
    if (product.getBias())
      add(product.getBias());
    for (Value input : map.getInputs())
      if (input != product.getY())
        add(input);
    auto fused = keep(ProductMapOp::create(builder, bothLocations(), TypeRange{type},
                                           asRows(product.getA(), *rows), product.getB(), inputs,
                                           product.getTransposeA(), product.getTransposeB(),
                                           builder.getDenseI64ArrayAttr({})));
    fillBody(fused, inputs, static_cast<bool>(product.getBias()));
    return fused;
  }

private:
  /// The rows of the product as one matrix; none where it is several.
  std::optional<int64_t> rowsOfFactors() {
    RankedTensorType a = product.getA().getType(), y = product.getY().getType();
    const int64_t rows = y.getNumElements() / std::max<int64_t>(1, y.getShape().back());
    if (product.getB().getType().getRank() != 2)
      return std::nullopt;
    if (a.getRank() == 2)
      return rows;
    if (product.getTransposeA() || !isPlain(product.getA()))
      return std::nullopt;
    return rows;
  }

  Value asRows(Value value, int64_t rows) {
    RankedTensorType type = tensorType(value);
    if (type.getRank() == 2 || type.getRank() == 0 || type.getNumElements() % rows != 0)
      return value;
    return keep(ReshapeOp::create(
        builder, value.getLoc(),
        RankedTensorType::get({rows, type.getNumElements() / rows}, type.getElementType()), value));
  }

  MatmulOp product;
};

class FusedConvolution : public FusedCall {
public:
  FusedConvolution(Conv2dOp convolution, MapOp map)
      : FusedCall(convolution, map), convolution(convolution) {}

  Operation *build() {
    RankedTensorType type = tensorType(map.getResult(0));
    SmallVector<Value> inputs;
    for (Value input : map.getInputs()) {
      if (input == convolution.getY())
        continue;
      const bool isBias = isAlongChannels(tensorType(input), type);
      inputs.push_back(isBias ? inTypeOf(inFront(input), type) : inFront(input));
    }
    auto fused = keep(Conv2dMapOp::create(builder, bothLocations(), type, convolution.getX(),
                                          convolution.getWeight(), inputs, convolution.getStrides(),
                                          convolution.getPads(), convolution.getDilations(),
                                          convolution.getGroups()));
    fillBody(fused, inputs, /*hasBias=*/false);
    return fused;
  }

private:
  /// Of a view that may stand behind the convolution, as that of a bias does, one that stands in front.
  Value inFront(Value input) {
    auto reshape = input.getDefiningOp<ReshapeOp>();
    if (!reshape)
      return input;
    behind.insert(reshape);
    return keep(cast<ReshapeOp>(builder.clone(*reshape))).getY();
  }

  Conv2dOp convolution;
};

/// What `value` is a view of, by one reshape.
Value withoutReshape(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  return reshape ? reshape.getX() : value;
}

/// True for what may be made as a part of something larger, itself or a view of it.
bool mayBeMadeAsPart(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    return viewedOperand(use.getOwner()) ? mayBeMadeAsPart(use.getOwner()->getResult(0))
                                         : partOfResult(use).has_value();
  });
}

/// True for what may be a part of something larger.
bool mayBePart(Value value) {
  Value whole = viewedValue(value);
  Operation *from = whole.getDefiningOp();
  return mayBeMadeAsPart(whole) || (from && llvm::any_of(partsOf(from), [](const Sharing &part) {
                                      return part.kind == SharingKind::PartOfOperand;
                                    }));
}

/// The kernel that alone reads the product or convolution `y`, once, and may run at its place.
MapOp readerOf(Value y, DominanceInfo &dominance) {
  Operation *call = y.getDefiningOp();
  if (!y.hasOneUse() || !isFloat(y))
    return {};
  auto map = dyn_cast<MapOp>(*y.user_begin());
  if (!map || map.getNumResults() != 1 || !map.getUpdates().empty() ||
      phaseOf(map) != phaseOf(call) || !map.getBody().getOps<ElementIndexOp>().empty())
    return {};
  const RankedTensorType type = tensorType(map.getResult(0));
  if (type.getShape() != tensorType(y).getShape() ||
      storedBytesOf(type) > storedBytesOf(tensorType(y)))
    return {};
  auto isThere = [&](Value input) {
    return input == y ||
           (isFloat(input) && dominance.properlyDominates(withoutReshape(input), call));
  };
  return llvm::all_of(map.getInputs(), isThere) ? map : MapOp();
}

//===-- --stow-fuse-epilogues ----------------------------------------------------------------===//

struct FuseEpiloguesPass : impl::FuseEpiloguesPassBase<FuseEpiloguesPass> {
  explicit FuseEpiloguesPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      DominanceInfo dominance(graph);
      for (auto product : llvm::make_early_inc_range(graph.getOps<MatmulOp>()))
        fuse(product, dominance);
      for (auto convolution : llvm::make_early_inc_range(graph.getOps<Conv2dOp>()))
        fuse(convolution, dominance);
    }
  }

private:
  void fuse(MatmulOp product, DominanceInfo &dominance) {
    auto isThere = [&](Value input) {
      return input == product.getY() ||
             (isPlain(input) && dominance.properlyDominates(input, product));
    };
    if (MapOp map = readerOf(product.getY(), dominance);
        map && isPlain(map.getResult(0)) && llvm::all_of(map.getInputs(), isThere))
      fuse(FusedProduct(product, map));
  }

  void fuse(Conv2dOp convolution, DominanceInfo &dominance) {
    MapOp map = convolution.getBias() ? MapOp() : readerOf(convolution.getY(), dominance);
    if (!map || layoutOf(map.getResult(0).getType()) != layoutOf(convolution.getY().getType()) ||
        mayBeMadeAsPart(map.getResult(0)) || llvm::any_of(map.getInputs(), mayBePart))
      return;
    fuse(FusedConvolution(convolution, map));
  }

  template <typename Fused> void fuse(Fused both) {
    Operation *fused = both.build();
    if (!fused)
      return;
    if (!target.libraryCall(fused) || target.decomposes(fused))
      return both.drop();
    both.replace(fused);
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createFuseEpiloguesPass(const Target &target) {
  return std::make_unique<FuseEpiloguesPass>(target);
}

} // namespace stow
