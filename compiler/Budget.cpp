#include "compiler/Budget.h"

#include "compiler/PackingWindow.h"
#include "compiler/Pipeline.h"
#include "ir/Stow.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace mlir;

namespace stow {
namespace {

constexpr Bytes kAlignment = 64; // stow-pack-buffers' default

/// Steps to pack one candidate, about a second up to 15,000 buffers. Where they do not suffice, the
/// next candidate is a quarter of a percent smaller: that is found sooner than a better packing.
constexpr int64_t kPackingWork = 500'000'000;

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
      manager.addPass(createPlaceInsidePass());
    });
    StepProblem step = buildStepProblem(trainGraph(*bound), costs, kAlignment);
    keepAll = place("keep all", copyOf(bound));
    stateOutside = bytesAttr(*keepAll.placed, kPersistentBytesAttr) - step.problem.pinnedBytes();
    problem = std::move(step.problem);
    schedule::PlanOptions planOptions;
    planOptions.effort = options.effort;
    planner = std::make_unique<schedule::Planner>(problem, planOptions);
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
    // Rows by rising time, and between them, where they belong by their time, the rows planned
    // again because packing overshot.
    std::vector<const StepChoice *> waiting;
    auto takeWaiting = [&](schedule::Cost below) -> const StepChoice * {
      const StepChoice *best = nullptr;
      for (const StepChoice *candidate : waiting)
        if (candidate->arenaBytes <= budget && candidate->time < below &&
            (!best || candidate->time < best->time))
          best = candidate;
      return best;
    };
    for (int i = firstWithin(budget); i < kRows && row(i); ++i) {
      const schedule::FrontierRow &row = *this->row(i);
      if (const StepChoice *tightened = takeWaiting(row.time); tightened)
        return trySegments(tightened->time) ? share(segments()) : share(*tightened);
      if (trySegments(row.time))
        return share(segments());
      if (arenaOf(i) <= budget)
        return share(placedRow(i));
      if (const StepChoice *tightened = tightenedRow(i))
        waiting.push_back(tightened);
    }
    if (const StepChoice *tightened = takeWaiting(std::numeric_limits<schedule::Cost>::max()))
      return trySegments(tightened->time) ? share(segments()) : share(*tightened);
    if (trySegments(segments().time))
      return share(segments());
    if (budget < lowerBound())
      return std::nullopt;
    // A row planned again may take less than the peak of the row it comes from.
    return smallest().arenaBytes <= budget ? std::optional(share(smallest())) : std::nullopt;
  }

  const StepChoice &smallest() {
    if (!smallestChoice)
      smallestChoice = findSmallest();
    return *smallestChoice;
  }

  Bytes lowerBound() {
    Bytes arena = planner->peakBound() + stateOutside - (kAlignment - 1);
    return std::max(arena, otherGraphs);
  }

  schedule::Cost timeBound(Bytes budget) {
    return planner->timeBound(roundedUp(budget) - stateOutside);
  }

  OwningOpRef<ModuleOp> ordered(const StepChoice &choice) const {
    OwningOpRef<ModuleOp> module = choice.method == "segments" ? segmented() : copyOf(bound);
    if (choice.solution)
      applyTo(*module, *choice.solution);
    runStage(*module, "order", addSharePasses);
    return module;
  }

  StepChoice keepAll;
  schedule::Problem problem; ///< of the training graph

