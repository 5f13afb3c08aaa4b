#include "compiler/Pipeline.h"

#include "codegen/Measured.h"
#include "compiler/CheckTypes.h"
#include "compiler/DataSheet.h"
#include "compiler/MeasuredCosts.h"
#include "compiler/ProgramCosts.h"
#include "compiler/ProgressLine.h"
#include "compiler/StepKernels.h"
#include "compiler/TensorList.h"
#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/StowOffloadOps.h"
#include "passes/SmallLaunches.h"
#include "passes/autodiff/Passes.h"
#include "passes/expand/Passes.h"
#include "passes/fission/Passes.h"
#include "passes/fuse/Passes.h"
#include "passes/layout/Passes.h"
#include "passes/memory/GatherUpdates.h"
#include "passes/memory/Passes.h"
#include "passes/memory/SendStates.h"
#include "passes/microbatch/Passes.h"
#include "passes/plan/Stages.h"
#include "passes/precision/Passes.h"
#include "passes/rewrite/Passes.h"
#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/LongWork.h"
#include "runtime/format/Reduction.h"
#include "runtime/format/SlowCopies.h"

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

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const std::string &modelPath,
                                const ImportOptions &import, ImportReport &tensors) {
  const std::filesystem::path path = modelPath;
  if (!std::filesystem::exists(path))
    throw Error::badInput("no file \"" + modelPath + "\"");
  if (path.extension() == ".mlir") {
    context.loadDialect<StowDialect>();
    ParserConfig config(&context);
    const InputFile file(modelPath); // which opens no pipe and no device
    auto module = parseSourceFile<ModuleOp>(modelPath, config);
    if (!module)
      throw Error::badInput("cannot read \"" + modelPath + "\"");
    tensors = reportOf(*module);
    return module;
  }
  if (path.extension() != ".onnx")
    throw Error::badInput("cannot tell what \"" + modelPath +
                          "\" is; expected a file ending in .onnx or .mlir");
  auto module = importOnnx(context, modelPath, import, &tensors);
  if (!module)
    throw Error::badInput("cannot import \"" + modelPath + "\"");
  return module;
}

// F0
void addModelPasses(PassManager &manager, const Target &target) {
  manager.addPass(createVerifyModelPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createTakeRowsFirstPass());
  manager.addPass(createFoldPlaneScalesPass());
  manager.addPass(createTileAttentionPass(target));
  manager.addPass(createHoistConstantsPass());
  manager.addPass(createSinkReluPass());
  manager.addPass(createNestConcatsPass());
}

