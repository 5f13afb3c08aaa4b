// Why the importer refuses a node test, in the words of the table: the first whose text a refusal has.
#include "tests/compiler/import/NodeCase.h"

#include <utility>

namespace stow::onnx {
namespace {

constexpr std::pair<const char *, const char *> kCauses[] = {
    {"operators of this domain", "a domain other than ai.onnx"},
    {"this operator is not supported", "an operator that is not imported"},
    {"the model names no opset", "a domain other than ai.onnx"},
    {"of domain ai.onnx; expected", "an operator's version before opset 7"},
    {"is no tensor with a shape", "a sequence or an optional value as an input"},
    {"reads the sequence", "a sequence as an output"},
    {"expects a sequence", "a sequence as an input"},
    {"element type ",
     "elements that are neither float, double, float16, bfloat16, int64, int32 nor bool"},
    {"no static extent", "a tensor without elements"},
    {"has no elements", "a tensor without elements"},
    {"to an empty", "a tensor without elements"},
    {"without elements", "a tensor without elements"},
    {"reduces an empty", "a tensor without elements"},
    {"'qk_matmul_output'", "scores of an Attention as an output"},
    {"nonpad_kv_seqlen", "lengths of keys of an Attention"},
    {"_window_size'", "a window of an Attention"},
    {"its mask is read", "the mask of a Dropout as an output"},
    {"holds peepholes", "peepholes of an LSTM"},
    {"has a batch of its own in opset 8", "a Scan of opset 8"},
    {"'keep_aspect_ratio_policy'", "a policy for the aspect ratio of a Resize"},
    {"tf_crop_and_resize", "a Resize that crops"},
    {"works on integers", "integers padded by their own elements"},
    {"the host library does not compute with f64", "a product of doubles, which is not compiled"},
    {"it must be constant", "what shapes depend on is data in every form"},
};

} // namespace

std::string causeOf(const std::string &reason) {
  for (const auto &[text, cause] : kCauses)
    if (reason.find(text) != std::string::npos)
      return cause;
  return "";
}

} // namespace stow::onnx
