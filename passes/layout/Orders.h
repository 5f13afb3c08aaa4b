// The order of every value of a graph: which of its dimensions are innermost in memory.
//
// Values that an op reads and writes element by element in the same places have one order: they
// form a group. The target says which ops want a certain order of their groups (Target::orderWish);
// others can see one order as another:
//
//   ops that want channels last      vote for it, by the bytes they read and write
//   those of matrices, or of rows    refuse orders whose rows they cannot read
//   reshape, transpose, reduction    links: what order the one side must have for the other's
//                                    order, so that no code runs
//
//   x --conv-- [N,C,H,W] --transpose-- [N,H,W,C] --norm, matmul, gelu, matmul-- --transpose-- + x
//              channels last                 row-major: the same bytes            channels last
//
// Orders spread from the voters along the links, breadth first in program order; what no voter
// reaches is row-major and spreads in its turn, few dimensions before many. O(ops log ops).
#pragma once

#include "passes/Target.h"
#include "passes/layout/Views.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace stow {

class Orders {
public:
  /// Reads the graph in the step form, whose ops wish what `target` says. Parameters, optimizer
  /// state and statistics have no order of their own: they lie as their readers ask.
  Orders(mlir::func::FuncOp graph, const Target &target);

  /// The type of `value` in its order.
  mlir::RankedTensorType typeOf(mlir::Value value) const;

  /// Operands of `op` that share the order of its results (the shapes may differ), and results that
  /// share it.
  static llvm::SmallVector<mlir::Value> groupedValues(mlir::Operation *op);

private:
  struct Group {
    int64_t rank = 0;
    std::optional<Order> order;
    Bytes channelsLast = 0;  ///< bytes of values whose ops want channels last
    Bytes matrices = 0;      ///< bytes of values whose ops cannot have them so
    bool isResult = false;   ///< of a matrix product: the last dimension innermost
    bool isMatrix = false;   ///< read by one: one of the last two innermost
    bool isRowMajor = false; ///< read or written row by row
    llvm::SmallVector<mlir::Operation *> links;
  };

  using GroupId = unsigned;

  bool isFree(mlir::Value value) const { return groupOf.contains(value); }
  GroupId find(GroupId group) const;
  void join(mlir::Value a, mlir::Value b);
  void collect(mlir::Operation &op, OrderWish wish);
  void spread();
  void spreadFrom(GroupId group, mlir::Operation *link, std::deque<GroupId> &reached);
  void suggest(mlir::Value value, const Order &order, std::deque<GroupId> &reached);
  bool accepts(const Group &group, const Order &order) const;
  Group &group(mlir::Value value) { return groups[find(groupOf.lookup(value))]; }

  llvm::DenseMap<mlir::Value, GroupId> groupOf;
  mutable std::vector<GroupId> parents;
  std::vector<Group> groups; ///< valid at roots
};

} // namespace stow
