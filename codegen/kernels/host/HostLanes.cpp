// The host's loops: vectors along the row, a mask at its end, one thread per call.
#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace stow {
namespace {

class HostLanes final : public Lanes {
public:
  using Lanes::Lanes;

  int64_t taskElements() const override { return 8192; }
  /// 512 bits of f32 or f64; narrower elements are computed in f32.
  int64_t chunkLanes(unsigned bits) const override { return bits > 32 ? 8 : 16; }
  /// Memory is fetched in pairs of cache lines: strips of one line read each pair twice. Few
  /// columns are more tasks that way.
  int64_t columnLanes(unsigned bits, int64_t columns) const override {
    return chunkLanes(bits) * (columns >= 8 * chunkLanes(bits) ? 2 : 1);
  }

  void forTasks(Value begin, Value end, llvm::function_ref<void(Value)> body) override {
    loop(begin, end, 1, {}, [&](Value task, ValueRange) {
      body(task);
      return SmallVector<Value>();
    });
  }

  void forLanes(const LaneRange &range, int64_t lanes, ChunkBody body) override {
    if (range.extent)
      return forStaticLanes(range.low, *range.extent, lanes, body);
    Value count = arith::SubIOp::create(builder, location, range.high, range.low);
    Value rest = arith::RemUIOp::create(builder, location, count, index(lanes));
    Value middle =
        range.whole ? range.high : arith::SubIOp::create(builder, location, range.high, rest);
    forWholeChunks(range.low, middle, lanes, body);
    if (range.whole)
      return;
    Value some = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, rest, index(0));
    ifHolds(some, [&] { body(maskedChunk(middle, rest, lanes)); });
  }

  SmallVector<Value> foldLanes(int64_t extent, int64_t lanes, ArrayRef<Reducer> reducers,
                               FoldBody body) override {
    SmallVector<Type> types;
    for (const Reducer &reducer : reducers)
      types.push_back(partialType(reducer.element, lanes));
    int64_t whole = extent / lanes;
    SmallVector<Value> sums;
    if (whole > 0)
      sums = foldUnits(whole, reducers, types, [&](Value unit) {
        Value position = arith::MulIOp::create(builder, location, unit, index(lanes));
        return body(Chunk(builder, location, position, lanes));
      });
    if (extent % lanes == 0)
      return sums;
    Chunk tail = maskedChunk(index(whole * lanes), index(extent % lanes), lanes);
    auto values = body(tail);
    for (auto [value, neutral] : llvm::zip_equal(values, neutrals(reducers, types)))
      value = tail.inside(value, neutral);
    return sums.empty() ? values : combine(reducers, sums, values);
  }

  Type partialType(Type element, int64_t lanes) const override {
    return VectorType::get({lanes}, element);
  }

  /// Halves the vector until one lane is left.
  Value combineLanes(Value partial, const Reducer &reducer) override {
    int64_t lanes = cast<VectorType>(partial.getType()).getNumElements();
    while (lanes > 1) {
      lanes /= 2;
      auto half = [&](int64_t from) {
        return Term(builder, location,
                    vector::ExtractStridedSliceOp::create(
                        builder, location, partial, ArrayRef<int64_t>{from},
                        ArrayRef<int64_t>{lanes}, ArrayRef<int64_t>{1}));
      };
      partial = reducer.combine(half(0), half(lanes)).get();
    }
    return vector::ExtractOp::create(builder, location, partial, ArrayRef<int64_t>{0});
  }

  int64_t tileEdge() const override { return 16; }

  /// Perfect shuffles: interleaving vector i with vector i + n/2, log2(n) times, transposes. Of bf16 the
  /// integers that are stored (KernelModule.cpp).
  SmallVector<Value> transposeTile(ValueRange rows) override {
    int64_t edge = tileEdge();
    auto type = cast<VectorType>(rows[0].getType());
    auto moved = VectorType::get(type.getShape(), builder.getI16Type());
    auto as = [&](Type wanted, Value value) -> Value {
      return type.getElementType().isBF16()
                 ? arith::BitcastOp::create(builder, location, wanted, value).getResult()
                 : value;
    };
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < edge / 2; ++i) {
      low.append({i, i + edge});
      high.append({i + edge / 2, i + edge / 2 + edge});
    }
    SmallVector<Value> tile;
    for (Value row : rows)
      tile.push_back(as(moved, row));
    for (int64_t round = 1; round < edge; round *= 2) {
      SmallVector<Value> next;
      for (int64_t i = 0; i < edge / 2; ++i)
        for (ArrayRef<int64_t> order : {ArrayRef<int64_t>(low), ArrayRef<int64_t>(high)})
          next.push_back(
              vector::ShuffleOp::create(builder, location, tile[i], tile[i + edge / 2], order));
      tile = next;
    }
    for (Value &row : tile)
      row = as(type, row);
    return tile;
  }

  void once(llvm::function_ref<void()> body) override { body(); }

private:
  Chunk maskedChunk(Value position, Value count, int64_t lanes) {
    auto type = VectorType::get({lanes}, builder.getI1Type());
    Value mask = vector::CreateMaskOp::create(builder, location, type, ValueRange{count});
    return Chunk(builder, location, position, lanes, mask);
  }

  void forWholeChunks(Value low, Value high, int64_t lanes, ChunkBody body) {
    loop(low, high, lanes, {}, [&](Value position, ValueRange) {
      body(Chunk(builder, location, position, lanes));
      return SmallVector<Value>();
    });
  }

  void forStaticLanes(Value low, int64_t extent, int64_t lanes, ChunkBody body) {
    if (extent == 1)
      return body(Chunk(builder, location, low, 1));
    int64_t whole = extent / lanes * lanes;
    Value middle =
        whole == 0 ? low : Value(arith::AddIOp::create(builder, location, low, index(whole)));
    if (whole == lanes)
      body(Chunk(builder, location, low, lanes));
    else if (whole > 0)
      forWholeChunks(low, middle, lanes, body);
    if (extent > whole)
      body(maskedChunk(middle, index(extent - whole), lanes));
  }
};

} // namespace

std::unique_ptr<Lanes> makeHostLanes(OpBuilder &builder, Location location) {
  return std::make_unique<HostLanes>(builder, location);
}

} // namespace stow
