#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
namespace {

Value zeroOf(OpBuilder &builder, Location location, Type type) {
  return arith::ConstantOp::create(builder, location, builder.getZeroAttr(type));
}

Type storedElement(const Buffer &buffer) {
  return cast<MemRefType>(buffer.memory.getType()).getElementType();
}

/// `value`, of the chunk's lanes, as the buffer holds it: masks as bytes, bf16 on the host as integers.
Value toStored(OpBuilder &builder, Location location, const Chunk &chunk, Value value,
               const Buffer &buffer) {
  const Type stored = storedElement(buffer);
  if (stored == buffer.element)
    return value;
  if (buffer.element.isInteger(1))
    return arith::ExtUIOp::create(builder, location, chunk.type(stored), value);
  return arith::BitcastOp::create(builder, location, chunk.type(stored), value);
}

} // namespace

Value laneOf(OpBuilder &builder, Location location, Value value, int64_t lane) {
  return isa<VectorType>(value.getType())
             ? Value(vector::ExtractOp::create(builder, location, value, ArrayRef<int64_t>{lane}))
             : value;
}

Type Chunk::type(Type element) const {
  return lanes == 1 ? element : Type(VectorType::get({lanes}, element));
}

Value Chunk::widen(Value value) const {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(builder, location, type(value.getType()), value);
}

Value Chunk::first(Access access) const {
  Value offset = position;
  if (access.stride == 0)
    return access.base;
  if (access.stride != 1)
    offset =
        arith::MulIOp::create(builder, location, offset,
                              arith::ConstantIndexOp::create(builder, location, access.stride));
  return arith::AddIOp::create(builder, location, access.base, offset);
}

Value Chunk::gatherIndices(Access access) const {
  SmallVector<int64_t> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(lane * access.stride);
  auto type = VectorType::get({lanes}, builder.getIndexType());
  return arith::ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, steps));
}

Value Chunk::allLanes() const {
  auto type = VectorType::get({lanes}, builder.getI1Type());
  return arith::ConstantOp::create(builder, location, DenseElementsAttr::get(type, true));
}

Value Chunk::fromStored(Value stored, Type element) const {
  if (getElementTypeOrSelf(stored.getType()) == element)
    return stored;
  if (!element.isInteger(1))
    return arith::BitcastOp::create(builder, location, type(element), stored);
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, stored,
                               zeroOf(builder, location, stored.getType()));
}

Value Chunk::gatherOrMasked(Value active, const Buffer &buffer, Access access) const {
  auto loaded = cast<VectorType>(type(storedElement(buffer)));
  Value passThrough = zeroOf(builder, location, loaded);
  if (access.stride == 1)
    return vector::MaskedLoadOp::create(builder, location, loaded, buffer.memory,
                                        ValueRange{first(access)}, active, passThrough);
  return vector::GatherOp::create(builder, location, loaded, buffer.memory,
                                  ValueRange{first(access)}, gatherIndices(access), active,
                                  passThrough);
}

Value Chunk::load(const Buffer &buffer, Access access) const {
  Value stored;
  if (lanes == 1 || access.stride == 0)
    stored =
        widen(memref::LoadOp::create(builder, location, buffer.memory, ValueRange{first(access)}));
  else if (access.stride == 1 && !mask)
    stored = vector::LoadOp::create(
        builder, location, cast<VectorType>(type(storedElement(buffer))), buffer.memory,
        ValueRange{first(access)}, /*nontemporal=*/false, llvm::MaybeAlign(access.alignment));
  else
    stored = gatherOrMasked(mask ? mask : allLanes(), buffer, access);
  return fromStored(stored, buffer.element);
}

Value Chunk::loadWhere(Value condition, const Buffer &buffer, Access access) const {
  if (lanes != 1) {
    Value active = widen(condition);
    if (mask)
      active = arith::AndIOp::create(builder, location, active, mask);
    if (access.stride == 0) { // one element for all lanes: read it when any lane wants it
      Chunk scalar(builder, location, position, 1);
      return widen(scalar.loadWhere(condition, buffer, access));
    }
    return fromStored(gatherOrMasked(active, buffer, access), buffer.element);
  }
  return loadAllWhere(condition, buffer, access);
}

Value Chunk::loadAllWhere(Value condition, const Buffer &buffer, Access access) const {
  Type loaded = type(buffer.element);
  auto branch = scf::IfOp::create(builder, location, TypeRange{loaded}, condition, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, location, load(buffer, access));
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, location, zeroOf(builder, location, loaded));
  return branch.getResult(0);
}

