// One graph of a step under a budget: the ladder's schedules, Chen's segments and everything kept, each placed when
// the walk down comes to it (Budget.h).
#pragma once

#include "passes/order/ScheduleProblem.h"
#include "passes/plan/Budget.h"
#include "passes/plan/Candidate.h"
#include "passes/plan/Ladder.h"
#include "passes/plan/LaneLadder.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stow {

/// Plans one graph of a step, with whatever else its module holds.
class GraphPlanner {
public:
  /// An arena of less than `besideBytes` is of no use where nothing limits it: another graph of the
  /// step takes as much.
  GraphPlanner(mlir::ModuleOp prepared, const CostModel &deviceCosts, const Target &target,
               BudgetOptions given, Bytes besideBytes = 0);

  /// The fastest candidate whose arena is at most `budget`; absent if there is none.
  std::optional<StepChoice> plan(Bytes budget);

  /// One of them that takes at most `most`, found with less work; absent where none is.
  std::optional<StepChoice> planInTime(Bytes budget, schedule::Cost most);

  /// An arena of less than `beside` is of no use.
  StepChoice within(const Allowance &allowance, Bytes beside);

  const StepChoice &smallest();

  Bytes lowerBound();

  /// Whether joins and slices are placed anew for every order, so that bounds are those of the relaxed problem.
  bool placesJoinsAnew() { return &bounds() == relaxedPlanner.get(); }

  schedule::Cost timeBound(Bytes budget);

  double extraTimeBound(Bytes budget);

  mlir::OwningOpRef<mlir::ModuleOp> orderedFormOf(const StepChoice &choice) const;

  const StepChoice &checkpointed() { return betterBeside(keepAll, segments()); }

  const std::vector<Refusal> &refusals() const { return candidates.refusals(); }

  StepChoice keepAll;
  schedule::Problem problem; ///< of the training graph

private:
  std::optional<StepChoice> planInTurn(Bytes budget);

  /// The same steps with collectives started ahead of their awaits, within the budget: the one that waits least for other ranks,
  /// and of those the smallest. `choice` itself where none waits less, or ranks exchange nothing whose time is known.
  StepChoice withCollectivesStarted(StepChoice choice, Bytes budget);

  /// Among plans for the budget, and for what of it the bytes of collectives under way leave, the one of least time.
  std::optional<StepChoice> planBesideNetwork(Bytes budget);

  std::optional<StepChoice> search(Bytes budget);
  std::optional<StepChoice> walk(Bytes budget);
  std::optional<StepChoice> planAffordable(Bytes budget, schedule::Cost most);

  /// Candidates in which something travels; null where there is no slow memory.
  LaneLadder *lanes();

  /// The fastest of them within the budget that takes less time than `below`.
  std::optional<StepChoice> travelling(Bytes budget, schedule::Cost below);

  /// No arena without copies is smaller.
  Bytes keptBound() { return bounds().peakBound() + stateOutside - mostPadding; }
  void searchWithin(const Allowance &allowance, Bytes beside, StepChoice &best);

  /// Of the candidates that were placed so far.
  std::optional<StepChoice> fastestSoFar(Bytes budget) const;

  static StepChoice copyOf(const StepChoice &choice) { return BudgetPlanner::copyOf(choice); }

  StepChoice &betterBeside(StepChoice &first, StepChoice &second) const;

  /// Schedules count every buffer rounded up to the alignment; an arena's highest buffer is not.
  Bytes roundedUp(Bytes budget) const { return alignUp(budget, alignment); }

  StepChoice findSmallest();
  const StepChoice &smallestWithoutCopies();

  /// False where packing segments is in vain: placed inside other values, or with their windows
  /// tightened, they take less than their live bytes by a twentieth at most.
  bool maySegmentsFit(Bytes budget);

  const std::optional<schedule::FrontierRow> &row(int index) { return ladder->at(index); }

  bool isWithin(int index, Bytes budget);

  /// Rows that are placed in a little less than the problem says are looked at as well.
  Bytes slackOf(Bytes bytes) const { return placementSlack(problem, bytes); }
  Bytes asLiveBytes(Bytes budget) const { return roundedUp(budget) + slackOf(budget); }

  /// The first row whose live bytes are within the budget, if there is one.
  int firstWithin(Bytes budget);

