#include "passes/plan/Evaluation.h"

#include "ir/StepGraphs.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Stages.h"
#include "runtime/base/Bytes.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

/// State by name and where it lies.
llvm::StringMap<int64_t> statePlaces(ModuleOp placed) {
  llvm::StringMap<int64_t> places;
  for (auto graph : placed.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (isStateArgument(graph, i))
        places[graph.getArgAttrOfType<StringAttr>(i, kNameAttr).getValue()] =
            graph.getArgAttrOfType<IntegerAttr>(i, kOffsetAttr).getInt();
  return places;
}

/// Samples in the first input of a graph; 0 where it has none, or no dimension.
int64_t samplesOf(func::FuncOp graph) {
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (kindOfArgument(graph, i) == ArgumentKind::Input) {
      RankedTensorType type = tensorType(graph.getArgument(i));
      return type.getRank() > 0 ? type.getDimSize(0) : 0;
    }
  return 0;
}

/// A graph with the state of `graph` and nothing else.
func::FuncOp stateAloneOf(func::FuncOp graph) {
  func::FuncOp hollow = graph.cloneWithoutRegions();
  Block &block = hollow.getBody().emplaceBlock();
  for (BlockArgument argument : graph.getArguments())
    block.addArgument(argument.getType(), argument.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  func::ReturnOp::create(builder, graph.front().getTerminator()->getLoc());
  llvm::BitVector results(graph.getNumResults(), true), arguments(graph.getNumArguments());
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    arguments[i] = !isStateArgument(graph, i);
  (void)hollow.eraseResults(results);
  (void)hollow.eraseArguments(arguments);
  return hollow;
}

/// A copy with nothing of some graphs but their state.
OwningOpRef<ModuleOp> copyWithout(llvm::function_ref<bool(func::FuncOp)> isLeftOut,
                                  ModuleOp prepared) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->cloneWithoutRegions());
  OpBuilder builder = OpBuilder::atBlockEnd(&module->getBodyRegion().emplaceBlock());
  for (Operation &op : *prepared.getBody()) {
    auto graph = dyn_cast<func::FuncOp>(op);
    builder.insert(graph && isLeftOut(graph) ? stateAloneOf(graph) : op.clone());
  }
  return module;
}

} // namespace

void replaceEvaluation(func::FuncOp evaluation, ModuleOp step) {
  func::FuncOp hollow = findGraph(step, Role::Eval);
  OpBuilder builder(hollow);
  builder.insert(evaluation->clone());
  hollow.erase();
}

OwningOpRef<ModuleOp> withoutStep(ModuleOp prepared) {
  return copyWithout([](func::FuncOp graph) { return isStepGraph(graph); }, prepared);
}

OwningOpRef<ModuleOp> withoutEvaluation(ModuleOp prepared) {
  return copyWithout([](func::FuncOp graph) { return roleOf(graph) == Role::Eval; }, prepared);
}

EvaluationPlanner::EvaluationPlanner(ModuleOp prepared, const CostModel &costs,
                                     const Target &target, EvaluationParts given,
                                     CandidateOptions candidates)
    : costs(costs), target(target), parts(std::move(given)),
      options{std::move(candidates.refusedPath)}, prepared(prepared) {
  if (findGraph(prepared, Role::Eval))
    whole = place(samplesOf(findGraph(prepared, Role::Eval)), withoutStep(prepared));
}

EvaluationPlanner::Placed EvaluationPlanner::place(int64_t size,
                                                   OwningOpRef<ModuleOp> module) const {
  Placed result;
  result.size = size;
  result.prepared = std::move(module);
  CandidateMaker maker(costs, target, options);
  StepChoice choice = maker.make("evaluation", withPlacesInside(*result.prepared, target),
                                 PackBuffersPassOptions().work);
  if (choice.isRefused())
    throw Error::internal("internal error: the checks refuse the evaluation of this model: " +
                          describe(maker.refusals().front()));
  result.placed = std::move(choice.placed);
  result.arenaBytes = choice.arenaBytes;
  result.lowerBound = bytesAttr(*result.placed, kLowerBoundAttr);
  return result;
}

const std::vector<int64_t> &EvaluationPlanner::sizes() {
  if (!knownSizes)
    knownSizes = parts.sizes(whole->size);
  return *knownSizes;
}

