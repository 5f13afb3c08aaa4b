#include "tests/runtime/format/TinyPlan.h"

#include "runtime/base/Error.h"
#include "runtime/format/PlanReport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sstream>

namespace stow {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

/// The message of the Error that reading `json` as a plan throws.
std::string errorOf(const ordered_json &json) {
  try {
    planFromJson(json.dump());
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "no error";
}

// Tests that every kind has a name that leads back to it.
TEST(PlanTest, KindNamesRoundTrip) {
  for (size_t i = 0; i < kBufferKinds; ++i) {
    auto kind = static_cast<BufferKind>(i);
    EXPECT_EQ(parseBufferKind(nameOf(kind)), kind);
  }
  EXPECT_THROW(parseBufferKind("padding"), Error);
}

// Tests that the live set is sorted by size, then name, and honours half-open lifetimes.
TEST(PlanTest, LiveAtIsHalfOpenAndSorted) {
  Plan plan = makeTinyPlan();
  auto names = [&](int64_t step) {
    std::vector<std::string> names;
    for (const PlannedBuffer *buffer : liveAt(plan.graphs[0], step))
      names.push_back(buffer->name);
    return names;
  };
  EXPECT_THAT(names(0), ElementsAre("w", "w.momentum", "x"));
  EXPECT_THAT(names(2), ElementsAre("hidden", "w", "scratch", "w.momentum", "x"));
  EXPECT_THAT(names(4), ElementsAre("w", "w.momentum")); // x and hidden end at 4
  EXPECT_THAT(names(5), ElementsAre());
}

// Tests that the parts at the peak and the padding add up to the arena.
TEST(PlanTest, BreakdownCloses) {
  Breakdown parts = breakdownAtPeak(makeTinyPlan());
  EXPECT_EQ(parts.parameters, 128);
  EXPECT_EQ(parts.optimizer, 64);
  EXPECT_EQ(parts.inputs, 64);
  EXPECT_EQ(parts.activations, 128);
  EXPECT_EQ(parts.workspace, 72);
  EXPECT_EQ(parts.outputs, 0); // the loss is dead at step 2
  EXPECT_EQ(parts.padding, 512 - 456);
}

// Tests that state which is fetched has parts of its own, named in the file where there are any, and is no state of the arena.
TEST(PlanTest, FetchedStateIsApart) {
  Plan plan = makeTinyPlan();
  EXPECT_FALSE(ordered_json::parse(toJson(plan))["breakdown"].contains("fetched_optimizer"));
  plan.graphs[0].buffers[3].kind = BufferKind::FetchedWeight; // hidden
  plan.graphs[0].buffers[2].kind = BufferKind::FetchedOptimizer;
  const Breakdown parts = breakdownAtPeak(plan);
  EXPECT_EQ(parts.fetchedWeights, 128);
  EXPECT_EQ(parts.fetchedOptimizer, 64);
  EXPECT_EQ(parts.activations, 0);
  EXPECT_EQ(parts.padding, 512 - 456);
  EXPECT_FALSE(isState(BufferKind::FetchedWeight) || isState(BufferKind::FetchedOptimizer));
  const ordered_json said = ordered_json::parse(toJson(plan))["breakdown"];
  EXPECT_EQ(said["fetched_weight"], 128);
  EXPECT_EQ(said["fetched_optimizer"], 64);
}

// Tests that copies come back from the file, are not asked of an older one, and name commands and buffers that exist.
TEST(PlanTest, CopiesRoundTrip) {
  Plan plan = makeTinyPlan();
  plan.graphs[0].copies = PlannedCopies{
      128,  128,
      0.25, 0.5,
      4096, {{"hidden", true, 3, 128, 1, 2, 0.5, 0.125}, {"hidden", false, 3, 128, 2, 4, 1, 0.25}}};
  plan.slowBytes = 8192;
  const ordered_json good = ordered_json::parse(toJson(plan));
  EXPECT_EQ(good["slow_bytes"], 8192);
  EXPECT_EQ(toJson(planFromJson(good.dump())), toJson(plan));
  const ordered_json &out = good["graphs"][0]["copies"]["each"][0];
  EXPECT_EQ(out, (ordered_json{{"name", "hidden"},
                               {"direction", "out"},
                               {"buffer", 3},
                               {"bytes", 128},
                               {"start", 1},
                               {"await", 2},
                               {"begin_seconds", 0.5},
                               {"seconds", 0.125}}));
  auto changed = [&](auto change) {
    ordered_json json = good;
    change(json["graphs"][0]["copies"]);
    return errorOf(json);
  };
  EXPECT_EQ(changed([](auto &j) { j.erase("each"); }), "no error");
  EXPECT_EQ(changed([](auto &j) { j["each"][0]["buffer"] = 6; }),
            "plan: graphs[0].copies.each[0].buffer: expected a number below 6, found 6");
  EXPECT_EQ(changed([](auto &j) { j["each"][1]["await"] = 5; }),
            "plan: graphs[0].copies.each[1].await: expected a number below 5, found 5");
  EXPECT_EQ(changed([](auto &j) { j["each"][1]["await"] = 2; }),
            "plan: graphs[0].copies.each[1].await: expected a command behind start (2), found 2");
  EXPECT_THAT(changed([](auto &j) { j["each"][1]["direction"] = "up"; }),
              HasSubstr("plan: graphs[0].copies.each[1].direction: "));
  EXPECT_THAT(changed([](auto &j) { j["each"][0]["seconds"] = -1; }),
              HasSubstr("plan: graphs[0].copies.each[0].seconds: expected 0 or more, found -1"));
}

// Tests that what a layout adds to the elements is padding and no parameter.
TEST(PlanTest, LayoutPaddingIsPadding) {
  Plan plan = makeTinyPlan();
  plan.graphs[0].buffers[0].logicalSize = 100; // of 128
  Breakdown parts = breakdownAtPeak(plan);
  EXPECT_EQ(parts.parameters, 100);
  EXPECT_EQ(parts.layoutPadding, 28);
  EXPECT_EQ(parts.padding, 512 - 456);
}

// Tests that the peak may lie in the evaluation graph.
TEST(PlanTest, BreakdownUsesTheFullestGraph) {
  Plan plan = makeTinyPlan();
  plan.graphs[1].livePeakBytes = 500;
  EXPECT_EQ(peakGraph(plan), 1u);
  EXPECT_EQ(breakdownAtPeak(plan).activations, 64);
}

// Tests that state which the evaluation does not know counts while it runs: the optimizer's stays where
// it is.
TEST(PlanTest, StateOutsideCountsAtThePeak) {
  Plan plan = makeTinyPlan();
  GraphPlan &eval = plan.graphs[1];
  eval.buffers.erase(eval.buffers.begin() + 1); // w.momentum
  eval.livePeakBytes = 400;                     // of 456
  EXPECT_EQ(fullestBytes(plan, plan.graphs[0]), 456);
  EXPECT_EQ(fullestBytes(plan, eval), 464);
  EXPECT_EQ(peakGraph(plan), 1u);
  EXPECT_EQ(breakdownAtPeak(plan).optimizer, 64);
  std::vector<std::string> names;
  for (const PlannedBuffer *buffer : liveAtPeak(plan, eval))
    names.push_back(buffer->name);
  EXPECT_THAT(names, ElementsAre("w", "hidden", "w.momentum", "x"));
}

// Tests that a plan without graphs is all padding.
TEST(PlanTest, EmptyPlan) {
  Plan plan;
  plan.arenaBytes = 10;
  EXPECT_EQ(peakGraph(plan), std::nullopt);
  EXPECT_EQ(breakdownAtPeak(plan).padding, 10);
  EXPECT_EQ(toJson(planFromJson(toJson(plan))), toJson(plan));
}

// Tests that nothing is lost on the way through JSON and that the bytes are stable.
TEST(PlanTest, JsonRoundTrips) {
  Plan plan = makeTinyPlan();
  std::string text = toJson(plan);
  Plan read = planFromJson(text);
  EXPECT_EQ(toJson(read), text);
  ASSERT_EQ(read.graphs.size(), 2u);
  EXPECT_EQ(read.graphs[1].buffers.size(), 4u);
  const PlannedStep &step = read.graphs[0].steps[3];
  EXPECT_EQ(step.name, "matmul of again");
  EXPECT_EQ(step.op, "matmul");
  EXPECT_EQ(step.module, "net.matmul");
  EXPECT_EQ(step.phase, StepPhase::Backward);
  EXPECT_EQ(step.seconds, 0.0005);
  EXPECT_THAT(step.reads, ElementsAre(0, 2));
  EXPECT_THAT(step.writes, ElementsAre(3));
  EXPECT_EQ(step.recomputes, 1);
  EXPECT_EQ(read.graphs[0].steps[1].recomputes, std::nullopt);
  const PlannedBuffer &hidden = read.graphs[0].buffers[3];
  EXPECT_EQ(hidden.kind, BufferKind::Activation);
  EXPECT_THAT(hidden.shape, ElementsAre(8, 4));
  ASSERT_EQ(hidden.aliases.size(), 2u);
  EXPECT_EQ(hidden.aliases[0].name, "hidden.relu");
  EXPECT_EQ(hidden.aliases[0].kind, AliasKind::InPlace);
  EXPECT_EQ(hidden.aliases[1].name, "hidden.flat");
  EXPECT_EQ(hidden.aliases[0].step, 2);
  EXPECT_EQ(hidden.aliases[1].kind, AliasKind::View);
  EXPECT_EQ(hidden.aliases[1].step, std::nullopt);
  EXPECT_TRUE(hidden.recomputed);
  EXPECT_EQ(hidden.module, "net");
  EXPECT_EQ(hidden.layout, "1,0");
  EXPECT_EQ(hidden.reason, "computed again instead of kept");
  EXPECT_EQ(hidden.recomputeSeconds, 0.0005);
  EXPECT_EQ(read.graphs[0].buffers[0].recomputeSeconds, std::nullopt);
  EXPECT_EQ(read.outsideArenaBytes, 1 << 20);
  EXPECT_EQ(read.extraTimeFraction, 0.125);
  EXPECT_EQ(read.extraTimeBound, 0.0625);
  EXPECT_EQ(read.stepSeconds, 0.25);
  EXPECT_EQ(read.costSource, "measured on tiny, 2 threads");
}

// Tests that a plan file that says nothing of what its aliases are is read and written as it is.
TEST(PlanTest, JsonHoldsShapes) {
  Plan plan = makeTinyPlan();
  EXPECT_EQ(toJson(plan).find("\"shapes\""), std::string::npos);
  plan.shapes = {{"sequence=8", {{"sequence", 8}}, 448, 0.5, 0.25},
                 {"sequence=4", {{"sequence", 4}}, 320, 0.25, 0}};
  GraphPlan small = plan.graphs[0];
  small.shape = "sequence=4";
  plan.graphs.push_back(small);
  const std::string text = toJson(plan);
  const Plan read = planFromJson(text);
  EXPECT_EQ(toJson(read), text);
  ASSERT_EQ(read.shapes.size(), 2u);
  EXPECT_EQ(read.shapes[0].extents.at("sequence"), 8);
  EXPECT_EQ(read.shapes[0].arenaBytes, 448);
  EXPECT_EQ(read.shapes[0].extraTimeFraction, 0.25);
  EXPECT_EQ(read.shapes[1].stepSeconds, 0.25);
  EXPECT_EQ(read.graphs.back().name(), "train@sequence=4");
  EXPECT_EQ(findGraph(read, GraphRole::Train, "sequence=4"), &read.graphs.back());
  EXPECT_EQ(findGraph(read, GraphRole::Train), &read.graphs.front());
  EXPECT_EQ(findGraph(read, GraphRole::Eval, "sequence=4"), nullptr);
  EXPECT_THAT(renderText(read, {}),
              testing::ContainsRegex("sequence=4 +320 +0\\.00 +250\\.000 +0\\.0 %"));
}

TEST(PlanTest, JsonReadsAliasesWithoutKinds) {
  ordered_json json = ordered_json::parse(toJson(makeTinyPlan()));
  ASSERT_EQ(json["buffers"][3].erase("alias_steps"), 1u);
  EXPECT_EQ(planFromJson(json.dump()).graphs[0].buffers[3].aliases[0].step, std::nullopt);
  ASSERT_EQ(json["buffers"][3].erase("alias_kinds"), 1u);
  Plan read = planFromJson(json.dump());
  const std::vector<PlannedAlias> &aliases = read.graphs[0].buffers[3].aliases;
  ASSERT_EQ(aliases.size(), 2u);
  EXPECT_EQ(aliases[1].name, "hidden.flat");
  EXPECT_EQ(aliases[1].kind, std::nullopt);
  EXPECT_EQ(ordered_json::parse(toJson(read)), json);
}

// Tests that every kind of alias has a name that is read back as that kind.
TEST(PlanTest, AliasKindsHaveNames) {
  for (auto [kind, name] : {std::pair{AliasKind::InPlace, "in_place"},
                            {AliasKind::View, "view"},
                            {AliasKind::Part, "part"}}) {
    EXPECT_EQ(nameOf(kind), name);
    EXPECT_EQ(parseAliasKind(name), kind);
  }
}

// Tests the public keys and their order.
TEST(PlanTest, JsonHasThePublicKeys) {
  ordered_json json = ordered_json::parse(toJson(makeTinyPlan()));
  std::vector<std::string> keys;
  for (const auto &item : json.items())
    keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("format", "model", "arena_bytes", "live_peak_bytes",
                                "lower_bound_bytes", "logical_bound_bytes", "status",
                                "extra_time_fraction", "extra_time_bound_fraction", "step_seconds",
                                "cost_source", "persistent_bytes", "without_recompute_bytes",
                                "outside_arena_bytes", "alignment", "tensors", "notes", "breakdown",
                                "buffers", "graphs", "strings"));
  ASSERT_EQ(json["buffers"].size(), 6u); // the training step only: one timeline
  const ordered_json &buffer = json["buffers"][2];
  EXPECT_EQ(buffer["name"], "x");
  EXPECT_EQ(buffer["kind"], "input");
  EXPECT_EQ(buffer["offset"], 192);
  EXPECT_EQ(buffer["size"], 64);
  EXPECT_EQ(buffer["logical_size"], 64);
  EXPECT_EQ(buffer["begin"], 0);
  EXPECT_EQ(buffer["end"], 4);
  EXPECT_EQ(buffer["graph"], "train");
  EXPECT_EQ(json["breakdown"]["layout_padding"], 0);
  EXPECT_EQ(json["breakdown"]["padding"], 56);
}

// Tests that errors name the key path, what was expected and what was found.
TEST(PlanTest, JsonErrorsNameTheKey) {
  const ordered_json good = ordered_json::parse(toJson(makeTinyPlan()));
  auto changed = [&](auto change) {
    ordered_json json = good;
    change(json);
    return errorOf(json);
  };
  EXPECT_EQ(errorOf(good), "no error");
  EXPECT_EQ(changed([](auto &j) { j["buffers"][1]["offset"] = "0"; }),
            "plan: buffers[1].offset: expected an integer, found a string");
  EXPECT_EQ(changed([](auto &j) { j["buffers"][1]["size"] = -1; }),
            "plan: buffers[1].size: expected an integer that is not negative, found the number -1");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][1]["buffers"][0]["shape"][1] = 1.5; }),
            "plan: graphs[1].buffers[0].shape[1]: expected an integer, found the number 1.5");
  EXPECT_EQ(changed([](auto &j) { j.erase("status"); }), "plan: status: this key is missing");
  EXPECT_THAT(changed([](auto &j) { j["buffers"][0]["kind"] = "weight"; }),
              HasSubstr("plan: buffers[0].kind: unknown buffer kind 'weight'"));
  EXPECT_THAT(changed([](auto &j) { j["buffers"][3]["alias_kinds"][1] = "copy"; }),
              HasSubstr("plan: buffers[3].alias_kinds[1]: unknown alias kind 'copy'; expected one "
                        "of in_place, view, part"));
  EXPECT_EQ(changed([](auto &j) { j["buffers"][3]["alias_kinds"].erase(1); }),
            "plan: buffers[3].alias_kinds: expected a kind for each of the 2 aliases, found 1");
  EXPECT_THAT(changed([](auto &j) { j["buffers"][0]["dtype"] = "f31"; }),
              HasSubstr("plan: buffers[0].dtype: "));
  EXPECT_EQ(changed([](auto &j) { j["arena_bytes"] = 18446744073709551615u; }),
            "plan: arena_bytes: expected an integer below 2^63, found the number "
            "18446744073709551615");
  EXPECT_EQ(changed([](auto &j) { j["buffers"][2]["end"] = 0, j["buffers"][2]["begin"] = 1; }),
            "plan: buffers[2].end: expected at least begin (1), found 0");
  EXPECT_EQ(changed([](auto &j) { j["graphs"] = 3; }),
            "plan: graphs: expected an array, found the number 3");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["steps"].erase(4); }),
            "plan: graphs[0].step_names: expected a name for each of the 4 steps, found 5");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["step_count"] = 4; }),
            "plan: graphs[0].steps: expected step_count (4) of them, found 5");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["steps"][0]["op"] = 99; }),
            "plan: graphs[0].steps[0].op: expected a number below that of strings (15), found 99");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["steps"][1]["reads"][1] = 6; }),
            "plan: graphs[0].steps[1].reads: expected numbers below 6, found 6");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][1]["steps"][1]["writes"][0] = 4; }),
            "plan: graphs[1].steps[1].writes: expected numbers below 4, found 4");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][0]["steps"][3]["recomputes"] = 3; }),
            "plan: graphs[0].steps[3].recomputes: expected the number of an earlier step, found 3");
  EXPECT_EQ(changed([](auto &j) { j["buffers"][2]["end"] = 6; }),
            "plan: graphs[0].buffers[2].end: expected at most step_count (5), found 6");
  EXPECT_EQ(changed([](auto &j) { j["graphs"][1]["peak_step"] = 2; }),
            "plan: graphs[1].peak_step: expected a step below 2, found 2");
  EXPECT_EQ(errorOf(ordered_json::array()), "plan: expected an object, found an array");
}

