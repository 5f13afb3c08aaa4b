#include "compiler/ModelSteps.h"

#include "compiler/FixedBatch.h"
#include "compiler/PartialEvaluation.h"
#include "ir/StepGraphs.h"
#include "ir/StowOffloadOps.h"
#include "passes/fuse/Passes.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/GatherUpdates.h"
#include "passes/plan/Shapes.h"
#include "passes/plan/Stages.h"
#include "passes/rewrite/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/host/Outside.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringSet.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow {
namespace {

/// Samples of a step: --batch, or what the file has.
int64_t samplesPerStep(MLIRContext &context, const CompileOptions &options) {
  if (!options.modelPath.ends_with(".onnx"))
    throw Error::badInput(
        "--accumulate divides the batch, but the shapes of an .mlir model are its "
        "own; take the .onnx file that it comes from");
  if (options.import.batch)
    return *options.import.batch;
  if (const int64_t batch = batchOfFile(context, options); batch > 0)
    return batch;
  throw Error::badInput("--accumulate divides the samples of a step; say how many: --batch=N");
}

/// What --memory-budget covers beside the arena of `choice`: others', and what of the process it is to cover. Throws
/// Error(BadInput) where that is not known.
Bytes bytesBeside(const StepChoice &choice, const CompileOptions &options) {
  const Bytes reserved = reservedOf(options);
  if (options.budgetCovers == BudgetCovers::Arena)
    return reserved;
  const Plan plan = describePlan(*choice.placed);
  if (plan.outsideArenaBytes == 0 && options.outside != 0)
    throw Error::badInput(
        "--budget-covers=process needs what the process takes beside the arena: " +
        plan.outsideNote);
  return plan.outsideArenaBytes + outsideOfCopies(*choice.placed, options) + reserved;
}

BudgetOptions withRefusedPath(BudgetOptions planning, const CompileOptions &options) {
  if (planning.candidates.refusedPath.empty())
    planning.candidates.refusedPath = refusedPathOf(options);
  return planning;
}

} // namespace

Bytes outsideOfCopies(ModuleOp placed, const CompileOptions &options) {
  if (options.offload.isOfHost())
    return 0; // copies of a GPU take no memory of it
  Bytes bytes = 0, stateBytes = 0, scatteredBytes = 0;
  int64_t copies = 0;
  llvm::StringSet<> states; // by name: of several graphs
  placed.walk([&](CopyOutOp out) {
    if (sendsState(out))
      return;
    bytes += copiedBytes(out);
    ++copies;
  });
  for (auto graph : placed.getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments())
      if (RankedTensorType type = slowStateOf(argument)) {
        auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
        if (!states.insert(name.getValue()).second)
          continue;
        stateBytes += storedBytesOf(type);
        if (!layoutOf(type).isRowMajor() && storedBytesOf(type) > kSlowPieceBytes)
          scatteredBytes = std::max(scatteredBytes, storedBytesOf(type));
      }
  return copies + states.size() > 0 && !options.outside
             ? host::slowMemoryBytes(bytes, copies, stateBytes, states.size(), scatteredBytes)
             : 0;
}

StepVariant askedVariant(MLIRContext &context, const CompileOptions &options) {
  StepVariant asked = variantOf(options);
  if (asked.batches == 1)
    return asked;
  asked.samples = samplesPerStep(context, options);
  if (asked.batches != kAny && *asked.samples % asked.batches != 0)
    throw Error::badInput(absl::StrCat("--accumulate=", asked.batches, " does not divide the ",
                                       *asked.samples,
                                       " samples of a step; --batch counts those of a "
                                       "whole step, each of its batches has an equal share"));
  return asked;
}

StepQuestion questionOf(MLIRContext &context, const CompileOptions &options) {
  StepQuestion question;
  question.asked = askedVariant(context, options);
  question.budget = options.memoryBudget;
  const SlowPlace place = options.offload.place;
  if (options.offload.isAsked() && place != SlowPlace::Auto && !options.memoryBudget)
    throw Error::badInput("--offload: without a budget nothing travels; give --memory-budget");
  question.allowance = allowanceOf(options);
  question.inSegments = options.inSegments;
  question.asGiven = options.stopAfter != Form::Program;
  question.times = Times::Asked;
  question.endsEarly = options.endsEarly;
  if (options.budgetCovers == BudgetCovers::Process || reservedOf(options) > 0)
    question.beside = [&options](const StepChoice &choice) { return bytesBeside(choice, options); };
  return question;
}

ModelSteps::ModelSteps(MLIRContext &context, const CompileOptions &options, StageTimer &timer,
                       BudgetOptions planning)
    : steps(context, *this, withRefusedPath(std::move(planning), options)), context(context),
      options(options), timer(timer) {}

std::optional<int64_t> ModelSteps::samplesIn(int64_t shape, std::optional<int64_t> given) const {
  const std::optional<int64_t> own = importFor(options, shape).batch;
  return own ? own : given;
}

const ModelSteps::Model &ModelSteps::model(const StepVariant &variant, const Backend &backend) {
  const std::pair key(variant.shape, variant.samplesPerRun());
  if (latest && latest->key == key)
    return *latest;
  latest.reset();
  Model made{key, nullptr, {}, {}};
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    const bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    if (!isError)
      made.said.push_back({diagnostic.getLocation(), diagnostic.getSeverity(), diagnostic.str()});
    return success(!isError);
  });
  made.form = modelOf(context, options, variant, backend, timer, made.tensors);
  return latest.emplace(std::move(made));
}

