#include "passes/plan/Budget.h"

#include "ir/Stow.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/RelaxedProblem.h"
#include "passes/plan/Ladder.h"
#include "passes/plan/Origins.h"
#include "passes/plan/PackingWindow.h"
#include "passes/plan/Stages.h"
#include "passes/solvers/schedule/search/FitCapacity.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

using namespace mlir;

namespace stow {
namespace {

constexpr Bytes kAlignment = 64; // stow-pack-buffers' default

/// Steps to pack one of many candidates, about a second up to 15,000 buffers. Where they do not
/// suffice, the next candidate is a quarter of a percent smaller: that is found sooner than a
/// better packing.
constexpr int64_t kPackingWork = 500'000'000;

/// Steps to pack the step in program order, everything kept or in segments: nothing else is tried
/// for it.
const int64_t kThoroughPackingWork = PackBuffersPassOptions().work;

func::FuncOp trainGraph(ModuleOp module) {
  auto graph = findGraph(module, Role::Train);
  if (!graph)
    throw Error::internal("a module without a training graph has no budget");
  return graph;
}

bool hasSharedStorage(const schedule::Problem &problem) {
  std::vector<char> isTaken(problem.storages.size(), 0);
  return llvm::any_of(problem.values, [&](const schedule::Value &value) {
    return !problem.storages[value.storage].pinned && std::exchange(isTaken[value.storage], 1);
  });
}

OwningOpRef<ModuleOp> clone(const OwningOpRef<ModuleOp> &module) {
  return module ? cast<ModuleOp>(module.get()->clone()) : OwningOpRef<ModuleOp>();
}

schedule::Solution inFastestWays(schedule::Solution solution, const schedule::Problem &problem) {
  for (schedule::Run &run : solution.runs)
    run.alternative = schedule::cheapestAlternative(problem.ops[run.op]);
  return solution;
}

/// The one with the smaller arena, else the less time, else the first.
StepChoice &better(StepChoice &first, StepChoice &second) {
  return std::tie(second.arenaBytes, second.time) < std::tie(first.arenaBytes, first.time) ? second
                                                                                           : first;
}

} // namespace

Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes) {
  return budget.bytes ? *budget.bytes : schedule::percentOf(keepAllBytes, *budget.peakPercent);
}

class BudgetPlanner::Impl {
public:
  Impl(ModuleOp prepared, const CostModel &deviceCosts, BudgetOptions given)
      : costs(deviceCosts), effort(given.effort), withSegments(given.segments == WithSegments::Yes),
        prepared(prepared), candidates(deviceCosts, std::move(given.candidates)) {
    Origins origins;
    bound = ordered("none", &origins);
    StepProblem step = problemOf(*bound);
    opOfOrigin = opsByOrigin(step, origins);
    problem = std::move(step.problem);
    hasParts = hasSharedStorage(problem);
    planner = std::make_unique<schedule::Planner>(problem, planOptions());
    ladder.emplace(*planner);
    keepAll = inBestOrder("keep all", bound, problem, *planner);
    if (keepAll.isRefused())
      throw Error::internal("internal error: the checks refuse this step with everything kept: " +
                            describe(candidates.refusals().front()));
    stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - problem.pinnedBytes();
    for (auto graph : keepAll.placed->getOps<func::FuncOp>())
      if (roleOf(graph) != Role::Train)
        otherGraphs = std::max(otherGraphs, bytesAttr(graph, kLowerBoundAttr));
  }

