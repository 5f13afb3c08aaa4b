#include "ir/plan/schedule/Json.h"

#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::schedule {
namespace {

using ::testing::HasSubstr;

std::string fault(const std::string &text) {
  try {
    parse(text, "x.json");
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "";
}

// Tests that print and parse are inverse on every family, byte for byte.
TEST(JsonTest, RoundTripsEveryFamily) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Problem problem = generate(seed);
    std::string text = print(problem);
    Problem again = parse(text);
    ASSERT_EQ(again, problem) << "seed " << seed;
    ASSERT_EQ(print(again), text) << "seed " << seed;
  }
  Problem step = gptStep(2);
  EXPECT_EQ(parse(print(step)), step);
}

TEST(JsonTest, RoundTripsSchedules) {
  Problem problem = generateMixed(5, 9);
  Solution solution = inputOrder(problem);
  EXPECT_EQ(parseSolution(printSolution(problem, solution), problem), solution);
  EXPECT_THROW(parseSolution(R"({"stowage": "schedule", "runs": [[99, 0]]})", problem), Error);
  EXPECT_THROW(parseSolution("[]", problem), Error);
}

// Tests that a schedule says which node each op is where the file lists nodes in another order or
// gives two of them one name.
TEST(JsonTest, SchedulesNameTheirOps) {
  Problem problem = parse(R"({"nodes": [{"duration": 0.5, "out_cost": 1, "id": 0, "name": "b"},
    {"duration": 1, "out_cost": 1, "id": 7, "name": "a"},
    {"duration": 1, "out_cost": 1, "id": 8, "name": "b"}], "edges": [[7, 0], [0, 8]]})");
  EXPECT_THAT(printSolution(problem, inputOrder(problem)),
              HasSubstr("\"time\": 25, \"cost_denominator\": 10, \"peak_bytes\": 2,\n"
                        " \"ops\": [\n  \"a\", \"b (0)\", \"b (8)\"],\n"
                        " \"runs\": [\n  [0, 0], [1, 0], [2, 0]]}\n"));
}

// Tests the published form with `cost_cpu`, `cost_ram` and links as objects.
TEST(JsonTest, ReadsNodeLinkGraphs) {
  Problem problem = parse(R"({"directed": true, "graph": {"name": "tiny"},
    "nodes": [{"name": "a", "cost_cpu": 3, "cost_ram": 10, "id": 0},
              {"name": "b", "cost_cpu": 4, "cost_ram": 20, "id": 1}],
    "links": [{"source": 0, "target": 1}]})");
  EXPECT_EQ(problem.name, "tiny");
  ASSERT_EQ(problem.ops.size(), 2u);
  EXPECT_EQ(problem.ops[1].inputs, (std::vector<ValueId>{0}));
  EXPECT_EQ(problem.leastTime(), 7);
  EXPECT_EQ(verify(problem, inputOrder(problem)).peakBytes, 30);
}

// Tests the other spellings: duration and out_cost, "0"/"1" links, string ids, an order, fractions.
TEST(JsonTest, ReadsTheOtherSpellings) {
  Problem problem = parse(R"({"graph": {"name": "random", "order": ["b", "a", "c"]},
    "nodes": [{"duration": 0.25, "out_cost": 1.5, "id": "a"}, {"duration": 1, "out_cost": 2, "id": "b"},
              {"duration": 2, "out_cost": 3, "id": "c"}],
    "links": [{"0": "a", "1": "c"}, {"0": "b", "1": "c"}]})");
  EXPECT_EQ(problem.ops[0].name, "b");
  EXPECT_EQ(problem.costDenominator, 100);
  EXPECT_EQ(problem.ops[1].alternatives[0].cost, 25);
  EXPECT_EQ(problem.sizeOf(1), 2) << "fractions of a byte round up";
  EXPECT_EQ(parse(R"({"nodes": [{"duration": 1, "out_cost": 1, "id": 0},
    {"duration": 1, "out_cost": 1, "id": 1}], "edges": [[1, 0]]})")
                .ops[0]
                .name,
            "node1");
}

