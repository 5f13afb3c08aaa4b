// Packings as chains, and packing from the large items to the small ones.
#include "passes/solvers/pack/Layers.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Chains.h"
#include "passes/solvers/pack/Greedy.h"
#include "tests/Cases.h"
#include "tests/ir/plan/pack/Build.h"

#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sstream>

namespace stow::pack {
namespace {

using test::add;
using testing::ElementsAre;

constexpr auto never = [] { return false; };

Solution solutionOf(const Model &model, const ChainPacking &packing) {
  std::vector<Bytes> bases(model.items.size());
  for (size_t k = 0; k < packing.order.size(); ++k)
    bases[packing.order[k]] = packing.bases[k];
  return model.solution(bases);
}

std::vector<int32_t> allItems(const Model &model) {
  std::vector<int32_t> items(model.items.size());
  std::iota(items.begin(), items.end(), 0);
  return items;
}

TEST(ChainsTest, AnItemGoesWhereItsChainIsTheLeast) {
  Problem problem;
  add(problem, 0, 2, 5);
  add(problem, 1, 3, 1); // on the first one
  add(problem, 2, 4, 4); // 10 high on the second one, 5 with it on top
  const Model model = makeModel(problem);
  int64_t work = 0;
  const ChainPacking packing =
      packByChains(model, {0, 1}, {2}, {.goal = 6, .workLimit = 0, .stop = never}, work);
  EXPECT_EQ(packing.height, 6);
  EXPECT_TRUE(verify(problem, solutionOf(model, packing)).empty());
  EXPECT_EQ(packing.order.back(), 1);
  EXPECT_GT(work, 0);
}

TEST(ChainsTest, OnlyTheTopNeedsNoPadding) {
  Problem problem;
  add(problem, 0, 4, 100);
  add(problem, 0, 4, 70);
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 64;
  const Model model = makeModel(problem);
  int64_t work = 0;
  const ChainPacking packing = packByChains(
      model, {}, {0, 1}, {.goal = lowerBound(problem), .workLimit = 0, .stop = never}, work);
  EXPECT_EQ(packing.height, 128 + 70);
  EXPECT_THAT(packing.order, ElementsAre(0, 1));
}

TEST(ChainsTest, PackingsAreCorrectAndNeverRise) {
  int lowered = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    GenerateOptions generated;
    generated.buffers = 1 + static_cast<int32_t>(seed % 90); // more than two kept skylines
    generated.horizon = 3 + static_cast<Time>(seed % 7) * 5;
    generated.alignments = false;
    generated.storages = false;
    Problem problem = generate(seed, generated);
    for (Buffer &buffer : problem.buffers)
      buffer.alignment = seed % 2 == 0 ? 1 : 8;
    const Model model = makeModel(problem);
    if (!isChainable(model))
      continue;
    const std::vector<Bytes> greedy =
        placeInOrder(model, greedyOrder(model, GreedyOrder::SizeStart), GreedyFit::First);
    std::vector<int32_t> order = allItems(model);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return std::pair(greedy[a], a) < std::pair(greedy[b], b);
    });
    int64_t work = 0;
    const Bytes goal = lowerBound(problem);
    const ChainPacking packing = packByChains(
        model, order, {}, {.goal = goal, .seed = seed, .workLimit = 100'000, .stop = never}, work);
    const Solution solution = solutionOf(model, packing);
    ASSERT_TRUE(verify(problem, solution).empty()) << "seed " << seed;
    ASSERT_EQ(solution.height, packing.height) << "seed " << seed;
    ASSERT_LE(packing.height, heightOfBases(model, greedy)) << "seed " << seed;
    ASSERT_GE(packing.height, goal) << "seed " << seed;
    lowered += packing.height < heightOfBases(model, greedy);
  }
  EXPECT_GT(lowered, 500);
}

// Where one block moves, few others do: chains are followed through an order of many kept skylines.
TEST(ChainsTest, FollowsChangesThroughALongOrder) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    GenerateOptions generated;
    generated.buffers = 500;
    generated.horizon = 40 + static_cast<Time>(seed) * 40;
    generated.alignments = false;
    generated.storages = false;
    Problem problem = generate(seed, generated);
    for (Buffer &buffer : problem.buffers)
      buffer.alignment = 8;
    const Model model = makeModel(problem);
    ASSERT_TRUE(isChainable(model));
    for (const int64_t limit : {0, 3'000'000}) {
      int64_t work = 0;
      const ChainPacking packing = packByChains(
          model, {}, allItems(model),
          {.goal = lowerBound(problem), .seed = seed, .workLimit = limit, .stop = never}, work);
      const Solution solution = solutionOf(model, packing);
      ASSERT_TRUE(verify(problem, solution).empty()) << "seed " << seed;
      ASSERT_EQ(solution.height, packing.height) << "seed " << seed << ", " << limit << " steps";
    }
  }
}

