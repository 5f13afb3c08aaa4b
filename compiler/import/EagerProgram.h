// What PyTorch eager runs for a step of a file: the calls of ATen that its nodes were made of.
//
// PyTorch's exporter notes at each node the operation of the program that it comes from, "%linear = aten.linear.default(%x, ...)";
// nodes of one operation are one call. Nodes of other files are calls of the operator that they stand for.
#pragma once

#include "compiler/eager/Program.h"
#include "compiler/import/BatchShapes.h"
#include "compiler/import/OnnxModel.h"
#include "runtime/format/Loss.h"

#include <set>

namespace stow::onnx {

/// The program with its loss, of the output `lossOutput` or, where that is empty, the first.
eager::Program eagerProgram(const Model &model, const BatchShapes &shapes,
                            const std::set<std::string> &trained, const LossSpec &loss,
                            const std::string &lossOutput);

} // namespace stow::onnx
