// What the emitters of the kernel groups share: the kernel's frame, rows, and folds along them.
#pragma once

#include "codegen/kernels/Lanes.h"
#include "codegen/kernels/Space.h"
#include "codegen/kernels/device/FoldParts.h"

#include <functional>

namespace stow {

/// Which of the kernels of a fold in parts is being emitted.
struct FoldStage {
  FoldParts parts;
  int64_t number = 0; ///< of the fold whose parts it computes; `folds`: none, it joins
  Buffer scratch;     ///< by value, part and row
  int64_t foundFolds = 0, foundValues = 0; ///< what the emitter has folded of a row

  bool isLast() const { return number == parts.folds; }
};

/// The function being emitted.
struct KernelFrame {
  Lanes &lanes;
  mlir::Value begin, end;            ///< task range of this call
  llvm::SmallVector<Buffer> buffers; ///< operands, then results
  int64_t tasks = 0;                 ///< tasks emitted so far: number of the next part's first task
  /// A constant vector in the program's memory.
  std::function<Buffer(mlir::DenseElementsAttr)> constant;
  KernelTarget target = KernelTarget::Host;
  size_t operands = 0;        ///< buffers that are read
  FoldStage *stage = nullptr; ///< null: rows are folded whole
  int64_t sharedBytes = 0;    ///< a device's: KernelInfo
};

/// The accesses of a row.
struct RowPlace {
  llvm::SmallVector<mlir::Value> bases; ///< element of lane position 0, per access
  LaneRange range;                      ///< lanes of this row to compute
};

/// How rows are cut into tasks.
struct RowCut {
  std::optional<int64_t> partLanes; ///< lanes of a part; else rows are cut when they are long
  int64_t elementsPerLane = 1;      ///< work of one lane position
};

/// Emits tasks over all rows of `outer`, whose lane axis is `lane`: adds to `frame.tasks`, runs
/// `body` per row, or per part of a row.
void forRows(KernelFrame &frame, const Space &outer, const Space::Dim &lane, RowCut cut,
             llvm::function_ref<void(const RowPlace &)> body);

/// Of this call's tasks those of the kernel's next part, which has `count`; adds to `frame.tasks`.
std::pair<mlir::Value, mlir::Value> taskRange(KernelFrame &frame, int64_t count);

/// Element of each access at row number `row` of `outer`.
llvm::SmallVector<mlir::Value> rowBases(Lanes &lanes, const Space &outer, mlir::Value row);

/// What a thread has read or written of a place, by access: it need not be read again.
using CellCache = llvm::DenseMap<unsigned, mlir::Value>;

/// What a device adds to a cell: null members add nothing.
struct CellExtra {
  CellCache *cache = nullptr;
  mlir::Value active; ///< i1: where it is false nothing is written, and zero is read
};

/// Element `index`, of any integer type and within it, of a table of constants, in every lane.
Term lookUp(const Chunk &chunk, const Buffer &table, Term index, KernelTarget target);

/// One element of a row, as the bodies of fold and each see it.
class Cell {
public:
  Cell(const Chunk &chunk, llvm::ArrayRef<Buffer> buffers, llvm::SmallVector<Access> accesses,
       mlir::Value axisIndex, CellExtra extra = {})
      : chunk(chunk), buffers(buffers), accesses(std::move(accesses)), axisIndex(axisIndex),
        extra(extra) {}

