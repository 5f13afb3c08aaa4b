#include "passes/solvers/schedule/PlanSchedule.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/CutBound.h"
#include "passes/solvers/schedule/LocalSearch.h"
#include "passes/solvers/schedule/OrderSearch.h"
#include "passes/solvers/schedule/PhaseProgram.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace stow::schedule {

Bytes percentOf(Bytes peakBytes, double percent) {
  // Thousandths of a percent are exact, so that 70 % of a multiple of 100 is not one byte more.
  const __int128 thousandths = static_cast<__int128>(std::llround(percent * 1000));
  return static_cast<Bytes>((static_cast<__int128>(peakBytes) * thousandths + 99999) / 100000);
}

class Planner::Impl {
public:
  Impl(const Problem &given, PlanOptions planOptions)
      : problem(given), options(std::move(planOptions)), core((check(given), given)), bound(core) {
    base.push_back(core.inputOrder());
    inputPeak = measure(core, base[0]).peakBytes;
    leanInputOrder();
    addPoint(base[0]);
    searchOrders();
  }

  Bytes inputOrderPeak() const { return inputPeak; }

  PlanResult plan(Bytes budget) {
    PlanResult result;
    result.budgetBytes = budget;
    result.leastTime = core.leastTime;
    result.inputOrderPeak = inputPeak;
    bound.refine(budget, cutOps());
    if (core.ops.size() <= options.ladderLimit)
      descend(budget);
    else
      solveDirectly(budget);
    // Nothing fits: the smallest peak of a whole sweep either does, or belongs into the answer.
    if (!bestWithin(budget) && core.ops.size() > options.ladderLimit && !cancelled())
      sweepEverything();
    if (options.prove)
      prove(result, budget);
    fill(result, bestWithin(budget), budget);
    return result;
  }

  std::vector<FrontierRow> frontier() {
    std::vector<FrontierRow> rows;
    if (core.ops.size() <= options.ladderLimit) {
      descend(0);
    } else {
      sweepEverything();
    }
    for (const Point &point : points)
      rows.push_back({point.peak, point.time, point.solution});
    return rows;
  }

private:
  /// One schedule on the frontier, with the replay's figures.
  struct Point {
    Bytes peak = 0;
    Cost time = 0;
    Solution solution;
    Sequence sequence;
  };

  int cutOps() const { return core.ops.size() > 5000 ? 12 : 32; }
  bool cancelled() const { return options.cancelled && options.cancelled(); }

  /// With alternatives, search plans with the leanest workspace; `expand` then takes the fastest
  /// alternative that fits at each position.
  void leanInputOrder() {
    if (core.hasAlternatives)
      core.useLeanestAlternatives(problem);
  }

  /// Records a legal sequence on the frontier. Points are sorted by falling peak, rising time.
  void addPoint(Sequence sequence, std::optional<Bytes> budget = {}) {
    Solution solution = expand(problem, core, sequence, budget.value_or(inputPeak));
    Replay replay = verify(problem, solution);
    if (replay.fault)
      return;
    Point point{replay.peakBytes, replay.time, std::move(solution), std::move(sequence)};
    for (const Point &other : points)
      if (other.peak <= point.peak && other.time <= point.time)
        return;
    std::erase_if(points, [&](const Point &other) {
      return point.peak <= other.peak && point.time <= other.time;
    });
    auto place = std::find_if(points.begin(), points.end(),
                              [&](const Point &other) { return other.peak < point.peak; });
    points.insert(place, std::move(point));
  }

  const Point *bestWithin(Bytes budget) const {
    for (const Point &point : points) // falling peak, rising time: the first that fits
      if (point.peak <= budget)
        return &point;
    return nullptr;
  }

  void searchOrders() {
    if (options.effort <= 0 || core.ops.empty())
      return;
    Bytes least = bound.peakBound();
    for (int32_t op : bound.opsByPressure())
      least = std::max(least, bound.pressure(op));
    // Large graphs: not worth the search for less than two percent.
    const Bytes worthwhile = core.ops.size() > options.ladderLimit ? least / 50 : 0;
    if (measure(core, base[0]).peakBytes <= least + worthwhile)
      return;
    OrderOptions order;
    order.targetBytes = least;
    order.moves = static_cast<int64_t>(options.effort * (core.ops.size() > 5000 ? 40000 : 150000));
    order.cancelled = options.cancelled;
    Sequence better = searchOrder(core, base[0], order);
    if (measure(core, better).peakBytes < measure(core, base[0]).peakBytes) {
      addPoint(better);
      base.push_back(std::move(better));
    }
  }

  // -- one budget

