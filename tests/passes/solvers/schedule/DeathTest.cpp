// Sequences of deaths: against exhaustive search, and what each rule leaves out.
#include "Oracle.h"

#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/DeathSearch.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

using Outcome = DeathSearch::Outcome;
using Sinks = DeathSearch::Sinks;
constexpr int64_t plenty = 1'000'000'000;

Cost deathBound(const Core &core, const CutBound &cuts, Bytes budget) {
  int64_t allowance = plenty;
  return DeathSearch(core, cuts).timeBound(budget, core.leastTime, std::nullopt, allowance).time;
}

// Tests that the bound holds in problems of every kind, and that it adds to the cuts.
TEST(DeathTest, NeverExceedsTheOptimum) {
  AgainstOptimum against;
  against.run(20000, {5, 6, 7, 8, 9},
              [](const Core &core, const CutBound &cuts, const CutBound::Proof &, Bytes budget) {
                return deathBound(core, cuts, budget);
              });
  EXPECT_GT(against.checked, 3000);
  EXPECT_GT(against.better, 15);
  EXPECT_GT(against.tight, 5);
}

/// Eight ops that read one or two of the last values and sometimes an early one: values die young
/// and are read again by reruns.
Problem deepGraph(uint64_t seed) {
  std::mt19937_64 random(seed);
  Problem problem;
  std::vector<ValueId> values;
  for (int i = 0; i < 8; ++i) {
    std::vector<ValueId> reads;
    for (int back = 1; back <= i; ++back)
      if (back == 1 ? random() % 8 != 0 : random() % static_cast<uint64_t>(back + 1) == 0)
        reads.push_back(values[static_cast<size_t>(i - back)]);
    const std::string name = std::to_string(i);
    values.push_back(problem.addValue("v" + name, 1 + static_cast<Bytes>(random() % 9)));
    problem.addOp("n" + name, 1 + static_cast<Cost>(random() % 9), reads, {values.back()});
  }
  return problem;
}

/// Ops that read the same values, which then die, and write what is read after a peak: their reruns
/// share those values' reruns.
Problem fanGraph(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % uint64_t(most)); };
  Problem problem;
  std::vector<ValueId> shared = {problem.addValue("u0", 3 + draw(9))};
  if (seed % 3 == 0)
    shared.push_back(problem.addValue("u1", draw(9)));
  problem.addOp("share", draw(12), {}, shared);
  std::vector<ValueId> late;
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::to_string(i);
    late.push_back(problem.addValue("v" + name, 3 + draw(6)));
    problem.addOp("b" + name, draw(3), {shared[random() % shared.size()]}, {late.back()});
  }
  const ValueId sum = problem.addValue("sum", 1), small = problem.addValue("small", 1),
                peak = problem.addValue("peak", 6 + draw(24));
  problem.addOp("sum", 20, late, {sum});
  problem.addOp("peak", 20, {sum}, {peak});
  problem.addOp("after", 20, {peak}, {small});
  late.push_back(small);
  if (seed % 4 == 0)
    late.push_back(shared.back());
  problem.addOp("last", 20, late, {});
  return problem;
}

// Tests the same where reruns pay most: steps of chains, small wide graphs, deep graphs. Every
// threshold is asked for, so that sets with several reruns are met.
TEST(DeathTest, ExcludesNoScheduleWithReruns) {
  int impossible = 0, reached = 0, tight = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    LayeredOptions options;
    options.opCount = 7;
    options.edgeDensity = 0.4;
    Problem problem = seed % 4 == 0   ? generateLayered(seed, options)
                      : seed % 4 == 1 ? generateChainStep(seed, 3)
                      : seed % 4 == 2 ? deepGraph(seed)
                                      : fanGraph(seed / 4);
    if (seed % 5 == 0) { // some that must not run again, some results kept
      problem.ops[seed % 5].recomputable = false;
      problem.values[seed % 4].keep = true;
    }
    const Core core(problem);
    const Bytes peak = measure(core, core.inputOrder()).peakBytes;
    const CutBound cuts(core);
    const DeathSearch search(core, cuts);
    for (int part = 50; part < 100; part += 3) {
      const Bytes budget = peak * part / 100;
      const std::optional<Cost> optimum = exhaustiveTime(core, budget);
      const Cost least = optimum ? *optimum - core.leastTime : core.leastTime;
      for (Cost extra : {Cost(0), least / 2, least - core.costStep, least}) {
        if (extra < 0)
          continue;
        int64_t allowance = plenty;
        const bool isExcluded =
            search.run(budget, extra, Sinks::WithDeaths, allowance).outcome == Outcome::Impossible;
        impossible += isExcluded;
        reached += !isExcluded;
        tight += isExcluded && optimum && extra > 0 && extra == least - core.costStep;
        if (optimum && extra >= least)
          ASSERT_FALSE(isExcluded) << "seed " << seed << " budget " << budget << " extra " << extra;
      }
    }
  }
  EXPECT_GT(impossible, 2000);
  EXPECT_GT(reached, 2000);
  EXPECT_GT(tight, 50);
}

