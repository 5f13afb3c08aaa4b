// Folded rows on a device.
//
// A team of threads folds a row. Along rows (the axis is contiguous) the team is a warp, the block where
// rows are long or few, or part of a warp where they are short, and a thread reads vectors of up to 16 bytes:
//
//   row     |<- t0 ->|<- t1 ->| ... |<- t31 ->|<- t0 ->|<- t1 ->| ...
//
// Rows of any length begin anywhere. Their vectors begin where the tensor's do, as if it had no gaps, and
// what lies before the first and behind the last are edges, dealt to threads in pieces of their own:
//
//   tensor  |0 1 2 3|4 5 6 7|8 9 . .|. . . .|. . . .|      rows of 10, vectors of 4
//   row 0   |<-t0-->|<-t1-->|t0|t1|
//   row 1                   .   .|t0|t1|<-t0-->|<-t1-->|   pieces of 2: rows begin at multiples of that
//
// So the order of a row's sum follows from extents and the row's number. A tensor with gaps whose rows begin
// elsewhere is read in smaller pieces, in the same order.
//
// Across rows (each lane is a row, the axis is walked) a block takes some columns and deals the axis'
// positions to groups of its threads:
//
//   position 0   |g0 t0|g0 t1| ... |g0 t7|     columns ->
//   position 1   |g1 t8|g1 t9| ... |g1 t15|
//
// What a thread reads of a row stays in registers where it fits: then a row is read once, however
// often it is folded. A thread always takes the same positions of a row, so what it wrote it may
// read again without a barrier. Every fold associates in an order that static extents decide: within
// threads, by shuffles over the warp, then over warps or groups.
//
// Where a fold is done in parts (FoldParts.h), several teams share a row as one team of as many threads
// would, and each leaves what it has found in the op's workspace:
//
//   row     |<- part 0 t0..t255 ->|<- part 1 t0..t255 ->|<- part 0 t0..t255 ->| ...
#include "codegen/kernels/DeviceRows.h"

#include "codegen/kernels/DeviceTeams.h"
#include "codegen/kernels/DeviceVectors.h"
#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Vectors that a thread asks for before it needs the first, of rows that it cannot keep.
constexpr int64_t kUnroll = 4;

/// Registers of a thread where two blocks share a multiprocessor.
constexpr int32_t kRegisters = 128;

gpu::GPUFuncOp functionOf(const KernelFrame &frame) {
  return cast<gpu::GPUFuncOp>(cast<BlockArgument>(frame.begin).getOwner()->getParentOp());
}

/// One row, or `lanes` rows side by side, as the threads of a team see it.
class DeviceRow final : public Row {
public:
  /// Where a thread stands: its number in the team, the row's first elements, and the lane axis when
  /// it runs across rows.
  struct Place {
    Value member;
    Value part; ///< of the row's parts
    Value row;  ///< number of the row; across rows of that of column 0
    SmallVector<Value> bases;
    Value column; ///< position on the lane axis; null along rows
    Value exists; ///< i1: false for threads beyond the last column; null: all exist
    SmallVector<int64_t> laneStrides; ///< across rows
    SmallVector<Space::Dim> others;   ///< along rows: what moves accesses beside the innermost axis
  };

  DeviceRow(KernelFrame &frame, const Space &axis, const Team &team, Place place)
      : Row(frame.lanes), frame(frame), axis(axis), team(team), place(std::move(place)),
        builder(frame.lanes.getBuilder()), location(frame.lanes.getLocation()),
        math{builder, location}, firstPiece(firstPieceOf(this->place)),
        caches(team.keeps ? team.ofMember(team.vectors) : 0),
        edgeCaches(team.keeps ? team.ofMember(team.edges) : 0) {}

  SmallVector<Value> fold(ArrayRef<Reducer> reducers, CellFold body) override {
    if (frame.stage)
      return foldInParts(reducers, body);
    return joined(foldCells(reducers, body), reducers);
  }

