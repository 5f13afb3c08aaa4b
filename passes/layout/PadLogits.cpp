// Logits in rows that a device's products are fast with: O(ops).
//
//   x --> x w^T + b  [R, 50257]  --> cross-entropy --> dlogits [R, 50257]  --> dlogits w, dlogits^T x
//   x --> x w'^T + b' [R, 50264] --> cross-entropy --> dlogits' [R, 50264] --> dlogits' w', the first rows of dlogits'^T x
//
// w' is w with rows of zeros behind it, and b' is b, or zeros, with the lowest finite number: a class that no target names, whose
// probability is exactly 0, and so its gradient. Sums over all classes have terms of 0 more, whatever they were before.
//
// On an H200 the three products of 4,096 rows, 50,257 columns and 768 contracted values in bf16 run at 94, 133 and 145 TFLOP/s, and at 637, 668
// and 665 with 50,264 columns; a longer distance from row to row alone changes the last alone (466).
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "passes/layout/Passes.h"

#include "ir/StepGraphs.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PADLOGITSPASS
#include "passes/layout/Passes.h.inc"

namespace {

/// Floating-point operations of a head's product below which launches that pad take what they save: two or three of them, 3
/// microseconds each, against the 9e-15 seconds an operation that is slower.
constexpr double kLeastFlops = 1e9;

RankedTensorType widened(RankedTensorType type, int64_t columns) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = columns;
  return RankedTensorType::get(shape, type.getElementType());
}

/// What `value` is under other shapes with the same last extent.
Value unshaped(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (tensorType(reshape.getX()).getShape().back() !=
        tensorType(reshape.getY()).getShape().back())
      break;
    value = reshape.getX();
  }
  return value;
}

/// A product whose rows are the logits of losses over rows, and of their gradients, and nothing else.
struct Head {
  MatmulOp product;
  SmallVector<CrossEntropyRowsOp> losses;
  SmallVector<CrossEntropyRowsGradOp> gradients;
};

/// Adds the losses that read `logits`; false where anything else does.
bool collect(Value logits, Head &head) {
  return llvm::all_of(logits.getUses(), [&](OpOperand &use) {
    Operation *reader = use.getOwner();
    if (auto reshape = dyn_cast<ReshapeOp>(reader))
      return unshaped(reshape.getY()) == unshaped(logits) && collect(reshape.getY(), head);
    if (use.getOperandNumber() != 0)
      return false;
    if (auto loss = dyn_cast<CrossEntropyRowsOp>(reader)) {
      head.losses.push_back(loss);
      return !loss.getWeight() && loss.getLabelSmoothing().isZero();
    }
    if (auto gradient = dyn_cast<CrossEntropyRowsGradOp>(reader)) {
      head.gradients.push_back(gradient);
      return !gradient.getWeight() && gradient.getLabelSmoothing().isZero();
    }
    return false;
  });
}

class Padder {
public:
  Padder(func::FuncOp graph, const Target &target) : graph(graph), target(target) {}

  void run() {
    SmallVector<Head> heads;
    for (auto product : graph.getOps<MatmulOp>()) {
      Head head = {product, {}, {}};
      if (isWorthIt(product) && collect(product.getY(), head) && !head.losses.empty())
        heads.push_back(std::move(head));
    }
    for (Head &head : heads)
      pad(head);
  }

private:
  int64_t columnsOf(MatmulOp product) const {
    const int64_t step = target.productRowStep(product),
                  columns = product.getY().getType().getShape().back();
    return (columns + step - 1) / step * step;
  }

  bool isWorthIt(MatmulOp product) const {
    const RankedTensorType y = product.getY().getType(), b = product.getB().getType();
    const int64_t contracted = b.getNumElements() / std::max<int64_t>(1, y.getShape().back());
    return b.getRank() == 2 && y.getRank() >= 2 && columnsOf(product) != y.getShape().back() &&
           2.0 * static_cast<double>(y.getNumElements()) * static_cast<double>(contracted) >=
               kLeastFlops;
  }

  template <typename Op, typename... Args> Op create(Operation *model, Args &&...args) {
    auto op = Op::create(builder, model->getLoc(), std::forward<Args>(args)...);
    copyPhase(model, op);
    return op;
  }

  Value constant(Operation *model, RankedTensorType type, llvm::APFloat number) {
    bool losesInfo = false;
    number.convert(cast<FloatType>(type.getElementType()).getFloatSemantics(),
                   APFloat::rmNearestTiesToEven, &losesInfo);
    return create<ConstantOp>(model, DenseElementsAttr::get(type, number)).getY();
  }

  /// `value` and behind it along `axis`, as far as `extent`, `number`.
  Value padded(Operation *model, Value value, unsigned axis, int64_t extent,
               const llvm::APFloat &number) {
    SmallVector<int64_t> shape(tensorType(value).getShape());
    shape[axis] = extent - shape[axis];
    auto type = RankedTensorType::get(shape, tensorType(value).getElementType());
    return create<ConcatOp>(model, ValueRange{value, constant(model, type, number)},
                            static_cast<int64_t>(axis))
        .getY();
  }

  /// The factor of `reader` that has the classes along `axis`, with rows or columns of zeros for the others.
  Value factor(Operation *reader, Value value, unsigned axis, int64_t extent) {
    Value &known = factors[{value, axis}];
    if (!known) {
      OpBuilder::InsertionGuard guard(builder);
      if (value.getDefiningOp())
        builder.setInsertionPointAfterValue(value);
      else
        builder.setInsertionPoint(reader);
      Operation *model = value.getDefiningOp() ? value.getDefiningOp() : reader;
      known = padded(model, value, axis, extent, llvm::APFloat(0.0));
    }
    return known;
  }

