// State from files of other tools: names, types, pieces, and what does not fit.
#include "runtime/program/Restore.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace stow {
namespace {

using namespace testfiles;
using testing::HasSubstr;

class RestoreTest : public testing::Test {
protected:
  /// A tensor of the state, in f32 or quantized.
  void add(const std::string &name, const Shape &shape, std::optional<Quantization> scheme = {},
           BufferKind kind = BufferKind::Frozen) {
    StateTensor tensor{name, kind, {}, {Init::Kind::Constant, 7, 0, 0}, true};
    const int64_t count = elementCount(shape);
    tensor.place = {program.plan.arenaBytes, DType::F32, shape, {}};
    Bytes bytes = count * 4;
    if (scheme) {
      bytes = stow::partsOf(*scheme, count).size;
      tensor.place = {program.plan.arenaBytes, DType::U8, {bytes}, {}};
      tensor.quantized = {*scheme, shape};
    }
    program.plan.arenaBytes = alignUp(program.plan.arenaBytes + bytes, 64);
    program.state.push_back(tensor);
  }

  /// A file with tensors in f32, in which element i is numbersFrom(i).
  void write(const std::vector<std::pair<std::string, Shape>> &tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const auto &[name, shape] : tensors)
      entries.push_back({name, DType::F32, shape});
    std::vector<float> piece;
    writeSafetensors(path, entries, {}, [&](size_t i, Bytes begin) -> std::span<const char> {
      const int64_t first = begin / 4, rest = elementCount(entries[i].shape) - first;
      piece.resize(static_cast<size_t>(std::min<int64_t>(rest, 1 << 18)));
      for (size_t at = 0; at < piece.size(); ++at)
        piece[at] = numberAt(first + static_cast<int64_t>(at));
      return {reinterpret_cast<const char *>(piece.data()), piece.size() * 4};
    });
  }

  static float numberAt(int64_t i) {
    return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u)) *
           1e-10f;
  }

  std::string errorOf(Restore what = Restore::Parameters) {
    try {
      const WeightFiles files(path);
      Restoration restoration(program, files, what);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    return "no error";
  }

  /// Whether the weights fit, and which of the state they cover.
  std::vector<bool> covered(const WeightAliases &aliases = {}) {
    const WeightFiles files(path);
    const Restoration restoration(program, files, Restore::Parameters, aliases);
    std::vector<bool> covers;
    for (size_t i = 0; i < program.state.size(); ++i)
      covers.push_back(restoration.covers(i));
    return covers;
  }

  TempDir dir;
  std::string path = dir.path("w.safetensors");
  Program program;
};

// Tests that a tensor is found under the other names that the program knows of it.
TEST_F(RestoreTest, OtherNamesOfTheProgram) {
  add("head.weight", {4}, {}, BufferKind::Parameter);
  write({{"embedding.weight", {4}}});
  EXPECT_THAT(errorOf(), HasSubstr("'head.weight' is missing"));
  program.state[0].otherNames = {"absent", "embedding.weight"};
  EXPECT_EQ(errorOf(), "no error");
  EXPECT_EQ(covered(), std::vector<bool>{true});
}

// Tests that what is stored of a matrix that came by pieces is what is stored of the whole, by any number of threads, and that the
// bytes themselves are taken as well.
TEST_F(RestoreTest, QuantizedWhileRead) {
  const int64_t count = 3 * (1 << 20) + 128;
  add("m", {count / 64, 64}, Quantization::Nf4);
  add("n", {count / 64, 64}, Quantization::Int8);
  add("v", {5});
  write({{"m", {count / 64, 64}}, {"n", {count / 64, 64}}, {"v", {5}}});
  std::vector<float> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    numbers[static_cast<size_t>(i)] = numberAt(i);
  program.threads = 3;
  for (int64_t threads : {1, 3}) {
    Executor executor(program, {}, {.threads = threads});
    EXPECT_EQ(restoreState(executor, WeightFiles(path), Restore::Parameters), std::nullopt);
    for (size_t i : {0, 1}) {
      const StateTensor &tensor = program.state[i];
      std::vector<char> expected(static_cast<size_t>(tensor.place.shape[0])), found(expected);
      quantize(tensor.quantized->scheme, numbers, expected.data());
      executor.readTensor(tensor.place, found.data());
      EXPECT_EQ(found, expected);
    }
    std::vector<float> v(5);
    executor.readTensor(program.state[2].place, v.data());
    EXPECT_THAT(v, testing::ElementsAreArray(numbers.begin(), numbers.begin() + 5));
  }
}

