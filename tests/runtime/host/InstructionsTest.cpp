// Tests which instructions a process computes with: no more than the environment allows, one set for good.
#include "runtime/host/Instructions.h"
#include "runtime/base/Error.h"
#include "runtime/host/Primitive.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace stow::host::test {
namespace {

using testing::HasSubstr;

template <typename Call> std::string errorOf(const Call &call) {
  try {
    call();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(InstructionSets, HaveNames) {
  for (int i = 0; i <= static_cast<int>(largestInstructionSet); ++i) {
    const auto set = static_cast<InstructionSet>(i);
    EXPECT_EQ(parseInstructionSet(nameOf(set)), set);
  }
  EXPECT_EQ(describe(InstructionSet::Avx2), "avx2 (x86-64-v3)");
  EXPECT_THAT(errorOf([] { parseInstructionSet("avx3"); }),
              HasSubstr("known are sse41, avx2, avx512_core, avx512_core_bf16, avx512_core_amx"));
}

// One test, in this order: what the library is limited to holds for the rest of the process.
TEST(Instructions, AreOneSetInAProcess) {
  for (const char *variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    unsetenv(variable); // the tests as a whole may run under one
  const InstructionSet processor = availableInstructions();
  for (const auto &[value, set] :
       {std::pair{"SSE41", InstructionSet::Sse41}, std::pair{"avx2_vnni", InstructionSet::Avx2},
        std::pair{"AVX512_CORE_FP16", InstructionSet::Avx512Bf16},
        std::pair{"of another release", largestInstructionSet}}) {
    setenv("ONEDNN_MAX_CPU_ISA", value, 1);
    EXPECT_EQ(availableInstructions(), std::min(processor, set)) << value;
  }
  setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  EXPECT_THAT(errorOf([] { useInstructions(InstructionSet::Avx2, "this test"); }),
              HasSubstr("this test needs avx2 (x86-64-v3), and "));
  useInstructions(InstructionSet::Sse41, "this test");
  EXPECT_EQ(instructions(), InstructionSet::Sse41);
  cpuEngine();
  EXPECT_EQ(dnnl_get_effective_cpu_isa(), dnnl_cpu_isa_sse41);
  useInstructions(InstructionSet::Sse41, "another");
  unsetenv("ONEDNN_MAX_CPU_ISA");
  if (processor > InstructionSet::Sse41)
    EXPECT_THAT(errorOf([&] { useInstructions(processor, "another"); }),
                HasSubstr("and oneDNN computes with sse41 (x86-64-v2) in this process"));
  EXPECT_EQ(instructions(), InstructionSet::Sse41);
}

} // namespace
} // namespace stow::host::test
