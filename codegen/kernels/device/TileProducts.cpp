#include "codegen/kernels/device/TileProducts.h"

#include "codegen/kernels/Lanes.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
namespace {

constexpr int64_t kQuad = 4;
/// Depth of one instruction of the tensor cores.
constexpr int64_t kDepth = 16;
/// f32: elements of a row that are read at once.
constexpr int64_t kTogether = 4;

} // namespace

TileProducts::TileProducts(OpBuilder &builder, Location location, FloatType element, Value thread,
                           int64_t parts)
    : builder(builder), location(location), math{builder, location}, element(element),
      parts(parts) {
  lane = math.remainder(thread, kWarp);
  quadRow = math.quotient(lane, kQuad);
  quadColumn = math.remainder(lane, kQuad);
}

int64_t TileProducts::padded(FloatType element, int64_t columns) {
  const int64_t multiple = element.getIntOrFloatBitWidth() == 16 ? kDepth : kGroup;
  return (columns + multiple - 1) / multiple * multiple;
}

int64_t TileProducts::pitch(FloatType element, int64_t columns) {
  return padded(element, columns) + kAccessBytes * 8 / element.getIntOrFloatBitWidth();
}

int64_t TileProducts::tileBytes(FloatType element, int64_t rows, int64_t columns) {
  return rows * pitch(element, columns) * element.getIntOrFloatBitWidth() / 8;
}

SmallVector<Value> TileProducts::zeros(int64_t columns) const {
  Value zero = arith::ConstantOp::create(builder, location, builder.getF32FloatAttr(0));
  return SmallVector<Value>(parts * columns / kGroup * kValues, zero);
}

Value TileProducts::rowOf(int64_t half) const { return math.plus(quadRow, half * kRows / 2); }

Value TileProducts::columnOf(int64_t group, int64_t i) const {
  return math.plus(math.times(quadColumn, 2), group * kGroup + i % 2);
}

Value TileProducts::overRow(Value value, llvm::function_ref<Value(Value, Value)> combine) const {
  for (int32_t distance : {1, 2}) {
    auto other =
        gpu::ShuffleOp::create(builder, location, value, distance, kWarp, gpu::ShuffleMode::XOR);
    value = combine(value, other.getShuffleResult());
  }
  return value;
}

SmallVector<Value> TileProducts::timesRows(const Left &left, Value right, int64_t rows) const {
  return isNarrow() ? timesRowsByMma(left, right, rows) : timesRowsByFma(left, right, rows);
}

//===-- Tensor cores --------------------------------------------------------------------------===//

/// Four matrices of 8 x 8, each row at the address that one thread gives.
Value TileProducts::loadMatrices(Value tile, Value row, Value column, bool transposed) const {
  auto type = VectorType::get({4, 2}, element);
  return nvgpu::LdMatrixOp::create(builder, location, type, tile, ValueRange{row, column},
                                   builder.getBoolAttr(transposed), builder.getI32IntegerAttr(4));
}

/// Rows of a vector [rows, 2] of 16-bit elements as operands of an instruction: f16 in pairs, bf16 in
/// registers of 32 bits.
SmallVector<Value> TileProducts::operands(Value pairs, int64_t first, int64_t count) const {
  SmallVector<Value> result;
  for (int64_t i = first; i < first + count; ++i) {
    Value pair = vector::ExtractOp::create(builder, location, pairs, i);
    if (element.isBF16()) {
      auto whole = VectorType::get({1}, builder.getI32Type());
      pair = elementOf(vector::BitCastOp::create(builder, location, whole, pair), 0);
    }
    result.push_back(pair);
  }
  return result;
}

/// sums += left right, of the two groups of columns that `right` has that of `half`.
void TileProducts::mma(Value left, Value right, int64_t half, MutableArrayRef<Value> sums) const {
  auto results = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                                  SmallVector<Type>(kValues, builder.getF32Type()));
  const auto type = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  Value result = NVVM::MmaOp::create(
      builder, location, results, operands(left, 0, 4), operands(right, 2 * half, 2),
      ValueRange(sums), {kRows, kGroup, kDepth}, std::nullopt, std::nullopt, {{type, type}},
      {{NVVM::MMALayout::row, NVVM::MMALayout::col}});
  for (int64_t i = 0; i < kValues; ++i)
    sums[i] = LLVM::ExtractValueOp::create(builder, location, result, i);
}

Value TileProducts::loadLeft(const Left &left, int64_t part, int64_t column) const {
  Value row = math.plus(left.row, math.plus(math.remainder(lane, kRows), part * kRows)),
        first = math.times(math.quotient(lane, kRows), kGroup);
  return loadMatrices(left.tile, row, math.plus(first, column), false);
}

TileProducts::Left TileProducts::hold(Left left) const {
  for (int64_t k = 0; k < padded(element, left.depth); k += kDepth)
    for (int64_t part = 0; part < parts; ++part)
      left.held.push_back(loadLeft(left, part, k));
  return left;
}

SmallVector<Value> TileProducts::timesRowsByMma(const Left &left, Value right, int64_t rows) const {
  SmallVector<Value> sums = zeros(rows);
  const int64_t groups = rows / kGroup;
  // Rows 0 to 7 of both halves of the depth, then rows 8 to 15.
  Value rightRow =
            math.plus(math.times(math.quotient(lane, kRows), kGroup), math.remainder(lane, kGroup)),
        rightColumn = math.times(math.remainder(math.quotient(lane, kGroup), 2), kGroup);
  for (int64_t k = 0; k < padded(element, left.depth); k += kDepth) {
    SmallVector<Value> a;
    for (int64_t part = 0; part < parts; ++part)
      a.push_back(left.held.empty() ? loadLeft(left, part, k)
                                    : left.held[k / kDepth * parts + part]);
    for (int64_t n = 0; n < groups; n += 2) {
      Value b =
          loadMatrices(right, math.plus(rightRow, n * kGroup), math.plus(rightColumn, k), false);
      for (int64_t half : {0, 1})
        for (int64_t part = 0; part < parts; ++part)
          mma(a[part], b, half,
              MutableArrayRef(sums).slice((part * groups + n + half) * kValues, kValues));
    }
  }
  return sums;
}

