// A model run as the compiler runs it: its evaluation graph, on the host, in this process.
#pragma once

#include "tests/reference/Evaluator.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace stow::onnx {

/// The results of a model in the form "model" on tensors for its arguments. Throws Refusal where it does not compile.
std::vector<reference::Tensor> runCompiled(mlir::ModuleOp model,
                                           const std::vector<reference::Tensor> &arguments);

} // namespace stow::onnx
