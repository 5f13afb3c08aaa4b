// Losses over rows of class scores: one fold or one pass a row.
#include "codegen/kernels/Fold.h"
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowLossOps.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace stow {
namespace {

/// What the loss of a row depends on beside its operands.
struct ClassLoss {
  Type element;
  int64_t ignored = 0;
  int64_t classes = 0;
  double smoothing = 0;
  bool hasWeight = false;
};

Term labelOf(Row &row, unsigned access, Type element) {
  return row.load(access).as(IntegerType::get(element.getContext(), 64));
}

Term isLabel(const Cell &cell, Value label) { return cell.position().equals(cell.term(label)); }

Term isClass(Term target, const ClassLoss &spec) {
  return (target >= target.constant(0)) & (target <= target.constant(spec.classes - 1));
}

/// `loss`, but 0 where the target is ignored and NaN where it is no class: wrong labels must not
/// train.
Term checkedLoss(Term loss, Term target, const ClassLoss &spec) {
  loss =
      isClass(target, spec).choose(loss, loss.constant(std::numeric_limits<double>::quiet_NaN()));
  return target.equals(target.constantInt(spec.ignored)).choose(loss.constant(0), loss);
}

/// Accesses: logits, target, weight where there is one, row_loss, lse. With sums over classes c:
///
///   loss = (1 - s) w[t] (lse - x[t]) + s / C (sum(w) (lse - max) - sum(w (x - max)))
void crossEntropyRow(Row &row, const ClassLoss &spec) {
  Type element = spec.element;
  Term target = labelOf(row, 1, element), isLabelled = isClass(target, spec);
  const auto [maximum, sum] = row.exponentials(0, element);
  Term logSum = row.term(sum).unary<math::LogOp>();
  Term lse = logSum + row.term(maximum);
  Term loss = lse - row.loadAt(0, target, isLabelled);
  if (spec.hasWeight)
    loss = loss * row.loadAt(2, target, isLabelled);
  if (spec.smoothing != 0) {
    auto sums = row.fold({sumOf(element), sumOf(element)}, [&](const Cell &cell) {
      Term logit = cell.load(0), weight = spec.hasWeight ? cell.load(2) : logit.constant(1);
      return SmallVector<Term>{weight, weight * (logit - cell.term(maximum))};
    });
    Term all = row.term(sums[0]) * logSum - row.term(sums[1]);
    double share = spec.smoothing / static_cast<double>(spec.classes);
    loss = loss * (1 - spec.smoothing) + all * share;
  }
  unsigned result = spec.hasWeight ? 3 : 2;
  row.store(checkedLoss(loss, target, spec), result);
  row.store(lse, result + 1);
}

/// Accesses: logits, target, lse, drow, weight where there is one, dlogits.
void crossEntropyGradRow(Row &row, const ClassLoss &spec) {
  Term target = labelOf(row, 1, spec.element), drow = row.load(3);
  Value label = target.get(), lse = row.load(2).get();
  Value scale =
      target.equals(target.constantInt(spec.ignored)).choose(drow.constant(0), drow).get();
  double share = spec.smoothing / static_cast<double>(spec.classes);
  // What the target counts beyond its share, and the sum over all classes.
  Term special = drow.constant(1 - spec.smoothing), total = drow.constant(1);
  if (spec.hasWeight) {
    special = row.loadAt(4, target, isClass(target, spec)) * (1 - spec.smoothing);
    total = special;
    if (spec.smoothing != 0)
      total = total + row.term(row.fold({sumOf(spec.element)},
                                        [](const Cell &cell) -> SmallVector<Term> {
                                          return {cell.load(4)};
                                        })[0]) *
                          share;
  }
  Value specialValue = special.get(), totalValue = total.get();
  row.each([&](const Cell &cell) {
    Term gradient = (cell.load(0) - cell.term(lse)).unary<math::ExpOp>();
    if (spec.hasWeight)
      gradient = gradient * cell.term(totalValue);
    gradient =
        gradient - isLabel(cell, label).choose(cell.term(specialValue), gradient.constant(0));
    if (spec.smoothing != 0)
      gradient = gradient - (spec.hasWeight ? cell.load(4) * share : gradient.constant(share));
    cell.store(gradient * cell.term(scale), spec.hasWeight ? 5 : 4);
  });
}

/// The same without weights on a device, where rows of any length are vectors of consecutive elements
/// (VectorWalk): what each lane's row has is read for its first and last lane.
void vectorCrossEntropyGrad(KernelFrame &frame, Space space, const ClassLoss &spec) {
  for (Space::Dim &dim : space.dims) // the number of the class
    dim.strides.push_back(&dim == &space.dims.back() ? 1 : 0);
  space.offsets.push_back(0);
  VectorWalk walk(frame, space, {0, 1, 2, 3, 4, 5}, 4);
  walk.runAlone([&](ArrayRef<VectorSpot> spots) {
    SmallVector<SmallVector<Value, 4>> read; // before anything is written
    for (const VectorSpot &spot : spots)
      read.push_back({spot.load(0), spot.load(1), spot.load(2), spot.load(3)});
    for (auto [spot, values] : llvm::zip_equal(spots, read)) {
      const Chunk chunk = spot.chunk();
      Term logit = chunk.term(values[0]).widened(), lse = chunk.term(values[2]).widened();
      Term drow = chunk.term(values[3]).widened();
      Term target = chunk.term(values[1]).as(IntegerType::get(spec.element.getContext(), 64));
      Term scale = target.equals(target.constantInt(spec.ignored)).choose(drow.constant(0), drow);
      Term isLabel = chunk.term(spot.elements(5)).equals(target);
      Term gradient = (logit - lse).unary<math::ExpOp>();
      gradient =
          gradient - isLabel.choose(gradient.constant(1 - spec.smoothing), gradient.constant(0));
      if (spec.smoothing != 0)
        gradient = gradient - gradient.constant(spec.smoothing / static_cast<double>(spec.classes));
      spot.store((gradient * scale).as(frame.buffers[4].element).get(), 4);
    }
  });
}

/// Accesses: x, target, row_loss.
void nllRow(Row &row, const ClassLoss &spec) {
  Term target = labelOf(row, 1, spec.element);
  row.store(checkedLoss(-row.loadAt(0, target, isClass(target, spec)), target, spec), 2);
}

/// Accesses: target, drow, dx.
void nllGradRow(Row &row, const ClassLoss &spec) {
  Term target = labelOf(row, 0, spec.element), drow = row.load(1);
  Value label = target.get();
  Value step =
      target.equals(target.constantInt(spec.ignored)).choose(drow.constant(0), -drow).get();
  row.each([&](const Cell &cell) {
    Term value = cell.term(step);
    cell.store(isLabel(cell, label).choose(value, value.constant(0)), 2);
  });
}

/// Accesses: target, weight, y.
void classWeightRow(Row &row, const ClassLoss &spec) {
  Term target = labelOf(row, 0, spec.element);
  Term weight = row.loadAt(1, target, isClass(target, spec));
  row.store(target.equals(target.constantInt(spec.ignored)).choose(weight.constant(0), weight), 2);
}

void countRow(Row &row, const ClassLoss &spec) {
  Value count = row.fold({sumOf(spec.element)}, [&](const Cell &cell) -> SmallVector<Term> {
    Term target = cell.load(0).as(IntegerType::get(spec.element.getContext(), 64));
    return {target.equals(target.constantInt(spec.ignored)).complement().as(spec.element)};
  })[0];
  row.store(row.term(count), 1);
}

/// Operand number of the classes' weights, if the op has any.
std::optional<unsigned> weightOperand(Operation *op) {
  if (auto rows = dyn_cast<CrossEntropyRowsOp>(op); rows && rows.getWeight())
    return 2;
  if (auto rows = dyn_cast<CrossEntropyRowsGradOp>(op); rows && rows.getWeight())
    return 4;
  return isa<ClassWeightsOp>(op) ? std::optional<unsigned>(1) : std::nullopt;
}

/// Rows times classes: what the op's tensors spread over.
RankedTensorType rowsOf(Operation *op) {
  if (isa<NllRowsGradOp>(op))
    return cast<RankedTensorType>(op->getResult(0).getType());
  auto first = cast<RankedTensorType>(op->getOperand(0).getType());
  if (!isa<ClassWeightsOp>(op))
    return first;
  auto weight = cast<RankedTensorType>(op->getOperand(1).getType());
  return RankedTensorType::get({first.getDimSize(0), weight.getDimSize(0)},
                               weight.getElementType());
}

LogicalResult emitCount(CountValidOp op, ArrayRef<Strides> strides, KernelFrame &frame) {
  auto type = op.getTarget().getType();
  auto [kept, axis] = splitSpace(type, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())),
                                 {strides[0], Strides(type.getRank(), 0)});
  ClassLoss spec;
  spec.element = computeType(op.getCount().getType());
  spec.ignored = static_cast<int64_t>(op.getIgnoreIndex());
  forFoldedRows(frame, kept, axis, [&](Row &row) { countRow(row, spec); });
  return success();
}

} // namespace

