#include "passes/plan/Budget.h"

#include "ir/StepGraphs.h"
#include "passes/fuse/Epilogues.h"
#include "passes/plan/GraphPlanner.h"
#include "passes/plan/Halves.h"
#include "runtime/base/LongWork.h"

#include <algorithm>
#include <utility>

using namespace mlir;

namespace stow {
namespace {

OwningOpRef<ModuleOp> clone(const OwningOpRef<ModuleOp> &module) {
  return module ? cast<ModuleOp>(module.get()->clone()) : OwningOpRef<ModuleOp>();
}

} // namespace

Bytes budgetBytes(const ByteBudget &budget, Bytes keepAllBytes) {
  return budget.bytes ? *budget.bytes : schedule::percentOf(keepAllBytes, *budget.peakPercent);
}

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
    return joinedWithin(budget, [&](GraphPlanner &graph) { return graph.plan(budget); });
  }

  std::optional<StepChoice> planInTime(Bytes budget, double share) {
    return joinedWithin(budget, [&](GraphPlanner &graph) {
      const double most = static_cast<double>(graph.keepAll.time) * (1 + share);
      return graph.planInTime(budget, most < static_cast<double>(schedule::kAnyTime)
                                          ? static_cast<schedule::Cost>(most)
                                          : schedule::kAnyTime);
    });
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
    begin.withCopies = choice.firstWithCopies;
    joinGraphs(*first->orderedFormOf(begin), *module);
    return module;
  }

  const schedule::Problem &problem() const { return last.problem; }
  bool placesJoinsAnew() { return last.placesJoinsAnew(); }

private:
  static StepChoice copyOf(const StepChoice &choice) { return BudgetPlanner::copyOf(choice); }

  /// What `ask` gives for the graphs of the step, with an evaluation within the budget; absent where one gives none.
  template <typename Ask> std::optional<StepChoice> joinedWithin(Bytes budget, Ask ask) {
    std::optional<StepChoice> end = ask(last);
    if (!end || !evaluation.fits(budget))
      return std::nullopt;
    *end = evaluation.joinedWithin(budget, std::move(*end));
    if (!first)
      return end;
    std::optional<StepChoice> begin = ask(*first);
    return begin ? std::optional(joined(std::move(*begin), std::move(*end))) : std::nullopt;
  }

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
    return choice || wasInterrupted() || !split() ? std::move(choice)
                                                  : marked(split()->plan(budget));
  }

  /// The smaller one of what may take as long.
  StepChoice within(Allowance allowance) {
    StepChoice choice = step.within(allowance);
    const auto least = static_cast<double>(step.everythingKept().time);
    const auto most = (1 + allowance.share) * least;
    allowance.share = most / static_cast<double>(timeWhenSplit()) - 1;
    if (allowance.share <= 0 || !allowance.paysForWays || wasInterrupted() || !split())
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
std::optional<StepChoice> BudgetPlanner::planInTime(Bytes budget, double share) {
  return impl->whole().planInTime(budget, share);
}
const StepChoice &BudgetPlanner::smallest() { return impl->smallest(); }
StepChoice BudgetPlanner::within(const Allowance &allowance) { return impl->within(allowance); }
std::string BudgetPlanner::evaluationObstacle(Bytes budget) {
  return impl->whole().evaluationObstacle(budget);
}
bool BudgetPlanner::placesJoinsAnew() { return impl->whole().placesJoinsAnew(); }

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
  copy.withCopies = choice.withCopies;
  copy.firstWithCopies = choice.firstWithCopies;
  copy.firstRuns = choice.firstRuns;
  copy.isSplit = choice.isSplit;
  copy.started = choice.started;
  copy.time = choice.time;
  copy.exposed = choice.exposed;
  copy.livePeakBytes = choice.livePeakBytes;
  copy.arenaBytes = choice.arenaBytes;
  copy.placed = clone(choice.placed);
  return copy;
}

} // namespace stow
