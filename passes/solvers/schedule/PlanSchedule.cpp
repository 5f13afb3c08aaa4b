#include "passes/solvers/schedule/PlanSchedule.h"

#include "passes/solvers/schedule/Descent.h"
#include "passes/solvers/schedule/bounds/BranchAndBound.h"
#include "passes/solvers/schedule/bounds/CutBound.h"
#include "passes/solvers/schedule/proofs/PhaseProgram.h"
#include "passes/solvers/schedule/proofs/PhaseProof.h"
#include "passes/solvers/schedule/search/BudgetSolver.h"
#include "passes/solvers/schedule/search/OrderSearch.h"
#include "passes/solvers/schedule/search/Restore.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace stow::schedule {

Bytes percentOf(Bytes peakBytes, double percent) {
  // Thousandths of a percent are exact, so that 70 % of a multiple of 100 is not one byte more.
  constexpr __int128 perPercent = 1000, perWhole = 100 * perPercent;
  const __int128 thousandths = std::llround(percent * static_cast<double>(perPercent));
  return static_cast<Bytes>((static_cast<__int128>(peakBytes) * thousandths + perWhole - 1) /
                            perWhole);
}

namespace {

PlanOptions withWholeEffort(PlanOptions options) {
  if (options.effort > 1)
    options.effort = std::exp2(std::floor(std::log2(options.effort)));
  return options;
}

/// What a node deserves of the usual work, less the finer it is: what is known for a little more
/// memory is close to its answer then.
double workDueTo(int node) {
  constexpr double ofTens = 1, ofFives = 0.5, ofOthers = 0.3;
  return node % 40 == 0 ? ofTens : node % 20 == 0 ? ofFives : ofOthers;
}

/// Work of branching for a bound that is printed or decides whether a budget is looked at.
constexpr int64_t kFinalBranchWork = 4'000'000;

/// Of what is left for a walk (Descent::work) a node gets what it deserves, but at most a third: most budgets
/// are three nodes away, and no number of nodes takes more than a walk's.
double workOf(int node, double left) { return std::min(workDueTo(node), left / 3); }

} // namespace

class Planner::Impl {
public:
  /// `share`: of the work, where several planners answer together. `scalePeak`: 100 % of the nodes,
  /// the peak of the input order if absent.
  explicit Impl(const Problem &given, PlanOptions planOptions, double share = 1,
                std::optional<Bytes> scalePeak = {})
      : problem(given), options(withWholeEffort(std::move(planOptions))),
        graph((check(given), given)), share(share),
        effort(graph.ops.size(), options.effort, share - shareOfCopies()), bound(graph),
        solver(problem, graph, options, effort) {
    const Sequence order = graph.inputOrder();
    inputPeak = measure(graph, order).peakBytes;
    grid.fullPeak = scalePeak.value_or(inputPeak);
    // With alternatives, search plans with the leanest workspace; `expand` then takes the fastest
    // alternative that fits at each position.
    if (graph.hasAlternatives)
      graph.useLeanestAlternatives(problem);
    solver.addBase(order);
    searchOrders();
    for (const Sequence &base : solver.bases())
      if (std::optional<Point> point = solver.pointOf(base, inputPeak))
        start.add(std::move(*point));
    while (grid.highest > 0 && grid.rung(grid.highest - 1) >= start.points().back().peak)
      --grid.highest;
    while (grid.lowest < grid.highest && grid.rung(grid.lowest + 1) < bound.peakBound())
      ++grid.lowest;
  }

  Bytes inputOrderPeak() const { return inputPeak; }

  FrontierRow leanestOrder() const {
    const Point &point = start.points().back();
    return {point.peak, point.time, point.solution};
  }

  PlanResult plan(Bytes budget) {
    PlanResult result;
    result.budgetBytes = budget;
    result.leastTime = graph.leastTime;
    result.inputOrderPeak = inputPeak;
    const CutBound::Proof proof = proofAt(budget);
    result.cutBound = proof.time;
    Walk walk = answer(budget, proof.time);
    auto isOpen = [&] {
      return walk.best && proof.time && walk.best->time > result.bound() &&
             !meetsPhaseBound(graph, walk.best->time, result.phaseBound);
    };
    if (isOpen())
      result.cutBound = branchedBound(budget, proof, walk.best->time, kFinalBranchWork);
    bool infeasible = false;
    if (options.prove && phaseProgramAvailable() && proof.time && !graph.ops.empty()) {
      PhaseProof phases =
          proveByPhases(graph, bound, solver,
                        {budget, proof, *result.cutBound, options.proveSeconds, options.cancelled},
                        std::move(walk.best));
      walk.best = std::move(phases.best);
      result.phaseBound = phases.bound;
      infeasible = phases.infeasible;
    }
    fill(result, walk, infeasible);
    return result;
  }