  void each(llvm::function_ref<void(const Cell &)> body) override {
    if (frame.stage)
      llvm::report_fatal_error("a row that is folded in parts is walked again");
    for (const Portions &pieces : piecesOfRow()) {
      if (isWrittenOut(pieces)) {
        for (int64_t i = 0; i < team.ofMember(pieces); ++i)
          withNumber(pieces, i, [&](const Cell &cell, Value) { body(cell); });
        continue;
      }
      lanes.loop(firstPiece, end(pieces), team.stride(), {}, [&](Value number, ValueRange) {
        withPiece(pieces, number, {}, nullptr, [&](const Cell &cell, Value) { body(cell); });
        return SmallVector<Value>();
      });
    }
  }

  Exponentials exponentials(unsigned access, Type element) override {
    if (team.keeps || frame.stage || !team.along)
      return Row::exponentials(access, element);
    return exponentialsOfLongRow(access, element);
  }

  Term load(unsigned access) override {
    Chunk chunk = rowChunk();
    return chunk.term(chunk.load(frame.buffers[access], rowAccess(access))).widened();
  }

  Term loadAt(unsigned access, Term position, Term exists) override {
    return elementAt(rowChunk(), frame.buffers[access], rowAccess(access),
                     axis.dims.back().strides[access], position, exists);
  }

  void store(Term value, unsigned access) override {
    if (frame.stage && !frame.stage->isLast())
      return;
    onFirst([&] {
      const Buffer &buffer = frame.buffers[access];
      rowChunk().store(value.as(buffer.element).get(), buffer, rowAccess(access));
    });
  }

  /// To be called behind the last use of the row: the next row's first fold writes where this one's
  /// only fold read.
  void finish() {
    if (foldsOfWarps == 1)
      gpu::BarrierOp::create(builder, location);
  }

private:
  /// `active` is null or says whether the cell exists.
  using PieceCell = llvm::function_ref<void(const Cell &, Value active)>;

