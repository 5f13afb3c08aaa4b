// Whether a plan fits a card, in numbers and in words.
#include "runtime/report/Verdict.h"

#include "tests/runtime/format/TinyPlan.h"

#include <gmock/gmock.h>

namespace stow {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Bytes kMiB = 1 << 20;

Plan planOf(Bytes arena, Bytes outside) {
  Plan plan = makeTinyPlan();
  plan.arenaBytes = arena;
  plan.outsideArenaBytes = outside;
  return plan;
}

TEST(VerdictTest, TheArenaHasWhatADesktopAndTheProcessLeave) {
  const Card card{"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB};
  const Verdict fits = judge(planOf(700 * kMiB, 0), card);
  EXPECT_EQ(fits.usableBytes, 700 * kMiB);
  EXPECT_TRUE(fits.fits());
  EXPECT_EQ(fits.spareBytes(), 0);
  EXPECT_FALSE(judge(planOf(700 * kMiB + 1, 0), card).fits());
}

TEST(VerdictTest, WhatThePlanSaysOfTheProcessGoesBeforeTheCardsEstimate) {
  const Card card{"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB};
  EXPECT_EQ(judge(planOf(1, 300 * kMiB), card).usableBytes, 500 * kMiB);
  EXPECT_EQ(judge(planOf(1, 900 * kMiB), card).usableBytes, 0);
}

TEST(VerdictTest, ACardOfAStatedSizeHasLess) {
  const Verdict verdict = judge(planOf(1, 0), cardOfSize(Bytes{24} << 30));
  EXPECT_EQ(verdict.card.bytes, (Bytes{24} << 30) / 64 * 63);
  EXPECT_EQ(verdict.usableBytes, verdict.card.bytes - 1024 * kMiB);
}

TEST(VerdictTest, Words) {
  const Card card{"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB};
  EXPECT_EQ(verdictLine(judge(planOf(512 * kMiB, 0), card)),
            "Stowage: 512.00 MiB; gpu: 1000.00 MiB (700.00 MiB usable): fits, 188.00 MiB to spare");
  Verdict verdict = judge(planOf(750 * kMiB, 0), card);
  verdict.remedies = {{100 * kMiB, "less of it: --batch=1", Changes::Results}};
  verdict.remediesOf = "of another plan";
  verdict.remedyMissing = "a smaller batch was not tried";
  const std::string text = renderVerdict(verdict);
  EXPECT_THAT(
      text,
      StartsWith(
          "Stowage: 750.00 MiB; gpu: 1000.00 MiB (700.00 MiB usable): does not fit, "
          "50.00 MiB too much\nremedies of another plan, by what they gain:\n  1. less of it"));
  EXPECT_THAT(text,
              HasSubstr("\na smaller batch was not tried\nusable: 1000.00 MiB less 200.00 MiB"));
}

TEST(VerdictTest, PyTorchStandsFirst) {
  Verdict verdict = judge(planOf(1, 0), {"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB});
  EXPECT_FALSE(toJsonValue(verdict).contains("pytorch_eager_bytes"));
  verdict.eagerBytes = 900 * kMiB;
  verdict.eagerTypes = "float32";
  verdict.eagerNote = "about";
  EXPECT_THAT(renderVerdict(verdict),
              StartsWith("PyTorch eager in float32: 900.00 MiB; Stowage: 1 B; gpu"));
  EXPECT_THAT(renderVerdict(verdict), HasSubstr("\nPyTorch eager: about\n"));
  EXPECT_EQ(toJsonValue(verdict)["pytorch_eager_bytes"], 900 * kMiB);
}

TEST(VerdictTest, Json) {
  Verdict verdict = judge(planOf(750 * kMiB, 0), {"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB});
  verdict.remedies = {{100 * kMiB, "less of it: --batch=1", Changes::Results}};
  const Json json = toJsonValue(verdict);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["spare_bytes"], -50 * kMiB);
  EXPECT_EQ(json["usable_bytes"], 700 * kMiB);
  EXPECT_EQ(json["text"], verdictLine(verdict));
  EXPECT_EQ(json["remedies"][0]["gain_bytes"], 100 * kMiB);
  EXPECT_EQ(json["remedies"][0]["changes_results"], "yes");
}

TEST(VerdictTest, JsonIsReadBack) {
  Verdict verdict = judge(planOf(750 * kMiB, 0), {"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB});
  for (bool isFull : {false, true}) {
    if (isFull) {
      verdict.eagerBytes = 900 * kMiB;
      verdict.eagerTypes = "float32";
      verdict.eagerNote = "about";
      verdict.remedies = {{100 * kMiB, "less of it: --batch=1", Changes::Results},
                          {1, "pieces", Changes::LastBits}};
      verdict.remediesOf = "of another plan";
      verdict.remedyMissing = "a smaller batch was not tried";
    }
    const Json json = toJsonValue(verdict);
    const Verdict read = verdictFrom(JsonNode(json, "verdict"));
    EXPECT_EQ(toJsonValue(read), json);
    EXPECT_EQ(renderVerdict(read), renderVerdict(verdict));
  }
  Json wrong = toJsonValue(verdict);
  wrong["remedies"][1]["changes_results"] = "perhaps";
  EXPECT_THAT(
      [&] { verdictFrom(JsonNode(wrong, "verdict")); },
      testing::ThrowsMessage<Error>(HasSubstr(
          "remedies[1].changes_results: expected no, in the last bits or yes, found 'perhaps'")));
}

TEST(VerdictTest, APlanAloneTellsOfRemediesWhereItDoesNotFit) {
  const Card card{"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB};
  EXPECT_TRUE(judgeAlone(planOf(700 * kMiB, 0), card).remedies.empty());
  const Plan plan = planOf(701 * kMiB, 0);
  EXPECT_EQ(judgeAlone(plan, card).remedies.size(), remediesOf(plan).size());
  EXPECT_FALSE(remediesOf(plan).empty());
}

TEST(VerdictTest, OnlyFormatsWithWordsHoldIt) {
  const Plan plan = planOf(750 * kMiB, 0);
  const Verdict verdict = judge(plan, {"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB});
  const std::string text = *renderJudged(plan, verdict, "text", ReportOptions());
  EXPECT_EQ(text, renderVerdict(verdict) + "\n" + renderText(plan, ReportOptions()));
  const Json json = Json::parse(*renderJudged(plan, verdict, "json", ReportOptions()));
  EXPECT_EQ(json["verdict"], toJsonValue(verdict));
  EXPECT_FALSE(renderJudged(plan, verdict, "csv", ReportOptions()));
}

TEST(VerdictTest, FitIsRequiredOrWarnedOf) {
  const Card card{"gpu", 1000 * kMiB, 200 * kMiB, 100 * kMiB};
  requireFit(judge(planOf(700 * kMiB, 0), card), true);
  const Verdict verdict = judge(planOf(750 * kMiB, 0), card);
  testing::internal::CaptureStderr();
  requireFit(verdict, false);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: the step does not fit the card: " + verdictLine(verdict) + "\n");
  try {
    requireFit(verdict, true);
    FAIL() << "it fits";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), 2);
    EXPECT_EQ(std::string(error.what()),
              "STOW1002: the step does not fit the card\n" + renderVerdict(verdict));
  }
}

} // namespace
} // namespace stow