  /// How a cut schedule is made: borders that reruns do not cross, as a multiple of the square root
  /// of the ops in front of the peak (0: none), and the bias of SequenceCut::solve.
  struct CutStyle {
    double segments, bias;
  };

  /// Styles for one rung. Small problems afford all on every rung; larger ones take turns.
  std::vector<CutStyle> stylesFor(int turn) const {
    static constexpr CutStyle all[] = {{0, 0.3},   {0.18, 0.3},  {0.5, 0.3},  {1, 0.3},
                                       {0, 0.02},  {0.12, 0.3},  {0.25, 0.3}, {0.35, 0.3},
                                       {0, 0.001}, {0.18, 0.02}, {0.5, 4},    {0.12, 4}};
    std::vector<CutStyle> styles(std::begin(all), std::end(all));
    if (core.ops.size() > 400 && core.ops.size() <= options.ladderLimit)
      styles = {all[0], all[1], all[2 + turn % 10]};
    return styles;
  }

  const std::vector<char> *barsFor(size_t baseIndex, double segments) {
    if (segments <= 0)
      return nullptr;
    auto key = std::pair(baseIndex, segments);
    auto found = bars.find(key);
    if (found == bars.end()) {
      double root = std::sqrt(static_cast<double>(measure(core, base[baseIndex]).peakPosition + 1));
      int count = std::max(2, static_cast<int>(std::lround(segments * root)));
      found = bars.emplace(key, segmentBars(core, base[baseIndex], count)).first;
    }
    return &found->second;
  }

  /// Cuts from the schedule of the rung above, and from every base; the cheapest first.
  std::vector<Sequence> cutCandidates(Bytes budget, const Sequence *above,
                                      const std::vector<CutStyle> &styles) {
    const int rounds = core.ops.size() > 500 ? 16 : 60;
    std::vector<Sequence> found;
    auto attempt = [&](const Sequence &start, double bias, const std::vector<char> *barred) {
      if (cancelled())
        return;
      if (std::optional<Sequence> reduced =
              reduceToBudget(core, start, budget, rounds, bias, barred))
        found.push_back(std::move(*reduced));
    };
    for (size_t i = 0; i < base.size(); ++i)
      for (const CutStyle &style : styles) {
        // Budgets fall from call to call: on larger graphs, a style that failed twice is given up.
        int &failures = styleFailures[{i, style.segments, style.bias}];
        if (failures >= 2 && core.ops.size() > 400)
          continue;
        const size_t before = found.size();
        attempt(base[i], style.bias, barsFor(i, style.segments));
        failures = found.size() > before ? 0 : failures + 1;
      }
    if (above)
      attempt(*above, 0.3, nullptr);
    std::vector<std::tuple<Cost, Bytes, size_t>> keys;
    for (size_t i = 0; i < found.size(); ++i) {
      Measure measured = measure(core, found[i]);
      keys.push_back({measured.time, measured.peakBytes, i});
    }
    std::sort(keys.begin(), keys.end());
    std::vector<Sequence> sorted;
    const size_t dropped = core.ops.size() > 10000 ? 1 : 3;
    for (const auto &[time, peak, i] : keys)
      sorted.push_back(sorted.size() < dropped
                           ? dropNeedlessReruns(core, std::move(found[i]), budget, dropLimit())
                           : std::move(found[i]));
    // Dropping may have changed who is first.
    for (size_t i = 1; i < std::min<size_t>(sorted.size(), 3); ++i)
      if (measure(core, sorted[i]).time < measure(core, sorted[0]).time)
        std::swap(sorted[0], sorted[i]);
    return sorted;
  }

  int dropLimit() const {
    return static_cast<int>(
        std::clamp<int64_t>(4000000 / (static_cast<int64_t>(core.ops.size()) + 1), 20, 400));
  }

  int64_t rungMoves() const {
    double perRung =
        (core.ops.size() > 400 ? 5.0e6 : 8.0e6) / static_cast<double>(core.ops.size() + 40);
    return static_cast<int64_t>(options.effort * std::clamp(perRung, 4000.0, 80000.0));
  }