TEST(ChainsTest, KeepsToItsLimits) {
  const Problem problem = generateTrace(300, 2);
  const Model model = makeModel(problem);
  const std::vector<int32_t> all = allItems(model);
  int64_t little = 0, much = 0, stopped = 0;
  packByChains(model, {}, all, {.goal = 0, .workLimit = 0, .stop = never}, little);
  packByChains(model, {}, all, {.goal = 0, .workLimit = 2 * little, .stop = never}, much);
  packByChains(model, {}, all, {.goal = 0, .workLimit = 1 << 30, .stop = [] { return true; }},
               stopped);
  EXPECT_GT(much, little);
  EXPECT_LT(much, 4 * little);
  EXPECT_LT(stopped, 2 * little);
}

TEST(ChainsTest, TakesRectanglesOfOneAlignment) {
  Problem problem;
  add(problem, 0, 4, 8);
  add(problem, 0, 4, 8);
  EXPECT_TRUE(isChainable(makeModel(problem)));
  problem.buffers[1].alignment = 2;
  EXPECT_FALSE(isChainable(makeModel(problem)));
  problem.buffers[1].alignment = 1;
  problem.buffers[1].fixedOffset = 8;
  EXPECT_FALSE(isChainable(makeModel(problem)));
}

TEST(ModelTest, SomeItemsHaveSectionsOfTheirOwn) {
  Problem problem;
  add(problem, 0, 3, 1);
  add(problem, 1, 5, 2);
  add(problem, 4, 7, 3);
  add(problem, 6, 9, 4);
  const Model model = makeModel(problem);
  const Model part = restrictTo(model, {3, 0, 1});
  ASSERT_EQ(part.sections, 2);
  EXPECT_THAT(sectionLoads(part), ElementsAre(3, 4));
  EXPECT_EQ(part.items[0].begin, 1);
  EXPECT_EQ(part.items[2].end, 1);
  EXPECT_EQ(restrictTo(model, {}).sections, 0);
}

// A step of ResNet-50 whose schedule fills its budget at many instants.
TEST(LayersTest, PackWhatTheSearchDoesNot) {
  std::ifstream file(STOWAGE_PACK_DATA "/resnet50-step.499198276.csv", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const Problem problem = parse(text.str(), "resnet50-step.csv");
  const Model model = makeModel(problem);
  const Bytes bound = lowerBound(problem);
  const GreedyResult greedy = bestOfGreedy(model, bound);
  auto start = [&] {
    return Incumbent{.model = model,
                     .capacity = std::nullopt,
                     .stop = never,
                     .bases = greedy.bases,
                     .height = greedy.height,
                     .method = greedy.method,
                     .lowerBound = bound,
                     .workLimit = 400'000'000};
  };
  Incumbent searched = start(), layered = start();
  if (!stow::test::isNight())
    searched.workLimit /= 10;
  searchParts(searched);
  EXPECT_GT(searched.height, bound + bound / 500);
  ASSERT_TRUE(canPackInLayers(layered));
  packInLayers(layered);
  EXPECT_EQ(layered.height, bound);
  EXPECT_EQ(layered.method, "layers");
  EXPECT_TRUE(verify(problem, model.solution(layered.bases)).empty());
  layered.workLimit = layered.work + 1'000'000;
  EXPECT_FALSE(canPackInLayers(layered));
}

} // namespace
} // namespace stow::pack
