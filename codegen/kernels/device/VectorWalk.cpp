#include "codegen/kernels/device/VectorWalk.h"

#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {

/// Bytes that a thread asks for before it needs the first of them. With 2,048 threads of a
/// multiprocessor that is several times what an H100 has on its way at full bandwidth (some 18 KB a
/// multiprocessor at 700 ns).
static constexpr int64_t kBytesInFlight = 64;
/// Bytes that the vectors of all that is read may take where they have more than 4 lanes and are not
/// parted. Those of six f32 numbers a channel and five 16-bit tensors, 8 lanes each, are 272; ptxas
/// needs 50 registers for such a kernel and no more than 64 up to here.
static constexpr int64_t kReadBytes = 384;
/// Tasks that keep all multiprocessors of the larger chips busy; smaller tensors are not unrolled.
static constexpr int64_t kFillingTasks = 1024;

//===-- What is known beforehand --------------------------------------------------------------===//

VectorWalk::VectorWalk(KernelFrame &frame, const Space &space, ArrayRef<unsigned> buffers,
                       unsigned reads, int64_t leastLanes)
    : frame(frame), space(space), buffers(buffers), reads(reads), builder(frame.lanes.getBuilder()),
      location(frame.lanes.getLocation()) {
  number = fitsInt32() ? builder.getI32Type() : builder.getI64Type();
  chooseLanes(leastLanes);
  chooseUnroll();
}

bool VectorWalk::fitsInt32() const {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  bool fits = space.elements() + kDeviceBlock * kAccessBytes <= kLimit;
  for (size_t access = 0; access < space.offsets.size(); ++access) {
    int64_t reach = std::abs(space.offsets[access]);
    for (const Space::Dim &dim : space.dims)
      reach += (dim.extent - 1) * std::abs(dim.strides[access]);
    fits &= reach <= kLimit;
  }
  return fits;
}

/// True when one multiplication turns a position in the dimensions from `outermost` on into the access' element.
bool VectorWalk::isLinear(unsigned access, size_t outermost) const {
  for (size_t i = outermost; i + 1 < space.dims.size(); ++i)
    if (space.dims[i].strides[access] !=
        space.dims[i + 1].strides[access] * space.dims[i + 1].extent)
      return false;
  return true;
}

bool VectorWalk::isUniform(unsigned access) const {
  return space.dims.back().strides[access] == 0 && isLinear(access, reached);
}

/// True when a vector's elements lie side by side.
bool VectorWalk::isConsecutive(unsigned access) const {
  return space.dims.back().strides[access] == 1 && isLinear(access, reached);
}

int64_t VectorWalk::bytesOf(unsigned access) const {
  return frame.buffers[buffers[access]].elementBytes();
}

/// What the address of every vector is a multiple of.
int64_t VectorWalk::alignmentOf(unsigned access, int64_t parts) const {
  int64_t step = lanes / parts;
  step = std::gcd(step, space.offsets[access]);
  if (!isLinear(access))
    for (const Space::Dim &dim : ArrayRef(space.dims).take_front(reached))
      step = std::gcd(step, dim.strides[access]);
  return accessAlignment(frame.buffers[buffers[access]], step);
}

/// The innermost dimension whose end no vector reaches over: extents from it on are whole vectors.
size_t VectorWalk::reachedDim() const {
  int64_t positions = 1;
  for (size_t dim = space.dims.size(); dim-- > 1;) {
    positions *= space.dims[dim].extent;
    if (positions % lanes == 0)
      return dim;
  }
  return 0;
}

/// As many as make an access of 16 bytes to the narrowest tensor, but no more than two to the widest.
/// Bytes (masks) do not count beside others.
void VectorWalk::chooseLanes(int64_t least) {
  int64_t narrowest = 0, widest = 1, read = 0;
  const Space::Dim &lane = space.dims.back();
  for (auto [access, buffer] : llvm::enumerate(buffers)) {
    if (buffer >= frame.buffers.size() || lane.strides[access] == 0)
      continue;
    int64_t bytes = bytesOf(access);
    widest = std::max(widest, bytes);
    read += access < reads ? bytes : 0;
    if (bytes > 1)
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
  }
  lanes = std::min(kAccessBytes / std::max<int64_t>(narrowest, 1), 2 * kAccessBytes / widest);
  suiting = lanes;
  // Where many tensors are read, their registers would cost more threads than the vectors gain.
  while (lanes > 4 && lanes * read > kReadBytes)
    lanes /= 2;
  lanes = std::max(lanes, least);
  reached = reachedDim();
  while (!staysInRow() && !(lane.strides[reads] == 1 && isLinear(reads, reached))) {
    lanes /= 2;
    reached = reachedDim();
  }
}