  /// Search from the given schedule and from the best base, with a soft and a hard budget.
  void searchAt(Bytes budget, const Sequence *start, int64_t moves) {
    struct Variant {
      bool fromBase;
      double price, warmth, cooling, hardening;
    };
    static constexpr Variant variants[] = {{false, 1.0, 1.0, 1e-3, 10},
                                           {true, 1.0, 1.0, 1e-3, 10},
                                           {false, 0.5, 0.3, 1e-5, 3},
                                           {false, 2.0, 0.05, 1e-4, 10}};
    const double price = std::ldexp(bound.priceAt(budget), -bound.shift());
    std::optional<Sequence> current;
    if (const Point *best = bestWithin(budget))
      current = best->sequence;
    else if (start)
      current = *start;
    uint64_t seed = 4 * static_cast<uint64_t>(nextRung) + 1;
    // A short search is not worth splitting: it takes one variant, in turn.
    const bool split = moves >= 12000;
    for (size_t v = 0; v < std::size(variants); ++v) {
      const Variant &variant = variants[v];
      if (!split && v != static_cast<size_t>(nextRung) % std::size(variants))
        continue;
      if (cancelled() || provenAt(budget))
        return;
      SearchOptions search;
      search.budgetBytes = budget;
      search.pricePerByte = price * variant.price;
      // Long fine-grained searches pay on larger graphs, restarts on small ones.
      static constexpr int64_t smallShares[] = {25, 25, 25, 25}, largeShares[] = {15, 10, 65, 10};
      const int64_t share = core.ops.size() > 150 ? largeShares[v] : smallShares[v];
      search.moves = split ? moves * share / 100 : moves;
      search.seed = seed++;
      search.warmth = variant.warmth;
      search.cooling = variant.cooling;
      search.hardening = variant.hardening;
      search.cancelled = options.cancelled;
      SearchResult found =
          improve(core, variant.fromBase || !current ? base.back() : *current, search);
      addPoint(found.sequence, budget);
      if (found.measured.peakBytes <= budget &&
          (!current || found.measured.time <= measure(core, *current).time))
        current = std::move(found.sequence);
    }
  }

  bool provenAt(Bytes budget) const {
    const Point *best = bestWithin(budget);
    std::optional<Cost> least = bound.timeBound(budget);
    return best && least && best->time <= *least;
  }

  // -- the ladder

  Bytes rung(int percent) const { return percentOf(inputPeak, percent); }

  /// Computes rungs from the top down until nothing below can serve `budget`.
  void descend(Bytes budget) {
    if (!swept && budget < inputPeak) {
      swept = true;
      for (const Sequence &start : base)
        for (FrontierPoint &point : sweepPrices(core, start, 24))
          addPoint(std::move(point.sequence));
    }
    for (; nextRung > 0 && !cancelled(); --nextRung) {
      const Bytes here = rung(nextRung);
      bound.refine(here, 4);
      std::optional<Cost> least = bound.timeBound(here);
      if (!least)
        break; // proven infeasible, and so is everything below
      const Point *best = bestWithin(budget);
      if (here <= budget && best && best->time <= *least)
        break;
      solveRung(here);
    }
  }

  void solveRung(Bytes budget) {
    if (provenAt(budget))
      return;
    const Point *inherited = bestWithin(budget);
    // If the best schedule for more memory fits here too, a search found nothing better before.
    if (inherited && inherited == bestWithin(rung(nextRung + 1)) && nextRung < 100)
      return;
    // Start from the schedule that just misses the budget.
    const Sequence *start = nullptr;
    for (const Point &point : points)
      if (point.peak > budget)
        start = &point.sequence;
    Sequence above;
    if (start) {
      above = *start; // points move while rungs are added
      start = &above;
    }
    std::vector<Sequence> candidates = cutCandidates(budget, start, stylesFor(nextRung));
    std::optional<Sequence> best;
    if (!candidates.empty())
      best = candidates.front();
    for (Sequence &candidate : candidates)
      addPoint(std::move(candidate), budget);
    if (options.effort > 0)
      searchAt(budget, best ? &*best : nullptr, rungMoves());
  }

  /// One cut at the peak per price and number of segments: the whole range of budgets in one sweep.
  void sweepEverything() {
    if (sweptEverything)
      return;
    sweptEverything = true;
    std::vector<FrontierPoint> cuts;
    for (size_t i = 0; i < base.size(); ++i)
      for (double segments : {0.0, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0})
        for (FrontierPoint &point : sweepPrices(core, base[i], 64, barsFor(i, segments)))
          cuts.push_back(std::move(point));
    std::sort(cuts.begin(), cuts.end(), [](const FrontierPoint &a, const FrontierPoint &b) {
      return std::tie(a.time, a.peakBytes, a.sequence) < std::tie(b.time, b.peakBytes, b.sequence);
    });
    Bytes least = inputPeak + 1;
    for (FrontierPoint &point : cuts)
      if (point.peakBytes < least) {
        least = point.peakBytes;
        addPoint(std::move(point.sequence));
      }
  }

  // -- without a ladder

