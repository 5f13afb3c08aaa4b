#include "compiler/Pipeline.h"

#include "compiler/Accumulation.h"
#include "compiler/CheckTypes.h"

#include "compiler/DeviceProfile.h"
#include "compiler/Infeasible.h"
#include "compiler/MeasuredCosts.h"
#include "compiler/MixedPrecision.h"
#include "compiler/PartialEvaluation.h"
#include "compiler/ProgressLine.h"
#include "compiler/Remarks.h"
#include "compiler/StepRun.h"
#include "compiler/TensorList.h"
#include "ir/Stow.h"
#include "ir/plan/schedule/Json.h"
#include "passes/autodiff/Passes.h"
#include "passes/expand/Passes.h"
#include "passes/fission/Passes.h"
#include "passes/fuse/Passes.h"
#include "passes/layout/Passes.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/GatherUpdates.h"
#include "passes/memory/Passes.h"
#include "passes/microbatch/Passes.h"
#include "passes/plan/Stages.h"
#include "passes/plan/TimedPlan.h"
#include "passes/precision/Passes.h"
#include "passes/rewrite/Passes.h"
#include "passes/verify/Passes.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/LongWork.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

using namespace mlir;

namespace stow {

void StageTimer::start(const std::string &name) {
  stop();
  noteStage(name);
  auto named = [&](const auto &stage) { return stage.first == name; };
  current = static_cast<size_t>(std::ranges::find_if(seconds, named) - seconds.begin());
  if (current == seconds.size())
    seconds.emplace_back(name, 0);
  since = std::chrono::steady_clock::now();
  running = true;
}

void StageTimer::stop() {
  if (running)
    seconds[current].second +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  running = false;
  endProgress();
}

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const CompileOptions &options,
                                ImportReport &tensors) {
  std::filesystem::path path = options.modelPath;
  if (!std::filesystem::exists(path))
    throw Error::badInput("no file \"" + options.modelPath + "\"");
  if (path.extension() == ".mlir") {
    context.loadDialect<StowDialect>();
    ParserConfig config(&context);
    const InputFile file(options.modelPath); // which opens no pipe and no device
    auto module = parseSourceFile<ModuleOp>(options.modelPath, config);
    if (!module)
      throw Error::badInput("cannot read \"" + options.modelPath + "\"");
    tensors = reportOf(*module);
    return module;
  }
  if (path.extension() != ".onnx")
    throw Error::badInput("cannot tell what \"" + options.modelPath +
                          "\" is; expected a file ending in .onnx or .mlir");
  auto module = importOnnx(context, options.modelPath, options.import, &tensors);
  if (!module)
    throw Error::badInput("cannot import \"" + options.modelPath + "\"");
  return module;
}

// F0
void addModelPasses(PassManager &manager, const Target &target) {
  manager.addPass(createVerifyModelPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createFoldPlaneScalesPass());
  manager.addPass(createTileAttentionPass(target));
  manager.addPass(createHoistConstantsPass());
  manager.addPass(createSinkReluPass());
  manager.addPass(createNestConcatsPass());
}