private:
  /// Schedules count every buffer rounded up to the alignment; an arena's highest buffer is not.
  static Bytes roundedUp(Bytes budget) { return alignUp(budget, kAlignment); }

  StepChoice findSmallest() {
    StepChoice best = share(keepAll);
    if (segments().arenaBytes < best.arenaBytes)
      best = share(segments());
    // Peaks rise from the last row on, and no arena is smaller than its peak.
    for (int i = lastRow(); i >= 0; --i) {
      if (row(i)->peakBytes + stateOutside - (kAlignment - 1) >= best.arenaBytes)
        break;
      if (arenaOf(i) < best.arenaBytes)
        best = share(placedRow(i));
      if (const StepChoice *tightened = tightenedRow(i))
        if (tightened->arenaBytes < best.arenaBytes)
          best = share(*tightened);
    }
    return best;
  }

  /// The candidates: the planner's answers to fixed budgets, quarters of a percent of the input
  /// order's peak, from all of it down. Peaks fall and times rise from row to row. Absent from the
  /// first budget on for which there is no schedule. Rows are computed when they are asked for.
  static constexpr int kRows = 400;
  const std::optional<schedule::FrontierRow> &row(int index) {
    auto [known, isNew] = knownRows.try_emplace(index);
    if (isNew)
      known->second = planner->schedule(rowBudget(index));
    return known->second;
  }

  Bytes rowBudget(int index) const {
    return schedule::percentOf(planner->inputOrderPeak(), 100.0 * (kRows - index) / kRows);
  }

  bool isWithin(int index, Bytes budget) {
    return row(index) && row(index)->peakBytes + stateOutside <= roundedUp(budget);
  }

  /// The first row whose live bytes are within the budget, if there is one.
  int firstWithin(Bytes budget) {
    int index = 0;
    while (index < kRows && rowBudget(index) + stateOutside > roundedUp(budget))
      ++index;
    if (index == kRows || !row(index))
      index = lastRow() + 1;
    while (index > 0 && isWithin(index - 1, budget)) // what is for more memory may need less of it
      --index;
    return index;
  }

  /// The row with the least live bytes; -1: there is none.
  int lastRow() {
    int found = -1, missing = kRows;
    while (found + 1 < missing) {
      const int middle = found + (missing - found) / 2;
      (row(middle) ? found : missing) = middle;
    }
    return found;
  }

  /// What `table` knows of the schedule of a row. Neighbours often have the same.
  template <typename Entry> Entry *findSame(std::map<int, Entry> &table, int index) {
    for (auto &[known, entry] : table)
      if (isSame(*row(known), *row(index)))
        return &entry;
    return nullptr;
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
    schedule::Problem tighter = problem;
    schedule::Solution solution = row.solution;
    for (int round = 0; round < kRounds; ++round) {
      StepChoice choice = round == 0 ? share(placedRow(index)) : scheduled(solution);
      if (choice.arenaBytes <= target) {
        // A faster plan here would have been on the frontier but for luck; rows come first.
        if (round > 0 && choice.time >= row.time)
          found = std::move(choice);
        break;
      }
      tighter = withLessRoom(tighter, solution, stepsAbove(*choice.placed, target),
                             alignUp(choice.arenaBytes - target, kAlignment));
      auto reduced = reduceTo(tighter, solution, row.peakBytes);
      if (!reduced)
        break;
      solution = std::move(*reduced);
    }
    return found ? &*found : nullptr;
  }

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

  StepChoice scheduled(const schedule::Solution &solution) {
    OwningOpRef<ModuleOp> module = copyOf(bound);
    applyTo(*module, solution);
    StepChoice choice = place("schedule", std::move(module));
    choice.solution = solution;
    return choice;
  }

  /// Shares, packs and verifies.
  StepChoice place(const char *method, OwningOpRef<ModuleOp> module) {
    StepChoice choice;
    choice.method = method;
    runStage(*module, "order", addSharePasses);
    func::FuncOp graph = trainGraph(*module);
    choice.time = costs.timeOf(graph).total();
    Liveness liveness(graph);
    choice.livePeakBytes = liveness.transientPeak() + liveness.stateBytes();
    runStage(*module, "place", [](PassManager &manager) {
      PackBuffersPassOptions pack;
      pack.work = kPackingWork;
      addPlacePasses(manager, pack);
    });
    choice.arenaBytes = bytesAttr(*module, kArenaBytesAttr);
    choice.placed = std::move(module);
    return choice;
  }

  const CostModel costs;
  const BudgetOptions options;
  ModuleOp prepared;
  OwningOpRef<ModuleOp> bound; ///< everything kept, state bound, nothing shared yet
  std::unique_ptr<schedule::Planner> planner;
  std::optional<StepChoice> segmentChoice, smallestChoice;
  std::map<int, std::optional<schedule::FrontierRow>> knownRows;
  std::map<int, Bytes> arenaOfRow;
  std::optional<std::pair<int, StepChoice>> lastPlaced;
  std::map<int, std::optional<StepChoice>> tightened; ///< of rows that packing overshot
  Bytes stateOutside = 0; ///< state that the training graph does not hold
  Bytes otherGraphs = 0;  ///< least arena of the other graphs
};

BudgetPlanner::BudgetPlanner(ModuleOp prepared, const CostModel &costs, BudgetOptions options)
    : impl(std::make_unique<Impl>(prepared, costs, options)) {}
BudgetPlanner::~BudgetPlanner() = default;

const schedule::Problem &BudgetPlanner::problem() const { return impl->problem; }
const StepChoice &BudgetPlanner::keepAll() const { return impl->keepAll; }
std::optional<StepChoice> BudgetPlanner::plan(Bytes budget) { return impl->plan(budget); }
const StepChoice &BudgetPlanner::smallest() { return impl->smallest(); }
Bytes BudgetPlanner::lowerBound() { return impl->lowerBound(); }
schedule::Cost BudgetPlanner::timeBound(Bytes budget) { return impl->timeBound(budget); }
OwningOpRef<ModuleOp> BudgetPlanner::ordered(const StepChoice &choice) const {
  return impl->ordered(choice);
}

} // namespace stow
