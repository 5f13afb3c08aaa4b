// ONNX model file -> model form (F0) of the stow dialect.
//
// The function @model takes the data inputs, then the parameters, then the statistics, each with
// stow.name, stow.kind and, for state, stow.init: #stow.init or the values themselves (dense, or
// dense_resource from 4 KiB on; the resource shares the file's bytes). Its results are the graph's
// outputs. Every op carries the location NameLoc("node name", "model.onnx":node number:0).
// docs/onnx-ops.md lists the supported ops; Roles.h says which tensors become parameters.
#pragma once

#include "compiler/eager/Program.h"
#include "runtime/format/Loss.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stow {

/// A model file as it was read first, which imports at several batches share.
class ModelFile;
std::shared_ptr<ModelFile> newModelFile();

struct ImportOptions {
  /// Extent of dimension 0 of every data input; absent keeps the file's.
  std::optional<int64_t> batch;

  /// Extents of the data inputs' other dimensions, by the symbol that the file has in their place.
  std::map<std::string, int64_t> extents;

  /// Graph inputs that carry data; empty: all but those that a module has named.
  std::vector<std::string> dataInputs;

  /// Glob patterns of inputs and initializers that are trained, whatever the rules say of them.
  std::vector<std::string> parameters;

  /// How parameters without data start: pytorch, kaiming, xavier, normal[:stddev] or
  /// uniform[:bound]. See Initialization.h.
  std::string init = "pytorch";

  /// Recorded as the module's stow.seed: initial values are drawn from it by parameter name.
  uint64_t seed = 0;

  /// Glob patterns of parameter names that are not trained; they become statistics.
  std::vector<std::string> frozen;

  /// PyTorch's momentum of every batch normalization, instead of the file's.
  std::optional<double> batchNormMomentum;

  /// Shared by imports with copies of these options; null: each reads the file.
  std::shared_ptr<ModelFile> file;

  /// Imports what an exporter changed (folded norms, merged or copied parameters) as it stands.
  bool allowFolded = false;
};

/// What became of one tensor of the model file.
struct ImportedTensor {
  enum class Kind {
    Trained, ///< a parameter
    Frozen,  ///< a parameter that --freeze keeps as it is
    Statistic, ///< running mean or variance of a batch normalization, a buffer that every step updates
    Constant, ///< a float tensor that is computed with
    Unused,   ///< a stated parameter that no output depends on, or that torch.export replaced by
              ///< one it is tied with; its shape is unknown
  };
  Kind kind = Kind::Constant;
  std::string name;
  std::vector<int64_t> shape;
  std::string reason; ///< "graph signature", or the rule that decided
};

/// Where the parameters of an import come from.
struct ImportReport {
  std::string source; ///< what decided: "the file's graph signature", "rules", "the model file"
  std::vector<ImportedTensor> tensors; ///< in the order of use
  /// Float initializers that no rule reaches: "'scale' (Max)", with the operators that read them.
  std::vector<std::string> unreached = {};
};

/// Imports `path`. Null after emitting diagnostics: one per obstacle, at the node's location.
/// Loads the dialects it needs into `context`. Fills in `report` where it is not null.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context, const std::string &path,
                                             const ImportOptions &options,
                                             ImportReport *report = nullptr);

/// What PyTorch eager runs for a step of the file with `loss`, of `lossOutput` where that names one. Absent where the file does not
/// import; prints nothing.
std::optional<eager::Program> importEager(mlir::MLIRContext &context, const std::string &path,
                                          const ImportOptions &options, const LossSpec &loss,
                                          const std::string &lossOutput);

} // namespace stow
