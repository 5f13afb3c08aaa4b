#include "compiler/PartialEvaluation.h"

#include "compiler/Pipeline.h"
#include "ir/Joining.h"
#include "ir/StepGraphs.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowShapeOps.h"
#include "passes/memory/SendStates.h"
#include "passes/microbatch/SampleParts.h"
#include "passes/plan/Shapes.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace stow {
namespace {

StringAttr nameOf(func::FuncOp graph, unsigned argument) {
  return graph.getArgAttrOfType<StringAttr>(argument, kNameAttr);
}

/// True where the elements of `part` are the first ones of `whole`.
bool isBeginning(ElementsAttr part, ElementsAttr whole) {
  auto few = dyn_cast_or_null<DenseElementsAttr>(part),
       all = dyn_cast_or_null<DenseElementsAttr>(whole);
  if (!few || !all || few.getElementType() != all.getElementType())
    return false;
  if (few.isSplat() || all.isSplat())
    return few.isSplat() && all.isSplat() && few.getRawData() == all.getRawData();
  return all.getRawData().take_front(few.getRawData().size()) == few.getRawData();
}

/// Makes argument `index` of `graph`, a constant with a row for each sample, the beginning of the constant of
/// a whole batch, `known` with its attributes. False where it is none.
bool takeBeginning(func::FuncOp graph, unsigned index, RankedTensorType known,
                   DictionaryAttr attributes) {
  BlockArgument argument = graph.getArgument(index);
  auto type = cast<RankedTensorType>(argument.getType());
  auto init = graph.getArgAttrOfType<ElementsAttr>(index, kInitAttr);
  if (type.getRank() == 0 || type.getRank() != known.getRank() || !attributes.get(kUnsavedAttr) ||
      type.getShape().drop_front() != known.getShape().drop_front() ||
      !isBeginning(init, dyn_cast_or_null<ElementsAttr>(attributes.get(kInitAttr))))
    return false;
  argument.setType(known);
  graph.setArgAttrs(index, attributes);
  OpBuilder builder = OpBuilder::atBlockBegin(&graph.front());
  const SmallVector<int64_t> starts(type.getRank(), 0);
  auto slice = SliceOp::create(builder, argument.getLoc(), argument, starts, type.getShape());
  argument.replaceAllUsesExcept(slice.getY(), slice);
  graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                          graph.getResultTypes()));
  return true;
}

llvm::StringMap<unsigned> argumentsByName(func::FuncOp graph) {
  llvm::StringMap<unsigned> numbers;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    numbers[nameOf(graph, i).getValue()] = i;
  return numbers;
}

/// Makes `graph`'s state that of `prepared`, in a shape of this name where a step has several, without layouts; false where it has other
/// state.
bool matchState(func::FuncOp graph, func::FuncOp prepared, StringRef shape) {
  const llvm::StringMap<unsigned> known = argumentsByName(prepared);
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    if (!isStateArgument(graph, i))
      continue;
    auto found = known.find(nameInShape(nameOf(graph, i).getValue(), shape));
    if (found == known.end())
      found = known.find(nameOf(graph, i).getValue());
    if (found == known.end())
      return false;
    const unsigned its = found->second;
    const RankedTensorType away = slowStateOf(prepared.getArgument(its));
    RankedTensorType type =
        withoutLayout(away ? away : cast<RankedTensorType>(prepared.getArgument(its).getType()));
    if (graph.getArgument(i).getType() != type &&
        !takeBeginning(graph, i, type, prepared.getArgAttrDict(its)))
      return false;
    if (!isSameInit(graph.getArgAttr(i, kInitAttr), prepared.getArgAttr(its, kInitAttr)))
      return false;
    graph.setArgAttrs(i, prepared.getArgAttrDict(its));
    graph.removeArgAttr(i, kSlowStateAttr); // until its fetches are made
  }
  return true;
}

/// True where the state of both lies alike.
bool hasSameLayouts(func::FuncOp graph, func::FuncOp prepared) {
  const llvm::StringMap<unsigned> known = argumentsByName(prepared);
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (isStateArgument(graph, i)) {
      auto found = known.find(nameOf(graph, i).getValue());
      if (found == known.end() ||
          prepared.getArgument(found->second).getType() != graph.getArgument(i).getType())
        return false;
    }
  return true;
}

