// channel_window_sum: a short sum over neighbouring channels, which read as zero outside.
#include "codegen/kernels/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace stow {

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
