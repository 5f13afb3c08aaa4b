#include "codegen/kernels/device/MapsTogether.h"

#include "codegen/kernels/Emit.h"
#include "codegen/kernels/MapBody.h"
#include "codegen/kernels/device/SharedMemory.h"
#include "ir/PackedMasks.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace stow {
namespace {

bool isNumber(Type type) { return cast<RankedTensorType>(type).getNumElements() == 1; }

int64_t storedElements(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Shape shape(tensor.getShape().begin(), tensor.getShape().end());
  return storedElementCount(layoutOf(tensor), shape);
}

class TogetherEmitter {
public:
  TogetherEmitter(KernelFrame &frame, ArrayRef<MapOp> maps)
      : frame(frame), maps(maps), lanes(frame.lanes), builder(frame.lanes.getBuilder()),
        location(frame.lanes.getLocation()), perMap(frame.buffers.size() / maps.size()) {
    MapOp first = maps.front();
    SmallVector<Type> types(first->getOperandTypes());
    llvm::append_range(types, first->getResultTypes());
    for (auto [i, type] : llvm::enumerate(types)) {
      isShared.push_back(i < first->getNumOperands() && isNumber(type));
      if (i < first->getNumOperands())
        levels.push_back(isShared.back() ? PerCall : PerLane);
    }
    chooseVector();
  }

  void emit() {
    const int64_t perTask = kDeviceBlock * vector;
    for (MapOp map : maps) {
      const int64_t length = storedElements(map.getResult(0).getType());
      lengths.push_back(length);
      firstTasks.push_back(tasks);
      tasks += (length + perTask - 1) / perTask;
    }
    MapBody body(maps.front(), levels);
    IRMapping call;
    Block &block = MapOp(maps.front()).getBody().front();
    Chunk one(builder, location, lanes.index(0), 1);
    for (auto [i, level] : llvm::enumerate(levels))
      if (level == PerCall)
        call.map(block.getArgument(i), one.load(frame.buffers[i], {lanes.index(0), 0}));
    body.emit(PerCall, builder, call, nullptr, []() -> Value { return {}; });
    auto [begin, end] = taskRange(frame, tasks);
    lanes.forTasks(begin, end, [&](Value task) { runTask(task, body, call); });
  }

private:
  /// Of a vector: 16 bytes of the narrowest tensor and no more than 32 of the widest, as elsewhere
  /// (VectorWalk), where all places are aligned to that.
  void chooseVector() {
    int64_t narrowest = kAccessBytes, widest = 1;
    for (size_t i = 0; i < perMap; ++i) {
      if (isShared[i])
        continue;
      const int64_t bytes = bytesOf(i);
      widest = std::max(widest, bytes);
      if (bytes > 1)
        narrowest = std::min(narrowest, bytes);
    }
    vector = std::min(kAccessBytes / narrowest, 2 * kAccessBytes / widest);
    for (auto [i, buffer] : llvm::enumerate(frame.buffers))
      if (!isShared[i % perMap] &&
          buffer.alignment % std::min(kAccessBytes, vector * bytesOf(i % perMap)) != 0)
        vector = 1;
  }

  int64_t bytesOf(size_t access) const { return frame.buffers[access].elementBytes(); }

  /// First task, length and memories of maps [from, to) for `task`, which is one of theirs.
  SmallVector<Value> find(Value task, size_t from, size_t to) {
    if (to - from == 1) {
      SmallVector<Value> found = {lanes.index(firstTasks[from]), lanes.index(lengths[from])};
      for (size_t i = 0; i < perMap; ++i)
        if (!isShared[i]) {
          const Buffer &buffer = frame.buffers[from * perMap + i];
          auto type = cast<MemRefType>(buffer.memory.getType());
          found.push_back(memref::CastOp::create(
              builder, location, MemRefType::get({ShapedType::kDynamic}, type.getElementType()),
              buffer.memory));
        }
      return found;
    }
    const size_t middle = from + (to - from) / 2;
    Value isBefore = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, task,
                                           lanes.index(firstTasks[middle]));
    auto choice = scf::IfOp::create(builder, location, typesOfFound(), isBefore,
                                    /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(choice.thenBlock());
    scf::YieldOp::create(builder, location, find(task, from, middle));
    builder.setInsertionPointToEnd(choice.elseBlock());
    scf::YieldOp::create(builder, location, find(task, middle, to));
    return SmallVector<Value>(choice.getResults());
  }

  SmallVector<Type> typesOfFound() const {
    SmallVector<Type> types(2, builder.getIndexType());
    for (size_t i = 0; i < perMap; ++i)
      if (!isShared[i])
        types.push_back(
            MemRefType::get({ShapedType::kDynamic},
                            cast<MemRefType>(frame.buffers[i].memory.getType()).getElementType()));
    return types;
  }

