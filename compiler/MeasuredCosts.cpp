#include "compiler/MeasuredCosts.h"

#include "compiler/StepKernels.h"
#include "compiler/StepRun.h"
#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "ir/StowCollectiveOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/SendStates.h"
#include "passes/order/CostModel.h"
#include "passes/plan/Stages.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Json.h"
#include "runtime/program/Executor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <absl/strings/str_cat.h>
#include <chrono>
#include <filesystem>

using namespace mlir;

namespace stow {
namespace {

/// The kernels that run in this process: what ranks do together needs them all, and is weighed by the data sheet and --network.
SmallVector<Operation *> measuredOf(ModuleOp prepared) {
  SmallVector<Operation *> ops = launchesOf(prepared);
  llvm::erase_if(ops, [](Operation *op) { return isCollective(op) || isa<ShardOp>(op); });
  return ops;
}

/// The step of `prepared` with everything kept, all state in the arena, in program order.
OwningOpRef<ModuleOp> placeWholeStep(ModuleOp prepared, const Target &target) {
  OwningOpRef<ModuleOp> kept = cast<ModuleOp>(prepared->clone());
  keepStepAlone(*kept);
  for (auto graph : kept->getOps<func::FuncOp>())
    withStateInArena(graph);
  OwningOpRef<ModuleOp> step = withStateBound(*kept);
  runStage(*step, "measure", [&](PassManager &manager) {
    addSharePasses(manager, target);
    addPlacePasses(manager, packingFor(target));
  });
  return step;
}

/// Least nanoseconds of a run of graph `index`, by the device's clock: of three runs at least, and
/// of more while they are short.
schedule::Cost leastTime(Executor &executor, size_t index) {
  using Clock = std::chrono::steady_clock;
  constexpr int kFewest = 3, kMost = 50;
  constexpr std::chrono::milliseconds kEnough(4);
  Device &device = executor.device();
  const GraphProgram &graph = executor.program().graphs[index];
  for (const GraphInput &input : graph.inputs)
    fillForMeasuring(device, input.place);
  std::vector<CommandTime> times(graph.commands.size());
  auto runOnce = [&] {
    device.run(index, times);
    double seconds = 0;
    for (const CommandTime &time : times)
      seconds += time.seconds;
    return seconds;
  };
  double least = runOnce();
  const auto begin = Clock::now();
  for (int run = 0; run < kMost && (run < kFewest || Clock::now() - begin < kEnough); ++run)
    least = std::min(least, runOnce());
  return std::max<schedule::Cost>(1, static_cast<schedule::Cost>(1e9 * least));
}

} // namespace

void MeasuredCosts::measure(ModuleOp prepared, int64_t onThreads, const Backend &backend) {
  if (llvm::all_of(measuredOf(prepared),
                   [&](Operation *op) { return kernels.contains(keyOf(op)); }))
    return;
  processor = backend.processor();
  threads = onThreads;
  // One process alone runs no step of several devices.
  if (devicesOf(prepared) > 1)
    isInStep = false;
  else
    timeInStep(prepared, backend);
  timeAlone(prepared, backend);
}

void MeasuredCosts::timeInStep(ModuleOp prepared, const Backend &backend) {
  OwningOpRef<ModuleOp> step = placeWholeStep(prepared, backend.target());
  const std::optional<StepNanoseconds> times = runStep(*step, threads, backend);
  isInStep = isInStep && times.has_value();
  if (!times)
    return;
  std::map<std::string, Kernel> found;
  std::map<std::string, int64_t> runs;
  for (Operation *op : launchesOf(*step)) {
    const std::string key = keyOf(op);
    Kernel &kernel = found[key];
    kernel.op = op->getName().stripDialect().str();
    if (runs[key]++ == 0)
      kernel.node = sourceNameOf(op->getLoc());
    kernel.nanoseconds += times->lookup(op);
  }
  for (auto &[key, kernel] : found)
    kernel.nanoseconds = std::max<schedule::Cost>(1, kernel.nanoseconds / runs[key]);
  kernels.merge(found); // what is known stays
}

void MeasuredCosts::timeAlone(ModuleOp prepared, const Backend &backend) {
  OpBuilder builder(prepared.getContext());
  OwningOpRef<ModuleOp> alone = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(alone->getBody());
  std::vector<Kernel *> measured;
  for (Operation *op : measuredOf(prepared)) {
    auto [kernel, isNew] = kernels.try_emplace(keyOf(op));
    if (!isNew)
      continue;
    kernel->second.op = op->getName().stripDialect().str();
    kernel->second.node = sourceNameOf(op->getLoc());
    isolate(op, builder, absl::StrCat("kernel", measured.size()));
    measured.push_back(&kernel->second);
  }
  if (measured.empty())
    return;
  runStage(*alone, "measure", [](PassManager &manager) { addPlacePasses(manager); });
  auto built = backend.build(*alone);
  if (failed(built))
    throw Error::badInput("compilation stopped in stage measure");
  auto loaded = backend.load(*built);
  built->program.threads = threads;
  Executor executor(std::move(built->program), {loaded->kernels(), {}}, {});
  for (auto [index, kernel] : llvm::enumerate(measured))
    kernel->nanoseconds = leastTime(executor, index);
}

MeasuredCosts MeasuredCosts::load(const std::string &path, int64_t threads) {
  if (!std::filesystem::exists(path))
    throw Error::badInput("cannot read measured costs \"" + path +
                          "\"; --profile=run --save-profile=FILE writes such a file");
  Json json = parseJson(readInputFile(path), "measured costs " + path);
  JsonNode node(json, "measured costs " + path);
  MeasuredCosts costs;
  costs.processor = node.text("processor");
  costs.threads = node.count("threads");
  if (costs.threads != threads)
    throw Error::badInput(absl::StrCat(
        "measured costs ", path, " are of ", costs.threads, " threads, the step is planned for ",
        threads, "; give --threads=", costs.threads, " or measure again with --profile=run"));
  costs.isInStep = node.boolean("in_step");
  node.forEach("kernels", [&](const JsonNode &kernel) {
    Kernel read{kernel.text("op"), kernel.text("node"), kernel.count("nanoseconds")};
    if (read.nanoseconds < 1)
      kernel.fail("nanoseconds", "must be above zero");
    if (!costs.kernels.emplace(kernel.text("key"), read).second)
      kernel.fail("key", "is there twice");
  });
  return costs;
}

void MeasuredCosts::save(const std::string &path) const {
  Json json;
  json["processor"] = processor;
  json["threads"] = threads;
  json["in_step"] = isInStep;
  json["kernels"] = Json::array();
  for (const auto &[key, kernel] : kernels)
    json["kernels"].push_back({{"key", key},
                               {"op", kernel.op},
                               {"node", kernel.node},
                               {"nanoseconds", kernel.nanoseconds}});
  writeFile(path, dumpJson(json, 1) + "\n");
}

void MeasuredCosts::annotate(ModuleOp prepared) const {
  Builder builder(prepared.getContext());
  for (Operation *op : measuredOf(prepared)) {
    auto kernel = kernels.find(keyOf(op));
    if (kernel == kernels.end())
      throw Error::badInput("the measured costs have none for " +
                            op->getName().stripDialect().str() + " of node \"" +
                            sourceNameOf(op->getLoc()) +
                            "\": they are of another model, batch, number of devices or "
                            "compiler; measure again with --profile=run");
    op->setAttr(kCostAttr, builder.getI64IntegerAttr(kernel->second.nanoseconds));
  }
}

std::string MeasuredCosts::describe() const {
  return absl::StrCat(isInStep ? "measured on " : "measured kernel by kernel on ", processor, ", ",
                      threads, threads == 1 ? " thread" : " threads");
}

} // namespace stow
