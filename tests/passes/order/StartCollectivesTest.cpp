// Tests where collectives begin, where they are awaited, and what goes on meanwhile.
#include "passes/order/StartCollectives.h"

#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

using namespace mlir;
using namespace stow;
using testing::ElementsAre;

namespace {

constexpr Bytes kAll = std::numeric_limits<Bytes>::max();
constexpr Bytes kSum = 4096; ///< bytes of a value

/// Two gradients, each added up and then used by an op that stands for its update; x is what the rest of the backward reads.
constexpr const char *kTwoSums = R"(
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %sa = stow.all_reduce %a {ranks = 2 : i64, stow.workspace = 64 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %ua = stow.exp %sa : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %sb = stow.all_reduce %b {ranks = 2 : i64, stow.workspace = 64 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %ub = stow.tanh %sb : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %ua, %ub, %c : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  })";

/// Three gradients and their sums.
constexpr const char *kThreeSums = R"(
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>})
      -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %sa = stow.all_reduce %a {ranks = 2 : i64, stow.workspace = 64 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %b = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %sb = stow.all_reduce %b {ranks = 2 : i64, stow.workspace = 64 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %sc = stow.all_reduce %c {ranks = 2 : i64, stow.workspace = 64 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %sa, %sb, %sc : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
  })";

/// A shard of a sum, the op that stands for its update, and the parameter that is put together of it, whose old value `late` reads.
constexpr const char *kShards = R"(
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %w: tensor<1024xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<1024xf32> {stow.state = "w"}, tensor<1024xf32>) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %s = stow.all_reduce %a {ranks = 2 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %late = stow.mul %s, %w : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %p = stow.reduce_scatter %x {ranks = 2 : i64} : (tensor<1024xf32>) -> tensor<512xf32>
    %u = stow.tanh %p : (tensor<512xf32>) -> tensor<512xf32>
    %n = stow.all_gather %u, %w {ranks = 2 : i64} : (tensor<512xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %n, %late : tensor<1024xf32>, tensor<1024xf32>
  })";

