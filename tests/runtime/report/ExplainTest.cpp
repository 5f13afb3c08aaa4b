#include "runtime/report/Explain.h"

#include "runtime/base/Error.h"
#include "runtime/report/Remedies.h"
#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A chain that is recomputed in part; sizes are bytes, the peak is step 3.
///
///   step        0: f   1: g   2: h   3: loss   4: f again   5: h_grad
///   a (100)     |------------|
///   b (40)             |-----------------------------------------|
///   c (60)                    |---------|
///   again (100)                                |-----------------|
Plan makeChain() {
  Plan plan;
  plan.model = "chain";
  plan.arenaBytes = 200;
  plan.alignment = 1;
  plan.livePeakBytes = 100;
  plan.withoutRecomputeBytes = 300;
  plan.extraTimeFraction = 0.2;
  plan.stepSeconds = 0.003;
  GraphPlan train;
  train.role = GraphRole::Train;
  train.stepCount = 6;
  train.peakStep = 3;
  train.livePeakBytes = 100;
  train.steps = {makeStep("f", StepPhase::Forward, {}, {0}),
                 makeStep("g", StepPhase::Forward, {0}, {1}),
                 makeStep("h", StepPhase::Forward, {0, 1}, {2}),
                 makeStep("loss", StepPhase::Forward, {2}, {2}),
                 makeStep("f", StepPhase::Backward, {}, {3}),
                 makeStep("h_grad", StepPhase::Backward, {1, 3}, {})};
  train.steps[4].recomputes = 0;
  train.buffers = {makeBuffer("a", BufferKind::Activation, {25}, 0, 100, 0, 3),
                   makeBuffer("b", BufferKind::Activation, {10}, 100, 40, 1, 6),
                   makeBuffer("c", BufferKind::Activation, {15}, 140, 60, 2, 4),
                   makeBuffer("a again", BufferKind::Activation, {25}, 0, 100, 4, 6)};
  train.buffers[1].reason = "kept for the backward pass";
  train.buffers[1].module = "encoder.g";
  train.buffers[1].recomputeSeconds = 0.0005;
  train.buffers[3].recomputed = true;
  plan.graphs = {train};
  return plan;
}