namespace {

AttachOptimizerPassOptions optimizerOptions(const CompileOptions &options,
                                            const StepVariant &variant) {
  AttachOptimizerPassOptions optimizer;
  optimizer.optimizer = options.optimizer;
  optimizer.lossScale = options.lossScale.empty() || variant.precision != Precision::F16
                            ? "dynamic"
                            : options.lossScale;
  optimizer.clipNorm = options.clipNorm;
  optimizer.clipValue = options.clipValue;
  optimizer.eightBitPercent = *variant.eightBitPercent;
  optimizer.shardPercent = *variant.shardPercent;
  optimizer.shardsParameters = *variant.weightShardPercent > 0;
  optimizer.groups.assign(options.groups.begin(), options.groups.end());
  optimizer.noDecay.assign(options.noDecay.begin(), options.noDecay.end());
  return optimizer;
}

AccumulateGradientsPassOptions accumulateOptions(const CompileOptions &options,
                                                 const StepVariant &variant) {
  AccumulateGradientsPassOptions accumulate;
  accumulate.batches = variant.batches;
  accumulate.ranks = variant.devices;
  accumulate.mean = options.loss.reduction != LossSpec::Reduction::Sum;
  accumulate.keepSums = options.clipNorm > 0 ||
                        (variant.precision == Precision::F16 && options.lossScale != "delayed");
  return accumulate;
}

AssignPrecisionPassOptions precisionOptions(const CompileOptions &options,
                                            const StepVariant &variant) {
  AssignPrecisionPassOptions precision;
  precision.precision = variant.precision == Precision::BF16 ? "bf16" : "f16";
  precision.keep.assign(options.keepWide.begin(), options.keepWide.end());
  llvm::append_range(precision.keep, variant.wideNodes);
  return precision;
}

/// Small updates share launches where their gradients lie beside each other.
JudgeFactorsPassOptions factorOptions(const Backend &backend) {
  JudgeFactorsPassOptions factors;
  factors.leastElements = backend.gathersUpdates() ? kMostGatheredElements + 1 : 0;
  return factors;
}

// F0 -> F1: the training step and the evaluation graph. Beyond this point, no new arithmetic.
void addStepPasses(PassManager &manager, const CompileOptions &options, const StepVariant &variant,
                   const Backend &backend, int64_t divisorTerms) {
  const Target &target = backend.target();
  SplitTrainEvalPassOptions split;
  split.freezeBatchNorm = options.freezeBatchNorm;
  split.ranks = options.syncBatchNorm ? variant.devices : 1;
  split.disableDropout = options.disableDropout;
  manager.addPass(createSplitTrainEvalPass(target, split));

  AttachLossPassOptions loss;
  loss.loss = options.loss;
  loss.output = options.lossOutput;
  manager.addPass(createAttachLossPass(loss));
  if (variant.batches > 1 || variant.devices > 1)
    manager.addPass(createSeparateDivisorPass({.terms = divisorTerms}));
  AutodiffPassOptions gradients;
  gradients.scaleLoss = variant.precision == Precision::F16;
  gradients.inputGradients.assign(options.inputGradients.begin(), options.inputGradients.end());
  manager.addPass(createAutodiffPass(gradients));
  if (variant.batches > 1)
    manager.addPass(createAccumulateGradientsPass(accumulateOptions(options, variant)));
  else if (variant.devices > 1)
    manager.addPass(createReduceOverRanksPass(
        {.ranks = variant.devices, .mean = options.loss.reduction != LossSpec::Reduction::Sum}));
  manager.addPass(createExpandBatchNormPass(target));
  manager.addPass(createConvolutionBiasPass(target));
  manager.addPass(createAttachOptimizerPass(optimizerOptions(options, variant)));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createBatchProductsPass(target));
  if (variant.lossChunks > 1 || variant.rowChunks > 1) {
    ChunkRowsPassOptions chunks;
    chunks.lossChunks = variant.lossChunks;
    chunks.rowChunks = variant.rowChunks;
    manager.addPass(createChunkRowsPass(chunks));
    manager.addPass(createCanonicalizerPass());
  }
  if (variant.precision != Precision::F32) {
    manager.addPass(createAssignPrecisionPass(target, precisionOptions(options, variant)));
    if (variant.precision == Precision::F16)
      manager.addPass(createJudgeFactorsPass(factorOptions(backend)));
  }
  if (*variant.weightShardPercent > 0)
    manager.addPass(createShardParametersPass({.percent = *variant.weightShardPercent}));
  if (options.dataRows > 0)
    manager.addPass(createKeepDataPass({.rows = options.dataRows}));
  StoreFrozenPassOptions frozen;
  frozen.types.assign(options.frozenTypes.begin(), options.frozenTypes.end());
  manager.addPass(createStoreFrozenPass(frozen));
  QuantizeFrozenPassOptions quantized;
  quantized.types.assign(options.frozenTypes.begin(), options.frozenTypes.end());
  manager.addPass(createQuantizeFrozenPass(quantized));
  manager.addPass(createVerifyStepPass());
}

// F1 -> F2, first half: kernels. Beyond this point, no new arithmetic.
void addKernelPasses(PassManager &manager, const Target &target) {
  manager.addPass(createExpandOuterProductsPass());
  manager.addPass(createPadLogitsPass(target));
  manager.addPass(createAssignLayoutsPass(target));
  manager.addPass(createCSEPass());
  manager.addPass(createReadCodesPass(target));
  manager.addPass(createFuseNormPoolPass(target));
  manager.addPass(createSplitBatchNormPass(target));
  manager.addPass(createScatterIntoSumsPass());
  manager.addPass(createFuseElementwisePass());
  manager.addPass(createRederiveSavedPass());
  manager.addPass(createJoinMasksPass());
  manager.addPass(createFuseElementwisePass());
  manager.addPass(createQuantizeStatesPass());
  manager.addPass(createFuseProductConsumersPass(target));
  manager.addPass(createFuseEpiloguesPass(target));
  manager.addPass(createPackMasksPass());
  manager.addPass(createHoistScalarsPass(target));
  manager.addPass(createJoinSmallMapsPass(target));
  manager.addPass(createPlanWorkspacesPass(target));
}

} // namespace

