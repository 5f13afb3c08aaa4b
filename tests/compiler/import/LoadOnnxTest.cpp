// Reading files nobody vouches for: external data, links, damaged files.
#include "compiler/import/OnnxModel.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace stow {
namespace {

namespace fs = std::filesystem;

// A protobuf writer in three lines: what the tests need of the wire format.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7)
    bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string integer(int field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string message(int field, const std::string &body) {
  return varint(field << 3 | 2) + varint(body.size()) + body;
}

/// TensorProto of floats with the given payload fields.
std::string floats(const std::string &name, std::vector<uint64_t> dims,
                   const std::string &payload) {
  std::string body;
  for (uint64_t dim : dims)
    body += integer(1, dim);
  return body + integer(2, 1) + message(8, name) + payload;
}

std::string raw(size_t count, float value = 0.5f) {
  std::string bytes(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i)
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  return message(9, bytes);
}

std::string external(const std::string &location, const std::string &more = "") {
  auto entry = [](const std::string &key, const std::string &value) {
    return message(13, message(1, key) + message(2, value));
  };
  return entry("location", location) + more + integer(14, 1);
}

std::string valueInfo(int field, const std::string &name, std::vector<uint64_t> dims) {
  std::string shape;
  for (uint64_t dim : dims)
    shape += message(1, integer(1, dim));
  return message(field,
                 message(1, name) + message(2, message(1, integer(1, 1) + message(2, shape))));
}

std::string node(const std::string &type, std::vector<std::string> inputs,
                 const std::string &output) {
  std::string body;
  for (const std::string &input : inputs)
    body += message(1, input);
  return message(1, body + message(2, output) + message(4, type));
}

std::string modelOf(const std::string &graph, uint64_t opset = 13) {
  return integer(1, 7) + message(8, message(1, "") + integer(2, opset)) + message(7, graph);
}

/// x [2,4] times w [4,3], plus b [3], through relu.
std::string smallModel(const std::string &weight) {
  return modelOf(node("MatMul", {"x", "w"}, "p") + node("Add", {"p", "b"}, "s") +
                 node("Relu", {"s"}, "y") + message(5, weight) +
                 message(5, floats("b", {3}, raw(3))) + valueInfo(11, "x", {2, 4}) +
                 valueInfo(12, "y", {2, 3}));
}

class LoadOnnxTest : public testing::Test {
protected:
  LoadOnnxTest() {
    folder =
        fs::path(testing::TempDir()) /
        ("import-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directories(folder);
  }

  std::string write(const std::string &name, const std::string &bytes) {
    fs::remove(folder / name); // ext4 flushes files that are truncated and written again
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return folder / name;
  }

  /// Message of loading `bytes` as a model; empty when it loads.
  std::string failure(const std::string &bytes) {
    try {
      onnx::load(write("model.onnx", bytes));
    } catch (const Error &error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("model.onnx"));
      return error.what();
    }
    return "";
  }

  fs::path folder;
};

TEST_F(LoadOnnxTest, ReadsNodesInitializersAndInputs) {
  onnx::Model model =
      onnx::load(write("model.onnx", smallModel(floats("w", {4, 3}, raw(12, 1.5f)))));
  ASSERT_EQ(model.nodes.size(), 3u);
  EXPECT_EQ(model.nodes[1].name, "Add_1"); // unnamed nodes get their type and index
  EXPECT_EQ(model.opsets.at(""), 13);
  EXPECT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.initializers.at("w").shape, (Shape{4, 3}));
  EXPECT_EQ(model.initializers.at("w").bytes->size(), 48u);
}

TEST_F(LoadOnnxTest, ReadsExternalDataInsideItsBounds) {
  std::string bytes(16 + 48, '\1');
  write("weights.bin", bytes);
  auto at = [](const std::string &key, const std::string &value) {
    return message(13, message(1, key) + message(2, value));
  };
  auto weight = [&](const std::string &location, const std::string &more) {
    return smallModel(floats("w", {4, 3}, external(location, more)));
  };
  EXPECT_EQ(failure(weight("weights.bin", at("offset", "16") + at("length", "48"))), "");
  EXPECT_THAT(failure(weight("weights.bin", at("offset", "17"))), testing::HasSubstr("outside"));
  EXPECT_THAT(failure(weight("weights.bin", at("offset", "99999999999999999"))),
              testing::HasSubstr("outside"));
  EXPECT_THAT(failure(weight("weights.bin", at("offset", "-1"))),
              testing::HasSubstr("not a byte count"));
  EXPECT_THAT(failure(weight("weights.bin", at("length", "47"))),
              testing::HasSubstr("expected 48 bytes"));
  EXPECT_THAT(failure(weight("missing.bin", "")), testing::HasSubstr("is missing"));
  EXPECT_THAT(failure(weight("../weights.bin", "")), testing::HasSubstr("model's folder"));
  EXPECT_THAT(failure(weight("/etc/passwd", "")), testing::HasSubstr("model's folder"));
}

// Tests that links do not lead out of the model's folder, whatever they are called and wherever in the path they
// stand; a cache that stores model and data elsewhere, side by side, and links to both, is read.
TEST_F(LoadOnnxTest, LinksLeadNowhereElse) {
  const std::string bytes(48, '\1');
  const fs::path inner = folder / "model", other = folder / "other";
  fs::create_directories(inner / "data");
  fs::create_directories(other);
  write("other/secret.bin", bytes);
  write("model/data/weights.bin", bytes);
  fs::create_symlink("data/weights.bin", inner / "inside.bin");
  fs::create_symlink("../other/secret.bin", inner / "outside.bin");
  fs::create_symlink(other / "secret.bin", inner / "absolute.bin");
  fs::create_symlink("../other", inner / "folder");
  fs::create_symlink("outside.bin", inner / "chain.bin");
  ASSERT_EQ(::mkfifo((inner / "pipe").c_str(), 0600), 0);
  auto failureOf = [&](const std::string &location, const std::string &name = "model/model.onnx") {
    const std::string path = write(name, smallModel(floats("w", {4, 3}, external(location, ""))));
    try {
      onnx::load(path);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(failureOf("data/weights.bin"), "");
  EXPECT_EQ(failureOf("inside.bin"), "");
  for (const char *location : {"outside.bin", "absolute.bin", "folder/secret.bin", "chain.bin"})
    EXPECT_THAT(failureOf(location),
                testing::AllOf(testing::HasSubstr(location),
                               testing::HasSubstr("other/secret.bin'"),
                               testing::HasSubstr("does not lie under the model's folder")));
  EXPECT_THAT(failureOf("pipe"), testing::HasSubstr("is missing"));

  // As in the caches of model hubs: snapshots/1/model.onnx -> ../../blobs/aa, and so the data.
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshots/1");
  write("blobs/bb", bytes);
  EXPECT_EQ(failureOf("data.bin", "blobs/aa").find("is missing") == std::string::npos, false);
  fs::create_symlink("../../blobs/aa", folder / "snapshots/1/model.onnx");
  fs::create_symlink("../../blobs/bb", folder / "snapshots/1/data.bin");
  EXPECT_NO_THROW(onnx::load(folder / "snapshots/1/model.onnx"));
}

TEST_F(LoadOnnxTest, RefusesTensorsWhoseDataDoesNotFitTheirShape) {
  EXPECT_THAT(failure(smallModel(floats("w", {4, 3}, raw(11)))),
              testing::HasSubstr("holds 44 bytes"));
  EXPECT_THAT(failure(smallModel(floats("w", {4, 3}, ""))), testing::HasSubstr("holds 0 bytes"));
  EXPECT_THAT(failure(smallModel(floats("w", {1ull << 40, 1ull << 40}, raw(1)))),
              testing::HasSubstr("too large"));
  EXPECT_THAT(failure(smallModel(floats("w", {~0ull}, raw(1)))), testing::HasSubstr("negative"));
}

TEST_F(LoadOnnxTest, RefusesWhatIsNoModel) {
  EXPECT_THAT(failure("PK\3\4 this is a zip file"), testing::HasSubstr("not an ONNX model"));
  EXPECT_THAT(failure(""), testing::HasSubstr("no graph"));
  EXPECT_THAT(failure(modelOf("")), testing::HasSubstr("no output"));
  std::string twice = valueInfo(12, "y", {1}) + valueInfo(12, "y", {1});
  EXPECT_THAT(failure(modelOf(twice)), testing::HasSubstr("'y' is listed twice"));
  EXPECT_THAT(failure(modelOf(valueInfo(11, "", {1}))), testing::HasSubstr("has no name"));
  EXPECT_THROW(onnx::load((folder / "absent.onnx").string()), Error);
  EXPECT_THROW(onnx::load(folder.string()), Error);
}

} // namespace
} // namespace stow