  /// What `table` knows of the schedule of a row. Neighbours often have the same.
  template <typename Entry> Entry *findSame(std::map<int, Entry> &table, int index) {
    for (auto &[known, entry] : table)
      if (isSame(*row(known), *row(index)))
        return &entry;
    return nullptr;
  }

  /// Of a schedule as it is placed: less work than packing it.
  LaneLadder::Outline outlineOf(const schedule::LaneSolution &solution, Bytes wantedLive) const;

  /// Live bytes of the row as it is placed: no more than its arena.
  Bytes liveBytesOf(int index);

  Bytes arenaOf(int index);

  /// The row rewritten, packed and verified. The last one is kept: its arena is asked for first,
  /// then, as that decides, the row itself or what to do better; a walk down the ladder and one up
  /// from its end meet there, often at two rows of one schedule.
  const StepChoice &placedRow(int index);

  static bool isSame(const schedule::FrontierRow &left, const schedule::FrontierRow &right);

  /// The row with its windows tightened until its arena is no larger than its sum of live bytes, or
  /// null where that fails. Does not depend on any budget.
  const StepChoice *tightenedRow(int index);

  /// `placed` is `row` as it packs, in more than its sum of live bytes: planned again with less room
  /// where it overshoots. Absent where that fails.
  std::optional<StepChoice> withWindowsTightened(const schedule::FrontierRow &row,
                                                 const StepChoice &placed, int64_t packingWork);

  schedule::PlanOptions planOptions() const;

  StepProblem problemOf(mlir::ModuleOp module) const;

  /// The step in the order of a choice, nothing shared yet, and the live bytes that are wanted of it.
  struct Ordered {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Bytes wantedLive = std::numeric_limits<Bytes>::max();
  };
  Ordered inOrderOf(const StepChoice &choice) const;

  /// Returns what the module was scheduled by.
  StepProblem applyTo(mlir::ModuleOp module, const schedule::LaneSolution &solution) const;

  /// What bounds are asked of: the planner itself where nothing can be placed inside anything, else
  /// one of the problem that holds for every placement.
  schedule::Planner &bounds();

  /// Likewise with lanes, which must be there.
  Bytes lanePeakBound();
  schedule::Cost laneTimeBound(Bytes liveBytes);
  schedule::LanePlanner &relaxedLanePlanner();
  schedule::Lanes relaxedLanesOf() const;

  /// Everything kept, in program order or in the best order that the planner found; every op runs in
  /// its fastest way.
  StepChoice inBestOrder();

  /// Chen's segments as a schedule of the step.
  const schedule::FrontierRow &segmentRow();

  StepChoice &segments();

  /// Live bytes that the schedule problem says `solution` takes.
  Bytes wantedLiveOf(const schedule::Solution &solution) const;

  StepChoice scheduled(const std::string &method, const schedule::Solution &solution,
                       int64_t packingWork);
  StepChoice scheduledWithCopies(const schedule::LanePlanResult &row);
  StepChoice placed(const std::string &method, const schedule::LaneSolution &solution,
                    Bytes wantedLive, int64_t packingWork);

  const CostModel costs;
  const Target &target;
  const Bytes alignment; ///< of buffers
  const double effort;
  const Bytes besideBytes;
  mlir::ModuleOp prepared;
  CandidateMaker candidates;
  mlir::OwningOpRef<mlir::ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  std::unique_ptr<schedule::Planner> planner;
  std::optional<Ladder> ladder;                         ///< its schedules are the candidates
  std::unique_ptr<schedule::Planner> relaxedPlanner;    ///< of the relaxed problem, for its bounds
  schedule::Cost relaxedLeast = 0, timeOfAllCopied = 0; ///< every op once: without copies, with all
  bool boundsAreBuilt = false;
  std::optional<schedule::FrontierRow> segmentSchedule;
  std::optional<StepChoice> segmentChoice, smallestChoice, smallestKeptChoice;
  std::optional<LaneLadder> laneLadder;
  schedule::Problem relaxedProblem;                    ///< where there are lanes
  std::unique_ptr<schedule::LanePlanner> relaxedLanes; ///< likewise, for its bounds
  std::map<int, Bytes> arenaOfRow, liveBytesOfRow;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::map<int, std::optional<StepChoice>> tightened; ///< of rows that packing overshot
  schedule::Cost timeOnce = 0;                        ///< of everything kept, without waits
  Bytes mostPadding = 0;  ///< of a buffer: the arena's highest one is counted without
  Bytes stateOutside = 0; ///< state that the training graph does not hold
};

} // namespace stow
