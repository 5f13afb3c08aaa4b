#include "runtime/format/PlanReport.h"

#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stow {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Compares with tests/runtime/format/golden/<name>. With STOWAGE_UPDATE_GOLDEN=1 in the
/// environment the file is written instead.
void expectGolden(const std::string &text, const std::string &name) {
  std::string path = std::string(STOWAGE_SOURCE_DIR) + "/tests/runtime/format/golden/" + name;
  if (std::getenv("STOWAGE_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "rerun with STOWAGE_UPDATE_GOLDEN=1 after checking " << path;
}

TEST(PlanReportTest, GroupsDigits) {
  EXPECT_EQ(groupDigits(0), "0");
  EXPECT_EQ(groupDigits(999), "999");
  EXPECT_EQ(groupDigits(1000), "1,000");
  EXPECT_EQ(groupDigits(-1234567), "-1,234,567");
  EXPECT_EQ(groupDigits(100000), "100,000");
}

TEST(PlanReportTest, Text) { expectGolden(renderText(makeTinyPlan(), {}), "tiny-plan.txt"); }

TEST(PlanReportTest, Csv) { expectGolden(toCsv(makeTinyPlan()), "tiny-plan.csv"); }

TEST(PlanReportTest, Json) { expectGolden(toJson(makeTinyPlan()), "tiny-plan.json"); }

// Tests that extra time is told apart: what is computed again, and with waits for copies all of it beside its bound, which is said
// once.
TEST(PlanReportTest, WaitsForCopies) {
  Plan plan = makeTinyPlan();
  EXPECT_EQ(waitSecondsOf(plan), 0);
  EXPECT_EQ(recomputedFractionOf(plan), plan.extraTimeFraction);
  plan.extraTimeFraction = 0.25; // 0.2 s and 0.05
  plan.graphs[0].copies = PlannedCopies{64, 64, 0.01, 0.03, 4096};
  EXPECT_EQ(waitSecondsOf(plan), 0.03);
  EXPECT_NEAR(recomputedFractionOf(plan), 0.1, 1e-9);
  const std::string text = renderText(plan, {});
  EXPECT_THAT(text, HasSubstr("extra time for recomputation: 10.0 % (measured"));
  EXPECT_THAT(text, HasSubstr("; all in all 25.0 % more time (no plan in this memory takes less "
                              "than 6.2 %)\n"));
  EXPECT_EQ(text.find("6.2 %"), text.rfind("6.2 %"));
  plan.graphs[0].copies->exposedSeconds = 0.05;
  EXPECT_EQ(recomputedFractionOf(plan), 0);
  EXPECT_THAT(renderText(plan, {}), Not(HasSubstr("     slow memory  ")));
  plan.slowBytes = 3 << 20;
  EXPECT_THAT(renderText(plan, {}), HasSubstr("slow memory        3,145,728  3.00\n"));
  // In three batches, of which the last commits; what another shape waits is not of this step.
  plan.batchesPerStep = 3;
  plan.graphs[0].role = GraphRole::Accumulate;
  plan.graphs.push_back(plan.graphs[0]);
  plan.graphs.back().role = GraphRole::Commit;
  EXPECT_DOUBLE_EQ(waitSecondsOf(plan), 0.15);
  plan.graphs.back().shape = "batch=2";
  EXPECT_DOUBLE_EQ(waitSecondsOf(plan), 0.1);
}

// Tests that what takes no memory, as the token of a copy, is not listed at the peak.
TEST(PlanReportTest, NoTokens) {
  Plan plan = makeTinyPlan();
  const size_t listed = liveAtPeak(plan, plan.graphs[0]).size();
  plan.graphs[0].buffers.push_back(makeBuffer("token", BufferKind::Activation, {0}, 0, 0, 0, 5));
  EXPECT_EQ(liveAtPeak(plan, plan.graphs[0]).size(), listed);
}

// Tests that the map tells frozen weights, in the arena and fetched, from what is computed again, and the sum has a row for each.
TEST(PlanReportTest, FetchedStateIsNamed) {
  Plan plan = makeTinyPlan();
  plan.graphs[0].buffers[0].kind = BufferKind::Frozen;
  plan.graphs[0].buffers[3].kind = BufferKind::FetchedWeight;
  plan.graphs[0].buffers[3].recomputed = true; // fetched a second time
  const std::string text = renderText(plan, {});
  EXPECT_THAT(text, HasSubstr("F frozen  f weights, fetched  . free"));
  EXPECT_THAT(text, HasSubstr("fetched_weight (again)"));
  EXPECT_THAT(text, HasSubstr("+  weights, fetched"));
  EXPECT_THAT(text, Not(HasSubstr("optimizer, fetched")));
  plan.graphs[0].buffers[3].kind = BufferKind::FetchedOptimizer;
  EXPECT_THAT(renderText(plan, {}), HasSubstr("+  optimizer, fetched"));
}

// Tests that buffers beyond the limit are summed in one row and that the total stays.
TEST(PlanReportTest, RestIsSummed) {
  ReportOptions options;
  options.liveRows = 2;
  std::string text = renderText(makeTinyPlan(), options);
  EXPECT_THAT(text, HasSubstr("200  0.00  3 smaller buffers")); // 72 + 64 + 64
  EXPECT_THAT(text, HasSubstr("456  0.00  live"));
}

// Tests that the rows of the closing sum really add up to the arena as printed.
TEST(PlanReportTest, PrintedSumCloses) {
  std::istringstream lines(renderText(makeTinyPlan(), {}));
  std::string line;
  int64_t sum = 0, arena = -1;
  bool inSum = false;
  while (std::getline(lines, line)) {
    inSum |=
        line.find("at the peak ") != std::string::npos && line.find("share") != std::string::npos;
    if (!inSum || line.find('%') == std::string::npos)
      continue;
    std::istringstream words(line);
    std::string word;
    std::vector<std::string> all;
    while (words >> word)
      all.push_back(word);
    // "+ name 1,234 0.00 5.0 %": the bytes are the fourth word from the end.
    std::string digits = all[all.size() - 4];
    std::erase(digits, ',');
    if (all[0] == "=")
      arena = std::stoll(digits);
    else if (arena < 0)
      sum += std::stoll(digits);
  }
  EXPECT_EQ(arena, 512);
  EXPECT_EQ(sum, arena);
}

// Tests that each cell shows the kind that fills most of it and that free space is a dot.
//
//   64 +-------+
//      |   A   |  G      steps 0..4, two rows of 32 bytes
//    0 +-------+------
TEST(PlanReportTest, MapCells) {
  Plan plan;
  plan.arenaBytes = 64;
  GraphPlan graph;
  graph.role = GraphRole::Train;
  graph.stepCount = 4;
  graph.peakStep = 1;
  graph.buffers = {makeBuffer("a", BufferKind::Activation, {16}, 0, 64, 0, 2),
                   makeBuffer("g", BufferKind::Gradient, {8}, 0, 32, 2, 4)};
  plan.graphs = {graph};
  ReportOptions options;
  options.mapRows = 2;
  std::string map = renderMap(plan, graph, options);
  EXPECT_THAT(map, HasSubstr("|AA..|\n"));
  EXPECT_THAT(map, HasSubstr("|AAGG|\n"));
  EXPECT_THAT(map, HasSubstr("A activation  G gradient  . free"));
}

// Tests that many steps share a column, so the picture never grows beyond its limits.
TEST(PlanReportTest, MapIsBounded) {
  Plan plan;
  plan.arenaBytes = 1 << 30;
  plan.persistentBytes = 1 << 29;
  GraphPlan graph;
  graph.role = GraphRole::Train;
  graph.stepCount = 100'000;
  graph.peakStep = 99'999;
  for (int64_t i = 0; i < 10'000; ++i)
    graph.buffers.push_back(makeBuffer("b" + std::to_string(i), BufferKind::Activation, {1},
                                       (1 << 29) + i * 50'000, 50'000, i * 10, i * 10 + 500));
  plan.graphs = {graph};
  std::istringstream lines(renderMap(plan, graph, {}));
  std::string line;
  int64_t count = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 96 + 60u);
    ++count;
  }
  EXPECT_EQ(count, 1 + 2 + 24 + 1 + 1); // title, two markers, rows, rule, legend
}

// Tests degenerate plans: no division by zero, no crash.
TEST(PlanReportTest, EmptyPlan) {
  EXPECT_THAT(renderText(Plan(), {}), HasSubstr("arena 0 bytes"));
  EXPECT_EQ(toCsv(Plan()), "id,lower,upper,size,offset\n");
  EXPECT_THAT(renderMap(Plan(), GraphPlan(), {}), HasSubstr("nothing to draw"));
}

} // namespace
} // namespace stow