void addKernels(ModuleOp step, const Target &target) {
  runStage(step, "order", [&](PassManager &manager) { addKernelPasses(manager, target); });
}

std::string refusedPathOf(const CompileOptions &options) {
  const std::string beside = options.outputPath.empty()
                                 ? std::filesystem::path(options.modelPath).filename().string()
                                 : options.outputPath;
  return beside + ".refused.mlir";
}

std::unique_ptr<Backend> chooseBackend(const CompileOptions &options) {
  BackendOptions wanted;
  wanted.target = options.target;
  wanted.threads = options.threads;
  wanted.cpu = options.targetCpu;
  wanted.tf32 = options.tf32;
  wanted.epilogues = options.epilogues;
  wanted.cudnnFolder = options.cudnnFolder;
  return createBackend(wanted);
}

CostModel sheetOf(const CompileOptions &options, const Backend &backend) {
  CostModel costs = loadDevice(options.roofline.empty() ? backend.dataSheet() : options.roofline,
                               options.threads, options.tf32);
  costs.slow = slowMemoryOf(options.offload);
  costs.network = networkOf(options.network);
  return costs;
}

CostModel weighStep(ModuleOp prepared, const CompileOptions &options, const Backend &backend,
                    MeasuredCosts &measured) {
  CostModel costs = sheetOf(options, backend);
  if (options.profile.empty())
    return costs;
  if (programsMeasure(options.target)) {
    ProgramCosts times = ProgramCosts::load(options.profile, options.target);
    times.annotate(prepared, costs);
    costs.device = times.describe();
    costs.measured = true;
    return costs;
  }
  if (options.profile == "run")
    measured.measure(prepared, options.threads, backend);
  else
    measured = MeasuredCosts::load(options.profile, options.threads);
  measured.annotate(prepared);
  if (!options.saveProfilePath.empty())
    measured.save(options.saveProfilePath);
  costs.device = measured.describe();
  costs.measured = true;
  return costs;
}

namespace {

/// What plans are told about memory beside the arena.
void stateOutside(ModuleOp module, const CompileOptions &options, int64_t devices,
                  const Backend &backend) {
  OutsideArena outside = backend.outsideArena();
  if (options.outside)
    outside = {options.outside, "as --outside says"};
  else if (devices > 1) {
    const OutsideArena ranks = backend.outsideOfRanks();
    if (outside.bytes)
      *outside.bytes += *ranks.bytes + (options.network.isKnown() ? kExchangeLaneBytes : 0);
    if (!ranks.note.empty())
      outside.note += "; " + ranks.note;
  }
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
  if (const std::string note = backend.note(); !note.empty())
    addNote(module, note);
}

/// Why nothing of the state that --offload-state names travels.
std::string whyNothingTravels(const std::string &kinds) {
  const std::string optimizer = "of the optimizer's state no tensor is in f32, of 4096 bytes or "
                                "more, and updated by one op",
                    parameters =
                        "no trained weight has 4096 bytes or more and is updated by one op",
                    frozen = "no frozen weight has 4096 bytes or more";
  return "--offload-state: nothing travels: " +
         (kinds == "optimizer"    ? optimizer
          : kinds == "parameters" ? parameters
          : kinds == "frozen"     ? frozen
                                  : optimizer + "; " + parameters + "; " + frozen);
}

} // namespace

void sendStates(ArrayRef<ModuleOp> steps, int64_t percent, const CompileOptions &options) {
  sendStates(steps, percent, options.offload.stateKinds);
  for (ModuleOp step : steps)
    if (failed(verify(step)))
      throw Error::internal("the step whose state travels is broken");
  ModuleOp largest = steps.front(); // whose graphs hold all of the state
  Bytes needed = 0;
  llvm::DenseSet<Attribute> known; // names: of several graphs
  for (auto graph : largest.getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments())
      if (RankedTensorType type = slowStateOf(argument);
          type && known.insert(graph.getArgAttr(argument.getArgNumber(), kNameAttr)).second)
        needed += alignUp(storedBytesOf(type), kSlowAlignment);
  if (needed == 0 && options.offload.statePercent == 100)
    addNote(largest, whyNothingTravels(options.offload.stateKinds));
  const std::optional<SlowMemory> slow = slowMemoryOf(options.offload);
  if (slow && needed > slow->capacity)
    throw Error::badInput(absl::StrCat(
        "--offload-state: the state takes ", formatBytesExact(needed),
        " of slow memory, and there are ", formatBytesExact(slow->capacity),
        options.offload.isOfHost() ? "; raise --host-memory, or leave it out"
                                   : "; name a folder with more room, or leave it out"));
}

