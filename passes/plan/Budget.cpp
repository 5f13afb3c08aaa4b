#include "passes/plan/Budget.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/fuse/Epilogues.h"
#include "passes/memory/Implementations.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/RelaxedProblem.h"
#include "passes/plan/Halves.h"
#include "passes/plan/Ladder.h"
#include "passes/plan/PackingWindow.h"
#include "passes/plan/Stages.h"
#include "passes/solvers/schedule/search/FitCapacity.h"
#include "passes/solvers/schedule/search/Segments.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <limits>
#include <map>
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

Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes) {
  return budget.bytes ? *budget.bytes : schedule::percentOf(keepAllBytes, *budget.peakPercent);
}

/// Plans one graph of a step, with whatever else its module holds.
class GraphPlanner {
public:
  /// An arena of less than `besideBytes` is of no use where nothing limits it: another graph of the
  /// step takes as much.
  GraphPlanner(ModuleOp prepared, const CostModel &deviceCosts, const Target &target,
               BudgetOptions given, Bytes besideBytes = 0)
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
    stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - problem.pinnedBytes();
  }

  std::optional<StepChoice> plan(Bytes budget) {
    if (keepAll.arenaBytes <= budget)
      return copyOf(keepAll);
    if (budget < lowerBound())
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
    return smallest().arenaBytes <= budget ? std::optional(copyOf(smallest())) : std::nullopt;
  }

  /// An arena of less than `beside` is of no use.
  StepChoice within(const Allowance &allowance, Bytes beside) {
    const auto once = static_cast<double>(keepAll.time);
    const auto most = static_cast<schedule::Cost>(once * (1 + allowance.share));
    const auto opCount = static_cast<int64_t>(problem.ops.size());
    const bool hasWays = llvm::any_of(
        problem.ops, [](const schedule::Op &op) { return op.alternatives.size() > 1; });
    if (most <= keepAll.time || keepAll.arenaBytes <= beside || opCount > allowance.mostOps ||
        (hasWays && !allowance.paysForWays))
      return copyOf(keepAll);
    // The share of the arena that is saved, less what the share of time is worth.
    const auto worth = [&](schedule::Cost time, Bytes bytes) {
      return 1 -
             static_cast<double>(std::max(bytes, beside)) /
                 static_cast<double>(keepAll.arenaBytes) -
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
    StepChoice best = copyOf(keepAll);
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
      return best;
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
    return best;
  }

  const StepChoice &smallest() {
    if (!smallestChoice)
      smallestChoice = findSmallest();
    return *smallestChoice;
  }

  Bytes lowerBound() { return bounds().peakBound() + stateOutside - mostPadding; }

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
    OwningOpRef<ModuleOp> module = clone(bound);
    if (choice.solution)
      applyTo(*module, *choice.solution);
    const Bytes wanted =
        choice.solution ? wantedLiveOf(*choice.solution) : std::numeric_limits<Bytes>::max();
    runStage(*module, "order",
             [&](PassManager &manager) { addSharePasses(manager, target, wanted); });
    return module;
  }

  const StepChoice &checkpointed() { return betterBeside(keepAll, segments()); }

  const std::vector<Refusal> &refusals() const { return candidates.refusals(); }

  StepChoice keepAll;
  schedule::Problem problem; ///< of the training graph

