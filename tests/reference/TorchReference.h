// One stored PyTorch reference (tests/data/op_references): arrays of doubles and attributes.
#pragma once

#include "tests/reference/Evaluator.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace stow::reference {

struct TorchReference {
  std::string name;
  nlohmann::json attributes;
  std::map<std::string, Tensor> arrays; ///< in0, out0, dout0, din0, ...
  std::string model;                    ///< serialized ONNX, or empty

  bool has(const std::string &array) const { return arrays.contains(array); }
};

/// Reads `<name>.npz`. Throws stow::Error.
TorchReference loadTorchReference(const std::string &name);

/// Names of all references, sorted.
std::vector<std::string> torchReferenceNames();

} // namespace stow::reference
