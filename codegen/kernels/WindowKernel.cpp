// channel_window_sum: a short sum over neighbouring channels, which read as zero outside.
#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/VectorWalk.h"
#include "ir/StowNormOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

namespace stow {

/// On a device: vectors of places of a channel, or of channels of a place, whose windows are read together.
/// Accesses of the space: y, x, and the channel number.
static void emitDeviceWindow(ChannelWindowSumOp op, KernelFrame &frame, const Space &space,
                             ArrayRef<int64_t> xStrides) {
  const Space::Dim &lane = space.dims.back();
  const Buffer &x = frame.buffers[0], &y = frame.buffers[1];
  const bool isContiguous = lane.strides[0] == 1 && lane.strides[1] == 1;
  const int64_t width =
      isContiguous ? std::gcd(std::gcd(accessLanes(y), lane.extent), stepOf(xStrides)) : 1;
  const int64_t channels = cast<RankedTensorType>(op.getX().getType()).getDimSize(1);
  OpBuilder &builder = frame.lanes.getBuilder();
  Location location = frame.lanes.getLocation();
  const IndexMath math{builder, location};
  VectorWalk walk(frame, space, {1, 0, 2}, 0); // buffer 2, which there is not: the access counts
  walk.keepInRows(width);
  walk.runAlone([&](ArrayRef<VectorSpot> spots) {
    const VectorSpot &spot = spots.front();
    const Chunk chunk = spot.chunk();
    Value at = spot.element(1), channel = spot.element(2);
    // Numbers below 0 are huge as unsigned ones.
    auto exists = [&](int64_t shift) {
      return math.isBelow(math.plus(channel, shift), math.constant(channels));
    };
    RowPieces pieces(builder, location, x, at, width,
                     [&](int64_t number) { return exists(number * width); });
    auto read = [&](int64_t shift) {
      if (lane.strides[2] != 0 && isContiguous)
        return pieces.at(llvm::to_vector(llvm::seq(shift, shift + width)));
      const Access access{math.plus(at, shift * xStrides[1]), 1, accessAlignment(x, width)};
      return chunk.loadAllWhere(exists(shift), x, access);
    };
    const int64_t before = op.getBefore(), after = op.getAfter();
    std::optional<Term> sum;
    for (int64_t shift = -before; shift <= after; ++shift) {
      Term value = chunk.term(read(shift)).widened();
      sum = sum ? *sum + value : value;
    }
    spot.store(sum->as(y.element).get(), 0);
  });
}

static LogicalResult emitWindow(Operation *operation, KernelFrame &frame) {
  auto op = cast<ChannelWindowSumOp>(operation);
  auto strides = tensorStrides(op);
  if (failed(strides))
    return failure();
  auto type = cast<RankedTensorType>(op.getX().getType());
  // Accesses: y, x, and the channel number.
  SmallVector<int64_t> channel(type.getRank(), 0);
  channel[1] = 1;
  Space space = makeSpace(type.getShape(), {(*strides)[1], (*strides)[0], channel});
  space.collapse();
  if (frame.target == KernelTarget::Device) {
    emitDeviceWindow(op, frame, space, (*strides)[0]);
    return success();
  }
  Space::Dim lane = space.takeInnermost();
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  int64_t before = op.getBefore(), after = op.getAfter(), channels = type.getDimSize(1);
  int64_t channelStride = (*strides)[0][1];

  forRows(frame, space, lane, {std::nullopt, before + after + 1}, [&](const RowPlace &place) {
    lanes.forLanes(
        place.range, lanes.chunkLanes(widestBits(frame.buffers)), [&](const Chunk &chunk) {
          Term number = chunk.term(chunk.positions({place.bases[2], lane.strides[2]}));
          std::optional<Term> sum;
          for (int64_t shift = -before; shift <= after; ++shift) {
            Term neighbour = number + number.constant(shift);
            Term exists =
                (neighbour >= number.constant(0)) & (neighbour < number.constant(channels));
            Value base = arith::AddIOp::create(builder, location, place.bases[1],
                                               lanes.index(shift * channelStride));
            Term value =
                chunk.term(chunk.loadWhere(exists.get(), frame.buffers[0], {base, lane.strides[1]}))
                    .widened();
            sum = sum ? *sum + value : value;
          }
          const Buffer &y = frame.buffers[1];
          chunk.store(sum->as(y.element).get(), y, {place.bases[0], lane.strides[0]});
        });
  });
  return success();
}

void addWindowKernels(KernelTable &table) { table.add<ChannelWindowSumOp>(emitWindow); }

} // namespace stow