  std::optional<FrontierRow> schedule(Bytes budget, Cost most) {
    Walk walk = answer(budget, proofAt(budget).time, most);
    if (!walk.best)
      return std::nullopt;
    return FrontierRow{walk.best->peak, walk.best->time, std::move(walk.best->solution)};
  }

  FrontierRow smallestRow() {
    const Point &point = smallest();
    return {point.peak, point.time, point.solution};
  }

  Cost timeBound(Bytes budget) {
    const CutBound::Proof proof = proofAt(budget);
    return proof.time ? branchedBound(budget, proof, std::nullopt, kFinalBranchWork)
                      : graph.leastTime;
  }

  bool takesLonger(Bytes budget, Cost time) {
    if (time == kAnyTime)
      return false;
    const CutBound::Proof proof = proofAt(budget);
    return proof.time && (*proof.time > time || branchedBound(budget, proof, time + graph.costStep,
                                                              effort.branchWork()) > time);
  }

  Bytes peakBound() const { return bound.peakBound(); }

  std::vector<FrontierRow> frontier() {
    Frontier all = sweep();
    if (options.effort > 0) {
      const int step = effort.frontierNode();
      for (int node = BudgetGrid::whole - step; node > 0 && !cancelled(); node -= step) {
        const Bytes budget = grid.rung(node);
        Walk walk = answer(budget, bound.refine(budget, 4).time);
        for (const Point *point : walk.pool)
          all.add(*point);
        if (!walk.best)
          break;
      }
    }
    return rowsOf(all);
  }

  std::vector<FrontierRow> cuts() {
    Frontier all = sweep();
    for (const Point &point : start.points())
      all.add(point);
    return rowsOf(all);
  }

private:
  static std::vector<FrontierRow> rowsOf(const Frontier &frontier) {
    std::vector<FrontierRow> rows;
    for (const Point &point : frontier.points())
      rows.push_back({point.peak, point.time, point.solution});
    return rows;
  }

  /// The way to one budget: everything met that could answer it, and the answer.
  struct Walk {
    std::vector<const Point *> pool;
    std::optional<Point> best;
  };

  /// Where ops overwrite, the work is divided between this planner and that of the copies.
  double shareOfCopies() const {
    return graph.hasOverwrites ? share * Effort::shareOfCopies(graph.ops.size()) : 0;
  }
  bool cancelled() const { return options.cancelled && options.cancelled(); }

  void searchOrders() {
    if (options.effort <= 0 || graph.ops.empty())
      return;
    Bytes least = bound.peakBound();
    for (int32_t op : bound.opsByPressure())
      least = std::max(least, bound.pressure(op));
    const auto worthwhile =
        static_cast<Bytes>(effort.orderGain() * static_cast<double>(least - graph.baseBytes));
    if (inputPeak <= least + worthwhile)
      return;
    OrderOptions order;
    order.targetBytes = least;
    order.moves = effort.orderMoves();
    order.cancelled = options.cancelled;
    Sequence better = searchOrder(graph, solver.bases().front(), order);
    if (measure(graph, better).peakBytes < measure(graph, solver.bases().front()).peakBytes)
      solver.addBase(std::move(better));
  }

  CutBound::Proof proofAt(Bytes budget) { return bound.refine(budget, effort.boundOps()); }

  /// What cuts and branching prove, at the op whose cut proves most and at the one of the highest
  /// pressure; `known` is the time of a schedule.
  Cost branchedBound(Bytes budget, const CutBound::Proof &proof, std::optional<Cost> known,
                     int64_t work) const {
    BranchOptions branch;
    if (proof.op)
      branch.ops.push_back(*proof.op);
    if (const std::vector<int32_t> &ops = bound.opsByPressure(); !ops.empty() && proof.op != ops[0])
      branch.ops.push_back(ops[0]);
    branch.knownTime = known;
    branch.allowance = work;
    return std::max(*proof.time, branchedTimeBound(graph, bound, budget, branch));
  }

  const Frontier &sweep() {
    if (!swept)
      swept = solver.sweep(bound.peakBound());
    return *swept;
  }

  struct Node {
    BudgetSolver::Answer own;
    std::vector<Point> others; ///< from planners of other effort, and of the problem with copies
  };

  Descent fromTheTop() {
    std::vector<const Point *> pool;
    for (const Point &point : sweep().points())
      pool.push_back(&point);
    BudgetGrid nodes = grid;
    nodes.explodes = solver.hasExplodingReruns(); // known once swept
    nodes.coarse = nodes.explodes ? 40 : effort.smallestPeakNode();
    nodes.fine = nodes.explodes ? 4 : effort.finestNode();
    return Descent(nodes, &start.points().back(), std::move(pool));
  }

