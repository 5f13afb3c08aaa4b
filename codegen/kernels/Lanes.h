// What a kernel body is written against: chunks of lanes, and the loops that make them.
//
// A kernel runs independent tasks. Inside a task it walks rows; along a row (the lane axis)
// elements are computed a chunk at a time. On the host a chunk is a vector of lanes, masked at the
// end of the row; on a device it is the one element of a thread, and threads stride along the row.
// Bodies see only chunks, folds and tasks, so that one body serves both.
//
//   host    row: |<- 16 lanes ->|<- 16 lanes ->|<-  masked ->....|      one thread, vector code
//   device  row: |t0|t1|t2| ... |t255|t0|t1| ...                        one block per task
//
// Folds associate in a fixed way that depends on static extents only: results do not depend on how
// tasks are split over threads.
#pragma once

#include "ir/bodies/Term.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>

namespace stow {

/// A tensor in memory: stored elements, flat. Elements of type i1 are stored as bytes, 0 or 1.
struct Buffer {
  mlir::Value memory;
  mlir::Type element;
  int64_t alignment = 1; ///< bytes that its address is a multiple of

  int64_t elementBytes() const { return std::max(8u, element.getIntOrFloatBitWidth()) / 8; }
};

/// Lane `lane` of a vector; a scalar is its own.
mlir::Value laneOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   int64_t lane);

/// Where the elements of a row lie: element number of its position 0, distance of neighbours.
struct Access {
  mlir::Value base;
  int64_t stride = 0;
  int64_t alignment = 0; ///< bytes that every chunk begins at a multiple of; 0: the element's
};

/// Consecutive positions of the lane axis, computed together.
class Chunk {
public:
  Chunk(mlir::OpBuilder &builder, mlir::Location location, mlir::Value position, int64_t lanes,
        mlir::Value mask = {})
      : builder(builder), location(location), position(position), lanes(lanes), mask(mask) {}

  /// Number of lanes; 1 computes scalars.
  int64_t size() const { return lanes; }
  /// Position of the first lane on the axis: an index.
  mlir::Value getPosition() const { return position; }
  /// The type of a value of this element type in this chunk.
  mlir::Type type(mlir::Type element) const;
  /// A scalar in every lane; values that are chunk-wide already stay.
  mlir::Value widen(mlir::Value value) const;
  Term term(mlir::Value value) const { return Term(builder, location, widen(value)); }

  /// Lanes outside the row read as zero and are not written.
  mlir::Value load(const Buffer &buffer, Access access) const;
  void store(mlir::Value value, const Buffer &buffer, Access access) const;
  /// The same of a mask of one bit an element, 8 to a byte (`ir/PackedMasks.h`); the access counts
  /// elements. `whole` promises that chunks begin with a byte, and end with one unless they are
  /// masked. A store takes whole, unmasked chunks.
  mlir::Value loadBits(const Buffer &buffer, Access access, bool whole) const;
  void storeBits(mlir::Value value, const Buffer &buffer, Access access) const;
  /// Reads only where `condition` (i1) holds, zero elsewhere.
  mlir::Value loadWhere(mlir::Value condition, const Buffer &buffer, Access access) const;
  /// Reads the whole chunk where the scalar `condition` (i1) holds, zeros elsewhere.
  mlir::Value loadAllWhere(mlir::Value condition, const Buffer &buffer, Access access) const;
  /// Reads element `elements` (i64, one per lane) where `condition` holds; anything elsewhere.
  mlir::Value gather(mlir::Value condition, const Buffer &buffer, mlir::Value elements) const;
  /// Writes element `elements` (i64, distinct in the lanes) where `condition` holds.
  void scatter(mlir::Value condition, mlir::Value value, const Buffer &buffer,
               mlir::Value elements) const;
  /// base + stride * position of each lane, as i64.
  mlir::Value positions(Access access) const;
  /// `value` inside the row, `neutral` in lanes outside it.
  mlir::Value inside(mlir::Value value, mlir::Value neutral) const;

private:
  mlir::Value first(Access access) const;
  mlir::Value gatherIndices(Access access) const;
  mlir::Value allLanes() const;
  mlir::Value fromStored(mlir::Value stored, mlir::Type element) const;
  mlir::Value gatherOrMasked(mlir::Value active, const Buffer &buffer, Access access) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::Value position;
  int64_t lanes;
  mlir::Value mask;
};

/// How a fold joins two values.
struct Reducer {
  enum class Kind { Sum, Max };
  Kind kind;
  mlir::Type element;

  double neutral() const;
  Term combine(Term a, Term b) const;
};

using ChunkBody = llvm::function_ref<void(const Chunk &)>;
using FoldBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(const Chunk &)>;
using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
using UnitBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value)>;

