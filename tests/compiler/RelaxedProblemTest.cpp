// Tests the problem that bounds are proven on, op by op, on steps small enough to count by hand.
#include "passes/order/RelaxedProblem.h"

#include "codegen/Backend.h"
#include "compiler/DataSheet.h"
#include "compiler/Registration.h"
#include "ir/Graphs.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/order/Pieces.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace stow;
using testing::ElementsAre;

namespace {

/// The problem of a graph on %x and %u, inputs of 4x4 floats: 64 bytes each.
class RelaxedProblem : public testing::Test {
protected:
  std::optional<schedule::Problem> problemOf(const std::string &body, const std::string &last) {
    prepareContext(context);
    module = parseSourceString<ModuleOp>(
        "module {\nfunc.func @train(%x: tensor<4x4xf32> {stow.name = \"x\", stow.kind = "
        "#stow.kind<input>}, "
        "%u: tensor<4x4xf32> {stow.name = \"u\", stow.kind = #stow.kind<input>}) -> " +
            last.substr(last.find(':') + 1) + " attributes {stow.role = #stow.role<train>} {\n" +
            body + "return " + last + "\n}\n}\n",
        &context);
    EXPECT_TRUE(module);
    return buildRelaxedProblem(findGraph(*module, Role::Train), loadDevice("cpu", 1),
                               createBackend({})->target());
  }

  static std::vector<Bytes> bytesAt(const schedule::Problem &problem) {
    schedule::check(problem);
    schedule::Replay replay = verify(problem, inputOrder(problem));
    EXPECT_FALSE(replay.fault) << *replay.fault;
    return replay.bytesAt;
  }

