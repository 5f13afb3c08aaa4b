// Whether kernels and products that take longer to be launched than to run are joined (stow-batch-products, stow-join-small-maps).
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace stow {

/// On modules: "joined", some are; "apart", none may be, since what is joined lives together. Absent: none is.
inline constexpr llvm::StringLiteral kSmallLaunchesAttr = "stow.small_launches";

inline bool haveSmallLaunches(mlir::ModuleOp module, llvm::StringRef word) {
  auto known = module->getAttrOfType<mlir::StringAttr>(kSmallLaunchesAttr);
  return known && known.getValue() == word;
}
inline bool areLaunchesApart(mlir::ModuleOp module) { return haveSmallLaunches(module, "apart"); }
inline bool areLaunchesJoined(mlir::ModuleOp module) { return haveSmallLaunches(module, "joined"); }

inline void setLaunchesApart(mlir::ModuleOp module) {
  module->setAttr(kSmallLaunchesAttr, mlir::StringAttr::get(module.getContext(), "apart"));
}
inline void setLaunchesJoined(mlir::ModuleOp module) {
  module->setAttr(kSmallLaunchesAttr, mlir::StringAttr::get(module.getContext(), "joined"));
}

} // namespace stow