std::string errorOf(const Plan &plan, const std::string &at) {
  try {
    findMoment(plan, at);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "no error";
}

// Tests the ways to name a moment: each step takes half a millisecond.
TEST(ExplainTest, Moments) {
  const Plan plan = makeChain();
  EXPECT_EQ(findMoment(plan, "peak"), 3);
  EXPECT_EQ(findMoment(plan, "5"), 5);
  EXPECT_EQ(findMoment(plan, "0.6ms"), 1);
  EXPECT_EQ(findMoment(plan, "2100us"), 4);
  EXPECT_EQ(findMoment(plan, "net.h"), 2); // of h and h_grad, the one with more live
  EXPECT_EQ(errorOf(plan, "6"), "--at=6 is no command of \"train\"; expected 0 to 5");
  EXPECT_THAT(errorOf(plan, "-1"), HasSubstr("no node or module"));
  EXPECT_THAT(errorOf(plan, "nan"), HasSubstr("no node or module"));
  EXPECT_THAT(errorOf(plan, "4ms"), HasSubstr("which takes 3.000 ms"));
  EXPECT_THAT(errorOf(plan, "layer9"), HasSubstr("no node or module of \"train\" contains"));
}

// Tests that a moment names what is live, and for whom it waits.
TEST(ExplainTest, Moment) {
  const std::string text = explainMoment(makeChain(), 3, 10);
  EXPECT_THAT(text, HasSubstr("It is fullest at command 3 of 6, loss (forward, 50.0 % into the "
                              "step): 2 tensors, 100 bytes."));
  EXPECT_THAT(text, HasSubstr("60  60.0 %  activations until their last reader"));
  EXPECT_THAT(text, HasSubstr("40  40.0 %  activations kept for the backward pass"));
  EXPECT_THAT(text, HasSubstr("c  [15] f32  in use by this command"));
  EXPECT_THAT(text, HasSubstr("b  [10] f32  waits for command 5, h_grad"));
  EXPECT_THAT(explainMoment(makeChain(), 1, 1), HasSubstr("in 1 more"));
}

// Tests that an optimizer's state counts while an evaluation runs, which does not know it.
TEST(ExplainTest, MomentOfAnEvaluation) {
  Plan plan = makeChain();
  plan.graphs[0].buffers.push_back(makeBuffer("w.m", BufferKind::Optimizer, {5}, 180, 20, 0, 6));
  plan.graphs[0].livePeakBytes = 120;
  GraphPlan eval = makeChain().graphs[0];
  eval.role = GraphRole::Eval;
  eval.steps[3].name = "logits";
  eval.livePeakBytes = 110;
  plan.graphs.push_back(eval);
  const std::string text = explainMoment(plan, 3, 9);
  EXPECT_THAT(text, HasSubstr("command 3 of 6, logits (forward, 50.0 % into the step): 3 "
                              "tensors, 120 bytes"));
  EXPECT_THAT(text, HasSubstr("kept from step to step"));
}

// Tests what is said of one buffer, by name and by a part of its module's name.
TEST(ExplainTest, Buffer) {
  const std::string text = explainBuffer(makeChain(), "b", 5);
  EXPECT_THAT(text, HasSubstr("at byte 100 of the arena, alive from command 1 up to 6 of 6"));
  EXPECT_THAT(text, HasSubstr("why: kept for the backward pass"));
  EXPECT_THAT(text, HasSubstr("written by 1  g"));
  EXPECT_THAT(text, HasSubstr("read by    2  h\n             5  h_grad"));
  EXPECT_THAT(text, HasSubstr("alive at the peak, 40.0 % of it"));
  EXPECT_THAT(text, HasSubstr("would take 500.0 us, 16.7 % of a step"));
  EXPECT_EQ(explainBuffer(makeChain(), "encoder", 5), text);
  EXPECT_THAT(explainBuffer(makeChain(), "a", 5), HasSubstr("not alive at the peak"));
  EXPECT_THROW(explainBuffer(makeChain(), "z9", 5), Error);
  EXPECT_THROW(explainBuffer(makeChain(), "", 5), Error);
}

// Tests that a recomputation is credited with what it keeps away from the peak, and only then.
TEST(ExplainTest, Recomputation) {
  Plan plan = makeChain();
  std::string text = explainRecomputation(plan, 10);
  EXPECT_THAT(text, HasSubstr("1 of 6 commands compute again what was dropped: 500.0 us, 20.0 % "
                              "more time"));
  EXPECT_THAT(text, HasSubstr("200 bytes instead of 300"));
  EXPECT_THAT(text, HasSubstr("100  500.0 us     2  f"));
  plan.graphs[0].peakStep = 2; // it is still there
  EXPECT_THAT(explainRecomputation(plan, 10), HasSubstr("  0  500.0 us     2  f"));
  plan.graphs[0].steps[4].recomputes.reset();
  EXPECT_THAT(explainRecomputation(plan, 10), HasSubstr("Nothing is computed twice"));
}

// Tests that time computed again is not mixed with waits for copies, and that the bound, on both, is said once.
TEST(ExplainTest, RecomputationAndCopies) {
  Plan plan = makeChain();
  plan.extraTimeBound = 0.15;
  EXPECT_THAT(explainRecomputation(plan, 10), HasSubstr("500.0 us, 20.0 % more time (no plan in "
                                                        "this memory takes less than 15.0 %)"));
  plan.extraTimeFraction = 0.5; // 2 ms and 1, of which half is waited
  plan.graphs[0].copies = PlannedCopies{100, 100, 0, 0.0005, 4096};
  const std::string text = explainRecomputation(plan, 10);
  EXPECT_THAT(text, HasSubstr("500.0 us, 25.0 % more time. Results"));
  EXPECT_THAT(text, HasSubstr("; all in all 50.0 % more time (no plan in this memory takes less "
                              "than 15.0 %).\n"));
  EXPECT_EQ(text.find("15.0 %"), text.rfind("15.0 %"));
}

/// The chain where `a` travels instead: out from 1 to 2, in from 4 to 5, half a millisecond of that waited for; and state `m`, which
/// lies in slow memory, comes in for step 1 and leaves with step 2.
Plan makeTravelling() {
  Plan plan = makeChain();
  GraphPlan &train = plan.graphs[0];
  train.steps[4].recomputes.reset();
  train.steps[5].seconds = 0.0005;
  train.buffers[0].recomputeSeconds = 0.0007;
  train.buffers[3].recomputed = false;
  train.buffers[3].reason = "fetched from slow memory instead of kept";
  train.buffers.push_back(makeBuffer("m", BufferKind::FetchedOptimizer, {5}, 0, 20, 1, 3));
  PlannedCopies copies = {120, 120, 0.001, 0.0005, 4096};
  copies.each = {{"a", true, 0, 100, 1, 2, 0, 0.00025},
                 {"m", false, 4, 20, 0, 1, 0, 0.0001},
                 {"m", true, 4, 20, 2, 3, 0, 0.0001},
                 {"a", false, 3, 100, 4, 5, 0, 0.00075}};
  train.steps[1].seconds = train.steps[2].seconds = train.steps[3].seconds = 0;
  train.copies = copies;
  return plan;
}

// Tests why what travels went: what it takes off the peak, when it is away, and what that costs beside computing it again.
TEST(ExplainTest, Travellers) {
  Plan plan = makeTravelling();
  std::vector<Traveller> list = travellersOf(plan.graphs[0]);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "a");
  EXPECT_EQ(list[0].away, std::pair(int64_t{2}, int64_t{4}));
  EXPECT_EQ(list[0].saved, 100);
  EXPECT_EQ(list[0].againSeconds, 0.0007);
  EXPECT_EQ(list[1].away, std::nullopt);
  EXPECT_EQ(list[1].saved, 20);
  const std::string text = explainRecomputation(plan, 10);
  EXPECT_THAT(text, HasSubstr("100  from 2 to 4       1.000 ms    500.0 us        700.0 us  a\n"));
  EXPECT_THAT(text, HasSubstr("20  between its uses  200.0 us                              m\n"));
  EXPECT_THAT(explainRecomputation(plan, 1), HasSubstr("and 1 more"));
  EXPECT_THAT(explainMoment(plan, 5, 10),
              HasSubstr("activations fetched from slow memory instead of kept"));
  plan.graphs[0].peakStep = 2; // where both are there still
  list = travellersOf(plan.graphs[0]);
  EXPECT_EQ(list[0].saved, 0);
  EXPECT_EQ(list[1].saved, 0);
}