bool VectorWalk::isWide(unsigned access) const { return bytesOf(access) > 2; }

/// What is read of a part, and whole, is to fit where the vectors of all that is read did not.
int64_t VectorWalk::inParts() {
  const Space::Dim &lane = space.dims.back();
  if (suiting <= lanes || lane.extent % suiting != 0)
    return 1;
  int64_t whole = 0, wide = 0;
  for (unsigned access = 0; access < buffers.size(); ++access) {
    if (buffers[access] >= frame.buffers.size() || lane.strides[access] == 0)
      continue;
    if (lane.strides[access] != 1)
      return 1;
    if (access < reads)
      (isWide(access) ? wide : whole) += bytesOf(access);
  }
  int64_t parts = 2;
  while (2 * parts < suiting && suiting * whole + suiting / parts * wide > kReadBytes)
    parts *= 2;
  keepInRows(suiting);
  return parts;
}

void VectorWalk::chooseUnroll() {
  int64_t loaded = 1;
  for (unsigned access = 0; access < reads; ++access)
    if (!isUniform(access))
      loaded += lanes * bytesOf(access) * (isConsecutive(access) ? 1 : 2);
  while (unroll < 4 && 2 * unroll * loaded <= kBytesInFlight + kAccessBytes &&
         space.elements() / (lanes * kDeviceBlock * unroll * 2) >= kFillingTasks)
    unroll *= 2;
}

void VectorWalk::keepInRows(int64_t lanes) {
  assert(space.dims.back().extent % lanes == 0 && "rows are whole vectors");
  this->lanes = lanes;
  unroll = 1;
  reached = space.dims.size() - 1;
}

//===-- Tasks ---------------------------------------------------------------------------------===//

Value VectorWalk::constant(int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(number, value));
}

Value VectorWalk::toIndex(Value value) const {
  return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(), value);
}

Value VectorWalk::toNumber(Value index) const {
  return arith::IndexCastUIOp::create(builder, location, number, index);
}

void VectorWalk::run(Body body) { emitParts(body); }

void VectorWalk::runAlone(Body body) {
  assert(frame.tasks == 0 && "another part of the kernel has tasks");
  isAlone = true;
  emitParts(body);
}

/// Three parts: tasks of whole vectors without a check, vectors that are left, elements that are left.
void VectorWalk::emitParts(Body body) {
  int64_t vectors = space.elements() / lanes, perTask = kDeviceBlock * unroll;
  int64_t whole = vectors / perTask, leftVectors = vectors - whole * perTask;
  int64_t leftElements = space.elements() - vectors * lanes;
  Value thread = toNumber(gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x));
  auto plus = [&](Value a, int64_t b) -> Value {
    return b == 0 ? a : Value(arith::AddIOp::create(builder, location, a, constant(b)));
  };
  auto times = [&](Value a, int64_t b) -> Value {
    return b == 1 ? a : Value(arith::MulIOp::create(builder, location, a, constant(b)));
  };
  auto part = [&](int64_t tasks, int64_t perTask, llvm::function_ref<void(Value)> run) {
    if (tasks == 0)
      return;
    const bool isAll = isAlone && tasks * perTask * lanes == space.elements();
    auto [begin, end] = isAll ? std::pair(frame.begin, frame.end) : taskRange(frame, tasks);
    if (isAll)
      frame.tasks = tasks;
    frame.lanes.forTasks(begin, end, [&](Value task) {
      run(arith::AddIOp::create(builder, location, times(toNumber(task), perTask), thread));
    });
  };
  // Numbers of a part count from 0; `first` is the position of number 0, `size` that of one of them.
  auto checked = [&](int64_t first, int64_t count, int64_t size) {
    part((count + kDeviceBlock - 1) / kDeviceBlock, kDeviceBlock, [&](Value item) {
      Value exists = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, item,
                                           constant(count));
      frame.lanes.ifHolds(exists,
                          [&] { body(VectorSpot(*this, plus(times(item, size), first), size)); });
    });
  };
  part(whole, perTask, [&](Value vector) {
    SmallVector<VectorSpot> spots;
    for (int64_t i = 0; i < unroll; ++i)
      spots.emplace_back(*this, times(plus(vector, i * kDeviceBlock), lanes), lanes);
    body(spots);
  });
  checked(whole * perTask * lanes, leftVectors, lanes);
  checked(vectors * lanes, leftElements, 1);
}

