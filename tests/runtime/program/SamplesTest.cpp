#include "runtime/program/Samples.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"
#include "tests/runtime/program/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace stow {
namespace {

using namespace testfiles;
using testing::ElementsAre;
using testing::HasSubstr;

/// Inputs "pixels" f32 [2,1,2,3] and "class" i64 [2].
GraphProgram makeGraph() {
  GraphProgram graph;
  graph.role = GraphRole::Train;
  graph.inputs = {{"pixels", InputRole::Data, {0, DType::F32, {2, 1, 2, 3}, {}}},
                  {"class", InputRole::Target, {64, DType::I64, {2}, {}}},
                  {"lr", InputRole::LearningRate, {128, DType::F32, {}, {}}}};
  return graph;
}

class SamplesTest : public testing::Test {
protected:
  /// Loads from a file with these arrays: x-like ones [3,2,3] of bytes, y-like ones [3].
  std::optional<Samples> load(std::vector<std::string> dataNames,
                              std::vector<std::string> targetNames, Split split = Split::Train,
                              const KeyChoice &keys = {}) {
    std::vector<ZipMember> members;
    std::string pixels(18, '\0');
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<char>(i);
    for (const std::string &name : dataNames)
      members.push_back({name + ".npy", npy("|u1", {3, 2, 3}, pixels)});
    for (const std::string &name : targetNames)
      members.push_back({name + ".npy", npyLabels({5, 6, 7})});
    writeFile(path, zip(members));
    return loadSamples(ArrayFile(path), graph, split, keys);
  }

  std::string chosen(const std::optional<Samples> &samples) {
    return samples ? samples->byInput.at("pixels").name + "," + samples->byInput.at("class").name
                   : "none";
  }

  TempDir dir;
  std::string path = dir.path("d.npz");
  GraphProgram graph = makeGraph();
};

TEST_F(SamplesTest, FindsArraysByName) {
  EXPECT_EQ(chosen(load({"x"}, {"y"})), "x,y");
  EXPECT_EQ(chosen(load({"x_train", "x_test"}, {"y_train", "y_test"})), "x_train,y_train");
  EXPECT_EQ(chosen(load({"x", "pixels"}, {"y", "class"})), "pixels,class");
  EXPECT_EQ(chosen(load({"images"}, {"labels"})), "images,labels");
  EXPECT_EQ(chosen(load({"a", "x"}, {"b", "y"}, Split::Train, {"a", "b"})), "a,b");
}

TEST_F(SamplesTest, FindsTestArrays) {
  EXPECT_EQ(chosen(load({"x", "x_test"}, {"y", "y_test"}, Split::Test)), "x_test,y_test");
  EXPECT_EQ(chosen(load({"pixels_test"}, {"class_test"}, Split::Test)), "pixels_test,class_test");
  EXPECT_EQ(chosen(load({"a_test"}, {"b_test"}, Split::Test, {"a_train", "b"})), "a_test,b_test");
  EXPECT_EQ(chosen(load({"x"}, {"y"}, Split::Test)), "none");
}

TEST_F(SamplesTest, Errors) {
  auto error = [&](auto run) -> std::string {
    try {
      run();
    } catch (const Error &e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error([&] { load({"q"}, {"y"}); }),
              HasSubstr("d.npz: no array for input 'pixels': looked for pixels, pixels_train, x, "
                        "x_train"));
  graph.inputs[0].place.shape = {2, 3, 2};
  EXPECT_THAT(error([&] { load({"x"}, {"y"}); }),
              HasSubstr("d.npz: x: expected f32[rows,3,2] for input 'pixels', found u8[3,2,3]; the "
                        "dimensions are in another order"));
  graph.inputs[0].place.shape = {2, 6};
  EXPECT_THAT(error([&] { load({"x"}, {"y"}); }), HasSubstr("found u8[3,2,3]"));
  graph = makeGraph();
  graph.inputs[2].role = InputRole::Data; // two data inputs: usual names no longer tell them apart
  EXPECT_THAT(error([&] { load({"x"}, {"y"}); }), HasSubstr("looked for pixels, pixels_train;"));
  EXPECT_THAT(error([&] { load({"x"}, {"y"}, Split::Train, {"x", {}}); }),
              HasSubstr("--x: the model has several such inputs"));
}

TEST_F(SamplesTest, ChecksLabels) {
  std::optional<Samples> samples = load({"x"}, {"y"});
  const Array &labels = samples->byInput.at("class");
  EXPECT_NO_THROW(checkLabels(labels, 8, -100));
  EXPECT_NO_THROW(checkLabels(labels, 7, 7));
  EXPECT_THROW(checkLabels(labels, 7, -100), Error);
}

// Tests that an index outside the table it reads is refused before any step, with its row.
TEST_F(SamplesTest, ChecksIndices) {
  graph.inputs[0].place.dtype = DType::I64;
  graph.inputs[0].indexedRows = 18; // the values are 0 to 17
  EXPECT_NO_THROW(load({"x"}, {"y"}));
  graph.inputs[0].indexedRows = 15;
  try {
    load({"x"}, {"y"});
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("d.npz: x: row 2 holds the index 15; expected one from -15 "
                                        "to 14, as input 'pixels' reads a table of 15 rows"));
  }
}

// Tests that bytes become floats on their way into the arena, row by row.
TEST_F(SamplesTest, FeedsConvertedRows) {
  Program program;
  program.plan.arenaBytes = 4096;
  program.graphs = {graph};
  Executor executor(program, {}, {});
  std::optional<Samples> samples = load({"x"}, {"y"});
  Feeder feeder(graph, *samples);
  feeder.write(executor, std::array<int64_t, 2>{1, 2});
  std::vector<float> pixels(12);
  std::vector<int64_t> classes(2);
  executor.readTensor(graph.inputs[0].place, pixels.data());
  executor.readTensor(graph.inputs[1].place, classes.data());
  EXPECT_THAT(pixels, ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  EXPECT_THAT(classes, ElementsAre(6, 7));
}

// Tests that a value that does not fit is reported with its row.
TEST_F(SamplesTest, NamesTheRowOfABadValue) {
  Program program;
  program.plan.arenaBytes = 4096;
  graph.inputs[1].place.dtype = DType::U8;
  program.graphs = {graph};
  Executor executor(program, {}, {});
  writeFile(path, zip({{"x.npy", npy("|u1", {2, 2, 3}, std::string(12, '\1'))},
                       {"y.npy", npyLabels({1, 300})}}));
  std::optional<Samples> samples = loadSamples(ArrayFile(path), graph, Split::Train, {});
  Feeder feeder(graph, *samples);
  try {
    feeder.write(executor, std::array<int64_t, 2>{0, 1});
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("d.npz: y: row 1: element 0 is 300, which does not fit"));
  }
}

/// Rows of more than a thread, and of more than a piece of a copy, brings at a time.
class LargeRows : public testing::Test {
protected:
  static constexpr int64_t kRows = 5, kElements = 3 * 480'000;

