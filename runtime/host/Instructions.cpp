#include "runtime/host/Instructions.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

namespace stow::host {
namespace {

/// What the library calls each of them; the values are sets, the larger ones containing the smaller.
constexpr dnnl_cpu_isa_t librarySets[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2,
                                          dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx512_core_bf16,
                                          dnnl_cpu_isa_avx512_core_amx};

InstructionSet processorInstructions() {
#if defined(__x86_64__)
  auto set = InstructionSet::Sse41;
  if (__builtin_cpu_supports("x86-64-v3"))
    set = InstructionSet::Avx2;
  if (__builtin_cpu_supports("x86-64-v4"))
    set = InstructionSet::Avx512;
  if (set == InstructionSet::Avx512 && __builtin_cpu_supports("avx512bf16"))
    set = InstructionSet::Avx512Bf16;
  if (set == InstructionSet::Avx512Bf16 && __builtin_cpu_supports("amx-tile") &&
      __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8"))
    set = InstructionSet::Avx512Amx;
  return set;
#else
  return InstructionSet::Sse41;
#endif
}

/// The limit that the environment sets, by the library's names; none where it sets none that is known.
struct Limit {
  InstructionSet set;
  std::string text; ///< "ONEDNN_MAX_CPU_ISA=AVX2"
};

std::optional<Limit> environmentLimit() {
  // Names of sets without code of their own for floats stand for those that the library takes then.
  static constexpr std::pair<std::string_view, InstructionSet> others[] = {
      {"avx", InstructionSet::Sse41},
      {"avx2_vnni", InstructionSet::Avx2},
      {"avx512_core_vnni", InstructionSet::Avx512},
      {"avx512_core_fp16", InstructionSet::Avx512Bf16}};
  for (const char *variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char *value = std::getenv(variable);
    if (!value)
      continue;
    std::string name = value;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string text = concat(variable, "=", value);
    for (int set = 0; set <= static_cast<int>(largestInstructionSet); ++set)
      if (name == nameOf(static_cast<InstructionSet>(set)))
        return Limit{static_cast<InstructionSet>(set), text};
    for (const auto &[other, set] : others)
      if (name == other)
        return Limit{set, text};
    return std::nullopt;
  }
  return std::nullopt;
}

/// What the library uses, which takes no limit from here on. It may have instructions for integers beside.
InstructionSet libraryInstructions() {
  const auto used = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  auto set = InstructionSet::Sse41;
  for (size_t i = 0; i < std::size(librarySets); ++i)
    if ((used & librarySets[i]) == static_cast<unsigned>(librarySets[i]))
      set = static_cast<InstructionSet>(i);
  return set;
}

std::mutex choosing;
constexpr int undecided = -1;
std::atomic<int> chosen = undecided;

/// The library's instructions, limited to `set` where it still takes a limit.
InstructionSet limitLibrary(InstructionSet set) {
  dnnl_set_max_cpu_isa(librarySets[static_cast<size_t>(set)]);
  return libraryInstructions();
}

} // namespace

InstructionSet availableInstructions() {
  const InstructionSet processor = processorInstructions();
  const std::optional<Limit> limit = environmentLimit();
  return limit ? std::min(processor, limit->set) : processor;
}

std::string describeAvailable() {
  const InstructionSet processor = processorInstructions();
  const std::optional<Limit> limit = environmentLimit();
  if (limit && limit->set < processor)
    return concat(limit->text, " keeps this process to ", describe(limit->set));
  return concat("this processor has ", describe(processor));
}

void useInstructions(InstructionSet set, const std::string &user) {
  const std::lock_guard lock(choosing);
  if (chosen == undecided) {
    if (set > availableInstructions())
      throw Error::badInput(concat(user, " needs ", describe(set), ", and ", describeAvailable()));
    const InstructionSet found = limitLibrary(set);
    chosen = static_cast<int>(found);
  }
  if (const auto used = static_cast<InstructionSet>(chosen.load()); used != set)
    throw Error::badInput(concat(
        user, " needs ", describe(set), ", and oneDNN computes with ", describe(used),
        " in this process, which cannot change any more: something has used it before; start "
        "another process, or compile with --target-cpu=",
        processorOf(used)));
}

void useInstructionsOf(std::string_view target) {
  const size_t colon = target.find(':');
  if (colon == std::string_view::npos)
    return;
  const InstructionSet set = parseInstructionSet(target.substr(colon + 1));
  if (set > availableInstructions())
    throw Error::badInput(
        concat("this program is compiled for ", describe(set), ", and ", describeAvailable(),
               "; compile it with --target-cpu=", processorOf(availableInstructions()),
               ", for this and every larger processor"));
  useInstructions(set, "this program");
}

InstructionSet instructions() {
  if (const int set = chosen; set != undecided)
    return static_cast<InstructionSet>(set);
  const std::lock_guard lock(choosing);
  if (chosen == undecided) // the system may keep a process from what the processor has
    chosen = static_cast<int>(limitLibrary(availableInstructions()));
  return static_cast<InstructionSet>(chosen.load());
}

} // namespace stow::host
