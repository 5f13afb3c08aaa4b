// Runs kernels under test as PTX on the simulated device, every access held to the op's operands and
// results; small launches with the check of races.
#include "tests/gpu/DeviceRunner.h"

#include "codegen/cuda/NvvmCode.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/gpu/execute/Execute.h"
#include "tests/gpu/execute/LoadedModule.h"

#include "codegen/kernels/Lanes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
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

constexpr uint64_t kMostForRaces = 1 << 20;

class DeviceRunner final : public KernelRunner {
public:
  DeviceRunner(mlir::MLIRContext *context, const std::string &cpu)
      : kernels(context, KernelTarget::Device), memory(uint64_t{1} << 30) {
    const char *wanted = getenv("STOWAGE_TEST_CHIP");
    chip = cpu != "native" ? "sm_80" : wanted ? wanted : "sm_90";
  }

  KernelInfo add(mlir::Operation *op) override {
    auto info = kernels.add(op);
    if (failed(info))
      throw std::runtime_error("the kernel cannot be emitted");
    Arguments arguments{*info, op->getNumOperands(), {}};
    for (mlir::Type type : op->getOperandTypes())
      arguments.bytes.push_back(storedBytes(type));
    for (mlir::Type type : op->getResultTypes())
      arguments.bytes.push_back(storedBytes(type));
    ops.push_back(arguments);
    return *info;
  }

  void compile() override { module.emplace(compileToPtx(kernels, chip), memory); }

  void run(size_t op, int64_t begin, int64_t end, const std::vector<char *> &arguments) override {
    const Arguments &known = ops.at(op);
    sim::Launch launch;
    launch.kernel = module->kernel(known.info.symbol);
    launch.block = {kDeviceBlock, 1, 1};
    // Fewer blocks than tasks: they must stride.
    launch.grid = {static_cast<uint32_t>(std::clamp<int64_t>((end - begin + 1) / 2, 1, 13)), 1, 1};
    launch.checks.planned = true;
    // What is known of a byte for finding races takes 36: only of launches that touch a megabyte.
    launch.checks.races =
        std::accumulate(known.bytes.begin(), known.bytes.end(), uint64_t{0}) <= kMostForRaces;
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
      std::string name =
          (reads ? "operand " : "result ") + std::to_string(reads ? i : i - known.operands);
      (reads ? launch.checks.reads : launch.checks.writes)
          .push_back({place->second, place->second + bytes, name});
    }
    launch.params.resize(params.size() * 8);
    memcpy(launch.params.data(), params.data(), launch.params.size());
    sim::execute(launch, memory);
    for (size_t i = known.operands; i < arguments.size(); ++i)
      memcpy(arguments[i], memory.host(params[i + 2], known.bytes[i]), known.bytes[i]);
    for (auto &[host, place] : places)
      memory.release(place, sim::DeviceMemory::Kind::Device);
  }

private:
  struct Arguments {
    KernelInfo info;
    size_t operands;
    std::vector<uint64_t> bytes;
  };
  std::string chip;
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