namespace {

AttachOptimizerPassOptions optimizerOptions(const CompileOptions &options) {
  AttachOptimizerPassOptions optimizer;
  optimizer.optimizer = options.optimizer;
  optimizer.lossScale = options.lossScale.empty() ? "dynamic" : options.lossScale;
  optimizer.clipNorm = options.clipNorm;
  optimizer.clipValue = options.clipValue;
  optimizer.groups.assign(options.groups.begin(), options.groups.end());
  optimizer.noDecay.assign(options.noDecay.begin(), options.noDecay.end());
  return optimizer;
}

AccumulateGradientsPassOptions accumulateOptions(const CompileOptions &options) {
  AccumulateGradientsPassOptions accumulate;
  accumulate.batches = options.accumulate;
  accumulate.mean = options.loss.reduction != LossSpec::Reduction::Sum;
  accumulate.keepSums = options.clipNorm > 0 ||
                        (options.precision == Precision::F16 && options.lossScale != "delayed");
  return accumulate;
}

AssignPrecisionPassOptions precisionOptions(const CompileOptions &options) {
  AssignPrecisionPassOptions precision;
  precision.precision = options.precision == Precision::BF16 ? "bf16" : "f16";
  precision.keep.assign(options.keepWide.begin(), options.keepWide.end());
  llvm::append_range(precision.keep, options.wide.nodes);
  return precision;
}

/// Small updates share launches where their gradients lie beside each other.
JudgeFactorsPassOptions factorOptions(const Backend &backend) {
  JudgeFactorsPassOptions factors;
  factors.leastElements = backend.gathersUpdates() ? kMostGatheredElements + 1 : 0;
  return factors;
}

// F0 -> F1: the training step and the evaluation graph. Beyond this point, no new arithmetic.
void addStepPasses(PassManager &manager, const CompileOptions &given, const Backend &backend) {
  const CompileOptions options = given.wide.all ? inF32(given) : given;
  const Target &target = backend.target();
  SplitTrainEvalPassOptions split;
  split.freezeBatchNorm = options.freezeBatchNorm;
  split.disableDropout = options.disableDropout;
  manager.addPass(createSplitTrainEvalPass(target, split));

  AttachLossPassOptions loss;
  loss.loss = options.loss;
  loss.output = options.lossOutput;
  manager.addPass(createAttachLossPass(loss));
  if (options.accumulate > 1)
    manager.addPass(createSeparateDivisorPass());
  AutodiffPassOptions gradients;
  gradients.scaleLoss = options.precision == Precision::F16;
  gradients.inputGradients.assign(options.inputGradients.begin(), options.inputGradients.end());
  manager.addPass(createAutodiffPass(gradients));
  if (options.accumulate > 1)
    manager.addPass(createAccumulateGradientsPass(accumulateOptions(options)));
  manager.addPass(createExpandBatchNormPass(target));
  manager.addPass(createConvolutionBiasPass(target));
  manager.addPass(createAttachOptimizerPass(optimizerOptions(options)));
  manager.addPass(createCanonicalizerPass());
  if (options.lossChunks > 1 || options.rowChunks > 1) {
    CutRowsPassOptions cut;
    cut.lossPieces = options.lossChunks;
    cut.pieces = options.rowChunks;
    manager.addPass(createCutRowsPass(cut));
    manager.addPass(createCanonicalizerPass());
  }
  if (options.precision != Precision::F32) {
    manager.addPass(createAssignPrecisionPass(target, precisionOptions(options)));
    if (options.precision == Precision::F16)
      manager.addPass(createJudgeFactorsPass(factorOptions(backend)));
  }
  manager.addPass(createVerifyStepPass());
}

// F1 -> F2, first half: kernels. Beyond this point, no new arithmetic.
void addKernelPasses(PassManager &manager, const Target &target) {
  manager.addPass(createExpandOuterProductsPass());
  manager.addPass(createAssignLayoutsPass(target));
  manager.addPass(createCSEPass());
  manager.addPass(createFuseNormPoolPass(target));
  manager.addPass(createSplitBatchNormPass(target));
  manager.addPass(createScatterIntoSumsPass());
  manager.addPass(createFuseElementwisePass());
  manager.addPass(createRederiveSavedPass());
  manager.addPass(createJoinMasksPass());
  manager.addPass(createFuseElementwisePass());
  manager.addPass(createConsumeProductsPass(target));
  manager.addPass(createFuseEpiloguesPass(target));
  manager.addPass(createPackMasksPass());
  manager.addPass(createPlanWorkspacesPass(target));
}

} // namespace

void addKernels(ModuleOp step, const Target &target) {
  runStage(step, "order", [&](PassManager &manager) { addKernelPasses(manager, target); });
}

