#include "passes/plan/Shapes.h"

#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Stages.h"
#include "runtime/base/Error.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

using namespace mlir;

namespace stow {
namespace {

StringRef nameOf(func::FuncOp graph, unsigned argument) {
  return graph.getArgAttrOfType<StringAttr>(argument, kNameAttr).getValue();
}

/// One tensor of the state as a graph has it.
struct State {
  std::string name;
  RankedTensorType type;
  DictionaryAttr attributes;
  Location location;
};

/// The state of all graphs, each tensor once, in the order in which they are packed.
std::vector<State> stateOf(ModuleOp module) {
  std::vector<State> all;
  llvm::StringMap<size_t> known;
  for (auto graph : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (isStateArgument(graph, i) && known.try_emplace(nameOf(graph, i), all.size()).second)
        all.push_back({nameOf(graph, i).str(), tensorType(graph.getArgument(i)),
                       graph.getArgAttrDict(i), graph.getArgument(i).getLoc()});
  return all;
}

/// Whether the argument, of a step form, is the tensor `known` of a prepared step. What a model computes with alone, and nobody
/// saves, is the same where its elements are.
bool isSameState(func::FuncOp graph, unsigned argument, const State &known) {
  if (graph.getArgAttr(argument, kEightBitsAttr))
    return true; // the prepared step has codes in its place
  if (withoutLayout(tensorType(graph.getArgument(argument))) != withoutLayout(known.type))
    return false;
  return !graph.getArgAttr(argument, kUnsavedAttr) ||
         isSameInit(graph.getArgAttr(argument, kInitAttr), known.attributes.get(kInitAttr));
}

/// A graph in front of the others that has nothing but state, in the layouts that theirs is to have.
void pinLayouts(ModuleOp step, ArrayRef<State> pinned) {
  OpBuilder builder = OpBuilder::atBlockBegin(step.getBody());
  auto graph = func::FuncOp::create(builder, step.getLoc(), "state_of_the_largest_shape",
                                    builder.getFunctionType({}, {}));
  setRole(graph, Role::Measure); // of which a step has none
  Block *block = graph.addEntryBlock();
  for (const State &state : pinned)
    (void)graph.insertArgument(graph.getNumArguments(), state.type, state.attributes,
                               state.location);
  builder.setInsertionPointToEnd(block);
  func::ReturnOp::create(builder, step.getLoc());
}

/// Makes the state among the arguments of `graph` that of `all`, behind all others.
void arrangeState(func::FuncOp graph, ArrayRef<State> all) {
  llvm::StringMap<unsigned> own;
  SmallVector<StringRef> order;
  const unsigned count = graph.getNumArguments();
  llvm::BitVector gone(count);
  for (unsigned i = 0; i < count; ++i)
    if (isStateArgument(graph, i)) {
      own[nameOf(graph, i)] = i;
      order.push_back(nameOf(graph, i));
      gone.set(i);
    }
  if (llvm::equal(order, all,
                  [](StringRef name, const State &state) { return name == state.name; }))
    return;
  for (const State &state : all) {
    auto found = own.find(state.name);
    const bool isOwn = found != own.end();
    if (isOwn && graph.getArgument(found->second).getType() != state.type)
      throw Error::internal("state \"" + state.name + "\" has another type in another shape");
    (void)graph.insertArgument(graph.getNumArguments(), state.type,
                               isOwn ? graph.getArgAttrDict(found->second) : state.attributes,
                               state.location);
    if (isOwn)
      graph.getArgument(found->second)
          .replaceAllUsesWith(graph.getArgument(graph.getNumArguments() - 1));
  }
  gone.resize(graph.getNumArguments());
  (void)graph.eraseArguments(gone);
}

/// Where state lies that the graphs of `module` name, in the arena or in slow memory.
llvm::StringMap<int64_t> statePlaces(ModuleOp module) {
  llvm::StringMap<int64_t> places;
  for (auto graph : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (isStateArgument(graph, i))
        places[nameOf(graph, i)] =
            graph
                .getArgAttrOfType<IntegerAttr>(
                    i, slowStateOf(graph.getArgument(i)) ? kSlowOffsetAttr : kOffsetAttr)
                .getInt();
  return places;
}

} // namespace

bool isSameInit(Attribute init, Attribute other) {
  auto ours = dyn_cast_or_null<DenseResourceElementsAttr>(init);
  auto its = dyn_cast_or_null<DenseResourceElementsAttr>(other);
  if (!ours || !its)
    return init == other;
  const AsmResourceBlob *blob = ours.getRawHandle().getBlob(),
                        *itsBlob = its.getRawHandle().getBlob();
  return ours.getType() == its.getType() && blob && itsBlob &&
         blob->getData() == itsBlob->getData();
}

/// Whether the result has elements of the operands, moved.
bool movesElements(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp, StridedSliceOp, PadOp, ConcatOp, SelectOp>(op);
}

std::optional<int64_t> ignoredLabel(Value labels) {
  constexpr int64_t none = std::numeric_limits<int64_t>::min();
  for (OpOperand &use : labels.getUses()) {
    Operation *user = use.getOwner();
    std::optional<int64_t> found;
    if (auto rows = dyn_cast<CrossEntropyRowsOp>(user); rows && use.getOperandNumber() == 1)
      found = static_cast<int64_t>(rows.getIgnoreIndex());
    else if (auto rows = dyn_cast<NllRowsOp>(user); rows && use.getOperandNumber() == 1)
      found = static_cast<int64_t>(rows.getIgnoreIndex());
    else if (movesElements(user) &&
             getElementTypeOrSelf(user->getResult(0)) == getElementTypeOrSelf(labels))
      found = ignoredLabel(user->getResult(0));
    if (found && *found != none)
      return found;
  }
  return std::nullopt;
}

std::string nameInShape(StringRef name, StringRef shape) {
  return absl::StrCat(name.str(), "@", shape.str());
}

void takeStateOf(ModuleOp first, StringRef shape, ModuleOp step) {
  const std::vector<State> known = stateOf(first);
  llvm::StringMap<const State *> byName;
  for (const State &state : known)
    byName[state.name] = &state;
  std::vector<State> pinned;
  llvm::StringSet<> isPinned;
  for (auto graph : step.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
      if (!isStateArgument(graph, i))
        continue;
      const std::string name = nameOf(graph, i).str();
      const State *same = byName.lookup(name);
      if (same && isSameState(graph, i, *same)) {
        if (!graph.getArgAttr(i, kEightBitsAttr) && isPinned.insert(name).second)
          pinned.push_back(*same);
        continue;
      }
      if (!graph.getArgAttr(i, kUnsavedAttr))
        throw Error::badInput(absl::StrCat("\"", name, "\" is ",
                                           same ? "of another size" : "no state of the step",
                                           " in the largest shape than in ", shape.str(),
                                           "; the state of a step is the same in all of its "
                                           "shapes: take one shape, or a model whose "
                                           "parameters do not follow the sizes of its inputs"));
      graph.setArgAttr(i, kNameAttr, StringAttr::get(step.getContext(), nameInShape(name, shape)));
    }
  pinLayouts(step, pinned);
}

/// Whether a table is read at these numbers, perhaps moved.
static bool indexesTable(Value numbers) {
  return llvm::any_of(numbers.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto table = dyn_cast<EmbeddingOp>(user))
      return table.getIndices() == use.get();
    return (movesElements(user) || isa<CastOp>(user)) && indexesTable(user->getResult(0));
  });
}

void noteLabels(ModuleOp step) {
  for (auto graph : step.getOps<func::FuncOp>())
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (kindOfArgument(graph, i) == ArgumentKind::Input)
        if (std::optional<int64_t> ignored = ignoredLabel(graph.getArgument(i))) {
          if (indexesTable(graph.getArgument(i)))
            throw Error::badInput(absl::StrCat(
                "--shapes: \"", nameOf(graph, i).str(),
                "\" is labels and indexes a table, and "
                "what is missing in a row cannot be both; expected the labels as an input of "
                "their own"));
          graph.setArgAttr(i, kPaddingAttr, Builder(step).getI64IntegerAttr(*ignored));
        }
}

void shareState(ArrayRef<ModuleOp> prepared) {
  for (ModuleOp step : prepared.drop_front())
    findGraph(step, Role::Measure).erase(); // what pinned layouts
  std::vector<State> all;
  llvm::StringSet<> known;
  for (ModuleOp step : prepared)
    for (State &state : stateOf(step))
      if (known.insert(state.name).second)
        all.push_back(std::move(state));
  for (ModuleOp step : prepared)
    for (auto graph : step.getOps<func::FuncOp>())
      if (isStepGraph(graph))
        arrangeState(graph, all);
}

StepAnswer answerForShape(Steps &steps, const StepQuestion &question, const StepAnswer &largest,
                          int64_t shape, std::optional<int64_t> samples) {
  StepQuestion asked = question;
  asked.asked = largest.step->variant;
  asked.asked.shape = shape;
  asked.asked.samples = samples;
  asked.asGiven = true;
  asked.inSegments = false;
  asked.beside = {};
  asked.allowance = Allowance();
  asked.budget = ByteBudget{largest.choice->arenaBytes, {}};
  StepAnswer found = answer(steps, asked);
  if (found.choice)
    return found;
  asked.allowance = question.allowance;
  if (question.budget)
    asked.budget = ByteBudget{largest.arenaBudget(), {}};
  else
    asked.budget.reset();
  return answer(steps, asked);
}

void joinShape(ModuleOp placed, StringRef shape, ModuleOp largest) {
  const llvm::StringMap<int64_t> known = statePlaces(largest);
  for (const auto &[name, offset] : statePlaces(placed))
    if (!known.contains(name) || known.lookup(name) != offset)
      throw Error::internal("two shapes of the step disagree on where \"" + name.str() + "\" lies");
  OpBuilder builder = OpBuilder::atBlockEnd(largest.getBody());
  for (auto graph : placed.getOps<func::FuncOp>()) {
    auto copy = cast<func::FuncOp>(graph->clone());
    copy.setName(absl::StrCat(graph.getName().str(), "@", shape.str()));
    copy->setAttr(kShapeAttr, builder.getStringAttr(shape));
    builder.insert(copy);
  }
  takeLargerBytes(placed, largest);
  runStage(largest, "order", addPlacedChecks);
}

} // namespace stow
