#include "runtime/program/ShapeChoice.h"

#include "runtime/base/Error.h"
#include "runtime/program/Samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace stow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A step on tokens, a mask and labels [batch, sequence], in shapes of 4 x 8, 4 x 4 and 2 x 4.
Program makeProgram() {
  Program program;
  program.batch = 4;
  program.loss = parseLoss("output:loss");
  program.shapes = {
      {"batch=4,sequence=8", 4}, {"batch=4,sequence=4", 4}, {"batch=2,sequence=4", 2}};
  const Shape sizes[] = {{4, 8}, {4, 4}, {2, 4}};
  for (size_t shape = 0; shape < 3; ++shape) {
    GraphProgram &graph = program.graphs.emplace_back();
    graph.role = GraphRole::Train;
    graph.shape = shape == 0 ? "" : program.shapes[shape].name;
    for (const char *name : {"tokens", "Mask", "labels"})
      graph.inputs.push_back({name, InputRole::Data, {0, DType::I64, sizes[shape], {}}});
    graph.inputs[0].indexedRows = 9;
    graph.inputs[2].padding = -100;
    graph.inputs.push_back({"scale", InputRole::Data, {0, DType::F32, {sizes[shape][0], 3}, {}}});
  }
  for (size_t shape = 0; shape < 3; ++shape) {
    GraphProgram evaluation = program.graphs[shape];
    evaluation.role = GraphRole::Eval;
    const int64_t rows = sizes[shape][0], positions = sizes[shape][1];
    evaluation.outputs = {{"logits", {0, DType::F32, {rows, positions, 9}, {}}},
                          {"pairs", {0, DType::F32, {rows, positions * positions}, {}}},
                          {"loss", {0, DType::F32, {}, {}}}};
    program.graphs.push_back(evaluation);
  }
  return program;
}

/// Rows of whole numbers, kept alive with the samples.
struct Rows {
  std::map<std::string, std::vector<int64_t>> values;
  Samples samples;

  void add(const std::string &name, const Shape &shape, std::vector<int64_t> elements) {
    std::vector<int64_t> &kept = values[name] = std::move(elements);
    Array array;
    array.name = name;
    array.place = "d.npz: " + name;
    array.type = elementTypeOf(DType::I64);
    array.shape = shape;
    array.bytes = {reinterpret_cast<const char *>(kept.data()), kept.size() * 8};
    samples.byInput[name] = array;
    samples.rowCount = shape[0];
  }
};

Rows makeRows() {
  Rows rows;
  rows.add("tokens", {3, 6}, std::vector<int64_t>(18, 1));
  rows.add("Mask", {3, 6}, {1, 1, 1, 0, 0, 0, /**/ 1, 1, 0, 0, 0, 0, /**/ 0, 1, 1, 1, 1, 0});
  rows.add("labels", {3, 6},
           {1, 2, -100, -100, -100, -100, /**/ 3, -100, 0, -100, -100, -100, /**/ -100, -100, -100,
            -100, -100, -100});
  rows.add("scale", {3, 3}, std::vector<int64_t>(9, 1));
  return rows;
}

