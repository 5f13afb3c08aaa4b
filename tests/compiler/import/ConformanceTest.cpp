// The ONNX standard's node tests of the installed package (make_conformance.py wrote the files): each is right, or refused for a
// reason that the table knows. All 1,884 of a newer package are judged in the night (node-tests).
#include "tests/compiler/import/Mutate.h"
#include "tests/compiler/import/NodeCase.h"
#include "tests/compiler/import/RunCompiled.h"

#include "compiler/import/Import.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace mlir;

namespace stow::onnx {
namespace {

const std::filesystem::path folder = CONFORMANCE_FOLDER;

/// Judges every `step`th case from `first` on; the number of those that are right.
int judgeCases(size_t first, size_t step, const Run &run) {
  const std::vector<NodeCase> cases = readCases(folder);
  int right = 0;
  for (size_t i = first; i < cases.size(); i += step) {
    const Verdict verdict = judge(folder, cases[i], run);
    right += verdict.kind == Verdict::Kind::Right;
    EXPECT_NE(verdict.kind, Verdict::Kind::Wrong) << cases[i].name << ": " << verdict.reason;
    if (verdict.kind == Verdict::Kind::Refused)
      EXPECT_NE(causeOf(verdict.reason), "") << cases[i].name << ": " << verdict.reason;
  }
  return right;
}

// A guard against a list that shrinks unnoticed: ONNX 1.12 has this many cases that are right.
TEST(ConformanceTest, CasesAreRightOrRefusedWithTheirCause) {
  EXPECT_GE(judgeCases(0, 1, evaluateModel), 600);
}

// The same of what the compiler makes of a part of them.
TEST(ConformanceTest, CompiledCasesAreRight) { EXPECT_GE(judgeCases(7, 23, runCompiled), 20); }

/// Every operator's models, damaged: the outcome is a module or diagnostics.
TEST(ConformanceTest, DamagedModelsNeverCrash) {
  std::mt19937 random(20240612);
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "damaged.onnx";
  std::string last;
  MLIRContext context;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    last = diagnostic.str();
    return success();
  });
  for (const NodeCase &test : readCases(folder)) {
    SCOPED_TRACE(test.name);
    std::ifstream file(folder / (test.name + ".onnx"), std::ios::binary);
    const std::string seed{std::istreambuf_iterator<char>(file), {}};
    for (int round = 0; round < 8; ++round) {
      std::string bytes = seed;
      mutate(bytes, random);
      std::filesystem::remove(path); // ext4 flushes files that are truncated and written again
      std::ofstream(path, std::ios::binary) << bytes;
      last.clear();
      ASSERT_TRUE(importOnnx(context, path, {}) || !last.empty());
    }
  }
}

} // namespace
} // namespace stow::onnx