//===-- Spots ---------------------------------------------------------------------------------===//

Chunk VectorSpot::chunk(int64_t parts) const {
  return Chunk(walk.builder, walk.location, walk.frame.lanes.index(0), lanes / parts);
}

/// Coordinate of the position `lane` lanes further.
Value VectorSpot::coordinate(size_t dim, int64_t lane) const {
  Value &known = coordinates[{static_cast<unsigned>(dim), static_cast<unsigned>(lane)}];
  if (known)
    return known;
  OpBuilder &builder = walk.builder;
  Value at = position;
  if (lane > 0)
    at = arith::AddIOp::create(builder, walk.location, at, walk.constant(lane));
  int64_t inner = 1;
  for (const Space::Dim &after : llvm::drop_begin(walk.space.dims, dim + 1))
    inner *= after.extent;
  if (inner > 1)
    at = arith::DivUIOp::create(builder, walk.location, at, walk.constant(inner));
  if (dim > 0)
    at = arith::RemUIOp::create(builder, walk.location, at,
                                walk.constant(walk.space.dims[dim].extent));
  return known = at;
}

/// Element number of `access` in `lane`.
Value VectorSpot::elementOf(unsigned access, int64_t lane) const {
  OpBuilder &builder = walk.builder;
  Location location = walk.location;
  const Space &space = walk.space;
  Value element = walk.constant(space.offsets[access]);
  auto add = [&](Value count, int64_t stride) {
    if (stride == 0)
      return;
    if (stride != 1)
      count = arith::MulIOp::create(builder, location, count, walk.constant(stride));
    element = arith::AddIOp::create(builder, location, element, count);
  };
  int64_t laneStride = space.dims.back().strides[access];
  bool fromFirst = lane > 0 && walk.isLinear(access, walk.reached);
  if (walk.isLinear(access))
    add(position, laneStride);
  else
    for (size_t dim = 0; dim < space.dims.size(); ++dim)
      if (space.dims[dim].strides[access] != 0)
        add(coordinate(dim, fromFirst ? 0 : lane), space.dims[dim].strides[access]);
  if (fromFirst && laneStride != 0)
    add(walk.constant(lane), laneStride);
  return element;
}

Value VectorSpot::eachLane(llvm::function_ref<Value(int64_t)> element) const {
  SmallVector<Value> values;
  for (int64_t lane = 0; lane < lanes; ++lane)
    values.push_back(element(lane));
  if (lanes == 1)
    return values.front();
  auto type = VectorType::get({lanes}, values.front().getType());
  return vector::FromElementsOp::create(walk.builder, walk.location, type, values);
}

Value VectorSpot::loadUniform(unsigned access) const {
  Chunk one(walk.builder, walk.location, walk.frame.lanes.index(0), 1);
  return one.load(walk.frame.buffers[walk.buffers[access]],
                  {walk.toIndex(elementOf(access, 0)), 0});
}

Value VectorSpot::load(unsigned access) const {
  const Buffer &buffer = walk.frame.buffers[walk.buffers[access]];
  if (walk.isUniform(access))
    return chunk().widen(loadUniform(access));
  if (lanes > 1 && walk.isConsecutive(access))
    return chunk().load(buffer, {walk.toIndex(elementOf(access, 0)), 1, walk.alignmentOf(access)});
  if (walk.space.dims.back().strides[access] == 0 && lanes <= walk.space.dims.back().extent)
    return loadOfRows(access);
  Chunk one(walk.builder, walk.location, walk.frame.lanes.index(0), 1);
  return eachLane(
      [&](int64_t lane) { return one.load(buffer, {walk.toIndex(elementOf(access, lane)), 0}); });
}

/// One element a row, of which a vector meets two at most.
Value VectorSpot::loadOfRows(unsigned access) const {
  OpBuilder &builder = walk.builder;
  Location location = walk.location;
  const Buffer &buffer = walk.frame.buffers[walk.buffers[access]];
  Chunk one(builder, location, walk.frame.lanes.index(0), 1);
  auto ofLane = [&](int64_t lane) {
    return one.load(buffer, {walk.toIndex(elementOf(access, lane)), 0});
  };
  Value first = ofLane(0), last = ofLane(lanes - 1);
  const size_t innermost = walk.space.dims.size() - 1;
  Value begin = coordinate(innermost, 0);
  return eachLane([&](int64_t lane) {
    if (lane == 0 || lane + 1 == lanes)
      return lane == 0 ? first : last;
    Value isNext = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::uge, begin,
                                         walk.constant(walk.space.dims[innermost].extent - lane));
    return arith::SelectOp::create(builder, location, isNext, last, first).getResult();
  });
}

