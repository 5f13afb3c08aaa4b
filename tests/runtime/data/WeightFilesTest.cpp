// Weights in one file or in shards, and what is said where some are missing or are not numbers.
#include "runtime/data/WeightFiles.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using namespace testfiles;
using testing::HasSubstr;

class WeightFilesTest : public testing::Test {
protected:
  void write(const std::string &name, const std::vector<SafetensorsEntry> &entries, char value) {
    const std::string bytes(64, value);
    writeSafetensors(dir.path(name), entries, {}, [&](size_t i, Bytes) {
      return std::span(bytes).first(
          static_cast<size_t>(elementCount(entries[i].shape) * sizeOf(entries[i].dtype)));
    });
  }

  void writeShards() {
    write("model-00001-of-00002.safetensors", {{"a", DType::BF16, {2, 3}}}, 1);
    write("model-00002-of-00002.safetensors", {{"b", DType::F32, {4}}, {"c", DType::F16, {1}}}, 2);
    writeFile(dir.path("model.safetensors.index.json"), R"({"metadata": {"total_size": 30},
      "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
                     "c": "model-00002-of-00002.safetensors"}})");
  }

  std::string errorOf(const std::string &path) {
    try {
      WeightFiles files(path);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    return "no error";
  }

  /// A file of tensors of one byte with these names and types.
  void writeHeader(const std::string &name,
                   const std::vector<std::pair<std::string, std::string>> &list) {
    std::string header = "{", data;
    for (const auto &[tensor, type] : list) {
      header += (data.empty() ? "\"" : ",\"") + tensor + R"(":{"dtype":")" + type +
                R"(","shape":[1],"data_offsets":[)" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + 1) + "]}";
      data += '\1';
    }
    header += "}";
    std::string out;
    append<uint64_t>(out, header.size());
    writeFile(dir.path(name), out + header + data);
  }

  std::string schemeOf(const std::vector<std::pair<std::string, std::string>> &list) {
    writeHeader("q.safetensors", list);
    return foreignScheme(WeightFiles(dir.path("q.safetensors"))).value_or("none");
  }

  TempDir dir;
};

// Names that the metadata give to tensors of the file find these; other metadata are none.
TEST_F(WeightFilesTest, NamesOfTiedWeights) {
  const std::string bytes(16, 1);
  writeSafetensors(dir.path("tied.safetensors"), {{"a", DType::F32, {4}}},
                   {{"format", "pt"}, {"b", "a"}, {"c", "absent"}},
                   [&](size_t, Bytes) { return std::span(bytes); });
  const WeightFiles files(dir.path("tied.safetensors"));
  EXPECT_EQ(files.find("b"), files.find("a"));
  EXPECT_NE(files.find("a"), nullptr);
  EXPECT_EQ(files.find("c"), nullptr);
  EXPECT_EQ(files.find("format"), nullptr);
}

TEST_F(WeightFilesTest, FolderIndexAndFile) {
  writeShards();
  write("other.safetensors", {{"z", DType::F32, {1}}}, 3); // no part of the index
  for (const std::string &path : {dir.path(""), dir.path("model.safetensors.index.json")}) {
    WeightFiles files(path);
    ASSERT_EQ(files.tensors().size(), 3u);
    EXPECT_EQ(files.find("a")->shape, (Shape{2, 3}));
    EXPECT_EQ(files.find("b")->bytes[15], 2);
    EXPECT_EQ(files.find("z"), nullptr);
    EXPECT_THROW(files.file(), Error);
  }
  WeightFiles one(dir.path("other.safetensors"));
  EXPECT_EQ(one.find("z")->bytes[0], 3);
  EXPECT_EQ(one.file().path(), dir.path("other.safetensors"));
}

TEST_F(WeightFilesTest, TheIndexSaysWhichShardCounts) {
  writeShards();
  write("model-00001-of-00002.safetensors", {{"a", DType::F32, {2, 3}}, {"b", DType::F32, {4}}}, 9);
  WeightFiles files(dir.path(""));
  EXPECT_EQ(files.find("a")->bytes[0], 9);
  EXPECT_EQ(files.find("b")->bytes[15], 2);
  write("model-00002-of-00002.safetensors", {{"c", DType::F32, {1}}}, 2);
  EXPECT_THAT(
      errorOf(dir.path("")),
      HasSubstr("'b' is to be in 'model-00002-of-00002.safetensors', which does not have it"));
}

