// Where the pieces of a row lie that a thread of a device takes (DeviceRows.h).
#pragma once

#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/device/DeviceTeams.h"

#include <vector>

namespace stow {

/// Where a thread stands: its number in the team, the row's first elements, and the lane axis when
/// it runs across rows.
struct TeamPlace {
  mlir::Value member;
  mlir::Value part; ///< of the row's parts
  mlir::Value row;  ///< number of the row; across rows of that of column 0
  llvm::SmallVector<mlir::Value> bases;
  mlir::Value column; ///< position on the lane axis; null along rows
  mlir::Value exists; ///< i1: false for threads beyond the last column; null: all exist
  llvm::SmallVector<int64_t> laneStrides; ///< across rows
  llvm::SmallVector<Space::Dim>
      others; ///< along rows: what moves accesses beside the innermost axis
};

/// The pieces of one row, vectors and edges, and the cells at them.
class TeamCells {
public:
  /// `active` is null or says whether the cell exists.
  using PieceCell = llvm::function_ref<void(const Cell &, mlir::Value active)>;

  TeamCells(KernelFrame &frame, const Space &axis, const Team &team, TeamPlace place);

  const TeamPlace &where() const { return place; }
  /// The first piece of the axis that is the thread's.
  mlir::Value first() const { return firstPiece; }
  /// Vectors, and edges where there are any.
  llvm::SmallVector<Portions, 2> piecesOfRow() const;
  /// Whether a thread's pieces are emitted one by one, which needs no loop.
  bool isWrittenOut(const Portions &pieces) const {
    return team.keeps || (pieces.areEdges && team.ofMember(pieces) == 1);
  }
  /// Whether the axis is one contiguous row, of which all that depends on where it begins is known once.
  bool isOneRun() const { return axis.dims.size() == 1; }
  /// The number behind the last of a row's pieces.
  mlir::Value end(const Portions &pieces);

  /// Runs `body` at piece `number` of the axis; `active` is null or says whether it may exist.
  void withPiece(const Portions &pieces, mlir::Value number, mlir::Value active, CellCache *cache,
                 PieceCell body);
  /// Number `i` of this thread's pieces; nothing is read or written where it is beyond the end.
  void withNumber(const Portions &pieces, int64_t i, PieceCell body);

  /// What a piece's elements of an access begin at a multiple of. Pieces begin where the tensor's would if it
  /// had no gaps, whose access is the last.
  int64_t alignmentOf(const Portions &pieces, unsigned access) const;

private:
  mlir::Value findFirst();
  mlir::Value quotient(mlir::Value value, int64_t by);
  mlir::Value remainder(mlir::Value value, int64_t by);
  mlir::Value narrow(mlir::Value value,
                     llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> divide, int64_t by);
  std::pair<mlir::Value, mlir::Value> vectorsFrom(mlir::Value begin);
  std::pair<mlir::Value, mlir::Value> placed(const Portions &pieces, mlir::Value position,
                                             mlir::Value before, mlir::Value count,
                                             mlir::Value active);
  mlir::Value joined(mlir::Value a, mlir::Value b);

  KernelFrame &frame;
  const Space &axis;
  const Team &team;
  const TeamPlace place;
  Lanes &lanes;
  mlir::OpBuilder &builder;
  mlir::Location location;
  const IndexMath math;
  const mlir::Value firstPiece;
  std::vector<CellCache> caches, edgeCaches; ///< by number of what the thread keeps
};

} // namespace stow
