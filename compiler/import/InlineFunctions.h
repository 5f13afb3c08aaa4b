// Functions that a file defines itself, in the places of their calls.
#pragma once

#include "compiler/import/OnnxModel.h"

#include <functional>

namespace stow::onnx {

/// Puts the nodes of its functions in the place of their calls, in the functions' own calls too, but for the nodes that are
/// imported as they stand (`isWhole`). A tensor of a body gets the call's name before its own. A body that
/// cannot be read in this model becomes an obstacle of the model, and its call stays.
void inlineFunctions(Model &model, const std::function<bool(const Node &)> &isWhole);

} // namespace stow::onnx
