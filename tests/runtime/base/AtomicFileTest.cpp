#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"

#include "gtest/gtest.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace stow {
namespace {

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class AtomicFileTest : public testing::Test {
protected:
  AtomicFileTest() : folder(testing::TempDir() + "atomic-" + std::to_string(getpid())) {
    std::filesystem::create_directory(folder);
  }
  ~AtomicFileTest() override { std::filesystem::remove_all(folder); }

  static std::set<std::string> names(const std::string &folder) {
    std::set<std::string> list;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      list.insert(entry.path().filename().string());
    return list;
  }

  const std::string folder;
};

TEST_F(AtomicFileTest, ReplacesTheFileOnlyOnCommit) {
  const std::string path = folder + "/atomic";
  writeFile(path, "before");
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_EQ(contents(path), "before");
  writeFile(path, "after");
  EXPECT_EQ(contents(path), "after");
  EXPECT_EQ(names(folder), (std::set<std::string>{"atomic"}));
}

// Tests that of two writers at once each puts its own contents there, whole.
TEST_F(AtomicFileTest, WritersDoNotMeet) {
  const std::string path = folder + "/atomic";
  AtomicFile first(path), second(path);
  first.write(std::string(1 << 20, 'a'));
  second.write(std::string(1 << 19, 'b'));
  first.write(std::string(1 << 20, 'a'));
  second.commit();
  EXPECT_EQ(contents(path), std::string(1 << 19, 'b'));
  first.commit();
  EXPECT_EQ(contents(path), std::string(1 << 21, 'a'));
  EXPECT_EQ(names(folder), (std::set<std::string>{"atomic"}));
}

// Tests that many processes that save to one file, and one that is killed while it does, leave a reader nothing torn.
TEST_F(AtomicFileTest, ReadersSeeWholeFiles) {
  const std::string path = folder + "/atomic";
  writeFile(path, std::string(1 << 16, 'a'));
  std::vector<pid_t> writers;
  for (char letter : {'b', 'c', 'd'}) {
    writers.push_back(fork());
    if (writers.back() == 0)
      for (;;)
        writeFile(path, std::string(1 << 16, letter));
  }
  std::set<char> seen;
  for (int i = 0; i < 3000 && (i < 300 || seen.size() < 4); ++i) {
    const std::string text = contents(path);
    ASSERT_EQ(text, std::string(1 << 16, text.empty() ? ' ' : text[0])) << "read " << i;
    seen.insert(text[0]);
  }
  for (pid_t writer : writers) {
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
  }
  EXPECT_GT(seen.size(), 1u);
}

TEST_F(AtomicFileTest, NamesThatNoFileCanHaveAreRefusedAtOnce) {
  EXPECT_THROW(AtomicFile(folder + "/" + std::string(300, 'x')), Error);
  EXPECT_THROW(checkWritable(folder + "/" + std::string(300, 'x')), Error);
  // As long as a name can be: what stands in for it meanwhile is not made of it.
  const std::string longest(255, 'x');
  writeFile(folder + "/" + longest, "text");
  EXPECT_EQ(contents(folder + "/" + longest), "text");
}

// Tests a file that several processes write: pieces at their places, one writer of a path at a time, and that what a killed one left is taken by the next.
TEST_F(AtomicFileTest, IsWrittenInPiecesByOthers) {
  const std::string path = folder + "/shared", longest = folder + "/" + std::string(255, 'x');
  const pid_t killed = fork();
  if (killed == 0) {
    AtomicFile file(path, AtomicFile::Part::Named);
    file.write(std::string(100, 'k'));
    kill(getpid(), SIGKILL);
  }
  waitpid(killed, nullptr, 0);
  EXPECT_EQ(names(folder).size(), 1u);
  {
    AtomicFile file(path, AtomicFile::Part::Named), second(path, AtomicFile::Part::Named);
    EXPECT_NE(file.partName(), second.partName());
    EXPECT_EQ(names(folder).size(), 2u);
    file.write("head ");
    FilePart part(file.partName());
    part.write("piece", 5, 5);
    part.finish();
    EXPECT_EQ(part.problem(), 0);
    file.commit();
  }
  EXPECT_EQ(contents(path), "head piece");
  EXPECT_EQ(names(folder), std::set<std::string>{"shared"});
  AtomicFile file(longest, AtomicFile::Part::Named);
  EXPECT_FALSE(file.partName().empty());
  FilePart none(folder + "/none");
  EXPECT_EQ(none.problem(), ENOENT);
  none.write("x", 1, 0);
  none.finish();
  EXPECT_EQ(none.problem(), ENOENT);
}

TEST_F(AtomicFileTest, WritesToDevicesAsTheyAre) {
  writeFile("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THROW(writeFile("/dev/full", "no room"), Error);
}

TEST_F(AtomicFileTest, NamesAFolderThatIsNotThere) {
  try {
    writeFile(testing::TempDir() + "no/such/folder", "text");
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("no/such/folder"), std::string::npos) << error.what();
  }
}

} // namespace
} // namespace stow
