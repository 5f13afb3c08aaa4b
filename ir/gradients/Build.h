// Shorthand for gradient formulas: builds stow ops at one location.
#pragma once

#include "ir/Gradients.h"
#include "ir/StowElementwiseOps.h"

namespace stow {

/// Builds the ops of one gradient formula. Scalars are rank-0 constants that broadcast.
class Formula {
public:
  Formula(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  template <typename Op, typename... Args> Op build(Args &&...args) {
    return Op::create(builder, location, std::forward<Args>(args)...);
  }

  mlir::Value neg(mlir::Value x) { return build<NegOp>(x).getY(); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return build<AddOp>(a, b).getY(); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return build<SubOp>(a, b).getY(); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return build<MulOp>(a, b).getY(); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return build<DivOp>(a, b).getY(); }
  mlir::Value sub(double a, mlir::Value b) { return sub(scalar(a, b), b); }
  mlir::Value mul(mlir::Value a, double b) { return mul(a, scalar(b, a)); }
  mlir::Value add(mlir::Value a, double b) { return add(a, scalar(b, a)); }
  mlir::Value compare(mlir::Value a, double b, llvm::StringRef predicate) {
    return build<CompareOp>(a, scalar(b, a), predicate).getMask();
  }
  /// 0 where the mask holds, else `x`.
  mlir::Value zeroWhere(mlir::Value mask, mlir::Value x) {
    return build<SelectOp>(mask, scalar(0, x), x).getY();
  }

  /// A rank-0 constant of the element type of `like`.
  mlir::Value scalar(double value, mlir::Value like);

  /// `x` under another shape; `x` itself when it has that shape.
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);

  /// `x` repeated to `shape`; `x` itself when it has that shape.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape);

  /// Sum over `axes`, which disappear; `x` itself when there are none.
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> axes);

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// Sums `gradient` over the dimensions along which NumPy's rule repeated a value of `shape`; the
/// result has that shape.
mlir::Value sumToShape(Formula &f, mlir::Value gradient, llvm::ArrayRef<int64_t> shape);

} // namespace stow
