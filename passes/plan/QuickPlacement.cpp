#include "passes/plan/QuickPlacement.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/order/ScheduleProblem.h"
#include "passes/plan/Halves.h"
#include "passes/plan/Stages.h"
#include "passes/solvers/schedule/PlanSchedule.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace stow {
namespace {

/// Steps to pack a schedule, and, where only packing keeps it above the budget, to pack it again.
constexpr int64_t kPackingWork = 50'000'000, kMorePackingWork = 500'000'000;

class Placer {
public:
  Placer(Bytes budget, ModuleOp prepared, const CostModel &costs, const Target &target)
      : budget(budget), costs(costs), target(target), maker(costs, target, {}),
        bound(withPlacesInside(prepared, target)), problem(problemOf(*bound).problem) {}

  /// First the schedule of another batch, or program order without one.
  QuickPlacement place(const std::optional<schedule::Solution> &other) {
    QuickPlacement result = {false, std::numeric_limits<Bytes>::max()};
    auto fits = [&](const std::optional<schedule::Solution> &solution, Bytes slack = 0) {
      const Bytes arenaBytes = arenaOf(solution, budget - slack);
      result.fits = arenaBytes + slack <= budget;
      result.arenaBytes = std::min(result.arenaBytes, arenaBytes + (result.fits ? 0 : slack));
      return result.fits;
    };
    if (!other && fits(other))
      return result;
    schedule::Planner planner(problem, cutsAlone());
    // Schedules count state that the graph holds; this is the rest.
    const Bytes outside = stateBytes() - problem.pinnedBytes();
    const Bytes room = alignUp(budget, target.alignment()) - outside;
    // Whoever plans this batch asks for its smallest peak in percents, and may not find again what
    // another batch's schedule takes by less.
    const Bytes percent = schedule::percentOf(planner.inputOrderPeak(), 1);
    auto mayFit = [&] {
      const schedule::Replay replay = schedule::verify(problem, *other);
      if (replay.fault)
        return false;
      result.arenaBytes = replay.peakBytes + outside + percent;
      return replay.peakBytes + percent <= room + placementSlack(problem, budget);
    };
    if (other && mayFit() && fits(other, percent))
      return result;
    const schedule::FrontierRow least = planner.smallest();
    if (least.peakBytes > room) {
      result.arenaBytes = std::min(result.arenaBytes, least.peakBytes + outside);
      return result;
    }
    // What takes less time comes first, and what leaves packing more room behind it.
    for (double share : {100.0, 99.0})
      if (const auto row = planner.schedule(schedule::percentOf(room, share)))
        if (fits(row->solution))
          return result;
    fits(least.solution);
    return result;
  }

  /// The schedule for the least live bytes, packed once.
  StepChoice least() {
    schedule::Planner planner(problem, cutsAlone());
    return placed(planner.smallest().solution, kPackingWork, 0);
  }

  /// The same, which is packed where these are within the budget.
  Bytes placeLeast() {
    schedule::Planner planner(problem, cutsAlone());
    const schedule::FrontierRow least = planner.smallest();
    // As far apart as the schedules that a whole plan asks for.
    const Bytes percent = schedule::percentOf(planner.inputOrderPeak(), 1);
    const Bytes bytes = least.peakBytes + stateBytes() - problem.pinnedBytes();
    return percent + (bytes + percent > alignUp(budget, target.alignment())
                          ? bytes
                          : arenaOf(least.solution, budget - percent));
  }

private:
  static schedule::PlanOptions cutsAlone() {
    schedule::PlanOptions options;
    options.effort = 0;
    return options;
  }

  StepProblem problemOf(ModuleOp module) const {
    return buildStepProblem(stepGraph(module), costs, target.alignment());
  }

  /// Of all graphs of the module, as packing lays it out.
  Bytes stateBytes() {
    llvm::DenseSet<Attribute> known;
    Bytes bytes = 0;
    for (auto graph : bound->getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments())
        if (isStateArgument(graph, argument.getArgNumber()) &&
            known.insert(graph.getArgAttr(argument.getArgNumber(), kNameAttr)).second)
          bytes += alignUp(storedBytesOf(argument.getType()), target.alignment());
    return bytes;
  }

