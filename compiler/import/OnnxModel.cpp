#include "compiler/import/OnnxModel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace stow::onnx {

std::string nameOf(ElementType type) {
  switch (type) {
  case ElementType::Undefined:
    return "undefined";
  case ElementType::Float:
    return "float";
  case ElementType::UInt8:
    return "uint8";
  case ElementType::Int8:
    return "int8";
  case ElementType::UInt16:
    return "uint16";
  case ElementType::Int16:
    return "int16";
  case ElementType::Int32:
    return "int32";
  case ElementType::Int64:
    return "int64";
  case ElementType::String:
    return "string";
  case ElementType::Bool:
    return "bool";
  case ElementType::Float16:
    return "float16";
  case ElementType::Double:
    return "double";
  case ElementType::UInt32:
    return "uint32";
  case ElementType::UInt64:
    return "uint64";
  case ElementType::BFloat16:
    return "bfloat16";
  }
  return absl::StrCat("type ", static_cast<int32_t>(type));
}

std::optional<int64_t> byteWidthOf(ElementType type) {
  switch (type) {
  case ElementType::UInt8:
  case ElementType::Int8:
  case ElementType::Bool:
    return 1;
  case ElementType::UInt16:
  case ElementType::Int16:
  case ElementType::Float16:
  case ElementType::BFloat16:
    return 2;
  case ElementType::Float:
  case ElementType::Int32:
  case ElementType::UInt32:
    return 4;
  case ElementType::Int64:
  case ElementType::UInt64:
  case ElementType::Double:
    return 8;
  default:
    return std::nullopt;
  }
}

bool isFloat(ElementType type) {
  return type == ElementType::Float || type == ElementType::Double ||
         type == ElementType::Float16 || type == ElementType::BFloat16;
}

namespace {

constexpr int64_t kElementLimit = int64_t(1) << 40;

} // namespace

std::string textOf(const Shape &shape) { return absl::StrJoin(shape, "x"); }

std::string tooLarge(const Shape &shape) {
  return absl::StrCat("a tensor of ", textOf(shape), " elements is too large; expected at most ",
                      kElementLimit, ": give a smaller batch with --batch=N");
}

std::optional<int64_t> checkedElementCount(const Shape &shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > kElementLimit)
      return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kElementLimit / dim)
      return std::nullopt;
    count *= dim;
  }
  return empty ? 0 : count;
}

} // namespace stow::onnx