// Tests that nodes and edges may be listed in any order where `graph.order` says the input order.
// Tests graphs whose nodes have no ids: edges name them, count them, or do both.
TEST(JsonTest, ReadsNodesWithoutIds) {
  const std::string named = R"({"nodes": [{"name": "conv", "cost_cpu": 3, "cost_ram": 10},
    {"name": "relu", "cost_cpu": 1, "cost_ram": 10}, {"name": "loss", "cost_cpu": 1, "cost_ram": 4}],
    "graph": {"name": "net"}, )";
  const Problem problem = parse(
      named +
      R"("links": [{"source": "conv", "target": "relu"}, {"source": "relu", "target": "loss"}]})");
  ASSERT_EQ(problem.ops.size(), 3u);
  EXPECT_EQ(problem.ops[2].inputs, std::vector<ValueId>{1});
  EXPECT_EQ(problem.ops[1].name, "relu");
  for (const char *edges :
       {R"("links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}]})",
        R"("edges": [{"0": 0, "1": 1}, {"0": 1, "1": 2}]})",
        R"("edges": [{"0": "conv", "1": "relu"}, {"0": "relu", "1": "loss"}]})",
        R"("edges": [[0, 1], [1, 2, {"weight": 5}]]})", R"("edges": [["conv", 1], [1, "loss"]]})"})
    EXPECT_EQ(parse(named + edges), problem) << edges;

  // Names that are used twice name nobody, nor do nodes without any.
  const Problem twice = parse(R"({"nodes": [{"name": "relu", "duration": 1, "out_cost": 2},
    {"name": "relu", "duration": 1, "out_cost": 2}, {"duration": 1, "out_cost": 2}],
    "edges": [[0, 1], [1, 2]]})");
  ASSERT_EQ(twice.ops.size(), 3u);
  EXPECT_EQ(twice.ops[0].name, "relu (0)");
  EXPECT_EQ(twice.ops[2].name, "node2");
  EXPECT_EQ(twice.ops[2].inputs, std::vector<ValueId>{1});

  EXPECT_THAT(fault(named + R"("links": [{"source": "conv", "target": 3}]})"),
              HasSubstr("x.json: links[0]: there is no node with id 3"));
  EXPECT_THAT(fault(R"({"nodes": [{"id": 0, "duration": 1, "out_cost": 1},
    {"name": "b", "duration": 1, "out_cost": 1}], "edges": [[0, "b"]]})"),
              HasSubstr("x.json: nodes[1].id: this key is missing"));
}

TEST(JsonTest, ListingsDoNotMatter) {
  auto text = [](const std::string &nodes, const std::string &edges) {
    return R"({"graph": {"order": ["a", "b", "c"]}, "nodes": [)" + nodes + R"(], "edges": [)" +
           edges + "]}";
  };
  const std::string a = R"({"duration": 1, "out_cost": 4, "id": "a"})",
                    b = R"({"duration": 2, "out_cost": 5, "id": "b"})",
                    c = R"({"duration": 3, "out_cost": 6, "id": "c"})";
  EXPECT_EQ(parse(text(a + "," + b + "," + c, R"(["a", "c"], ["b", "c"])")),
            parse(text(b + "," + c + "," + a, R"(["b", "c"], ["a", "c"])")));
}

TEST(JsonTest, NamesThePlaceOfSyntaxErrors) {
  EXPECT_THAT(fault("{\n \"ops\": [1,\n}"),
              HasSubstr("x.json:3:1: not valid JSON: unexpected '}'; expected '[', '{', or a "
                        "literal"));
  EXPECT_THAT(fault(""), HasSubstr("x.json:1:1"));
  EXPECT_THAT(fault("[1]"), HasSubstr("x.json: expected an object, found an array"));
  EXPECT_THAT(fault("{}"), HasSubstr("expected a member \"stowage\""));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(fault("{\"nodes\": " + deep + ", \"edges\": []}"),
              HasSubstr("x.json:1:74: more than 64 levels of nested JSON"));
}

