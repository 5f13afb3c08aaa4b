#include "runtime/report/Formats.h"
#include "runtime/report/TextTable.h"
#include "runtime/report/Timeline.h"

#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stow {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Names that would break out of quotes, lines or markup, or turn the direction of writing.
Plan makeHostilePlan() {
  Plan plan = makeTinyPlan();
  plan.model = "</script><b>\"model\"";
  for (PlannedBuffer &buffer : plan.graphs[0].buffers)
    buffer.name = "x\"\\\n\t\x01<img>\xe2\x80\xae" + std::string(1 << 20, 'n') + "\xff";
  for (PlannedStep &step : plan.graphs[0].steps)
    step.name = step.source = step.module = "s\"];\n}\\\xe2\x80\xae<>";
  return plan;
}

/// Events of one phase letter.
std::vector<ordered_json> eventsOf(const ordered_json &trace, const std::string &phase) {
  std::vector<ordered_json> events;
  for (const ordered_json &event : trace["traceEvents"])
    if (event["ph"] == phase)
      events.push_back(event);
  return events;
}

// Tests that steps follow each other and that live bytes agree with the plan.
TEST(TimelineTest, StepsAndLiveBytes) {
  Plan plan = makeTinyPlan();
  plan.graphs[0].steps[1].seconds = 0; // not known: a microsecond
  Timeline time(plan.graphs[0]);
  EXPECT_EQ(time.begin(0), 0);
  EXPECT_EQ(time.end(0), 500000);
  EXPECT_EQ(time.end(1), 501000);
  EXPECT_EQ(time.end(4), 2001000);
  std::vector<Bytes> live;
  for (size_t step = 0; step < 5; ++step)
    live.push_back(time.liveBytes(step));
  EXPECT_THAT(live, ElementsAre(256, 392, 456, 384, 192)); // TinyPlan.h
  EXPECT_EQ(time.liveByKind(2)[static_cast<size_t>(BufferKind::Workspace)].second, 72);
}

// Tests every kind, with a buffer that lives as long as the graph.
TEST(TimelineTest, KindsAreApart) {
  for (size_t i = 0; i < kBufferKinds; ++i) {
    const Plan tiny = makeTinyPlan();
    Plan plan = tiny;
    plan.graphs[0].buffers.push_back(
        makeBuffer("more", static_cast<BufferKind>(i), {8}, 456, 32, 0, 5));
    const Timeline time(plan.graphs[0]), before(tiny.graphs[0]);
    EXPECT_EQ(time.liveBytes(2), 456 + 32);
    for (size_t kind = 0; kind < kBufferKinds; ++kind)
      EXPECT_EQ(time.liveByKind(4)[kind].second,
                before.liveByKind(4)[kind].second + (kind == i ? 32 : 0));
  }
}

// Tests the trace against the documented format: a slice per step without overlap, counters, flows
// whose ends lie in the slices they join.
TEST(FormatsTest, Perfetto) {
  const ordered_json trace = ordered_json::parse(toPerfetto(makeTinyPlan()));
  EXPECT_EQ(trace["otherData"]["arena_bytes"], 512);
  const std::vector<ordered_json> slices = eventsOf(trace, "X");
  ASSERT_EQ(slices.size(), 5u + 2u);
  for (size_t i = 0; i + 1 < 5; ++i) {
    EXPECT_EQ(slices[i]["pid"], 1);
    EXPECT_EQ(slices[i]["ts"].get<double>() + slices[i]["dur"].get<double>(), slices[i + 1]["ts"]);
  }
  EXPECT_EQ(slices[2]["name"], "loss");
  EXPECT_EQ(slices[2]["dur"], 500.0);
  EXPECT_EQ(slices[2]["args"]["live_bytes"], 456);
  EXPECT_EQ(slices[1]["args"]["new_bytes"], 128 + 8);
  EXPECT_EQ(slices[3]["cat"], "recomputed");
  const ordered_json from = eventsOf(trace, "s").at(0), to = eventsOf(trace, "f").at(0);
  EXPECT_EQ(from["id"], to["id"]);
  EXPECT_EQ(from["ts"], 750.0); // the middle of step 1
  EXPECT_EQ(to["ts"], 1750.0);  // the middle of step 3
  EXPECT_EQ(to["bp"], "e");
  std::vector<int64_t> live;
  for (const ordered_json &counter : eventsOf(trace, "C"))
    if (counter["name"] == "live bytes" && counter["pid"] == 1)
      live.push_back(counter["args"]["bytes"]);
  EXPECT_THAT(live, ElementsAre(256, 392, 456, 384, 192));
}

// Tests that names of every kind leave each format readable.
TEST(FormatsTest, HostileNames) {
  const Plan plan = makeHostilePlan();
  const ordered_json trace = ordered_json::parse(toPerfetto(plan));
  EXPECT_EQ(eventsOf(trace, "X")[0]["name"], plan.graphs[0].steps[0].name);
  const std::string dot = toDot(plan);
  EXPECT_LT(dot.size(), 20000u);
  EXPECT_THAT(dot, HasSubstr("label=\"0 s\\\"];?}\\\\"));
  EXPECT_THAT(dot, Not(HasSubstr(std::string(200, 'n'))));
}

// Tests that every edge of the graph joins steps that exist, in program order.
TEST(FormatsTest, Dot) {
  const std::string dot = toDot(makeTinyPlan());
  EXPECT_THAT(dot, HasSubstr("g0_0 [label=\"0 load\""));
  EXPECT_THAT(dot, HasSubstr("g0_0 -> g0_1 [label=\"64 B\", tooltip=\"x\", style=bold]"));
  EXPECT_THAT(dot, HasSubstr("g0_1 -> g0_2 [label=\"128 B\", tooltip=\"hidden\", style=bold]"));
  EXPECT_THAT(dot, HasSubstr("style=dashed"));
  EXPECT_THAT(dot, HasSubstr("subgraph cluster_1"));
}

// Tests that what a terminal would obey is not printed, and that long names keep both ends.
TEST(TextTableTest, PrintableText) {
  EXPECT_EQ(printableText("a\x1b[31mb\nc"), "a?[31mb?c");
  EXPECT_EQ(printableText("a\xe2\x80\xae"
                          "b\xe2\x81\xa6"
                          "c"),
            "a?b?c");
  EXPECT_EQ(printableText("\xc2\x9b"
                          "1m"),
            "?1m");
  EXPECT_EQ(printableText("gr\xc3\xb6\xc3\x9f"
                          "e"),
            "gr\xc3\xb6\xc3\x9f"
            "e");
  EXPECT_EQ(printableText("0123456789abcdef", 10), "0123..cdef");
}

} // namespace
} // namespace stow