// Tests that a buffer says when it is sent or fetched, and what is waited for.
TEST(ExplainTest, CopiesOfABuffer) {
  const Plan plan = makeTravelling();
  EXPECT_THAT(
      explainBuffer(plan, "a", 1),
      HasSubstr("sent to slow memory at command 1, awaited by command 2: 250.0 us, of which "
                "commands wait for none\n"));
  EXPECT_THAT(explainBuffer(plan, "a again", 1),
              HasSubstr("fetched from slow memory at command 4, awaited by command 5: 750.0 us, of "
                        "which commands wait 500.0 us\n"));
  EXPECT_THAT(explainBuffer(plan, "b", 1), Not(HasSubstr("slow memory")));
}

// Tests that savings are what is alive at the peak but not in use, and that they add up.
TEST(ExplainTest, Savings) {
  const Plan plan = makeChain();
  EXPECT_THAT(explainSavings(plan, std::nullopt, 5),
              HasSubstr("40   40  500.0 us  500.0 us  b [10]"));
  EXPECT_THAT(explainSavings(plan, 170, 5), HasSubstr("To take 30 bytes off this peak"));
  EXPECT_THAT(explainSavings(plan, 170, 5), Not(HasSubstr("too little")));
  EXPECT_THAT(explainSavings(plan, 100, 5), HasSubstr("That is all there is, 60 B"));
  EXPECT_THAT(explainSavings(plan, 200, 5), HasSubstr("already within"));
  EXPECT_THAT(explainSavings(makeTinyPlan(), std::nullopt, 5), HasSubstr("Nothing that is alive"));
}

