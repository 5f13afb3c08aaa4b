// The stow dialect: its types, attributes and interfaces, and helpers on them. The ops of each group are in ir/Stow<Group>Ops.h.
#pragma once

#include "ir/Sharing.h"
#include "runtime/base/Layout.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace stow {

class Gradients; // ir/Gradients.h

/// Class of an op under automatic mixed precision: what of it is stored in 16 bits. Arithmetic is in
/// f32 in all of them.
enum class PrecisionClass {
  Low,    ///< reads 16 bits and writes 16 bits, sums in f32: convolution, matmul
  Full,   ///< writes f32 unless the readers take 16 bits: losses, statistics, exponentials
  Widest, ///< writes 16 bits where its operands have 16 bits
  Same,   ///< hands elements on as they are: reshape, concat, gather
};

// Traits of the same names, which op definitions list.
template <typename Op> class LowPrecision : public mlir::OpTrait::TraitBase<Op, LowPrecision> {};
template <typename Op> class FullPrecision : public mlir::OpTrait::TraitBase<Op, FullPrecision> {};
template <typename Op> class SamePrecision : public mlir::OpTrait::TraitBase<Op, SamePrecision> {};

/// The class that the op's traits say; Widest without one.
PrecisionClass precisionClassOf(mlir::Operation *op);

/// How an op goes through its operands and results, by which a target says what order of dimensions it wishes
/// (Target::orderWish).
enum class Walk {
  Alike,    ///< in the same places, whatever their order
  Images,   ///< in the same places, of images [N,C,...]: pooling, normalizations; convolutions
  Matrices, ///< by whole rows and columns of factors
  Rows,     ///< by rows, found by their numbers
  Apart,    ///< each in places of its own: reshape, transpose, sums over dimensions
};

// Traits, which op definitions list.
template <typename Op> class WalksImages : public mlir::OpTrait::TraitBase<Op, WalksImages> {};
template <typename Op> class WalksMatrices : public mlir::OpTrait::TraitBase<Op, WalksMatrices> {};
template <typename Op> class WalksRows : public mlir::OpTrait::TraitBase<Op, WalksRows> {};
template <typename Op> class WalksApart : public mlir::OpTrait::TraitBase<Op, WalksApart> {};

/// What the op's traits say; Alike without one.
Walk walkOf(mlir::Operation *op);

/// Only a step that trains has the op: a gradient, a variant that saves something for one, an optimizer's step, or a copy of what a
/// backward reads.
template <typename Op> class OfTraining : public mlir::OpTrait::TraitBase<Op, OfTraining> {};
/// Its results are the next values of state: an optimizer's step.
template <typename Op> class UpdatesState : public mlir::OpTrait::TraitBase<Op, UpdatesState> {};
/// Its time is that of multiplying its operands, in their type, whatever it writes.
template <typename Op> class Multiplies : public mlir::OpTrait::TraitBase<Op, Multiplies> {};
/// Takes elements together over `axes`.
template <typename Op> class Reduces : public mlir::OpTrait::TraitBase<Op, Reduces> {};

/// One operation per result element.
double defaultFlops(mlir::Operation *op);

/// Stored bytes of all operands and results.
int64_t defaultBytesMoved(mlir::Operation *op);

} // namespace stow

#include "ir/StowDialect.h.inc"
#include "ir/StowEnums.h.inc"
#include "ir/StowInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/StowAttributes.h.inc"

namespace stow {

// Names of discardable attributes (StowDialect.td explains them).
inline constexpr llvm::StringLiteral kFormAttr = "stow.form";
inline constexpr llvm::StringLiteral kRoleAttr = "stow.role";
inline constexpr llvm::StringLiteral kNameAttr = "stow.name";
inline constexpr llvm::StringLiteral kKindAttr = "stow.kind";
inline constexpr llvm::StringLiteral kInitAttr = "stow.init";
inline constexpr llvm::StringLiteral kUnsavedAttr = "stow.unsaved";
inline constexpr llvm::StringLiteral kStoredAttr = "stow.stored";
inline constexpr llvm::StringLiteral kStateAttr = "stow.state";
inline constexpr llvm::StringLiteral kOutputActivationAttr = "stow.output_activation";
inline constexpr llvm::StringLiteral kNotesAttr = "stow.notes";
inline constexpr llvm::StringLiteral kPhaseAttr = "stow.phase";
inline constexpr llvm::StringLiteral kRecomputeAttr = "stow.recompute";
inline constexpr llvm::StringLiteral kInPlaceAttr = "stow.in_place";
inline constexpr llvm::StringLiteral kInsideAttr = "stow.inside";
inline constexpr llvm::StringLiteral kWorkspaceAttr = "stow.workspace";
inline constexpr llvm::StringLiteral kOffsetsAttr = "stow.offsets";
inline constexpr llvm::StringLiteral kOffsetAttr = "stow.offset";
inline constexpr llvm::StringLiteral kWorkspaceOffsetAttr = "stow.workspace_offset";

/// The type of a value that is a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Layout of a tensor type: its encoding, or row-major.
Layout layoutOf(mlir::Type type);

/// The type with another layout (row-major: no encoding).
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const Layout &layout);

/// The type without its encoding.
mlir::RankedTensorType withoutLayout(mlir::RankedTensorType type);

/// The type without gaps: what a part of a larger tensor is by itself.
mlir::RankedTensorType withoutPitch(mlir::RankedTensorType type);

/// Bytes from the tensor's first to its last element in memory, block padding and gaps included.
Bytes storedBytesOf(mlir::Type type);

/// The same without the gaps: what a copy of the tensor would take.
Bytes ownBytesOf(mlir::Type type);

/// `part`, with the layout it has where it lies as a box inside a tensor of type `whole`; none
/// where no layout says that.
std::optional<mlir::RankedTensorType> typeInside(mlir::Type whole, mlir::RankedTensorType part);

/// Bytes from the first element of a tensor of type `whole` to the one at `starts`.
Bytes offsetInside(mlir::Type whole, llvm::ArrayRef<int64_t> starts);

/// Element type as stored; i1 takes one byte.
DType dtypeOf(mlir::Type elementType);

/// Same shapes and element types, layouts ignored.
bool sameLogicalTypes(mlir::TypeRange left, mlir::TypeRange right);

/// Same shapes, and elements of the same type or both of f32, f16 and bf16: in mixed precision a tensor
/// is stored in another of these than those beside it.
bool compatibleTypes(mlir::TypeRange left, mlir::TypeRange right);

/// What both element types are exact in: the type itself where they are equal, else f32 for f32, f16 and
/// bf16; none for others.
mlir::Type commonType(mlir::Type left, mlir::Type right);

/// NumPy broadcast of two shapes, or failure.
mlir::FailureOr<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> left,
                                                            llvm::ArrayRef<int64_t> right);

/// Extents of a window op's output over any number of spatial dimensions: convolution and pooling.
/// `pads` are those before each dimension (top, left), then those after (bottom, right). Emits at
/// `location` when a constraint fails.
mlir::FailureOr<llvm::SmallVector<int64_t, 3>>
windowOutput(std::optional<mlir::Location> location, llvm::ArrayRef<int64_t> spatial,
             llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides,
             llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

/// The user's name of an op: the model file's node name, or the op's own name.
std::string sourceNameOf(mlir::Location location);

/// "model.onnx:12 (/layer1/conv1/Conv)": the full place for reports and errors.
std::string sourcePlaceOf(mlir::Location location);

} // namespace stow