  std::optional<StepChoice> plan(Bytes budget) {
    if (keepAll.arenaBytes <= budget)
      return copyOf(keepAll);
    if (budget < lowerBound())
      return std::nullopt;
    bool triedSegments = !withSegments;
    auto trySegments = [&](schedule::Cost below) {
      if (triedSegments || segments().time > below)
        return false;
      triedSegments = true;
      return segments().arenaBytes <= budget;
    };
    // Rows by rising time, and between them, where they belong by their time, the rows planned
    // again because packing overshot.
    std::vector<const StepChoice *> waiting;
    if (const StepChoice *lean = leanSegments())
      waiting.push_back(lean);
    auto takeWaiting = [&](schedule::Cost below) -> const StepChoice * {
      const StepChoice *best = nullptr;
      for (const StepChoice *candidate : waiting)
        if (candidate->arenaBytes <= budget && candidate->time < below &&
            (!best || candidate->time < best->time))
          best = candidate;
      return best;
    };
    for (int i = firstWithin(budget); i < Ladder::size && row(i); ++i) {
      const schedule::FrontierRow &row = *this->row(i);
      if (row.peakBytes + stateOutside > roundedUp(budget) && liveBytesOf(i) > budget)
        continue;
      if (const StepChoice *tightened = takeWaiting(row.time); tightened)
        return trySegments(tightened->time) ? copyOf(segments()) : copyOf(*tightened);
      if (trySegments(row.time))
        return copyOf(segments());
      if (arenaOf(i) <= budget)
        return copyOf(placedRow(i));
      if (const StepChoice *tightened = tightenedRow(i))
        waiting.push_back(tightened);
    }
    if (const StepChoice *tightened = takeWaiting(std::numeric_limits<schedule::Cost>::max()))
      return trySegments(tightened->time) ? copyOf(segments()) : copyOf(*tightened);
    if (trySegments(std::numeric_limits<schedule::Cost>::max()))
      return copyOf(segments());
    // A row planned again may take less than the peak of the row it comes from.
    return smallest().arenaBytes <= budget ? std::optional(copyOf(smallest())) : std::nullopt;
  }

  const StepChoice &smallest() {
    if (!smallestChoice)
      smallestChoice = findSmallest();
    return *smallestChoice;
  }

  Bytes leastLiveBytes() {
    const int last = ladder->last();
    return last < 0 ? keepAll.livePeakBytes : row(last)->peakBytes + stateOutside;
  }

  Bytes lowerBound() {
    return std::max(bounds().peakBound() + stateOutside - (kAlignment - 1), otherGraphs);
  }

  schedule::Cost timeBound(Bytes budget) {
    return bounds().timeBound(roundedUp(budget) - stateOutside);
  }

  double extraTimeBound(Bytes budget) {
    // Runs beyond the first of the relaxed problem's ops are such runs of every plan's, too.
    const schedule::Cost again = timeBound(budget) - (relaxedPlanner ? relaxedLeast : keepAll.time);
    const schedule::Cost once = relaxedPlanner ? timeOfAllCopied : keepAll.time;
    return static_cast<double>(std::max<schedule::Cost>(again, 0)) / static_cast<double>(once);
  }

  OwningOpRef<ModuleOp> orderedFormOf(const StepChoice &choice) const {
    OwningOpRef<ModuleOp> module = choice.method == "segments" ? ordered("sqrt") : clone(bound);
    if (choice.solution)
      applyTo(*module, *choice.solution);
    runStage(*module, "order", addSharePasses);
    return module;
  }

  const StepChoice &checkpointed() { return better(keepAll, segments()); }

  const std::vector<Refusal> &refusals() const { return candidates.refusals(); }

  StepChoice keepAll;
  schedule::Problem problem; ///< of the training graph

private:
  /// Schedules count every buffer rounded up to the alignment; an arena's highest buffer is not.
  static Bytes roundedUp(Bytes budget) { return alignUp(budget, kAlignment); }

  StepChoice findSmallest() {
    StepChoice best = copyOf(keepAll);
    if (withSegments && segments().arenaBytes < best.arenaBytes)
      best = copyOf(segments());
    if (const StepChoice *lean = leanSegments(); lean && lean->arenaBytes <= best.arenaBytes)
      best = copyOf(*lean);
    // Peaks rise from the last row on, and no arena is smaller than its peak.
    for (int i = ladder->last(); i >= 0; --i) {
      if (row(i)->peakBytes + stateOutside - (kAlignment - 1) >=
          best.arenaBytes + placementSlack(best.arenaBytes))
        break;
      if (row(i)->peakBytes + stateOutside >= best.arenaBytes && liveBytesOf(i) >= best.arenaBytes)
        continue;
      if (arenaOf(i) < best.arenaBytes)
        best = copyOf(placedRow(i));
      if (const StepChoice *tightened = tightenedRow(i))
        if (tightened->arenaBytes < best.arenaBytes)
          best = copyOf(*tightened);
    }
    return best;
  }

