#include "compiler/Pipeline.h"

#include "codegen/host/HostTarget.h"
#include "ir/Stow.h"
#include "passes/autodiff/Passes.h"
#include "passes/fuse/Passes.h"
#include "passes/layout/Passes.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/Passes.h"
#include "passes/order/Passes.h"
#include "passes/rewrite/Passes.h"
#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <filesystem>

using namespace mlir;

namespace stow {

void StageTimer::start(const std::string &name) {
  stop();
  seconds.emplace_back(name, 0);
  since = std::chrono::steady_clock::now();
  running = true;
}

void StageTimer::stop() {
  if (running)
    seconds.back().second +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  running = false;
}

namespace {

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const CompileOptions &options) {
  std::filesystem::path path = options.modelPath;
  if (!std::filesystem::exists(path))
    throw Error::badInput("no file \"" + options.modelPath + "\"");
  if (path.extension() == ".mlir") {
    context.loadDialect<StowDialect>();
    ParserConfig config(&context);
    auto module = parseSourceFile<ModuleOp>(options.modelPath, config);
    if (!module)
      throw Error::badInput("cannot read \"" + options.modelPath + "\"");
    return module;
  }
  if (path.extension() != ".onnx")
    throw Error::badInput("cannot tell what \"" + options.modelPath +
                          "\" is; expected a file ending in .onnx or .mlir");
  auto module = importOnnx(context, options.modelPath, options.import);
  if (!module)
    throw Error::badInput("cannot import \"" + options.modelPath + "\"");
  return module;
}

void run(ModuleOp module, const char *stage, llvm::function_ref<void(PassManager &)> addPasses) {
  PassManager manager(module.getContext());
  addPasses(manager);
  if (failed(manager.run(module)))
    throw Error::badInput(std::string("compilation stopped in stage ") + stage);
}

double number(const std::map<std::string, std::string> &settings, const std::string &key,
              double otherwise) {
  auto found = settings.find(key);
  return found == settings.end() ? otherwise : std::stod(found->second);
}

// F0: rewrites of the model that change neither values nor gradients.
void addModelPasses(PassManager &manager) {
  manager.addPass(createVerifyModelPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createHoistConstantsPass());
  manager.addPass(createSinkReluPass());
}

// F0 -> F1: the training step and the evaluation graph. Beyond this point, no new arithmetic.
void addStepPasses(PassManager &manager, const CompileOptions &options) {
  SplitTrainEvalPassOptions split;
  split.freezeBatchNorm = options.freezeBatchNorm;
  manager.addPass(createSplitTrainEvalPass(split));

  AttachLossPassOptions loss;
  loss.loss = options.loss.name;
  loss.output = options.lossOutput;
  if (auto found = options.loss.settings.find("reduction"); found != options.loss.settings.end())
    loss.reduction = found->second;
  loss.ignoreIndex = static_cast<int64_t>(number(options.loss.settings, "ignore-index", -100));
  manager.addPass(createAttachLossPass(loss));
  manager.addPass(createAutodiffPass());

  const auto &settings = options.optimizer.settings;
  AttachOptimizerPassOptions optimizer;
  optimizer.optimizer = options.optimizer.name;
  optimizer.momentum = number(settings, "momentum", 0);
  optimizer.nesterov = settings.contains("nesterov") && settings.at("nesterov") == "true";
  optimizer.weightDecay = number(settings, "weight-decay", 0);
  optimizer.beta1 = number(settings, "beta1", 0.9);
  optimizer.beta2 = number(settings, "beta2", 0.999);
  optimizer.epsilon = number(settings, "epsilon", 1e-8);
  manager.addPass(createAttachOptimizerPass(optimizer));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createVerifyStepPass());
}

// F1 -> F2: kernels in their final order. Beyond this point, no new values.
void addOrderPasses(PassManager &manager, const Target &target, const std::string &checkpoint) {
  manager.addPass(createAssignLayoutsPass(target));
  manager.addPass(createCSEPass());
  manager.addPass(createFuseElementwisePass());
  manager.addPass(createPlanWorkspacesPass(target));
  CheckpointPassOptions options;
  options.mode = checkpoint;
  manager.addPass(createCheckpointPass(options));
  manager.addPass(createBindStatePass());
  manager.addPass(createShareInPlacePass());
  manager.addPass(createVerifyOrderedPass());
}

// F2 -> F3: every buffer gets its place. Beyond this point, every offset is final.
void addPlacePasses(PassManager &manager) {
  manager.addPass(createPackBuffersPass());
  manager.addPass(createVerifyPlacedPass());
}

/// Arena of the same step with every activation kept.
Bytes arenaWithoutRecompute(ModuleOp step, const Target &target) {
  OwningOpRef<ModuleOp> clone = cast<ModuleOp>(step->clone());
  run(*clone, "plan without recomputation", [&](PassManager &manager) {
    addOrderPasses(manager, target, "none");
    addPlacePasses(manager);
  });
  return describePlan(*clone).arenaBytes;
}

} // namespace

CompiledPlan compileToPlan(MLIRContext &context, const CompileOptions &options, StageTimer &timer) {
  CompiledPlan result;
  timer.start("import");
  result.module = loadModel(context, options);
  ModuleOp module = *result.module;
  module.setSymName(std::filesystem::path(options.modelPath).filename().string());
  run(module, "model", addModelPasses);
  if (options.stopAfter == Form::Model)
    return result;

  timer.start("step");
  run(module, "step", [&](PassManager &manager) { addStepPasses(manager, options); });
  if (options.stopAfter == Form::Step)
    return result;

  timer.start("order");
  host::HostTarget target(options.threads);
  std::optional<Bytes> withoutRecompute;
  if (options.checkpoint != "none")
    withoutRecompute = arenaWithoutRecompute(module, target);
  run(module, "order",
      [&](PassManager &manager) { addOrderPasses(manager, target, options.checkpoint); });
  if (options.stopAfter == Form::Ordered)
    return result;

  timer.start("place");
  run(module, "place", addPlacePasses);
  result.plan = describePlan(module);
  if (withoutRecompute)
    result.plan.withoutRecomputeBytes = *withoutRecompute;
  timer.stop();
  return result;
}

} // namespace stow