namespace {

/// What --memory-budget covers beside the arena of `choice`. Throws Error(BadInput) where that is not
/// known.
Bytes bytesBeside(const StepChoice &choice, const CompileOptions &options) {
  if (options.budgetCovers == BudgetCovers::Arena)
    return 0;
  const Plan plan = describePlan(*choice.placed);
  if (plan.outsideArenaBytes == 0 && options.outside != 0)
    throw Error::badInput(
        "--budget-covers=process needs what the process takes beside the arena: " +
        plan.outsideNote);
  return plan.outsideArenaBytes;
}

/// A plan, and the arena that it was to keep to: the budget's, or its own where no budget decided.
struct Chosen {
  StepChoice choice;
  Bytes within = 0;
};

Chosen withinItself(StepChoice choice) {
  const Bytes arenaBytes = choice.arenaBytes;
  return {std::move(choice), arenaBytes};
}

/// The plan of no budget, in the time that recomputation may take.
StepChoice inSpareTime(BudgetPlanner &planner, const CompileOptions &options) {
  return options.checkpoint == "sqrt" ? BudgetPlanner::copyOf(planner.checkpointed())
                                      : planner.within(allowanceOf(options));
}

/// A budget only limits: where the plan of no budget is within it, it is that one.
std::optional<Chosen> planWithin(Bytes budget, BudgetPlanner &planner,
                                 const CompileOptions &options) {
  const double share = allowanceOf(options).share;
  if (planner.keepAll().arenaBytes <= budget ||
      (share > 0 && planner.extraTimeBound(budget) <= share))
    if (StepChoice spared = inSpareTime(planner, options); spared.arenaBytes <= budget)
      return withinItself(std::move(spared));
  if (wasInterrupted())
    return std::nullopt;
  std::optional<StepChoice> choice = planner.plan(budget);
  return choice ? std::optional<Chosen>({std::move(*choice), budget}) : std::nullopt;
}

/// The plan asked for: within options.memoryBudget, by options.checkpoint, or in the time that
/// recomputation may take.
/// Throws Error(Infeasible) STOW1001.
Chosen choosePlan(mlir::MLIRContext &context, BudgetPlanner &planner,
                  const CompileOptions &options) {
  if (!options.memoryBudget) {
    StepChoice choice = inSpareTime(planner, options);
    reportRefusals(planner.refusals(), std::nullopt);
    return withinItself(std::move(choice));
  }
  const Bytes outside = bytesBeside(planner.keepAll(), options);
  const Bytes budget = budgetBytes(*options.memoryBudget, planner.keepAll().arenaBytes + outside);
  // What runs again adds calls, and these, on the host, a little to what is outside.
  for (Bytes beside = outside;;) {
    const Bytes left = std::max<Bytes>(budget - beside, 0);
    std::optional<Chosen> chosen = planWithin(left, planner, options);
    if (!chosen && wasInterrupted())
      throw Interrupted();
    if (!chosen) {
      if (!options.refusesPlainly)
        planner.smallest(); // may come across more that is refused
      reportRefusals(planner.refusals(), left);
      if (options.refusesPlainly)
        throw Error::infeasible("the step does not fit the memory budget");
      const Error error =
          infeasible(context, planner, options, left, bytesBeside(planner.smallest(), options));
      if (beside == 0)
        throw error;
      throw Error::infeasible(std::string(error.what()) + "\nthe budget of " +
                              formatBytesExact(budget) + " covers the process, of which " +
                              formatBytesExact(beside) + " are outside the arena");
    }
    const Bytes needed = bytesBeside(chosen->choice, options);
    if (needed <= beside) {
      reportRefusals(planner.refusals(), std::nullopt);
      return std::move(*chosen);
    }
    beside = needed;
  }
}

/// F3: what some devices can do beside the commands, or with several of them, at the offsets as they are.
void addDevicePasses(PassManager &manager, const Backend &backend) {
  manager.addPass(createSumFactorsPass(backend.target()));
  if (backend.gathersUpdates())
    manager.addPass(createGatherUpdatesPass());
  if (backend.copiesBesideCommands())
    manager.addPass(createPlaceNextInputsPass());
  if (backend.gathersUpdates() || backend.copiesBesideCommands())
    addPlacedChecks(manager);
}

/// Runs the step of `placed` beside the one that keeps everything, and notes by how much it takes longer.
void noteRuns(Plan &plan, const BudgetPlanner &planner, ModuleOp placed,
              const CompileOptions &options, const Backend &backend) {
  const std::optional<double> extra =
      extraTimeByRuns(*planner.keepAll().placed, placed, options.threads, backend);
  if (extra)
    plan.notes.push_back(absl::StrFormat(
        "run beside the step with everything kept on this machine, this one took %+.1f %% time",
        100 * *extra));
}

/// F1 with kernels -> F3: order, recomputation, sharing and packing are one decision.
CompiledPlan orderAndPlace(StepWithPlanner step, StageTimer &timer) {
  const CompileOptions &options = step.options;
  BudgetPlanner &planner = *step.planner;
  CompiledPlan result;
  result.backend = std::move(step.backend);
  result.tensors = std::move(step.tensors);
  saveProblem(planner, options);
  std::optional<Interruptible> interruptible;
  if (options.endsEarly)
    interruptible.emplace();
  auto [choice, within] = choosePlan(*step.prepared->getContext(), planner, options);
  if (options.stopAfter == Form::Ordered) {
    result.module = planner.ordered(choice);
    return result;
  }
  runStage(*choice.placed, "place",
           [&](PassManager &manager) { addDevicePasses(manager, *result.backend); });
  timer.start("report");
  Plan plan = planOf(*choice.placed, step.costs);
  if (options.checkpoint != "sqrt" && plan.extraTimeFraction > 0)
    plan.extraTimeBound = planner.extraTimeBound(within);
  if (options.profile == "run" && plan.extraTimeFraction > 0)
    noteRuns(plan, planner, *choice.placed, options, *result.backend);
  if (wasInterrupted())
    plan.notes.push_back("interrupted: the best plan found so far");
  result.module = std::move(choice.placed);
  result.plan = std::move(plan);
  if (!options.remarksPath.empty())
    writeDecisions(*result.module, step.costs, options.remarksPath);
  result.plan.tensors = countTensors(result.tensors);
  result.plan.withoutRecomputeBytes = planner.keepAll().arenaBytes;
  if (options.checkpoint == "sqrt" && result.plan.extraTimeFraction == 0)
    if (const std::string why = whyStateIsThePeak(result.plan); !why.empty())
      result.plan.notes.push_back("--checkpoint=" + options.checkpoint +
                                  " lowers nothing here and nothing is computed again: " + why);
  if (!options.wide.note.empty())
    result.plan.notes.push_back(options.wide.note);
  timer.stop();
  return result;
}

} // namespace