  /// The budget itself, then whole percents below it while the bound leaves them open: a cut for
  /// less memory is sometimes cheaper.
  void solveDirectly(Bytes budget) {
    styleFailures.clear(); // budgets fall within one call only
    int percent = 100;
    while (percent > 0 && rung(percent) >= budget)
      --percent;
    for (int tried = 0; tried < 6 && !cancelled(); ++tried, --percent) {
      const Bytes here = tried ? rung(percent + 1) : budget;
      if (here <= 0)
        return;
      if (tried)
        bound.refine(here, 2);
      std::optional<Cost> least = bound.timeBound(here);
      const Point *best = bestWithin(budget);
      if (!least || (best && best->time <= *least))
        return;
      std::vector<CutStyle> styles = stylesFor(0);
      if (tried)
        styles.resize(4);
      std::vector<Sequence> candidates = cutCandidates(here, nullptr, styles);
      for (const Sequence &candidate : candidates)
        addPoint(candidate, here);
      if (tried == 0 && options.effort > 0 && !candidates.empty())
        searchAt(here, &candidates.front(), rungMoves());
    }
  }

  /// Phase programs of rising size until one proves the schedule at hand. Their replays, with
  /// reruns delayed to their readers, may start a better one.
  void prove(PlanResult &result, Bytes budget) {
    if (!bound.timeBound(budget) || core.ops.empty())
      return;
    const int32_t highest = bound.opsByPressure().front();
    const int32_t binding = bound.bindingOp(budget).value_or(highest);
    const std::pair<int, int32_t> programs[] = {
        {1, binding}, {8, binding}, {8, highest}, {24, std::min(binding, highest)}};
    for (auto [phases, first] : programs) {
      const Point *best = bestWithin(budget);
      if (cancelled() || phaseInfeasible || (best && isMet(best->time, result.phaseBound)))
        return;
      PhaseOptions phase;
      phase.phases = phases;
      phase.seconds = options.proveSeconds / std::size(programs);
      if (best)
        phase.knownTime = best->time;
      PhaseResult solved = solvePhaseProgram(core, first, budget, phase);
      phaseInfeasible = solved.infeasible && !best;
      if (solved.bound)
        result.phaseBound = std::max(result.phaseBound.value_or(0), *solved.bound);
      if (!solved.sequence)
        continue;
      Sequence replay = delayReruns(core, *solved.sequence);
      if (!measure(core, replay).legal)
        continue;
      addPoint(replay, budget);
      best = bestWithin(budget);
      if (!best || !isMet(best->time, result.phaseBound))
        searchAt(budget, &replay, rungMoves());
    }
  }

  /// The phase program is solved in floating point: its bound is exact up to 1e-7 of the extra
  /// time.
  bool isMet(Cost time, std::optional<Cost> least) const {
    return least &&
           static_cast<double>(time - *least) <= 1e-7 * static_cast<double>(time - core.leastTime);
  }

  void fill(PlanResult &result, const Point *best, Bytes budget) {
    result.peakBound = bound.peakBound();
    result.cutBound = bound.timeBound(budget);
    if (!points.empty()) {
      result.smallestPeak = points.back().peak;
      result.smallestPeakSolution = points.back().solution;
    }
    if (!best) {
      result.status = result.cutBound && !phaseInfeasible ? Status::NotFound : Status::Infeasible;
      return;
    }
    result.solution = best->solution;
    result.time = best->time;
    result.peakBytes = best->peak;
    const Cost least = result.bound();
    result.gap = least > 0 ? static_cast<double>(best->time) / static_cast<double>(least) - 1 : 0;
    result.status = best->time <= least || isMet(best->time, result.phaseBound) ? Status::Optimal
                                                                                : Status::Bounded;
  }

  const Problem problem;
  const PlanOptions options;
  Core core;
  CutBound bound;
  Bytes inputPeak = 0;
  std::vector<Sequence> base;
  std::vector<Point> points;
  std::map<std::pair<size_t, double>, std::vector<char>> bars;
  std::map<std::tuple<size_t, double, double>, int> styleFailures;
  int nextRung = 100;
  bool swept = false, sweptEverything = false;
  bool phaseInfeasible = false;
};

Planner::Planner(const Problem &problem, PlanOptions options)
    : impl(std::make_unique<Impl>(problem, std::move(options))) {}
Planner::~Planner() = default;

PlanResult Planner::plan(Bytes budgetBytes) { return impl->plan(budgetBytes); }
std::vector<FrontierRow> Planner::frontier() { return impl->frontier(); }
Bytes Planner::inputOrderPeak() const { return impl->inputOrderPeak(); }

PlanResult planSchedule(const Problem &problem, Bytes budgetBytes, const PlanOptions &options) {
  return Planner(problem, options).plan(budgetBytes);
}

} // namespace stow::schedule
