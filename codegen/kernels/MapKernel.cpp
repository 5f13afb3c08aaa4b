// stow.map: its body in every lane, with what does not change along the lanes computed once a row
// and what does not change at all (learning rates, bias corrections) once a call.
#include "codegen/kernels/MapBody.h"
#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/VectorWalk.h"

#include "ir/PackedMasks.h"
#include "ir/StowKernelOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace stow {
namespace {

/// Operands and results, in this order, that are masks of one bit an element.
SmallVector<bool> packedMasks(MapOp op) {
  SmallVector<bool> packed;
  for (unsigned i = 0; i < op->getNumOperands() + op->getNumResults(); ++i)
    packed.push_back(isPackedMask(op, i));
  return packed;
}

/// True when the access of a packed mask begins rows at whole bytes.
bool beginsBytes(const Space &space, unsigned access) {
  bool begins = space.dims.back().strides[access] == 1 && space.offsets[access] % 8 == 0;
  for (const Space::Dim &dim : llvm::drop_end(space.dims))
    begins &= dim.strides[access] % 8 == 0;
  return begins;
}

/// Strides of all tensors over the map's shape, then those of the row-major element number.
/// Tensors in one and the same layout are walked as they are stored, blocks and padding included;
/// packed masks as the space is stored by itself, a bit an element.
FailureOr<Space> mapSpace(MapOp op) {
  RankedTensorType space = spaceOf(op);
  const SmallVector<bool> packed = packedMasks(op);
  bool indexed = llvm::any_of(op.getBody().front(), llvm::IsaPred<ElementIndexOp>);
  bool oneLayout = !layoutOf(space).pitch; // gaps belong to other tensors
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (auto [type, isPacked] : llvm::zip_equal(types, packed)) {
    auto tensor = cast<RankedTensorType>(type);
    oneLayout &= isPacked || tensor.getNumElements() == 1 ||
                 (tensor.getShape() == space.getShape() && layoutOf(tensor) == layoutOf(space));
  }
  if (oneLayout && !indexed) {
    Shape shape(space.getShape().begin(), space.getShape().end());
    Space flat;
    flat.dims.push_back({storedElementCount(layoutOf(space), shape), {}});
    flat.offsets.assign(types.size() + 1, 0);
    for (auto [type, isPacked] : llvm::zip_equal(types, packed)) {
      bool scalar = !isPacked && cast<RankedTensorType>(type).getNumElements() == 1;
      flat.dims[0].strides.push_back(scalar && space.getNumElements() != 1 ? 0 : 1);
    }
    flat.dims[0].strides.push_back(1);
    if (flat.dims[0].extent == 1)
      flat.collapse();
    return flat;
  }
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  for (auto [i, isPacked] : llvm::enumerate(packed))
    if (isPacked) {
      types[i] = withoutPitch(space);
      (*strides)[i] = *stridesOf(withoutPitch(space));
    }
  SmallVector<SmallVector<int64_t>> accesses;
  // Access 0 decides the order of the loops: the first result's.
  accesses.push_back((*strides)[op->getNumOperands()]);
  for (auto [type, tensor] : llvm::zip_equal(types, *strides))
    accesses.push_back(
        broadcastStrides(cast<RankedTensorType>(type).getShape(), tensor, space.getShape()));
  SmallVector<int64_t> count(space.getRank(), 0);
  accesses.push_back(indexed ? rowMajorStrides(space.getShape()) : count);
  Space result = makeSpace(space.getShape(), accesses);
  result.collapse();
  for (Space::Dim &dim : result.dims)
    dim.strides.erase(dim.strides.begin());
  result.offsets.pop_back();
  return result;
}

} // namespace

/// Lanes of part `number` of a vector that `chunk` is a part of.
static Value partOf(Value vector, int64_t number, int64_t parts, OpBuilder &builder,
                    Location location) {
  if (parts == 1)
    return vector;
  const int64_t count = cast<VectorType>(vector.getType()).getNumElements() / parts;
  SmallVector<Value> lanes;
  for (int64_t lane = number * count; lane < (number + 1) * count; ++lane)
    lanes.push_back(laneOf(builder, location, vector, lane));
  return vectorOfLanes(builder, location, lanes);
}

