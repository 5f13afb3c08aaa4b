// Runs kernels under test as PTX on the simulated device, every access held to the op's operands and
// results; small launches with the check of races.
#include "tests/gpu/DeviceRunner.h"

#include "codegen/cuda/NvvmCode.h"
#include "codegen/kernels/device/KernelSequence.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/gpu/KernelCase.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include "codegen/kernels/Lanes.h"
#include "runtime/base/Concat.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

namespace stow {

uint64_t storedBytes(mlir::Type type) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  Shape shape(tensor.getShape().begin(), tensor.getShape().end());
  unsigned bits = std::max(8u, tensor.getElementType().getIntOrFloatBitWidth());
  return static_cast<uint64_t>(storedElementCount(layoutOf(tensor), shape)) * bits / 8;
}

std::string compileToPtx(KernelModule &kernels, const std::string &chip) {
  NvvmOptions options;
  options.chip = chip;
  options.toolkit = STOWAGE_CUDA_TOOLKIT; // for functions of f64
  if (failed(compileToNvvm(kernels.module(), options)))
    throw std::runtime_error("the kernels cannot be compiled for " + chip);
  for (mlir::gpu::BinaryOp binary : kernels.module().getOps<mlir::gpu::BinaryOp>())
    return mlir::cast<mlir::gpu::ObjectAttr>(binary.getObjects()[0]).getObject().getValue().str();
  throw std::runtime_error("no device binary was made");
}

namespace {

/// What is known of a byte for finding races takes 36: of launches that touch more than a megabyte, as many pages are watched.
constexpr uint64_t kMostForRaces = 1 << 20;

/// Blocks of a launch in a program for an H200 (CudaDevice.cpp), and how many of them are run beside the tests' few.
constexpr int64_t kProductionBlocks = 16 * 132;
constexpr uint64_t kSampledBlocks = 24;

/// An op under test: its kernels, and of its operands, results and workspace the bytes and types.
struct Arguments {
  std::vector<KernelInfo> infos;
  size_t operands;
  std::vector<uint64_t> bytes;
  std::vector<std::string> types;
};

/// Keeps launches as files where STOWAGE_RECORD_KERNELS names a folder, for GPUs (KernelCheck.cpp).
class Recorder {
public:
  /// A module of kernels whose launches follow.
  void begin(const std::string &ptx) {
    if (!folder)
      return;
    static int modules = 0;
    std::string number = std::to_string(++modules);
    name = std::string(4 - std::min<size_t>(4, number.size()), '0') + number;
    std::ofstream(std::filesystem::path(folder) / (name + ".ptx")) << ptx;
  }

  /// Larger launches, and those of a kernel beyond the first few, are left out: they would make files
  /// that nobody wants to copy.
  void before(const sim::Launch &launch, const Arguments &known, const KernelInfo &info,
              int64_t begin, int64_t end, const std::vector<char *> &arguments) {
    recorded = {};
    if (!folder ||
        std::accumulate(known.bytes.begin(), known.bytes.end(), uint64_t{0}) > kMostToRecord ||
        ++launchesOf[info.symbol] > kMostOfKernel)
      return;
    recorded = {name + ".ptx",
                info.symbol,
                begin,
                end,
                launch.grid[0],
                launch.block[0],
                static_cast<unsigned>(launch.dynamicSharedBytes),
                {},
                {},
                known.operands};
    std::map<char *, size_t> numbers;
    for (size_t i = 0; i < arguments.size(); ++i) {
      auto [number, isNew] = numbers.try_emplace(arguments[i], recorded.places.size());
      if (isNew)
        recorded.places.push_back(
            {known.types[i], {arguments[i], arguments[i] + known.bytes[i]}, {}});
      recorded.arguments.push_back(number->second);
    }
  }