  const std::optional<schedule::FrontierRow> &row(int index) { return ladder->at(index); }

  bool isWithin(int index, Bytes budget) {
    return row(index) && row(index)->peakBytes + stateOutside <= asLiveBytes(budget);
  }

  /// The schedule problem takes what lies inside a concat, or in what a slice looks at, from
  /// program order. A row's own placement is decided anew and may need less than the problem says,
  /// up to 5 % on random networks, so that rows a little above a budget are looked at as well.
  Bytes placementSlack(Bytes bytes) const { return hasParts ? bytes / 20 : 0; }
  Bytes asLiveBytes(Bytes budget) const { return roundedUp(budget) + placementSlack(budget); }

  /// The first row whose live bytes are within the budget, if there is one.
  int firstWithin(Bytes budget) {
    int index = 0;
    while (index < Ladder::size && ladder->budgetOf(index) + stateOutside > asLiveBytes(budget))
      ++index;
    if (index == Ladder::size || !row(index))
      index = ladder->last() + 1;
    while (index > 0 && isWithin(index - 1, budget)) // what is for more memory may need less of it
      --index;
    return index;
  }

  /// What `table` knows of the schedule of a row. Neighbours often have the same.
  template <typename Entry> Entry *findSame(std::map<int, Entry> &table, int index) {
    for (auto &[known, entry] : table)
      if (isSame(*row(known), *row(index)))
        return &entry;
    return nullptr;
  }

  /// Live bytes of the row as it is placed: less work than its arena, and no more than that.
  Bytes liveBytesOf(int index) {
    if (const Bytes *known = findSame(liveBytesOfRow, index))
      return *known;
    OwningOpRef<ModuleOp> module = clone(bound);
    applyTo(*module, row(index)->solution);
    func::FuncOp graph = trainGraph(*module);
    placeInside(graph);
    shareInPlace(graph);
    const Liveness liveness(graph);
    return liveBytesOfRow[index] = liveness.transientPeak() + liveness.stateBytes();
  }

  Bytes arenaOf(int index) {
    if (const Bytes *known = findSame(arenaOfRow, index))
      return *known;
    return arenaOfRow[index] = placedRow(index).arenaBytes;
  }

  /// The row rewritten, packed and verified. The last one is kept: its arena is asked for first,
  /// then, as that decides, the row itself or what to do better.
  const StepChoice &placedRow(int index) {
    if (!lastPlaced || lastPlaced->first != index)
      lastPlaced.emplace(index, scheduled(row(index)->solution));
    return lastPlaced->second;
  }

  static bool isSame(const schedule::FrontierRow &left, const schedule::FrontierRow &right) {
    return left.peakBytes == right.peakBytes && left.time == right.time &&
           left.solution == right.solution;
  }

  /// The row with its windows tightened until its arena is no larger than its sum of live bytes, or
  /// null where that fails. Does not depend on any budget.
  const StepChoice *tightenedRow(int index) {
    if (const std::optional<StepChoice> *known = findSame(tightened, index))
      return *known ? &**known : nullptr;
    std::optional<StepChoice> &found = tightened[index];
    constexpr int kRounds = 3;
    const schedule::FrontierRow &row = *this->row(index);
    const Bytes target = row.peakBytes + stateOutside;
    schedule::Capacity capacity = {row.peakBytes, {}};
    schedule::Solution solution = row.solution;
    for (int round = 0; round < kRounds; ++round) {
      StepChoice choice = round == 0 ? copyOf(placedRow(index)) : scheduled(solution);
      if (choice.isRefused())
        break;
      if (choice.arenaBytes <= target) {
        // A faster plan here would have been on the frontier but for luck; rows come first.
        if (round > 0 && choice.time >= row.time)
          found = std::move(choice);
        break;
      }
      llvm::append_range(capacity.windows,
                         windowsAbove(*choice.placed, choice.firstRuns, target,
                                      alignUp(choice.arenaBytes - target, kAlignment)));
      auto fitted = schedule::fitCapacity(problem, solution, capacity);
      if (!fitted)
        break;
      solution = std::move(*fitted);
    }
    return found ? &*found : nullptr;
  }