  /// Runs `body` in one thread of the team, for all rows side by side that there are.
  void onFirst(llvm::function_ref<void()> body) {
    Value first = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, place.member,
                                        lanes.index(0));
    if (place.exists)
      first = arith::AndIOp::create(builder, location, first, place.exists);
    lanes.ifHolds(first, body);
  }

  Value firstPieceOf(const Place &place) {
    if (team.parts == 1)
      return place.member;
    Value before = arith::MulIOp::create(builder, location, place.part, lanes.index(team.members));
    return arith::AddIOp::create(builder, location, before, place.member);
  }

  Type typeOf(const Portions &pieces, Type element) const {
    return pieces.lanes == 1 ? element : Type(VectorType::get({pieces.lanes}, element));
  }

  /// A row's own numbers: one along, one per lane across.
  Chunk rowChunk() const {
    return team.along ? Chunk(builder, location, lanes.index(0), 1)
                      : Chunk(builder, location, place.column, team.vectors.lanes);
  }
  Access rowAccess(unsigned access) const {
    if (team.along)
      return {place.bases[access], 0};
    return {place.bases[access], place.laneStrides[access], alignmentOf(team.vectors, access)};
  }

  /// What a piece's elements of an access begin at a multiple of. Pieces begin where the tensor's would if it
  /// had no gaps, whose access is the last.
  int64_t alignmentOf(const Portions &pieces, unsigned access) const {
    int64_t step = std::gcd(pieces.lanes, axis.offsets[access]);
    for (const Space::Dim &dim : place.others)
      step = std::gcd(step, dim.strides[access] - (team.hasEdges() ? dim.strides.back() : 0));
    return accessAlignment(frame.buffers[access], step);
  }

  //===-- Cells -----------------------------------------------------------------------------===//

  Value quotient(Value value, int64_t by) {
    return by == 1 ? value
                   : narrow(
                         value,
                         [&](Value narrowed, Value divisor) {
                           return arith::DivUIOp::create(builder, location, narrowed, divisor);
                         },
                         by);
  }
  Value remainder(Value value, int64_t by) {
    return narrow(
        value,
        [&](Value narrowed, Value divisor) {
          return arith::RemUIOp::create(builder, location, narrowed, divisor);
        },
        by);
  }
  /// Divisions of 32 bits take a fraction of those of 64.
  Value narrow(Value value, llvm::function_ref<Value(Value, Value)> divide, int64_t by) {
    bool fits = axis.elements() <= std::numeric_limits<int32_t>::max();
    Type type = fits ? builder.getI32Type() : builder.getI64Type();
    Value divisor = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, by));
    Value narrowed = arith::IndexCastUIOp::create(builder, location, type, value);
    return arith::IndexCastUIOp::create(builder, location, builder.getIndexType(),
                                        divide(narrowed, divisor));
  }

  /// Vectors, and edges where there are any.
  SmallVector<Portions, 2> piecesOfRow() const {
    return team.hasEdges() ? SmallVector<Portions, 2>{team.vectors, team.edges}
                           : SmallVector<Portions, 2>{team.vectors};
  }
  /// Whether a thread's pieces are emitted one by one, which needs no loop.
  bool isWrittenOut(const Portions &pieces) const {
    return team.keeps || (pieces.areEdges && team.ofMember(pieces) == 1);
  }
  /// Whether the axis is one contiguous row, of which all that depends on where it begins is known once.
  bool isOneRun() const { return axis.dims.size() == 1; }

  /// Where the vectors of a contiguous part begin, which counts from `begin` in a tensor without gaps, and how
  /// many there are.
  std::pair<Value, Value> vectorsFrom(Value begin) {
    const int64_t size = team.vectors.lanes;
    Value before = arith::AndIOp::create(
        builder, location, arith::SubIOp::create(builder, location, lanes.index(0), begin),
        lanes.index(size - 1));
    Value after =
        arith::SubIOp::create(builder, location, lanes.index(axis.dims.back().extent), before);
    return {before,
            arith::ShRUIOp::create(builder, location, after,
                                   lanes.index(llvm::Log2_64(static_cast<uint64_t>(size))))};
  }

  /// The number behind the last of a row's pieces.
  Value end(const Portions &pieces) {
    if (team.hasEdges() && !pieces.areEdges && isOneRun())
      return vectorsFrom(place.bases.back()).second;
    return lanes.index(pieces.count);
  }

  /// Runs `body` at piece `number` of the axis; `active` is null or says whether it may exist.
  void withPiece(const Portions &pieces, Value number, Value active, CellCache *cache,
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
  std::pair<Value, Value> placed(const Portions &pieces, Value position, Value before, Value count,
                                 Value active) {
    const int64_t size = team.vectors.lanes, extent = axis.dims.back().extent;
    Value ofVectors = arith::MulIOp::create(builder, location, count, lanes.index(size));
    if (!pieces.areEdges) {
      Value exists;
      if (!isOneRun() && team.certain < pieces.ofRun)
        exists = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, position,
                                       ofVectors);
      return {arith::AddIOp::create(builder, location, position, before), joined(active, exists)};
    }
    Value isBefore =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, position, before);
    Value behind = arith::AddIOp::create(builder, location, position, ofVectors);
    position = arith::SelectOp::create(builder, location, isBefore, position, behind);
    return {position, joined(active, math.isBelow(position, lanes.index(extent)))};
  }

  Value joined(Value a, Value b) {
    if (!a || !b)
      return a ? a : b;
    return arith::AndIOp::create(builder, location, a, b);
  }

  /// Number `i` of this thread's pieces; nothing is read or written where it is beyond the end.
  void withNumber(const Portions &pieces, int64_t i, PieceCell body) {
    Value number = firstPiece, active;
    if (i > 0)
      number = arith::AddIOp::create(builder, location, number, lanes.index(i * team.stride()));
    const bool varies = team.hasEdges() && isOneRun() && !pieces.areEdges;
    if ((i + 1) * team.stride() > (varies ? team.certain : pieces.count))
      active = math.isBelow(number, end(pieces));
    CellCache *cache = !team.keeps ? nullptr : pieces.areEdges ? &edgeCaches[i] : &caches[i];
    withPiece(pieces, number, active, cache, body);
  }

  //===-- Folds -----------------------------------------------------------------------------===//

  /// What each thread finds in its cells.
  SmallVector<Value> foldCells(ArrayRef<Reducer> reducers, CellFold body) {
    SmallVector<Value> found;
    for (const Portions &pieces : piecesOfRow()) {
      SmallVector<Type> types;
      for (const Reducer &reducer : reducers)
        types.push_back(typeOf(pieces, reducer.element));
      auto partial = isWrittenOut(pieces) ? foldNumbers(pieces, reducers, types, body)
                                          : foldLoop(pieces, reducers, types, body);
      if (team.along && pieces.lanes > 1)
        for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
          value = foldVector(value, reducer);
      found = found.empty() ? partial : lanes.combine(reducers, found, partial);
    }
    return found;
  }

  /// Joins what the threads of the team have found.
  SmallVector<Value> joined(SmallVector<Value> partial, ArrayRef<Reducer> reducers) {
    if (team.along)
      for (auto [value, reducer] : llvm::zip_equal(partial, reducers))
        value = foldOver(value, std::min(team.members, kWarp), reducer);
    if (team.members <= (team.along ? kWarp : 1))
      return partial;
    return team.along ? foldWarps(partial, reducers) : foldGroups(partial, reducers);
  }

  //===-- Folds in parts --------------------------------------------------------------------===//

  /// The fold whose parts this kernel computes goes to the workspace; those before it are joined from
  /// there. Nobody uses what is behind it.
  SmallVector<Value> foldInParts(ArrayRef<Reducer> reducers, CellFold body) {
    FoldStage &stage = *frame.stage;
    const int64_t fold = stage.foundFolds++, value = stage.foundValues;
    stage.foundValues += static_cast<int64_t>(reducers.size());
    if (fold < stage.number)
      return joined(readParts(reducers, value), reducers);
    if (fold > stage.number) {
      SmallVector<Type> types;
      for (const Reducer &reducer : reducers)
        types.push_back(team.along ? reducer.element : typeOf(team.vectors, reducer.element));
      return lanes.neutrals(reducers, types);
    }
    SmallVector<Value> found = joined(foldCells(reducers, body), reducers);
    onFirst([&] {
      for (auto [i, result] : llvm::enumerate(found))
        rowChunk().store(result, stage.scratch, partAccess(value + i, place.part));
    });
    return found;
  }

  /// Of value `value` and those behind it what the parts that are a thread's share have found.
  SmallVector<Value> readParts(ArrayRef<Reducer> reducers, int64_t value) {
    const int64_t parts = frame.stage->parts.parts;
    SmallVector<Value> shares;
    for (int64_t first = 0; first < parts; first += team.members) {
      Value part = arith::AddIOp::create(builder, location, place.member, lanes.index(first));
      Value active;
      if (first + team.members > parts) {
        active = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, part,
                                       lanes.index(parts));
        part = arith::MinUIOp::create(builder, location, part, lanes.index(parts - 1));
      }
      SmallVector<Value> found;
      for (auto [i, reducer] : llvm::enumerate(reducers)) {
        Value read = rowChunk().load(frame.stage->scratch, partAccess(value + i, part));
        if (active)
          read = arith::SelectOp::create(builder, location, active, read,
                                         lanes.neutrals(reducer, read.getType()).front());
        found.push_back(read);
      }
      shares = first == 0 ? found : lanes.combine(reducers, shares, found);
    }
    return shares;
  }

  /// The row's, or rows', element of the workspace for a value and a part.
  Access partAccess(int64_t value, Value part) {
    const FoldParts &shape = frame.stage->parts;
    Value line = arith::AddIOp::create(builder, location, part, lanes.index(value * shape.parts));
    Value base = arith::AddIOp::create(
        builder, location, arith::MulIOp::create(builder, location, line, lanes.index(shape.rows)),
        place.row);
    return team.along ? Access{base, 0}
                      : Access{base, 1, std::min<int64_t>(kAccessBytes, 4 * team.vectors.lanes)};
  }

  //===-- Folds of a thread and of a team ---------------------------------------------------===//

  /// What a cell adds to a fold: nothing where it does not exist.
  SmallVector<Value> raw(const Portions &pieces, ArrayRef<Term> terms, Value active,
                         ArrayRef<Reducer> reducers, ArrayRef<Type> types) {
    Chunk chunk(builder, location, lanes.index(0), pieces.lanes);
    SmallVector<Value> values;
    for (const Term &term : terms)
      values.push_back(chunk.widen(term.get()));
    if (active)
      for (auto [value, neutral] : llvm::zip_equal(values, lanes.neutrals(reducers, types)))
        value = arith::SelectOp::create(builder, location, active, value, neutral);
    return values;
  }

  SmallVector<Value> foldNumbers(const Portions &pieces, ArrayRef<Reducer> reducers,
                                 ArrayRef<Type> types, CellFold body) {
    SmallVector<Value> sums;
    for (int64_t i = 0; i < team.ofMember(pieces); ++i)
      withNumber(pieces, i, [&](const Cell &cell, Value active) {
        auto values = raw(pieces, body(cell), active, reducers, types);
        sums = i == 0 ? values : lanes.combine(reducers, sums, values);
      });
    return sums;
  }

  SmallVector<Value> foldLoop(const Portions &pieces, ArrayRef<Reducer> reducers,
                              ArrayRef<Type> types, CellFold body) {
    size_t count = reducers.size();
    const int64_t all = team.hasEdges() && isOneRun() ? team.certain : pieces.count;
    int64_t round = kUnroll * team.stride(), whole = all / round * round;
    SmallVector<Value> sums;
    for (int64_t i = 0; i < kUnroll; ++i)
      llvm::append_range(sums, lanes.neutrals(reducers, types));
    auto add = [&](Value number, SmallVector<Value> &all, int64_t accumulator) {
      withPiece(pieces, number, {}, nullptr, [&](const Cell &cell, Value active) {
        auto joined = lanes.combine(reducers, ValueRange(all).slice(accumulator * count, count),
                                    raw(pieces, body(cell), active, reducers, types));
        std::copy(joined.begin(), joined.end(), all.begin() + accumulator * count);
      });
    };
    if (whole > 0) {
      sums = lanes.loop(
          lanes.index(0), lanes.index(whole), round, sums, [&](Value base, ValueRange old) {
            SmallVector<Value> next(old);
            Value number = arith::AddIOp::create(builder, location, base, firstPiece);
            for (int64_t i = 0; i < kUnroll; ++i)
              add(arith::AddIOp::create(builder, location, number, lanes.index(i * team.stride())),
                  next, i);
            return next;
          });
      // It has as much on its way as a thread is to ask for.
      keepRolled(sums.front().getDefiningOp());
    }
    if (whole < pieces.count) {
      Value first = arith::AddIOp::create(builder, location, firstPiece, lanes.index(whole));
      sums = lanes.loop(first, end(pieces), team.stride(), sums, [&](Value number, ValueRange old) {
        SmallVector<Value> next(old);
        add(number, next, 0);
        return next;
      });
    }
    ValueRange found = sums;
    auto low = lanes.combine(reducers, found.slice(0, count), found.slice(count, count));
    auto high =
        lanes.combine(reducers, found.slice(2 * count, count), found.slice(3 * count, count));
    return lanes.combine(reducers, low, high);
  }

  //===-- Exponentials of rows that are not kept --------------------------------------------===//

  /// What a thread has found: its largest value and, relative to that, sums of exponentials, one a lane.
  struct Running {
    Value maximum, sums;
  };

  /// Takes in cells that a thread reads together: the sums are scaled once for all of them. After M. Milakov,
  /// N. Gimelshein, "Online normalizer calculation for softmax", 2018.
  Running takenIn(const Portions &pieces, Running before, ArrayRef<Value> values, Value active) {
    const Reducer max{Reducer::Kind::Max, before.maximum.getType()};
    Value most = values.front();
    for (Value value : values.drop_front())
      most = term(most).maximum(term(value)).get();
    if (pieces.lanes > 1)
      most = foldVector(most, max);
    if (active)
      most = term(active).choose(term(most), term(before.maximum)).get();
    const Term maximum = term(before.maximum).maximum(term(most));
    const Term base = finite(maximum);
    Chunk chunk(builder, location, lanes.index(0), pieces.lanes);
    Value found;
    for (Value value : values) {
      const Term power = (term(value) - chunk.term(base.get())).unary<math::ExpOp>();
      found = found ? (term(found) + power).get() : power.get();
    }
    if (active)
      found = chunk.term(active).choose(term(found), term(found).constant(0)).get();
    const Term scale = (term(before.maximum) - base).unary<math::ExpOp>();
    return {maximum.get(), (term(before.sums) * chunk.term(scale.get()) + term(found)).get()};
  }

  /// While nothing but minus infinity was found exponentials are those of minus infinity, not NaN.
  Term finite(Term maximum) {
    const Term none = maximum.constant(-std::numeric_limits<double>::infinity());
    return maximum.equals(none).choose(maximum.constant(0), maximum);
  }

  Exponentials exponentialsOfLongRow(unsigned access, Type element) {
    const Reducer max{Reducer::Kind::Max, element}, sum{Reducer::Kind::Sum, element};
    Value maximum, total;
    for (const Portions &pieces : piecesOfRow()) {
      const Type type = typeOf(pieces, element);
      SmallVector<Value> state = {lanes.neutrals(max, element).front(),
                                  lanes.neutrals(sum, type).front()};
      auto read = [&](Value number, SmallVector<Value> &values, Value &exists) {
        withPiece(pieces, number, {}, nullptr, [&](const Cell &cell, Value active) {
          values.push_back(cell.load(access).get());
          exists = active;
        });
      };
      auto step = [&](ValueRange old, ArrayRef<Value> values, Value active) {
        const Running next = takenIn(pieces, {old[0], old[1]}, values, active);
        return SmallVector<Value>{next.maximum, next.sums};
      };
      const bool mayLack = !isOneRun() || pieces.areEdges; // a piece that is counted need not exist
      const int64_t all = team.hasEdges() && isOneRun() ? team.certain : pieces.count,
                    round = kUnroll * team.stride(), whole = mayLack ? 0 : all / round * round;
      if (whole > 0) {
        state = lanes.loop(lanes.index(0), lanes.index(whole), round, state,
                           [&](Value base, ValueRange old) {
                             SmallVector<Value> values;
                             Value number = math.plus(base, firstPiece), exists;
                             for (int64_t i = 0; i < kUnroll; ++i)
                               read(math.plus(number, i * team.stride()), values, exists);
                             return step(old, values, {});
                           });
        keepRolled(state.front().getDefiningOp());
      }
      if (whole < pieces.count)
        state = lanes.loop(math.plus(firstPiece, whole), end(pieces), team.stride(), state,
                           [&](Value number, ValueRange old) {
                             SmallVector<Value> values;
                             Value exists;
                             read(number, values, exists);
                             return step(old, values, exists);
                           });
      Value found = pieces.lanes > 1 ? foldVector(state[1], sum) : state[1];
      if (!maximum) {
        maximum = state[0], total = found;
        continue;
      }
      const Term both = term(maximum).maximum(term(state[0])), base = finite(both);
      total = (term(total) * (term(maximum) - base).unary<math::ExpOp>() +
               term(found) * (term(state[0]) - base).unary<math::ExpOp>())
                  .get();
      maximum = both.get();
    }
    Value most = joined({maximum}, max).front();
    const Term scale = (term(maximum) - finite(term(most))).unary<math::ExpOp>();
    return {most, joined({(term(total) * scale).get()}, sum).front()};
  }

  Value foldVector(Value vector, const Reducer &reducer) {
    SmallVector<Value> parts;
    for (int64_t lane = 0; lane < cast<VectorType>(vector.getType()).getNumElements(); ++lane)
      parts.push_back(laneOf(builder, location, vector, lane));
    return foldHalves(parts, reducer);
  }

  /// Joins the second half with the first until one value, of a power of two, is left.
  Value foldHalves(SmallVector<Value> parts, const Reducer &reducer) {
    for (size_t half = parts.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i)
        parts[i] = reducer.combine(term(parts[i]), term(parts[i + half])).get();
    return parts.front();
  }

  /// Over so many neighbouring threads, a power of two.
  Value foldOver(Value partial, int64_t threads, const Reducer &reducer) {
    Term sum = term(partial);
    for (auto distance = static_cast<int32_t>(threads / 2); distance > 0; distance /= 2) {
      auto other = gpu::ShuffleOp::create(builder, location, sum.get(), distance, kWarp,
                                          gpu::ShuffleMode::XOR);
      sum = reducer.combine(sum, sum.with(other.getShuffleResult()));
    }
    return sum.get();
  }

  /// Joins what warps have found: each writes its part, then all threads fold the parts.
  SmallVector<Value> foldWarps(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
    ++foldsOfWarps;
    const int64_t parts = team.members / kWarp;
    Value part = math.quotient(place.member, kWarp),
          isFirst = math.isBelow(math.remainder(place.member, kWarp), lanes.index(1));
    SmallVector<Value> memories;
    for (const Reducer &reducer : reducers)
      memories.push_back(sharedMemory(reducer.element, parts));
    lanes.ifHolds(isFirst, [&] {
      for (auto [partial, memory] : llvm::zip_equal(partials, memories))
        memref::StoreOp::create(builder, location, partial, memory, ValueRange{part});
    });
    gpu::BarrierOp::create(builder, location);
    SmallVector<Value> results;
    for (auto [reducer, memory] : llvm::zip_equal(reducers, memories)) {
      SmallVector<Value> values;
      for (int64_t i = 0; i < parts; ++i)
        values.push_back(
            memref::LoadOp::create(builder, location, memory, ValueRange{lanes.index(i)}));
      results.push_back(foldHalves(values, reducer));
    }
    return results;
  }

  /// Joins what groups of threads have found of rows side by side. As many threads share a row as there are,
  /// neighbours, each of which folds every so many of the parts and then their halves by shuffles; what
  /// they have goes to all through shared memory again. Parts lie so far apart that these reads meet all
  /// banks.
  SmallVector<Value> foldGroups(ArrayRef<Value> partials, ArrayRef<Reducer> reducers) {
    const int64_t parts = team.members, width = kDeviceBlock / parts,
                  rows = team.vectors.lanes * width;
    const int64_t sharers = std::max<int64_t>(1, parts / team.vectors.lanes),
                  pitch = rows + rows / 8;
    Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
    Value side = math.remainder(thread, width), first = math.remainder(thread, sharers);
    SmallVector<Value> memories, joined;
    for (const Reducer &reducer : reducers) {
      memories.push_back(sharedMemory(reducer.element, parts * pitch));
      joined.push_back(sharedMemory(reducer.element, rows));
    }
    Value own = math.plus(math.times(place.member, pitch), side);
    for (auto [partial, memory] : llvm::zip_equal(partials, memories))
      for (int64_t lane = 0; lane < team.vectors.lanes; ++lane)
        memref::StoreOp::create(builder, location, laneOf(builder, location, partial, lane), memory,
                                ValueRange{math.plus(own, lane * width)});
    gpu::BarrierOp::create(builder, location);
    for (auto [reducer, memory, whole] : llvm::zip_equal(reducers, memories, joined))
      for (int64_t number = 0; number < rows * sharers; number += kDeviceBlock) {
        Value row = math.plus(math.quotient(thread, sharers), number);
        SmallVector<Value> values;
        for (int64_t i = 0; i < parts; i += sharers)
          values.push_back(memref::LoadOp::create(
              builder, location, memory,
              ValueRange{math.plus(math.times(math.plus(first, i), pitch), row)}));
        Value value = foldOver(foldHalves(values, reducer), sharers, reducer);
        lanes.ifHolds(sharers == 1 ? Value() : math.isBelow(first, lanes.index(1)), [&] {
          memref::StoreOp::create(builder, location, value, whole, ValueRange{row});
        });
      }
    gpu::BarrierOp::create(builder, location);
    SmallVector<Value> results;
    for (Value whole : joined) {
      SmallVector<Value> found;
      for (int64_t lane = 0; lane < team.vectors.lanes; ++lane)
        found.push_back(memref::LoadOp::create(builder, location, whole,
                                               ValueRange{math.plus(side, lane * width)}));
      results.push_back(vectorOfLanes(builder, location, found));
    }
    return results;
  }

  Value sharedMemory(Type element, int64_t count) {
    return addSharedMemory(functionOf(frame), {count}, element, location);
  }

  KernelFrame &frame;
  const Space &axis;
  const Team &team;
  Place place;
  OpBuilder &builder;
  Location location;
  const IndexMath math;
  Value firstPiece;                          ///< of the axis: the thread's
  std::vector<CellCache> caches, edgeCaches; ///< by number of what the thread keeps
  int64_t foldsOfWarps = 0;
};