std::string refusedPathOf(const CompileOptions &options) {
  const std::string beside = options.outputPath.empty()
                                 ? std::filesystem::path(options.modelPath).filename().string()
                                 : options.outputPath;
  return beside + ".refused.mlir";
}

void reportRefusals(const std::vector<Refusal> &refusals, std::optional<Bytes> unmetBudget) {
  if (refusals.empty())
    return;
  auto wouldDo = [&](const Refusal &refusal) { return refusal.arenaBytes <= *unmetBudget; };
  const bool isError = unmetBudget && llvm::any_of(refusals, wouldDo);
  if (isError)
    throw Error::internal(absl::StrCat(
        "internal error: the checks refuse ", refusals.size(),
        " of the plans for this step, and no other fits: ", describe(refusals.front())));
  absl::FPrintF(
      stderr,
      "warning: the checks refuse %d of the plans for this step, another one is taken: %s\n",
      refusals.size(), describe(refusals.front()));
}

void saveProblem(const BudgetPlanner &planner, const CompileOptions &options) {
  if (!options.saveProblemPath.empty())
    writeFile(options.saveProblemPath, schedule::print(planner.problem()));
}

std::unique_ptr<Backend> chooseBackend(const CompileOptions &options) {
  BackendOptions wanted;
  wanted.target = options.target;
  wanted.threads = options.threads;
  wanted.cpu = options.targetCpu;
  wanted.tf32 = options.tf32;
  wanted.cudnnFolder = options.cudnnFolder;
  return createBackend(wanted);
}

static CostModel sheetOf(const CompileOptions &options, const Backend &backend) {
  return loadDevice(options.roofline.empty() ? backend.dataSheet() : options.roofline,
                    options.threads);
}

CostModel weighStep(ModuleOp prepared, const CompileOptions &options, const Backend &backend) {
  CostModel costs = sheetOf(options, backend);
  if (options.profile.empty())
    return costs;
  const MeasuredCosts measured = options.profile == "run"
                                     ? MeasuredCosts::measure(prepared, options.threads, backend)
                                     : MeasuredCosts::load(options.profile, options.threads);
  measured.annotate(prepared);
  if (!options.saveProfilePath.empty())
    measured.save(options.saveProfilePath);
  costs.device = measured.describe();
  costs.measured = true;
  return costs;
}

