// A device's loops: one block of threads per task, threads stride along the row, one element each.
//
// Thread t of the block always computes the positions t, t + 256, ... of a row, so what a thread
// wrote to a row it may read again without a barrier. Folds are the same for every grid size.
#include "codegen/kernels/Lanes.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace stow {
namespace {

class DeviceLanes final : public Lanes {
public:
  /// The builder stands in the kernel's entry block.
  DeviceLanes(OpBuilder &builder, Location location)
      : Lanes(builder, location),
        function(cast<gpu::GPUFuncOp>(builder.getInsertionBlock()->getParentOp())) {}

  int64_t taskElements() const override { return 8 * kDeviceBlock; }
  int64_t chunkLanes(unsigned) const override { return 1; }
  int64_t columnLanes(unsigned, int64_t) const override { return kDeviceBlock; }

  void forTasks(Value begin, Value end, llvm::function_ref<void(Value)> body) override {
    Value block = gpu::BlockIdOp::create(builder, location, gpu::Dimension::x);
    Value blocks = gpu::GridDimOp::create(builder, location, gpu::Dimension::x);
    Value first = arith::AddIOp::create(builder, location, begin, block);
    strided(first, end, blocks, {}, [&](Value task, ValueRange) {
      body(task);
      return SmallVector<Value>();
    });
  }

  void forLanes(const LaneRange &range, int64_t, ChunkBody body) override {
    Value high =
        range.extent
            ? Value(arith::AddIOp::create(builder, location, range.low, index(*range.extent)))
            : range.high;
    Value first = arith::AddIOp::create(builder, location, range.low, thread());
    loop(first, high, kDeviceBlock, {}, [&](Value position, ValueRange) {
      body(Chunk(builder, location, position, 1));
      return SmallVector<Value>();
    });
  }

  SmallVector<Value> foldLanes(int64_t extent, int64_t, ArrayRef<Reducer> reducers,
                               FoldBody body) override {
    SmallVector<Type> types;
    for (const Reducer &reducer : reducers)
      types.push_back(reducer.element);
    return loop(thread(), index(extent), kDeviceBlock, neutrals(reducers, types),
                [&](Value position, ValueRange old) {
                  return combine(reducers, old, body(Chunk(builder, location, position, 1)));
                });
  }

  Type partialType(Type element, int64_t) const override { return element; }

  /// Warps are folded by shuffles; then every thread folds the warps' results, in the same order.
  Value combineLanes(Value partial, const Reducer &reducer) override {
    Term sum(builder, location, partial);
    for (int32_t distance = kWarp / 2; distance > 0; distance /= 2) {
      auto other = gpu::ShuffleOp::create(builder, location, sum.get(), distance, kWarp,
                                          gpu::ShuffleMode::XOR);
      sum = reducer.combine(sum, sum.with(other.getShuffleResult()));
    }
    Value shared = sharedMemory(sum.element());
    Value warp = arith::DivUIOp::create(builder, location, thread(), index(kWarp));
    Value lane = arith::RemUIOp::create(builder, location, thread(), index(kWarp));
    onlyWhenZero(lane, [&] {
      memref::StoreOp::create(builder, location, sum.get(), shared, ValueRange{warp});
    });
    gpu::BarrierOp::create(builder, location);
    auto load = [&](int64_t i) {
      return sum.with(memref::LoadOp::create(builder, location, shared, ValueRange{index(i)}));
    };
    Term total = load(0);
    for (int64_t i = 1; i < kDeviceBlock / kWarp; ++i)
      total = reducer.combine(total, load(i));
    gpu::BarrierOp::create(builder, location); // before the next fold writes there
    return total.get();
  }

  int64_t tileEdge() const override { return 0; }
  SmallVector<Value> transposeTile(ValueRange rows) override { return SmallVector<Value>(rows); }

  void once(llvm::function_ref<void()> body) override { onlyWhenZero(thread(), body); }

private:
  void onlyWhenZero(Value number, llvm::function_ref<void()> body) {
    Value zero =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, number, index(0));
    ifHolds(zero, body);
  }

  /// One element per warp of the block, shared by all folds of an element type.
  Value sharedMemory(Type element) {
    auto space = gpu::AddressSpaceAttr::get(builder.getContext(), gpu::AddressSpace::Workgroup);
    auto type =
        MemRefType::get({kDeviceBlock / kWarp}, element, MemRefLayoutAttrInterface(), space);
    for (BlockArgument memory : function.getWorkgroupAttributions())
      if (memory.getType() == type)
        return memory;
    return addSharedMemory(function, type.getShape(), element, location);
  }

  Value thread() { return gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x); }

  gpu::GPUFuncOp function;
};

} // namespace

std::unique_ptr<Lanes> makeDeviceLanes(OpBuilder &builder, Location location) {
  return std::make_unique<DeviceLanes>(builder, location);
}

} // namespace stow