  void runTask(Value task, const MapBody &body, const IRMapping &call) {
    SmallVector<Value> found = find(task, 0, maps.size());
    SmallVector<Buffer> buffers;
    for (size_t i = 0, next = 2; i < perMap; ++i)
      buffers.push_back(isShared[i] ? frame.buffers[i]
                                    : Buffer{found[next++], frame.buffers[i].element});
    Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
    Value number = arith::SubIOp::create(builder, location, task, found[0]);
    number = arith::AddIOp::create(
        builder, location,
        arith::MulIOp::create(builder, location, number, lanes.index(kDeviceBlock)), thread);
    Value first = arith::MulIOp::create(builder, location, number, lanes.index(vector));
    Value end = arith::AddIOp::create(builder, location, first, lanes.index(vector));
    auto isWithin = [&](Value a) -> Value {
      return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ule, a, found[1]);
    };
    Value isWhole = isWithin(end);
    lanes.ifHolds(isWhole, [&] { compute(first, vector, buffers, body, call); });
    if (vector == 1)
      return;
    // What is left of a map behind its whole vectors.
    Value none = arith::SelectOp::create(builder, location, isWhole, found[1], first);
    Value last = arith::MinUIOp::create(builder, location, end, found[1]);
    lanes.loop(none, last, 1, {}, [&](Value position, ValueRange) {
      compute(position, 1, buffers, body, call);
      return SmallVector<Value>();
    });
  }

  void compute(Value position, int64_t size, ArrayRef<Buffer> buffers, const MapBody &body,
               const IRMapping &call) {
    Block &block = MapOp(maps.front()).getBody().front();
    Chunk chunk(builder, location, lanes.index(0), size);
    auto access = [&](size_t i) {
      return Access{position, 1, size == 1 ? 0 : std::min(kAccessBytes, size * bytesOf(i))};
    };
    auto never = []() -> Value { return {}; };
    IRMapping values = call;
    for (auto [i, level] : llvm::enumerate(levels))
      if (level == PerLane)
        values.map(block.getArgument(i), chunk.load(buffers[i], access(i)));
    body.emit(PerLane, builder, values, &chunk, never);
    for (auto [i, result] : llvm::enumerate(block.getTerminator()->getOperands()))
      chunk.store(chunk.widen(values.lookup(result)), buffers[levels.size() + i],
                  access(levels.size() + i));
  }

  KernelFrame &frame;
  ArrayRef<MapOp> maps;
  Lanes &lanes;
  OpBuilder &builder;
  Location location;
  size_t perMap;              ///< operands and results
  SmallVector<bool> isShared; ///< of operands and results: a number that all maps read
  SmallVector<Level> levels;  ///< of operands
  SmallVector<int64_t> lengths, firstTasks; ///< by map
  int64_t tasks = 0, vector = 1;
};

LogicalResult checkAlike(ArrayRef<MapOp> maps) {
  MapOp first = maps.front();
  for (MapOp map : maps) {
    bool isAlike = map->getNumOperands() == first->getNumOperands() &&
                   map->getNumResults() == first->getNumResults() &&
                   OperationEquivalence::isRegionEquivalentTo(
                       &map.getBody(), &first.getBody(), OperationEquivalence::IgnoreLocations) &&
                   llvm::none_of(map.getBody().front(), llvm::IsaPred<ElementIndexOp>);
    for (unsigned i = 0; i < map->getNumOperands() + map->getNumResults(); ++i)
      isAlike &= !isPackedMask(map, i);
    const int64_t length = storedElements(map.getResult(0).getType());
    for (auto [i, value] : llvm::enumerate(map->getOperands()))
      isAlike = isAlike && (isNumber(value.getType()) ? value == first->getOperand(i)
                                                      : storedElements(value.getType()) == length);
    for (Value value : map->getResults())
      isAlike &= !isNumber(value.getType()) && storedElements(value.getType()) == length;
    if (!isAlike)
      return map->emitOpError() << "is to run in one launch with maps that are not like it; run "
                                   "stow-gather-updates again";
  }
  return success();
}

} // namespace

FailureOr<KernelInfo> addMapsTogether(KernelModule &kernels, ArrayRef<MapOp> maps,
                                      ArrayRef<int64_t> alignments) {
  if (failed(checkAlike(maps)))
    return failure();
  SmallVector<KernelArgument> arguments;
  for (MapOp map : maps) {
    const size_t count = map->getNumOperands() + map->getNumResults();
    llvm::append_range(arguments,
                       argumentsOf(map, alignments.empty()
                                            ? alignments
                                            : alignments.slice(arguments.size(), count)));
  }
  return kernels.define("map", arguments, 0, [&](KernelFrame &frame) -> LogicalResult {
    TogetherEmitter(frame, maps).emit();
    return success();
  });
}

} // namespace stow
