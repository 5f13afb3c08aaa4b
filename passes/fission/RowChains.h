// Chains of ops whose rows do not meet, found in a step: what can run in chunks of rows.
//
//     x [R,d] ---> h [R,4d] ---> gelu(h) ---> y [R,d]      forward
//                    |  \          |
//     dx <--------- dh <-- * <--- dg <------- dy           backward
//             dw1 = xT dh          dw2 = gelu(h)T dy       sums over rows
//
// A chain is a set of inner values and all ops that touch them. Every op makes each row of its results from the
// same row of some operands, or sums over rows (RowRules.h). It begins and ends at products, or at convolutions and pooling, whose other side
// is narrower: wider ones are inner values too. Of a chain nothing but what leaves it has to exist whole.
#pragma once

#include "passes/fission/RowRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

#include <vector>

namespace stow {

struct RowChain {
  ChainRows rows;
  llvm::SetVector<mlir::Operation *> ops; ///< in the graph's order
  llvm::SetVector<mlir::Value> inner;     ///< none is a reshape of another
  llvm::SetVector<mlir::Value> joined;    ///< inner values that others read as well

  /// What `op` does with this chain's rows; none where they meet in it.
  std::optional<RowRule> ruleOf(mlir::Operation *op) const { return rowRuleOf(op, rows); }

  /// True where an op of the chain reads rows of the value by `use`.
  bool isRead(mlir::OpOperand &use) const;

  /// Elements in a row of the widest inner value that never exists whole; 0 without one.
  int64_t width() const;

  /// The chain's ops by the order in which they can run: all of one stage for some rows, then for
  /// others; a stage behind what depends on all rows of the one before. Ops of the backward stand as late as
  /// their readers in the chain let them.
  std::vector<llvm::SmallVector<mlir::Operation *>> stages() const;
};

/// What `value` is a reshape of.
mlir::Value unshaped(mlir::Value value);

/// The operands that read `value` under any shape; the reshapes are left out.
llvm::SmallVector<mlir::OpOperand *> readersOf(mlir::Value value);

/// The heads of a graph: products whose rows a loss reduces to a few numbers each, cross-entropy or any other, with their backward. Nothing
/// leaves them that is as wide as what the products read, and no product of the forward reads what is inside. Where the gradients of rows depend
/// on other rows, as those of a sum over a sequence, there are several stages.
std::vector<RowChain> findHeads(mlir::func::FuncOp graph);

/// Chains between two products, or convolutions, of the forward, with their backward, whose widest value is
/// wider than what leaves the chain and larger than its sums over rows. They have no op in common.
std::vector<RowChain> findChains(mlir::func::FuncOp graph);

} // namespace stow
