#include "runtime/program/EventFile.h"

#include "runtime/base/Error.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>

namespace stow::test {
namespace {

using testing::HasSubstr;

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

uint64_t littleEndian(std::string_view bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// CRC-32C bit by bit, masked.
uint32_t slowMaskedCrc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (0x82f63b78 & -(crc & 1));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/// The records of a file; every checksum is checked.
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> found;
  while (!file.empty()) {
    const uint64_t length = littleEndian(file, 8);
    EXPECT_EQ(littleEndian(file.substr(8), 4), slowMaskedCrc(file.substr(0, 8)));
    const std::string_view event = file.substr(12, length);
    EXPECT_EQ(littleEndian(file.substr(12 + length), 4), slowMaskedCrc(event));
    found.emplace_back(event);
    file.remove_prefix(16 + length);
  }
  return found;
}

// Tests the checksum on the vector of RFC 3720, B.4.
TEST(EventFileTest, Crc32c) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// Tests the bytes of each message against the wire format.
TEST(EventFileTest, Records) {
  testfiles::TempDir dir;
  EventFile file(dir.path("runs/a"), 0);
  const std::array values = {Scalar{"train/loss", 0.5}, Scalar{"lr", 2}};
  file.add(300, values);
  EXPECT_EQ(file.problem(), "");
  const std::vector<std::string> found = records(contents(file.path()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].substr(9), "\x1a\x0d"
                                "brain.Event:2");
  // After the wall time: step 300, a summary of 30 bytes with two values.
  const std::string expected("\x10\xac\x02\x2a\x1e"
                             "\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x00\x3f"
                             "\x0a\x09\x0a\x02lr\x15\x00\x00\x00\x40",
                             5 + 19 + 11);
  EXPECT_EQ(found[1].substr(9), expected);
}

// Tests that a resumed run says from which step on it counts.
TEST(EventFileTest, ResumedRun) {
  testfiles::TempDir dir;
  EventFile file(dir.path("runs"), 40);
  const std::vector<std::string> found = records(contents(file.path()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].substr(9), "\x10\x29\x3a\x02\x08\x01"); // step 41, session log: start
}

// Tests that files of one process and second do not meet, and that a folder that cannot be is an
// error with its name.
TEST(EventFileTest, Paths) {
  testfiles::TempDir dir;
  EventFile first(dir.path("runs"), 0), second(dir.path("runs"), 0);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(first.path(), HasSubstr("/events.out.tfevents."));
  std::ofstream(dir.path("file")) << "x";
  try {
    EventFile blocked(dir.path("file"), 0);
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot write '" + dir.path("file")));
  }
}

// Tests that values are added without allocating.
TEST(EventFileTest, AllocatesNothing) {
  testfiles::TempDir dir;
  EventFile file(dir.path("runs"), 0);
  const std::array values = {Scalar{"train/loss", 0.5}};
  int64_t before = allocationsSoFar().calls;
  for (int step = 1; step <= 100; ++step)
    file.add(step, values);
  EXPECT_EQ(allocationsSoFar().calls, before);
  EXPECT_EQ(records(contents(file.path())).size(), 101u);
}

} // namespace
} // namespace stow::test