TEST(JsonTest, NamesThePathOfWrongElements) {
  const std::string head =
      R"({"stowage": "schedule-problem", "version": 1, "storages": [{"bytes": 4}],
    "values": [{"name": "v", "storage": 0}], "ops": )";
  EXPECT_EQ(fault(head + R"([{"name": "o", "cost": 1, "outputs": [0]}]})"), "");
  EXPECT_THAT(
      fault(head + R"([{"cost": 1, "outputs": [3]}]})"),
      HasSubstr("x.json: ops[0].outputs[0]: expected an integer in [0, 0], found the number 3"));
  EXPECT_THAT(fault(head + R"([{"outputs": [0]}]})"),
              HasSubstr("x.json: ops[0].cost: this key is missing"));
  EXPECT_THAT(fault(head + R"([{"cost": -1}]})"), HasSubstr("x.json: ops[0].cost: expected"));
  EXPECT_THAT(fault(head + R"([{"cost": 1.5}]})"), HasSubstr("found the number 1.5"));
  EXPECT_THAT(fault(head + R"([7]})"),
              HasSubstr("x.json: ops[0]: expected an object, found the number 7"));
  EXPECT_THAT(fault(head + R"([{"cost": 1, "may_overwrite": [[0]]}]})"),
              HasSubstr("x.json: ops[0].may_overwrite[0]: expected [output, input]"));
  EXPECT_THAT(fault(R"({"stowage": "schedule-problem", "version": 2})"),
              HasSubstr("x.json: version: expected an integer in [1, 1], found the number 2"));
  EXPECT_THAT(fault(R"({"stowage": "pack"})"),
              HasSubstr("x.json: stowage: expected \"schedule-problem\", found \"pack\""));
  EXPECT_THAT(fault(head + R"([{"name": "o", "cost": 1, "inputs": [0], "outputs": [0]}]})"),
              HasSubstr("x.json: op \"o\": reads \"v\" before it is produced"));
}

TEST(JsonTest, NamesFaultsOfNodeLinkGraphs) {
  const std::string nodes = R"({"nodes": [{"cost_cpu": 1, "cost_ram": 1, "id": 0},
    {"cost_cpu": 1, "cost_ram": 1, "id": 1}], )";
  EXPECT_THAT(fault(nodes + R"("links": [{"source": 0, "target": 5}]})"),
              HasSubstr("x.json: links[0]: there is no node with id 5"));
  EXPECT_THAT(fault(nodes + R"("links": [{"source": 0}]})"),
              HasSubstr("x.json: links[0]: expected an edge"));
  EXPECT_THAT(fault(nodes + R"("links": [[0, 1], [1, 0]]})"),
              HasSubstr("cycle through node \"node0\""));
  EXPECT_THAT(fault(nodes + R"("links": [[0, 1], [1, 1]]})"),
              HasSubstr("cycle through node \"node1\""));
  EXPECT_THAT(fault(nodes + R"("links": [[0, 1]], "graph": {"order": [1, 0]}})"),
              HasSubstr("comes before its input"));
  EXPECT_THAT(fault(nodes + R"("links": [], "graph": {"order": [1]}})"),
              HasSubstr("expected every node once"));
  EXPECT_THAT(fault(R"({"nodes": [{"cost_cpu": 1, "id": 0}], "links": []})"),
              HasSubstr("x.json: nodes[0]: member \"cost_ram\" (or \"out_cost\") is missing"));
  EXPECT_THAT(fault(nodes + R"("links": [[0, 1]], "edges": [[0, 1]]})"),
              HasSubstr("both \"links\" and \"edges\""));
  EXPECT_EQ(fault(nodes + R"("links": [], "edges": [[0, 1]]})"), "");
  EXPECT_THAT(fault(R"({"nodes": []})"), HasSubstr("\"links\" (or \"edges\") is missing"));
  EXPECT_THAT(
      fault(R"({"nodes": [{"cost_cpu": -1, "cost_ram": 1, "id": 0}], "links": []})"),
      HasSubstr("x.json: nodes[0].cost_cpu: expected a number in [0, 2^56], found the number -1"));
}

} // namespace
} // namespace stow::schedule