OwningOpRef<ModuleOp> ModelSteps::formOf(const StepVariant &variant, const Backend &backend,
                                         Form last, int64_t divisorTerms) {
  const Model &read = model(variant, backend);
  for (const Said &one : read.said)
    context.getDiagEngine().emit(one.location, one.severity) << one.text;
  OwningOpRef<ModuleOp> form = cast<ModuleOp>(read.form.get()->clone());
  makeStep(*form, options, variant, backend, last, timer, divisorTerms);
  return form;
}

ModelSteps::Family ModelSteps::prepareFamily(const StepVariant &largest) {
  Family family;
  family.backend = chooseBackend(options);
  family.modules.push_back(formOf(largest, *family.backend, Form::Step));
  noteLabels(*family.modules.front());
  timer.start("order");
  finishStep(*family.modules.front(), options, *family.backend);
  heldSteps.push_back({family.backend, model(largest, *family.backend).tensors});
  const auto terms = (*family.modules.front())->getAttrOfType<IntegerAttr>(kDivisorTermsAttr);
  const int64_t divisorTerms = terms ? terms.getInt() : 0;
  for (size_t shape = 1; shape < options.shapes.size(); ++shape) {
    // What is said of the model has been said of the largest shape.
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    StepVariant variant = largest;
    variant.shape = static_cast<int64_t>(shape);
    variant.samples = samplesIn(variant.shape, largest.samples);
    if (variant.samples && *variant.samples % variant.batches != 0)
      throw Error::badInput(absl::StrCat("--accumulate=", variant.batches, " does not divide the ",
                                         *variant.samples, " samples of the shape ",
                                         options.shapes[shape].name));
    OwningOpRef<ModuleOp> step = formOf(variant, *family.backend, Form::Step, divisorTerms);
    timer.start("order");
    noteLabels(*step);
    takeStateOf(*family.modules.front(), options.shapes[shape].name, *step);
    finishStep(*step, options, *family.backend);
    family.modules.push_back(std::move(step));
  }
  const auto steps = llvm::map_to_vector(family.modules, [](auto &module) { return *module; });
  shareState(steps);
  if (largest.awayPercent.value_or(0) > 0)
    sendStates(steps, *largest.awayPercent, options);
  return family;
}

PreparedStep ModelSteps::ofFamily(const StepVariant &variant) {
  StepVariant largest = variant;
  largest.shape = 0;
  largest.samples = samplesIn(0, variant.samples);
  auto found = families.find(largest);
  if (found == families.end())
    found = families.emplace(largest, prepareFamily(largest)).first;
  Family &family = found->second;
  PreparedStep prepared;
  prepared.target = {family.backend, &family.backend->target()};
  prepared.module = cast<ModuleOp>(family.modules.at(variant.shape)->clone());
  prepared.evaluation = evaluationParts(context, options, variant, *family.backend);
  return prepared;
}

PreparedStep ModelSteps::prepare(const StepVariant &variant) {
  if (!options.shapes.empty() && variant.samples == samplesIn(variant.shape, variant.samples))
    return ofFamily(variant);
  const std::shared_ptr<Backend> backend = chooseBackend(options);
  std::erase_if(heldSteps, [](const Held &one) { return one.backend.expired(); });
  PreparedStep prepared;
  prepared.target = {backend, &backend->target()};
  refuseOpenAxes(variant);
  prepared.module = formOf(variant, *backend, Form::Ordered);
  prepared.evaluation = evaluationParts(context, options, variant, *backend);
  heldSteps.push_back({backend, model(variant, *backend).tensors});
  return prepared;
}

const ModelSteps::Held &ModelSteps::held(const Target &target) const {
  for (const Held &one : heldSteps)
    if (auto backend = one.backend.lock(); backend && &backend->target() == &target)
      return one;
  throw Error::internal("a step for a device that nobody chose");
}

std::shared_ptr<Backend> ModelSteps::backendOf(const Target &target) const {
  return held(target).backend.lock();
}

CostModel ModelSteps::weigh(const PreparedStep &prepared, Times times) {
  const std::shared_ptr<Backend> backend = backendOf(*prepared.target);
  if (times == Times::Sheet || options.profile.empty())
    return sheetOf(options, *backend);
  timer.start("measure");
  CostModel costs = weighStep(*prepared.module, options, *backend, measured);
  timer.start("order");
  return costs;
}

/// What some devices can do beside the commands, or with several of them, at the offsets as they are.
void ModelSteps::finish(ModuleOp placed, const Target &target) {
  if (options.stopAfter == Form::Ordered)
    return;
  if (const Bytes more = outsideOfCopies(placed, options))
    placed->setAttr(kOutsideBytesAttr,
                    Builder(placed).getI64IntegerAttr(bytesAttr(placed, kOutsideBytesAttr) + more));
  const std::shared_ptr<Backend> backend = backendOf(target);
  runStage(placed, "place", [&](PassManager &manager) {
    manager.addPass(createFuseBiasGradientPass(target));
    if (backend->gathersUpdates())
      manager.addPass(createGatherUpdatesPass());
    // With several shapes the next batch may be of another one, whose inputs lie elsewhere.
    if (backend->copiesBesideCommands() && options.shapes.empty())
      manager.addPass(createPlaceNextInputsPass());
    if (backend->gathersUpdates() || backend->copiesBesideCommands())
      addPlacedChecks(manager);
  });
}

OwningOpRef<ModuleOp> ModelSteps::form(const StepVariant &variant, Form last) {
  return formOf(variant, *chooseBackend(options), last);
}

} // namespace stow
