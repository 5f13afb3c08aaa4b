#include "runtime/base/DType.h"

#include "runtime/base/Error.h"

#include <array>
#include <utility>

namespace stow {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 8> kNames = {{
    {DType::F64, "f64"},
    {DType::F32, "f32"},
    {DType::F16, "f16"},
    {DType::BF16, "bf16"},
    {DType::I64, "i64"},
    {DType::I32, "i32"},
    {DType::U8, "u8"},
    {DType::I1, "i1"},
}};
} // namespace

std::string_view nameOf(DType type) { return kNames[static_cast<size_t>(type)].second; }

DType parseDType(std::string_view name) {
  for (auto [type, typeName] : kNames)
    if (typeName == name)
      return type;
  throw Error::badInput("unknown element type \"" + std::string(name) +
                        "\"; expected one of f64, f32, f16, bf16, i64, i32, u8, i1");
}

} // namespace stow