  schedule::PlanOptions planOptions() const {
    schedule::PlanOptions options;
    options.effort = effort;
    return options;
  }

  StepProblem problemOf(ModuleOp module) const {
    return buildStepProblem(trainGraph(module), costs, kAlignment);
  }

  /// Returns what the module was scheduled by.
  StepProblem applyTo(ModuleOp module, const schedule::Solution &solution) const {
    StepProblem step = problemOf(module);
    applySchedule(trainGraph(module), step, solution);
    return step;
  }

  /// The prepared step, or its segments, with state bound.
  OwningOpRef<ModuleOp> withStateBound(const std::string &checkpoint,
                                       Origins *origins = nullptr) const {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
    numberOps(trainGraph(*module));
    runStage(*module, "order", [&](PassManager &manager) { addBindPasses(manager, checkpoint); });
    Origins taken = takeNumbers(trainGraph(*module));
    if (origins)
      *origins = std::move(taken);
    return module;
  }

  /// The same as schedule problems are read off it.
  OwningOpRef<ModuleOp> ordered(const std::string &checkpoint, Origins *origins = nullptr) const {
    OwningOpRef<ModuleOp> module = withStateBound(checkpoint, origins);
    runStage(*module, "order",
             [&](PassManager &manager) { manager.addPass(createPlaceInsidePass()); });
    return module;
  }

  /// What bounds are asked of: the planner itself where nothing can be placed inside anything, else
  /// one of the problem that holds for every placement.
  schedule::Planner &bounds() {
    if (!boundsAreBuilt) {
      boundsAreBuilt = true;
      OwningOpRef<ModuleOp> module = withStateBound("none");
      if (auto relaxed = buildRelaxedProblem(trainGraph(*module), costs, kAlignment)) {
        schedule::PlanOptions options;
        options.effort = 0; // schedules are not asked for
        relaxedPlanner = std::make_unique<schedule::Planner>(*relaxed, options);
        relaxedLeast = relaxed->leastTime();
        timeOfAllCopied = costs.timeOf(trainGraph(*module)).total();
      }
    }
    return relaxedPlanner ? *relaxedPlanner : *planner;
  }

  /// `module` as it is, or reordered by the best order that `orders`, the planner of its `problem`,
  /// found; every op runs in its fastest way.
  StepChoice inBestOrder(const char *method, const OwningOpRef<ModuleOp> &module,
                         const schedule::Problem &problem, const schedule::Planner &orders) {
    StepChoice asGiven = candidates.make(method, clone(module), kThoroughPackingWork);
    const schedule::FrontierRow leanest = orders.leanestOrder();
    if (leanest.peakBytes >= orders.inputOrderPeak())
      return asGiven;
    StepChoice reordered = scheduled(method, module, inFastestWays(leanest.solution, problem));
    return std::move(better(asGiven, reordered));
  }

  StepChoice &segments() {
    if (!segmentChoice) {
      Origins origins;
      OwningOpRef<ModuleOp> module = ordered("sqrt", &origins);
      const StepProblem step = problemOf(*module);
      const schedule::Planner orders(step.problem, planOptions());
      segmentChoice = inBestOrder("segments", module, step.problem, orders);
      segmentRuns = readBack(problem, opOfOrigin, step, origins, segmentChoice->solution);
    }
    return *segmentChoice;
  }

  /// The segments without the reruns that their peak does not need, or null where it needs all.
  const StepChoice *leanSegments() {
    if (!leanIsKnown && withSegments) {
      leanIsKnown = true;
      const StepChoice &bare = segments();
      const schedule::Replay replay =
          segmentRuns ? schedule::verify(problem, *segmentRuns) : schedule::Replay{"", 0, 0, 0, {}};
      if (replay.fault)
        return nullptr;
      schedule::Capacity capacity = {replay.peakBytes, {}};
      constexpr int kRounds = 4;
      for (int round = 0; round < kRounds && !leanChoice; ++round) {
        auto lean = schedule::fitCapacity(problem, *segmentRuns, capacity);
        if (!lean || schedule::verify(problem, *lean).time >= bare.time)
          break;
        StepChoice choice = scheduled(*lean);
        if (choice.isRefused())
          break;
        if (choice.arenaBytes <= bare.arenaBytes && choice.time < bare.time)
          leanChoice = std::move(choice);
        else if (choice.arenaBytes <= bare.arenaBytes)
          break;
        else
          llvm::append_range(
              capacity.windows,
              windowsAbove(*choice.placed, choice.firstRuns, bare.arenaBytes,
                           alignUp(choice.arenaBytes - bare.arenaBytes, kAlignment)));
      }
    }
    return leanChoice ? &*leanChoice : nullptr;
  }

