#include "passes/solvers/schedule/lanes/PlanLanes.h"

#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/solvers/schedule/Effort.h"
#include "passes/solvers/schedule/bounds/LaneBound.h"
#include "passes/solvers/schedule/lanes/ChooseAway.h"
#include "passes/solvers/schedule/lanes/PlaceCopies.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stow::schedule {
namespace {

/// How far ahead of its reader a copy in may start, in parts of the time of all runs: where room is
/// short, copies that come early keep others from leaving late.
constexpr int64_t kAheadParts[] = {1, 8, 64, 0};

/// A schedule without copies, and what could travel in it.
struct Rung {
  Rung(const Problem &problem, const Lanes &lanes, Solution given)
      : solution(std::move(given)), residency(problem, lanes, solution), peak(residency.peak()) {
    for (AwayRule rule : kAwayRules)
      choosers.emplace_back(residency, rule);
  }
  Rung(const Rung &) = delete;
  Rung &operator=(const Rung &) = delete;

  /// No schedule with these runs, in this order, within the budget takes less: what is above it at
  /// a run is out before the run and comes in behind it.
  Cost leastTime(const Lanes &lanes, Bytes budgetBytes) const {
    Cost least = residency.runTime();
    for (int32_t i = 0; i < residency.runs(); ++i) {
      const Bytes above = residency.bytesAt[i] - budgetBytes;
      if (above > 0)
        least =
            std::max({least, lanes.out.duration(above) + residency.runTime() - residency.startOf[i],
                      residency.startOf[i + 1] + lanes.in.duration(above)});
    }
    return least;
  }

  const Solution solution;
  const Residency residency;
  const Bytes peak;
  std::vector<AwayChooser> choosers;
};

/// The problem with copies of state that take no time of the compute lane, as bounds need it: runs
/// are only worth their copies there, of which lowerBoundOfCopies() speaks.
Problem withFreeCopies(Problem problem) {
  for (Op &op : problem.ops)
    if (op.lane != OpLane::Compute)
      op.alternatives.front().cost = 0;
  return problem;
}

/// The best candidate so far.
struct Best {
  Cost time = kAnyTime;
  Bytes travels = 0;
  const Rung *rung = nullptr; ///< null: recomputation alone
  Placement placement;
};

} // namespace

class LanePlanner::Impl {
public:
  Impl(const Problem &given, PlanOptions planOptions)
      : problem(given), hasLaneOps(given.hasLaneOps()), options(std::move(planOptions)),
        planner(problem, options), graph(withFreeCopies(problem)), lean(graph), cuts(graph),
        effort(graph.ops.size(), options.effort) {
    if (lean.hasAlternatives)
      lean.useLeanestAlternatives(problem);
  }

  Bytes inputOrderPeak() const { return planner.inputOrderPeak(); }

  LanePlanResult plan(Bytes budget, const Lanes &lanes, Ways ways) {
    check(problem, lanes);
    LanePlanResult result;
    result.budgetBytes = budget;
    result.inputOrderPeak = inputOrderPeak();
    result.leastTime = graph.leastTime;
    LaneBound bound(graph, cuts, lanes);
    result.peakBound = bound.peakBound();
    result.timeBound = timeBound(bound, budget, lanes);
    if (!result.timeBound) {
      result.status = Status::Infeasible;
      return result;
    }
    Best best;
    std::optional<FrontierRow> plain;
    if (ways == Ways::Recompute || ways == Ways::Both) {
      plain = planner.schedule(budget);
      if (plain && !hasLaneOps)
        result.recomputeTime = best.time = plain->time;
      else if (plain && ways == Ways::Recompute)
        result.recomputeTime = best.time =
            verify(problem, lanes, withoutCopies(problem, plain->solution)).time;
    }
    if (ways != Ways::Recompute)
      search(best, lanes, ways, result);
    if (best.rung)
      fill(result, lanes, stepsOf(best.rung->residency, best.rung->solution, best.placement),
           best.time);
    else if (result.recomputeTime)
      fill(result, lanes, withoutCopies(problem, plain->solution), best.time);
    return result;
  }

  Bytes peakBound(const Lanes &lanes) { return LaneBound(graph, cuts, lanes).peakBound(); }

  std::optional<Cost> timeBound(Bytes budget, const Lanes &lanes) {
    LaneBound bound(graph, cuts, lanes);
    return timeBound(bound, budget, lanes);
  }

