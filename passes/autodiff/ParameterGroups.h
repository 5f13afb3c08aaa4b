// Which parameters are decayed, and how fast each learns.
#pragma once

#include "ir/Stow.h"
#include "runtime/format/Optimizer.h"

#include <string>

namespace stow {

/// What the parameters called `names` are updated with, weight decay filled in: by the first of
/// `rules` that matches; then by `noDecay`, which names kinds of parameters of rank 1 or less
/// without decay: "norm", those that a normalization of @eval reads or that are factors of a
/// product, and "bias", the others. Emits an error for a rule or kind that has no parameter.
mlir::FailureOr<llvm::SmallVector<ParameterGroup>>
assignGroups(mlir::ModuleOp module, llvm::ArrayRef<llvm::StringRef> names,
             llvm::ArrayRef<ParameterGroup> rules, llvm::ArrayRef<std::string> noDecay,
             double weightDecay);

/// One sentence per group of what assignGroups returned: settings, number of parameters and
/// elements, names. None where all parameters are in one group without a rule.
llvm::SmallVector<std::string> describeGroups(mlir::ModuleOp module,
                                              llvm::ArrayRef<llvm::StringRef> names,
                                              llvm::ArrayRef<ParameterGroup> groups);

} // namespace stow