  Value biasOf(MatmulOp product, int64_t columns) {
    const RankedTensorType y = product.getY().getType();
    auto type = cast<FloatType>(y.getElementType());
    const auto lowest = llvm::APFloat::getLargest(type.getFloatSemantics(), /*Negative=*/true);
    if (product.getBias())
      return padded(product, product.getBias(), 0, columns, lowest);
    auto none = RankedTensorType::get({y.getShape().back()}, type);
    return padded(product, constant(product, none, llvm::APFloat(0.0)), 0, columns, lowest);
  }

  void pad(Head &head) {
    MatmulOp product = head.product;
    const int64_t columns = columnsOf(product);
    builder.setInsertionPoint(product);
    const unsigned axis = product.getTransposeB() ? 0 : 1;
    Value b = factor(product, product.getB(), axis, columns);
    auto wide = create<MatmulOp>(product, widened(product.getY().getType(), columns),
                                 product.getA(), b, biasOf(product, columns),
                                 product.getTransposeA(), product.getTransposeB());
    replaceRows(product.getY(), wide.getY(), columns);
    product.erase();
  }

  /// Lets the readers of logits, or of their gradient, read `wide` instead.
  void replaceRows(Value narrow, Value wide, int64_t columns) {
    for (OpOperand &use : llvm::make_early_inc_range(narrow.getUses())) {
      Operation *reader = use.getOwner();
      builder.setInsertionPoint(reader);
      if (auto reshape = dyn_cast<ReshapeOp>(reader);
          reshape && unshaped(reshape.getY()) != reshape.getY()) {
        auto other = create<ReshapeOp>(reader, widened(reshape.getY().getType(), columns), wide);
        replaceRows(reshape.getY(), other.getY(), columns);
        reshape.erase();
      } else if (auto loss = dyn_cast<CrossEntropyRowsOp>(reader)) {
        use.set(wide);
      } else if (auto gradient = dyn_cast<CrossEntropyRowsGradOp>(reader)) {
        Value dlogits = gradient.getDlogits();
        auto other = create<CrossEntropyRowsGradOp>(
            reader, wide, gradient.getTarget(), gradient.getLse(), gradient.getDrow(),
            gradient.getWeight(), gradient.getIgnoreIndex(), gradient.getLabelSmoothing());
        replaceRows(dlogits, other.getDlogits(), columns);
        gradient.erase();
      } else if (auto product = dyn_cast<MatmulOp>(reader);
                 product && replaceIn(product, use, wide, columns)) {
      } else if (auto sum = dyn_cast<ReduceSumOp>(reader); sum && sumsRows(sum)) {
        auto other = create<ReduceSumOp>(reader, wide, sum.getAxes(), sum.getKeepdims());
        sum.getY().replaceAllUsesWith(first(reader, other.getY(), sum.getY().getType()));
        sum.erase();
      } else {
        use.set(first(reader, wide, tensorType(use.get())));
      }
    }
  }

  /// True where all dimensions but that of the classes are summed.
  static bool sumsRows(ReduceSumOp sum) {
    const int64_t rank = sum.getX().getType().getRank();
    return llvm::equal(sum.getAxes(), llvm::seq<int64_t>(0, rank - 1));
  }

  /// The beginning of `value` along every dimension, as large as `type`.
  Value first(Operation *model, Value value, RankedTensorType type) {
    if (value.getType() == type)
      return value;
    const SmallVector<int64_t> starts(type.getRank(), 0);
    return create<SliceOp>(model, value, starts, type.getShape()).getY();
  }

  /// A product that reads a gradient by the logits: one that contracts the classes contracts zeros more, one whose rows or columns
  /// they are has more of these.
  bool replaceIn(MatmulOp product, OpOperand &use, Value wide, int64_t columns) {
    const unsigned side = use.getOperandNumber();
    const unsigned rank[] = {static_cast<unsigned>(product.getA().getType().getRank()),
                             static_cast<unsigned>(product.getB().getType().getRank())};
    if (side > 1 || product.getBias() || product.getA() == product.getB())
      return false;
    const bool transposes[] = {product.getTransposeA(), product.getTransposeB()};
    // Classes are the last dimension of `wide`: contracted where the left factor lies as it is or the right one is transposed.
    const bool contracts = side == 0 ? !transposes[0] : transposes[1];
    Value factors[] = {product.getA(), product.getB()};
    factors[side] = wide;
    RankedTensorType type = product.getY().getType();
    if (contracts) {
      const unsigned other = 1 - side;
      if (rank[other] != 2)
        return false;
      const bool isLast = other == 0 ? !transposes[0] : transposes[1];
      factors[other] = factor(product, factors[other], isLast ? 1 : 0, columns);
    } else {
      SmallVector<int64_t> shape(type.getShape());
      shape[shape.size() - (side == 0 ? 2 : 1)] = columns;
      type = RankedTensorType::get(shape, type.getElementType());
    }
    auto other = create<MatmulOp>(product, type, factors[0], factors[1], Value(), transposes[0],
                                  transposes[1]);
    product.getY().replaceAllUsesWith(first(product, other.getY(), product.getY().getType()));
    product.erase();
    return true;
  }

  func::FuncOp graph;
  const Target &target;
  OpBuilder builder = OpBuilder(graph.getContext());
  llvm::DenseMap<std::pair<Value, unsigned>, Value> factors; ///< with zeros, by factor and axis
};

//===-- --stow-pad-logits --------------------------------------------------------------------===//

struct PadLogitsPass : impl::PadLogitsPassBase<PadLogitsPass> {
  explicit PadLogitsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (isStepGraph(graph))
        Padder(graph, target).run();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createPadLogitsPass(const Target &target) {
  return std::make_unique<PadLogitsPass>(target);
}

} // namespace stow
