#include "codegen/kernels/device/DeviceCells.h"

#include "codegen/kernels/device/DeviceVectors.h"
#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {

TeamCells::TeamCells(KernelFrame &frame, const Space &axis, const Team &team, TeamPlace given)
    : frame(frame), axis(axis), team(team), place(std::move(given)), lanes(frame.lanes),
      builder(lanes.getBuilder()), location(lanes.getLocation()), math{builder, location},
      firstPiece(findFirst()), caches(team.keeps ? team.ofMember(team.vectors) : 0),
      edgeCaches(team.keeps ? team.ofMember(team.edges) : 0) {}

Value TeamCells::findFirst() {
  if (team.parts == 1)
    return place.member;
  Value before = arith::MulIOp::create(builder, location, place.part, lanes.index(team.members));
  return arith::AddIOp::create(builder, location, before, place.member);
}

int64_t TeamCells::alignmentOf(const Portions &pieces, unsigned access) const {
  int64_t step = std::gcd(pieces.lanes, axis.offsets[access]);
  for (const Space::Dim &dim : place.others)
    step = std::gcd(step, dim.strides[access] - (team.hasEdges() ? dim.strides.back() : 0));
  return accessAlignment(frame.buffers[access], step);
}

Value TeamCells::quotient(Value value, int64_t by) {
  return by == 1 ? value
                 : narrow(
                       value,
                       [&](Value narrowed, Value divisor) {
                         return arith::DivUIOp::create(builder, location, narrowed, divisor);
                       },
                       by);
}
Value TeamCells::remainder(Value value, int64_t by) {
  return narrow(
      value,
      [&](Value narrowed, Value divisor) {
        return arith::RemUIOp::create(builder, location, narrowed, divisor);
      },
      by);
}
/// Divisions of 32 bits take a fraction of those of 64.
Value TeamCells::narrow(Value value, llvm::function_ref<Value(Value, Value)> divide, int64_t by) {
  bool fits = axis.elements() <= std::numeric_limits<int32_t>::max();
  Type type = fits ? builder.getI32Type() : builder.getI64Type();
  Value divisor = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, by));
  Value narrowed = arith::IndexCastUIOp::create(builder, location, type, value);
  return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(),
                                      divide(narrowed, divisor));
}

SmallVector<Portions, 2> TeamCells::piecesOfRow() const {
  return team.hasEdges() ? SmallVector<Portions, 2>{team.vectors, team.edges}
                         : SmallVector<Portions, 2>{team.vectors};
}
/// Where the vectors of a contiguous part begin, which counts from `begin` in a tensor without gaps, and how
/// many there are.
std::pair<Value, Value> TeamCells::vectorsFrom(Value begin) {
  const int64_t size = team.vectors.lanes;
  Value before = arith::AndIOp::create(
      builder, location, arith::SubIOp::create(builder, location, lanes.index(0), begin),
      lanes.index(size - 1));
  Value after =
      arith::SubIOp::create(builder, location, lanes.index(axis.dims.back().extent), before);
  return {before, arith::ShRUIOp::create(builder, location, after,
                                         lanes.index(llvm::Log2_64(static_cast<uint64_t>(size))))};
}

Value TeamCells::end(const Portions &pieces) {
  if (team.hasEdges() && !pieces.areEdges && isOneRun())
    return vectorsFrom(place.bases.back()).second;
  return lanes.index(pieces.count);
}

void TeamCells::withPiece(const Portions &pieces, Value number, Value active, CellCache *cache,
                          PieceCell body) {
  SmallVector<Value> at(place.bases);
  const int64_t rank = axis.dims.size();
  Value innermost = number;
  int64_t inner = 1;
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    const int64_t extent = team.along && dim == rank - 1 ? pieces.ofRun : axis.dims[dim].extent;
    Value coordinate = quotient(number, inner);
    if (dim > 0)
      coordinate = remainder(coordinate, extent);
    inner *= extent;
    if (dim == rank - 1)
      innermost = coordinate;
    if (dim == rank - 1 && team.along)
      continue; // the chunk's own
    for (auto [base, stride] : llvm::zip_equal(at, axis.dims[dim].strides))
      if (stride != 0)
        base = arith::AddIOp::create(
            builder, location, base,
            arith::MulIOp::create(builder, location, coordinate, lanes.index(stride)));
  }
  if (team.along && pieces.lanes != 1)
    innermost = arith::MulIOp::create(builder, location, innermost, lanes.index(pieces.lanes));
  if (team.hasEdges()) {
    auto [before, count] = vectorsFrom(at.pop_back_val());
    std::tie(innermost, active) = placed(pieces, innermost, before, count, active);
  }
  SmallVector<Access> accesses;
  for (auto [access, base] : llvm::enumerate(at))
    accesses.push_back({base,
                        team.along ? axis.dims.back().strides[access] : place.laneStrides[access],
                        alignmentOf(pieces, access)});
  Chunk chunk(builder, location, team.along ? innermost : place.column, pieces.lanes);
  Chunk axisChunk(builder, location, innermost, team.along ? pieces.lanes : 1);
  body(Cell(chunk, frame.buffers, accesses, axisChunk.positions({lanes.index(0), 1}),
            {cache, joined(active, place.exists)}),
       active);
}

/// Position of a piece of a row with edges, which would be at `position` if its kind were alone, and whether
/// it exists: `count` vectors begin behind `before` elements.
std::pair<Value, Value> TeamCells::placed(const Portions &pieces, Value position, Value before,
                                          Value count, Value active) {
  const int64_t size = team.vectors.lanes, extent = axis.dims.back().extent;
  Value ofVectors = arith::MulIOp::create(builder, location, count, lanes.index(size));
  if (!pieces.areEdges) {
    Value exists;
    if (!isOneRun() && team.certain < pieces.ofRun)
      exists =
          arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, position, ofVectors);
    return {arith::AddIOp::create(builder, location, position, before), joined(active, exists)};
  }
  Value isBefore =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, position, before);
  Value behind = arith::AddIOp::create(builder, location, position, ofVectors);
  position = arith::SelectOp::create(builder, location, isBefore, position, behind);
  return {position, joined(active, math.isBelow(position, lanes.index(extent)))};
}

Value TeamCells::joined(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, location, a, b);
}

void TeamCells::withNumber(const Portions &pieces, int64_t i, PieceCell body) {
  Value number = firstPiece, active;
  if (i > 0)
    number = arith::AddIOp::create(builder, location, number, lanes.index(i * team.stride()));
  const bool varies = team.hasEdges() && isOneRun() && !pieces.areEdges;
  if ((i + 1) * team.stride() > (varies ? team.certain : pieces.count))
    active = math.isBelow(number, end(pieces));
  CellCache *cache = !team.keeps ? nullptr : pieces.areEdges ? &edgeCaches[i] : &caches[i];
  withPiece(pieces, number, active, cache, body);
}

} // namespace stow