  static std::string exp(const std::string &result, const std::string &x,
                         const std::string &shape) {
    return "%" + result + " = stow.exp %" + x + " : (tensor<" + shape + "xf32>) -> tensor<" +
           shape + "xf32>\n";
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

// Tests that there is no such problem where nothing can lie inside anything.
TEST_F(RelaxedProblem, IsAbsentWithoutJoins) {
  EXPECT_FALSE(problemOf(exp("a", "x", "4x4"), "%a : tensor<4x4xf32>"));
}

// Tests that a concat is its inputs, by whichever op they are read: no op, no bytes.
TEST_F(RelaxedProblem, CountsWhatIsJoinedOnce) {
  auto problem = problemOf(exp("a", "x", "4x4") + exp("b", "u", "4x4") + R"(
    %y = stow.concat %a, %b {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %s = stow.reduce_sum %y {axes = array<i64: 0, 1>, keepdims = true} : (tensor<8x4xf32>) -> tensor<1x1xf32>
    %z = stow.add %b, %s : (tensor<4x4xf32>, tensor<1x1xf32>) -> tensor<4x4xf32>
  )",
                           "%z : tensor<4x4xf32>");
  ASSERT_TRUE(problem.has_value());
  // exp over x, u beside it; exp over u; the sum of both; a is dead, z lies over b.
  EXPECT_THAT(bytesAt(*problem), ElementsAre(128, 128, 192, 128));
}

// Tests that a slice's bytes are some of its operand's, and stay alone when that dies.
TEST_F(RelaxedProblem, KeepsASliceWithoutItsOperand) {
  auto problem = problemOf(exp("a", "x", "4x4") + R"(
    %l = stow.slice %a {starts = array<i64: 0, 0>, sizes = array<i64: 1, 4>} : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %s = stow.reduce_sum %a {axes = array<i64: 0, 1>, keepdims = true} : (tensor<4x4xf32>) -> tensor<1x1xf32>
    %t = stow.add %u, %s : (tensor<4x4xf32>, tensor<1x1xf32>) -> tensor<4x4xf32>
    %v = stow.mul %t, %l : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  )",
                           "%v : tensor<4x4xf32>");
  ASSERT_TRUE(problem.has_value());
  // x and u; a, u and the sum; the sum, u and 16 bytes of a; the product over t beside them.
  EXPECT_THAT(bytesAt(*problem), ElementsAre(128, 192, 144, 80));
}

// Tests that what a concat has twice is there twice: one of both is a copy.
TEST_F(RelaxedProblem, CopiesWhatIsJoinedTwice) {
  auto problem = problemOf(exp("a", "x", "4x4") + R"(
    %y = stow.concat %a, %a {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  )" + exp("z", "y", "8x4"),
                           "%z : tensor<8x4xf32>");
  ASSERT_TRUE(problem.has_value());
  // u is never read and need not exist. The copy; the result over the whole of y, piece by piece.
  EXPECT_THAT(bytesAt(*problem), ElementsAre(64, 128, 128));
}

// Tests that copies which every plan makes have their cost: slices on both sides of what they are
// slices of are copied, by themselves or by the concat.
TEST_F(RelaxedProblem, CountsTheTimeOfCopiesThatAreCertain) {
  auto problem = problemOf(exp("a", "x", "4x4") + R"(
    %l = stow.slice %a {starts = array<i64: 3, 0>, sizes = array<i64: 1, 4>} : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %f = stow.slice %a {starts = array<i64: 0, 0>, sizes = array<i64: 1, 4>} : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %y = stow.concat %l, %a, %f {axis = 0 : i64} : (tensor<1x4xf32>, tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  )" + exp("z", "y", "6x4"),
                           "%z : tensor<6x4xf32>");
  ASSERT_TRUE(problem.has_value());
  std::vector<schedule::Cost> costs;
  for (const schedule::Op &op : problem->ops)
    costs.push_back(op.alternatives.front().cost);
  // exp, the slices, exp: the launch of one copy of both slices is on the first of them.
  EXPECT_THAT(costs, ElementsAre(testing::Gt(0), testing::Gt(0), 0, testing::Gt(0)));
}

// Tests that a staircase of slices, each of which reads other bytes, is not divided without end: its
// bytes are not told apart then, and none is counted.
TEST_F(RelaxedProblem, StaysSmall) {
  const auto stairs = [&](int count) {
    const std::string shape = std::to_string(count), all = "tensor<" + shape + "x4xf32>";
    std::string body = "%r = stow.concat ";
    for (int i = 0; i < count / 4; ++i)
      body += i == 0 ? "%x" : ", %x";
    body += " {axis = 0 : i64} : (";
    for (int i = 0; i < count / 4; ++i)
      body += i == 0 ? "tensor<4x4xf32>" : ", tensor<4x4xf32>";
    body += ") -> " + all + "\n" + exp("a", "r", shape + "x4");
    std::string sum = "x";
    for (int i = 1; i < count; ++i) {
      const std::string n = std::to_string(i), part = "tensor<" + n + "x4xf32>";
      body += "%s" + n + " = stow.slice %a {starts = array<i64: 0, 0>, sizes = array<i64: " + n +
              ", 4>} : (" + all + ") -> " + part + "\n%t" + n + " = stow.reduce_sum %s" + n +
              " {axes = array<i64: 0, 1>, keepdims = true} : (" + part +
              ") -> tensor<1x1xf32>\n%y" + n + " = stow.add %" + sum + ", %t" + n +
              " : (tensor<4x4xf32>, tensor<1x1xf32>) -> tensor<4x4xf32>\n";
      sum = "y" + n;
    }
    auto problem = problemOf(body, "%" + sum + " : tensor<4x4xf32>");
    EXPECT_TRUE(problem.has_value());
    EXPECT_FALSE(bytesAt(*problem).empty());
    size_t reads = 0;
    for (const schedule::Op &op : problem->ops)
      reads += op.inputs.size();
    return reads;
  };
  EXPECT_GT(stairs(64), 64u * 63 / 2); // step by step
  EXPECT_LT(stairs(600), 20'000u);     // not 600 * 599 / 2
}

// Tests that pieces are what every reader reads all or none of, in any number of runs.
TEST(PiecesTest, DivideByMarks) {
  Pieces pieces(100);
  EXPECT_TRUE(pieces.refine({{10, 20, 1}, {50, 60, 1}}));
  EXPECT_THAT(pieces.sizes(), ElementsAre(80, 20));
  EXPECT_TRUE(pieces.refine({{15, 30, 1}}));
  EXPECT_THAT(pieces.sizes(), ElementsAre(70, 15, 5, 10));
  EXPECT_FALSE(pieces.refine({{15, 30, 2}}));
  EXPECT_EQ(pieces.at(17), 2u);
  EXPECT_EQ(pieces.at(55), 1u);
}

} // namespace
