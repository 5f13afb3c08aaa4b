// ONNX models as protobuf's text, in which an edit of a line, a word or a number gives another model and
// not another encoding.
#pragma once

#include <string>

namespace stow::test {

/// Throws where the bytes are no model.
std::string textOfModel(const std::string &bytes);

/// The bytes of the model that the text means. Throws Error(BadInput) where it means none.
std::string modelOfText(const std::string &text);

} // namespace stow::test
