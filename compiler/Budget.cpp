#include "compiler/Budget.h"

#include "compiler/Pipeline.h"
#include "ir/Stow.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <tuple>

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
      : costs(deviceCosts), prepared(prepared) {
    bound = cast<ModuleOp>(prepared->clone());
    runStage(*bound, "order", [](PassManager &manager) {
      manager.addPass(createCheckpointPass(CheckpointPassOptions{}));
      manager.addPass(createBindStatePass());
    });
    StepProblem step = buildStepProblem(trainGraph(*bound), costs, kAlignment);
    keepAll = place("keep all", copyOf(bound));
    stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - step.problem.pinnedBytes();
    schedule::PlanOptions planOptions;
    planOptions.effort = options.effort;
    planner = std::make_unique<schedule::Planner>(step.problem, planOptions);
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
    // Rows of the frontier by rising time; each row's peak says where the next one begins.
    for (Bytes live = budget; live >= 0;) {
      schedule::PlanResult row = planner->plan(live - stateOutside);
      if (!triedSegments && (!row.solution || segments().time <= row.time)) {
        triedSegments = true;
        if (segments().arenaBytes <= budget)
          return share(segments());
      }
      if (!row.solution)
        break;
      StepChoice choice = scheduled(*row.solution, row.time, budget);
      if (choice.arenaBytes <= budget)
        return choice;
      live = row.peakBytes + stateOutside - 1;
    }
    return std::nullopt;
  }

  std::vector<StepChoice> frontier(int points) {
    std::vector<schedule::FrontierRow> rows = planner->frontier();
    std::vector<StepChoice> all;
    all.push_back(share(keepAll));
    all.push_back(share(segments()));
    const size_t wanted = std::max(2, points);
    for (size_t i = 0, last = rows.size(); i < last; ++i) {
      // Evenly spread over the rows, both ends included.
      bool taken = last <= wanted || i + 1 == last || i * wanted / last != (i + 1) * wanted / last;
      if (taken)
        all.push_back(scheduled(rows[i].solution, rows[i].time, std::nullopt));
    }
    std::sort(all.begin(), all.end(), [](const StepChoice &a, const StepChoice &b) {
      return std::tie(a.time, a.arenaBytes, a.method) < std::tie(b.time, b.arenaBytes, b.method);
    });
    std::vector<StepChoice> best;
    for (StepChoice &choice : all)
      if (best.empty() || choice.arenaBytes < best.back().arenaBytes)
        best.push_back(std::move(choice));
    return best;
  }

  StepChoice smallest() {
    schedule::PlanResult least = planner->plan(0);
    StepChoice best = share(keepAll);
    if (segments().arenaBytes < best.arenaBytes)
      best = share(segments());
    if (least.smallestPeakSolution) {
      StepChoice choice = scheduled(*least.smallestPeakSolution, 0, std::nullopt);
      if (choice.arenaBytes < best.arenaBytes)
        best = std::move(choice);
    }
    return best;
  }

  Bytes lowerBound() { return std::max(planner->plan(0).peakBound + stateOutside, otherGraphs); }

  schedule::Cost timeBound(Bytes budget) { return planner->plan(budget - stateOutside).bound(); }

  OwningOpRef<ModuleOp> ordered(const StepChoice &choice) const {
    OwningOpRef<ModuleOp> module = choice.method == "segments" ? segmented() : copyOf(bound);
    if (choice.solution)
      applyTo(*module, *choice.solution);
    runStage(*module, "order", addSharePasses);
    return module;
  }

  StepChoice keepAll;

private:
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

  const StepChoice &segments() {
    if (!segmentChoice)
      segmentChoice = place("segments", segmented());
    return *segmentChoice;
  }

  StepChoice scheduled(const schedule::Solution &solution, schedule::Cost time,
                       std::optional<Bytes> budget) {
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
  ModuleOp prepared;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  std::unique_ptr<schedule::Planner> planner;
  std::optional<StepChoice> segmentChoice;
  Bytes stateOutside = 0; ///< state that the training graph does not hold
  Bytes otherGraphs = 0;  ///< least arena of the other graphs
};

BudgetPlanner::BudgetPlanner(ModuleOp prepared, const CostModel &costs, BudgetOptions options)
    : impl(std::make_unique<Impl>(prepared, costs, options)) {}
BudgetPlanner::~BudgetPlanner() = default;

const StepChoice &BudgetPlanner::keepAll() const { return impl->keepAll; }
std::optional<StepChoice> BudgetPlanner::plan(Bytes budget) { return impl->plan(budget); }
StepChoice BudgetPlanner::smallest() { return impl->smallest(); }
std::vector<StepChoice> BudgetPlanner::frontier(int points) { return impl->frontier(points); }
Bytes BudgetPlanner::lowerBound() { return impl->lowerBound(); }
schedule::Cost BudgetPlanner::timeBound(Bytes budget) { return impl->timeBound(budget); }
OwningOpRef<ModuleOp> BudgetPlanner::ordered(const StepChoice &choice) const {
  return impl->ordered(choice);
}

} // namespace stow
