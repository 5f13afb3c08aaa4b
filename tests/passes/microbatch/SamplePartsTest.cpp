// Tests which results of a batch follow from those of its parts: a graph beside itself at another batch.
#include "passes/microbatch/SampleParts.h"

#include "ir/Graphs.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace stow;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class SamplePartsTest : public testing::Test {
protected:
  SamplePartsTest() { context.loadDialect<StowDialect, func::FuncDialect>(); }

  /// Of a graph of inputs and results at 4 samples against 5; N stands for the samples.
  SampleParts partsOf(const std::string &arguments, const std::string &results,
                      const std::string &body) {
    auto at = [&](const std::string &samples) {
      std::string text = "func.func @eval(" + arguments + ") -> (" + results +
                         ") attributes {stow.role = #stow.role<eval>} {\n" + body + "\n}";
      for (size_t found; (found = text.find('N')) != std::string::npos;)
        text.replace(found, 1, samples);
      auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
      EXPECT_TRUE(module) << text;
      return module;
    };
    OwningOpRef<ModuleOp> four = at("4"), five = at("5");
    if (!four || !five)
      return {{}, "no graph"};
    return samplePartsOf(findGraph(*four, Role::Eval), findGraph(*five, Role::Eval), 4, 5);
  }

  MLIRContext context;
};

constexpr const char *kX =
    "%x: tensor<Nx6xf32> {stow.name = \"x\", stow.kind = #stow.kind<input>}, "
    "%w: tensor<6x3xf32> {stow.name = \"w\", stow.kind = #stow.kind<parameter>}";

// Tests that rows stay rows through a product and a softmax of each row, and that the sum over them,
// divided by their number, is a mean.
TEST_F(SamplePartsTest, RowsAndTheirMean) {
  SampleParts parts = partsOf(kX, "tensor<Nx3xf32>, tensor<f32>, tensor<f32>, tensor<f32>", R"(
    %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<Nx6xf32>, tensor<6x3xf32>) -> tensor<Nx3xf32>
    %p = stow.softmax %y {axis = 1 : i64} : (tensor<Nx3xf32>) -> tensor<Nx3xf32>
    %s = stow.reduce_sum %p {axes = array<i64: 0, 1>, keepdims = false} : (tensor<Nx3xf32>) -> tensor<f32>
    %c = stow.constant dense<4.0> : tensor<f32>
    %fixed = stow.div %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %n = stow.constant dense<N.0> : tensor<f32>
    %share = stow.div %s, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %m = stow.reduce_mean %p {axes = array<i64: 0, 1>, keepdims = false} : (tensor<Nx3xf32>) -> tensor<f32>
    return %p, %fixed, %share, %m : tensor<Nx3xf32>, tensor<f32>, tensor<f32>, tensor<f32>)");
  EXPECT_EQ(parts.obstacle, "");
  EXPECT_THAT(parts.results,
              ElementsAre(Joining::Rows, Joining::Sum, Joining::Mean, Joining::Mean));
}

// Tests a cross-entropy's mean: divided by the number of labels it is one of samples, divided by those
// that count it is not.
TEST_F(SamplePartsTest, MeanOverLabels) {
  auto loss = [&](const std::string &ignored) {
    return partsOf(
        "%y: tensor<Nx3xf32> {stow.name = \"y\", stow.kind = #stow.kind<input>}, "
        "%t: tensor<Nxi64> {stow.name = \"t\", stow.kind = #stow.kind<input>}",
        "tensor<f32>",
        "%l, %lse = stow.cross_entropy_rows %y, %t {ignore_index = " + ignored +
            R"( : i64} : (tensor<Nx3xf32>, tensor<Nxi64>) -> (tensor<Nxf32>, tensor<Nxf32>)
    %s = stow.reduce_sum %l {axes = array<i64: 0>, keepdims = false} : (tensor<Nxf32>) -> tensor<f32>
    %n = stow.count_valid %t {element_type = f32, ignore_index = )" +
            ignored + R"( : i64} : (tensor<Nxi64>) -> tensor<f32>
    %m = stow.div %s, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %m : tensor<f32>)");
  };
  EXPECT_THAT(loss("-9223372036854775808").results, ElementsAre(Joining::Mean));
  EXPECT_THAT(loss("2").obstacle, HasSubstr("stow.count_valid"));
}

// Tests graphs whose samples meet: in a softmax over them, in a statistic that goes back to them, in
// products of samples with each other.
TEST_F(SamplePartsTest, SamplesThatMeet) {
  EXPECT_THAT(partsOf(kX, "tensor<Nx6xf32>", R"(
    %p = stow.softmax %x {axis = 0 : i64} : (tensor<Nx6xf32>) -> tensor<Nx6xf32>
    return %p : tensor<Nx6xf32>)")
                  .obstacle,
              HasSubstr("brings samples of the batch together"));
  EXPECT_THAT(partsOf(kX, "tensor<Nx6xf32>", R"(
    %m = stow.reduce_mean %x {axes = array<i64: 0>, keepdims = true} : (tensor<Nx6xf32>) -> tensor<1x6xf32>
    %c = stow.sub %x, %m : (tensor<Nx6xf32>, tensor<1x6xf32>) -> tensor<Nx6xf32>
    return %c : tensor<Nx6xf32>)")
                  .obstacle,
              HasSubstr("brings a statistic of the batch back"));
  EXPECT_THAT(partsOf(kX, "tensor<NxNxf32>", R"(
    %s = stow.matmul %x, %x {transpose_a = false, transpose_b = true} : (tensor<Nx6xf32>, tensor<Nx6xf32>) -> tensor<NxNxf32>
    return %s : tensor<NxNxf32>)")
                  .obstacle,
              HasSubstr("does not grow as the batch does"));
  EXPECT_THAT(partsOf(kX, "tensor<1x6xf32>", R"(
    %f = stow.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 1, 6>} : (tensor<Nx6xf32>) -> tensor<1x6xf32>
    return %f : tensor<1x6xf32>)")
                  .obstacle,
              HasSubstr("makes one of all samples"));
}

// Tests results that are no rows of the samples in their order: the logarithm of a sum, rows in the
// second dimension.
TEST_F(SamplePartsTest, ResultsThatPartsDoNotGive) {
  EXPECT_THAT(partsOf(kX, "tensor<f32>", R"(
    %s = stow.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = false} : (tensor<Nx6xf32>) -> tensor<f32>
    %l = stow.log %s : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>)")
                  .obstacle,
              HasSubstr("does not follow from those of its parts"));
  EXPECT_THAT(partsOf(kX, "tensor<6xNxf32>", R"(
    %t = stow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<Nx6xf32>) -> tensor<6xNxf32>
    return %t : tensor<6xNxf32>)")
                  .obstacle,
              HasSubstr("whose rows are not the samples"));
}

} // namespace
