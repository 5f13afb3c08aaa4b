#include "compiler/StepRun.h"

#include "ir/StepGraphs.h"
#include "ir/Stow.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/PlanWords.h"
#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/program/TrainingStep.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

using namespace mlir;

namespace stow {
namespace {

/// The first of these brings code and tables into memory and does not count (Profile.h).
constexpr int64_t stepsAtLeast = 4;

/// The numbers that an input's elements may be.
int64_t indicesOf(const GraphInput &input) {
  return std::max<int64_t>({1, input.indexedRows, input.labelClasses});
}

/// A step in this process, with its state at its first values.
class LoadedStep {
public:
  /// None where the machine has less memory than the arena needs and `besideBytes`, of an arena that
  /// is not yet in use. What travels goes to `slowFolder`.
  static std::unique_ptr<LoadedStep> make(ModuleOp placed, int64_t threads, const Backend &backend,
                                          Bytes besideBytes = 0,
                                          const std::string &slowFolder = "") {
    auto built = backend.build(placed);
    if (failed(built))
      throw Error::badInput("compilation stopped in stage measure");
    if (const auto available = backend.availableMemory();
        available && built->program.plan.arenaBytes + besideBytes > *available)
      return nullptr;
    built->program.threads = threads;
    built->program.slowFolder = slowFolder;
    built->program.batchesPerStep = batchesPerStep(placed);
    return std::unique_ptr<LoadedStep>(new LoadedStep(std::move(*built), backend));
  }

  const Program &program() const { return executor->program(); }
  int64_t threads() const { return executor->threads(); }

  /// One step.
  void run() {
    for (int64_t batch = 0; batch < program().batchesPerStep; ++batch) {
      const size_t index = stepGraphIndex(program(), batch);
      for (const GraphInput &input : program().graphs[index].inputs)
        if (input.role == InputRole::Rows)
          fillForMeasuring(executor->device(), input.place, input.place.shape.front());
        else if (input.role == InputRole::Data || input.role == InputRole::Target)
          fillForMeasuring(executor->device(), input.place, indicesOf(input));
      profiles[index].beginStep();
      training->start({.step = done}, &profiles[index], batch);
      training->finish();
      profiles[index].endStep();
    }
    ++done;
  }

  /// Least nanoseconds of a command in any step but the first. The wait for a copy takes time of no processor.
  schedule::Cost least(size_t graph, size_t command) const {
    const CommandTime time = profiles[graph].least(command);
    const bool waits = program().graphs[graph].commands[command].op == CommandOp::AwaitCopy;
    const double seconds = threads() == 1 && !waits ? time.processorSeconds : time.seconds;
    return std::max<schedule::Cost>(1, static_cast<schedule::Cost>(1e9 * seconds));
  }

  /// The sum of these over a step.
  double leastSum() const {
    schedule::Cost sum = 0;
    for (size_t graph = 0; graph < profiles.size(); ++graph) {
      const bool isLast = graph == stepGraphIndex(program(), program().batchesPerStep - 1);
      for (size_t i = 0; i < program().graphs[graph].commands.size(); ++i)
        sum += (isLast ? 1 : program().batchesPerStep - 1) * least(graph, i);
    }
    return static_cast<double>(sum);
  }

private:
  LoadedStep(BuiltProgram given, const Backend &backend)
      : built(std::move(given)), code(backend.load(built)) {
    executor.emplace(built.program, ProgramImage{code->kernels(), built.constants},
                     ExecutorOptions{});
    executor->initializeState(0);
    training.emplace(*executor);
    for (const GraphProgram &graph : program().graphs)
      profiles.emplace_back(graph, threads(), stepsAtLeast);
  }

  BuiltProgram built;
  std::unique_ptr<LoadedCode> code;
  std::optional<Executor> executor;
  std::optional<TrainingStep> training;
  std::vector<Profile> profiles; ///< by graph
  int64_t done = 0;              ///< steps
};

OwningOpRef<ModuleOp> stepAlone(ModuleOp placed) {
  OwningOpRef<ModuleOp> step = cast<ModuleOp>(placed->clone());
  keepStepAlone(*step);
  return step;
}

} // namespace

void fillForMeasuring(Device &device, const Operand &place, int64_t indices) {
  const Bytes bytes = storedBytes(place.layout, place.shape, place.dtype);
  char *begin = device.beginUpload(place.offset, bytes);
  std::memset(begin, 0, static_cast<size_t>(bytes));
  const Bytes size = sizeOf(place.dtype);
  uint64_t state = 0x9E3779B97F4A7C15;
  auto put = [&](auto encode) {
    for (Bytes at = 0; at + size <= bytes; at += size) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const auto element = encode(static_cast<double>(state >> 40) / (1 << 24));
      std::memcpy(begin + at, &element, sizeof element);
    }
  };
  auto number = [](double unit) { return 0.5 + unit / 2; };
  auto index = [&](double unit) { return unit * static_cast<double>(indices); };
  if (place.dtype == DType::F64)
    put([&](double unit) { return number(unit); });
  else if (place.dtype == DType::F32)
    put([&](double unit) { return static_cast<float>(number(unit)); });
  else if (place.dtype == DType::BF16)
    put([&](double unit) {
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number(unit))) >> 16);
    });
  else if (place.dtype == DType::F16)
    put([&](double unit) { return static_cast<uint16_t>(0x3800 + static_cast<int>(unit * 1024)); });
  else if (place.dtype == DType::I64)
    put([&](double unit) { return static_cast<int64_t>(index(unit)); });
  else if (place.dtype == DType::I32)
    put([&](double unit) { return static_cast<int32_t>(index(unit)); });
  device.endUpload();
}

std::optional<StepNanoseconds> runStep(ModuleOp placed, int64_t threads, const Backend &backend) {
  const auto step = LoadedStep::make(placed, threads, backend);
  if (!step)
    return std::nullopt;
  for (int64_t i = 0; i < stepsAtLeast; ++i)
    step->run();
  StepNanoseconds times;
  for (auto graph : placed.getOps<func::FuncOp>()) {
    const size_t index = graphIndex(step->program(), graphRoleOf(graph));
    const Liveness liveness(graph);
    for (Operation &op : graph.getBody().front())
      if (!opsOfCommand(&op).empty())
        times[&op] = step->least(index, static_cast<size_t>(*liveness.commandOf(&op)));
  }
  return times;
}

std::optional<double> extraTimeByRuns(ModuleOp whole, ModuleOp placed, int64_t threads,
                                      const Backend &backend, const std::string &slowFolder) {
  OwningOpRef<ModuleOp> wholeStep = stepAlone(whole), placedStep = stepAlone(placed);
  const auto once = LoadedStep::make(*wholeStep, threads, backend, 0, slowFolder);
  const auto again = once ? LoadedStep::make(*placedStep, threads, backend,
                                             once->program().plan.arenaBytes, slowFolder)
                          : nullptr;
  if (!again)
    return std::nullopt;
  using Clock = std::chrono::steady_clock;
  constexpr int64_t most = 50;
  constexpr std::chrono::seconds enough(2);
  const auto begin = Clock::now();
  for (int64_t i = 0; i < most && (i < 2 * stepsAtLeast || Clock::now() - begin < enough); ++i)
    for (LoadedStep *step : {once.get(), again.get()})
      step->run();
  return again->leastSum() / once->leastSum() - 1;
}

void keepStepAlone(ModuleOp module) {
  for (auto graph : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!isStepGraph(graph))
      graph.erase();
}

} // namespace stow