// Tests that plans of other versions are refused, whatever else they hold.
TEST(PlanTest, OtherFormats) {
  EXPECT_EQ(errorOf({{"format", 3}}),
            "plan: format: expected 2, found 3: written by a newer stowage");
  EXPECT_EQ(errorOf({{"format", 1}}),
            "plan: format: expected 2, found 1: written by an older stowage; plan again");
  EXPECT_EQ(errorOf({{"arena_bytes", 64}}),
            "plan: format: expected 2, found 1: written by an older stowage; plan again");
  EXPECT_EQ(errorOf({{"model", "x"}}), "plan: format: this key is missing");
}

// Tests that each buffer and each step is one line of the file.
TEST(PlanTest, RecordsAreLines) {
  std::istringstream lines(toJson(makeTinyPlan()));
  int64_t buffers = 0, steps = 0;
  for (std::string line; std::getline(lines, line);) {
    buffers += line.find("\"offset\":") != std::string::npos;
    steps += line.find("\"reads\":") != std::string::npos;
  }
  EXPECT_EQ(buffers, 6 + 4);
  EXPECT_EQ(steps, 5 + 2);
}

// Tests that text that is no JSON at all fails with a position.
TEST(PlanTest, NotJson) {
  try {
    planFromJson("{\"model\": ");
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("plan:1:11: not valid JSON: unexpected end of input"));
  }
}

// Tests that a million nested lists are an error, not an overflow of the stack.
TEST(PlanTest, DeeplyNested) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  try {
    planFromJson("{\"model\": " + deep + ", \"arena_bytes\": 1}");
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "plan:1:74: more than 64 levels of nested JSON");
  }
}

// Tests that a name with bytes that are not UTF-8 does not make the report fail.
TEST(PlanTest, InvalidUtf8IsReplaced) {
  Plan plan = makeTinyPlan();
  plan.graphs[0].buffers[0].name = "w\xff";
  EXPECT_THAT(toJson(plan), HasSubstr("w\xEF\xBF\xBD"));
}

} // namespace
} // namespace stow
