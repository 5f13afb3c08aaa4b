// A model in the hands of a host program: what it is given, what it gives back, what it refuses.
#include "runtime/program/Instance.h"

#include "runtime/base/Error.h"
#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stow::test {
namespace {

using testing::HasSubstr;

constexpr ElementType f32 = {ElementType::Kind::Float, 4};
constexpr ElementType f64 = {ElementType::Kind::Float, 8};
constexpr ElementType i64 = {ElementType::Kind::Signed, 8};
constexpr ElementType u8 = {ElementType::Kind::Unsigned, 1};

struct InstanceTest : testing::Test {
  TinyOptions options{/*batch=*/4, /*features=*/8, /*classes=*/3};
  Program program = makeTinyModel(options);
  std::vector<float> x = std::vector<float>(32);
  std::vector<int64_t> y = {0, 2, 1, 2};

  InstanceTest() {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 7) / 7 - 0.4f;
  }

  Instance make(uint64_t seed = 3) { return Instance(program, tinyImage(), seed, {}); }
  std::vector<HostArray> batch() const { return {{x.data(), f32, {4, 8}}, {y.data(), i64, {4}}}; }

  /// What the evaluation gives for the batch: scores of 4 rows for 3 classes.
  std::vector<float> scoresOf(Instance &instance) const {
    std::vector<float> scores(4 * 3);
    std::vector<void *> outputs(instance.evalOutputs().size(), nullptr);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (elementCount(instance.evalOutputs()[i].place.shape) == 4 * 3)
        outputs[i] = scores.data();
    std::vector<HostArray> samples = batch();
    samples.resize(instance.evalInputs().size());
    instance.evaluate(samples, outputs);
    return scores;
  }

