// Reading files nobody vouches for: external data, damaged files, mutated bytes.
#include "compiler/import/Import.h"

#include "compiler/import/OnnxModel.h"
#include "runtime/base/Error.h"

#include "tests/compiler/import/Mutate.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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

/// Mutates the bytes of a good model thousands of times: every outcome is a module or diagnostics.
TEST_F(LoadOnnxTest, MutatedModelsNeverCrash) {
  std::mt19937 random(20240611);
  // A convolution with all its attributes, a shape computation, and the matrix product above.
  auto ints = [](const std::string &name, std::vector<uint64_t> values) {
    std::string body = message(1, name) + integer(20, 7);
    for (uint64_t value : values)
      body += integer(8, value);
    return message(5, body);
  };
  std::string convolution = message(1, message(1, "x") + message(1, "k") + message(2, "c") +
                                           message(4, "Conv") + ints("pads", {1, 1, 1, 1}) +
                                           ints("strides", {2, 2}) + ints("dilations", {1, 1}));
  std::string pool = message(1, message(1, "c") + message(2, "m") + message(4, "AveragePool") +
                                    ints("kernel_shape", {2, 2}) + ints("pads", {0, 1, 0, 1}));
  std::string shape =
      message(5, integer(1, 2) + integer(2, 7) + message(8, "s") +
                     message(9, std::string(1, 2) + std::string(7, 0) + std::string(8, '\xff')));
  const std::string seed = modelOf(
      convolution + pool + node("Shape", {"m"}, "d") + node("Gather", {"d", "zero"}, "n") +
      node("Reshape", {"m", "s"}, "f") + node("MatMul", {"f", "w"}, "y") + shape +
      message(5, integer(2, 7) + message(8, "zero") + message(9, std::string(8, 0))) +
      message(5, floats("k", {2, 1, 3, 3}, raw(18))) + message(5, floats("w", {16, 3}, raw(48))) +
      valueInfo(11, "x", {2, 1, 6, 6}) + valueInfo(12, "y", {2, 3}) + valueInfo(12, "n", {}));
  int imported = 0, refused = 0;
  mlir::MLIRContext context;
  std::string last;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    last = diagnostic.str();
    return mlir::success();
  });
  for (int round = 0; round < 8000; ++round) {
    std::string bytes = seed;
    if (round > 0)
      mutate(bytes, random);
    last.clear();
    auto module = importOnnx(context, write("model.onnx", bytes), {});
    ASSERT_TRUE(module || !last.empty()) << "round " << round << " failed without a word";
    ++(module ? imported : refused);
    if (round == 0)
      ASSERT_TRUE(module) << last;
  }
  // Both outcomes occur, or the mutations test nothing.
  EXPECT_GT(imported, 100);
  EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace stow