/// The vector that parts of several lanes make.
static Value joined(ArrayRef<Value> parts, OpBuilder &builder, Location location) {
  if (parts.size() == 1)
    return parts.front();
  SmallVector<Value> lanes;
  for (Value part : parts)
    for (int64_t lane = 0; lane < cast<VectorType>(part.getType()).getNumElements(); ++lane)
      lanes.push_back(laneOf(builder, location, part, lane));
  return vectorOfLanes(builder, location, lanes);
}

/// On a device: vectors of positions, in which what all lanes share is computed once.
static void emitDeviceMap(MapOp op, const Space &space, KernelFrame &frame) {
  unsigned operands = op->getNumOperands(), results = op->getNumResults();
  const SmallVector<bool> packed = packedMasks(op);
  const bool writesBits = llvm::is_contained(ArrayRef(packed).drop_front(operands), true);
  VectorWalk walk(frame, space, llvm::to_vector(llvm::seq(operands + results + 1)), operands,
                  writesBits ? 8 : 1);
  const int64_t parts = walk.inParts();
  SmallVector<Level> levels;
  for (unsigned i = 0; i < operands; ++i) {
    bool moves = llvm::any_of(space.dims, [&](auto &dim) { return dim.strides[i] != 0; });
    levels.push_back(!moves ? PerCall : walk.isUniform(i) ? PerRow : PerLane);
  }
  MapBody body(op, levels);
  OpBuilder &builder = frame.lanes.getBuilder();
  const Location location = frame.lanes.getLocation();
  Block &block = op.getBody().front();
  auto never = []() -> Value { return {}; };

  IRMapping call;
  Chunk one(builder, location, frame.lanes.index(0), 1);
  for (unsigned i = 0; i < operands; ++i)
    if (levels[i] == PerCall)
      call.map(block.getArgument(i),
               one.load(frame.buffers[i], {frame.lanes.index(space.offsets[i]), 0}));
  body.emit(PerCall, builder, call, nullptr, never);
  auto isParted = [&](unsigned i) { return parts > 1 && walk.isWide(i); };
  walk.runAlone([&](ArrayRef<VectorSpot> spots) {
    SmallVector<IRMapping> read(spots.size(), call);
    for (auto [spot, values] : llvm::zip_equal(spots, read))
      for (unsigned i = 0; i < operands; ++i)
        if (levels[i] == PerRow || (levels[i] == PerLane && !isParted(i)))
          values.map(block.getArgument(i), packed[i]             ? spot.loadBits(i)
                                           : levels[i] == PerRow ? spot.loadUniform(i)
                                                                 : spot.load(i));
    for (auto [spot, values] : llvm::zip_equal(spots, read)) {
      body.emit(PerRow, builder, values, nullptr, never);
      const Chunk chunk = spot.chunk(parts);
      SmallVector<SmallVector<Value>> found(results); // by part
      for (int64_t part = 0; part < parts; ++part) {
        IRMapping own = values;
        for (unsigned i = 0; i < operands; ++i)
          if (levels[i] == PerLane && parts > 1)
            own.map(block.getArgument(i), isParted(i) ? spot.loadPart(i, part, parts)
                                                      : partOf(values.lookup(block.getArgument(i)),
                                                               part, parts, builder, location));
        body.emit(PerLane, builder, own, &chunk, [&] {
          return partOf(spot.elements(operands + results), part, parts, builder, location);
        });
        for (unsigned i = 0; i < results; ++i) {
          Value result = chunk.widen(own.lookup(block.getTerminator()->getOperand(i)));
          if (isParted(operands + i))
            spot.storePart(result, operands + i, part, parts);
          else
            found[i].push_back(result);
        }
      }
      for (unsigned i = 0; i < results; ++i)
        if (!isParted(operands + i))
          packed[operands + i] ? spot.storeBits(joined(found[i], builder, location), operands + i)
                               : spot.store(joined(found[i], builder, location), operands + i);
    }
  });
}