//===-- Tasks ---------------------------------------------------------------------------------===//

using RowBody = llvm::function_ref<void(Row &)>;

void runRow(KernelFrame &frame, const Space &axis, const Team &team, DeviceRow::Place place,
            RowBody body) {
  DeviceRow row(frame, axis, team, std::move(place));
  body(row);
  row.finish();
}

/// What of a kernel's tasks, parts of a row side by side, is the row and which of its parts.
std::pair<Value, Value> partOf(const IndexMath &math, Value task, const Team &team) {
  if (team.parts == 1)
    return {task, math.constant(0)};
  return {math.quotient(task, team.parts), math.remainder(task, team.parts)};
}

void forRowsAlong(KernelFrame &frame, Space rows, Space axis, RowBody body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const IndexMath math{builder, location};
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  const Team team = teamAlong(frame, rows, axis);
  SmallVector<Space::Dim> others(rows.dims);
  llvm::append_range(others, llvm::drop_end(axis.dims));
  const int64_t teams = kDeviceBlock / team.members, count = rows.elements();
  auto [begin, end] = taskRange(frame, (count + teams - 1) / teams * team.parts);
  lanes.forTasks(begin, end, [&](Value task) {
    DeviceRow::Place place;
    place.member = thread;
    place.others = others;
    if (teams == 1) {
      std::tie(place.row, place.part) = partOf(math, task, team);
      place.bases = rowBases(lanes, rows, place.row);
      return runRow(frame, axis, team, std::move(place), body);
    }
    place.row = math.plus(math.times(task, teams), math.quotient(thread, team.members));
    place.member = math.remainder(thread, team.members);
    OpBuilder::InsertionGuard guard(builder);
    if (count % teams != 0 && team.members < kWarp) { // all threads of a warp take part in shuffles
      place.exists = math.isBelow(place.row, math.constant(count));
      place.row = math.smaller(place.row, math.constant(count - 1));
    } else if (count % teams != 0) {
      auto branch = scf::IfOp::create(builder, location,
                                      math.isBelow(place.row, math.constant(count)), false);
      builder.setInsertionPointToStart(branch.thenBlock());
    }
    place.bases = rowBases(lanes, rows, place.row);
    runRow(frame, axis, team, std::move(place), body);
  });
}

