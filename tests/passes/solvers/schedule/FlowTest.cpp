#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/MaxFlow.h"
#include "passes/solvers/schedule/SaveOrRerun.h"

#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

// Tests the flow against the smallest cut over all 2^n node sets, and that its side is such a cut.
TEST(MaxFlowTest, EqualsTheSmallestCut) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    const int nodes = 2 + static_cast<int>(random() % 7);
    struct Arc {
      int from, to;
      int64_t capacity;
    };
    std::vector<Arc> arcs;
    MaxFlow flow(nodes);
    for (int i = 0; i < 14; ++i) {
      Arc arc{static_cast<int>(random() % nodes), static_cast<int>(random() % nodes),
              static_cast<int64_t>(random() % 20)};
      if (arc.from == arc.to)
        continue;
      arcs.push_back(arc);
      flow.addArc(arc.from, arc.to, arc.capacity);
    }
    int64_t smallest = INT64_MAX;
    for (uint32_t side = 0; side < (1u << nodes); ++side) {
      if (!(side & 1) || (side & 2))
        continue;
      int64_t cut = 0;
      for (const Arc &arc : arcs)
        cut += (side >> arc.from & 1) && !(side >> arc.to & 1) ? arc.capacity : 0;
      smallest = std::min(smallest, cut);
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      ASSERT_EQ(flow.solve(0, 1), smallest) << "seed " << seed;
      int64_t cut = 0;
      for (const Arc &arc : arcs)
        cut += flow.sourceSide()[arc.from] && !flow.sourceSide()[arc.to] ? arc.capacity : 0;
      ASSERT_EQ(cut, smallest) << "seed " << seed;
    }
  }
}

TEST(MaxFlowTest, SurvivesLongChains) {
  constexpr int length = 200000;
  MaxFlow flow(length);
  for (int i = 0; i + 1 < length; ++i)
    flow.addArc(i, i + 1, 5 + i % 3);
  EXPECT_EQ(flow.solve(0, length - 1), 5);
}

// Tests exact products: 2^-3 * 20 = 2.5, and a third of 3 is just below 1.
TEST(SaveOrRerunTest, PricesAreExact) {
  EXPECT_EQ(priceDown(0.125, 20), 2);
  EXPECT_EQ(priceUp(0.125, 20), 3);
  EXPECT_EQ(priceDown(3, 7), 21);
  EXPECT_EQ(priceUp(3, 7), 21);
  EXPECT_EQ(priceDown(1.0 / 3, 3), 0);
  EXPECT_EQ(priceUp(1.0 / 3, 3), 1);
  EXPECT_EQ(priceDown(0, 1000), 0);
  EXPECT_EQ(priceDown(1e-300, 1000), 0);
  EXPECT_EQ(priceUp(1e-300, 1000), 1);
  for (const double mantissa : {0x1p+52, 0x1p+52 + 1, 0x1p+53 - 1}) { // all bits of a number count
    const auto whole = static_cast<int64_t>(mantissa);
    EXPECT_EQ(priceDown(mantissa, 3), 3 * whole);
    EXPECT_EQ(priceDown(std::ldexp(mantissa, -1), 3), 3 * whole / 2);
    EXPECT_EQ(priceDown(std::ldexp(mantissa, -40), 3), 3 * whole >> 40);
    EXPECT_EQ(priceUp(std::ldexp(mantissa, -40), 3), (3 * whole + (int64_t(1) << 40) - 1) >> 40);
  }
  for (const double smallest : {0x1p-1074, 0x1.8p-1050, 0x1p-1022}) {
    EXPECT_EQ(priceDown(smallest, int64_t(1) << 40), 0);
    EXPECT_EQ(priceUp(smallest, 1), 1);
  }
  EXPECT_EQ(priceDown(std::numeric_limits<double>::max(), 1), int64_t(1) << 60); // and not more
}

// Tests the cut against all choices of reruns on random graphs.
TEST(SaveOrRerunTest, EqualsTheBestChoice) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Problem problem = generate(seed);
    Graph graph(problem);
    const size_t ops = graph.ops.size(), values = graph.values.size();
    if (ops > 9 || ops == 0)
      continue;
    std::mt19937_64 random(seed);
    SaveOrRerun::Boundary boundary;
    boundary.free.resize(values);
    boundary.fixed.resize(ops);
    for (size_t v = 0; v < values; ++v) {
      boundary.free[v] = random() % 5 == 0;
      if (random() % 3 == 0)
        boundary.needed.push_back(static_cast<int32_t>(v));
    }
    for (size_t t = 0; t < ops; ++t) {
      boundary.fixed[t] = random() % 6 == 0;
      boundary.rerunCost.push_back(static_cast<Cost>(random() % 30));
    }
    const double price = static_cast<double>(random() % 40) / 8;
    int64_t best = INT64_MAX;
    SaveOrRerun solver(graph, boundary);
    for (uint32_t reruns = 0; reruns < (1u << ops); ++reruns) {
      int64_t cost = 0;
      bool allowed = true;
      std::vector<char> needed(values, 0);
      for (int32_t v : boundary.needed)
        needed[v] = 1;
      for (size_t t = 0; t < ops; ++t)
        if (reruns >> t & 1) {
          allowed &= !boundary.fixed[t];
          cost += boundary.rerunCost[t];
          for (int32_t v : graph.ops[t].inputs)
            needed[v] = 1;
        }
      for (size_t v = 0; v < values; ++v) {
        const auto &producer = graph.values[v].producer;
        if (needed[v] && !boundary.free[v] && !(producer && (reruns >> *producer & 1)))
          cost += std::min(priceDown(price, graph.values[v].sizeBytes), solver.ceiling());
      }
      if (allowed)
        best = std::min(best, cost);
    }
    SaveOrRerun::Answer answer = solver.solve(price);
    ASSERT_EQ(answer.value, best) << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, 1500);
}

} // namespace
} // namespace stow::schedule
