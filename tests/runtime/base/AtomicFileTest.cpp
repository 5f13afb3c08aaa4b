#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace stow {
namespace {

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AtomicFileTest, ReplacesTheFileOnlyOnCommit) {
  const std::string path = testing::TempDir() + "atomic";
  writeFile(path, "before");
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_EQ(contents(path), "before");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  writeFile(path, "after");
  EXPECT_EQ(contents(path), "after");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  std::filesystem::remove(path);
}

TEST(AtomicFileTest, WritesToDevicesAsTheyAre) {
  writeFile("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THROW(writeFile("/dev/full", "no room"), Error);
}

TEST(AtomicFileTest, NamesAFolderThatIsNotThere) {
  try {
    writeFile(testing::TempDir() + "no/such/folder", "text");
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("no/such/folder"), std::string::npos) << error.what();
  }
}

} // namespace
} // namespace stow