// Tests that weights of another tool are found under its names: without PEFT, with a path more or less, under those of tied weights.
TEST_F(RestoreTest, NamesOfOtherTools) {
  add("base_model.model.model.layers.0.q.base_layer.weight", {4, 4});
  add("base_model.model.model.layers.0.q.lora_A.default.weight", {2, 4}, {}, BufferKind::Parameter);
  add("base_model.model.model.norm.modules_to_save.default.weight", {4}, {}, BufferKind::Parameter);
  add("base_model.model.head.weight", {8, 4});
  const std::vector<bool> allButAdapters = {true, false, true, true};
  write({{"model.layers.0.q.weight", {4, 4}}, {"model.norm.weight", {4}}, {"head.weight", {8, 4}}});
  EXPECT_EQ(covered(), allButAdapters);
  write({{"layers.0.q.weight", {4, 4}}, {"norm.weight", {4}}, {"head.weight", {8, 4}}});
  EXPECT_EQ(covered(), allButAdapters);
  write({{"x.model.layers.0.q.weight", {4, 4}},
         {"x.model.norm.weight", {4}},
         {"x.head.weight", {8, 4}}});
  EXPECT_EQ(covered(), allButAdapters);
  write({{"model.layers.0.q.weight", {4, 4}},
         {"model.norm.weight", {4}},
         {"model.tokens.weight", {8, 4}}});
  EXPECT_EQ(covered({{"base_model.model.head.weight", {"base_model.model.model.tokens.weight"}}}),
            allButAdapters);
  EXPECT_THAT(errorOf(),
              HasSubstr("the weights do not fit this model:\n  'head.weight' is missing"));
  // Another layer's weights are none of this one.
  write({{"model.layers.0.q.weight", {4, 4}},
         {"model.layers.0.norm.weight", {4}},
         {"head.weight", {8, 4}}});
  EXPECT_THAT(errorOf(), HasSubstr("'model.norm.weight' is missing"));
}

TEST_F(RestoreTest, AdaptersAreThereOrNot) {
  add("q.weight", {4});
  add("q.lora_A.weight", {4}, {}, BufferKind::Parameter);
  add("q.lora_B.weight", {4}, {}, BufferKind::Parameter);
  write({{"q.weight", {4}}});
  const WeightFiles files(path);
  EXPECT_THAT(Restoration(program, files, Restore::Parameters).note().value_or(""),
              HasSubstr("2 adapters are not in"));
  EXPECT_THAT(errorOf(Restore::Everything),
              HasSubstr("'q.lora_A.weight' is missing\n  'q.lora_B.weight' is missing"));
  write({{"q.weight", {4}}, {"q.lora_A.weight", {4}}});
  EXPECT_THAT(errorOf(), HasSubstr("'q.lora_B.weight' is missing, and 1 other adapters are there"));
}

TEST_F(RestoreTest, WhatDoesNotFitIsNamed) {
  add("m", {2, 64}, Quantization::Nf4);
  add("v", {5});
  write({{"m", {64, 2}}, {"v", {6}}});
  EXPECT_THAT(errorOf(), HasSubstr("w.safetensors: the weights do not fit this model:\n  'm': "
                                   "expected numbers [2,64] or their nf4 bytes u8["));
  EXPECT_THAT(errorOf(), HasSubstr("'v': expected f32[5], found f32[6]"));
  write({{"m.qweight", {2}}, {"m.g_idx", {2}}, {"v", {5}}});
  EXPECT_THAT(errorOf(), HasSubstr("w.safetensors: the weights are quantized by GPTQ "
                                   "('m.qweight'), which is not read; expected f32, bf16 or f16"));
}

// Tests that of a matrix no more than pieces and the scales are held while it is loaded.
TEST_F(RestoreTest, HoldsPieces) {
  const int64_t rows = 24 << 10, columns = 1024; // 96 MiB of numbers
  add("m", {rows, columns}, Quantization::Nf4);
  write({{"m", {rows, columns}}});
  Executor executor(program, {}, {});
  executor.initializeState(0); // the arena's pages are there
  const WeightFiles files(path);
  auto statusOf = [](const std::string &key) {
    std::ifstream status("/proc/self/status");
    int64_t kibibytes = -1;
    for (std::string word; status >> word;)
      if (word == key && status >> kibibytes)
        break;
    return kibibytes;
  };
  std::ofstream("/proc/self/clear_refs") << 5; // the peak starts anew
  const int64_t before = statusOf("VmRSS:");
  if (before < 0 || statusOf("VmHWM:") > before + 4096)
    GTEST_SKIP() << "the system does not say what a process takes";
  restoreState(executor, files, Restore::Parameters);
  EXPECT_LT(statusOf("VmHWM:") - before, 24 << 10) << "KiB, of 96 MiB";
}

} // namespace
} // namespace stow
