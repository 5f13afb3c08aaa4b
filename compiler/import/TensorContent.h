// What a tensor's values and its name say about its origin: masks, constants, copies of another.
#pragma once

#include "compiler/import/OnnxModel.h"

namespace stow::onnx {

/// True when all elements are the same bits.
bool isUniform(const Tensor &tensor);

/// True for what is added to scores so that a softmax ignores them: a float tensor with an infinity
/// or an element of magnitude 1e8 and more, or one of two values, 0 and at most -1000.
bool isAdditiveMask(const Tensor &tensor);

/// True for a float tensor that holds 0 and 1, both, and nothing else.
bool isBinaryMask(const Tensor &tensor);

/// A hash of the elements that does not depend on their order: a transposed copy has the same. With
/// the element count it tells copies, unless all elements are alike.
uint64_t contentHash(const Tensor &tensor);

/// True for names that an exporter makes up for what it computed: "onnx::Conv_41",
/// "/layer/Constant_output_0", "val_12", "27". Modules name their parameters otherwise.
bool isExporterMade(const std::string &name);

} // namespace stow::onnx
