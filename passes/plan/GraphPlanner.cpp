#include "passes/plan/GraphPlanner.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/plan/schedule/Verify.h"
#include "ir/plan/schedule/VerifyLanes.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/RelaxedProblem.h"
#include "passes/order/StartCollectives.h"
#include "passes/plan/PackingWindow.h"
#include "passes/plan/Stages.h"
#include "passes/solvers/schedule/search/FitCapacity.h"
#include "passes/solvers/schedule/search/Segments.h"
#include "runtime/base/Error.h"
#include "runtime/base/LongWork.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

using namespace mlir;

namespace stow {
namespace {

/// Steps to pack one of many candidates, about a second up to 15,000 buffers. Where they do not
/// suffice, the next candidate is a quarter of a percent smaller: that is found sooner than a
/// better packing.
constexpr int64_t kPackingWork = 500'000'000;

/// Steps to pack what nothing else is tried for: everything kept in program order, and segments.
const int64_t kThoroughPackingWork = PackBuffersPassOptions().work;

/// Without a budget, what packing takes beyond the live bytes is left where it is less than this part of the arena: worth
/// a ten-thousandth of the step's time at most, and packing again takes as long as anything else that the planner does.
constexpr Bytes kLittleOvershoot = 2000;

/// Ops from which on a rung of the ladder takes so long that an allowance looks at every fifth
/// percent alone.
constexpr int64_t kLargeStep = 1000;

/// What of the bytes of all collectives may be under way at once is tried in these parts: from all of them to what hides the exchange of
/// a step with a hundred parameters behind one product.
constexpr int64_t kPartsUnderWay[] = {1, 2, 4, 8, 16, 32, 64};

func::FuncOp trainGraph(ModuleOp module) {
  auto graph = stepGraph(module);
  if (!graph)
    throw Error::internal("a module without a training graph has no budget");
  return graph;
}

/// The most bytes between the end of a buffer of `graph` and the next multiple of the alignment, for every
/// order and placement of its values.
Bytes mostPaddingOf(func::FuncOp graph, Bytes alignment) {
  Bytes most = 0;
  auto add = [&](Bytes bytes) { most = std::max(most, alignUp(bytes, alignment) - bytes); };
  auto addValue = [&](Type type) {
    add(storedBytesOf(type));
    add(ownBytesOf(type)); // where nothing is placed inside it, nor it inside anything
  };
  llvm::for_each(graph.getArgumentTypes(), addValue);
  for (Operation &op : graph.front()) {
    llvm::for_each(op.getResultTypes(), addValue);
    add(bytesAttr(&op, kWorkspaceAttr));
    for (const Target::Implementation &way : implementationsOf(&op))
      add(way.workspaceBytes);
  }
  return most;
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

GraphPlanner::GraphPlanner(ModuleOp prepared, const CostModel &deviceCosts, const Target &target,
                           BudgetOptions given, Bytes besideBytes)
    : costs(deviceCosts), target(target), alignment(target.alignment()), effort(given.effort),
      besideBytes(besideBytes), prepared(prepared),
      candidates(deviceCosts, target, std::move(given.candidates)) {
  bound = withPlacesInside(prepared, target);
  problem = problemOf(*bound).problem;
  mostPadding = mostPaddingOf(trainGraph(*bound), alignment);
  planner = std::make_unique<schedule::Planner>(problem, planOptions());
  ladder.emplace(*planner);
  keepAll = inBestOrder();
  if (keepAll.isRefused())
    throw Error::internal("internal error: the checks refuse this step with everything kept: " +
                          describe(candidates.refusals().front()));
  timeOnce = costs.timeOf(trainGraph(*keepAll.placed)).once;
  stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - problem.pinnedBytes();
}

std::optional<StepChoice> GraphPlanner::plan(Bytes budget) {
  return costs.network ? planBesideNetwork(budget) : planInTurn(budget);
}

std::optional<StepChoice> GraphPlanner::planInTurn(Bytes budget) {
  try {
    return wasInterrupted() ? fastestSoFar(budget) : search(budget);
  } catch (const Interrupted &) {
    acknowledgeInterruption();
    return fastestSoFar(budget);
  }
}

std::optional<StepChoice> GraphPlanner::fastestSoFar(Bytes budget) const {
  if (keepAll.arenaBytes <= budget)
    return copyOf(keepAll);
  const StepChoice *fastest = nullptr;
  const auto look = [&](const StepChoice &choice) {
    if (choice.arenaBytes <= budget && (!fastest || choice.time < fastest->time))
      fastest = &choice;
  };
  if (segmentChoice)
    look(*segmentChoice);
  if (lastPlaced)
    look(lastPlaced->second);
  for (const auto &[row, choice] : tightened)
    if (choice)
      look(*choice);
  return fastest ? std::optional(copyOf(*fastest)) : std::nullopt;
}

std::optional<StepChoice> GraphPlanner::search(Bytes budget) {
  std::optional<StepChoice> kept = walk(budget);
  // With copies of state, which everything kept waits for, something that travels may be faster.
  if (!lanes() || (keepAll.arenaBytes <= budget && !problem.hasLaneOps()) || budget < lowerBound())
    return kept;
  if (auto faster = travelling(budget, kept ? kept->time : schedule::kAnyTime))
    return faster;
  return !kept && smallest().arenaBytes <= budget ? std::optional(copyOf(smallest()))
                                                  : std::move(kept);
}

LaneLadder *GraphPlanner::lanes() {
  if (!laneLadder && costs.slow)
    laneLadder.emplace(
        problemOf(*bound), *costs.slow, planOptions(),
        [this](const schedule::LanePlanResult &row) {
          return outlineOf(*row.solution, row.peakBytes);
        },
        [this](const schedule::LanePlanResult &row) { return scheduledWithCopies(row); });
  return laneLadder ? &*laneLadder : nullptr;
}

std::optional<StepChoice> GraphPlanner::travelling(Bytes budget, schedule::Cost below) {
  return lanes()->fastest(budget, asLiveBytes(budget) - stateOutside, below);
}

std::optional<StepChoice> GraphPlanner::walk(Bytes budget) {
  if (keepAll.arenaBytes <= budget)
    return copyOf(keepAll);
  if (budget < keptBound())
    return std::nullopt;
  // Rows by rising time, and between them, where they belong by their time, segments and the rows
  // planned again because packing overshot.
  std::vector<const StepChoice *> waiting;
  bool areSegmentsWaiting = false;
  auto takeWaiting = [&](schedule::Cost below) -> const StepChoice * {
    if (!areSegmentsWaiting && segmentRow().time < below && maySegmentsFit(budget)) {
      areSegmentsWaiting = true;
      waiting.push_back(&segments());
    }
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
    if (const StepChoice *waited = takeWaiting(row.time))
      return copyOf(*waited);
    if (arenaOf(i) <= budget)
      return copyOf(placedRow(i));
    if (const StepChoice *tightened = tightenedRow(i))
      waiting.push_back(tightened);
  }
  if (const StepChoice *waited = takeWaiting(std::numeric_limits<schedule::Cost>::max()))
    return copyOf(*waited);
  // A row planned again may take less than the peak of the row it comes from.
  return smallestWithoutCopies().arenaBytes <= budget
             ? std::optional(copyOf(smallestWithoutCopies()))
             : std::nullopt;
}

std::optional<StepChoice> GraphPlanner::planInTime(Bytes budget, schedule::Cost most) {
  if (keepAll.arenaBytes <= budget)
    return copyOf(keepAll);
  if (budget >= keptBound())
    if (auto kept = planAffordable(budget, most))
      return kept;
  return lanes() && budget >= lowerBound()
             ? travelling(budget, most < schedule::kAnyTime ? most + 1 : most)
             : std::nullopt;
}

std::optional<StepChoice> GraphPlanner::planAffordable(Bytes budget, schedule::Cost most) {
  Ladder affordable(*planner, most);
  const auto bytesOf = [&](int rung) { return affordable.budgetOf(rung) + stateOutside; };
  constexpr int kTries = 6;
  Bytes wanted = asLiveBytes(budget);
  int rung = 0;
  for (int i = 0; i < kTries; ++i) {
    while (rung < Ladder::size && bytesOf(rung) > wanted)
      ++rung;
    if (rung == Ladder::size || planner->takesLonger(affordable.budgetOf(rung), most))
      return std::nullopt;
    const std::optional<schedule::FrontierRow> &row = affordable.at(rung);
    if (!row || row->time > most)
      return std::nullopt;
    StepChoice placed = scheduled("schedule", row->solution, kPackingWork);
    const auto fits = [&](const StepChoice &choice) {
      return choice.arenaBytes <= budget && choice.time <= most;
    };
    if (fits(placed))
      return placed;
    if (auto tightened = withWindowsTightened(*row, placed, kPackingWork);
        tightened && fits(*tightened))
      return tightened;
    // What packing takes above the live bytes, it is likely to take again.
    wanted = std::min(wanted, bytesOf(rung)) -
             std::max<Bytes>(placed.isRefused() ? 0 : (placed.arenaBytes - budget) / 2, 1);
  }
  return std::nullopt;
}

StepChoice GraphPlanner::within(const Allowance &allowance, Bytes beside) {
  StepChoice best = copyOf(keepAll);
  if (wasInterrupted())
    return best;
  try {
    searchWithin(allowance, beside, best);
    const Bytes most =
        allowance.isForSmallest() ? best.arenaBytes : std::numeric_limits<Bytes>::max();
    return withCollectivesStarted(copyOf(best), most);
  } catch (const Interrupted &) {
    acknowledgeInterruption();
  }
  return best;
}

StepChoice GraphPlanner::withCollectivesStarted(StepChoice choice, Bytes budget) {
  if (!costs.network || choice.exposed == 0 || choice.isRefused())
    return choice;
  const Bytes all = collectiveBytes(trainGraph(*bound));
  StepChoice best = copyOf(choice);
  for (const int64_t part : kPartsUnderWay) {
    StepChoice next = copyOf(choice);
    next.started = all / part;
    OwningOpRef<ModuleOp> module = inOrderOf(next).module;
    StepChoice tried = candidates.make(choice.method, std::move(module), kPackingWork);
    if (tried.arenaBytes > budget)
      continue;
    if (tried.exposed > best.exposed && best.started)
      break; // and with less under way it waits longer
    if (std::tie(tried.exposed, tried.arenaBytes) < std::tie(best.exposed, best.arenaBytes)) {
      tried.solution = choice.solution;
      tried.started = next.started;
      best = std::move(tried);
    }
  }
  return best;
}

std::optional<StepChoice> GraphPlanner::planBesideNetwork(Bytes budget) {
  std::optional<StepChoice> best;
  auto look = [&](Bytes within) {
    std::optional<StepChoice> inTurn = planInTurn(within);
    if (!inTurn)
      return;
    StepChoice found = withCollectivesStarted(std::move(*inTurn), budget);
    if (!best || found.time + found.exposed < best->time + best->exposed)
      best = std::move(found);
  };
  look(budget);
  if (!best || best->exposed == 0)
    return best;
  const Bytes all = collectiveBytes(trainGraph(*bound));
  for (const int64_t part : kPartsUnderWay)
    if (!wasInterrupted() && keepAll.arenaBytes > budget - all / part)
      look(budget - all / part);
  return best;
}

void GraphPlanner::searchWithin(const Allowance &allowance, Bytes beside, StepChoice &best) {
  const auto once = static_cast<double>(keepAll.time);
  const auto most = static_cast<schedule::Cost>(once * (1 + allowance.share));
  const auto opCount = static_cast<int64_t>(problem.ops.size());
  const bool hasWays =
      llvm::any_of(problem.ops, [](const schedule::Op &op) { return op.alternatives.size() > 1; });
  if (most <= keepAll.time || keepAll.arenaBytes <= beside || opCount > allowance.mostOps ||
      (hasWays && !allowance.paysForWays))
    return;
  // The share of the arena that is saved, less what the share of time is worth.
  const auto worth = [&](schedule::Cost time, Bytes bytes) {
    return 1 -
           static_cast<double>(std::max(bytes, beside)) / static_cast<double>(keepAll.arenaBytes) -
           allowance.worth * std::max(static_cast<double>(time) / once - 1, 0.0);
  };
  const bool isLarge = opCount > kLargeStep;
  const auto worthOfPeak = [&](schedule::Cost time, Bytes peakBytes) {
    return worth(time, peakBytes + stateOutside);
  };
  const auto timeOfNoWorth = [&](Bytes peakBytes) {
    const double saved = std::max(worthOfPeak(keepAll.time, peakBytes), 0.0);
    return saved > 0 && allowance.worth == 0
               ? schedule::kAnyTime
               : static_cast<schedule::Cost>(once * (1 + saved / allowance.worth));
  };
  Ladder::Wanted wanted = {.time = most,
                           .step = isLarge ? 5 * Ladder::percent : Ladder::percent,
                           .worth = worthOfPeak,
                           .timeOfNoWorth = timeOfNoWorth};
  auto look = [&](const StepChoice &choice) {
    if (!choice.isRefused() && choice.time <= most &&
        worth(choice.time, choice.arenaBytes) > worth(best.time, best.arenaBytes))
      best = copyOf(choice);
  };
  const auto place = [&](const schedule::FrontierRow &row) {
    const StepChoice placed = scheduled("schedule", row.solution, kPackingWork);
    if (placed.arenaBytes - row.peakBytes - stateOutside > keepAll.arenaBytes / kLittleOvershoot)
      if (auto tightened = withWindowsTightened(row, placed, kPackingWork))
        look(*tightened);
    look(placed);
  };
  if (!allowance.isForSmallest()) {
    wanted.finest = wanted.step;
    Ladder affordable(*planner, most);
    if (const int rung = affordable.bestWithin(wanted); rung >= 0)
      place(*affordable.at(rung));
    return;
  }
  wanted.finest = isLarge ? Ladder::percent : 1;
  const int rung = ladder->bestWithin(wanted);
  if (!isLarge) {
    // What is left of the share may buy less memory with a longer search.
    schedule::PlanOptions options = planOptions();
    options.effort *= 4;
    schedule::Planner thorough(problem, options);
    Ladder further(thorough);
    wanted.from = std::max(rung, 0);
    if (const int next = further.bestWithin(wanted); next >= 0)
      place(*further.at(next));
  }
  if (rung >= 0) {
    if (const StepChoice *tightened = tightenedRow(rung))
      look(*tightened);
    look(placedRow(rung));
  }
}

const StepChoice &GraphPlanner::smallestWithoutCopies() {
  if (!smallestKeptChoice)
    smallestKeptChoice = findSmallest();
  return *smallestKeptChoice;
}

const StepChoice &GraphPlanner::smallest() {
  if (!smallestChoice) {
    smallestChoice = copyOf(smallestWithoutCopies());
    const Bytes known = smallestChoice->arenaBytes;
    if (lanes() && known > lowerBound())
      if (auto less = lanes()->smallest(known, mostPadding + slackOf(known) - stateOutside))
        smallestChoice = std::move(less);
  }
  return *smallestChoice;
}

Bytes GraphPlanner::lowerBound() {
  return lanes() ? lanePeakBound() + stateOutside - mostPadding : keptBound();
}

schedule::Cost GraphPlanner::timeBound(Bytes budget) {
  const Bytes live = roundedUp(budget) - stateOutside;
  return lanes() ? laneTimeBound(live) : bounds().timeBound(live);
}

double GraphPlanner::extraTimeBound(Bytes budget) {
  // Runs beyond the first of the relaxed problem's ops are such runs of every plan's, too. Waits are not: the copies of joins,
  // which it leaves out, may be what hides them. All a plan takes is no less than the bound on time, and what it runs once no more
  // than with every join copied.
  const schedule::Cost once = relaxedPlanner ? timeOfAllCopied : timeOnce;
  const schedule::Cost again =
      timeBound(budget) - (relaxedPlanner && !costs.slow ? relaxedLeast : once);
  return static_cast<double>(std::max<schedule::Cost>(again, 0)) / static_cast<double>(once);
}

GraphPlanner::Ordered GraphPlanner::inOrderOf(const StepChoice &choice) const {
  Ordered ordered = {clone(bound)};
  if (choice.withCopies) {
    const StepProblem step = applyTo(*ordered.module, *choice.withCopies);
    ordered.wantedLive =
        schedule::verify(problem, lanesOf(step, *costs.slow), *choice.withCopies).peakBytes;
  } else if (choice.solution) {
    applyTo(*ordered.module, schedule::withoutCopies(problem, *choice.solution));
    ordered.wantedLive = wantedLiveOf(*choice.solution);
  }
  if (choice.started) {
    startCollectives(trainGraph(*ordered.module), costs, *choice.started);
    ordered.wantedLive = std::numeric_limits<Bytes>::max();
  }
  return ordered;
}

OwningOpRef<ModuleOp> GraphPlanner::orderedFormOf(const StepChoice &choice) const {
  Ordered ordered = inOrderOf(choice);
  runStage(*ordered.module, "order",
           [&](PassManager &manager) { addSharePasses(manager, target, ordered.wantedLive); });
  return std::move(ordered.module);
}

StepChoice &GraphPlanner::betterBeside(StepChoice &first, StepChoice &second) const {
  const bool bothSuffice = std::max(first.arenaBytes, second.arenaBytes) <= besideBytes;
  return !bothSuffice ? better(first, second) : second.time < first.time ? second : first;
}

StepChoice GraphPlanner::findSmallest() {
  if (keepAll.arenaBytes <= lowerBound()) // and nothing takes less time
    return copyOf(keepAll);
  // What has the smaller peak is placed first: it often makes placing the other needless.
  const bool areSegmentsFirst =
      ladder->last() < 0 || segmentRow().peakBytes <= row(ladder->last())->peakBytes;
  StepChoice best = copyOf(areSegmentsFirst ? better(keepAll, segments()) : keepAll);
  // Peaks rise from the last row on, and no arena is smaller than its peak.
  for (int i = ladder->last(); i >= 0; --i) {
    if (row(i)->peakBytes + stateOutside - mostPadding >=
        best.arenaBytes + slackOf(best.arenaBytes))
      break;
    if (row(i)->peakBytes + stateOutside >= best.arenaBytes && liveBytesOf(i) >= best.arenaBytes)
      continue;
    if (arenaOf(i) < best.arenaBytes)
      best = copyOf(placedRow(i));
    if (const StepChoice *tightened = tightenedRow(i))
      if (tightened->arenaBytes < best.arenaBytes)
        best = copyOf(*tightened);
  }
  // At equal arenas the ladder's rows come behind segments, and those behind everything kept.
  if (!areSegmentsFirst && maySegmentsFit(best.arenaBytes) &&
      &better(keepAll, segments()) == &segments() && segments().arenaBytes <= best.arenaBytes)
    best = copyOf(segments());
  return best;
}

bool GraphPlanner::maySegmentsFit(Bytes budget) {
  const Bytes live = segmentRow().peakBytes + stateOutside;
  return live - live / 20 <= roundedUp(budget);
}

bool GraphPlanner::isWithin(int index, Bytes budget) {
  return row(index) && row(index)->peakBytes + stateOutside <= asLiveBytes(budget);
}

int GraphPlanner::firstWithin(Bytes budget) {
  int index = 0;
  const Bytes most = asLiveBytes(budget);
  while (index < Ladder::size && ladder->budgetOf(index) + stateOutside > most)
    ++index;
  if (index == Ladder::size || !row(index))
    index = ladder->last() + 1;
  while (index > 0 && isWithin(index - 1, budget)) // what is for more memory may need less of it
    --index;
  return index;
}

Bytes GraphPlanner::liveBytesOf(int index) {
  if (const Bytes *known = findSame(liveBytesOfRow, index))
    return *known;
  const schedule::Solution &solution = row(index)->solution;
  return liveBytesOfRow[index] =
             outlineOf(schedule::withoutCopies(problem, solution), wantedLiveOf(solution))
                 .liveBytes;
}

LaneLadder::Outline GraphPlanner::outlineOf(const schedule::LaneSolution &solution,
                                            Bytes wantedLive) const {
  OwningOpRef<ModuleOp> module = clone(bound);
  applyTo(*module, solution);
  func::FuncOp graph = trainGraph(*module);
  placeInside(graph, target, wantedLive);
  shareInPlace(graph);
  const Liveness liveness(graph);
  return {costs.timeOf(graph).total(), liveness.transientPeak() + liveness.stateBytes()};
}

Bytes GraphPlanner::arenaOf(int index) {
  if (const Bytes *known = findSame(arenaOfRow, index))
    return *known;
  return arenaOfRow[index] = placedRow(index).arenaBytes;
}

const StepChoice &GraphPlanner::placedRow(int index) {
  if (!lastPlaced || !isSame(*row(lastPlaced->first), *row(index)))
    lastPlaced.emplace(index, scheduled("schedule", row(index)->solution, kPackingWork));
  return lastPlaced->second;
}

bool GraphPlanner::isSame(const schedule::FrontierRow &left, const schedule::FrontierRow &right) {
  return left.peakBytes == right.peakBytes && left.time == right.time &&
         left.solution == right.solution;
}

const StepChoice *GraphPlanner::tightenedRow(int index) {
  if (const std::optional<StepChoice> *known = findSame(tightened, index))
    return *known ? &**known : nullptr;
  std::optional<StepChoice> &found = tightened[index];
  found = withWindowsTightened(*row(index), placedRow(index), kPackingWork);
  return found ? &*found : nullptr;
}

std::optional<StepChoice> GraphPlanner::withWindowsTightened(const schedule::FrontierRow &row,
                                                             const StepChoice &placed,
                                                             int64_t packingWork) {
  constexpr int kRounds = 3;
  const Bytes live = row.peakBytes + stateOutside;
  schedule::Capacity capacity = {row.peakBytes, {}};
  schedule::Solution solution = row.solution;
  StepChoice choice = copyOf(placed);
  for (int round = 0; !choice.isRefused(); ++round) {
    if (choice.arenaBytes <= live) {
      // A faster plan here would have been on the frontier but for luck; rows come first.
      if (round > 0 && choice.time >= row.time)
        return choice;
      break;
    }
    if (round + 1 == kRounds)
      break;
    llvm::append_range(capacity.windows,
                       windowsAbove(*choice.placed, choice.firstRuns, live,
                                    alignUp(choice.arenaBytes - live, alignment)));
    auto fitted = schedule::fitCapacity(problem, solution, capacity);
    if (!fitted)
      break;
    solution = std::move(*fitted);
    choice = scheduled(placed.method, solution, packingWork);
  }
  return std::nullopt;
}

schedule::PlanOptions GraphPlanner::planOptions() const {
  schedule::PlanOptions options;
  options.effort = effort;
  options.cancelled = isInterrupted;
  return options;
}

StepProblem GraphPlanner::problemOf(ModuleOp module) const {
  return buildStepProblem(trainGraph(module), costs, alignment);
}

StepProblem GraphPlanner::applyTo(ModuleOp module, const schedule::LaneSolution &solution) const {
  StepProblem step = problemOf(module);
  applySchedule(trainGraph(module), step, solution);
  return step;
}

schedule::Planner &GraphPlanner::bounds() {
  if (!boundsAreBuilt) {
    boundsAreBuilt = true;
    OwningOpRef<ModuleOp> module = withStateBound(prepared);
    if (auto relaxed = buildRelaxedProblem(trainGraph(*module), costs, target)) {
      schedule::PlanOptions options;
      options.effort = 0; // schedules are not asked for
      relaxedPlanner = std::make_unique<schedule::Planner>(*relaxed, options);
      relaxedLeast = relaxed->leastTime();
      if (costs.slow)
        relaxedProblem = std::move(*relaxed);
      timeOfAllCopied = costs.timeOf(trainGraph(*module)).once;
    }
  }
  return relaxedPlanner ? *relaxedPlanner : *planner;
}

/// What travels in pieces may do so in one copy, so that no copy has a latency here.
schedule::LanePlanner &GraphPlanner::relaxedLanePlanner() {
  if (!relaxedLanes) {
    schedule::PlanOptions options;
    options.effort = 0; // schedules are not asked for
    relaxedLanes = std::make_unique<schedule::LanePlanner>(relaxedProblem, options);
  }
  return *relaxedLanes;
}

schedule::Lanes GraphPlanner::relaxedLanesOf() const {
  schedule::Lanes given = {costs.slow->out, costs.slow->in, costs.slow->capacity, {}};
  given.out.latency = given.in.latency = 0;
  return given;
}

Bytes GraphPlanner::lanePeakBound() {
  bounds();
  return relaxedPlanner ? relaxedLanePlanner().peakBound(relaxedLanesOf()) : lanes()->peakBound();
}

schedule::Cost GraphPlanner::laneTimeBound(Bytes liveBytes) {
  bounds();
  return relaxedPlanner
             ? relaxedLanePlanner().timeBound(liveBytes, relaxedLanesOf()).value_or(relaxedLeast)
             : lanes()->timeBound(liveBytes);
}

StepChoice GraphPlanner::inBestOrder() {
  StepChoice asGiven = candidates.make("keep all", clone(bound), kThoroughPackingWork);
  const schedule::FrontierRow leanest = planner->leanestOrder();
  if (leanest.peakBytes >= planner->inputOrderPeak())
    return asGiven;
  StepChoice reordered =
      scheduled("keep all", inFastestWays(leanest.solution, problem), kPackingWork);
  return std::move(betterBeside(asGiven, reordered));
}

const schedule::FrontierRow &GraphPlanner::segmentRow() {
  if (!segmentSchedule) {
    schedule::Solution solution = schedule::planSegments(problem, effort);
    const schedule::Replay replay = schedule::verify(problem, solution);
    segmentSchedule = {replay.peakBytes, replay.time, std::move(solution)};
  }
  return *segmentSchedule;
}

StepChoice &GraphPlanner::segments() {
  if (!segmentChoice) {
    const schedule::FrontierRow &row = segmentRow();
    segmentChoice = scheduled("segments", row.solution, kThoroughPackingWork);
    auto tightened = withWindowsTightened(row, *segmentChoice, kThoroughPackingWork);
    if (tightened && &better(*segmentChoice, *tightened) == &*tightened)
      segmentChoice = std::move(tightened);
  }
  return *segmentChoice;
}

Bytes GraphPlanner::wantedLiveOf(const schedule::Solution &solution) const {
  return schedule::verify(problem, solution).peakBytes;
}

StepChoice GraphPlanner::scheduled(const std::string &method, const schedule::Solution &solution,
                                   int64_t packingWork) {
  return placed(method, schedule::withoutCopies(problem, solution), wantedLiveOf(solution),
                packingWork);
}

StepChoice GraphPlanner::scheduledWithCopies(const schedule::LanePlanResult &row) {
  StepChoice choice = placed("copies", *row.solution, row.peakBytes, kPackingWork);
  choice.withCopies = row.solution;
  return choice;
}

StepChoice GraphPlanner::placed(const std::string &method, const schedule::LaneSolution &solution,
                                Bytes wantedLive, int64_t packingWork) {
  noteTry("packing a schedule of " + formatBytes(wantedLive));
  OwningOpRef<ModuleOp> copy = clone(bound);
  const StepProblem step = applyTo(*copy, solution);
  StepChoice choice = candidates.make(method, std::move(copy), packingWork, wantedLive);
  choice.solution = schedule::runsOf(solution);
  if (!choice.isRefused())
    choice.firstRuns = firstRuns(*choice.placed, step);
  return choice;
}

} // namespace stow
