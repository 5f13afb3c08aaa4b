// What an exporter did to a model that training must not inherit.
//
// Exporters make models for inference: they fold batch normalizations into convolutions, compute
// with parameters once and store the results, and keep one of several tensors of equal values. Such
// a file computes the same outputs, but training it is not training the module it came from.
//
// With a graph signature every operation of the exported program says which parameters it read
// (node metadata); the nodes made from it must read those parameters still. Without one, names and
// values tell: PyTorch names what it computed after its reader ("onnx::Conv_41"), and a copy has
// the values of the original.
#pragma once

#include "compiler/import/Roles.h"

namespace stow::onnx {

struct ExportFindings {
  std::vector<std::string> changes;  ///< a line each; not empty: the file is not the module
  std::vector<std::string> warnings; ///< what may be missing

  /// By initializer: further stated parameters that are the same tensor in the module too.
  std::map<std::string, std::vector<std::string>> ties;
  std::vector<std::string> unused; ///< stated parameters that no operation reads
};

/// Compares what `model` computes with what it says about itself.
ExportFindings checkExport(const Model &model, const Roles &roles);

/// The message for `findings.changes`: causes, and the call that exports `path` again.
std::string describeChanges(const ExportFindings &findings, const std::string &path);

/// Undoes the merging of equal initializers where the file still has the names: the legacy exporter
/// in evaluation mode leaves "ln2.weight = Identity(ln1.weight)". Each gets its own tensor again.
void restoreMerged(Model &model);

} // namespace stow::onnx
