#include "codegen/kernels/device/DeviceVectors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace stow {

int64_t stepOf(ArrayRef<int64_t> strides) {
  int64_t step = 0;
  for (int64_t stride : strides)
    step = stride == 1 ? step : std::gcd(step, stride);
  return step;
}

Value vectorOfLanes(OpBuilder &builder, Location location, ArrayRef<Value> lanes) {
  if (lanes.size() == 1)
    return lanes.front();
  auto type = VectorType::get({static_cast<int64_t>(lanes.size())}, lanes.front().getType());
  return vector::FromElementsOp::create(builder, location, type, lanes);
}

std::pair<int64_t, int64_t> pieceOf(int64_t position, int64_t lanes) {
  const int64_t piece = llvm::divideFloorSigned(position, lanes);
  return {piece, position - piece * lanes};
}

Value RowPieces::piece(int64_t number) {
  auto [known, isNew] = pieces.try_emplace(number);
  if (!isNew)
    return known->second;
  Value element = first;
  if (number != 0)
    element =
        arith::AddIOp::create(builder, location, first,
                              arith::ConstantIndexOp::create(builder, location, number * lanes));
  Chunk chunk(builder, location, arith::ConstantIndexOp::create(builder, location, 0), lanes);
  const Access access{element, 1, accessAlignment(buffer, lanes)};
  Value inside = exists ? exists(number) : Value();
  known->second = inside ? chunk.loadAllWhere(inside, buffer, access) : chunk.load(buffer, access);
  return known->second;
}

Value RowPieces::at(ArrayRef<int64_t> positions) {
  SmallVector<Value> elements;
  for (int64_t position : positions) {
    auto [number, lane] = pieceOf(position, lanes);
    elements.push_back(laneOf(builder, location, piece(number), lane));
  }
  return vectorOfLanes(builder, location, elements);
}

} // namespace stow
