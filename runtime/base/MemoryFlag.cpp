#include "runtime/base/MemoryFlag.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <cstdio>
#include <cstdlib>

namespace stow {
namespace {

/// Fewer bytes than any arena or card has.
constexpr Bytes kLeast = 200;

} // namespace

ByteBudget parseMemory(std::string_view flag, std::string_view text) {
  const ByteBudget memory = parseByteBudget(text);
  const bool hasUnit = text.find_first_not_of("0123456789.") != std::string_view::npos;
  if (hasUnit || *memory.bytes >= kLeast || text == "0")
    return memory;
  const double number = std::strtod(std::string(text).c_str(), nullptr);
  char share[32] = "";
  if (number <= 1)
    std::snprintf(share, sizeof(share), "%g%%, ", 100 * number);
  throw Error::badInput(concat("--", flag, "=", text, " is ", *memory.bytes,
                               " bytes; did you mean ", share, text, "GiB or ", text, "MiB?"));
}

Bytes parseMemoryBytes(std::string_view flag, std::string_view text) {
  const Bytes bytes = parseBytes(text); // which says that a share is none
  parseMemory(flag, text);
  return bytes;
}

} // namespace stow