  void SetUp() override {
    numbers.resize(kRows * kElements);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<float>(i % 65'521);
    Array array;
    array.name = array.place = "d.npz: x";
    array.type = {ElementType::Kind::Float, 4};
    array.shape = {kRows, 3, 600, 800};
    array.bytes = {reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float)};
    samples.byInput.emplace("x", array);
    samples.rowCount = kRows;
  }

  /// The elements of rows 4, 0 and 2, as an input of this type and order has them.
  std::vector<double> fed(DType type, Layout layout, Feeder *feeder = nullptr) {
    GraphProgram graph;
    graph.inputs = {{"x", InputRole::Data, {0, type, {3, 3, 600, 800}, std::move(layout)}}};
    Program program;
    program.threads = 3;
    program.plan.arenaBytes = 3 * kElements * sizeOf(type);
    program.graphs = {graph};
    Executor executor(program, {}, {});
    Feeder own(graph, samples);
    (feeder ? *feeder : own).write(executor, std::array<int64_t, 3>{4, 0, 2});
    std::vector<char> bytes(static_cast<size_t>(program.plan.arenaBytes));
    executor.readTensor(graph.inputs[0].place, bytes.data());
    std::vector<double> values(3 * kElements);
    toDoubles(type, bytes.data(), values.data(), 3 * kElements);
    return values;
  }

  std::string errorOf(Feeder *feeder = nullptr) {
    try {
      fed(DType::F32, {}, feeder);
    } catch (const Error &error) {
      return error.what();
    }
    return "none";
  }

  std::vector<float> numbers;
  Samples samples;
};

TEST_F(LargeRows, ComeWholeFromSeveralThreads) {
  Layout channelsLast;
  channelsLast.order = {0, 2, 3, 1};
  for (const DType type : {DType::F32, DType::F64})
    for (const Layout &layout : {Layout(), channelsLast}) {
      const std::vector<double> found = fed(type, layout);
      for (const auto [at, row] : {std::pair(0, 4), {1, 0}, {2, 2}})
        ASSERT_TRUE(std::equal(numbers.begin() + row * kElements,
                               numbers.begin() + (row + 1) * kElements,
                               found.begin() + at * kElements))
            << "row " << row;
    }
}

TEST_F(LargeRows, NamesTheFirstRowOfThree) {
  numbers[4 * kElements + 1'439'999] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(errorOf(), HasSubstr("x: row 4 holds infinity (element 1439999 of 1440000"));
  numbers[2 * kElements + 17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(errorOf(), HasSubstr("x: row 2 holds NaN (element 17 of 1440000"));
  numbers[kElements + 17] = numbers[2 * kElements + 17]; // of a row that is not read
  numbers[4 * kElements + 1'439'999] = numbers[2 * kElements + 17] = 0;
  EXPECT_EQ(errorOf(), "none");
}

// Tests that rows that stay what they are are looked at once, and others whenever they are read.
TEST_F(LargeRows, AreLookedAtOnceWhereTheyStay) {
  GraphProgram graph;
  graph.inputs = {{"x", InputRole::Data, {0, DType::F32, {3, 3, 600, 800}, {}}}};
  samples.isConstant = true;
  Feeder once(graph, samples);
  samples.isConstant = false;
  Feeder always(graph, samples);
  EXPECT_EQ(errorOf(&once), "none");
  EXPECT_EQ(errorOf(&always), "none");
  numbers[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(errorOf(&once), "none");
  EXPECT_THAT(errorOf(&always), HasSubstr("x: row 0 holds NaN"));
}

// Tests that a split holds out the right number, loses no row and depends on the seed.
TEST(SplitRowsTest, SplitsAllRows) {
  Rows rows = splitRows(1437, 0.1, 3);
  EXPECT_EQ(rows.validation.size(), 143u);
  std::vector<int64_t> both = rows.train;
  both.insert(both.end(), rows.validation.begin(), rows.validation.end());
  std::ranges::sort(both);
  EXPECT_EQ(both, allRows(1437));
  EXPECT_TRUE(std::ranges::is_sorted(rows.train));
  EXPECT_EQ(splitRows(1437, 0.1, 3).validation, rows.validation);
  EXPECT_NE(splitRows(1437, 0.1, 4).validation, rows.validation);
  EXPECT_EQ(splitRows(10, 0, 3).train, allRows(10));
  EXPECT_TRUE(splitRows(5, 0.1, 3).validation.empty()); // half a row is none
}

} // namespace
} // namespace stow
