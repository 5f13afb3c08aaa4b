#include "compiler/Budget.h"

#include "compiler/Pipeline.h"
#include "ir/Stow.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace stow {
namespace {

constexpr Bytes kAlignment = 64; // stow-pack-buffers' default

func::FuncOp trainGraph(ModuleOp module) {
  auto graph = module.lookupSymbol<func::FuncOp>("train");
  if (!graph)
    throw Error::internal("a module without a training graph has no budget");
  return graph;
}

Bytes bytesAttr(Operation *op, StringRef name) {
  auto attr = op->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

OwningOpRef<ModuleOp> copyOf(const OwningOpRef<ModuleOp> &module) {
  return cast<ModuleOp>(module.get()->clone());
}

} // namespace

class BudgetPlanner::Impl {
public:
  Impl(ModuleOp prepared, const CostModel &deviceCosts, BudgetOptions options)
      : costs(deviceCosts), options(options), prepared(prepared) {
    bound = cast<ModuleOp>(prepared->clone());
    runStage(*bound, "order", [](PassManager &manager) {
      manager.addPass(createCheckpointPass(CheckpointPassOptions{}));
      manager.addPass(createBindStatePass());
    });
    StepProblem step = buildStepProblem(trainGraph(*bound), costs, kAlignment);
    keepAll = place("keep all", copyOf(bound));
    stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - step.problem.pinnedBytes();
    problem = std::move(step.problem);
    for (auto graph : keepAll.placed->getOps<func::FuncOp>())
      if (graph.getSymName() != "train")
        otherGraphs = std::max(otherGraphs, bytesAttr(graph, kLowerBoundAttr));
  }

  std::optional<StepChoice> plan(Bytes budget) {
    if (keepAll.arenaBytes <= budget)
      return share(keepAll);
    if (otherGraphs > budget)
      return std::nullopt;
    bool triedSegments = false;
    auto trySegments = [&](schedule::Cost below) {
      if (triedSegments || segments().time > below)
        return false;
      triedSegments = true;
      return segments().arenaBytes <= budget;
    };
    for (size_t i = 0; i < rows().size(); ++i) {
      const schedule::FrontierRow &row = rows()[i];
      if (trySegments(row.time))
        return share(segments());
      if (row.peakBytes + stateOutside > roundedUp(budget))
        continue;
      // What a row takes is known once it has been packed for a larger budget.
      auto known = arenaOfRow.find(i);
      if (known != arenaOfRow.end() && known->second > budget)
        continue;
      StepChoice choice = scheduled(row.solution, budget);
      arenaOfRow[i] = choice.arenaBytes;
      if (choice.arenaBytes <= budget)
        return choice;
    }
    if (trySegments(segments().time))
      return share(segments());
    return std::nullopt;
  }

  StepChoice smallest() {
    StepChoice best = share(keepAll);
    if (segments().arenaBytes < best.arenaBytes)
      best = share(segments());
    if (!rows().empty()) {
      StepChoice choice = scheduled(rows().back().solution, std::nullopt);
      if (choice.arenaBytes < best.arenaBytes)
        best = std::move(choice);
    }
    return best;
  }

  Bytes lowerBound() {
    rows(); // in front of other questions: what the planner learns must not depend on budgets
    Bytes arena = planner->plan(0).peakBound + stateOutside - (kAlignment - 1);
    return std::max(arena, otherGraphs);
  }

  schedule::Cost timeBound(Bytes budget) {
    rows();
    return planner->plan(roundedUp(budget) - stateOutside).bound();
  }

  OwningOpRef<ModuleOp> ordered(const StepChoice &choice) const {
    OwningOpRef<ModuleOp> module = choice.method == "segments" ? segmented() : copyOf(bound);
    if (choice.solution)
      applyTo(*module, *choice.solution);
    runStage(*module, "order", addSharePasses);
    return module;
  }

  StepChoice keepAll;

private:
  /// Schedules count every buffer rounded up to the alignment; an arena's highest buffer is not.
  static Bytes roundedUp(Bytes budget) { return alignUp(budget, kAlignment); }

  /// A copy of a choice with a module of its own.
  static StepChoice share(const StepChoice &choice) {
    StepChoice copy;
    copy.method = choice.method;
    copy.solution = choice.solution;
    copy.time = choice.time;
    copy.livePeakBytes = choice.livePeakBytes;
    copy.arenaBytes = choice.arenaBytes;
    copy.placed = copyOf(choice.placed);
    return copy;
  }