static LogicalResult emitMap(Operation *operation, KernelFrame &frame) {
  auto op = cast<MapOp>(operation);
  auto found = mapSpace(op);
  if (failed(found))
    return failure();
  const SmallVector<bool> packed = packedMasks(op);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    if (packed[op->getNumOperands() + i] && found->dims.size() != 1)
      return op->emitOpError() << "writes a mask of one bit an element, and its tensors do not lie "
                                  "alike; give them one layout, or the mask one byte an element";
  if (frame.target == KernelTarget::Device) {
    emitDeviceMap(op, *found, frame);
    return success();
  }
  Space outer = *found;
  SmallVector<bool> whole; // packed masks whose rows begin with a byte
  for (auto [i, isPacked] : llvm::enumerate(packed))
    whole.push_back(isPacked && beginsBytes(outer, i));
  SmallVector<Level> levels;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    bool moves = llvm::any_of(outer.dims, [&](auto &dim) { return dim.strides[i] != 0; });
    levels.push_back(outer.dims.back().strides[i] != 0 ? PerLane : moves ? PerRow : PerCall);
  }
  Space::Dim lane = outer.takeInnermost();
  MapBody body(op, levels);

  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Block &block = op.getBody().front();
  unsigned operands = op->getNumOperands(), results = op->getNumResults();
  auto loadLevel = [&](Level level, IRMapping &values, const Chunk &chunk,
                       llvm::function_ref<Access(unsigned)> access) {
    for (unsigned i = 0; i < operands; ++i)
      if (levels[i] == level)
        values.map(block.getArgument(i), packed[i]
                                             ? chunk.loadBits(frame.buffers[i], access(i), whole[i])
                                             : chunk.load(frame.buffers[i], access(i)));
  };
  auto never = []() -> Value { return {}; };

  IRMapping call;
  Chunk one(builder, lanes.getLocation(), lanes.index(0), 1);
  loadLevel(PerCall, call, one, [&](unsigned) { return Access{lanes.index(0), 0}; });
  body.emit(PerCall, builder, call, nullptr, never);

  SmallVector<Buffer> moving;
  for (unsigned i = 0; i < operands + results; ++i)
    if (lane.strides[i] != 0)
      moving.push_back(frame.buffers[i]);
  int64_t width = lanes.chunkLanes(widestBits(moving) > 32 ? 64 : 32);
  forRows(frame, outer, lane, {}, [&](const RowPlace &place) {
    IRMapping row = call;
    auto access = [&](unsigned i) { return Access{place.bases[i], lane.strides[i]}; };
    loadLevel(PerRow, row, one, [&](unsigned i) { return Access{place.bases[i], 0}; });
    body.emit(PerRow, builder, row, nullptr, never);
    lanes.forLanes(place.range, width, [&](const Chunk &chunk) {
      IRMapping values = row;
      loadLevel(PerLane, values, chunk, access);
      body.emit(PerLane, builder, values, &chunk,
                [&] { return chunk.positions(access(operands + results)); });
      for (unsigned i = 0; i < results; ++i) {
        Value result = values.lookup(block.getTerminator()->getOperand(i));
        if (packed[operands + i])
          chunk.storeBits(result, frame.buffers[operands + i], access(operands + i));
        else
          chunk.store(result, frame.buffers[operands + i], access(operands + i));
      }
    });
  });
  return success();
}

/// Bits are written in the order of memory: what is written beside them has no gaps.
static bool mapTakesPart(Operation *op, unsigned, RankedTensorType) {
  const SmallVector<bool> packed = packedMasks(cast<MapOp>(op));
  return !llvm::is_contained(ArrayRef(packed).drop_front(op->getNumOperands()), true);
}

void addMapKernels(KernelTable &table) { table.add<MapOp>(emitMap, {.takesPart = mapTakesPart}); }

} // namespace stow