/// The least peak of all orders without reruns, over all closed sets. Up to 20 ops, no credits.
Bytes leastPeak(const Core &core) {
  const size_t count = core.ops.size();
  std::vector<Bytes> best(size_t(1) << count, std::numeric_limits<Bytes>::max());
  best[0] = 0;
  auto alive = [&](uint32_t done) {
    Bytes sum = core.baseBytes;
    for (const CoreValue &value : core.values) {
      bool isRead = value.keep;
      for (int32_t reader : value.readers)
        isRead |= !(done >> reader & 1);
      if (isRead && (!value.producer || (done >> *value.producer & 1)))
        sum += value.sizeBytes;
    }
    return sum;
  };
  for (uint32_t done = 0; done + 1 < best.size(); ++done) {
    if (best[done] == std::numeric_limits<Bytes>::max())
      continue;
    const Bytes before = alive(done);
    for (size_t t = 0; t < count; ++t) {
      const CoreOp &op = core.ops[t];
      const bool isReady = std::all_of(op.inputs.begin(), op.inputs.end(), [&](int32_t value) {
        return !core.values[value].producer || (done >> *core.values[value].producer & 1);
      });
      if ((done >> t & 1) || !isReady)
        continue;
      Bytes during = before + op.leastWorkspaceBytes;
      for (int32_t value : op.outputs)
        during += core.values[value].sizeBytes;
      Bytes &after = best[done | 1u << t];
      after = std::min(after, std::max(best[done], during));
    }
  }
  return best.back();
}

// Tests that without reruns what fits is found and all else is excluded: exact where ops that leave
// something need nothing but inputs and outputs. Elsewhere, and where ops that leave nothing are
// not placed, nothing that fits is excluded.
TEST(DeathTest, FindsTheLeastPeakWithoutReruns) {
  int exact = 0, bounded = 0;
  const int problems = 300;
  for (uint64_t seed = 1; seed <= problems; ++seed) {
    LayeredOptions options;
    options.opCount = 10 + static_cast<int>(seed % 6);
    options.edgeDensity = seed % 3 ? 0.25 : 0.5;
    Problem problem = generateLayered(seed, options);
    const bool isExact = seed % 4 != 0;
    if (!isExact)
      problem.ops[seed % 7].alternatives.front().workspaceBytes = 30 * 1024;
    problem.values[seed % 10].keep = seed % 3 == 0;
    const Core core(problem);
    const CutBound cuts(core);
    const DeathSearch search(core, cuts);
    const Bytes least = leastPeak(core);
    int64_t allowance = plenty;
    bounded +=
        search.run(least - 1, 0, Sinks::WithDeaths, allowance).outcome == Outcome::Impossible;
    for (Sinks sinks : {Sinks::WithDeaths, Sinks::Placed}) {
      const DeathSearch::Answer answer = search.run(least, 0, sinks, allowance);
      ASSERT_EQ(answer.outcome, Outcome::Possible) << "seed " << seed;
      ASSERT_EQ(answer.order.size(), core.ops.size());
      const Measure measured = measure(core, answer.order);
      ASSERT_TRUE(measured.legal);
      if (isExact && sinks == Sinks::Placed)
        EXPECT_EQ(measured.peakBytes, least) << "seed " << seed;
    }
    if (!isExact)
      continue;
    ++exact;
    EXPECT_EQ(search.run(least - 1, 0, Sinks::Placed, allowance).outcome, Outcome::Impossible)
        << "seed " << seed;
    const Sequence order = search.improveOrder(core.inputOrder(), 0, plenty);
    EXPECT_LE(measure(core, order).peakBytes, least + least / 900) << "seed " << seed;
  }
  EXPECT_EQ(exact, problems * 3 / 4);
  EXPECT_GT(bounded, problems / 3);
}

/// `copies` independent chains of ops that write values of these sizes, the last one nothing; then
/// an op that needs more than `budget`.
Problem chains(int copies, const std::vector<Bytes> &sizes, Bytes budget) {
  Problem problem;
  const ValueId seed = problem.addValue("seed", 1);
  problem.addOp("first", 1, {}, {seed});
  for (int i = 0; i < copies; ++i) {
    ValueId last = seed;
    for (size_t s = 0; s < sizes.size(); ++s) {
      const std::string name = std::to_string(i) + "_" + std::to_string(s);
      const ValueId value = problem.addValue("v" + name, sizes[s]);
      problem.addOp("write" + name, 1, s ? std::vector<ValueId>{last} : std::vector<ValueId>{},
                    {value});
      last = value;
    }
    problem.addOp("end" + std::to_string(i), 1, {last}, {});
  }
  const ValueId large = problem.addValue("large", budget);
  problem.addOp("large", 1, {seed}, {large});
  problem.addOp("read", 1, {large}, {});
  return problem;
}