OwningOpRef<ModuleOp> modelOf(MLIRContext &context, const CompileOptions &options,
                              const StepVariant &variant, const Backend &backend, StageTimer &timer,
                              ImportReport &tensors) {
  timer.start("import");
  ImportOptions import = importFor(options, variant.shape);
  import.batch = variant.samplesPerRun();
  OwningOpRef<ModuleOp> model = loadModel(context, options.modelPath, import, tensors);
  model->setSymName(std::filesystem::path(options.modelPath).filename().string());
  runStage(*model, "model",
           [&](PassManager &manager) { addModelPasses(manager, backend.target()); });
  return model;
}

void makeStep(ModuleOp model, const CompileOptions &options, const StepVariant &variant,
              const Backend &backend, Form last, StageTimer &timer, int64_t divisorTerms) {
  if (last == Form::Model)
    return;
  timer.start("step");
  if (failed(checkTypes(model, backend.target())))
    throw Error::badInput("cannot train \"" + options.modelPath + "\": its types");
  if (variant.launchesApart)
    setLaunchesApart(model);
  runStage(model, "step", [&](PassManager &manager) {
    addStepPasses(manager, options, variant, backend, divisorTerms);
  });
  if (last == Form::Step)
    return;
  timer.start("order");
  finishStep(model, options, backend);
  if (variant.awayPercent.value_or(0) > 0)
    sendStates(ArrayRef(model), *variant.awayPercent, options);
}

void finishStep(ModuleOp step, const CompileOptions &options, const Backend &backend) {
  addKernels(step, backend.target());
  if (programsMeasure(options.target))
    numberKernels(step);
  stateOutside(step, options, devicesOf(step), backend);
  addDeviceNote(step, backend);
  for (const std::string &note : {noteOf(options.offload), noteOf(options.network)})
    if (!note.empty())
      addNote(step, note);
}

StepVariant variantOf(const CompileOptions &options) {
  StepVariant variant;
  variant.samples = options.import.batch;
  variant.batches = options.accumulate;
  variant.devices = options.devices;
  variant.lossChunks = options.lossChunks;
  variant.rowChunks = options.rowChunks;
  variant.precision = options.precision;
  variant.eightBitPercent = options.eightBitPercent;
  variant.shardPercent = options.shardPercent;
  variant.weightShardPercent = options.weightShardPercent;
  variant.awayPercent = options.offload.statePercent;
  return variant;
}

OwningOpRef<ModuleOp> formOf(MLIRContext &context, const CompileOptions &options,
                             const StepVariant &variant, const Backend &backend, Form last) {
  StageTimer timer;
  ImportReport tensors;
  OwningOpRef<ModuleOp> form = modelOf(context, options, variant, backend, timer, tensors);
  makeStep(*form, options, variant, backend, last, timer);
  return form;
}

void refuseOpenAxes(const StepVariant &variant) {
  if (!variant.eightBitPercent)
    throw Error::badInput("--optimizer-state=auto is decided for one plan; give f32 or 8bit");
  if (!variant.shardPercent || !variant.weightShardPercent)
    throw Error::badInput(
        "--shard-state=auto is decided for one plan; give none, optimizer or parameters");
  if (!variant.awayPercent)
    throw Error::badInput("--offload-state=auto is decided for one plan; give none, optimizer, "
                          "parameters, frozen or all");
  if (variant.lossChunks == kAny || variant.rowChunks == kAny)
    throw Error::badInput(std::string(variant.lossChunks == kAny ? "--loss" : "--row") +
                          "-chunks=auto is decided for one plan; give a number of chunks");
}

OwningOpRef<ModuleOp> prepareStep(MLIRContext &context, const CompileOptions &options,
                                  const Backend &backend) {
  const StepVariant variant = variantOf(options);
  refuseOpenAxes(variant);
  return formOf(context, options, variant, backend, Form::Ordered);
}

OwningOpRef<ModuleOp> stepForm(MLIRContext &context, const CompileOptions &options,
                               const Backend &backend) {
  return formOf(context, options, variantOf(options), backend, Form::Step);
}

} // namespace stow
