// Products of tiles, for kernels of devices that use a product up without storing it.
//
// A tile of a left factor and one of a right factor lie in shared memory, rows of `pitch` elements. A
// warp makes one or more parts of 16 rows of the product and holds them one after the other, each as 4 floats a thread for every 8
// columns, here of threads t0 to t31:
//
//             columns 0 1 | 2 3 | 4 5 | 6 7 | 8 9 | ...
//   row 0              t0 |  t1 |  t2 |  t3 |  t0 |          values 0 and 1
//   row 1              t4 |  t5 | ...
//   row 8              t0 |  t1 | ...                        values 2 and 3
//
// What a warp reads of a right factor serves all of its parts, so that two of them read half as much as one would twice.
//
// So tensor cores give their results and, rounded to 16 bits, take left factors (PTX ISA, mma.m16n8k16).
// Tiles of bf16 and f16 go through them with sums in f32; tiles of f32 are multiplied by fused
// multiply-adds from registers of the same shape, exactly. One body of a kernel serves both.
#pragma once

#include "codegen/kernels/IndexMath.h"

#include "mlir/IR/BuiltinTypes.h"

namespace stow {

class TileProducts {
public:
  static constexpr int64_t kRows = 16;  ///< of a part of a warp's product
  static constexpr int64_t kGroup = 8;  ///< columns that four values of a thread belong to
  static constexpr int64_t kValues = 4; ///< of a thread and group

  /// For threads that `thread`, an index, numbers, of warps with `parts` parts; `element` is f32, bf16 or f16.
  TileProducts(mlir::OpBuilder &builder, mlir::Location location, mlir::FloatType element,
               mlir::Value thread, int64_t parts);

  /// Columns of a tile that holds `columns`, and elements from row to row: no two threads of an access
  /// meet in a bank. Columns beyond are to be zero; rows begin at multiples of 16 bytes.
  static int64_t padded(mlir::FloatType element, int64_t columns);
  static int64_t pitch(mlir::FloatType element, int64_t columns);
  static int64_t tileBytes(mlir::FloatType element, int64_t rows, int64_t columns);
  /// Right factors have a multiple of so many rows.
  static int64_t rightRows(mlir::FloatType element) {
    return element.getWidth() == 16 ? 2 * kGroup : kGroup;
  }

  /// Values of a thread for `columns` columns, a multiple of 8, of all parts: zeros.
  llvm::SmallVector<mlir::Value> zeros(int64_t columns) const;

  /// The rows of the warp's parts in a tile, from `row` on, and `depth` of its columns.
  struct Left {
    mlir::Value tile, row;
    int64_t depth = 0;
    llvm::SmallVector<mlir::Value>
        held; ///< in registers, as tensor cores take them; none: read for each product
  };
  /// The same, read once: what is in the tile then may change. Of elements of 16 bits.
  Left hold(Left left) const;

  /// `left` times the transposed `rows` rows of `right`, over the depth columns of both: rows of all parts x rows.
  llvm::SmallVector<mlir::Value> timesRows(const Left &left, mlir::Value right, int64_t rows) const;

  /// sums + weights right: weights as timesRows gives them, `rows` rows of `right`; sums have the padded columns.
  llvm::SmallVector<mlir::Value> addWeighted(mlir::ValueRange sums, mlir::ValueRange weights,
                                             mlir::Value right, int64_t rows,
                                             int64_t columns) const;

  /// Each part has two halves: a thread has values 0 and 1 of a group in the first, 2 and 3 in the second.
  int64_t halves() const { return 2 * parts; }
  /// Where value `i` of group `group` lies: row of a half among the warp's, and column, indices.
  mlir::Value rowOf(int64_t half) const;
  mlir::Value columnOf(int64_t group, int64_t i) const;
  /// The thread's number among the four that share its rows.
  mlir::Value member() const { return quadColumn; }

  /// Joins `value` of the four threads that share a row, the same in all of them.
  mlir::Value overRow(mlir::Value value,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine) const;

private:
  bool isNarrow() const { return element.getIntOrFloatBitWidth() == 16; }
  mlir::Value loadVector(mlir::Value tile, mlir::Value row, mlir::Value column,
                         int64_t count) const;
  mlir::Value elementOf(mlir::Value vector, int64_t i) const;
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value sum) const;

  llvm::SmallVector<mlir::Value> timesRowsByMma(const Left &left, mlir::Value right,
                                                int64_t rows) const;
  llvm::SmallVector<mlir::Value> timesRowsByFma(const Left &left, mlir::Value right,
                                                int64_t rows) const;
  /// Part `part` of a left factor, columns from `column` on.
  mlir::Value loadLeft(const Left &left, int64_t part, int64_t column) const;
  void mma(mlir::Value left, mlir::Value right, int64_t half,
           llvm::MutableArrayRef<mlir::Value> sums) const;
  mlir::Value loadMatrices(mlir::Value tile, mlir::Value row, mlir::Value column,
                           bool transposed) const;
  llvm::SmallVector<mlir::Value> operands(mlir::Value pairs, int64_t first, int64_t count) const;
  mlir::Value asLeft(mlir::ValueRange weights) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
  IndexMath math;
  mlir::FloatType element;
  int64_t parts;
  mlir::Value lane, quadRow, quadColumn;
};

} // namespace stow