TEST_F(WeightFilesTest, FolderWithoutAnIndex) {
  EXPECT_THAT(
      errorOf(dir.path("")),
      HasSubstr("expected model.safetensors or model.safetensors.index.json, found neither"));
  writeFile(dir.path("pytorch_model.bin"), "");
  EXPECT_THAT(errorOf(dir.path("")), HasSubstr("found 'pytorch_model.bin', a pickle of PyTorch's"));
  write("weights.safetensors", {{"a", DType::F32, {1}}}, 1);
  EXPECT_EQ(WeightFiles(dir.path("")).find("a")->bytes[0], 1);
  write("x.safetensors", {{"a", DType::F32, {1}}}, 2);
  EXPECT_THAT(errorOf(dir.path("")),
              HasSubstr("found 2, the first 'weights.safetensors'; name the file itself"));
  write("model.safetensors", {{"a", DType::F32, {1}}}, 3);
  EXPECT_EQ(WeightFiles(dir.path("")).find("a")->bytes[0], 3);
}

TEST_F(WeightFilesTest, WhatIsMissingIsNamed) {
  writeShards();
  std::filesystem::remove(dir.path("model-00002-of-00002.safetensors"));
  EXPECT_THAT(
      errorOf(dir.path("")),
      HasSubstr(
          "model.safetensors.index.json: the shard 'model-00002-of-00002.safetensors' is missing, "
          "with 2 of 3 tensors, the first 'b'; fetch it again"));
  write("model-00002-of-00002.safetensors", {{"b", DType::F32, {4}}}, 2);
  EXPECT_THAT(
      errorOf(dir.path("")),
      HasSubstr("'c' is to be in 'model-00002-of-00002.safetensors', which does not have it"));
  writeFile(dir.path("model-00002-of-00002.safetensors"),
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4\n");
  EXPECT_THAT(errorOf(dir.path("")), HasSubstr("00002.safetensors: this is a pointer of Git LFS"));
  for (const char *index : {R"({"weight_map": {"a": "../secret"}})", R"({"weight_map": {"a": 3}})",
                            R"({"weight_map": {}})", "{}"}) {
    writeFile(dir.path("model.safetensors.index.json"), index);
    EXPECT_THAT(errorOf(dir.path("")), HasSubstr("model.safetensors.index.json")) << index;
  }
}

// Tests that numbers of other schemes are known by what their tools call them, and that a file which has some in types that
// nothing here reads is a file all the same.
TEST_F(WeightFilesTest, ForeignSchemes) {
  EXPECT_EQ(schemeOf({{"l.weight", "U8"}}), "none");
  EXPECT_EQ(schemeOf({{"l.weight", "U8"}, {"counts", "U64"}}), "none");
  EXPECT_EQ(schemeOf({{"l.qweight", "U8"}, {"l.g_idx", "U8"}}), "GPTQ ('l.qweight')");
  EXPECT_EQ(schemeOf({{"l.qweight", "U8"}, {"l.qzeros", "U8"}}), "AWQ ('l.qweight')");
  EXPECT_EQ(schemeOf({{"l.weight", "F8_E4M3"}, {"l.weight_scale", "U8"}}), "FP8 ('l.weight')");
  EXPECT_EQ(schemeOf({{"l.weight", "I8"}, {"l.SCB", "U8"}}), "bitsandbytes, int8 ('l.SCB')");
  EXPECT_EQ(schemeOf({{"l.weight.quant_state.bitsandbytes__nf4", "U8"}}),
            "bitsandbytes, nf4 ('l.weight.quant_state.bitsandbytes__nf4')");
  EXPECT_EQ(schemeOf({{"l.weight_packed", "U8"}}), "compressed-tensors ('l.weight_packed')");
}

} // namespace
} // namespace stow