void VectorSpot::store(Value value, unsigned access) const {
  const Buffer &buffer = walk.frame.buffers[walk.buffers[access]];
  value = chunk().widen(value);
  if (lanes > 1 && walk.isConsecutive(access))
    return chunk().store(value, buffer,
                         {walk.toIndex(elementOf(access, 0)), 1, walk.alignmentOf(access)});
  Chunk one(walk.builder, walk.location, walk.frame.lanes.index(0), 1);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value part = laneOf(walk.builder, walk.location, value, lane);
    one.store(part, buffer, {walk.toIndex(elementOf(access, lane)), 0});
  }
}

Value VectorSpot::loadPart(unsigned access, int64_t number, int64_t parts) const {
  const int64_t count = lanes / parts;
  return chunk(parts).load(
      walk.frame.buffers[walk.buffers[access]],
      {walk.toIndex(elementOf(access, number * count)), 1, walk.alignmentOf(access, parts)});
}

void VectorSpot::storePart(Value value, unsigned access, int64_t number, int64_t parts) const {
  const int64_t count = lanes / parts;
  chunk(parts).store(
      value, walk.frame.buffers[walk.buffers[access]],
      {walk.toIndex(elementOf(access, number * count)), 1, walk.alignmentOf(access, parts)});
}

/// The byte of a packed mask that has the element's bit.
Value VectorSpot::byteOf(const Buffer &buffer, Value element) const {
  Chunk one(walk.builder, walk.location, walk.frame.lanes.index(0), 1);
  Value byte = arith::ShRUIOp::create(walk.builder, walk.location, element, walk.constant(3));
  return one.load(buffer, {walk.toIndex(byte), 0});
}

Value VectorSpot::loadBits(unsigned access) const {
  OpBuilder &builder = walk.builder;
  Location location = walk.location;
  const Buffer &buffer = walk.frame.buffers[walk.buffers[access]];
  // Vectors that begin at a multiple of their length, up to 8, do not reach over the end of a byte.
  const bool inOneByte =
      lanes <= 8 && walk.isConsecutive(access) && walk.alignmentOf(access) % lanes == 0;
  Value first = elementOf(access, 0), byte = inOneByte ? byteOf(buffer, first) : Value();
  return eachLane([&](int64_t lane) {
    Value element = elementOf(access, lane);
    Value shift = arith::TruncIOp::create(
        builder, location, builder.getI8Type(),
        arith::AndIOp::create(builder, location, element, walk.constant(7)));
    Value bit = arith::ShRUIOp::create(builder, location,
                                       inOneByte ? byte : byteOf(buffer, element), shift);
    return arith::TruncIOp::create(builder, location, builder.getI1Type(), bit).getResult();
  });
}

void VectorSpot::storeBits(Value value, unsigned access) const {
  assert(lanes == 8 && walk.isConsecutive(access) && "a byte is written whole");
  OpBuilder &builder = walk.builder;
  Location location = walk.location;
  Type type = builder.getI8Type();
  value = chunk().widen(value);
  Value byte;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value bit =
        arith::ExtUIOp::create(builder, location, type, laneOf(builder, location, value, lane));
    bit = arith::ShLIOp::create(
        builder, location, bit,
        arith::ConstantOp::create(builder, location, builder.getI8IntegerAttr(lane)));
    byte = byte ? Value(arith::OrIOp::create(builder, location, byte, bit)) : bit;
  }
  Chunk one(builder, location, walk.frame.lanes.index(0), 1);
  Value at = arith::ShRUIOp::create(builder, location, elementOf(access, 0), walk.constant(3));
  one.store(byte, walk.frame.buffers[walk.buffers[access]], {walk.toIndex(at), 0});
}

Value VectorSpot::element(unsigned access) const { return walk.toIndex(elementOf(access, 0)); }

Value VectorSpot::elements(unsigned access) const {
  Type wide = walk.builder.getI64Type();
  return eachLane([&](int64_t lane) {
    return arith::IndexCastOp::create(walk.builder, walk.location, wide,
                                      walk.toIndex(elementOf(access, lane)))
        .getResult();
  });
}

} // namespace stow
