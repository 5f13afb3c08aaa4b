// How the operands and results of an op share storage: what AliasOpInterface lists.
//
//   View           y = reshape x        always: y is the bytes of x, and nothing runs
//   PartOfOperand  y = slice x          where it is placed so: y is a box of x, and nothing runs
//   PartOfResult   y = concat a, b      where it is placed so: a is made as a box of y, not copied
//   Overwrite      y = exp x            where x dies: y is written over x
//   Update         v = sgd w, dw        always: v, the new value of the state w, is written over it
//
// What passes decide is written on the op: the attribute stow.inside has the numbers of the parts
// that are placed (of results for PartOfOperand, of operands for PartOfResult), stow.in_place has
// pairs of result and operand.
#pragma once

#include "runtime/base/Layout.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace stow {

enum class SharingKind : uint8_t { View, PartOfOperand, PartOfResult, Overwrite, Update };

/// One result of an op and one operand that share storage, or may.
struct Sharing {
  SharingKind kind = SharingKind::View;
  unsigned result = 0, operand = 0;
  /// Of parts: the element of the whole where the box begins; its extents are those of the part.
  llvm::SmallVector<int64_t, 0> starts = {};
  /// Of views: dimensions of the operand in the order of the result's elements; empty: as they are.
  llvm::SmallVector<int64_t, 0> permutation = {};

  bool isPart() const {
    return kind == SharingKind::PartOfOperand || kind == SharingKind::PartOfResult;
  }
  /// The side that lies in the other's storage; for all kinds but one it is the result.
  mlir::Value partIn(mlir::Operation *op) const;
  /// The other side.
  mlir::Value wholeIn(mlir::Operation *op) const;
  /// What stow.inside calls the part.
  unsigned partNumber() const { return kind == SharingKind::PartOfResult ? operand : result; }
  /// Bytes from the first element of the whole to the part's, 0 for all kinds but parts.
  Bytes offsetIn(mlir::Operation *op) const;
};

using Sharings = llvm::SmallVector<Sharing, 2>;

/// Everything that `op` lists; nothing for ops without the interface.
Sharings sharingsOf(mlir::Operation *op);

/// Those of the kinds PartOfOperand and PartOfResult, in order.
Sharings partsOf(mlir::Operation *op);

/// True for views and updates, and for what stow.inside or stow.in_place of `op` has.
bool isTaken(mlir::Operation *op, const Sharing &sharing);

/// Adds the part to stow.inside.
void takePart(mlir::Operation *op, const Sharing &part);

/// The sharing by which `result` lies in the storage of an operand: the first that is taken, of any
/// kind but PartOfResult; none for results that have storage of their own.
std::optional<Sharing> sharingOf(mlir::OpResult result);

/// The operand whose bytes the op's first result is without any code running: what a view, or a
/// part that is placed inside its operand, looks at.
std::optional<unsigned> viewedOperand(mlir::Operation *op);

/// The same of one part of the result of an op, placed or not; none where the op has no such part.
std::optional<Sharing> partOfResult(mlir::OpOperand &use);

/// True when the op that reads `use` writes the new value of state over it.
bool isUpdate(mlir::OpOperand &use);

/// The result of a view that reads `use`, with the type that it has where the operand lies as
/// `part` in a larger tensor; none where the reader is no view then.
std::optional<std::pair<mlir::Value, mlir::RankedTensorType>>
viewOfPart(mlir::OpOperand &use, mlir::RankedTensorType part);

/// The other way: what `value` is a view of, with the type of that where `value` has the type
/// `part`.
std::optional<std::pair<mlir::Value, mlir::RankedTensorType>>
viewedAsPart(mlir::Value value, mlir::RankedTensorType part);

} // namespace stow