void Chunk::store(Value value, const Buffer &buffer, Access access) const {
  value = toStored(builder, location, *this, widen(value), buffer);
  if (lanes == 1)
    memref::StoreOp::create(builder, location, value, buffer.memory, ValueRange{first(access)});
  else if (access.stride != 1)
    vector::ScatterOp::create(builder, location, /*resultType=*/Type(), buffer.memory,
                              ValueRange{first(access)}, gatherIndices(access),
                              mask ? mask : allLanes(), value);
  else if (mask)
    vector::MaskedStoreOp::create(builder, location, buffer.memory, ValueRange{first(access)}, mask,
                                  value);
  else
    vector::StoreOp::create(builder, location, value, buffer.memory, ValueRange{first(access)},
                            /*nontemporal=*/false, llvm::MaybeAlign(access.alignment));
}

Value Chunk::loadBits(const Buffer &buffer, Access access, bool whole) const {
  Type byte = builder.getI8Type();
  if (whole && lanes % 8 == 0 && access.stride == 1 && !mask) {
    Value at = arith::ShRUIOp::create(builder, location, first(access),
                                      arith::ConstantIndexOp::create(builder, location, 3));
    Value bytes = vector::LoadOp::create(builder, location, VectorType::get({lanes / 8}, byte),
                                         buffer.memory, ValueRange{at});
    return vector::BitCastOp::create(builder, location, type(builder.getI1Type()), bytes);
  }
  const Term element(builder, location, positions(access)), low = element.constantInt(7);
  auto shifted = [&](Value value, Value by) {
    return element.with(arith::ShRUIOp::create(builder, location, value, by));
  };
  const Value all =
      lanes == 1 ? arith::ConstantIntOp::create(builder, location, 1, 1).getResult() : allLanes();
  const Term bytes(builder, location,
                   gather(all, buffer, shifted(element.get(), element.constantInt(3).get()).get()));
  const Term bit = shifted(bytes.as(builder.getI64Type()).get(), (element & low).get());
  return bit.with(arith::TruncIOp::create(builder, location, type(builder.getI1Type()), bit.get()))
      .get();
}

void Chunk::storeBits(Value value, const Buffer &buffer, Access access) const {
  assert(lanes % 8 == 0 && access.stride == 1 && !mask && "bytes are written whole");
  Value at = arith::ShRUIOp::create(builder, location, first(access),
                                    arith::ConstantIndexOp::create(builder, location, 3));
  Value bytes = vector::BitCastOp::create(
      builder, location, VectorType::get({lanes / 8}, builder.getI8Type()), widen(value));
  vector::StoreOp::create(builder, location, bytes, buffer.memory, ValueRange{at});
}

Value Chunk::gather(Value condition, const Buffer &buffer, Value elements) const {
  Value zero = arith::ConstantIndexOp::create(builder, location, 0);
  if (lanes == 1) {
    Value at = arith::SelectOp::create(
        builder, location, condition,
        arith::IndexCastOp::create(builder, location, builder.getIndexType(), elements), zero);
    return fromStored(memref::LoadOp::create(builder, location, buffer.memory, ValueRange{at}),
                      buffer.element);
  }
  Value active = widen(condition);
  if (mask)
    active = arith::AndIOp::create(builder, location, active, mask);
  auto loaded = cast<VectorType>(type(storedElement(buffer)));
  Value stored =
      vector::GatherOp::create(builder, location, loaded, buffer.memory, ValueRange{zero}, elements,
                               active, zeroOf(builder, location, loaded));
  return fromStored(stored, buffer.element);
}

void Chunk::scatter(Value condition, Value value, const Buffer &buffer, Value elements) const {
  assert(!buffer.element.isInteger(1) && "masks are not summed");
  value = toStored(builder, location, *this, widen(value), buffer);
  if (lanes == 1) {
    auto branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value at = arith::IndexCastOp::create(builder, location, builder.getIndexType(), elements);
    memref::StoreOp::create(builder, location, value, buffer.memory, ValueRange{at});
    return;
  }
  Value active = widen(condition), zero = arith::ConstantIndexOp::create(builder, location, 0);
  if (mask)
    active = arith::AndIOp::create(builder, location, active, mask);
  vector::ScatterOp::create(builder, location, /*resultType=*/Type(), buffer.memory,
                            ValueRange{zero}, elements, active, value);
}

Value Chunk::positions(Access access) const {
  Type wide = builder.getI64Type();
  Value start = arith::IndexCastOp::create(builder, location, wide, first(access));
  if (lanes == 1 || access.stride == 0)
    return widen(start);
  SmallVector<int64_t> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(lane * access.stride);
  auto type = VectorType::get({lanes}, wide);
  Value offsets =
      arith::ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, steps));
  return arith::AddIOp::create(builder, location, widen(start), offsets);
}

Value Chunk::inside(Value value, Value neutral) const {
  if (!mask)
    return value;
  return arith::SelectOp::create(builder, location, mask, widen(value), widen(neutral));
}

} // namespace stow