/// Part of the lane axis; `whole` promises that on the host only full chunks are inside.
struct LaneRange {
  mlir::Value low, high;         ///< indices
  std::optional<int64_t> extent; ///< high - low where it is static
  bool whole = false;
};

/// The loops of one target.
class Lanes {
public:
  Lanes(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}
  virtual ~Lanes() = default;

  /// Elements a task should have, so that its data takes some 64 KiB.
  virtual int64_t taskElements() const = 0;
  /// Lanes of a full chunk over elements of up to `bits` bits.
  virtual int64_t chunkLanes(unsigned bits) const = 0;
  /// Positions of the lane axis, `columns` long, that one task takes when rows run across lanes: a
  /// chunk on the host.
  virtual int64_t columnLanes(unsigned bits, int64_t columns) const = 0;

  /// Runs `body` for every task of [begin, end) that is this worker's.
  virtual void forTasks(mlir::Value begin, mlir::Value end,
                        llvm::function_ref<void(mlir::Value)> body) = 0;
  /// Runs `body` over the lane range, `lanes` at a time on the host.
  virtual void forLanes(const LaneRange &range, int64_t lanes, ChunkBody body) = 0;
  /// Folds the positions [0, extent) of a row; the results are partial: one per lane or thread.
  virtual llvm::SmallVector<mlir::Value>
  foldLanes(int64_t extent, int64_t lanes, llvm::ArrayRef<Reducer> reducers, FoldBody body) = 0;
  /// The type of a partial fold result.
  virtual mlir::Type partialType(mlir::Type element, int64_t lanes) const = 0;
  /// Joins partial results over all lanes or threads into one scalar that all of them know.
  virtual mlir::Value combineLanes(mlir::Value partial, const Reducer &reducer) = 0;
  /// Edge of the square tiles that are transposed in registers; 0 where copies go element by
  /// element.
  virtual int64_t tileEdge() const = 0;
  /// Transposes `tileEdge` vectors of `tileEdge` lanes.
  virtual llvm::SmallVector<mlir::Value> transposeTile(mlir::ValueRange rows) = 0;
  /// Runs `body` once per row, whatever the number of threads.
  virtual void once(llvm::function_ref<void()> body) = 0;

  mlir::Value index(int64_t value);

  /// Runs `body` where `condition`, an i1, holds; where it is null, always.
  void ifHolds(mlir::Value condition, llvm::function_ref<void()> body);
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLocation() const { return location; }

  /// Folds units [0, units) in sequence, with several accumulators and in blocks, so that
  /// rounding errors stay near those of pairwise summation. `like` are the accumulators' types.
  llvm::SmallVector<mlir::Value> foldUnits(int64_t units, llvm::ArrayRef<Reducer> reducers,
                                           llvm::ArrayRef<mlir::Type> types, UnitBody body);
  /// The neutral values of `reducers` in the given types.
  llvm::SmallVector<mlir::Value> neutrals(llvm::ArrayRef<Reducer> reducers,
                                          llvm::ArrayRef<mlir::Type> types);
  llvm::SmallVector<mlir::Value> combine(llvm::ArrayRef<Reducer> reducers, mlir::ValueRange a,
                                         mlir::ValueRange b);
  /// A loop over [low, high) with carried values.
  llvm::SmallVector<mlir::Value> loop(mlir::Value low, mlir::Value high, int64_t step,
                                      mlir::ValueRange carried, LoopBody body) {
    return strided(low, high, index(step), carried, body);
  }
  llvm::SmallVector<mlir::Value> strided(mlir::Value low, mlir::Value high, mlir::Value step,
                                         mlir::ValueRange carried, LoopBody body);

protected:
  mlir::OpBuilder &builder;
  mlir::Location location;

private:
  llvm::SmallVector<mlir::Value> foldBlocks(mlir::Value start, int64_t units,
                                            llvm::ArrayRef<Reducer> reducers,
                                            llvm::ArrayRef<mlir::Type> types, UnitBody body);
  llvm::SmallVector<mlir::Value> foldRange(mlir::Value start, int64_t units,
                                           llvm::ArrayRef<Reducer> reducers,
                                           llvm::ArrayRef<mlir::Type> types, UnitBody body);
};

/// Attribute of a loop, an LLVM::LoopAnnotationAttr, that a device's code is to have.
inline constexpr llvm::StringLiteral kLoopAnnotation = "llvm.loop_annotation";

/// Threads of a block on a device, and those that run in step.
inline constexpr int64_t kDeviceBlock = 256;
inline constexpr int64_t kWarp = 32;

std::unique_ptr<Lanes> makeHostLanes(mlir::OpBuilder &builder, mlir::Location location);
std::unique_ptr<Lanes> makeDeviceLanes(mlir::OpBuilder &builder, mlir::Location location);

} // namespace stow