/// Two groups of weights as a left factor of the tensor cores.
Value TileProducts::asLeft(ValueRange weights) const {
  auto wide = VectorType::get({2}, builder.getF32Type()), low = VectorType::get({2}, element);
  Value left = arith::ConstantOp::create(builder, location,
                                         builder.getZeroAttr(VectorType::get({4, 2}, element)));
  for (int64_t i = 0; i < 4; ++i) {
    Value two = vector::FromElementsOp::create(builder, location, wide,
                                               ValueRange{weights[2 * i], weights[2 * i + 1]});
    left = vector::InsertOp::create(builder, location,
                                    arith::TruncFOp::create(builder, location, low, two), left, i);
  }
  return left;
}

//===-- Multiply-adds -------------------------------------------------------------------------===//

Value TileProducts::loadVector(Value tile, Value row, Value column, int64_t count) const {
  return vector::LoadOp::create(builder, location, VectorType::get({count}, element), tile,
                                ValueRange{row, column}, /*nontemporal=*/false,
                                llvm::MaybeAlign(count * element.getIntOrFloatBitWidth() / 8));
}

Value TileProducts::elementOf(Value vector, int64_t i) const {
  return vector::ExtractOp::create(builder, location, vector, i);
}

Value TileProducts::multiplyAdd(Value a, Value b, Value sum) const {
  return math::FmaOp::create(builder, location, a, b, sum);
}

SmallVector<Value> TileProducts::timesRowsByFma(const Left &left, Value right, int64_t rows) const {
  auto loop = scf::ForOp::create(builder, location, math.constant(0),
                                 math.constant(padded(element, left.depth)),
                                 math.constant(kTogether), zeros(rows));
  keepRolled(loop);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value k = loop.getInductionVar();
  const int64_t groups = rows / kGroup;
  SmallVector<Value> sums(loop.getRegionIterArgs()), a;
  for (int64_t half = 0; half < halves(); ++half)
    a.push_back(loadVector(left.tile, math.plus(left.row, rowOf(half)), k, kTogether));
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t column = 0; column < 2; ++column) {
      Value b = loadVector(right, columnOf(group, column), k, kTogether);
      for (int64_t i = 0; i < kTogether; ++i)
        for (int64_t half = 0; half < halves(); ++half) {
          Value &sum = sums[(half / 2 * groups + group) * kValues + half % 2 * 2 + column];
          sum = multiplyAdd(elementOf(a[half], i), elementOf(b, i), sum);
        }
    }
  scf::YieldOp::create(builder, location, sums);
  return SmallVector<Value>(loop.getResults());
}

//===-- Weighted rows -------------------------------------------------------------------------===//

SmallVector<Value> TileProducts::addWeighted(ValueRange sums, ValueRange weights, Value right,
                                             int64_t rows, int64_t columns) const {
  const int64_t width = padded(element, columns), groups = width / kGroup;
  const int64_t groupsOfWeights = rows / kGroup;
  SmallVector<Value> result(sums);
  if (isNarrow()) {
    Value rightColumn = math.times(math.quotient(lane, kRows), kGroup),
          rightRow = math.remainder(lane, kRows);
    for (int64_t k = 0; k < rows; k += kDepth) {
      SmallVector<Value> a;
      for (int64_t part = 0; part < parts; ++part)
        a.push_back(
            asLeft(weights.slice((part * groupsOfWeights + k / kGroup) * kValues, 2 * kValues)));
      for (int64_t n = 0; n < groups; n += 2) {
        Value b =
            loadMatrices(right, math.plus(rightRow, k), math.plus(rightColumn, n * kGroup), true);
        for (int64_t half : {0, 1})
          for (int64_t part = 0; part < parts; ++part)
            mma(a[part], b, half,
                MutableArrayRef(result).slice((part * groups + n + half) * kValues, kValues));
      }
    }
    return result;
  }
  // The weights of a row lie with its four threads: each is sent to all of them in turn.
  Type integer = builder.getI32Type();
  Value first = arith::IndexCastOp::create(builder, location, integer, math.times(quadRow, kQuad));
  Value warp = arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(kWarp));
  for (int64_t k = 0; k < rows; ++k) {
    Value source = arith::AddIOp::create(
        builder, location, first,
        arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(k % kGroup / 2)));
    SmallVector<Value> a;
    for (int64_t half = 0; half < halves(); ++half) {
      Value weight =
          weights[(half / 2 * groupsOfWeights + k / kGroup) * kValues + half % 2 * 2 + k % 2];
      a.push_back(
          gpu::ShuffleOp::create(builder, location, weight, source, warp, gpu::ShuffleMode::IDX)
              .getShuffleResult());
    }
    for (int64_t group = 0; group < groups; ++group) {
      Value b = loadVector(right, math.constant(k), columnOf(group, 0), 2);
      for (int64_t i = 0; i < parts * kValues; ++i) {
        Value &sum = result[(i / kValues * groups + group) * kValues + i % kValues];
        sum = multiplyAdd(a[i / 2], elementOf(b, i % 2), sum);
      }
    }
  }
  return result;
}

} // namespace stow