void forRowsAcross(KernelFrame &frame, const Space &rows, const Space &axis, RowBody body) {
  Lanes &lanes = frame.lanes;
  OpBuilder &builder = lanes.getBuilder();
  Location location = lanes.getLocation();
  const IndexMath math{builder, location};
  Value thread = gpu::ThreadIdOp::create(builder, location, gpu::Dimension::x);
  Space outer = rows;
  const Space::Dim lane = outer.takeInnermost();
  const Team team = teamAcross(frame, outer, lane, axis);
  if (team.members > kWarp) // few columns by long vectors
    allowRegisters(functionOf(frame), kRegisters);
  const int64_t threads = kDeviceBlock / team.members, vectors = lane.extent / team.vectors.lanes;
  const int64_t tiles = (vectors + threads - 1) / threads;
  auto [begin, end] = taskRange(frame, outer.elements() * tiles * team.parts);
  lanes.forTasks(begin, end, [&](Value task) {
    auto [tile, part] = partOf(math, task, team);
    Value number = tile;
    if (tiles == 1) {
      tile = lanes.index(0);
    } else {
      number = arith::DivUIOp::create(builder, location, tile, lanes.index(tiles));
      tile = arith::RemUIOp::create(builder, location, tile, lanes.index(tiles));
    }
    Value side = arith::RemUIOp::create(builder, location, thread, lanes.index(threads));
    Value vector = arith::AddIOp::create(
        builder, location, arith::MulIOp::create(builder, location, tile, lanes.index(threads)),
        side);
    DeviceRow::Place place;
    place.member = arith::DivUIOp::create(builder, location, thread, lanes.index(threads));
    if (vectors % threads != 0) {
      place.exists = math.isBelow(vector, lanes.index(vectors));
      vector = arith::MinUIOp::create(builder, location, vector, lanes.index(vectors - 1));
    }
    place.column =
        arith::MulIOp::create(builder, location, vector, lanes.index(team.vectors.lanes));
    place.bases = rowBases(lanes, outer, number);
    place.part = part;
    place.row = arith::MulIOp::create(builder, location, number, lanes.index(lane.extent));
    place.laneStrides = lane.strides;
    runRow(frame, axis, team, std::move(place), body);
  });
}

} // namespace

void forDeviceRows(KernelFrame &frame, const Space &rows, const Space &axis, bool along,
                   llvm::function_ref<void(Row &)> body) {
  if (along)
    forRowsAlong(frame, rows, axis, body);
  else
    forRowsAcross(frame, rows, axis, body);
}

} // namespace stow
