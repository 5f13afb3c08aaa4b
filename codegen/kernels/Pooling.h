// What the kernels of pooling share, on the host and on devices (PoolKernels.cpp says what they compute).
#pragma once

#include "codegen/kernels/Emit.h"

namespace stow {

/// Windows with no more taps than this are unrolled.
inline constexpr int64_t kUnrolledTaps = 16;

/// One spatial dimension.
struct Axis {
  int64_t inputs, outputs, taps, stride, pad, dilation;

  /// False where no window reaches beyond the input.
  bool hasEdges() const {
    return pad > 0 || (outputs - 1) * stride + (taps - 1) * dilation >= inputs;
  }
};

llvm::SmallVector<Axis> axesOf(mlir::Operation *op, mlir::RankedTensorType input,
                               mlir::RankedTensorType output);

int64_t windowSize(llvm::ArrayRef<Axis> axes);

/// Strides of `from` in the first two dimensions and 0 in those of space.
llvm::SmallVector<int64_t> withoutSpace(llvm::ArrayRef<int64_t> from);

/// What all pooling kernels are written with.
class Pooling {
public:
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::Value>,
                                                                 mlir::Value, mlir::ValueRange)>;

  Pooling(KernelFrame &frame, llvm::SmallVector<Axis> axes)
      : axes(std::move(axes)), lanes(frame.lanes), builder(lanes.getBuilder()),
        location(lanes.getLocation()) {}

  /// Carries values over the taps of a window: `body` gets the tap along each axis, its number in the
  /// window and the values so far.
  llvm::SmallVector<mlir::Value> overTaps(mlir::ValueRange start, Body body);
  /// The same over numbers [0, counts[axis]) along each axis.
  llvm::SmallVector<mlir::Value> over(llvm::ArrayRef<int64_t> counts, mlir::ValueRange start,
                                      Body body);

  /// Number of the element along axis `axis`, from access `access` of the row: i32.
  Term position(const Chunk &chunk, const RowPlace &place, const Space::Dim &lane,
                size_t access) const;

  Term number(const Chunk &chunk, mlir::Value index, mlir::Type type) const;
  mlir::Value plus(mlir::Value a, mlir::Value b) const;
  mlir::Value times(mlir::Value a, int64_t by) const;
  Term constant(const Chunk &chunk, mlir::Type element, double value) const;

  static Term both(std::optional<Term> a, Term b) { return a ? *a & b : b; }

  /// Taps inside the input of the window that begins at `first` along `axis`.
  Term tapsInside(const Axis &axis, Term first) const;

  llvm::SmallVector<Axis> axes;
  Lanes &lanes;
  mlir::OpBuilder &builder;
  mlir::Location location;

private:
  using Numbers = llvm::SmallVector<mlir::Value>;

  Numbers unrolled(llvm::ArrayRef<int64_t> counts, Numbers &taps, int64_t number, Numbers values,
                   Body body);
  Numbers nested(llvm::ArrayRef<int64_t> counts, Numbers &taps, mlir::Value number,
                 mlir::ValueRange values, Body body);
};

/// The windows of a chunk of results.
class Window {
public:
  /// `places` are the lanes in which positions are computed: one where all results of the chunk lie at
  /// the same place of space.
  Window(const Pooling &pooling, const Chunk &chunk, const Chunk &places)
      : pooling(pooling), chunk(chunk), places(places) {}
  virtual ~Window() = default;

  /// True in the lanes whose tap lies inside x; nothing where all do.
  virtual std::optional<Term> isInside(llvm::ArrayRef<mlir::Value> taps) const;
  /// The elements of x at a tap, 0 outside.
  virtual Term load(llvm::ArrayRef<mlir::Value> taps, std::optional<Term> inside) const = 0;

  llvm::SmallVector<Term> first; ///< position of the first tap, by axis: i32

protected:
  const Pooling &pooling;
  const Chunk &chunk;
  const Chunk &places;
};

/// Computes the results of a chunk; the function stores result `i`.
using WindowBody =
    llvm::function_ref<void(const Chunk &, const Window &, llvm::function_ref<void(Term, size_t)>)>;

} // namespace stow