  Bytes peakWithinTime(const LanePlanResult &answer, const Lanes &lanes) {
    return LaneBound(graph, cuts, lanes)
        .peakWithin(answer.time, answer.peakBytes, effort.laneBoundOps());
  }

private:
  std::optional<Cost> timeBound(LaneBound &bound, Bytes budget, const Lanes &lanes) const {
    std::optional<Cost> time = bound.time(budget, effort.laneBoundOps());
    if (time)
      *time = std::max(*time, lowerBoundOfCopies(problem, lanes));
    return time;
  }

  /// What is tried from: orders and cuts, and the planner's answers above the budget. The answers
  /// below it take no less than recomputation alone within the budget; with copies of state, which
  /// recomputation alone waits for, they may.
  std::vector<const Rung *> rungs(Bytes budget, const Lanes &lanes, Ways ways, Cost most) {
    std::map<int, std::unique_ptr<Rung>> &known = ladders[lanes.stay];
    auto make = [&](int key, const Solution &solution) {
      std::unique_ptr<Rung> &rung = known[key];
      if (!rung)
        rung = std::make_unique<Rung>(problem, lanes, solution);
      return rung.get();
    };
    std::vector<const Rung *> result;
    result.push_back(make(0, inputOrder(problem)));
    result.push_back(make(1, planner.leanestOrder().solution));
    if (ways != Ways::Fetch) {
      addCuts(make, result);
      addAnswers(make, result, budget, most);
    }
    std::vector<std::pair<Cost, size_t>> order;
    for (size_t i = 0; i < result.size(); ++i)
      order.push_back({result[i]->residency.runTime(), i});
    std::sort(order.begin(), order.end());
    std::vector<const Rung *> sorted;
    for (const auto &[time, i] : order)
      if (sorted.empty() || sorted.back()->solution != result[i]->solution)
        sorted.push_back(result[i]);
    return sorted;
  }

  /// Of the cuts, some from all of the range.
  template <typename Make> void addCuts(Make make, std::vector<const Rung *> &result) {
    constexpr size_t most = 12;
    const std::vector<FrontierRow> rows = planner.cuts();
    const size_t count = std::min(rows.size(), most);
    for (size_t i = 0; i < count; ++i)
      result.push_back(make(static_cast<int>(2 + i), rows[i * rows.size() / count].solution));
  }

  /// The planner's answers at whole tens of percents above the budget, and what is between them:
  /// the answer for less memory without the reruns that the larger budget does not need. Only what
  /// takes no less than the answer for more memory is taken, so that for a budget nothing from below
  /// it is of use: that takes no less than recomputation alone.
  template <typename Make>
  void addAnswers(Make make, std::vector<const Rung *> &result, Bytes budget, Cost most) {
    constexpr int ten = 10, two = 2, firstKey = 1'000;
    auto answer = [&](int percent) -> const Rung * {
      const Bytes within = percentOf(inputOrderPeak(), percent);
      auto [known, isNew] = answers.try_emplace(percent);
      if (isNew)
        known->second = planner.schedule(within);
      return known->second ? make(firstKey + percent, known->second->solution) : nullptr;
    };
    const Rung *above = answer(100);
    if (!above)
      return;
    for (int percent = 100 - ten; percent > 0; percent -= ten) {
      if (above->residency.runTime() >= most ||
          (!hasLaneOps && percentOf(inputOrderPeak(), percent + ten) <= budget))
        return; // the next ones take longer, or are of no use
      const Rung *below = answer(percent);
      if (!below)
        return;
      result.push_back(below);
      for (int between = percent + two; between < percent + ten; between += two) {
        auto [known, isNew] = answers.try_emplace(between);
        if (isNew)
          known->second = withFewerReruns(below->solution, between, above->residency.runTime());
        if (known->second)
          result.push_back(make(firstKey + between, known->second->solution));
      }
      above = below;
    }
  }

  std::optional<FrontierRow> withFewerReruns(const Solution &solution, int percent,
                                             Cost least) const {
    const Bytes budget = percentOf(inputOrderPeak(), percent);
    const Sequence fewer = dropNeedlessReruns(lean, lean.sequenceOf(solution), budget);
    FrontierRow row;
    row.solution = expand(problem, lean, fewer, budget);
    const Replay replay = verify(problem, row.solution);
    row.peakBytes = replay.peakBytes;
    row.time = replay.time;
    return replay.fault || row.time < least ? std::nullopt : std::optional(std::move(row));
  }

