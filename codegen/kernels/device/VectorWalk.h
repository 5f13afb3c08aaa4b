// Elementwise work on a device: all positions of a space, 16 bytes at a time.
//
// Consecutive positions of the space make a vector; a thread computes several vectors, and reads all
// of them before it computes the first, so that many bytes are on their way at once. Neighbouring
// threads take neighbouring vectors, whatever the extents of the space:
//
//   positions   |<- t0 ->|<- t1 ->| ... |<- t255 ->|<- t0 ->|<- t1 ->| ...     a task: 256 threads
//                  vector 0 of each thread            vector 1
//
// Where many tensors are read a vector of 16-bit elements is computed in parts: what has 16 bits is read and
// written whole, numbers a channel and what else is wider part by part, so that they share registers.
//
// A vector may reach over the end of a row, or of several dimensions: then operands that do not lie there as
// the positions count are read one by one, those of one element a row for the first and the last lane.
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

class VectorWalk;

/// One vector of a thread.
class VectorSpot {
public:
  VectorSpot(const VectorWalk &walk, mlir::Value position, int64_t lanes)
      : walk(walk), position(position), lanes(lanes) {}

  /// The lanes, for what the bodies compute in them, or those of one part of `parts`.
  Chunk chunk(int64_t parts = 1) const;
  /// The element that all lanes share: of uniform accesses.
  mlir::Value loadUniform(unsigned access) const;
  mlir::Value load(unsigned access) const;
  void store(mlir::Value value, unsigned access) const;
  /// Part `number` of `parts` of a vector inside a row: of wide accesses, which lie side by side there.
  mlir::Value loadPart(unsigned access, int64_t number, int64_t parts) const;
  void storePart(mlir::Value value, unsigned access, int64_t number, int64_t parts) const;
  /// The same of masks of one bit an element (`ir/PackedMasks.h`), whose access counts elements. What
  /// is written is a byte: the walk has vectors of 8 lanes.
  mlir::Value loadBits(unsigned access) const;
  void storeBits(mlir::Value value, unsigned access) const;
  /// The access' element in each lane, as i64.
  mlir::Value elements(unsigned access) const;
  /// That in the first lane: an index.
  mlir::Value element(unsigned access) const;

private:
  mlir::Value elementOf(unsigned access, int64_t lane) const;
  mlir::Value loadOfRows(unsigned access) const;
  mlir::Value coordinate(size_t dim, int64_t lane) const;
  mlir::Value eachLane(llvm::function_ref<mlir::Value(int64_t)> element) const;
  mlir::Value byteOf(const Buffer &buffer, mlir::Value element) const;

  const VectorWalk &walk;
  mlir::Value position; ///< of lane 0
  int64_t lanes;
  mutable llvm::DenseMap<std::pair<unsigned, unsigned>, mlir::Value> coordinates;
};

class VectorWalk {
public:
  /// Access `a` of the space reads or writes buffer `buffers[a]` of the frame; numbers beyond those
  /// of the buffers are of accesses that only count. `reads` accesses come first and are read. Vectors
  /// have at least `leastLanes`, by which the number of positions is divisible.
  VectorWalk(KernelFrame &frame, const Space &space, llvm::ArrayRef<unsigned> buffers,
             unsigned reads, int64_t leastLanes = 1);

  /// Instead of the vectors that suit the buffers: of `lanes`, a divisor of the innermost extent, so that
  /// none reaches over the end of a row, and one a thread in a task.
  void keepInRows(int64_t lanes);

  /// True when all lanes of a vector have the same element of the access.
  bool isUniform(unsigned access) const;

  /// Instead of the shorter vectors of walks that read many tensors: those that suit the buffers, to be
  /// computed in the returned number of parts. 1: they are no shorter, or cannot be parted.
  int64_t inParts();
  /// Accesses that are read and written part by part: others are of 16 bits at most.
  bool isWide(unsigned access) const;

  using Body = llvm::function_ref<void(llvm::ArrayRef<VectorSpot>)>;

  /// Emits the tasks: adds to `frame.tasks` and runs `body` for the vectors of a thread.
  void run(Body body);
  /// The same where all of the kernel's tasks are this walk's. One in whole tasks does not ask how many
  /// there are, so that tensors of many sizes share its code.
  void runAlone(Body body);

private:
  friend class VectorSpot;

  void emitParts(Body body);
  void chooseLanes(int64_t least);
  void chooseUnroll();
  bool isLinear(unsigned access, size_t outermost = 0) const;
  size_t reachedDim() const;
  bool staysInRow() const { return reached + 1 == space.dims.size(); }
  bool isConsecutive(unsigned access) const;
  int64_t bytesOf(unsigned access) const;
  int64_t alignmentOf(unsigned access, int64_t parts = 1) const;
  bool fitsInt32() const;
  mlir::Value constant(int64_t value) const;
  mlir::Value toIndex(mlir::Value value) const;
  mlir::Value toNumber(mlir::Value index) const;

  KernelFrame &frame;
  Space space;
  llvm::SmallVector<unsigned> buffers;
  unsigned reads;
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::Type number;    ///< of positions and elements: i32 where they fit, else i64
  int64_t suiting = 1;  ///< lanes of vectors that suit the buffers
  int64_t lanes = 1;    ///< of a vector
  int64_t unroll = 1;   ///< vectors of a thread in a task
  size_t reached = 0;   ///< innermost dimension whose end no vector reaches over
  bool isAlone = false; ///< the kernel has no other tasks
};

} // namespace stow