  void after(const std::vector<char *> &arguments) {
    if (recorded.kernel.empty())
      return;
    for (size_t i = recorded.results; i < arguments.size(); ++i) {
      KernelCase::Place &place = recorded.places[recorded.arguments[i]];
      place.after.assign(arguments[i], arguments[i] + place.before.size());
    }
    writeCase(recorded, std::filesystem::path(folder) / (concat(name, "-", launches++, ".case")));
  }

private:
  static constexpr uint64_t kMostToRecord = 1 << 18;
  static constexpr int kMostOfKernel = 3;
  const char *folder = getenv("STOWAGE_RECORD_KERNELS");
  std::string name;
  KernelCase recorded;
  int launches = 0;
  std::map<std::string, int> launchesOf; ///< by symbol
};

class DeviceRunner final : public KernelRunner {
public:
  DeviceRunner(mlir::MLIRContext *context, const std::string &cpu)
      : kernels(context, KernelTarget::Device), memory(uint64_t{1} << 30) {
    const char *wanted = getenv("STOWAGE_TEST_CHIP");
    chip = cpu != "native" ? "sm_80" : wanted ? wanted : "sm_90";
  }

  KernelInfo add(mlir::Operation *op) override {
    const auto sequence = kernelSequence(op);
    Arguments arguments{{}, op->getNumOperands(), {}, {}};
    auto infos = addKernels(kernels, op);
    if (failed(infos))
      throw std::runtime_error("the kernels cannot be emitted");
    arguments.infos.assign(infos->begin(), infos->end());
    auto add = [&](mlir::Type type) {
      arguments.bytes.push_back(storedBytes(type));
      std::string name;
      llvm::raw_string_ostream(name) << mlir::cast<mlir::ShapedType>(type).getElementType();
      arguments.types.push_back(name);
    };
    for (mlir::Type type : op->getOperandTypes())
      add(type);
    for (mlir::Type type : op->getResultTypes())
      add(type);
    KernelInfo first = arguments.infos.front();
    if (sequence) {
      arguments.bytes.push_back(static_cast<uint64_t>(sequence->scratchBytes()));
      arguments.types.push_back("f32");
      first.tasks = 1; // its kernels run one after the other, each as a whole
    }
    ops.push_back(arguments);
    return first;
  }

  void compile() override {
    const std::string ptx = compileToPtx(kernels, chip);
    module.emplace(ptx, memory);
    recorder.begin(ptx);
  }