std::string errorOf(const std::function<void()> &act) {
  try {
    act();
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

TEST(ShapeChoiceTest, TakesTheSmallestThatHolds) {
  const Program program = makeProgram();
  const ShapeChoice shapes(program);
  EXPECT_EQ(shapes.smallestFor(4, {8}), 0u);
  EXPECT_EQ(shapes.smallestFor(4, {5}), 0u);
  EXPECT_EQ(shapes.smallestFor(4, {4}), 1u);
  EXPECT_EQ(shapes.smallestFor(2, {1}), 2u);
  EXPECT_THAT(
      errorOf([&] { shapes.smallestFor(4, {9}); }),
      HasSubstr("no shape of the program holds 9 in dimension 1 of 'tokens'; the largest is "
                "batch=4,sequence=8"));
  EXPECT_THAT(errorOf([&] { shapes.smallestFor(3, {4}); }),
              HasSubstr("expected a batch of 2 or 4 rows, found 3"));
  EXPECT_THAT(errorOf([&] { shapes.smallestFor(2, {5}); }), HasSubstr("found 2"));
}

TEST(ShapeChoiceTest, FillsUpWhereThatIsRight) {
  Program program = makeProgram();
  program.fillsBatches = true;
  const ShapeChoice shapes(program);
  EXPECT_EQ(shapes.smallestFor(3, {4}), 1u);
  EXPECT_EQ(shapes.smallestFor(1, {4}), 2u);
  EXPECT_EQ(shapes.smallestFor(2, {5}), 0u);
  EXPECT_THAT(errorOf([&] { shapes.smallestFor(5, {4}); }), HasSubstr("found 5"));
  EXPECT_EQ(stepsPerEpoch(program, 9), 3);
  program.fillsBatches = false;
  EXPECT_EQ(stepsPerEpoch(program, 9), 2);
}

TEST(ShapeChoiceTest, EvaluationTakesTheSmallestWithRoom) {
  const Program program = makeProgram();
  const ShapeChoice shapes(program);
  EXPECT_EQ(shapes.smallestWithRoom(4, {5}), 0u);
  EXPECT_EQ(shapes.smallestWithRoom(1, {5}), 0u);
  EXPECT_EQ(shapes.smallestWithRoom(4, {4}), 1u);
  EXPECT_EQ(shapes.smallestWithRoom(3, {4}), 1u);
  EXPECT_EQ(shapes.smallestWithRoom(1, {2}), 2u);
  EXPECT_THAT(errorOf([&] { shapes.smallestWithRoom(1, {9}); }),
              HasSubstr("no shape of the program holds 9"));
  EXPECT_EQ(
      countsText(program, std::vector<int64_t>{1, 0, 1200}),
      "batches: 1 in batch=4,sequence=8, 0 in batch=4,sequence=4, 1,200 in batch=2,sequence=4");
  EXPECT_EQ(countsText(Program(), std::vector<int64_t>{1}), "");
}

TEST(ShapeChoiceTest, OutputsFollowTheAxesOfInputs) {
  const Program program = makeProgram();
  const ShapeChoice shapes(program);
  EXPECT_THAT(shapes.evaluatedOf(0, 0, {5}), ElementsAre(4, 5, 9));
  EXPECT_THAT(shapes.evaluatedOf(0, 1, {3}), ElementsAre(4, 3, 9));
  EXPECT_THAT(shapes.evaluatedOf(0, 2, {3}), ElementsAre(2, 3, 9));
  EXPECT_THAT(shapes.evaluatedOf(1, 1, {3}), ElementsAre(4, 16)) << "that of the shape";
  EXPECT_THAT(shapes.evaluatedOf(2, 1, {3}), ElementsAre());
  EXPECT_THAT(errorOf([&] { shapes.evaluatedOf(3, 0, {3}); }), HasSubstr("different outputs"));
}

TEST(ShapeChoiceTest, TargetsThatAllCountAreNotCut) {
  Program program = makeProgram();
  program.loss = parseLoss("mse");
  for (GraphProgram &graph : program.graphs)
    graph.inputs.push_back({"y", InputRole::Target, graph.inputs[0].place});
  Rows rows = makeRows();
  rows.add("y", {3, 6}, std::vector<int64_t>(18, 1));
  EXPECT_THAT(ShapeChoice(program).extentsOfRows(rows.samples),
              ElementsAre(ElementsAre(6), ElementsAre(6), ElementsAre(6)));
}

TEST(ShapeChoiceTest, RowsEndWhereNoLabelAndNoMaskCounts) {
  const Program program = makeProgram();
  const ShapeChoice shapes(program);
  Rows rows = makeRows();
  EXPECT_THAT(shapes.extentsOfRows(rows.samples),
              ElementsAre(ElementsAre(3), ElementsAre(3), ElementsAre(5)));
  EXPECT_THAT(shapes.extentsOf({{"tokens", {3, 6}}, {"Mask", {3, 7}}}), ElementsAre(7));
  rows.add("Mask", {3, 9}, std::vector<int64_t>(27, 1));
  EXPECT_THAT(errorOf([&] { shapes.extentsOfRows(rows.samples); }),
              HasSubstr("row 0 needs 9 in dimension 1 of 'tokens'; the largest shape is"));
}

TEST(ShapeChoiceTest, WithoutLabelsAndMaskRowsAreWhole) {
  Program program = makeProgram();
  for (GraphProgram &graph : program.graphs) {
    graph.inputs[1].name = "types";
    graph.inputs[2].padding.reset();
  }
  Rows rows = makeRows();
  rows.samples.byInput["types"] = rows.samples.byInput["Mask"];
  EXPECT_THAT(ShapeChoice(program).extentsOfRows(rows.samples),
              ElementsAre(ElementsAre(6), ElementsAre(6), ElementsAre(6)));
}

TEST(ShapeChoiceTest, RowsAreCutAndPadded) {
  const Program program = makeProgram();
  const std::optional<Fitting> fitting = fittingOf(program);
  ASSERT_TRUE(fitting);
  EXPECT_THAT(fitting->open.at("labels"), ElementsAre(1));
  EXPECT_FALSE(fitting->open.contains("scale"));
  Rows rows = makeRows();
  auto read = [&](const std::string &name, size_t shape, int64_t row, bool isFilling = false) {
    const GraphInput &input =
        *std::ranges::find(program.graphs[shape].inputs, name, &GraphInput::name);
    RowReader reader(rows.samples.byInput.at(name), input, NonFinite::Refused, &*fitting);
    const auto *elements =
        reinterpret_cast<const int64_t *>(isFilling ? reader.filling(row) : reader.row(row));
    return std::vector<int64_t>(elements, elements + reader.elements());
  };
  EXPECT_THAT(read("labels", 0, 1), ElementsAre(3, -100, 0, -100, -100, -100, -100, -100));
  EXPECT_THAT(read("labels", 1, 1), ElementsAre(3, -100, 0, -100));
  EXPECT_THAT(read("Mask", 0, 0), ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(read("Mask", 2, 2), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(read("labels", 1, 0, true), ElementsAre(-100, -100, -100, -100));
  EXPECT_THAT(read("Mask", 1, 0, true), ElementsAre(1, 1, 1, 0)); // what is no label stays as it is
  // In a dimension that shapes do not differ in, sizes are the input's.
  rows.add("scale", {3, 2}, std::vector<int64_t>(6, 1));
  EXPECT_THAT(errorOf([&] { read("scale", 0, 0); }), HasSubstr("expected f32[rows,3]"));
}

TEST(ShapeChoiceTest, InnerDimensionsAreCutAndPadded) {
  Program program;
  program.batch = 1;
  program.shapes = {{"h=3,w=4", 1}, {"h=2,w=2", 1}};
  for (const Shape &size : {Shape{1, 3, 4}, Shape{1, 2, 2}}) {
    GraphProgram &graph = program.graphs.emplace_back();
    graph.shape = program.graphs.size() == 1 ? "" : program.shapes[1].name;
    graph.inputs = {{"x", InputRole::Data, {0, DType::I64, size, {}}}};
  }
  const std::optional<Fitting> fitting = fittingOf(program);
  Rows rows;
  std::vector<int64_t> numbers(6);
  std::iota(numbers.begin(), numbers.end(), 1);
  rows.add("x", {1, 2, 3}, numbers);
  auto read = [&](size_t shape) {
    RowReader reader(rows.samples.byInput.at("x"), program.graphs[shape].inputs[0],
                     NonFinite::Refused, &*fitting);
    const auto *elements = reinterpret_cast<const int64_t *>(reader.row(0));
    return std::vector<int64_t>(elements, elements + reader.elements());
  };
  EXPECT_THAT(read(0), ElementsAre(1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0));
  EXPECT_THAT(read(1), ElementsAre(1, 2, 4, 5));
}

} // namespace
} // namespace stow