  void applyTo(ModuleOp module, const schedule::Solution &solution) const {
    func::FuncOp graph = trainGraph(module);
    applySchedule(graph, buildStepProblem(graph, costs, kAlignment), solution);
  }

  OwningOpRef<ModuleOp> segmented() const {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
    runStage(*module, "order", [](PassManager &manager) {
      CheckpointPassOptions options;
      options.mode = "sqrt";
      manager.addPass(createCheckpointPass(options));
      manager.addPass(createBindStatePass());
    });
    return module;
  }

  /// The whole frontier, always from the same sequence of questions: the same list for every
  /// budget.
  const std::vector<schedule::FrontierRow> &rows() {
    if (!allRows) {
      schedule::PlanOptions planOptions;
      planOptions.effort = options.effort;
      planner = std::make_unique<schedule::Planner>(problem, planOptions);
      // Above the planner's limit a frontier is one sweep; plans at fixed budgets make it denser.
      if (problem.ops.size() > planOptions.ladderLimit)
        for (int percent = 90; percent >= 30; percent -= 10)
          planner->plan(schedule::percentOf(planner->inputOrderPeak(), percent));
      allRows = planner->frontier();
    }
    return *allRows;
  }

  const StepChoice &segments() {
    if (!segmentChoice)
      segmentChoice = place("segments", segmented());
    return *segmentChoice;
  }

  StepChoice scheduled(const schedule::Solution &solution, std::optional<Bytes> budget) {
    OwningOpRef<ModuleOp> module = copyOf(bound);
    applyTo(*module, solution);
    StepChoice choice = place("schedule", std::move(module), budget);
    choice.solution = solution;
    return choice;
  }

  /// Shares, packs and verifies. With a budget, a step whose live bytes exceed it is not packed:
  /// its arena is then only bounded from below.
  StepChoice place(const char *method, OwningOpRef<ModuleOp> module,
                   std::optional<Bytes> budget = std::nullopt) {
    StepChoice choice;
    choice.method = method;
    runStage(*module, "order", addSharePasses);
    func::FuncOp graph = trainGraph(*module);
    graph.walk([&](Operation *op) {
      if (op->getBlock() == &graph.getBody().front() && !launchesNothing(op))
        choice.time += costs.costOf(op);
    });
    Liveness liveness(graph);
    choice.livePeakBytes = liveness.transientPeak() + liveness.stateBytes();
    choice.arenaBytes = choice.livePeakBytes;
    if (budget && choice.livePeakBytes > *budget)
      return choice;
    runStage(*module, "place", addPlacePasses);
    choice.arenaBytes = bytesAttr(*module, kArenaBytesAttr);
    choice.placed = std::move(module);
    return choice;
  }

  const CostModel costs;
  const BudgetOptions options;
  ModuleOp prepared;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  schedule::Problem problem;   ///< of the training graph
  std::unique_ptr<schedule::Planner> planner;
  std::optional<StepChoice> segmentChoice;
  std::optional<std::vector<schedule::FrontierRow>> allRows; ///< by falling peak, rising time
  std::map<size_t, Bytes> arenaOfRow; ///< of rows looked at: the arena, or a lower bound of it
  Bytes stateOutside = 0;             ///< state that the training graph does not hold
  Bytes otherGraphs = 0;              ///< least arena of the other graphs
};

BudgetPlanner::BudgetPlanner(ModuleOp prepared, const CostModel &costs, BudgetOptions options)
    : impl(std::make_unique<Impl>(prepared, costs, options)) {}
BudgetPlanner::~BudgetPlanner() = default;

const StepChoice &BudgetPlanner::keepAll() const { return impl->keepAll; }
std::optional<StepChoice> BudgetPlanner::plan(Bytes budget) { return impl->plan(budget); }
StepChoice BudgetPlanner::smallest() { return impl->smallest(); }
Bytes BudgetPlanner::lowerBound() { return impl->lowerBound(); }
schedule::Cost BudgetPlanner::timeBound(Bytes budget) { return impl->timeBound(budget); }
OwningOpRef<ModuleOp> BudgetPlanner::ordered(const StepChoice &choice) const {
  return impl->ordered(choice);
}

} // namespace stow
