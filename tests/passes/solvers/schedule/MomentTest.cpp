// Bounds from moments: the cut against all choices, and the bound against the optimum.
#include "Oracle.h"

#include "ir/plan/schedule/Generate.h"
#include "passes/solvers/schedule/MomentBound.h"
#include "passes/solvers/schedule/MomentTree.h"
#include "passes/solvers/schedule/OrderSearch.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>

namespace stow::schedule {
namespace {

/// A random question about a tiny problem: fates that contradict no set, free values, weights.
MomentQuestion randomQuestion(const Core &core, std::mt19937_64 &random) {
  const size_t count = core.ops.size();
  MomentQuestion question;
  question.fates.assign(count, Fate::Open);
  for (size_t t = 0; t < count; ++t) {
    bool isLater = random() % 8 == 0, mayBeBefore = true;
    for (int32_t value : core.ops[t].inputs)
      if (const auto &producer = core.values[value].producer) {
        isLater |= question.fates[*producer] == Fate::Later;
        mayBeBefore &= question.fates[*producer] != Fate::Open;
      }
    if (isLater)
      question.fates[t] = Fate::Later;
    else if (mayBeBefore && random() % 3)
      question.fates[t] =
          std::array{Fate::Before, Fate::Before, Fate::Once,
                     core.ops[t].recomputable ? Fate::Again : Fate::Once}[random() % 4];
  }
  for (size_t v = 0; v < core.values.size(); ++v)
    question.isFree.push_back(random() % 6 == 0);
  question.room = static_cast<Bytes>(random() % 200);
  if (random() % 4)
    for (size_t t = 0; t < count; ++t)
      question.weights.push_back(static_cast<int64_t>(random() % 5));
  question.level = static_cast<int64_t>(random() % 8);
  return question;
}

/// Pairs of ops: if the first runs at the moment or later, so does the second, that of a view which
/// is read there whatever is open. Left out where fates contradict it.
std::vector<std::pair<int32_t, int32_t>> followers(const Core &core, const MomentQuestion &question,
                                                   bool withReruns) {
  auto isCertain = [&](int32_t op) {
    return question.fates[op] == Fate::Later || question.fates[op] == Fate::Again;
  };
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (size_t v = 0; v < core.values.size(); ++v)
    for (int32_t view : core.values[v].views) {
      const CoreValue &known = core.values[view];
      const int32_t first = *core.values[v].producer, second = *known.producer;
      const Fate fate = question.fates[second];
      const bool mayRepeat = withReruns && core.ops[second].recomputable;
      const bool never = fate == Fate::Once || (fate == Fate::Before && !mayRepeat);
      if (core.values[v].sizeBytes > 0 && !question.isFree[v] && core.goesWithViewed(view) &&
          (known.keep || std::ranges::any_of(known.readers, isCertain)) &&
          !(isCertain(first) && never))
        pairs.push_back({first, second});
    }
  return pairs;
}

// Tests the cut against every set D and every choice of reruns.
TEST(MomentCutTest, EqualsTheBestChoice) {
  int checked = 0, following = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Problem problem = generate(seed);
    Core core(problem);
    const size_t count = core.ops.size();
    if (count > 7 || count == 0)
      continue;
    std::mt19937_64 random(seed);
    const MomentQuestion question = randomQuestion(core, random);
    std::vector<Cost> costs;
    for (size_t t = 0; t < count; ++t)
      costs.push_back(static_cast<Cost>(random() % 30));
    const auto price = static_cast<double>(random() % 4);
    const double pull = static_cast<double>(random() % 9) - 4;
    const bool withReruns = random() % 4 != 0;

    const auto pairs = followers(core, question, withReruns);
    following += static_cast<int>(pairs.size());
    int64_t best = INT64_MAX;
    for (uint32_t before = 0; before < (1u << count); ++before)
      for (uint32_t again = before;; again = (again - 1) & before) { // subsets of D
        bool isAllowed = true;
        int64_t cost = 0, weight = 0, bytes = 0;
        const uint32_t runs = (~before & ((1u << count) - 1)) | again;
        for (size_t t = 0; t < count; ++t) {
          const bool isBefore = before >> t & 1, isAgain = again >> t & 1;
          const Fate fate = question.fates[t];
          isAllowed &= fate == Fate::Open || (fate == Fate::Later) != isBefore;
          isAllowed &= !(fate == Fate::Once && isAgain) && !(fate == Fate::Again && !isAgain);
          isAllowed &= !isAgain || fate == Fate::Again || (withReruns && core.ops[t].recomputable);
          for (int32_t value : core.ops[t].inputs)
            if (const auto &producer = core.values[value].producer)
              isAllowed &= !isBefore || (before >> *producer & 1);
          cost += isAgain ? costs[t] : 0;
          if (isBefore && !question.weights.empty())
            weight += question.weights[t];
        }
        for (auto [first, second] : pairs)
          isAllowed &= !(runs >> first & 1) || (runs >> second & 1);
        for (size_t v = 0; v < core.values.size(); ++v) {
          const CoreValue &value = core.values[v];
          bool isNeeded = value.keep;
          for (int32_t reader : value.readers)
            isNeeded |= runs >> reader & 1;
          if (isNeeded && !question.isFree[v] && !(value.producer && (runs >> *value.producer & 1)))
            bytes += value.sizeBytes;
        }
        if (isAllowed)
          best = std::min(best, cost + static_cast<int64_t>(price) * (bytes - question.room) +
                                    static_cast<int64_t>(pull) * (weight - question.level));
        if (again == 0)
          break;
      }
    MomentCut cut(core, question, question.fates, costs, withReruns);
    const MomentCut::Answer answer = cut.solve(price, pull);
    ASSERT_EQ(answer.value, best) << "seed " << seed;
    ASSERT_EQ(answer.cost + price * answer.excess + pull * answer.weightExcess,
              static_cast<double>(best))
        << "seed " << seed;
    // With what is charged alone the value is the same.
    std::vector<Cost> charged(count, 0);
    cut.charges(charged);
    for (size_t t = 0; t < count; ++t)
      ASSERT_LE(charged[t], costs[t]);
    ASSERT_EQ(
        MomentCut(core, question, question.fates, charged, withReruns).solve(price, pull).value,
        best)
        << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, 1500);
  EXPECT_GT(following, 100);
}

MomentBoundOptions optionsFor(const Core &core, std::vector<int32_t> ops) {
  MomentBoundOptions options;
  options.ops = std::move(ops);
  options.orders = {core.inputOrder()};
  options.allowance = 100000;
  return options;
}

// Tests that the bound never exceeds the optimum, and is often more than the cuts of single ops
// prove.
TEST(MomentBoundTest, NeverAboveTheOptimum) {
  AgainstOptimum result;
  result.run(60000, {5, 7, 9},
             [](const Core &core, CutBound &cuts, const CutBound::Proof &proof, Bytes budget) {
               return momentTimeBound(core, cuts, budget, optionsFor(core, proof.ops));
             });
  EXPECT_GT(result.checked, 6000);
  EXPECT_GT(result.better, 100);
  EXPECT_GT(result.tight, 50);
}

/// The same problem with ops listed in another order, sizes and costs multiplied.
Problem changed(const Problem &problem, uint64_t seed, Bytes sizeFactor, Cost costFactor) {
  Problem result = problem;
  for (Storage &storage : result.storages)
    storage.sizeBytes *= sizeFactor;
  for (Op &op : result.ops)
    for (Alternative &alternative : op.alternatives) {
      alternative.cost *= costFactor;
      alternative.workspaceBytes *= sizeFactor;
    }
  std::mt19937_64 random(seed);
  const std::vector<std::optional<OpId>> producers = problem.producers();
  std::vector<Op> ops;
  std::vector<char> done(problem.ops.size(), 0);
  while (ops.size() < problem.ops.size()) {
    std::vector<size_t> ready;
    for (size_t t = 0; t < problem.ops.size(); ++t) {
      bool isReady = !done[t];
      for (ValueId value : problem.ops[t].inputs)
        isReady &= !producers[value] || done[*producers[value]];
      if (isReady)
        ready.push_back(t);
    }
    const size_t next = ready[random() % ready.size()];
    done[next] = 1;
    ops.push_back(result.ops[next]);
  }
  result.ops = std::move(ops);
  return result;
}

// Tests that the bound holds for problems whose ops are listed in another order and whose numbers
// are large, where products of prices and bytes are rounded, and that it hardly depends on either.
TEST(MomentBoundTest, HoldsForOtherListingsAndUnits) {
  constexpr Bytes sizeFactor = 1000003;
  constexpr Cost costFactor = 700001;
  int checked = 0, equal = 0;
  forEachTinyProblem(
      40000, [&](uint64_t seed, const Problem &problem, const Core &core, Bytes high) {
        if (std::any_of(problem.ops.begin(), problem.ops.end(),
                        [](const Op &op) { return !op.overwrites.empty(); }))
          return;
        const Bytes budget = high * 7 / 10;
        std::optional<Cost> optimum = exhaustiveTime(core, budget);
        CutBound bound(core);
        const CutBound::Proof proof = bound.refine(budget, 10);
        if (!optimum || !proof.time)
          return;
        const Problem other = changed(problem, seed, sizeFactor, costFactor);
        Core otherCore(other);
        otherCore.useLeanestAlternatives(other);
        CutBound otherBound(otherCore);
        const CutBound::Proof otherProof = otherBound.refine(budget * sizeFactor, 10);
        const Cost least = momentTimeBound(core, bound, budget, optionsFor(core, proof.ops));
        const Cost otherLeast = momentTimeBound(otherCore, otherBound, budget * sizeFactor,
                                                optionsFor(otherCore, otherProof.ops));
        ASSERT_LE(otherLeast, *optimum * costFactor) << "seed " << seed;
        ++checked;
        equal += otherLeast == least * costFactor;
      });
  EXPECT_GT(checked, 500);
  EXPECT_GT(equal, checked * 9 / 10);
}

struct Row {
  int ops;
  uint64_t seed;
  double percent;
};

// Tests that graphs of wide layers get a bound where no single op proves anything, and that the
// bound falls as the budget grows.
TEST(MomentBoundTest, LayeredGraphsHaveABound) {
  for (const Row &row : {Row{100, 5, 70}, Row{250, 6, 80}, Row{500, 4, 70}, Row{500, 3, 80}}) {
    LayeredOptions layered;
    layered.opCount = row.ops;
    Problem problem = generateLayered(row.seed, layered);
    Core core(problem);
    const Bytes peak = measure(core, core.inputOrder()).peakBytes;
    OrderOptions search;
    MomentBoundOptions options;
    options.orders = {core.inputOrder(), searchOrder(core, core.inputOrder(), search)};
    options.allowance = 20000000;
    std::optional<Cost> smaller;
    for (double percent : {row.percent - 10, row.percent}) {
      CutBound bound(core);
      const Bytes budget = percentOf(peak, percent);
      const CutBound::Proof proof = bound.refine(budget, 64);
      const Cost least = momentTimeBound(core, bound, budget, options);
      if (percent == row.percent) {
        EXPECT_EQ(*proof.time, core.leastTime);
        EXPECT_GT(least, core.leastTime) << problem.name;
      }
      if (smaller)
        EXPECT_LE(least, *smaller) << problem.name;
      smaller = least;
    }
  }
}

// Tests that the default bound proves schedules of convolutional networks optimal, where the cut of
// a single moment, without a tree, leaves a factor of four.
TEST(MomentBoundTest, ProvesConvolutionalNetworks) {
  struct Net {
    const char *name;
    double percent;
  };
  for (const Net &net :
       {Net{"segnet", 70}, Net{"segnet", 60}, Net{"vgg19", 90}, Net{"vgg19", 80}}) {
    Problem problem = trainingStep(convolutionalForward(net.name, 32));
    Planner planner(problem);
    PlanResult result = planner.plan(percentOf(planner.inputOrderPeak(), net.percent));
    EXPECT_EQ(result.status, Status::Optimal) << net.name << " " << net.percent;
    EXPECT_GT(result.time, result.leastTime);
  }
}

// Tests that moments whose reruns have nothing to do with each other add up: two training steps,
// one after the other.
TEST(MomentBoundTest, IndependentMomentsAddUp) {
  const Problem step = trainingStep(convolutionalForward("segnet", 32));
  Problem both = step;
  const auto values = static_cast<ValueId>(step.values.size());
  const auto storages = static_cast<StorageId>(step.storages.size());
  const ValueId token = both.addValue("token", 0);
  for (const Storage &storage : step.storages)
    both.storages.push_back(storage);
  for (Value value : step.values) {
    value.storage += storages + 1;
    both.values.push_back(value);
  }
  for (Op &op : both.ops)
    op.recomputable = op.recomputable && &op != &both.ops.back();
  both.ops.back().outputs.push_back(token);
  for (Op op : step.ops) {
    for (ValueId &value : op.inputs)
      value += values + 1;
    for (ValueId &value : op.outputs)
      value += values + 1;
    op.inputs.push_back(token);
    both.ops.push_back(op);
  }
  check(both);
  auto extraOf = [](const Problem &problem) {
    Core core(problem);
    const Bytes budget = percentOf(measure(core, core.inputOrder()).peakBytes, 60);
    CutBound bound(core);
    MomentBoundOptions options;
    options.orders = {core.inputOrder()};
    options.ops = bound.refine(budget, 64).ops;
    options.allowance = 20000000;
    return momentTimeBound(core, bound, budget, options) - core.leastTime;
  };
  const Cost one = extraOf(step), two = extraOf(both);
  EXPECT_GT(one, 0);
  EXPECT_GT(static_cast<double>(two), 1.9 * static_cast<double>(one));
  EXPECT_LE(static_cast<double>(two), 2.001 * static_cast<double>(one));
}

} // namespace
} // namespace stow::schedule