  /// Solves the next node on the way to `budget`; absent if there is none of at least `least`. A node below that
  /// takes too long is passed by.
  std::optional<Descent::Step> next(Descent &at, int least, Bytes budget) {
    while (std::optional<int> node = at.nextNode(least)) {
      const Bytes here = at.grid.rung(*node);
      if (at.box.high->peak <= here) {
        at.to = *node;
        continue;
      }
      if (budget >= here && takesLonger(here, at.most)) {
        at.from = *node;
        at.isBounded = true;
        at.wentBelow = false;
        continue;
      }
      const Node &found = solved(*node, at);
      const bool isStep = at.part == Descent::Part::Steps;
      if (isStep)
        ++at.steps;
      else
        at.work -= workOf(*node, at.work);
      for (const Point &point : found.own.points) {
        at.ownPool.push_back(&point);
        at.pool.push_back(&point);
      }
      for (const Point &point : found.others)
        at.pool.push_back(&point);
      const Descent::Step step = {*node, at.box.choose(at.pool, here),
                                  at.own.choose(at.ownPool, here), &found.own.failures};
      if (step.best || !at.shortenStep())
        return step;
    }
    return std::nullopt;
  }

  Walk answer(Bytes budget, std::optional<Cost> least, Cost most = kAnyTime) {
    if (const Point *fits = start.within(budget))
      return {{fits}, *fits};
    Descent at = fromTheTop();
    at.most = most;
    if (!least)
      return {std::move(at.pool), std::nullopt};
    // Until solved for this very budget, or proven.
    const auto isDone = [&] {
      const bool isSolved =
          at.grid.rung(at.from) == budget && (at.box.low || at.part != Descent::Part::Tree);
      return isSolved || (at.box.low && at.box.low->time <= *least);
    };
    while (!isDone()) {
      std::optional<Descent::Step> step = next(at, at.grid.fine, budget);
      if (!step ||
          (at.part != Descent::Part::Tree && !step->best && budget < at.grid.rung(step->node)))
        break;
      if (budget >= at.grid.rung(step->node) || !step->best) {
        at.goAbove(*step);
        continue;
      }
      at.goBelow(*step);
      if (at.box.high->peak <= budget)
        return {std::move(at.pool), *at.box.high};
    }
    Walk walk;
    if (const Point *best = at.box.choose(at.pool, budget))
      walk.best = *best;
    else // what was refused is not on the frontier either
      std::erase_if(at.pool, [least = std::max(at.box.refused, budget)](const Point *point) {
        return point->peak <= least;
      });
    walk.pool = std::move(at.pool);
    return walk;
  }

  /// The smallest peak that any budget is answered with: the way down the tree that turns up only
  /// where nothing is found.
  const Point &smallest() {
    if (lowestPeak)
      return *lowestPeak;
    Descent at = fromTheTop();
    while (std::optional<Descent::Step> step = next(at, at.grid.coarse, 0))
      if (step->best)
        at.goBelow(*step);
      else
        at.goAbove(*step);
    lowestPeak = at.box.high;
    for (const Point *point : at.pool)
      if (point->peak > at.box.refused && point->time >= at.box.high->time &&
          std::tie(point->peak, point->time) < std::tie(lowestPeak->peak, lowestPeak->time))
        lowestPeak = point;
    return *lowestPeak;
  }

  /// What is found at a node. The way to it follows from the node and the most time, so these are the key.
  const Node &solved(int node, const Descent &at) {
    const bool isStep = at.part == Descent::Part::Steps;
    auto &[nodes, steps] = trees[at.most];
    auto [known, isNew] = isStep ? steps.try_emplace(at.steps) : nodes.try_emplace(node);
    if (!isNew)
      return known->second;
    Node &found = known->second;
    BudgetSolver::Task task;
    task.budget = grid.rung(node);
    const CutBound::Proof proof = bound.refine(task.budget, 4);
    if (!proof.time || (at.box.low && at.box.low->time <= *proof.time))
      return found;
    task.least = proof.time;
    task.pricePerByte = std::ldexp(proof.price, -bound.shift());
    task.seed = static_cast<uint64_t>(node);
    task.work = isStep ? workDueTo(node) : workOf(node, at.work);
    task.above = at.own.high;
    task.below = at.own.low;
    task.failures = at.failures;
    task.closerBound = [&](Cost known) {
      return branchedBound(task.budget, proof, known, effort.branchWork());
    };
    found.own = solver.solve(task);
    addFromLessEffort(task, at.most, found);
    addFromCopies(task, at.most, found);
    return found;
  }

