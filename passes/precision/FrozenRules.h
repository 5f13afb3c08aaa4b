// What --frozen says of the parameters that are not trained.
#pragma once

#include "ir/Graphs.h"
#include "runtime/base/Quantization.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/GlobPattern.h"

namespace stow {

/// Of the parameters that a pattern matches.
struct FrozenRule {
  llvm::GlobPattern pattern;
  std::string text;
  mlir::FloatType type; ///< null, without a scheme: as without a rule
  std::optional<Quantization> scheme;
};

/// Reads "PATTERN:TYPE", or a type alone for all; fails with a diagnostic at the module.
mlir::FailureOr<llvm::SmallVector<FrozenRule>> readFrozenRules(mlir::ModuleOp module,
                                                               llvm::ArrayRef<std::string> texts);

/// The last rule that matches decides; null: none does.
const FrozenRule *ruleFor(llvm::StringRef name, llvm::ArrayRef<FrozenRule> rules);

/// The arguments of every frozen parameter in all graphs, by its name.
llvm::MapVector<mlir::StringAttr, llvm::SmallVector<mlir::BlockArgument>>
frozenParameters(mlir::ModuleOp module);

} // namespace stow