  /// The message of the error that `body` throws.
  template <typename Body> std::string messageOf(const Body &body) {
    try {
      body();
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
};

// Tests that two instances in one process share nothing: interleaved steps give the losses of steps
// one after the other.
TEST_F(InstanceTest, InstancesAreIndependent) {
  std::vector<double> alone, first, second;
  {
    Instance instance = make();
    for (int i = 0; i < 5; ++i)
      alone.push_back(instance.step(batch()));
  }
  Instance a = make(), b = make();
  for (int i = 0; i < 5; ++i) {
    first.push_back(a.step(batch()));
    second.push_back(b.step(batch()));
  }
  EXPECT_EQ(first, alone);
  EXPECT_EQ(second, alone);
  EXPECT_LT(alone.back(), alone.front());
}

// Tests that graphs are found by their roles: the order in which a program has them, and graphs of
// other roles between them, change nothing.
TEST_F(InstanceTest, FindsGraphsByRole) {
  Instance usual = make();
  GraphProgram commit;
  commit.role = GraphRole::Commit;
  std::swap(program.graphs[0], program.graphs[1]);
  program.graphs.insert(program.graphs.begin() + 1, commit);
  Instance other = make();
  EXPECT_EQ(other.stepInputs().size(), usual.stepInputs().size());
  EXPECT_EQ(other.step(batch()), usual.step(batch()));
  EXPECT_EQ(scoresOf(other), scoresOf(usual));
  EXPECT_NE(scoresOf(other), std::vector<float>(4 * 3));
  program.graphs.pop_back();
  EXPECT_EQ(messageOf([&] { make(); }), "the program has no 'train' graph");
}

// Tests that any number of rows has the loss and the accuracy of its outputs, and leaves the state
// alone; and that arrays which do not belong together, or are empty, are refused.
TEST_F(InstanceTest, MeasuresAnyNumberOfRows) {
  Instance instance = make(), untouched = make();
  const std::vector<float> scores = scoresOf(instance);
  std::vector<double> losses;
  int64_t correct = 0;
  for (size_t row = 0; row < 4; ++row) {
    auto first = scores.begin() + static_cast<int64_t>(3 * row);
    double sum = std::accumulate(first, first + 3, 0.0,
                                 [](double s, float score) { return s + std::exp(score); });
    losses.push_back(std::log(sum) - first[y[row]]);
    correct += std::max_element(first, first + 3) - first == y[row];
  }
  Metrics four = instance.measure(batch());
  EXPECT_NEAR(four.lossSum, losses[0] + losses[1] + losses[2] + losses[3], 1e-6);
  EXPECT_EQ(four.correct, correct);
  // Nine rows: the four, the four, and the first.
  for (size_t i = 32; i < 72; ++i)
    x.push_back(x[i % 32]);
  std::vector<int64_t> labels = {0, 2, 1, 2, 0, 2, 1, 2, 0};
  Metrics nine =
      instance.measure(std::vector<HostArray>{{x.data(), f32, {9, 8}}, {labels.data(), i64, {9}}});
  EXPECT_EQ(nine.rows, 9);
  EXPECT_NEAR(nine.lossSum, 2 * four.lossSum + losses[0], 1e-6);
  EXPECT_EQ(instance.step(batch()), untouched.step(batch()));
  EXPECT_EQ(messageOf([&] {
              instance.measure(
                  std::vector<HostArray>{{x.data(), f32, {9, 8}}, {labels.data(), i64, {8}}});
            }),
            "input 'y': expected 9 rows, as another input has, found i64[8]");
  EXPECT_EQ(messageOf([&] {
              instance.measure(
                  std::vector<HostArray>{{x.data(), f32, {0, 8}}, {labels.data(), i64, {0}}});
            }),
            "expected at least one row to evaluate, found none");
}

// Tests that the type of the host's array does not matter where its values are exact.
TEST_F(InstanceTest, ConvertsTypes) {
  Instance a = make(), b = make();
  std::vector<double> wide(x.begin(), x.end());
  std::vector<uint8_t> narrow(y.begin(), y.end());
  std::vector<HostArray> other = {{wide.data(), f64, {4, 8}}, {narrow.data(), u8, {4}}};
  EXPECT_EQ(a.step(batch()), b.step(other));
}

// Tests that a step takes nothing from the heap that grows with the batch: what describes the
// arrays of a call, and no more.
TEST_F(InstanceTest, StepsAllocateNoTensors) {
  if (!allocationsAreCounted())
    GTEST_SKIP() << "a sanitizer has replaced the allocator";
  auto bytesPerStep = [&](int64_t rows) {
    options.batch = rows;
    program = makeTinyModel(options);
    x.resize(static_cast<size_t>(rows * options.features), 0.25f);
    y.resize(static_cast<size_t>(rows), 1);
    std::vector<HostArray> arrays = {{x.data(), f32, {rows, 8}}, {y.data(), i64, {rows}}};
    Instance instance = make();
    instance.step(arrays);
    int64_t before = allocationsSoFar().bytes;
    for (int i = 0; i < 10; ++i)
      instance.step(arrays);
    return (allocationsSoFar().bytes - before) / 10;
  };
  int64_t few = bytesPerStep(4);
  EXPECT_LT(few, 1024);
  EXPECT_EQ(bytesPerStep(400), few);
}

// Tests that state that was read and written elsewhere continues the same run, in a blocked layout
// too.
TEST_F(InstanceTest, StateMovesBetweenInstances) {
  Instance a = make(1), b = make(2);
  a.step(batch());
  b.setStepCount(1);
  for (size_t i = 0; i < program.state.size(); ++i) {
    const Operand &place = program.state[i].place;
    std::vector<uint64_t> bytes(
        static_cast<size_t>(elementCount(place.shape) * sizeOf(place.dtype) + 7) / 8);
    a.readState(i, bytes.data());
    b.writeState(i, {bytes.data(), elementTypeOf(place.dtype), place.shape});
    std::vector<uint64_t> again(bytes.size());
    b.readState(i, again.data());
    EXPECT_EQ(again, bytes) << program.state[i].name;
  }
  // The noise of a step follows from the run's seed, which is no tensor.
  testfiles::TempDir dir;
  std::string path = dir.path("run.safetensors");
  a.save(path);
  b.load(path, Restore::Everything);
  EXPECT_EQ(b.stepCount(), 1);
  EXPECT_EQ(a.step(batch()), b.step(batch()));
}

// Tests that the outputs of a step can be read until something else runs.
TEST_F(InstanceTest, GivesTheOutputsOfAStep) {
  Instance a = make();
  double loss = a.step(batch());
  ASSERT_EQ(a.stepOutputs().size(), 1);
  EXPECT_EQ(a.stepOutputs()[0].name, "loss");
  float stored = 0;
  a.readStepOutput(0, &stored);
  EXPECT_EQ(stored, static_cast<float>(loss));
  EXPECT_THROW(a.readStepOutput(1, &stored), std::out_of_range);
}

// Tests that a refused call leaves the model as it was.
TEST_F(InstanceTest, RefusesWhatDoesNotFit) {
  Instance a = make(), b = make();
  EXPECT_THAT(messageOf([&] { a.step({}); }), HasSubstr("expected 2 arrays (x, y), found 0"));
  std::vector<HostArray> arrays = batch();
  arrays[0].shape = {3, 8};
  EXPECT_THAT(messageOf([&] { a.step(arrays); }),
              HasSubstr("expected a batch of 4, found f32[3,8]"));
  arrays = batch();
  arrays[0].shape = {4, 5};
  EXPECT_THAT(messageOf([&] { a.step(arrays); }), HasSubstr("found f32[4,5]"));
  arrays = batch();
  arrays[1].data = nullptr;
  EXPECT_THAT(messageOf([&] { a.step(arrays); }), HasSubstr("input 'y' has no data"));
  std::vector<int64_t> wrong = {0, 1, 2, 3};
  arrays[1].data = wrong.data();
  EXPECT_THAT(messageOf([&] { a.step(arrays); }), HasSubstr("row 3 has the label 3"));
  EXPECT_THAT(messageOf([&] { a.writeState(0, {x.data(), f32, {2, 2}}); }),
              HasSubstr("found f32[2,2]"));
  EXPECT_THAT(messageOf([&] { a.setLearningRate(-1); }), HasSubstr("at least 0"));
  EXPECT_EQ(a.stepCount(), 0);
  EXPECT_EQ(a.step(batch()), b.step(batch()));
}

} // namespace
} // namespace stow::test
