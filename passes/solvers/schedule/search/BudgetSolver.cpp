#include "passes/solvers/schedule/search/BudgetSolver.h"

#include "ir/plan/schedule/Verify.h"
#include "passes/solvers/schedule/search/Eviction.h"
#include "passes/solvers/schedule/search/OrderSearch.h"
#include "passes/solvers/schedule/search/Segments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

namespace stow::schedule {

void Frontier::add(Point point) {
  for (const Point &other : list)
    if (other.peak <= point.peak && other.time <= point.time)
      return;
  std::erase_if(list, [&](const Point &other) {
    return point.peak <= other.peak && point.time <= other.time;
  });
  auto place = std::find_if(list.begin(), list.end(),
                            [&](const Point &other) { return other.peak < point.peak; });
  list.insert(place, std::move(point));
}

const Point *Frontier::within(Bytes budget) const {
  for (const Point &point : list) // falling peak, rising time: the first that fits
    if (point.peak <= budget)
      return &point;
  return nullptr;
}

BudgetSolver::BudgetSolver(const Problem &problem, const Graph &graph, const PlanOptions &options,
                           const Effort &effort)
    : problem(problem), graph(graph), options(options), effort(effort) {}

/// Where reruns explode cuts come to little.
int64_t BudgetSolver::cutWork(int64_t usual, double share) const {
  constexpr int64_t little = 2'000'000;
  return static_cast<int64_t>(share * static_cast<double>(explodes ? little : usual));
}

void BudgetSolver::addBase(Sequence order) { orders.push_back(std::move(order)); }

std::optional<Point> BudgetSolver::pointOf(Sequence sequence, Bytes budget) const {
  Solution solution = expand(problem, graph, sequence, budget);
  Replay replay = verify(problem, solution);
  if (replay.fault)
    return std::nullopt;
  return Point{replay.peakBytes, replay.time, std::move(solution), std::move(sequence)};
}

const std::vector<char> *BudgetSolver::barsFor(size_t base, double segments) const {
  if (segments <= 0)
    return nullptr;
  auto key = std::pair(base, segments);
  auto found = bars.find(key);
  if (found == bars.end()) {
    double root = std::sqrt(static_cast<double>(measure(graph, orders[base]).peakPosition + 1));
    int count = std::max(2, static_cast<int>(std::lround(segments * root)));
    found = bars.emplace(key, segmentBars(graph, orders[base], count)).first;
  }
  return &found->second;
}

/// Borders that reruns do not cross, as a multiple of the square root of the ops in front of the
/// peak (0: none), and the bias of SequenceCut::solve. On larger graphs not all get their turn, so
/// that those whose sweep is cheapest at this budget come first.
std::vector<BudgetSolver::CutStyle> BudgetSolver::stylesFor(Bytes budget) const {
  constexpr CutStyle all[] = {{0, 0.3},   {0.18, 0.3},  {0.5, 0.3},  {1, 0.3},
                              {0, 0.02},  {0.12, 0.3},  {0.25, 0.3}, {0.35, 0.3},
                              {0, 0.001}, {0.18, 0.02}, {0.5, 4},    {0.12, 4}};
  std::vector<CutStyle> styles(std::begin(all), std::end(all));
  for (size_t i = 0; i < styles.size(); ++i)
    styles[i].index = i;
  auto cost = [&](const CutStyle &style) {
    Cost least = std::numeric_limits<Cost>::max();
    for (const SweptStyle &swept : sweptStyles)
      if (swept.segments == style.segments)
        for (auto [peak, time] : swept.points)
          if (peak <= budget)
            least = std::min(least, time);
    return least;
  };
  std::vector<std::pair<Cost, size_t>> order;
  for (size_t i = 0; i < styles.size(); ++i)
    order.push_back({cost(styles[i]), i});
  std::sort(order.begin(), order.end());
  std::vector<CutStyle> sorted;
  for (auto [time, i] : order)
    sorted.push_back(styles[i]);
  return sorted;
}

/// Cuts from the schedule above, and from every base in every style until the work allowed is done.
/// The cheapest first.
std::vector<Sequence> BudgetSolver::cuts(const Task &task, std::vector<char> &failures) const {
  // On large graphs most styles fail, and the one that fits may come late; an attempt takes work
  // that grows faster than the graph.
  int64_t allowance = cutWork(effort.cutWork(), task.work);
  std::vector<Sequence> found;
  // Whether it is worth trying for less memory.
  auto attempt = [&](const Sequence &start, double bias, const std::vector<char> *barred) {
    if (cancelled() || allowance <= 0)
      return true;
    std::optional<Sequence> reduced =
        reduceToBudget(graph, start, task.budget, effort.cutRounds(), bias, barred, &allowance);
    if (reduced)
      found.push_back(std::move(*reduced));
    return reduced || allowance <= 0;
  };
  if (task.above)
    attempt(task.above->sequence, kUsualBias, nullptr);
  failures = task.failures;
  if (!explodes)
    for (const CutStyle &style : stylesFor(task.budget))
      for (size_t i = orders.size(); i-- > 0;) {
        const size_t index = style.index * orders.size() + i;
        failures.resize(std::max(failures.size(), index + 1), 0);
        if (failures[index] < 3) // a few failures may be bad luck
          failures[index] += !attempt(orders[i], style.bias, barsFor(i, style.segments));
      }
  // Where reruns must nest deeply, cuts give up or pay more than evictions.
  const size_t maxRuns = 3 * graph.ops.size() + 64;
  auto toEvict = static_cast<int64_t>(task.work * static_cast<double>(effort.evictionWork()));
  for (const EvictionRule &rule : kEvictionRules) {
    if (explodes || toEvict <= 0 || cancelled())
      break;
    if (std::optional<Sequence> evicted =
            evictOnDemand(graph, orders.back(), task.budget, rule, maxRuns, &toEvict)) {
      Measure measured = measure(graph, *evicted);
      if (measured.legal && measured.peakBytes <= task.budget)
        found.push_back(std::move(*evicted));
    }
  }

  std::vector<std::tuple<Cost, Bytes, size_t>> keys;
  for (size_t i = 0; i < found.size(); ++i) {
    Measure measured = measure(graph, found[i]);
    keys.push_back({measured.time, measured.peakBytes, i});
  }
  std::sort(keys.begin(), keys.end());
  std::vector<Sequence> sorted;
  for (const auto &[time, peak, i] : keys)
    sorted.push_back(sorted.size() < effort.dropped()
                         ? dropNeedlessReruns(graph, found[i], task.budget)
                         : std::move(found[i]));
  // Dropping may have changed who is first.
  for (size_t i = 1; i < std::min<size_t>(sorted.size(), 3); ++i)
    if (measure(graph, sorted[i]).time < measure(graph, sorted[0]).time)
      std::swap(sorted[0], sorted[i]);
  return sorted;
}

/// Better orders inside windows make room below the budget everywhere, not at the peak alone, and
/// then some reruns are not needed.
void BudgetSolver::polish(const Task &task, SearchResult &result) const {
  const Bytes hopeless = task.budget + (task.budget - graph.baseBytes) / 20;
  if (effort.windowRuns() < 3 || result.measured.peakBytes > hopeless)
    return;
  Sequence better = result.sequence;
  improveAllWindows(graph, better, effort.windowRuns());
  better = dropNeedlessReruns(graph, better, task.budget);
  const Measure measured = measure(graph, better);
  if (measured.legal && measured.peakBytes <= std::max(task.budget, result.measured.peakBytes) &&
      measured.time <= result.measured.time)
    result = {std::move(better), measured};
}

namespace {

enum class From { InputOrder, Above, BestFound };

/// One local search of a budget.
struct Variant {
  From from;
  double price, warmth, cooling;
  int share;
};

// Searches differ more by where they start than by how they run, and many short ones do best;
// only where reruns explode on a large graph long ones are needed.
constexpr Variant shortSearches[] = {
    {From::Above, 1.0, 0.6, 1e-2, 20},      {From::BestFound, 0.5, 0.3, 1e-4, 20},
    {From::InputOrder, 1.0, 0.6, 1e-2, 20}, {From::BestFound, 1.0, 1.0, 1e-2, 20},
    {From::Above, 1.0, 1.0, 1e-2, 20},      {From::BestFound, 1.0, 0.3, 1e-2, 20},
    {From::InputOrder, 0.3, 1.0, 1e-1, 20}, {From::BestFound, 2.0, 0.05, 1e-4, 10}};
constexpr Variant longSearches[] = {{From::Above, 1.0, 0.3, 1e-1, 36},
                                    {From::InputOrder, 1.0, 0.3, 1e-1, 36},
                                    {From::BestFound, 0.5, 0.3, 1e-1, 36},
                                    {From::BestFound, 1.0, 0.3, 1e-1, 24}};
// These only serve where nothing fits yet: bytes get dearer and dearer.
constexpr Variant lastSearches[] = {{From::BestFound, 4.0, 1.0, 1e-3, 60},
                                    {From::BestFound, 16.0, 1.0, 1e-3, 60}};

} // namespace

void BudgetSolver::search(const Task &task, const Sequence *start,
                          std::vector<Point> &found) const {
  const std::span<const Variant> first =
      explodes ? std::span<const Variant>(longSearches) : shortSearches;
  const size_t usual = first.size();
  std::optional<Sequence> current;
  Measure best;
  if (start) {
    current = *start;
    best = measure(graph, *start);
  }
  const auto moves = task.work * static_cast<double>(effort.moves(explodes));
  uint64_t seed = 16 * task.seed;
  for (size_t v = 0; v < usual + std::size(lastSearches); ++v) {
    const Variant &variant = v < usual ? first[v] : lastSearches[v - usual];
    if (task.above && task.work < 1 && variant.from == From::InputOrder)
      continue;
    // Far from the budget after half of the usual searches, or less far after all of them: given
    // up. Networks come down from farther.
    const size_t fair = usual / 2;
    const bool isLate = v >= usual;
    const Bytes near = task.budget + (task.budget - graph.baseBytes) /
                                         (explodes ? (isLate ? 16 : 8) : (isLate ? 10 : 5));
    if ((v >= usual && best.peakBytes <= task.budget) || (v >= fair && best.peakBytes > near))
      break;
    if (cancelled() ||
        (current && best.peakBytes <= task.budget && task.least && best.time <= *task.least))
      break;
    SearchOptions search;
    search.budgetBytes = task.budget;
    search.pricePerByte = task.pricePerByte * variant.price;
    search.moves = static_cast<int64_t>(moves) * variant.share / 100;
    search.seed = ++seed;
    search.parts = explodes ? 16 : variant.from == From::BestFound ? effort.partsNearBudget() : 4;
    search.warmth = variant.warmth;
    search.cooling = variant.cooling;
    search.cancelled = options.cancelled;
    const Sequence &from = variant.from == From::InputOrder             ? orders.front()
                           : variant.from == From::BestFound && current ? *current
                           : task.above                                 ? task.above->sequence
                                                                        : orders.back();
    SearchResult result = improve(graph, from, search);
    auto key = [&](const Measure &m) {
      return std::tuple(std::max(m.peakBytes, task.budget), m.time);
    };
    const bool better = !current || key(result.measured) < key(best);
    if (better)
      polish(task, result);
    if (result.measured.peakBytes <= task.budget)
      if (std::optional<Point> point = pointOf(result.sequence, task.budget))
        found.push_back(std::move(*point));
    if (better) {
      best = result.measured;
      current = std::move(result.sequence);
    }
  }
  if (current && best.peakBytes > task.budget) // may serve a budget a little larger
    if (std::optional<Point> point = pointOf(std::move(*current), best.peakBytes))
      found.push_back(std::move(*point));
}

std::vector<Point> BudgetSolver::repair(const Sequence &start, Bytes budget) const {
  std::vector<Point> found;
  for (double bias : {kUsualBias, kLowBias, kHighBias}) {
    constexpr int rounds = 30;
    int64_t allowance = cutWork(effort.repairWork());
    std::optional<Sequence> reduced =
        reduceToBudget(graph, start, budget, rounds, bias, nullptr, &allowance);
    if (!reduced || cancelled())
      continue;
    if (std::optional<Point> point = pointOf(dropNeedlessReruns(graph, *reduced, budget), budget))
      found.push_back(std::move(*point));
    if (*reduced == start) // it fits
      break;
  }
  std::erase_if(found, [&](const Point &point) { return point.peak > budget; });
  return found;
}

BudgetSolver::Answer BudgetSolver::solve(const Task &task) const {
  Answer answer;
  std::vector<Point> &found = answer.points;
  std::vector<Sequence> candidates = cuts(task, answer.failures);
  std::optional<Sequence> start;
  if (!candidates.empty())
    start = candidates.front();
  if (task.below && (!start || task.below->time < measure(graph, *start).time))
    start = task.below->sequence;
  for (Sequence &candidate : candidates)
    if (std::optional<Point> point = pointOf(std::move(candidate), task.budget))
      found.push_back(std::move(*point));
  if (options.effort <= 0)
    return answer;
  Task closer = task;
  if (start && task.least && task.closerBound)
    if (const Cost known = measure(graph, *start).time; known > *task.least)
      closer.least = task.closerBound(known);
  search(closer, start ? &*start : nullptr, found);
  return answer;
}

Frontier BudgetSolver::sweep(Bytes peakBound) {
  const Bytes high = measure(graph, orders.front()).peakBytes;
  Frontier frontier;
  for (const Sequence &order : orders)
    if (std::optional<Point> point = pointOf(order, high))
      frontier.add(std::move(*point));
  std::vector<SweptCut> cuts;
  int64_t allowance = cutWork(effort.sweepWork());
  constexpr double lengths[] = {0.0, 0.25, 0.5, 0.12, 1.0, 0.18, 0.35, 0.06};
  for (double segments : lengths) {
    SweptStyle &style = sweptStyles.emplace_back();
    style.segments = segments;
    for (size_t i = orders.size(); i-- > 0;) {
      if (cancelled() || allowance <= 0)
        break;
      for (SweptCut &cut :
           sweepPrices(graph, orders[i], effort.prices(), barsFor(i, segments), &allowance)) {
        style.points.push_back({cut.peakBytes, cut.time});
        cuts.push_back(std::move(cut));
      }
    }
  }
  std::sort(cuts.begin(), cuts.end(), [](const SweptCut &a, const SweptCut &b) {
    return std::tie(a.time, a.peakBytes, a.sequence) < std::tie(b.time, b.peakBytes, b.sequence);
  });
  Bytes least = measure(graph, orders.back()).peakBytes;
  for (SweptCut &cut : cuts)
    if (cut.peakBytes < least) {
      least = cut.peakBytes;
      if (std::optional<Point> point = pointOf(std::move(cut.sequence), high))
        frontier.add(std::move(*point));
    }
  const Bytes best = frontier.points().front().peak, reached = frontier.points().back().peak;
  explodes = best - reached < (best - peakBound) / 2;
  return frontier;
}

} // namespace stow::schedule