class Parts {
public:
  Parts(MLIRContext &context, const CompileOptions &options, const StepVariant &given,
        const Backend &backend)
      : context(context), options(options), variant(given), backend(backend) {
    variant.batches = variant.lossChunks = variant.rowChunks = 1;
    variant.eightBitPercent = variant.awayPercent = 0; // nothing is updated
    if (variant.weightShardPercent == 0)
      variant.shardPercent = 0;
  }

  std::vector<int64_t> sizes(int64_t whole) {
    std::vector<int64_t> result;
    if (whole < 2)
      return result;
    if (!options.modelPath.ends_with(".onnx")) {
      why = "the shapes of an .mlir model are its own";
      return result;
    }
    OwningOpRef<ModuleOp> own = stepAt(whole), other = stepAt(whole + 1);
    if (!own || !other) {
      why = "the model does not import at another batch than its own";
      return result;
    }
    SampleParts parts =
        samplePartsOf(findGraph(*own, Role::Eval), findGraph(*other, Role::Eval), whole, whole + 1);
    why = parts.obstacle;
    if (!why.empty())
      return result;
    joinings = parts.results;
    for (int64_t size = whole / 2; size >= 1; --size)
      if (whole % size == 0)
        result.push_back(size);
    return result;
  }

  const std::string &obstacle() const { return why; }

  OwningOpRef<ModuleOp> at(ModuleOp prepared, int64_t size) {
    OwningOpRef<ModuleOp> step = stepAt(size);
    if (!step)
      return nullptr;
    func::FuncOp graph = findGraph(*step, Role::Eval), whole = findGraph(prepared, Role::Eval);
    const StringRef shape =
        options.shapes.empty() ? StringRef() : StringRef(options.shapes.at(variant.shape).name);
    if (graph.getNumResults() != joinings.size() || !matchState(graph, whole, shape))
      return nullptr;
    for (auto [index, joining] : llvm::enumerate(joinings))
      if (joining != Joining::Rows)
        graph.setResultAttr(index, kJoiningAttr, StringAttr::get(&context, nameOf(joining)));
    OwningOpRef<ModuleOp> module = withoutStep(prepared);
    replaceEvaluation(graph, *module);
    // Layouts are those of all graphs: weights leave for slow memory behind them.
    for (auto other : module->getOps<func::FuncOp>())
      withWeightsInArena(other);
    addKernels(*module, backend.target());
    for (auto other : module->getOps<func::FuncOp>())
      if (!fetchWeightsLike(prepared.lookupSymbol<func::FuncOp>(other.getSymName()), other))
        return nullptr;
    return hasSameLayouts(findGraph(*module, Role::Eval), whole) ? std::move(module) : nullptr;
  }

private:
  OwningOpRef<ModuleOp> stepAt(int64_t size) {
    variant.samples = size;
    return silentStep(context, options, variant, backend);
  }

  MLIRContext &context;
  const CompileOptions &options;
  StepVariant variant;
  const Backend &backend;
  SmallVector<Joining> joinings; ///< of the results
  std::string why;               ///< there are no parts
};

} // namespace

OwningOpRef<ModuleOp> silentStep(MLIRContext &context, const CompileOptions &options,
                                 const StepVariant &variant, const Backend &backend) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  try {
    return formOf(context, options, variant, backend, Form::Step);
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::BadInput)
      throw;
    return nullptr;
  }
}

EvaluationParts evaluationParts(MLIRContext &context, const CompileOptions &options,
                                const StepVariant &variant, const Backend &backend) {
  auto parts = std::make_shared<Parts>(context, options, variant, backend);
  EvaluationParts result;
  result.sizes = [parts](int64_t whole) { return parts->sizes(whole); };
  result.at = [parts](ModuleOp prepared, int64_t size) { return parts->at(prepared, size); };
  result.obstacle = [parts] { return parts->obstacle(); };
  return result;
}

} // namespace stow