  /// Access `a` reads or writes buffer `a`; floats of 16 bits are read as f32.
  Term load(unsigned access) const;
  void store(Term value, unsigned access) const;
  /// Element `index`, of any integer type, of a table of constants.
  Term lookUp(const Buffer &table, Term index, KernelTarget target) const {
    return stow::lookUp(chunk, table, index, target);
  }
  /// A value of the row or of the kernel, in every lane.
  Term term(mlir::Value value) const { return chunk.term(value); }
  /// Position along the axis: i64.
  Term position() const { return chunk.term(axisIndex); }

private:
  const Chunk &chunk;
  llvm::ArrayRef<Buffer> buffers;
  llvm::SmallVector<Access> accesses;
  mlir::Value axisIndex;
  CellExtra extra;
};

using CellFold = llvm::function_ref<llvm::SmallVector<Term>(const Cell &)>;

/// What exponentials along a row are made of: its maximum and, relative to it, their sum.
struct Exponentials {
  mlir::Value maximum, sum;
};

/// A row that is folded: along the lanes (the axis is contiguous), or across them (each lane is a
/// row of its own and the axis is walked in sequence).
class Row {
public:
  virtual ~Row() = default;
  /// Folds the axis; the results can be used in later cells of this row.
  virtual llvm::SmallVector<mlir::Value> fold(llvm::ArrayRef<Reducer> reducers, CellFold body) = 0;
  /// Those of an access, computed in `element`: by two folds, or one walk of rows that would be read twice.
  virtual Exponentials exponentials(unsigned access, mlir::Type element);
  virtual void each(llvm::function_ref<void(const Cell &)> body) = 0;
  /// One value per row. `load` and `store` take accesses that do not move along the axis.
  virtual Term load(unsigned access) = 0;
  virtual void store(Term value, unsigned access) = 0;
  /// The element at `position` (i64) of the axis, of one dimension, where `exists` (i1) holds; else zero.
  virtual Term loadAt(unsigned access, Term position, Term exists) = 0;
  Term term(mlir::Value value);
  explicit Row(Lanes &lanes) : lanes(lanes) {}

protected:
  Lanes &lanes;
};

/// The element at `position` of an axis of `stride`, of rows whose first ones lie at `row`, one a lane, where
/// `exists` holds; else zero.
Term elementAt(const Chunk &chunk, const Buffer &buffer, Access row, int64_t stride, Term position,
               Term exists);

/// Emits tasks over rows. `kept` are the rows, `axis` (outermost first, not empty) what is folded;
/// both list one stride per buffer of the frame.
void forFoldedRows(KernelFrame &frame, Space kept, Space axis,
                   llvm::function_ref<void(Row &)> body);

/// Bits of the widest element among the buffers.
unsigned widestBits(llvm::ArrayRef<Buffer> buffers);

/// The kernels of the ops: which have one, and what emits it. An op is registered beside its emitter,
/// nowhere else.
class KernelTable {
public:
  using Emit = mlir::LogicalResult (*)(mlir::Operation *, KernelFrame &);
  using Takes = bool (*)(mlir::Operation *);
  /// As kernelTakesPart (Kernels.h).
  using TakesPart = bool (*)(mlir::Operation *, unsigned, mlir::RankedTensorType);

  struct Limits {
    Takes takes = nullptr;         ///< which of the ops have the kernel; not given: all
    TakesPart takesPart = nullptr; ///< not given: no tensors with gaps
  };

  /// Ops that `emit` makes the kernel of, or fails with a diagnostic at the op.
  template <typename... Ops> void add(Emit emit) { add<Ops...>(emit, Limits()); }
  template <typename... Ops> void add(Emit emit, Limits limits) {
    (put(mlir::TypeID::get<Ops>(), {emit, limits}), ...);
  }

  /// The emitter of `op`, or none.
  Emit find(mlir::Operation *op) const;

  /// As kernelTakesPart (Kernels.h).
  bool takesPart(mlir::Operation *op, unsigned position, mlir::RankedTensorType part) const;

  /// The kernels of all groups.
  static const KernelTable &all();

private:
  struct Row {
    Emit emit;
    Limits limits;
  };
  void put(mlir::TypeID op, Row row);
  const Row *rowOf(mlir::Operation *op) const;

  llvm::DenseMap<mlir::TypeID, Row> rows;
};

/// A kernel that walks its tensors element by element takes any part.
inline bool takesAnyPart(mlir::Operation *, unsigned, mlir::RankedTensorType) { return true; }

// The groups: one per file.
void addAttentionKernels(KernelTable &table);
void addCopyKernels(KernelTable &table);
void addDepthwiseKernels(KernelTable &table);
void addEmbeddingKernels(KernelTable &table);
void addFoldKernels(KernelTable &table);
void addGridSampleKernels(KernelTable &table);
void addIndexKernels(KernelTable &table);
void addLossKernels(KernelTable &table);
void addMapKernels(KernelTable &table);
void addNormKernels(KernelTable &table);
void addPoolKernels(KernelTable &table);
void addQuantizeKernels(KernelTable &table);
void addResampleKernels(KernelTable &table);
void addWindowKernels(KernelTable &table);

/// Strides of every operand and result, or a diagnostic naming the tensor with a blocked layout.
mlir::FailureOr<llvm::SmallVector<llvm::SmallVector<int64_t>>> tensorStrides(mlir::Operation *op);

} // namespace stow