const EvaluationPlanner::Placed *EvaluationPlanner::partOf(int64_t size) {
  auto found = known.find(size);
  if (found == known.end()) {
    OwningOpRef<ModuleOp> module = parts.at(prepared, size);
    found =
        known.emplace(size, module ? std::optional(place(size, std::move(module))) : std::nullopt)
            .first;
  }
  return found->second ? &*found->second : nullptr;
}

const EvaluationPlanner::Placed *EvaluationPlanner::within(Bytes budget) {
  if (whole->arenaBytes <= budget)
    return &*whole;
  const Bytes state = bytesAttr(*whole->placed, kPersistentBytesAttr);
  if (budget < state)
    return nullptr;
  for (int64_t size : sizes()) {
    // Beside state, a part takes its share of a whole batch or more; a tenth is left to workspaces.
    const double share = static_cast<double>(size) / static_cast<double>(whole->size);
    if (0.9 * share * static_cast<double>(whole->arenaBytes - state) >
        static_cast<double>(budget - state))
      continue;
    if (const Placed *part = partOf(size); part && part->arenaBytes <= budget)
      return part;
  }
  return nullptr;
}

Bytes EvaluationPlanner::leastFrom(Bytes budget) {
  if (fits(budget))
    return budget;
  Bytes least = whole->arenaBytes;
  for (int64_t size : sizes())
    if (const Placed *part = partOf(size))
      least = std::min(least, part->arenaBytes);
  return least;
}

std::string EvaluationPlanner::obstacleTo(Bytes budget) {
  if (fits(budget) || !sizes().empty() || parts.obstacle().empty())
    return "";
  return absl::StrCat("evaluation takes ", formatBytesExact(whole->arenaBytes),
                      " and cannot run on parts of the batch: ", parts.obstacle());
}

Bytes EvaluationPlanner::lowerBound() {
  if (!whole)
    return 0;
  if (sizes().empty())
    return whole->lowerBound;
  const Placed *least = partOf(sizes().back());
  return least ? std::min(least->lowerBound, whole->lowerBound)
               : bytesAttr(*whole->placed, kPersistentBytesAttr);
}

StepChoice EvaluationPlanner::joinedWithin(Bytes budget, StepChoice choice) {
  return whole ? joined(std::move(choice), *within(budget)) : std::move(choice);
}

StepChoice EvaluationPlanner::joinedWhole(StepChoice choice) const {
  return whole ? joined(std::move(choice), *whole) : std::move(choice);
}

StepChoice EvaluationPlanner::joined(StepChoice choice, const Placed &evaluation) const {
  if (choice.isRefused())
    return choice;
  ModuleOp step = *choice.placed, other = *evaluation.placed;
  const llvm::StringMap<int64_t> places = statePlaces(step);
  for (const auto &[name, offset] : statePlaces(other))
    if (places.lookup(name) != offset)
      throw Error::internal("the step and its evaluation disagree on where \"" + name.str() +
                            "\" lies");
  replaceEvaluation(findGraph(other, Role::Eval), step);
  takeLargerBytes(other, step);
  choice.arenaBytes = std::max(choice.arenaBytes, evaluation.arenaBytes);
  if (evaluation.size != whole->size)
    addNote(step,
            absl::StrCat(kPartsNote.str(), evaluation.size, " of ", whole->size,
                         " samples at a time and takes ", formatBytesExact(evaluation.arenaBytes),
                         "; on all of them ", formatBytesExact(whole->arenaBytes)));
  runStage(step, "order", addPlacedChecks);
  return choice;
}

void EvaluationPlanner::orderLike(ModuleOp placed, ModuleOp step) const {
  if (!whole)
    return;
  const Placed *like = &*whole;
  auto inputs = [](ModuleOp module) { return findGraph(module, Role::Eval).getArgumentTypes(); };
  for (const auto &[size, part] : known)
    if (part && inputs(*part->placed) == inputs(placed))
      like = &*part;
  OwningOpRef<ModuleOp> evaluation = withPlacesInside(like->prepared.get(), target);
  runStage(*evaluation, "order", [&](PassManager &manager) { addSharePasses(manager, target); });
  replaceEvaluation(findGraph(*evaluation, Role::Eval), step);
}

} // namespace stow