/// Two weights that are put together of shards, each where a product reads it.
constexpr const char *kWeights = R"(
  func.func @train(%x: tensor<1024xf32> {stow.name = "x", stow.kind = #stow.kind<input>},
                   %v: tensor<512xf32> {stow.name = "v", stow.kind = #stow.kind<parameter>},
                   %w: tensor<512xf32> {stow.name = "w", stow.kind = #stow.kind<parameter>})
      -> (tensor<1024xf32>, tensor<1024xf32>) attributes {stow.role = #stow.role<train>} {
    %a = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %vs = stow.unshard %v {ranks = 2 : i64, stow.workspace = 0 : i64} : (tensor<512xf32>) -> tensor<1024xf32>
    %b = stow.mul %a, %vs : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %c = stow.softmax %b {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    %ws = stow.unshard %w {ranks = 2 : i64, stow.workspace = 0 : i64} : (tensor<512xf32>) -> tensor<1024xf32>
    %d = stow.mul %c, %ws : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %e = stow.softmax %x {axis = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>
    return %d, %e : tensor<1024xf32>, tensor<1024xf32>
  })";

class StartCollectives : public testing::Test {
protected:
  /// Ops take 1,000 ns and a little; a collective's two exchanges of half its bytes `exchange` ns each.
  void read(const char *text, schedule::Cost exchange) {
    context.loadDialect<StowDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    graph = stepGraph(*module);
    costs.bytesPerSecond = 1e15;
    costs.network = Network{{Bytes{1} << 40, 1, exchange}};
  }

  /// The ops that are left, in their order; "start" before the name of what is started.
  std::vector<std::string> started(Bytes most) {
    startCollectives(graph, costs, most);
    EXPECT_TRUE(succeeded(module->verify()));
    std::vector<std::string> left;
    for (Operation &op : graph.front().without_terminator()) {
      left.push_back((op.hasAttr(kWithNextAttr)  ? "wait to start "
                      : isStartedCollective(&op) ? "start "
                                                 : "") +
                     op.getName().stripDialect().str());
      EXPECT_EQ(op.hasAttr("stow.workspace"),
                isCollective(&op) && !isStartedCollective(&op) && most < kSum)
          << left.back();
    }
    return left;
  }

  schedule::Cost exposed() { return costs.timeOf(graph).exposed; }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp graph;
  CostModel costs;
};

// Tests that a sum which is quick is awaited behind the next op, and its reader stands there.
TEST_F(StartCollectives, AreAwaitedOnceTheyHaveEnded) {
  read(kTwoSums, 400);
  EXPECT_THAT(started(kAll),
              ElementsAre("softmax", "start all_reduce", "softmax", "await_reduce", "exp",
                          "start all_reduce", "softmax", "await_reduce", "tanh"));
  EXPECT_EQ(exposed(), 0);
}

// Tests that slow sums wait for each other on their lane, and the compute lane for them at the end, as long as the clock says.
TEST_F(StartCollectives, WaitWhereNothingIsLeftToDo) {
  read(kTwoSums, 100'000);
  const schedule::Cost inTurn = exposed();
  EXPECT_THAT(started(kAll),
              ElementsAre("softmax", "start all_reduce", "softmax", "start all_reduce", "softmax",
                          "await_reduce", "exp", "await_reduce", "tanh"));
  // 4 exchanges begin behind the first product and its start; two products, a start and the first update pass beside them.
  EXPECT_NEAR(static_cast<double>(inTurn), 400'000, 100);
  EXPECT_NEAR(static_cast<double>(exposed()), 400'000 - 4'000, 100);
}

// Tests that no more bytes are under way than there is room for.
TEST_F(StartCollectives, KeepToTheirRoom) {
  read(kTwoSums, 100'000);
  EXPECT_THAT(started(kSum),
              ElementsAre("softmax", "start all_reduce", "softmax", "await_reduce", "exp",
                          "start all_reduce", "softmax", "await_reduce", "tanh"));
  read(kTwoSums, 100'000);
  EXPECT_THAT(started(kSum - 1), ElementsAre("softmax", "all_reduce", "exp", "softmax",
                                             "all_reduce", "tanh", "softmax"));
}

// Tests that a parameter is not overwritten before what reads its old value has run, however long that waits.
TEST_F(StartCollectives, LeaveStateToItsReaders) {
  read(kShards, 100'000);
  EXPECT_THAT(started(kAll), ElementsAre("softmax", "start all_reduce", "start reduce_scatter",
                                         "softmax", "await_reduce", "mul", "await_reduce", "tanh",
                                         "start all_gather", "await_gather"));
}

// Tests that weights begin before their places while the lane is idle, that nothing goes ahead of their readers, and that those which have come
// early count until their places.
TEST_F(StartCollectives, PutWeightsTogetherAhead) {
  read(kWeights, 400);
  EXPECT_THAT(started(kAll),
              ElementsAre("start unshard", "softmax", "await_reduce", "start unshard", "mul",
                          "await_reduce", "softmax", "mul", "softmax"));
  EXPECT_EQ(exposed(), 0);
  read(kWeights, 400);
  EXPECT_THAT(started(kSum),
              ElementsAre("start unshard", "softmax", "await_reduce", "start unshard", "mul",
                          "await_reduce", "softmax", "mul", "softmax"));
  read(kWeights, 100'000);
  EXPECT_THAT(started(kAll),
              ElementsAre("start unshard", "softmax", "await_reduce", "start unshard", "mul",
                          "softmax", "await_reduce", "mul", "softmax"));
}

// Tests that a weight of more bytes than may be under way is one command, whose time is its cost.
TEST_F(StartCollectives, LeaveLargeWeightsWhereTheyStand) {
  read(kWeights, 100'000);
  const schedule::Cost inTurn = costs.timeOf(graph).once;
  EXPECT_THAT(started(kSum - 1),
              ElementsAre("softmax", "unshard", "mul", "softmax", "unshard", "mul", "softmax"));
  EXPECT_EQ(costs.timeOf(graph).once, inTurn);
  EXPECT_EQ(exposed(), 0);
  EXPECT_NEAR(static_cast<double>(inTurn), 200'000 + 5'000, 100);
}

// Tests that sums which find the lane busy share an exchange, those that find it idle begin at once, and no exchange is of more than fits its
// scratch.
TEST_F(StartCollectives, ShareExchangesWhileTheLaneIsBusy) {
  read(kThreeSums, 100'000);
  EXPECT_THAT(started(kAll), ElementsAre("softmax", "start all_reduce", "softmax",
                                         "wait to start all_reduce", "softmax", "start all_reduce",
                                         "await_reduce", "await_reduce", "await_reduce"));
  // Of two sums in four exchanges in place of three in six.
  EXPECT_NEAR(static_cast<double>(exposed()), 400'000 - 4'000, 100);
  read(kThreeSums, 400);
  EXPECT_THAT(started(kAll), ElementsAre("softmax", "start all_reduce", "softmax", "await_reduce",
                                         "start all_reduce", "softmax", "await_reduce",
                                         "start all_reduce", "await_reduce"));
}

} // namespace