namespace {

/// What plans are told about memory beside the arena.
void stateOutside(ModuleOp module, const CompileOptions &options, const Backend &backend) {
  OutsideArena outside = backend.outsideArena();
  if (options.outside)
    outside = {options.outside, "as --outside says"};
  Builder builder(module.getContext());
  if (outside.bytes)
    module->setAttr(kOutsideBytesAttr, builder.getI64IntegerAttr(*outside.bytes));
  if (outside.note.empty())
    module->setAttr(kOutsidePerCallAttr, builder.getI64IntegerAttr(outside.bytesPerCall));
  else
    module->setAttr(kOutsideNoteAttr, builder.getStringAttr(outside.note));
}

/// What plans say about the device.
void addDeviceNote(ModuleOp module, const Backend &backend) {
  const std::string note = backend.note();
  if (note.empty())
    return;
  Builder builder(module.getContext());
  SmallVector<Attribute> notes;
  if (auto known = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    llvm::append_range(notes, known);
  notes.push_back(builder.getStringAttr(note));
  module->setAttr(kNotesAttr, builder.getArrayAttr(notes));
}

/// F0 -> F1 with kernels, or as far as the form asked for: false where that comes before the end.
bool prepare(CompiledPlan &result, MLIRContext &context, const CompileOptions &options,
             const Backend &backend, StageTimer &timer) {
  timer.start("import");
  result.module = loadModel(context, options, result.tensors);
  ModuleOp module = *result.module;
  module.setSymName(std::filesystem::path(options.modelPath).filename().string());
  runStage(module, "model",
           [&](PassManager &manager) { addModelPasses(manager, backend.target()); });
  if (options.stopAfter == Form::Model)
    return false;

  timer.start("step");
  if (failed(checkTypes(module, backend.target())))
    throw Error::badInput("cannot train \"" + options.modelPath + "\": its types");
  runStage(module, "step", [&](PassManager &manager) { addStepPasses(manager, options, backend); });
  if (options.stopAfter == Form::Step)
    return false;

  timer.start("order");
  addKernels(module, backend.target());
  stateOutside(module, options, backend);
  addDeviceNote(module, backend);
  return true;
}

} // namespace

OwningOpRef<ModuleOp> stepForm(MLIRContext &context, const CompileOptions &options,
                               const Backend &backend) {
  CompileOptions toStep = options;
  toStep.stopAfter = Form::Step;
  StageTimer timer;
  CompiledPlan prepared;
  prepare(prepared, context, toStep, backend, timer);
  return std::move(prepared.module);
}

/// The step with kernels, and what became of the model's tensors.
static CompiledPlan preparedStep(MLIRContext &context, const CompileOptions &options,
                                 const Backend &backend, StageTimer &timer) {
  if (options.lossChunks == 0 || options.rowChunks == 0)
    throw Error::badInput(std::string(options.lossChunks == 0 ? "--loss" : "--row") +
                          "-chunks=auto is decided for one plan; give a number of pieces");
  CompileOptions whole = options;
  whole.stopAfter = Form::Program;
  CompiledPlan prepared;
  prepare(prepared, context, whole, backend, timer);
  return prepared;
}

OwningOpRef<ModuleOp> prepareStep(MLIRContext &context, const CompileOptions &options,
                                  const Backend &backend) {
  StageTimer timer;
  return std::move(preparedStep(context, options, backend, timer).module);
}

StepWithPlanner stepWithPlanner(MLIRContext &context, const CompileOptions &options,
                                StageTimer &timer, BudgetOptions planning) {
  StepWithPlanner step;
  step.options = options;
  step.backend = chooseBackend(options);
  CompiledPlan prepared = preparedStep(context, options, *step.backend, timer);
  step.prepared = std::move(prepared.module);
  step.tensors = std::move(prepared.tensors);
  if (!options.profile.empty())
    timer.start("measure");
  step.costs = weighStep(*step.prepared, options, *step.backend);
  timer.start("order"); // passes/plan decides; its stages are in passes/plan/Stages.h
  if (planning.candidates.refusedPath.empty())
    planning.candidates.refusedPath = refusedPathOf(options);
  planning.evaluation = evaluationParts(context, options, *step.backend);
  step.planner = std::make_unique<BudgetPlanner>(*step.prepared, step.costs, step.backend->target(),
                                                 std::move(planning));
  return step;
}

BatchQuestion aboutBatches(MLIRContext &context, const CompileOptions &options, Bytes budget) {
  BatchQuestion question;
  const std::shared_ptr<const Backend> backend = chooseBackend(options);
  auto known = std::make_shared<std::map<int64_t, CompileOptions>>();
  auto sizedAs = [&context, &options, known](int64_t batch) -> const CompileOptions & {
    auto found = known->find(batch);
    if (found == known->end()) {
      CompileOptions sized = options;
      sized.import.batch = batch;
      found = known->emplace(batch, asStored(context, sized)).first;
    }
    return found->second;
  };
  question.stepAt = [&context, sizedAs, backend](int64_t batch) {
    return prepareStep(context, sizedAs(batch), *backend);
  };
  question.partsAt = [&context, sizedAs, backend](int64_t batch) {
    return evaluationParts(context, sizedAs(batch), *backend);
  };
  question.target = {backend, &backend->target()};
  question.costs = sheetOf(options, *backend);
  question.budget = budget;
  question.candidates.refusedPath = refusedPathOf(options);
  return question;
}

namespace {

/// True when more pieces pay: in less time under a budget, else in a smaller arena.
bool pays(const Plan &plan, const Plan &before, bool isBudgeted) {
  constexpr double worth = 0.998; // of what there was
  return isBudgeted ? plan.stepSeconds < worth * before.stepSeconds
                    : static_cast<double>(plan.arenaBytes) <
                          worth * static_cast<double>(before.arenaBytes);
}

/// --loss-chunks=auto and --row-chunks=auto, whose number of pieces is `chunks`: twice as many until that
/// pays no more, twice in a row.
CompiledPlan chooseChunks(MLIRContext &context, const CompileOptions &options,
                          int64_t CompileOptions::*chunks, StageTimer &timer,
                          const BudgetOptions &planning) {
  constexpr int64_t most = 256;
  CompileOptions tried = options;
  tried.stopAfter = std::max(options.stopAfter, Form::Placed);
  if (options.memoryBudget) // what is compared is time
    tried.recompute = Allowance();
  std::optional<CompiledPlan> best;
  std::optional<Error> tooLarge;
  int64_t chosen = 1;
  int inVain = 0;
  for (tried.*chunks = 1; tried.*chunks <= most && inVain < 2; tried.*chunks *= 2) {
    tried.refusesPlainly = options.refusesPlainly || tried.*chunks < most; // the last one says why
    try {
      CompiledPlan plan = compileToPlan(context, tried, timer, planning);
      if (!best || pays(plan.plan, best->plan, options.memoryBudget.has_value())) {
        best = std::move(plan);
        chosen = tried.*chunks;
        inVain = 0;
        continue;
      }
    } catch (const Error &error) {
      if (error.kind() != ErrorKind::Infeasible || best)
        throw;
      tooLarge = error;
    }
    inVain += best.has_value();
  }
  if (!best)
    throw *tooLarge;
  if (tried.stopAfter == options.stopAfter &&
      tried.recompute.has_value() == options.recompute.has_value())
    return std::move(*best);
  tried = options;
  tried.*chunks = chosen;
  return compileToPlan(context, tried, timer, planning);
}

} // namespace

namespace {

/// A step of one graph run.
CompiledPlan compileStep(MLIRContext &context, const CompileOptions &options, StageTimer &timer,
                         const BudgetOptions &planning) {
  if (options.stopAfter >= Form::Ordered)
    return orderAndPlace(chooseStep(context, options, timer, planning), timer);
  CompiledPlan result; // a form in front of the choice of what stays in f32
  result.backend = chooseBackend(options);
  prepare(result, context, options, *result.backend, timer);
  return result;
}

} // namespace

CompiledPlan compileToPlan(MLIRContext &context, const CompileOptions &options, StageTimer &timer,
                           BudgetOptions planning) {
  for (int64_t CompileOptions::*chunks : {&CompileOptions::lossChunks, &CompileOptions::rowChunks})
    if (options.*chunks == 0)
      return chooseChunks(context, options, chunks, timer, planning);
  auto compile = [&](const CompileOptions &chosen) {
    return compileStep(context, chosen, timer, planning);
  };
  if (options.accumulate == 1 && !options.accumulateAuto)
    return compile(options);
  return compileAccumulated(context, options, compile);
}

} // namespace stow