static LogicalResult emitLoss(Operation *op, KernelFrame &frame) {
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  if (auto count = dyn_cast<CountValidOp>(op))
    return emitCount(count, *strides, frame);
  auto type = rowsOf(op);
  ClassLoss spec;
  spec.element = computeType(type);
  spec.ignored = op->getAttrOfType<IntegerAttr>("ignore_index").getInt();
  spec.classes = type.getDimSize(1);
  auto weight = weightOperand(op);
  spec.hasWeight = weight.has_value();
  // Tensors of one number a row have no stride along the classes, weights none along the rows.
  SmallVector<Strides> accesses;
  for (auto [i, tensor] : llvm::enumerate(*strides)) {
    accesses.push_back(tensor);
    if (weight == i)
      accesses.back().insert(accesses.back().begin(), 0);
    else if (tensor.size() == 1)
      accesses.back().push_back(0);
  }
  auto [kept, axis] = splitSpace(type, {1}, accesses);
  if (auto rows = dyn_cast<CrossEntropyRowsOp>(op)) {
    spec.smoothing = rows.getLabelSmoothing().convertToDouble();
    forFoldedRows(frame, kept, axis, [&](Row &row) { crossEntropyRow(row, spec); });
  } else if (auto rows = dyn_cast<CrossEntropyRowsGradOp>(op)) {
    spec.smoothing = rows.getLabelSmoothing().convertToDouble();
    const Strides dense = rowMajorStrides(type.getShape());
    if (frame.target == KernelTarget::Device && !spec.hasWeight && accesses.front() == dense &&
        accesses.back() == dense)
      vectorCrossEntropyGrad(frame, makeSpace(type.getShape(), accesses), spec);
    else
      forFoldedRows(frame, kept, axis, [&](Row &row) { crossEntropyGradRow(row, spec); });
  } else if (isa<NllRowsOp>(op)) {
    forFoldedRows(frame, kept, axis, [&](Row &row) { nllRow(row, spec); });
  } else if (isa<NllRowsGradOp>(op)) {
    forFoldedRows(frame, kept, axis, [&](Row &row) { nllGradRow(row, spec); });
  } else {
    forFoldedRows(frame, kept, axis, [&](Row &row) { classWeightRow(row, spec); });
  }
  return success();
}

void addLossKernels(KernelTable &table) {
  table.add<CrossEntropyRowsOp, CrossEntropyRowsGradOp, NllRowsOp, NllRowsGradOp, ClassWeightsOp,
            CountValidOp>(emitLoss);
}

} // namespace stow