  void run(size_t op, int64_t begin, int64_t end, const std::vector<char *> &arguments) override {
    const Arguments &known = ops.at(op);
    if (known.infos.size() == 1)
      return launchKernel(known, known.infos.front(), begin, end, arguments);
    std::vector<char> workspace(known.bytes.back(), '\xFF');
    std::vector<char *> all = arguments;
    all.push_back(workspace.data());
    for (const KernelInfo &info : known.infos)
      launchKernel(known, info, 0, info.tasks, all);
  }

private:
  void launchKernel(const Arguments &known, const KernelInfo &info, int64_t begin, int64_t end,
                    const std::vector<char *> &arguments) {
    sim::Launch launch;
    launch.kernel = module->kernel(info.symbol);
    launch.block = {static_cast<uint32_t>(launch.kernel->maxThreads), 1, 1};
    launch.dynamicSharedBytes = static_cast<uint64_t>(info.sharedBytes);
    // Fewer blocks than tasks: they must stride.
    launch.grid = {static_cast<uint32_t>(std::clamp<int64_t>((end - begin + 1) / 2, 1, 13)), 1, 1};
    launch.checks.planned = true;
    launch.checks.races = true;
    launch.checks.racePages = static_cast<uint32_t>(
        1 + std::accumulate(known.bytes.begin(), known.bytes.end(), uint64_t{0}) / kMostForRaces);
    std::vector<uint64_t> params = {static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
    std::map<char *, uint64_t> places; // arguments at one place on the host are one on the device
    for (size_t i = 0; i < arguments.size(); ++i) {
      uint64_t bytes = known.bytes.at(i);
      auto [place, isNew] = places.try_emplace(arguments[i], 0);
      if (isNew) {
        place->second = memory.allocate(std::max<uint64_t>(bytes, 1));
        memcpy(memory.host(place->second, bytes), arguments[i], bytes);
      }
      params.push_back(place->second);
      bool reads = i < known.operands;
      std::string name = concat(reads ? "operand " : "result ", reads ? i : i - known.operands);
      (reads ? launch.checks.reads : launch.checks.writes)
          .push_back({place->second, place->second + bytes, name});
    }
    launch.params.resize(params.size() * 8);
    memcpy(launch.params.data(), params.data(), launch.params.size());
    recorder.before(launch, known, info, begin, end, arguments);
    std::map<char *, std::vector<char>> before;
    for (size_t i = 0; i < arguments.size(); ++i)
      before[arguments[i]].assign(arguments[i], arguments[i] + known.bytes[i]);
    sim::execute(launch, memory);
    for (size_t i = known.operands; i < arguments.size(); ++i)
      memcpy(arguments[i], memory.host(params[i + 2], known.bytes[i]), known.bytes[i]);
    recorder.after(arguments);
    if (inProductionGrid.insert(info.symbol).second)
      runInProductionGrid(launch, known, end - begin, arguments, before, places);
    for (auto &[host, place] : places)
      memory.release(place, sim::DeviceMemory::Kind::Device);
  }

  /// The launch that was just run, in a grid as programs have it, from what was there before: some of its blocks write the same bytes, and
  /// no others.
  void runInProductionGrid(sim::Launch launch, const Arguments &known, int64_t tasks,
                           const std::vector<char *> &arguments,
                           const std::map<char *, std::vector<char>> &before,
                           const std::map<char *, uint64_t> &places) {
    const auto blocks = static_cast<uint32_t>(std::clamp<int64_t>(tasks, 1, kProductionBlocks));
    launch.grid = {blocks, 1, 1};
    launch.blocks.clear();
    for (uint64_t i = 0; i < std::min<uint64_t>(blocks, kSampledBlocks);
         ++i) // the first, the last, and some between
      launch.blocks.push_back(
          i * (blocks - 1) / std::max<uint64_t>(std::min<uint64_t>(blocks, kSampledBlocks) - 1, 1));
    // Where nothing is read, every byte begins as what it must not become.
    std::map<char *, std::vector<char>> begins = before;
    for (size_t i = known.operands; i < arguments.size() && known.infos.size() == 1; ++i)
      if (std::find(
              arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(known.operands),
              arguments[i]) == arguments.begin() + static_cast<std::ptrdiff_t>(known.operands))
        std::transform(arguments[i], arguments[i] + known.bytes[i], begins[arguments[i]].begin(),
                       [](char byte) { return static_cast<char>(~byte); });
    for (const auto &[host, place] : places)
      memcpy(memory.host(place, begins[host].size()), begins[host].data(), begins[host].size());
    sim::execute(launch, memory);
    for (size_t i = known.operands; i < arguments.size(); ++i) {
      const char *found =
          reinterpret_cast<const char *>(memory.host(places.at(arguments[i]), known.bytes[i]));
      for (uint64_t at = 0; at < known.bytes[i]; ++at)
        if (found[at] != arguments[i][at] && found[at] != begins[arguments[i]][at])
          throw std::runtime_error(concat("kernel ", launch.kernel->name, " in ", blocks,
                                          " blocks writes another byte ", at, " of result ",
                                          i - known.operands, " than in fewer"));
    }
  }

  std::string chip;
  Recorder recorder;
  std::set<std::string> inProductionGrid; ///< symbols of kernels that have been run so
  KernelModule kernels;
  std::vector<Arguments> ops;
  sim::DeviceMemory memory;
  std::optional<sim::LoadedModule> module;
};

} // namespace

std::unique_ptr<KernelRunner> makeKernelRunner(mlir::MLIRContext *context, const std::string &cpu) {
  return std::make_unique<DeviceRunner>(context, cpu);
}

} // namespace stow
