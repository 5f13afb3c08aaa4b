#include "runtime/base/InputFile.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace stow {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class InputFileTest : public testing::Test {
protected:
  InputFileTest() : folder(fs::path(testing::TempDir()) / ("input-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
  }
  ~InputFileTest() override { fs::remove_all(folder); }

  std::string errorOf(const fs::path &path) {
    try {
      readInputFile(path.string());
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }

  const fs::path folder;
};

TEST_F(InputFileTest, ReadsFilesAndLinksToThem) {
  std::ofstream(folder / "file") << "0123456789";
  fs::create_symlink("file", folder / "link");
  EXPECT_EQ(readInputFile((folder / "file").string()), "0123456789");
  const InputFile file((folder / "link").string());
  EXPECT_EQ(file.read(3, 4), "3456");
  EXPECT_EQ(file.realPath(), fs::canonical(folder / "file").string());
  EXPECT_THROW(file.read(8, 3), Error);
}

// Tests that nothing waits: a pipe is refused whether or not somebody writes to it.
TEST_F(InputFileTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(errorOf(folder / "pipe"), HasSubstr("pipe': it is a pipe and not a regular file"));
  EXPECT_THAT(errorOf(folder), HasSubstr("': it is a folder"));
  EXPECT_THAT(errorOf("/dev/null"), HasSubstr("'/dev/null': it is not a regular file"));
  EXPECT_THAT(errorOf(folder / "none"), HasSubstr("none': No such file or directory"));
}

} // namespace
} // namespace stow
