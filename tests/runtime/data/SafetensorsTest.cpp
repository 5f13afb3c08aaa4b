#include "runtime/data/Safetensors.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>

namespace stow {
namespace {

using namespace testfiles;
using testing::HasSubstr;

template <typename T, size_t count> std::span<const char> asBytes(const T (&values)[count]) {
  return {reinterpret_cast<const char *>(values), sizeof(values)};
}

class SafetensorsTest : public testing::Test {
protected:
  /// Writes two tensors and metadata; `marker` tells versions apart.
  void write(float marker) {
    float weights[6] = {marker, 1, 2, 3, 4, 5};
    int64_t step[1] = {42};
    uint8_t odd[3] = {1, 2, 3};
    writeSafetensors(
        path, {{"odd", DType::U8, {3}}, {"w", DType::F32, {2, 3}}, {"step", DType::I64, {}}},
        {{"epoch", "3"}, {"note", "\"quoted\""}}, [&](size_t i, Bytes begin) {
          std::span<const char> all[] = {asBytes(odd), asBytes(weights), asBytes(step)};
          std::span<const char> rest = all[i].subspan(static_cast<size_t>(begin));
          return rest.first(std::min<size_t>(rest.size(), 7)); // in pieces
        });
  }

  std::string errorOf(const std::string &bytes) {
    writeFile(path, bytes);
    try {
      SafetensorsFile file(path);
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }

  static std::string withHeader(const std::string &header, const std::string &data) {
    std::string out;
    append<uint64_t>(out, header.size());
    return out + header + data;
  }

  float marker() {
    SafetensorsFile file(path);
    float value = 0;
    std::memcpy(&value, file.find("w")->bytes.data(), sizeof(value));
    return value;
  }

  TempDir dir;
  std::string path = dir.path("w.safetensors");
};

TEST_F(SafetensorsTest, RoundTrips) {
  write(0.5f);
  SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 3u);
  const SafetensorsTensor *w = file.find("w");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->dtype, DType::F32);
  EXPECT_EQ(w->shape, (Shape{2, 3}));
  EXPECT_EQ(marker(), 0.5f);
  EXPECT_EQ(file.find("step")->shape, Shape{});
  EXPECT_EQ(file.find("step")->bytes.size(), 8u);
  EXPECT_EQ(file.find("odd")->bytes[2], 3);
  EXPECT_EQ(file.find("missing"), nullptr);
  EXPECT_EQ(file.metadata().at("epoch"), "3");
  EXPECT_EQ(file.metadata().at("note"), "\"quoted\"");
}

// Tests that wide elements come first, so that mapped tensors are aligned.
TEST_F(SafetensorsTest, TensorsAreAligned) {
  write(1);
  SafetensorsFile file(path);
  for (const SafetensorsTensor &tensor : file.tensors())
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % sizeOf(tensor.dtype), 0u)
        << tensor.name;
  EXPECT_EQ(file.tensors()[0].name, "step");
  EXPECT_EQ(file.tensors()[2].name, "odd");
}

TEST_F(SafetensorsTest, WritesTheSameBytesTwice) {
  write(1);
  std::string first = readFile(path);
  write(1);
  EXPECT_EQ(readFile(path), first);
}

TEST_F(SafetensorsTest, ErrorsNameFileAndTensor) {
  EXPECT_THAT(errorOf("abc"), HasSubstr("w.safetensors: this is not a safetensors file"));
  EXPECT_THAT(errorOf(withHeader("{", "")),
              HasSubstr("w.safetensors:1:2: not valid JSON: unexpected end of input"));
  EXPECT_THAT(errorOf(withHeader("[]", "")), HasSubstr("expected an object, found an array"));
  EXPECT_THAT(
      errorOf(withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234567")),
      HasSubstr("w.safetensors: a.data_offsets: expected [begin, end] inside the 7 bytes"));
  EXPECT_THAT(
      errorOf(withHeader(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678")),
      HasSubstr("a.data_offsets: expected 12 bytes for dtype and shape, found 8"));
  EXPECT_THAT(
      errorOf(withHeader(R"({"a":{"dtype":"F8","shape":[3],"data_offsets":[0,3]}})", "123")),
      HasSubstr("a.dtype: expected F64, F32, F16, BF16, I64, I32, U8 or BOOL, found 'F8'"));
  EXPECT_THAT(
      errorOf(withHeader(
          R"({"a":{"dtype":"U8","shape":[9223372036854775807,3],"data_offsets":[0,3]}})", "123")),
      HasSubstr("a.shape: the tensor is too large"));
  EXPECT_THAT(errorOf(withHeader(R"({"__metadata__":{"epoch":3}})", "")),
              HasSubstr("__metadata__.epoch: expected a string"));
}

// Tests that kill -9 at any moment of a save leaves the previous file as it was.
TEST_F(SafetensorsTest, KilledSaveLeavesThePreviousFile) {
  write(1);
  std::string before = readFile(path);
  for (size_t killAt : {0u, 1u, 2u}) {
    pid_t child = fork();
    if (child == 0) {
      std::vector<float> big(1 << 20, 2.0f);
      std::vector<SafetensorsEntry> entries;
      for (const char *name : {"w", "b", "c"})
        entries.push_back({name, DType::F32, {1 << 20}});
      writeSafetensors(path, entries, {}, [&](size_t i, Bytes) -> std::span<const char> {
        if (i == killAt)
          kill(getpid(), SIGKILL);
        return {reinterpret_cast<const char *>(big.data()), big.size() * sizeof(float)};
      });
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_EQ(readFile(path), before);
  }
  write(3); // what the killed save left behind is no obstacle
  EXPECT_EQ(marker(), 3);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"w.safetensors"});
}

// Tests that a failing source leaves neither a new file nor a fragment.
TEST_F(SafetensorsTest, FailedSaveLeavesThePreviousFile) {
  write(1);
  auto fail = [](size_t, Bytes) -> std::span<const char> { throw Error::internal("stop"); };
  EXPECT_THROW(writeSafetensors(path, {{"w", DType::F32, {1}}}, {}, fail), Error);
  EXPECT_EQ(marker(), 1);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"w.safetensors"});
}

TEST_F(SafetensorsTest, UnwritableFolder) {
  path = dir.path("missing/w.safetensors");
  EXPECT_THROW(write(1), Error);
}

} // namespace
} // namespace stow
