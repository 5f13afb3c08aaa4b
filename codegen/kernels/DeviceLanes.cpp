// A device's loops: one block of threads per task, threads stride along the row, one element each.
//
// Thread t of the block always computes the positions t, t + 256, ... of a row, so what a thread
// wrote to a row it may read again without a barrier.
#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace stow {
namespace {

class DeviceLanes final : public Lanes {
public:
  using Lanes::Lanes;

  int64_t taskElements() const override { return 8 * kDeviceBlock; }
  int64_t chunkLanes(unsigned) const override { return 1; }
  int64_t columnLanes(unsigned) const override { return kDeviceBlock; }

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

  Value combineLanes(Value partial, const Reducer &reducer) override {
    auto kind = reducer.kind == Reducer::Kind::Sum ? gpu::AllReduceOperation::ADD
                                                   : gpu::AllReduceOperation::MAXIMUMF;
    auto attribute = gpu::AllReduceOperationAttr::get(builder.getContext(), kind);
    return gpu::AllReduceOp::create(builder, location, partial, attribute, /*uniform=*/true);
  }

  void once(llvm::function_ref<void()> body) override {
    Value first =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, thread(), index(0));
    auto branch = scf::IfOp::create(builder, location, first, false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    body();
  }

private:
  Value thread() { return gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x); }
};

} // namespace

std::unique_ptr<Lanes> makeDeviceLanes(OpBuilder &builder, Location location) {
  return std::make_unique<DeviceLanes>(builder, location);
}

} // namespace stow