size_t setsOf(const Problem &problem, Bytes budget) {
  const Core core(problem);
  const CutBound cuts(core);
  int64_t allowance = plenty;
  const DeathSearch::Answer answer =
      DeathSearch(core, cuts).run(budget, 0, Sinks::WithDeaths, allowance);
  EXPECT_EQ(answer.outcome, Outcome::Impossible);
  return answer.sets;
}

// Tests that a death that leaves no more bytes is not weighed against others: 12 chains would have
// 2^12 sets.
TEST(DeathTest, TakesASafeDeathAlone) { EXPECT_LE(setsOf(chains(12, {5}, 20), 20), 14u); }

// Tests that two deaths, of which the first leaves more bytes and the second none, are not weighed
// against others either: 3^8 sets.
TEST(DeathTest, DropsAlternativesOnceBytesAreLeast) {
  EXPECT_LE(setsOf(chains(8, {5, 7}, 40), 40), 8 * 8 * 3u);
}

/// Chains that may be interleaved in any way, each of which leaves something, all of which `join`
/// reads; then the same again, and what needs more than there is.
Problem twoHills(int copies, Bytes budget) {
  Problem problem;
  ValueId last = problem.addValue("seed", 1);
  problem.addOp("first", 1, {}, {last});
  for (int hill = 0; hill < 2; ++hill) {
    std::vector<ValueId> left;
    for (int i = 0; i < copies; ++i) {
      const std::string name = std::to_string(hill) + "_" + std::to_string(i);
      const ValueId large = problem.addValue("large" + name, 5);
      left.push_back(problem.addValue("small" + name, 2 + i % 3));
      problem.addOp("write" + name, 1, {last}, {large});
      problem.addOp("read" + name, 1, {large}, {left.back()});
    }
    left.push_back(last);
    last = problem.addValue("joined" + std::to_string(hill), 1);
    problem.addOp("join" + std::to_string(hill), 1, left, {last});
  }
  const ValueId large = problem.addValue("large", budget);
  problem.addOp("large", 1, {last}, {large});
  problem.addOp("read", 1, {large, last}, {});
  return problem;
}

// Tests that what comes before a waist is not tried in other ways once nothing follows from it: the
// second hill has some 130 sets; with all of the first there are more than 500.
TEST(DeathTest, LeavesAWaistOnce) { EXPECT_LE(setsOf(twoHills(9, 70), 70), 160u); }

// Tests the same where an op beside the waist may run early: not a waist, but what it writes fits.
TEST(DeathTest, LeavesAWaistOnceBesideEarlyOps) {
  Problem problem = twoHills(9, 70);
  const ValueId early = problem.addValue("early", 3);
  problem.addOp("early", 1, {0}, {early});
  problem.values[early].keep = true;
  EXPECT_LE(setsOf(problem, 70), 160u);
}

// Tests that of two values the one whose missing ops are among the other's dies first.
TEST(DeathTest, TriesLeastSetsOnly) {
  Problem problem;
  std::vector<ValueId> values;
  const ValueId seed = problem.addValue("seed", 1);
  problem.addOp("first", 1, {}, {seed});
  constexpr int count = 10;
  // Value i is read by op i and all later ones: value 9 dies first, then 8, ... Each leaves 6 bytes
  // more.
  for (int i = 0; i < count; ++i) {
    values.push_back(problem.addValue("v" + std::to_string(i), 3));
    problem.addOp("write" + std::to_string(i), 1, {seed}, {values.back()});
  }
  for (int i = 0; i < count; ++i) {
    const ValueId out = problem.addValue("o" + std::to_string(i), 9);
    std::vector<ValueId> reads(values.begin(), values.begin() + i + 1);
    problem.addOp("read" + std::to_string(i), 1, reads, {out});
    problem.values[out].keep = true;
  }
  EXPECT_LE(setsOf(problem, 80), 12u);
}

