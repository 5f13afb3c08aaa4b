#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace stow {

double Reducer::neutral() const {
  return kind == Kind::Sum ? 0.0 : -std::numeric_limits<double>::infinity();
}

Term Reducer::combine(Term a, Term b) const { return kind == Kind::Sum ? a + b : a.maximum(b); }

Value Lanes::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, location, value);
}

void Lanes::ifHolds(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

SmallVector<Value> Lanes::strided(Value low, Value high, Value step, ValueRange carried,
                                  LoopBody body) {
  auto loop =
      scf::ForOp::create(builder, location, low, high, step, carried,
                         [&](OpBuilder &inner, Location, Value position, ValueRange values) {
                           OpBuilder::InsertionGuard guard(builder);
                           builder.restoreInsertionPoint(inner.saveInsertionPoint());
                           auto results = body(position, values);
                           scf::YieldOp::create(builder, location, results);
                         });
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> Lanes::neutrals(ArrayRef<Reducer> reducers, ArrayRef<Type> types) {
  SmallVector<Value> values;
  for (auto [reducer, type] : llvm::zip_equal(reducers, types)) {
    Attribute scalar = builder.getFloatAttr(reducer.element, reducer.neutral());
    auto attr = isa<VectorType>(type)
                    ? cast<TypedAttr>(DenseElementsAttr::get(cast<VectorType>(type), scalar))
                    : cast<TypedAttr>(scalar);
    values.push_back(arith::ConstantOp::create(builder, location, attr));
  }
  return values;
}

SmallVector<Value> Lanes::combine(ArrayRef<Reducer> reducers, ValueRange a, ValueRange b) {
  SmallVector<Value> values;
  for (auto [reducer, left, right] : llvm::zip_equal(reducers, a, b))
    values.push_back(
        reducer.combine(Term(builder, location, left), Term(builder, location, right)).get());
  return values;
}

/// Accumulators of one fold: enough to hide the latency of an addition.
static constexpr int64_t kAccumulators = 4;
/// Units after which partial sums are set aside, and such sums that are added up before they are
/// set aside in turn.
static constexpr int64_t kBlockUnits = 64 * kAccumulators, kBlocks = 64;

SmallVector<Value> Lanes::foldRange(Value start, int64_t units, ArrayRef<Reducer> reducers,
                                    ArrayRef<Type> types, UnitBody body) {
  auto at = [&](Value base, int64_t offset) -> Value {
    return offset == 0 ? base
                       : Value(arith::AddIOp::create(builder, location, base, index(offset)));
  };
  size_t count = reducers.size();
  SmallVector<Value> sums;
  for (int64_t i = 0; i < kAccumulators; ++i)
    llvm::append_range(sums, neutrals(reducers, types));
  // One step of `number` accumulators from `base` on.
  auto accumulate = [&](Value base, ValueRange old, int64_t number) {
    SmallVector<Value> next(old);
    for (int64_t i = 0; i < number; ++i) {
      auto values = body(at(base, i));
      auto joined = combine(reducers, old.slice(i * count, count), values);
      std::copy(joined.begin(), joined.end(), next.begin() + i * count);
    }
    return next;
  };
  int64_t grouped = units / kAccumulators * kAccumulators;
  if (grouped > 0)
    sums = loop(start, at(start, grouped), kAccumulators, sums,
                [&](Value base, ValueRange old) { return accumulate(base, old, kAccumulators); });
  if (grouped < units)
    sums = loop(at(start, grouped), at(start, units), 1, sums,
                [&](Value base, ValueRange old) { return accumulate(base, old, 1); });

  ValueRange all = sums;
  auto low = combine(reducers, all.slice(0, count), all.slice(count, count));
  auto high = combine(reducers, all.slice(2 * count, count), all.slice(3 * count, count));
  return combine(reducers, low, high);
}

SmallVector<Value> Lanes::foldUnits(int64_t units, ArrayRef<Reducer> reducers, ArrayRef<Type> types,
                                    UnitBody body) {
  return foldBlocks(index(0), units, reducers, types, body);
}

SmallVector<Value> Lanes::foldBlocks(Value start, int64_t units, ArrayRef<Reducer> reducers,
                                     ArrayRef<Type> types, UnitBody body) {
  if (units < 2 * kBlockUnits)
    return foldRange(start, units, reducers, types, body);
  int64_t block = kBlockUnits; // the largest power that leaves several blocks
  while (units >= 2 * block * kBlocks)
    block *= kBlocks;
  int64_t whole = units / block * block;
  Value middle = arith::AddIOp::create(builder, location, start, index(whole));
  auto sums =
      loop(start, middle, block, neutrals(reducers, types), [&](Value from, ValueRange old) {
        return combine(reducers, old, foldBlocks(from, block, reducers, types, body));
      });
  if (units > whole)
    sums = combine(reducers, sums, foldBlocks(middle, units - whole, reducers, types, body));
  return sums;
}

} // namespace stow