  void search(Best &best, const Lanes &lanes, Ways ways, const LanePlanResult &result) {
    const int step = effort.laneBudgetStep();
    for (const Rung *rung : rungs(result.budgetBytes, lanes, ways, best.time)) {
      const bool isCancelled = options.cancelled && options.cancelled();
      if (rung->residency.runTime() >= best.time || best.time <= result.bound() || isCancelled)
        return;
      for (int percent = 100 / step * step; percent > 0; percent -= step) {
        const Bytes within = percentOf(inputOrderPeak(), percent);
        if (within > result.budgetBytes)
          continue;
        if (within < result.peakBound)
          break;
        if (rung->leastTime(lanes, within) >= best.time)
          break;
        if (!tryAt(best, *rung, within, lanes))
          break;
      }
    }
  }

  /// False if the schedule cannot be brought within the budget.
  bool tryAt(Best &best, const Rung &rung, Bytes budget, const Lanes &lanes) {
    std::vector<std::vector<int32_t>> tried;
    for (const AwayChooser &chooser : rung.choosers) {
      std::optional<std::vector<int32_t>> away = chooser.choose(budget);
      if (!away)
        continue;
      if (std::find(tried.begin(), tried.end(), *away) != tried.end())
        continue;
      for (int64_t part : kAheadParts) {
        const Cost ahead = part == 0 ? 0 : rung.residency.runTime() / part;
        Placement placement = placeCopies(rung.residency, *away, budget, ahead);
        if (placement.slowPeakBytes > lanes.slowBytes)
          continue;
        const Cost time = timeOf(rung.residency, lanes, placement);
        const Bytes travels = placement.bytesIn + placement.bytesOut;
        if (std::tie(time, travels) < std::tie(best.time, best.travels))
          best = {time, travels, &rung, std::move(placement)};
      }
      tried.push_back(std::move(*away));
    }
    return !tried.empty();
  }

  /// `time`: of the solution, by the clock that it was chosen by.
  void fill(LanePlanResult &result, const Lanes &lanes, LaneSolution solution, Cost time) const {
    const LaneReplay replay = verify(problem, lanes, solution, result.budgetBytes);
    if (replay.fault)
      throw Error::internal("a schedule with copies is illegal: " + *replay.fault);
    result.time = replay.time;
    result.computeTime = replay.computeTime;
    result.exposed = replay.exposed();
    result.hidden = replay.hidden();
    result.bytesOut = replay.bytesOut;
    result.bytesIn = replay.bytesIn;
    result.peakBytes = replay.peakBytes;
    result.slowPeakBytes = replay.slowPeakBytes;
    if (result.time != time)
      throw Error::internal("the clock of a schedule with copies is not the checker's");
    result.solution = std::move(solution);
    const Cost least = result.bound();
    result.gap = least > 0 ? static_cast<double>(result.time) / static_cast<double>(least) - 1 : 0;
    result.status = result.time <= least ? Status::Optimal : Status::Bounded;
  }

  const Problem problem;
  const bool hasLaneOps;
  const PlanOptions options;
  Planner planner;
  const Graph graph;
  Graph lean; ///< with the leanest alternative of every op, as the planner searches
  CutBound cuts;
  const Effort effort;
  std::map<int, std::optional<FrontierRow>> answers;                              ///< by percent
  std::map<std::vector<StorageId>, std::map<int, std::unique_ptr<Rung>>> ladders; ///< by `stay`
};

LanePlanner::LanePlanner(const Problem &problem, PlanOptions options)
    : impl(std::make_unique<Impl>((check(problem), problem), std::move(options))) {}
LanePlanner::~LanePlanner() = default;

LanePlanResult LanePlanner::plan(Bytes budgetBytes, const Lanes &lanes, Ways ways) {
  return impl->plan(budgetBytes, lanes, ways);
}

Bytes LanePlanner::peakWithinTime(const LanePlanResult &answer, const Lanes &lanes) {
  return impl->peakWithinTime(answer, lanes);
}

Bytes LanePlanner::peakBound(const Lanes &lanes) { return impl->peakBound(lanes); }

std::optional<Cost> LanePlanner::timeBound(Bytes budgetBytes, const Lanes &lanes) {
  return impl->timeBound(budgetBytes, lanes);
}

Bytes LanePlanner::inputOrderPeak() const { return impl->inputOrderPeak(); }

} // namespace stow::schedule
