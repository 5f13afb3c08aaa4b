// docs/onnx-ops.md names exactly the operators that have a rule.
#include "compiler/import/GraphImport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace stow::onnx {
namespace {

TEST(OpTableTest, DocumentsEveryOperator) {
  std::ifstream file(std::string(STOWAGE_SOURCE_DIR) + "/docs/onnx-ops.md");
  std::vector<std::string> documented, supported;
  std::string line;
  while (std::getline(file, line))
    if (line.rfind("| ", 0) == 0 && std::isupper(static_cast<unsigned char>(line[2])))
      documented.push_back(line.substr(2, line.find(' ', 2) - 2));
  for (const auto &[name, rule] : allRules())
    supported.push_back(name);
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(supported));
}

} // namespace
} // namespace stow::onnx