private:
  static StepChoice copyOf(const StepChoice &choice) { return BudgetPlanner::copyOf(choice); }

  StepChoice &betterBeside(StepChoice &first, StepChoice &second) const {
    const bool bothSuffice = std::max(first.arenaBytes, second.arenaBytes) <= besideBytes;
    return !bothSuffice ? better(first, second) : second.time < first.time ? second : first;
  }

  /// Schedules count every buffer rounded up to the alignment; an arena's highest buffer is not.
  Bytes roundedUp(Bytes budget) const { return alignUp(budget, alignment); }

  StepChoice findSmallest() {
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

  /// False where packing segments is in vain: placed inside other values, or with their windows
  /// tightened, they take less than their live bytes by a twentieth at most.
  bool maySegmentsFit(Bytes budget) {
    const Bytes live = segmentRow().peakBytes + stateOutside;
    return live - live / 20 <= roundedUp(budget);
  }

  const std::optional<schedule::FrontierRow> &row(int index) { return ladder->at(index); }

  bool isWithin(int index, Bytes budget) {
    return row(index) && row(index)->peakBytes + stateOutside <= asLiveBytes(budget);
  }

  /// Rows that are placed in a little less than the problem says are looked at as well.
  Bytes slackOf(Bytes bytes) const { return placementSlack(problem, bytes); }
  Bytes asLiveBytes(Bytes budget) const { return roundedUp(budget) + slackOf(budget); }

  /// The first row whose live bytes are within the budget, if there is one.
  int firstWithin(Bytes budget) {
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
    placeInside(graph, target, wantedLiveOf(row(index)->solution));
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
  /// then, as that decides, the row itself or what to do better; a walk down the ladder and one up
  /// from its end meet there, often at two rows of one schedule.
  const StepChoice &placedRow(int index) {
    if (!lastPlaced || !isSame(*row(lastPlaced->first), *row(index)))
      lastPlaced.emplace(index, scheduled("schedule", row(index)->solution, kPackingWork));
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
    found = withWindowsTightened(*row(index), placedRow(index), kPackingWork);
    return found ? &*found : nullptr;
  }

  /// `placed` is `row` as it packs, in more than its sum of live bytes: planned again with less room
  /// where it overshoots. Absent where that fails.
  std::optional<StepChoice> withWindowsTightened(const schedule::FrontierRow &row,
                                                 const StepChoice &placed, int64_t packingWork) {
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

  schedule::PlanOptions planOptions() const {
    schedule::PlanOptions options;
    options.effort = effort;
    return options;
  }

  StepProblem problemOf(ModuleOp module) const {
    return buildStepProblem(trainGraph(module), costs, alignment);
  }

  /// Returns what the module was scheduled by.
  StepProblem applyTo(ModuleOp module, const schedule::Solution &solution) const {
    StepProblem step = problemOf(module);
    applySchedule(trainGraph(module), step, solution);
    return step;
  }

  /// What bounds are asked of: the planner itself where nothing can be placed inside anything, else
  /// one of the problem that holds for every placement.
  schedule::Planner &bounds() {
    if (!boundsAreBuilt) {
      boundsAreBuilt = true;
      OwningOpRef<ModuleOp> module = withStateBound(prepared);
      if (auto relaxed = buildRelaxedProblem(trainGraph(*module), costs, target)) {
        schedule::PlanOptions options;
        options.effort = 0; // schedules are not asked for
        relaxedPlanner = std::make_unique<schedule::Planner>(*relaxed, options);
        relaxedLeast = relaxed->leastTime();
        timeOfAllCopied = costs.timeOf(trainGraph(*module)).total();
      }
    }
    return relaxedPlanner ? *relaxedPlanner : *planner;
  }

  /// Everything kept, in program order or in the best order that the planner found; every op runs in
  /// its fastest way.
  StepChoice inBestOrder() {
    StepChoice asGiven = candidates.make("keep all", clone(bound), kThoroughPackingWork);
    const schedule::FrontierRow leanest = planner->leanestOrder();
    if (leanest.peakBytes >= planner->inputOrderPeak())
      return asGiven;
    StepChoice reordered =
        scheduled("keep all", inFastestWays(leanest.solution, problem), kPackingWork);
    return std::move(betterBeside(asGiven, reordered));
  }

  /// Chen's segments as a schedule of the step.
  const schedule::FrontierRow &segmentRow() {
    if (!segmentSchedule) {
      schedule::Solution solution = schedule::planSegments(problem, effort);
      const schedule::Replay replay = schedule::verify(problem, solution);
      segmentSchedule = {replay.peakBytes, replay.time, std::move(solution)};
    }
    return *segmentSchedule;
  }

  StepChoice &segments() {
    if (!segmentChoice) {
      const schedule::FrontierRow &row = segmentRow();
      segmentChoice = scheduled("segments", row.solution, kThoroughPackingWork);
      auto tightened = withWindowsTightened(row, *segmentChoice, kThoroughPackingWork);
      if (tightened && &better(*segmentChoice, *tightened) == &*tightened)
        segmentChoice = std::move(tightened);
    }
    return *segmentChoice;
  }

  /// Live bytes that the schedule problem says `solution` takes.
  Bytes wantedLiveOf(const schedule::Solution &solution) const {
    return schedule::verify(problem, solution).peakBytes;
  }

  StepChoice scheduled(const std::string &method, const schedule::Solution &solution,
                       int64_t packingWork) {
    OwningOpRef<ModuleOp> copy = clone(bound);
    const StepProblem step = applyTo(*copy, solution);
    StepChoice choice =
        candidates.make(method, std::move(copy), packingWork, wantedLiveOf(solution));
    choice.solution = solution;
    if (!choice.isRefused())
      choice.firstRuns = firstRuns(*choice.placed, step);
    return choice;
  }

  const CostModel costs;
  const Target &target;
  const Bytes alignment; ///< of buffers
  const double effort;
  const Bytes besideBytes;
  ModuleOp prepared;
  CandidateMaker candidates;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  std::unique_ptr<schedule::Planner> planner;
  std::optional<Ladder> ladder;                         ///< its schedules are the candidates
  std::unique_ptr<schedule::Planner> relaxedPlanner;    ///< of the relaxed problem, for its bounds
  schedule::Cost relaxedLeast = 0, timeOfAllCopied = 0; ///< every op once: without copies, with all
  bool boundsAreBuilt = false;
  std::optional<schedule::FrontierRow> segmentSchedule;
  std::optional<StepChoice> segmentChoice, smallestChoice;
  std::map<int, Bytes> arenaOfRow, liveBytesOfRow;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::map<int, std::optional<StepChoice>> tightened; ///< of rows that packing overshot
  Bytes mostPadding = 0;  ///< of a buffer: the arena's highest one is counted without
  Bytes stateOutside = 0; ///< state that the training graph does not hold
};

/// A step of one graph, or of two halves that are planned apart and joined (Halves.h), and its
/// evaluation, which is planned apart as well (Evaluation.h).
class StepPlanner {
public:
  StepPlanner(ModuleOp prepared, const CostModel &costs, const Target &target,
              BudgetOptions options)
      : repeats(batchesPerStep(prepared) - 1),
        halves(repeats > 0 ? std::optional(splitHalves(prepared)) : std::nullopt),
        lastModule(withoutEvaluation(halves ? *halves->last : prepared)),
        evaluation(halves ? *halves->last : prepared, costs, target, options.evaluation,
                   options.candidates),
        last(*lastModule, costs, target, options, evaluation.wholeBytes()) {
    if (halves)
      first.emplace(*halves->first, costs, target, std::move(options));
    keepAll = first ? joined(copyOf(first->keepAll), withWholeEvaluation(last.keepAll))
                    : withWholeEvaluation(last.keepAll);
  }

  const StepChoice &everythingKept() const { return keepAll; }

  const StepChoice &checkpointed() {
    if (!segments)
      segments =
          first ? joined(copyOf(first->checkpointed()), withWholeEvaluation(last.checkpointed()))
                : withWholeEvaluation(last.checkpointed());
    return *segments;
  }

  std::optional<StepChoice> plan(Bytes budget) {
    std::optional<StepChoice> end = last.plan(budget);
    if (!end || !evaluation.fits(budget))
      return std::nullopt;
    *end = evaluation.joinedWithin(budget, std::move(*end));
    if (!first)
      return end;
    std::optional<StepChoice> begin = first->plan(budget);
    return begin ? std::optional(joined(std::move(*begin), std::move(*end))) : std::nullopt;
  }

  /// What one half takes is the other's to use, and so is what the evaluation of a whole batch takes, or of
  /// its parts where the smallest arena is asked for.
  StepChoice within(const Allowance &allowance) {
    if (allowance.isForSmallest() && !first) {
      StepChoice step = last.within(allowance, 0);
      const Bytes needed = evaluation.leastFrom(step.arenaBytes);
      if (needed > step.arenaBytes) // room for a faster step
        if (std::optional<StepChoice> faster = plan(needed); faster && faster->time <= step.time)
          return std::move(*faster);
      return evaluation.joinedWithin(needed, std::move(step));
    }
    StepChoice end = evaluation.joinedWhole(last.within(allowance, evaluation.wholeBytes()));
    if (!first)
      return end;
    StepChoice begin = first->within(allowance, 0);
    if (begin.arenaBytes < end.arenaBytes)
      begin = *first->plan(end.arenaBytes);
    else if (end.arenaBytes < begin.arenaBytes)
      end = evaluation.joinedWhole(std::move(*last.plan(begin.arenaBytes)));
    return joined(std::move(begin), std::move(end));
  }

  /// What one of the graphs takes at least is the others' to use.
  const StepChoice &smallest() {
    if (least)
      return *least;
    const Bytes ofLast = last.smallest().arenaBytes;
    const Bytes ofStep = std::max(ofLast, first ? first->smallest().arenaBytes : 0);
    const Bytes needed = evaluation.leastFrom(ofStep);
    least = needed == ofStep && !first ? evaluation.joinedWithin(needed, copyOf(last.smallest()))
                                       : std::move(*plan(needed));
    return *least;
  }

  std::string evaluationObstacle(Bytes budget) { return evaluation.obstacleTo(budget); }
  Bytes lowerBound() {
    const Bytes ofStep = std::max(last.lowerBound(), first ? first->lowerBound() : 0);
    return evaluation.wholeBytes() <= ofStep ? ofStep : std::max(ofStep, evaluation.lowerBound());
  }
  schedule::Cost timeBound(Bytes budget) {
    return last.timeBound(budget) + (first ? repeats * first->timeBound(budget) : 0);
  }
  double extraTimeBound(Bytes budget) {
    if (!first)
      return last.extraTimeBound(budget);
    const auto timeOfFirst = static_cast<double>(repeats * first->keepAll.time);
    const auto timeOfLast = static_cast<double>(last.keepAll.time);
    return (timeOfFirst * first->extraTimeBound(budget) +
            timeOfLast * last.extraTimeBound(budget)) /
           (timeOfFirst + timeOfLast);
  }

  std::vector<Refusal> refusals() const {
    std::vector<Refusal> all = last.refusals();
    if (first)
      llvm::append_range(all, first->refusals());
    return all;
  }

  OwningOpRef<ModuleOp> orderedFormOf(const StepChoice &choice) const {
    OwningOpRef<ModuleOp> module = last.orderedFormOf(choice);
    evaluation.orderLike(*choice.placed, *module);
    if (!first)
      return module;
    StepChoice begin;
    begin.solution = choice.firstSolution;
    joinGraphs(*first->orderedFormOf(begin), *module);
    return module;
  }

  const schedule::Problem &problem() const { return last.problem; }

private:
  static StepChoice copyOf(const StepChoice &choice) { return BudgetPlanner::copyOf(choice); }

  StepChoice withWholeEvaluation(const StepChoice &choice) const {
    return evaluation.joinedWhole(copyOf(choice));
  }

  StepChoice joined(StepChoice begin, StepChoice end) const {
    return joinChoices(std::move(begin), std::move(end), repeats);
  }

  const int64_t repeats; ///< runs of the first half in a step
  std::optional<StepHalves> halves;
  OwningOpRef<ModuleOp> lastModule; ///< the only graph of the step, or its last half
  EvaluationPlanner evaluation;
  GraphPlanner last;
  std::optional<GraphPlanner> first;
  StepChoice keepAll;                        ///< of all graphs
  std::optional<StepChoice> segments, least; ///< likewise
};

/// A step, and where memory does not suffice, the same with products and the kernels that they took in
/// apart: slower, but what such a kernel reads may be computed again between the two.
class BudgetPlanner::Impl {
public:
  Impl(ModuleOp prepared, const CostModel &costs, const Target &target, BudgetOptions options)
      : prepared(prepared), costs(costs), target(target), options(options),
        step(prepared, costs, target, std::move(options)) {}

  std::optional<StepChoice> plan(Bytes budget) {
    std::optional<StepChoice> choice = step.plan(budget);
    return choice || !split() ? std::move(choice) : marked(split()->plan(budget));
  }

  /// The smaller one of what may take as long.
  StepChoice within(Allowance allowance) {
    StepChoice choice = step.within(allowance);
    const auto least = static_cast<double>(step.everythingKept().time);
    const auto most = (1 + allowance.share) * least;
    allowance.share = most / static_cast<double>(timeWhenSplit()) - 1;
    if (allowance.share <= 0 || !allowance.paysForWays || !split())
      return choice;
    StepChoice other = *marked(split()->within(allowance));
    return other.arenaBytes < choice.arenaBytes ? std::move(other) : std::move(choice);
  }

  const StepChoice &smallest() {
    if (!least)
      least = smaller(step.smallest(),
                      [](StepPlanner &other) -> const StepChoice & { return other.smallest(); });
    return *least;
  }

  const StepChoice &checkpointed() {
    if (!segments)
      segments = smaller(step.checkpointed(), [](StepPlanner &other) -> const StepChoice & {
        return other.checkpointed();
      });
    return *segments;
  }

  /// Bounds hold for both.
  template <typename Ask> auto leastOf(Ask ask) {
    auto bound = ask(step);
    return split() ? std::min(bound, ask(*split())) : bound;
  }

  std::vector<Refusal> refusals() const {
    std::vector<Refusal> all = step.refusals();
    if (splitStep)
      llvm::append_range(all, splitStep->refusals());
    return all;
  }

  OwningOpRef<ModuleOp> orderedFormOf(const StepChoice &choice) const {
    return choice.isSplit ? splitStep->orderedFormOf(choice) : step.orderedFormOf(choice);
  }

  StepPlanner &whole() { return step; }

private:
  ModuleOp splitForm() {
    if (!isSplitKnown) {
      isSplitKnown = true;
      splitModule = splitEpilogues(prepared, target);
    }
    return splitModule ? *splitModule : ModuleOp();
  }

  /// The planner of the step with kernels apart; null where products took in none.
  StepPlanner *split() {
    if (!splitStep && splitForm())
      splitStep.emplace(splitForm(), costs, target, options);
    return splitStep ? &*splitStep : nullptr;
  }

  /// The time of the step with kernels apart and everything kept; of no use where that is the step.
  schedule::Cost timeWhenSplit() {
    ModuleOp form = splitForm();
    if (!form)
      return step.everythingKept().time;
    auto timeOf = [&](func::FuncOp graph) { return graph ? costs.timeOf(graph).once : 0; };
    return timeOf(stepGraph(form)) +
           (batchesPerStep(form) - 1) * timeOf(findGraph(form, Role::Accumulate));
  }

  static std::optional<StepChoice> marked(std::optional<StepChoice> choice) {
    if (choice)
      choice->isSplit = true;
    return choice;
  }

  template <typename Ask> StepChoice smaller(const StepChoice &choice, Ask ask) {
    if (!split() || ask(*split()).arenaBytes >= choice.arenaBytes)
      return copyOf(choice);
    return *marked(copyOf(ask(*split())));
  }

  const ModuleOp prepared;
  const CostModel costs;
  const Target &target;
  const BudgetOptions options;
  StepPlanner step;
  bool isSplitKnown = false;
  OwningOpRef<ModuleOp> splitModule;
  std::optional<StepPlanner> splitStep;
  std::optional<StepChoice> segments, least;
};

BudgetPlanner::BudgetPlanner(ModuleOp prepared, const CostModel &costs, const Target &target,
                             BudgetOptions options)
    : impl(std::make_unique<Impl>(prepared, costs, target, std::move(options))) {}
BudgetPlanner::~BudgetPlanner() = default;

const schedule::Problem &BudgetPlanner::problem() const { return impl->whole().problem(); }
const StepChoice &BudgetPlanner::keepAll() const { return impl->whole().everythingKept(); }
std::optional<StepChoice> BudgetPlanner::plan(Bytes budget) { return impl->plan(budget); }
const StepChoice &BudgetPlanner::smallest() { return impl->smallest(); }
StepChoice BudgetPlanner::within(const Allowance &allowance) { return impl->within(allowance); }
std::string BudgetPlanner::evaluationObstacle(Bytes budget) {
  return impl->whole().evaluationObstacle(budget);
}
Bytes BudgetPlanner::lowerBound() {
  return impl->leastOf([](StepPlanner &step) { return step.lowerBound(); });
}
schedule::Cost BudgetPlanner::timeBound(Bytes budget) {
  return impl->leastOf([&](StepPlanner &step) { return step.timeBound(budget); });
}
double BudgetPlanner::extraTimeBound(Bytes budget) {
  return impl->leastOf([&](StepPlanner &step) { return step.extraTimeBound(budget); });
}
const StepChoice &BudgetPlanner::checkpointed() { return impl->checkpointed(); }
std::vector<Refusal> BudgetPlanner::refusals() const { return impl->refusals(); }
OwningOpRef<ModuleOp> BudgetPlanner::ordered(const StepChoice &choice) const {
  return impl->orderedFormOf(choice);
}

StepChoice BudgetPlanner::copyOf(const StepChoice &choice) {
  StepChoice copy;
  copy.method = choice.method;
  copy.solution = choice.solution;
  copy.firstSolution = choice.firstSolution;
  copy.firstRuns = choice.firstRuns;
  copy.isSplit = choice.isSplit;
  copy.time = choice.time;
  copy.livePeakBytes = choice.livePeakBytes;
  copy.arenaBytes = choice.arenaBytes;
  copy.placed = clone(choice.placed);
  return copy;
}

} // namespace stow
