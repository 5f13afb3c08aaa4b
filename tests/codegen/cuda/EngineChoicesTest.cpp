// Engines for several chips within the same scratch, held to all combinations of the chips' engines.
#include "codegen/cuda/EngineChoices.h"

#include <gmock/gmock.h>
#include <random>

namespace stow::cuda {
namespace {

using testing::ElementsAre;

using Plans = std::vector<EnginePlan>;

EnginePlan engine(const char *identity, Bytes scratch, int position, bool isFallback = false) {
  return {identity, scratch, position, isFallback, {isFallback ? 1 : 2, {}}};
}

std::vector<std::string> namesOf(const std::vector<EngineChoice> &choices) {
  std::vector<std::string> names;
  for (const EngineChoice &choice : choices)
    names.push_back(choice.name);
  return names;
}

// Tests that one chip's choices are the engines that need less than every faster one.
TEST(EngineChoicesTest, OfOneChip) {
  const Plans plans = {engine("engine 1", 5000, 0), engine("engine 2", 6000, 1),
                       engine("engine 3", 288, 2), engine("engine 0", 0, 3, true)};
  const ChipPlans chip{"h100", &plans};
  const auto choices = engineChoices({&chip, 1}, 64);
  EXPECT_THAT(namesOf(choices), ElementsAre("cudnn engine 1", "cudnn engine 3", "cudnn engine 0"));
  EXPECT_EQ(choices[1].workspaceBytes, 288);
  EXPECT_DOUBLE_EQ(choices[1].slowdown, 1.1);
  EXPECT_DOUBLE_EQ(choices[2].slowdown, 20.15);
}

// Tests that each chip takes its fastest within the scratch that is there for all.
TEST(EngineChoicesTest, OfTwoChips) {
  const Plans a100 = {engine("engine 1", 5000, 0), engine("engine 4", 512, 2),
                      engine("engine 0", 0, 3, true)};
  const Plans h100 = {engine("engine 7", 288, 0), engine("engine 9", 0, 1)};
  const ChipPlans chips[] = {{"a100", &a100}, {"h100", &h100}};
  const auto choices = engineChoices(chips, 64);
  EXPECT_THAT(namesOf(choices),
              ElementsAre("a100: cudnn engine 1, 5000 bytes; h100: cudnn engine 7, 288 bytes",
                          "a100: cudnn engine 4, 512 bytes; h100: cudnn engine 7, 288 bytes",
                          "a100: cudnn engine 0, 0 bytes; h100: cudnn engine 7, 288 bytes",
                          "a100: cudnn engine 0, 0 bytes; h100: cudnn engine 9, 0 bytes"));
  EXPECT_EQ(choices[0].workspaceBytes, 5000);
  EXPECT_EQ(choices[2].workspaceBytes, 288);
  EXPECT_DOUBLE_EQ(choices[0].slowdown, 1);
  EXPECT_DOUBLE_EQ(choices[1].slowdown, 1.05);
}

// Tests that scratch which every chip needs is the least that there is.
TEST(EngineChoicesTest, WhatAChipCannotDoWithout) {
  const Plans a100 = {engine("engine 1", 4096, 0)}, h100 = {engine("engine 7", 0, 0)};
  const ChipPlans chips[] = {{"a100", &a100}, {"h100", &h100}};
  const auto choices = engineChoices(chips, 64);
  ASSERT_EQ(choices.size(), 1);
  EXPECT_EQ(choices[0].workspaceBytes, 4096);
}

// Tests on lists of random engines that, within whatever scratch, no combination is faster than the best choice.
TEST(EngineChoicesTest, NoCombinationIsBetter) {
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<Plans> lists(3);
    for (Plans &plans : lists)
      for (int position = 0; position < 4; ++position)
        plans.push_back(engine("engine", static_cast<Bytes>(random() % 8 * 64), position,
                               position == 3 && random() % 2 == 0));
    const ChipPlans chips[] = {{"a", &lists[0]}, {"b", &lists[1]}, {"c", &lists[2]}};
    const auto choices = engineChoices(chips, 64);
    auto slowdown = [](const EnginePlan &plan) {
      return (plan.isFallback ? 20 : 1) + 0.05 * plan.position;
    };
    for (Bytes room = 0; room < 8 * 64; room += 64) {
      double best = 1e9, chosen = 1e9;
      for (const EnginePlan &a : lists[0])
        for (const EnginePlan &b : lists[1])
          for (const EnginePlan &c : lists[2])
            if (std::max({a.workspaceBytes, b.workspaceBytes, c.workspaceBytes}) <= room)
              best = std::min(best, (slowdown(a) + slowdown(b) + slowdown(c)) / 3);
      for (const EngineChoice &choice : choices)
        if (choice.workspaceBytes <= room)
          chosen = std::min(chosen, choice.slowdown);
      EXPECT_NEAR(chosen, best, 1e-12) << "list " << repeat << " within " << room << " bytes";
    }
  }
}

} // namespace
} // namespace stow::cuda