// Tests that a death is not taken for safe if a rerun may need what dies. "again" reads "x" and
// cheaply frees 10 bytes over "large". With "x" dead as soon as that leaves no more bytes, "x" is
// kept beside what its last reader writes.
TEST(DeathTest, KeepsWhatARerunMayNeed) {
  Problem problem;
  const auto add = [&](const char *name, Bytes bytes, Cost cost, std::vector<ValueId> reads) {
    const ValueId value = problem.addValue(name, bytes);
    problem.addOp(name, cost, std::move(reads), {value});
    return value;
  };
  const ValueId x = add("x", 10, 100, {}), q = add("q", 9, 100, {}),
                again = add("again", 10, 1, {x}), both = add("both", 1, 100, {q, again}),
                small = add("small", 1, 50, {both}), other = add("other", 10, 100, {x, both}),
                large = add("large", 20, 100, {small}), after = add("after", 1, 100, {large});
  add("end", 1, 100, {again, both, other, after});
  const Core core(problem);
  const CutBound cuts(core);
  const Measure known = measure(core, {0, 1, 2, 3, 4, 6, 7, 2, 5, 8});
  ASSERT_TRUE(known.legal);
  ASSERT_EQ(known.time, core.leastTime + 1);
  const DeathSearch search(core, cuts);
  int64_t allowance = plenty;
  EXPECT_EQ(search.run(known.peakBytes, 0, Sinks::WithDeaths, allowance).outcome,
            Outcome::Impossible);
  for (Cost extra = 1; extra <= 100; ++extra)
    EXPECT_EQ(search.run(known.peakBytes, extra, Sinks::WithDeaths, allowance).outcome,
              Outcome::Possible)
        << extra;
}

// Tests that the answer depends on nothing but the question.
TEST(DeathTest, IsDeterministic) {
  LayeredOptions options;
  const Problem problem = generateLayered(3, options);
  const Core core(problem);
  const CutBound cuts(core);
  const DeathSearch search(core, cuts);
  const Bytes budget = percentOf(measure(core, core.inputOrder()).peakBytes, 66);
  int64_t first = 2'000'000, second = first;
  const DeathSearch::Answer a = search.run(budget, 0, Sinks::WithDeaths, first),
                            b = search.run(budget, 0, Sinks::WithDeaths, second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.sets, b.sets);
  int64_t little = 1000;
  EXPECT_EQ(search.run(budget, 0, Sinks::WithDeaths, little).outcome, Outcome::Unknown);
}

// Tests that bytes which no order changes do not change the order that is found.
TEST(DeathTest, PinnedBytesDoNotChangeTheOrder) {
  LayeredOptions options;
  options.opCount = 250;
  const Problem problem = generateLayered(2, options);
  Problem more = problem;
  more.storages.push_back({123'456'789, true});
  more.values.push_back({"state", static_cast<StorageId>(more.storages.size() - 1)});
  const auto improved = [](const Problem &given) {
    const Core core(given);
    const CutBound cuts(core);
    return DeathSearch(core, cuts).improveOrder(core.inputOrder(), cuts.peakBound() - 1, 8'000'000);
  };
  const Sequence order = improved(problem);
  EXPECT_NE(order, Core(problem).inputOrder());
  EXPECT_EQ(improved(more), order);
}

// Tests that where no schedule fits the search for more extra time ends, and that numbers near the
// largest that problems may have are no trouble.
TEST(DeathTest, EndsWhereNothingFits) {
  for (const Cost factor : {Cost(1), Cost(1) << 40}) {
    Problem problem = deepGraph(5);
    for (Op &op : problem.ops)
      op.alternatives.front().cost *= factor;
    for (Storage &storage : problem.storages)
      storage.sizeBytes *= factor;
    const Core core(problem);
    const CutBound cuts(core);
    const Cost nothingFits = deathBound(core, cuts, factor);
    EXPECT_GT(nothingFits, 2 * core.leastTime);
    EXPECT_LT(nothingFits / 8, core.leastTime);
    const Bytes peak = measure(core, core.inputOrder()).peakBytes;
    for (int part = 50; part < 100; part += 5)
      if (std::optional<Cost> optimum = exhaustiveTime(core, peak * part / 100))
        EXPECT_LE(deathBound(core, cuts, peak * part / 100), *optimum);
  }
}

// Tests that layered graphs that no cut and no tree bounds get a bound above 0, and an order where
// one exists.
TEST(DeathTest, DecidesLayeredGraphs) {
  const auto planned = [](uint64_t seed, double percent) {
    LayeredOptions options;
    const Problem problem = generateLayered(seed, options);
    const Core core(problem);
    return planSchedule(problem, percentOf(measure(core, core.inputOrder()).peakBytes, percent));
  };
  for (uint64_t seed : {1, 4}) {
    const PlanResult result = planned(seed, 60);
    ASSERT_TRUE(result.cutBound);
    EXPECT_GT(static_cast<double>(*result.cutBound), 1.01 * static_cast<double>(result.leastTime));
  }
  EXPECT_EQ(planned(3, 70).time, planned(3, 70).leastTime);
}

} // namespace
} // namespace stow::schedule
