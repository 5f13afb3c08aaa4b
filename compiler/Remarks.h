// A remark per value of the training step: what the plan does with it, and what that costs.
#pragma once

#include "passes/order/CostModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace stow {

/// Reads the decisions off a placed module, as YAML (docs/memory-budget.md has the keys). One entry
/// per value of the training graph in program order; recomputed clones count for their original.
std::string describeDecisions(mlir::ModuleOp placed, const CostModel &costs);

/// Writes them to a file. Throws Error(BadInput) when it cannot be written.
void writeDecisions(mlir::ModuleOp placed, const CostModel &costs, const std::string &path);

} // namespace stow
