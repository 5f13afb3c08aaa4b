// Which tensors of a model are trained: what `--list-parameters` prints and a plan counts.
#pragma once

#include "compiler/import/Import.h"
#include "runtime/format/Plan.h"

namespace stow {

/// The same of a model in the model form that was not imported: its arguments say what they are.
ImportReport reportOf(mlir::ModuleOp model);

/// Tensors and elements by kind.
TensorCounts countTensors(const ImportReport &report);

/// One line per tensor (kind, name, shape, elements, reason), then the counts.
std::string renderTensors(const ImportReport &report);

} // namespace stow
