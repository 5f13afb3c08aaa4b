// Every problem in tests/data/pack fits into the capacity that its file name ends in.
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace stow::pack {
namespace {

TEST(FilesTest, FitIntoTheirCapacity) {
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(STOWAGE_PACK_DATA)) {
    const std::string stem = entry.path().stem().string();
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    const Problem problem = parse(text.str(), entry.path().filename().string());
    EXPECT_EQ(parse(print(problem), "again"), problem) << stem;
    PackOptions options;
    options.capacity = std::stoll(stem.substr(stem.rfind('.') + 1));
    const PackResult decided = packBuffers(problem, options);
    ASSERT_TRUE(decided.solution) << stem;
    EXPECT_LE(decided.solution->height, *options.capacity) << stem;
    EXPECT_TRUE(verify(problem, *decided.solution).empty()) << stem;
    options.capacity = lowerBound(problem) - 1;
    EXPECT_EQ(packBuffers(problem, options).status, PackStatus::Infeasible) << stem;
    ++files;
  }
  EXPECT_EQ(files, 4);
}

} // namespace
} // namespace stow::pack
