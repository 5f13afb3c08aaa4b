// Kernels that a library runs on a product before it writes it: O(ops).
//
//   %p = matmul %x, %w                     %y = product_map %x, %w, %b { max(p + b, 0) }
//   %y = map %p, %b { max(p + b, 0) }
//
// The left side writes %p and reads it again; the right side never stores it. The op stands where the
// product stood, so that the factors live no longer than before, and its result takes no more bytes than
// the product, so that no order needs more memory than it did: a kernel whose result is larger stays
// behind its product, and so does one that others read the product beside.
//
// Types as the library has them: with 16-bit results it adds 16-bit biases, as PyTorch's autocast does, so
// that a wider bias is cast in front. Leading dimensions of the left factor are rows.
#include "passes/fuse/Epilogues.h"
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/ProductMaps.h"
#include "passes/Target.h"
#include "passes/memory/Liveness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"

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

/// The one op that is put in the place of a product and its only reader, with what it needs in front.
class FusedProduct {
public:
  FusedProduct(MatmulOp product, MapOp map) : product(product), map(map), builder(product) {}

  /// Builds it; null where the two are not of the kind.
  ProductMapOp build() {
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
    auto fused = ProductMapOp::create(
        builder, builder.getFusedLoc({map.getLoc(), product.getLoc()}), TypeRange{type},
        asRows(product.getA(), *rows), product.getB(), inputs, product.getTransposeA(),
        product.getTransposeB(), builder.getDenseI64ArrayAttr({}));
    keep(fused);
    fused->setAttr(kEpilogueAttr, builder.getUnitAttr());
    fillBody(fused);
    return fused;
  }

  void drop() {
    for (Operation *op : llvm::reverse(made))
      op->erase();
  }

  /// Puts the op in the place of both.
  void replace(ProductMapOp fused) {
    Value result = fused.getResult(0);
    if (result.getType() != map.getResult(0).getType()) {
      auto reshape = ReshapeOp::create(builder, map.getLoc(), map.getResult(0).getType(), result);
      copyPhase(product, reshape);
      result = reshape;
    }
    map.getResult(0).replaceAllUsesWith(result);
    map->erase();
    product->erase();
  }

private:
  template <typename Op> Op keep(Op op) {
    copyPhase(product, op);
    made.push_back(op);
    return op;
  }

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

  /// A vector in the element type of `type`, cast where it has another one.
  Value inTypeOf(Value vector, RankedTensorType type) {
    RankedTensorType own = tensorType(vector);
    Type element = type.getElementType();
    if (own.getElementType() == element || !isFloat(vector) ||
        element.getIntOrFloatBitWidth() != 16)
      return vector;
    auto cast = keep(MapOp::create(builder, vector.getLoc(),
                                   TypeRange{RankedTensorType::get(own.getShape(), element)},
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

  /// The product's bias and the kernel's body, over elements of the product as they were summed. What
  /// the kernel would have read rounded it reads as it is.
  void fillBody(ProductMapOp fused) {
    Location location = fused.getLoc();
    Block &body = fused.getBody().emplaceBlock(), &old = map.getBody().front();
    const Type element = tensorType(product.getA()).getElementType();
    const Type summed = element.getIntOrFloatBitWidth() == 16
                            ? Type(Float32Type::get(builder.getContext()))
                            : element;
    Value sum = body.addArgument(summed, location);
    SmallVector<Value> arguments;
    for (Value input : fused.getInputs())
      arguments.push_back(body.addArgument(tensorType(input).getElementType(), location));
    OpBuilder inside(builder.getContext());
    inside.setInsertionPointToStart(&body);
    size_t next = 0;
    if (product.getBias())
      sum = arith::AddFOp::create(inside, location, sum,
                                  converted(inside, arguments[next++], summed));
    IRMapping mapping;
    for (auto [argument, input] : llvm::zip(old.getArguments(), map.getInputs())) {
      Value value = input == product.getY() ? sum : arguments[next++];
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

  MatmulOp product;
  MapOp map;
  OpBuilder builder;             ///< in front of the product
  SmallVector<Operation *> made; ///< in order, so that the last can be erased first
};

/// The kernel that alone reads the product, once, and may run at its place.
MapOp readerOf(MatmulOp product, DominanceInfo &dominance) {
  if (!product.getY().hasOneUse() || !isFloat(product.getY()))
    return {};
  auto map = dyn_cast<MapOp>(*product.getY().user_begin());
  if (!map || map.getNumResults() != 1 || !map.getUpdates().empty() ||
      phaseOf(map) != phaseOf(product) || !map.getBody().getOps<ElementIndexOp>().empty())
    return {};
  const RankedTensorType type = tensorType(map.getResult(0));
  if (type.getShape() != product.getY().getType().getShape() || !isPlain(map.getResult(0)) ||
      storedBytesOf(type) > storedBytesOf(product.getY().getType()))
    return {};
  auto isThere = [&](Value input) {
    return input == product.getY() ||
           (isFloat(input) && isPlain(input) && dominance.properlyDominates(input, product));
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
        if (MapOp map = readerOf(product, dominance))
          fuse(product, map);
    }
  }

private:
  void fuse(MatmulOp product, MapOp map) {
    FusedProduct both(product, map);
    ProductMapOp fused = both.build();
    if (!fused)
      return;
    if (target.decomposes(fused) || target.libraryCall(fused).empty())
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
