// The ONNX standard's node tests: one operator, or the body that the standard gives it, with inputs and the outputs that are
// expected. make_conformance.py writes their files.
//
// What a converter can do depends on what it knows: each case is imported with all of its inputs as data, with some of them and
// with all of them in the file. It is right where each of these imports is refused or gives the outputs, and one gives them.
#pragma once

#include "tests/reference/Evaluator.h"

#include "compiler/import/OnnxModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stow::onnx {

struct NodeCase {
  std::string name;
  std::string op;            ///< the operator, also of a case with its body
  double relative, absolute; ///< the standard's tolerance
};

/// The cases of a folder that make_conformance.py wrote.
std::vector<NodeCase> readCases(const std::filesystem::path &folder);

/// What runs a model refuses it, with its reason.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Computes the results of a model on tensors for its arguments.
using Run = std::function<std::vector<reference::Tensor>(mlir::ModuleOp,
                                                         const std::vector<reference::Tensor> &)>;

/// The reference evaluator.
std::vector<reference::Tensor> evaluateModel(mlir::ModuleOp module,
                                             const std::vector<reference::Tensor> &arguments);

struct Verdict {
  enum class Kind { Right, Refused, Wrong };
  Kind kind = Kind::Refused;
  bool isOfConstants = false; ///< right, but with all inputs in the file alone
  bool isDrawn = false;       ///< right in shapes and types: its numbers are random
  std::string reason;         ///< why it is refused, or what is wrong
};

/// Imports and runs one case in all forms. `run` takes part in what is compared only.
Verdict judge(const std::filesystem::path &folder, const NodeCase &test, const Run &run);

/// What the table calls the cause of a refusal; empty where it knows none for `reason`.
std::string causeOf(const std::string &reason);

} // namespace stow::onnx
