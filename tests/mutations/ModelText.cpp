#include "tests/mutations/ModelText.h"

#include "runtime/base/Error.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include <stdexcept>

namespace stow::test {

namespace {

using google::protobuf::TextFormat;

/// What a text is, is not said.
struct Silent : google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string &) override {}
};

} // namespace

std::string textOfModel(const std::string &bytes) {
  ::onnx::ModelProto model;
  std::string text;
  if (!model.ParseFromString(bytes) || !TextFormat::PrintToString(model, &text))
    throw std::runtime_error("no model");
  return text;
}

std::string modelOfText(const std::string &text) {
  ::onnx::ModelProto model;
  Silent silent;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.AllowPartialMessage(true);
  std::string bytes;
  if (!parser.ParseFromString(text, &model) || !model.SerializePartialToString(&bytes))
    throw Error::badInput("the text means no model");
  return bytes;
}

} // namespace stow::test