  StepChoice scheduled(const char *method, const OwningOpRef<ModuleOp> &module,
                       const schedule::Solution &solution) {
    OwningOpRef<ModuleOp> copy = clone(module);
    const StepProblem step = applyTo(*copy, solution);
    StepChoice choice = candidates.make(method, std::move(copy), kPackingWork);
    choice.solution = solution;
    if (!choice.isRefused())
      choice.firstRuns = firstRuns(*choice.placed, step);
    return choice;
  }
  StepChoice scheduled(const schedule::Solution &solution) {
    return scheduled("schedule", bound, solution);
  }

  const CostModel costs;
  const double effort;
  const bool withSegments; ///< among the candidates under a budget
  ModuleOp prepared;
  CandidateMaker candidates;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  std::unique_ptr<schedule::Planner> planner;
  std::optional<Ladder> ladder;                         ///< its schedules are the candidates
  std::unique_ptr<schedule::Planner> relaxedPlanner;    ///< of the relaxed problem, for its bounds
  schedule::Cost relaxedLeast = 0, timeOfAllCopied = 0; ///< every op once: without copies, with all
  bool boundsAreBuilt = false;
  std::optional<StepChoice> segmentChoice, leanChoice, smallestChoice;
  std::optional<schedule::Solution> segmentRuns; ///< the segments as a schedule of the step
  bool leanIsKnown = false;
  OpsByOrigin opOfOrigin; ///< of `problem`
  std::map<int, Bytes> arenaOfRow, liveBytesOfRow;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::map<int, std::optional<StepChoice>> tightened; ///< of rows that packing overshot
  Bytes stateOutside = 0; ///< state that the training graph does not hold
  Bytes otherGraphs = 0;  ///< least arena of the other graphs
  bool hasParts = false;  ///< some storage but state's holds several values
};

BudgetPlanner::BudgetPlanner(ModuleOp prepared, const CostModel &costs, BudgetOptions options)
    : impl(std::make_unique<Impl>(prepared, costs, std::move(options))) {}
BudgetPlanner::~BudgetPlanner() = default;

const schedule::Problem &BudgetPlanner::problem() const { return impl->problem; }
const StepChoice &BudgetPlanner::keepAll() const { return impl->keepAll; }
std::optional<StepChoice> BudgetPlanner::plan(Bytes budget) { return impl->plan(budget); }
const StepChoice &BudgetPlanner::smallest() { return impl->smallest(); }
Bytes BudgetPlanner::leastLiveBytes() { return impl->leastLiveBytes(); }
Bytes BudgetPlanner::lowerBound() { return impl->lowerBound(); }
schedule::Cost BudgetPlanner::timeBound(Bytes budget) { return impl->timeBound(budget); }
double BudgetPlanner::extraTimeBound(Bytes budget) { return impl->extraTimeBound(budget); }
const StepChoice &BudgetPlanner::checkpointed() { return impl->checkpointed(); }
const std::vector<Refusal> &BudgetPlanner::refusals() const { return impl->refusals(); }
OwningOpRef<ModuleOp> BudgetPlanner::ordered(const StepChoice &choice) const {
  return impl->orderedFormOf(choice);
}

StepChoice BudgetPlanner::copyOf(const StepChoice &choice) {
  StepChoice copy;
  copy.method = choice.method;
  copy.solution = choice.solution;
  copy.firstRuns = choice.firstRuns;
  copy.time = choice.time;
  copy.livePeakBytes = choice.livePeakBytes;
  copy.arenaBytes = choice.arenaBytes;
  copy.placed = clone(choice.placed);
  return copy;
}

} // namespace stow
