#include "runtime/base/InstructionSet.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <ranges>

namespace stow {
namespace {

struct Entry {
  InstructionSet set;
  std::string_view name, processor;
};

constexpr Entry table[] = {
    {InstructionSet::Sse41, "sse41", "x86-64-v2"},
    {InstructionSet::Avx2, "avx2", "x86-64-v3"},
    {InstructionSet::Avx512, "avx512_core", "x86-64-v4"},
    {InstructionSet::Avx512Bf16, "avx512_core_bf16", "cooperlake"},
    {InstructionSet::Avx512Amx, "avx512_core_amx", "sapphirerapids"},
};

} // namespace

std::string_view nameOf(InstructionSet set) { return table[static_cast<size_t>(set)].name; }

InstructionSet parseInstructionSet(std::string_view name) {
  const auto *found = std::ranges::find(table, name, &Entry::name);
  if (found == std::end(table))
    throw Error::badInput(concat("unknown instruction set '", name, "'; known are ",
                                 joined(table | std::views::transform(&Entry::name), ", ")));
  return found->set;
}

std::string_view processorOf(InstructionSet set) {
  return table[static_cast<size_t>(set)].processor;
}

std::string describe(InstructionSet set) {
  return concat(nameOf(set), " (", processorOf(set), ")");
}

} // namespace stow