  /// As a first packing has it, or where that is above `most`, and need not be, one within that. StepChoice::refusedBytes
  /// where the checks refuse it.
  Bytes arenaOf(const std::optional<schedule::Solution> &solution, Bytes most) {
    StepChoice choice;
    for (auto [work, enough] : {std::pair(kPackingWork, Bytes(0)), {kMorePackingWork, most}}) {
      choice = placed(solution, work, enough);
      if (choice.isRefused())
        break;
      if (choice.arenaBytes <= budget || choice.livePeakBytes > most)
        break;
    }
    return choice.arenaBytes;
  }

  StepChoice placed(const std::optional<schedule::Solution> &solution, int64_t work, Bytes enough) {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(bound->clone());
    Bytes wantedLive = std::numeric_limits<Bytes>::max();
    if (solution) {
      applySchedule(stepGraph(*module), problemOf(*module), *solution);
      wantedLive = schedule::verify(problem, *solution).peakBytes;
    }
    return maker.make("schedule", std::move(module), work, wantedLive, enough);
  }

  const Bytes budget;
  const CostModel &costs;
  const Target &target;
  CandidateMaker maker;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  const schedule::Problem problem;
};

/// What of a step is placed apart: its training graph, or the two halves of one over several batches, and its evaluation.
struct Apart {
  explicit Apart(const ModelStep &step)
      : step(step), batches(batchesPerStep(step.module())),
        halves(batches > 1 ? splitHalves(step.module()) : StepHalves()),
        rest(halves.last ? *halves.last : step.module()), last(withoutEvaluation(rest)),
        evaluation(rest, step.costs, step.target(), step.evaluation(), {}) {}

  Placer placer(ModuleOp graph, Bytes budget) const {
    return Placer(budget, graph, step.costs, step.target());
  }

  const ModelStep &step;
  const int64_t batches;
  const StepHalves halves;
  const ModuleOp rest; ///< with the evaluation
  const OwningOpRef<ModuleOp> last;
  EvaluationPlanner evaluation;
};

} // namespace

QuickPlacement placeWithin(Bytes budget, const ModelStep &step, const StepChoice &other) {
  Apart apart(step);
  if (!apart.evaluation.fits(budget))
    return {false, apart.evaluation.leastFrom(budget)};
  QuickPlacement result = apart.placer(*apart.last, budget).place(other.solution);
  if (apart.halves.first) {
    const QuickPlacement first =
        apart.placer(*apart.halves.first, budget).place(other.firstSolution);
    result = {result.fits && first.fits, std::max(result.arenaBytes, first.arenaBytes)};
  }
  result.arenaBytes = std::max(result.arenaBytes, std::min(apart.evaluation.wholeBytes(), budget));
  return result;
}

Bytes leastPlacement(Bytes budget, const ModelStep &step) {
  Apart apart(step);
  Bytes arenaBytes = apart.placer(*apart.last, budget).placeLeast();
  if (apart.halves.first)
    arenaBytes = std::max(arenaBytes, apart.placer(*apart.halves.first, budget).placeLeast());
  return apart.evaluation.leastFrom(arenaBytes);
}

StepChoice nearlySmallest(const ModelStep &step) {
  constexpr Bytes any = std::numeric_limits<Bytes>::max();
  Apart apart(step);
  StepChoice choice = apart.placer(*apart.last, any).least();
  if (choice.isRefused())
    return choice;
  const Bytes needed = apart.evaluation.leastFrom(choice.arenaBytes);
  choice = apart.evaluation.joinedWithin(needed, std::move(choice));
  return apart.halves.first ? joinChoices(apart.placer(*apart.halves.first, any).least(),
                                          std::move(choice), apart.batches - 1)
                            : std::move(choice);
}

} // namespace stow
