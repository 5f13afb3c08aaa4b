// What passes ask of the device that a step is planned for, op by op; codegen/<device> answers.
//
//   how does it run?       libraryCall, decomposes      a call, a generated kernel, or other ops
//   what does it need?     query, savedType             scratch, and what its gradient reads
//   what does it beside?   sumsRows                     sums of what a product reads anyway
//   how should it lie?     orderWish, query             orders of images and matrices, of weights
//   how long to launch?    launchBytes                  in bytes moved meanwhile
//   in what types?         takesType, takesWide         what a model may compute in, casts
//   where may it lie?      alignment, takesPart         beginnings of buffers, parts of larger ones
//
// The dialect knows none of this: another device gives other answers about the same module.
#pragma once

#include "ir/Stow.h"
#include "runtime/format/CommandOp.h"

#include <optional>
#include <string>

namespace stow {

class MatmulOp;
class MaxPoolOp;

/// What an op wants of the order of its operands' and results' dimensions.
enum class OrderWish {
  None,         ///< takes that of its neighbours
  ChannelsLast, ///< images with their channels innermost
  Matrices,     ///< operands with whole rows or columns, results with whole rows
  RowMajor,     ///< what it reads and writes row by row
};

/// What an op wants by how it walks over what it reads and writes (walkOf), on a device that is fast on channels-last images.
inline OrderWish wishOf(mlir::Operation *op) {
  switch (walkOf(op)) {
  case Walk::Images:
    return OrderWish::ChannelsLast;
  case Walk::Matrices:
    return OrderWish::Matrices;
  case Walk::Rows:
    return OrderWish::RowMajor;
  case Walk::Alike:
  case Walk::Apart:
    break;
  }
  return OrderWish::None;
}

class Target {
public:
  virtual ~Target() = default;

  /// What `op` runs as where that is no generated kernel of its own: a call of the device's library, or a sequence or product
  /// made of several; none where it runs as a generated kernel, or as nothing (views, constants).
  virtual std::optional<CommandOp> libraryCall(mlir::Operation *op) const = 0;

  /// True where ops that `op` is made of do better than it does: stow-expand-batch-norm replaces
  /// such normalizations.
  virtual bool decomposes(mlir::Operation *op) const = 0;

  /// One way to run a library call.
  struct Implementation {
    std::string name;         ///< what the program asks the library for, e.g. an engine
    Bytes workspaceBytes = 0; ///< its scratch, exactly
    double slowdown = 1;      ///< its time by that of the fastest, as far as anyone can tell
  };

  struct Requirements {
    Bytes workspaceBytes = 0;          ///< scratch of one call at the planned thread count
    Bytes heapBytes = 0;               ///< what the library takes from the heap beside it
    llvm::SmallVector<Layout> layouts; ///< operands, then results: what the implementation wants
    std::string implementation;        ///< the library's name for it
    bool isReference = false;          ///< slow code that only exists so that the call works
    bool isConverted = false;          ///< computed in f32, which 16-bit operands become first
    /// Where the planner may choose: all of them, the fastest first, which is the one above.
    llvm::SmallVector<Implementation> choices;
  };

  /// Asks for the best implementation of `op`, which is a library call. Positions (operands, then
  /// results) set in `freeLayouts` may be laid out as the library likes; the others are taken from
  /// the types. Emits an error at the op and fails when no implementation takes it.
  virtual mlir::FailureOr<Requirements> query(mlir::Operation *op,
                                              llvm::ArrayRef<bool> freeLayouts) const = 0;

  /// What max pooling saves for its gradient besides its operands and results: a tensor that only
  /// this device's gradient reads.
  virtual mlir::RankedTensorType savedType(MaxPoolOp pool) const = 0;

  /// True when the library call of `product` can sum its factor `factor`, 0 or 1, over the rows that it
  /// contracts, into a vector of the type `sums`, in the same pass over the factor.
  virtual bool sumsRows(mlir::Operation *product, unsigned factor,
                        mlir::RankedTensorType sums) const = 0;

  /// A product is fast where its operands and its result have rows of a multiple of that many elements; 1: wherever.
  virtual int64_t productRowStep(MatmulOp product) const = 0;

  /// Memory moves about that many bytes while a launch is prepared: launches that move less are worth joining. 0: launches
  /// cost next to nothing.
  virtual Bytes launchBytes() const = 0;

  virtual OrderWish orderWish(mlir::Operation *op) const = 0;

  /// True when `op` runs with the floating-point type `type` at operand `position`.
  virtual bool takesType(mlir::Operation *op, unsigned position, mlir::FloatType type) const = 0;

  /// In mixed precision: true when `op`, a product or convolution, may have operand or result `position`
  /// (operands first) in f32 beside others in `low`, its 16-bit type. Where it may not, a cast stands
  /// in front of it, or behind it.
  virtual bool takesWide(mlir::Operation *op, unsigned position, mlir::FloatType low) const = 0;

  /// Buffers begin at multiples of this many bytes, and so does what an op takes as a part of a
  /// larger tensor without gaps.
  virtual Bytes alignment() const = 0;

  /// And workspaces at multiples of this, a multiple of alignment().
  virtual Bytes workspaceAlignment() const { return alignment(); }

  /// True when `op` may have operand or result `position` (operands first) as a part of a larger
  /// tensor, wherever that begins, and still gives the same bits; `part` is its type there, with the
  /// gaps. A type without gaps asks whether there are any gaps that it takes.
  virtual bool takesPart(mlir::Operation *op, unsigned position,
                         mlir::RankedTensorType part) const = 0;
};

} // namespace stow
