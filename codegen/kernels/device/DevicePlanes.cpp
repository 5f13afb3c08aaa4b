// Small planes on a device: through shared memory.
//
// Rows of 14 or 7 elements are no whole vectors, so that vectors along them would be short; planes of them, several
// side by side, are one piece of memory, and that is:
//
//   x     |. . . . . . .|. . . . . . .| ... |       4 planes of 7x7 f32: 784 bytes, 49 vectors
//          \_ 16 bytes _/\_ 16 bytes _/             a thread: whole vectors into shared memory
//   results  one a thread, neighbours side by side; what they read lies in different banks, but for strides
//   y     \_ 16 bytes _/                            and back by whole vectors
//
// A block takes as many planes as fill kGroupBytes, unless fewer make more blocks.
#include "codegen/kernels/device/DevicePlanes.h"

#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include "llvm/ADT/Sequence.h"

#include <numeric>

using namespace mlir;

namespace stow {

/// Shared memory of a block: eight blocks, all threads of a multiprocessor, run beside each other on
/// an A100, whose multiprocessor has 164 KiB.
static constexpr int64_t kGroupBytes = int64_t{16} << 10;
/// The most where fewer planes make no whole vectors.
static constexpr int64_t kMostBytes = int64_t{32} << 10;
/// Blocks that keep all multiprocessors of the larger chips busy.
static constexpr int64_t kFillingTasks = 512;

static int64_t product(ArrayRef<int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

int64_t PlaneTensor::plane() const { return product(shape.drop_front(2)); }

std::optional<DevicePlanes> DevicePlanes::of(ArrayRef<PlaneTensor> tensors, size_t reads) {
  for (const PlaneTensor &tensor : tensors)
    if (tensor.strides.drop_front(2) != ArrayRef(rowMajorStrides(tensor.shape)).drop_front(2))
      return std::nullopt;
  DevicePlanes planes;
  planes.tensors.assign(tensors.begin(), tensors.end());
  planes.reads = reads;
  SmallVector<SmallVector<int64_t>> accesses;
  for (const PlaneTensor &tensor : tensors)
    accesses.emplace_back(tensor.strides.take_front(2));
  planes.groups = makeSpace(tensors[0].shape.take_front(2), accesses);
  planes.groups.collapse();
  const Space::Dim &inner = planes.groups.dims.back();
  for (auto [tensor, stride] : llvm::zip_equal(tensors, inner.strides))
    if (inner.extent > 1 && stride != tensor.plane())
      return std::nullopt;
  if (!planes.chooseGroup())
    return std::nullopt;
  return planes;
}

/// Elements of a tensor that a thread moves at once, of groups of so many planes.
int64_t DevicePlanes::lanesOf(size_t tensor, int64_t planes) const {
  const Buffer &buffer = tensors[tensor].buffer;
  int64_t lanes = std::gcd(kAccessBytes, buffer.alignment) / buffer.elementBytes();
  for (const Space::Dim &outer : llvm::drop_end(groups.dims))
    lanes = std::gcd(lanes, outer.strides[tensor]);
  return std::gcd(lanes, planes * tensors[tensor].plane());
}

int64_t DevicePlanes::bytesOfPlane() const {
  int64_t bytes = 0;
  for (const PlaneTensor &tensor : tensors)
    bytes += tensor.plane() * tensor.buffer.elementBytes();
  return bytes;
}

/// Groups divide the innermost dimension, the channels or all planes.
bool DevicePlanes::chooseGroup() {
  Space::Dim &inner = groups.dims.back();
  const int64_t all = groups.elements(), bytes = bytesOfPlane();
  auto areWhole =
      [&](int64_t planes) { // what has one byte an element moves with others, four of it at once
        return llvm::all_of(llvm::seq(tensors.size()), [&](size_t i) {
          const int64_t element = tensors[i].buffer.elementBytes();
          return lanesOf(i, planes) * element >= (element == 1 ? 4 : kAccessBytes);
        });
      };
  group = 0;
  for (int64_t planes = 1; planes <= inner.extent && planes * bytes <= kMostBytes; ++planes) {
    if (inner.extent % planes != 0 || !areWhole(planes))
      continue;
    if (group == 0 || (planes * bytes <= kGroupBytes && all / planes >= kFillingTasks))
      group = planes;
  }
  if (group == 0)
    return false;
  inner.extent /= group;
  for (int64_t &stride : inner.strides)
    stride *= group;
  return true;
}

SmallVector<int64_t> DevicePlanes::sharedStrides(size_t tensor) const {
  return rowMajorStrides(tensors[tensor].shape);
}

void DevicePlanes::emit(KernelFrame &frame, Body body) {
  assert(frame.tasks == 0 && "another part of the kernel has tasks");
  OpBuilder &builder = frame.lanes.getBuilder();
  Location location = frame.lanes.getLocation();
  auto function = cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
  for (const PlaneTensor &tensor : tensors) {
    Type stored = cast<MemRefType>(tensor.buffer.memory.getType()).getElementType();
    shared.push_back({addSharedMemory(function, {group * tensor.plane()}, stored, location),
                      tensor.buffer.element, kAccessBytes});
  }
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  frame.tasks = groups.elements();
  frame.lanes.forTasks(frame.begin, frame.end, [&](Value task) {
    SmallVector<Value> bases = rowBases(frame.lanes, groups, task);
    copyIn(frame, thread, bases);
    gpu::BarrierOp::create(builder, location);
    compute(frame, thread, body);
    gpu::BarrierOp::create(builder, location);
    // The next group's planes are written to where nobody reads any more, and its results behind a barrier.
    copyOut(frame, thread, bases);
  });
}

/// Numbers below `count` that are a thread's, one a round: runs `body` with the number and, where some threads
/// have none, whether it exists.
static void forRounds(Lanes &lanes, Value thread, int64_t count,
                      llvm::function_ref<void(Value, Value)> body) {
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  for (int64_t first = 0; first < count; first += kDeviceBlock) {
    Value number = arith::AddIOp::create(builder, location, thread, lanes.index(first));
    Value exists;
    if (first + kDeviceBlock > count)
      exists = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, number,
                                     lanes.index(count));
    body(number, exists);
  }
}

/// All is asked for before the first of it is stored.
void DevicePlanes::copyIn(KernelFrame &frame, Value thread, ArrayRef<Value> bases) {
  OpBuilder &builder = frame.lanes.getBuilder();
  Location location = frame.lanes.getLocation();
  SmallVector<std::function<void()>> stores;
  for (size_t i = 0; i < reads; ++i) {
    const Buffer &from = tensors[i].buffer;
    const int64_t lanes = lanesOf(i, group);
    const Chunk chunk(builder, location, frame.lanes.index(0), lanes);
    forRounds(
        frame.lanes, thread, group * tensors[i].plane() / lanes, [&](Value number, Value exists) {
          Value at = arith::MulIOp::create(builder, location, number, frame.lanes.index(lanes));
          const Access access{arith::AddIOp::create(builder, location, bases[i], at), 1,
                              accessAlignment(from, lanes)};
          Value read = exists ? chunk.loadAllWhere(exists, from, access) : chunk.load(from, access);
          stores.push_back([=, this, &frame] {
            frame.lanes.ifHolds(exists, [&] {
              chunk.store(read, shared[i], {at, 1, accessAlignment(shared[i], lanes)});
            });
          });
        });
  }
  for (const auto &store : stores)
    store();
}

void DevicePlanes::compute(KernelFrame &frame, Value thread, const Body &body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const PlaneTensor &result = tensors[reads];
  Type number = builder.getI32Type();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(number, value));
  };
  lanes.loop(
      thread, lanes.index(group * result.plane()), kDeviceBlock, {},
      [&](Value position, ValueRange) {
        Value left = arith::IndexCastUIOp::create(builder, location, number, position);
        PlanePlace place;
        for (int64_t extent : llvm::reverse(result.shape.drop_front(2))) {
          place.at.push_back(arith::RemUIOp::create(builder, location, left, constant(extent)));
          left = arith::DivUIOp::create(builder, location, left, constant(extent));
        }
        std::reverse(place.at.begin(), place.at.end());
        for (const PlaneTensor &tensor : tensors) {
          Value base = arith::MulIOp::create(builder, location, left, constant(tensor.plane()));
          place.bases.push_back(
              arith::IndexCastUIOp::create(builder, location, builder.getIndexType(), base));
        }
        for (auto [i, value] : llvm::enumerate(body(place)))
          Chunk(builder, location, lanes.index(0), 1)
              .store(value, shared[reads + i], {position, 1});
        return SmallVector<Value>();
      });
}

void DevicePlanes::copyOut(KernelFrame &frame, Value thread, ArrayRef<Value> bases) {
  OpBuilder &builder = frame.lanes.getBuilder();
  Location location = frame.lanes.getLocation();
  for (size_t i = reads; i < tensors.size(); ++i) {
    const Buffer &to = tensors[i].buffer;
    const int64_t lanes = lanesOf(i, group);
    const Chunk chunk(builder, location, frame.lanes.index(0), lanes);
    forRounds(
        frame.lanes, thread, group * tensors[i].plane() / lanes, [&](Value number, Value exists) {
          frame.lanes.ifHolds(exists, [&] {
            Value at = arith::MulIOp::create(builder, location, number, frame.lanes.index(lanes));
            Value value = chunk.load(shared[i], {at, 1, accessAlignment(shared[i], lanes)});
            chunk.store(value, to,
                        {arith::AddIOp::create(builder, location, bases[i], at), 1,
                         accessAlignment(to, lanes)});
          });
        });
  }
}

} // namespace stow
