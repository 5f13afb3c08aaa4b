#include "codegen/kernels/device/DeviceFolds.h"

#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {

gpu::GPUFuncOp functionOf(const KernelFrame &frame) {
  return cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
}

TeamFolds::TeamFolds(const KernelFrame &frame, const Team &team, Value member)
    : frame(frame), team(team), member(member), lanes(frame.lanes), builder(lanes.getBuilder()),
      location(lanes.getLocation()), math{builder, location} {}

Value TeamFolds::sharedMemory(Type element, int64_t count) {
  return addSharedMemory(functionOf(frame), {count}, element, location);
}

/// Joins what the threads of the team have found.
SmallVector<Value> TeamFolds::joined(SmallVector<Value> partial, ArrayRef<Reducer> reducers) {
  if (team.along)
    for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
      value = foldOver(value, std::min(team.members, kWarp), reducer);
  if (team.members <= (team.along ? kWarp : 1))
    return partial;
  return team.along ? foldWarps(partial, reducers) : foldGroups(partial, reducers);
}

Value TeamFolds::foldVector(Value vector, const Reducer &reducer) {
  SmallVector<Value> parts;
  for (int64_t lane = 0; lane < cast<VectorType>(vector.getType()).getNumElements(); ++lane)
    parts.push_back(laneOf(builder, location, vector, lane));
  return foldHalves(parts, reducer);
}

/// Joins the second half with the first until one value, of a power of two, is left.
Value TeamFolds::foldHalves(SmallVector<Value> parts, const Reducer &reducer) {
  for (size_t half = parts.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      parts[i] = reducer.combine(term(parts[i]), term(parts[i + half])).get();
  return parts.front();
}

/// Over so many neighbouring threads, a power of two.
Value TeamFolds::foldOver(Value partial, int64_t threads, const Reducer &reducer) {
  Term sum = term(partial);
  for (auto distance = static_cast<int32_t>(threads / 2); distance > 0; distance /= 2) {
    auto other = gpu::ShuffleOp::create(builder, location, sum.get(), distance, kWarp,
                                        gpu::ShuffleMode::XOR);
    sum = reducer.combine(sum, sum.with(other.getShuffleResult()));
  }
  return sum.get();
}

/// Joins what warps have found: each writes its part, then all threads fold the parts.
SmallVector<Value> TeamFolds::foldWarps(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
  ++foldsOfWarps;
  const int64_t parts = team.members / kWarp;
  Value part = math.quotient(member, kWarp),
        isFirst = math.isBelow(math.remainder(member, kWarp), lanes.index(1));
  SmallVector<Value> memories;
  for (const Reducer &reducer : reducers)
    memories.push_back(sharedMemory(reducer.element, parts));
  lanes.ifHolds(isFirst, [&] {
    for (auto [partial, memory] : llvm::zip_equal(partials, memories))
      memref::StoreOp::create(builder, location, partial, memory, ValueRange{part});
  });
  gpu::BarrierOp::create(builder, location);
  SmallVector<Value> results;
  for (auto [reducer, memory] : llvm::zip_equal(reducers, memories)) {
    SmallVector<Value> values;
    for (int64_t i = 0; i < parts; ++i)
      values.push_back(
          memref::LoadOp::create(builder, location, memory, ValueRange{lanes.index(i)}));
    results.push_back(foldHalves(values, reducer));
  }
  return results;
}

/// Joins what groups of threads have found of rows side by side. As many threads share a row as there are,
/// neighbours, each of which folds every so many of the parts and then their halves by shuffles; what
/// they have goes to all through shared memory again. Parts lie so far apart that these reads meet all
/// banks.
SmallVector<Value> TeamFolds::foldGroups(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
  const int64_t parts = team.members, width = kDeviceBlock / parts,
                rows = team.vectors.lanes * width;
  const int64_t sharers = std::max<int64_t>(1, parts / team.vectors.lanes), pitch = rows + rows / 8;
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  Value side = math.remainder(thread, width), first = math.remainder(thread, sharers);
  SmallVector<Value> memories, joined;
  for (const Reducer &reducer : reducers) {
    memories.push_back(sharedMemory(reducer.element, parts * pitch));
    joined.push_back(sharedMemory(reducer.element, rows));
  }
  Value own = math.plus(math.times(member, pitch), side);
  for (auto [partial, memory] : llvm::zip_equal(partials, memories))
    for (int64_t lane = 0; lane < team.vectors.lanes; ++lane)
      memref::StoreOp::create(builder, location, laneOf(builder, location, partial, lane), memory,
                              ValueRange{math.plus(own, lane * width)});
  gpu::BarrierOp::create(builder, location);
  for (auto [reducer, memory, whole] : llvm::zip_equal(reducers, memories, joined))
    for (int64_t number = 0; number < rows * sharers; number += kDeviceBlock) {
      Value row = math.plus(math.quotient(thread, sharers), number);
      SmallVector<Value> values;
      for (int64_t i = 0; i < parts; i += sharers)
        values.push_back(memref::LoadOp::create(
            builder, location, memory,
            ValueRange{math.plus(math.times(math.plus(first, i), pitch), row)}));
      Value value = foldOver(foldHalves(values, reducer), sharers, reducer);
      lanes.ifHolds(sharers == 1 ? Value() : math.isBelow(first, lanes.index(1)), [&] {
        memref::StoreOp::create(builder, location, value, whole, ValueRange{row});
      });
    }
  gpu::BarrierOp::create(builder, location);
  SmallVector<Value> results;
  for (Value whole : joined) {
    SmallVector<Value> found;
    for (int64_t lane = 0; lane < team.vectors.lanes; ++lane)
      found.push_back(memref::LoadOp::create(builder, location, whole,
                                             ValueRange{math.plus(side, lane * width)}));
    results.push_back(vectorOfLanes(builder, location, found));
  }
  return results;
}

} // namespace stow