// Tests the remedies that give up state, and their order.
TEST(ExplainTest, Remedies) {
  std::vector<Remedy> list = stateRemedies(makeTinyPlan(), "adam");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].gain, 64);
  EXPECT_THAT(list[0].text, HasSubstr("instead of adam"));
  EXPECT_THAT(list[1].text, HasSubstr("--freeze='w'"));
  EXPECT_EQ(list[1].changes, Changes::Results);
  list.push_back({100, "x", Changes::Nothing});
  sortRemedies(list);
  EXPECT_EQ(list[0].text, "x");
  EXPECT_THAT(renderRemedies(list),
              HasSubstr("1. x\n     gains 100 B (100 bytes); changes results? no\n"));
  EXPECT_EQ(batchOf(makeTinyPlan()), 4);
  EXPECT_EQ(bytesThatGrow(makeTinyPlan(), 4), 64 + 128); // x and hidden
  EXPECT_EQ(bytesThatGrow(makeTinyPlan(), 2), 64 + 128); // not the scratch of 18 rows either
  EXPECT_EQ(scratchAtPeak(makeTinyPlan()), 72);
  EXPECT_TRUE(stateRemedies(Plan(), "").empty());
  Plan hostile = makeTinyPlan();
  hostile.graphs[0].buffers[0].name = "w'; ls \x1b";
  hostile.graphs[0].buffers[1].name = "w'; ls \x1b.momentum";
  EXPECT_THAT(stateRemedies(hostile, "")[1].text, HasSubstr("--freeze='w'\\''; ls ?'"));
}

// Tests that 16 bits are offered for activations in f32 at the peak, and not where there are some.
TEST(ExplainTest, SixteenBits) {
  Plan plan = makeTinyPlan(); // hidden, 128 bytes, is live at the peak
  std::optional<Remedy> remedy = sixteenBits(plan);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->gain, 64);
  EXPECT_THAT(remedy->text, HasSubstr("--precision=bf16"));
  EXPECT_EQ(remedy->changes, Changes::Results);
  plan.graphs[0].buffers.back().dtype = DType::BF16;
  EXPECT_FALSE(sixteenBits(plan));
  EXPECT_FALSE(sixteenBits(Plan()));
}

// Tests that parts of a batch gain what the smaller batch does, less the sums of the gradients.
TEST(ExplainTest, BatchInParts) {
  Plan plan = makeTinyPlan(); // one parameter of 128 bytes
  std::optional<Remedy> remedy = batchInParts(plan, 2, 200);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->gain, 72);
  EXPECT_THAT(remedy->text, HasSubstr("--accumulate=2"));
  EXPECT_FALSE(batchInParts(plan, 2, 128)) << "the sums take what the parts gain";
  plan.batchesPerStep = 2;
  EXPECT_FALSE(batchInParts(plan, 2, 200)) << "in parts already";
}

// Tests that a plan without steps is an error, not a crash.
TEST(ExplainTest, NothingToExplain) { EXPECT_THROW(findMoment(Plan(), "peak"), Error); }

} // namespace
// Tests that pieces of a loss are offered where its logits are at the peak, with what is then gone.
TEST(Remedies, LossInChunks) {
  Plan plan;
  GraphPlan train;
  PlannedBuffer logits, losses;
  logits.size = 8000;
  logits.end = 3;
  losses.size = 80;
  losses.end = 3;
  train.buffers = {logits, losses};
  PlannedStep grad;
  grad.op = "cross_entropy_rows_grad";
  grad.reads = {0, 1};
  grad.writes = {0};
  train.steps = {PlannedStep(), grad, PlannedStep()};
  train.stepCount = 3;
  train.peakStep = 1;
  train.livePeakBytes = 8080;
  plan.arenaBytes = 8128;
  plan.graphs = {train};
  std::optional<Remedy> remedy = chunkedLoss(plan);
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->gain, 7000);
  EXPECT_EQ(remedy->changes, Changes::LastBits);
  EXPECT_THAT(remedy->text, HasSubstr("--loss-chunks=8"));
  plan.graphs[0].steps[1].op = "log_softmax_grad";
  ASSERT_TRUE(chunkedLoss(plan)) << "a loss of the model's own";
  EXPECT_EQ(chunkedLoss(plan)->gain, 7000);
  plan.graphs[0].steps[1].op = "softmax_grad";
  EXPECT_FALSE(chunkedLoss(plan)) << "attention has those";
  plan.graphs[0].steps[1] = grad;
  plan.graphs[0].buffers[0].end = 1;
  EXPECT_FALSE(chunkedLoss(plan)) << "dead at the peak";
  plan.graphs[0].buffers[0].end = 3;
  plan.graphs[0].steps[2] = grad;
  EXPECT_FALSE(chunkedLoss(plan)) << "in chunks already";
}

} // namespace stow