  /// True if a point at the node is known to be optimal.
  static bool isSettled(const BudgetSolver::Task &task, const Node &node, Cost least) {
    auto settles = [&](const Point &point) {
      return point.peak <= task.budget && point.time <= least;
    };
    return std::ranges::any_of(node.own.points, settles) ||
           std::ranges::any_of(node.others, settles);
  }

  /// What half the effort answers. Longer searches are better on the whole, not every time.
  void addFromLessEffort(const BudgetSolver::Task &task, Cost most, Node &node) {
    if (options.effort <= 1 || cancelled() || isSettled(task, node, *task.least))
      return;
    if (!withLessEffort) {
      PlanOptions less = options;
      less.effort /= 2;
      withLessEffort = std::make_unique<Impl>(problem, less, share);
    }
    Walk walk = withLessEffort->answer(task.budget, task.least, most);
    if (walk.best)
      node.others.push_back(std::move(*walk.best));
  }

  /// What the same problem with copies in place of overwrites is answered with, made legal here. It
  /// may be the same schedule, found from another side.
  void addFromCopies(const BudgetSolver::Task &task, Cost most, Node &node) {
    if (shareOfCopies() <= 0 || options.effort <= 0 || cancelled())
      return;
    if (!copies)
      copies = std::make_unique<Impl>(withoutOverwrites(problem), options, shareOfCopies(),
                                      grid.fullPeak);
    const std::optional<Cost> least = copies->bound.refine(task.budget, 4).time;
    if (!least || isSettled(task, node, std::max(*least, *task.least)))
      return;
    const Walk walk = copies->answer(task.budget, least, most);
    if (!walk.best)
      return;
    const std::optional<Sequence> restored = restoreOverwritten(
        graph, graph.sequenceOf(walk.best->solution), 2 * walk.best->solution.runs.size());
    if (!restored || !measure(graph, *restored).legal)
      return;
    for (Point &point : solver.repair(*restored, task.budget))
      node.others.push_back(std::move(point));
  }

  void fill(PlanResult &result, Walk &walk, bool infeasible) {
    result.peakBound = bound.peakBound();
    if (!walk.best) {
      result.smallestPeak = smallest().peak;
      result.smallestPeakSolution = smallest().solution;
      result.status = result.cutBound && !infeasible ? Status::NotFound : Status::Infeasible;
      return;
    }
    result.time = walk.best->time;
    result.peakBytes = walk.best->peak;
    result.solution = std::move(walk.best->solution);
    const Cost least = result.bound();
    result.gap = least > 0 ? static_cast<double>(result.time) / static_cast<double>(least) - 1 : 0;
    result.status = result.time <= least || meetsPhaseBound(graph, result.time, result.phaseBound)
                        ? Status::Optimal
                        : Status::Bounded;
  }

  const Problem problem;
  const PlanOptions options;
  Graph graph;
  const double share; ///< of the work of an answer
  const Effort effort;
  CutBound bound;
  BudgetSolver solver;
  std::unique_ptr<Impl> withLessEffort; ///< made when needed, as is the next
  std::unique_ptr<Impl> copies;         ///< of the problem without overwrites
  Bytes inputPeak = 0;
  BudgetGrid grid;
  Frontier start;                    ///< orders without reruns
  std::optional<Frontier> swept;     ///< of all prices, from every order
  const Point *lowestPeak = nullptr; ///< of all answers, that with the smallest peak
  struct Tree {
    std::map<size_t, Node> nodes, steps;
  };
  std::map<Cost, Tree> trees; ///< by the most time that is of use
};

Planner::Planner(const Problem &problem, PlanOptions options)
    : impl(std::make_unique<Impl>(problem, std::move(options))) {}
Planner::~Planner() = default;

PlanResult Planner::plan(Bytes budgetBytes) { return impl->plan(budgetBytes); }
std::optional<FrontierRow> Planner::schedule(Bytes budgetBytes, Cost most) {
  return impl->schedule(budgetBytes, most);
}
FrontierRow Planner::smallest() { return impl->smallestRow(); }
Cost Planner::timeBound(Bytes budgetBytes) { return impl->timeBound(budgetBytes); }
bool Planner::takesLonger(Bytes budgetBytes, Cost time) {
  return impl->takesLonger(budgetBytes, time);
}
Bytes Planner::peakBound() const { return impl->peakBound(); }
std::vector<FrontierRow> Planner::frontier() { return impl->frontier(); }
std::vector<FrontierRow> Planner::cuts() { return impl->cuts(); }
Bytes Planner::inputOrderPeak() const { return impl->inputOrderPeak(); }
FrontierRow Planner::leanestOrder() const { return impl->leanestOrder(); }

PlanResult planSchedule(const Problem &problem, Bytes budgetBytes, const PlanOptions &options) {
  return Planner(problem, options).plan(budgetBytes);
}

} // namespace stow::schedule
