// Modules, functions, launches.
//
// Images are PTX text, or fat binaries that hold PTX as it is (nvcc -Xfatbin=-compress=false). For the
// stand-in no cubin is made: one is answered with CUDA_ERROR_NO_BINARY_FOR_GPU, as by a chip that is
// newer than the cubin, upon which a program falls back to its PTX; unless the test has given the PTX of
// exactly this cubin.
#include "runtime/base/Concat.h"
#include "tests/gpu/driver/State.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace stow::sim;
using stow::concat;

namespace {

/// An ELF file's length: the end of its tables or of the last section.
size_t elfBytes(const uint8_t *image) {
  auto read = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, image + at, bytes);
    return value;
  };
  uint64_t table = read(40, 8), entry = read(58, 2), count = read(60, 2);
  uint64_t end = std::max(table + entry * count, read(32, 8) + read(54, 2) * read(56, 2));
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t header = table + i * entry;
    if (read(header + 4, 4) != 8) // sections without bytes
      end = std::max(end, read(header + 24, 8) + read(header + 32, 8));
  }
  return end;
}

/// The PTX inside a fat binary: a header, then entries of kind 1 (PTX) or 2 (cubin).
std::string ptxOfFatbin(const uint8_t *image) {
  auto read = [&](const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
  };
  uint64_t header = read(image + 6, 2), total = read(image + 8, 8);
  for (uint64_t at = header; at < header + total;) {
    const uint8_t *entry = image + at;
    uint64_t kind = read(entry, 2), headerBytes = read(entry + 4, 4), bytes = read(entry + 8, 8);
    uint64_t compressed = read(entry + 16, 4), flags = read(entry + 40, 8);
    if (kind == 1) {
      require(compressed == 0 && !(flags & 0xA000),
              "the PTX of the fat binary is compressed; give -Xfatbin=-compress=false to nvcc",
              CUDA_ERROR_INVALID_IMAGE);
      std::string text(reinterpret_cast<const char *>(entry + headerBytes), bytes);
      return text.substr(0, text.find('\0'));
    }
    at += headerBytes + bytes;
  }
  throw Refusal{CUDA_ERROR_NO_BINARY_FOR_GPU, "the fat binary holds no PTX"};
}

std::string ptxOf(Driver &driver, const void *image) {
  require(image, "no image");
  const auto *bytes = static_cast<const uint8_t *>(image);
  uint32_t magic;
  memcpy(&magic, bytes, 4);
  if (magic == 0x466243B1) { // a wrapper of nvcc around the fat binary
    memcpy(&bytes, bytes + 8, sizeof bytes);
    memcpy(&magic, bytes, 4);
  }
  if (magic == 0xBA55ED50)
    return ptxOfFatbin(bytes);
  if (magic == 0x464C457F) {
    std::string cubin(reinterpret_cast<const char *>(bytes), elfBytes(bytes));
    auto known = driver.ptxOfCubin.find(cubin);
    require(known != driver.ptxOfCubin.end(),
            "the stand-in executes PTX, and no standinProvidePtx named this cubin",
            CUDA_ERROR_NO_BINARY_FOR_GPU);
    return known->second;
  }
  return reinterpret_cast<const char *>(bytes);
}

/// Number behind `directive` in the text, "8.3" as 83.
int versionOf(const std::string &ptx) {
  size_t at = ptx.find(".version");
  if (at == std::string::npos)
    return 0;
  int major = 0, minor = 0;
  sscanf(ptx.c_str() + at, ".version %d.%d", &major, &minor);
  return 10 * major + minor;
}

/// Variables in shared memory of a kernel take at most 48 KiB: beyond is dynamic, and asked for (CUDA C++ Programming Guide, shared memory of
/// compute capability 8.x and 9.0).
void checkShared(const LoadedModule &loaded) {
  constexpr uint64_t most = 48 << 10;
  for (const Function &function : loaded.module().functions)
    if (const Kernel *kernel = loaded.kernel(function.name))
      require(kernel->sharedBytes <= most,
              concat("the kernel ", function.name, " has variables of ", kernel->sharedBytes,
                     " bytes in shared memory, a block takes ", most),
              CUDA_ERROR_INVALID_PTX);
}

/// Kernels take so many bytes of parameters (PTX ISA, kernel function parameters; before version 8.1 that is 4,352, of which the driver API
/// documents 4 KiB).
void checkParameters(const LoadedModule &loaded, int version) {
  const uint64_t most = version >= 81 && loaded.module().target >= 70 ? 32764 : 4096;
  for (const Function &function : loaded.module().functions)
    if (const Kernel *kernel = loaded.kernel(function.name))
      require(kernel->paramBytes <= most,
              concat("the kernel ", function.name, " has ", kernel->paramBytes,
                     " bytes of parameters, PTX of version ", version, " takes ", most),
              CUDA_ERROR_INVALID_PTX);
}

void load(Driver &driver, CUmodule *module, const void *image) {
  std::string ptx = ptxOf(driver, image);
  // The PTX version of CUDA 12.x is 8.x, of 13.x 9.x.
  int newest = 10 * (driver.version / 1000 - 4) + driver.version % 1000 / 10;
  require(versionOf(ptx) <= newest,
          concat("PTX of version ", versionOf(ptx), "; a driver of version ", driver.version,
                 " takes ", newest, " and older"),
          CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  auto made = std::make_unique<CUmod_st>();
  try {
    made->loaded = std::make_unique<LoadedModule>(ptx, *driver.memory);
  } catch (const PtxError &error) {
    throw Refusal{CUDA_ERROR_INVALID_PTX, error.what()};
  }
  checkParameters(*made->loaded, versionOf(ptx));
  checkShared(*made->loaded);
  int chip = 10 * driver.chip.major + driver.chip.minor;
  require(made->loaded->module().target <= chip,
          concat("PTX for sm_", made->loaded->module().target, " on sm_", chip),
          CUDA_ERROR_NO_BINARY_FOR_GPU);
  driver.counters.modules++;
  driver.modules.insert(made.get());
  *module = made.release();
}

void requireModule(Driver &driver, CUmodule module) {
  require(driver.modules.count(module), "the module does not exist", CUDA_ERROR_INVALID_HANDLE);
}

CUfunction functionOf(CUmodule module, const char *name) {
  for (auto &known : module->functions)
    if (known->kernel->name == name)
      return known.get();
  const Kernel *kernel = module->loaded->kernel(name);
  require(kernel, std::string("the module has no kernel ") + name, CUDA_ERROR_NOT_FOUND);
  auto function = std::make_unique<CUfunc_st>();
  function->module = module, function->kernel = kernel;
  module->functions.push_back(std::move(function));
  return module->functions.back().get();
}

void requireFunction(Driver &driver, CUfunction function) {
  for (CUmodule module : driver.modules)
    for (auto &known : module->functions)
      if (known.get() == function)
        return;
  throw Refusal{CUDA_ERROR_INVALID_HANDLE, "the function does not exist"};
}

//===-- resources -----------------------------------------------------------------------------===//

int attributeOf(const Driver &driver, CUfunction function, CUfunction_attribute which) {
  const Kernel &kernel = *function->kernel;
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return kernel.maxThreads;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return static_cast<int>(kernel.sharedBytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return static_cast<int>(kernel.localBytes);
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return kernel.registers;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return function->maxDynamicShared
               ? function->maxDynamicShared
               : driver.chip.sharedPerBlock - static_cast<int>(kernel.sharedBytes);
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return function->module->loaded->module().target;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return 0;
  default:
    throw Refusal{CUDA_ERROR_INVALID_VALUE, "a function attribute that the stand-in does not know"};
  }
}

/// Blocks that fit on a multiprocessor by threads, registers and shared memory.
int residentBlocks(const Driver &driver, CUfunction function, int threads, size_t dynamic) {
  const ChipFigures &chip = driver.chip;
  int warps = (threads + 31) / 32;
  int shared = static_cast<int>(function->kernel->sharedBytes + dynamic) + chip.sharedReserved;
  int registers = (function->kernel->registers + 7) / 8 * 8 * 32 * warps;
  int blocks = std::min(chip.blocksPerMultiprocessor, chip.threadsPerMultiprocessor / (warps * 32));
  blocks = std::min(blocks, chip.registersPerBlock / std::max(1, registers));
  return std::min(blocks, (chip.sharedPerBlockOptin + chip.sharedReserved) / shared);
}

//===-- launches ------------------------------------------------------------------------------===//

std::vector<uint8_t> paramBytes(const Kernel &kernel, void **params, void **extra) {
  std::vector<uint8_t> bytes(kernel.paramBytes);
  if (params) {
    for (size_t i = 0; i < kernel.params.size(); ++i)
      memcpy(bytes.data() + kernel.params[i].offset, params[i], kernel.params[i].bytes);
    return bytes;
  }
  const void *buffer = nullptr;
  size_t size = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *static_cast<size_t *>(extra[1]);
  }
  require(kernel.params.empty() || (buffer && size >= kernel.paramBytes),
          concat("kernel ", kernel.name, " takes ", kernel.paramBytes,
                 " bytes of parameters, found ", size));
  if (buffer)
    memcpy(bytes.data(), buffer, bytes.size());
  return bytes;
}

void checkShape(const Driver &driver, CUfunction function, const Launch &launch) {
  const Kernel &kernel = *function->kernel;
  uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  bool empty = !launch.grid[0] || !launch.grid[1] || !launch.grid[2] || !threads;
  require(!empty, "a launch of " + kernel.name + " without blocks or threads");
  require(launch.grid[0] <= 2147483647u && launch.grid[1] <= 65535 && launch.grid[2] <= 65535 &&
              threads <= 1024 && launch.block[2] <= 64,
          "a launch of " + kernel.name + " with more blocks or threads than the chip takes");
  require(threads <= static_cast<uint64_t>(kernel.maxThreads),
          concat("a launch of ", kernel.name, " with ", threads, " threads, it takes ",
                 kernel.maxThreads),
          CUDA_ERROR_INVALID_VALUE);
  auto limit = static_cast<uint64_t>(
      attributeOf(driver, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  require(launch.dynamicSharedBytes <= limit,
          concat("a launch of ", kernel.name, " with ", launch.dynamicSharedBytes,
                 " bytes of dynamic shared memory, it may have ", limit));
}

void runKernel(Driver &driver, Launch launch) {
  if (CUresult result = driver.injected("kernel"))
    throw Refusal{result, "kernel " + launch.kernel->name + " was asked to fail by the test"};
  launch.checks.races |= driver.checkRaces;
  launch.checks.busy = driver.busyBytes(), launch.checks.kept = driver.keptBytes();
  launch.threads = driver.threads;
  launch.multiprocessors = static_cast<uint32_t>(driver.chip.multiprocessors);
  launch.print = [](const std::string &text) { fputs(text.c_str(), stdout); };
  LaunchCounts counts = execute(launch, *driver.memory);
  driver.counters.kernels++;
  driver.counters.threadInstructions += counts.threadInstructions;
  driver.now += 2e-6 + static_cast<double>(counts.threadInstructions) /
                           (driver.chip.multiprocessors * 128e3 * driver.chip.clockKHz);
}

void launchKernel(Driver &driver, CUfunction function, Launch launch, CUstream stream,
                  void **params, void **extra) {
  requireFunction(driver, function);
  launch.kernel = function->kernel;
  stream = driver.requireStream(stream);
  checkShape(driver, function, launch);
  launch.params = paramBytes(*launch.kernel, params, extra);
  if (driver.onLaunch)
    driver.onLaunch(driver.onLaunchUser, launch.kernel->name.c_str(), launch.grid.data(),
                    launch.block.data(), params);
  if (expectedAccess())
    launch.checks = *std::exchange(expectedAccess(), std::nullopt);
  if (!stream->capture)
    driver.counters.launches++;
  driver.note = concat("kernel=", launch.kernel->name, " captured=", stream->capture ? 1 : 0);
  driver.submit(stream, CU_GRAPH_NODE_TYPE_KERNEL,
                [&driver, launch] { runKernel(driver, launch); });
}

} // namespace

//===-- modules -------------------------------------------------------------------------------===//

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return call("cuModuleLoadData", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuModuleLoadData");
    load(driver, module, image);
  });
}

/// Of the options only the log of errors is honoured.
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  return call("cuModuleLoadDataEx", Needs::Context, [&](Driver &driver) {
    driver.requireNoCapture("cuModuleLoadDataEx");
    try {
      load(driver, module, image);
    } catch (const Refusal &refusal) {
      char *log = nullptr;
      size_t room = 0;
      for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
          log = static_cast<char *>(values[i]);
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
          room = reinterpret_cast<uintptr_t>(values[i]);
      }
      if (log && room)
        snprintf(log, room, "%s", refusal.why.c_str());
      throw;
    }
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", Needs::Context, [&](Driver &driver) {
    requireModule(driver, module);
    driver.requireNoCapture("cuModuleUnload");
    driver.finishAll();
    driver.modules.erase(module);
    delete module;
  });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return call("cuModuleGetFunction", Needs::Context, [&](Driver &driver) {
    requireModule(driver, module);
    *function = functionOf(module, name);
  });
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  return call("cuModuleGetGlobal", Needs::Context, [&](Driver &driver) {
    requireModule(driver, module);
    auto found = module->loaded->variable(name);
    require(found.first, std::string("the module has no variable ") + name, CUDA_ERROR_NOT_FOUND);
    if (address)
      *address = found.first;
    if (bytes)
      *bytes = found.second;
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  return call("cuModuleGetLoadingMode", Needs::Driver,
              [&](Driver &) { *mode = CU_MODULE_EAGER_LOADING; });
}

// A library is a module here, a kernel a function: there is one context.

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
  return cuModuleLoadData(reinterpret_cast<CUmodule *>(library), code);
}

CUresult cuLibraryUnload(CUlibrary library) {
  return cuModuleUnload(reinterpret_cast<CUmodule>(library));
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction *>(kernel),
                             reinterpret_cast<CUmodule>(library), name);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  return call("cuLibraryGetModule", Needs::Context, [&](Driver &driver) {
    *module = reinterpret_cast<CUmodule>(library);
    requireModule(driver, *module);
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name) {
  return cuModuleGetGlobal(address, bytes, reinterpret_cast<CUmodule>(library), name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  return call("cuKernelGetFunction", Needs::Context, [&](Driver &driver) {
    *function = reinterpret_cast<CUfunction>(kernel);
    requireFunction(driver, *function);
  });
}

//===-- functions -----------------------------------------------------------------------------===//

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
  return call("cuFuncGetAttribute", Needs::Context, [&](Driver &driver) {
    requireFunction(driver, function);
    *value = attributeOf(driver, function, which);
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  return call("cuFuncSetAttribute", Needs::Context, [&](Driver &driver) {
    requireFunction(driver, function);
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
      return;
    require(which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            "a function attribute that cannot be set");
    int most = driver.chip.sharedPerBlockOptin - static_cast<int>(function->kernel->sharedBytes);
    require(value >= 0 && value <= most,
            concat("a kernel may have ", most, " bytes of dynamic shared memory on this chip, not ",
                   value));
    function->maxDynamicShared = value;
  });
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  return call("cuFuncGetName", Needs::Context, [&](Driver &driver) {
    requireFunction(driver, function);
    *name = function->kernel->name.c_str();
  });
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t number, size_t *offset, size_t *bytes) {
  return call("cuFuncGetParamInfo", Needs::Context, [&](Driver &driver) {
    requireFunction(driver, function);
    require(number < function->kernel->params.size(), "the kernel has fewer parameters");
    *offset = function->kernel->params[number].offset;
    if (bytes)
      *bytes = function->kernel->params[number].bytes;
  });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return call("cuFuncSetCacheConfig", Needs::Context,
              [&](Driver &driver) { requireFunction(driver, function); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t dynamicShared) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Needs::Context, [&](Driver &driver) {
    requireFunction(driver, function);
    require(threads > 0, "blocks without threads");
    *blocks = residentBlocks(driver, function, threads, dynamicShared);
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int threads, size_t dynamicShared,
                                                              unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamicShared);
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream stream, void **params, void **extra) {
  return call("cuLaunchKernel", Needs::Context, [&](Driver &driver) {
    Launch launch;
    launch.grid = {gridX, gridY, gridZ}, launch.block = {blockX, blockY, blockZ};
    launch.dynamicSharedBytes = sharedBytes;
    launchKernel(driver, function, launch, stream, params, extra);
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
  return call("cuLaunchKernelEx", Needs::Context, [&](Driver &driver) {
    for (unsigned i = 0; i < config->numAttrs; ++i)
      require(config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE ||
                  config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY,
              "a launch attribute that the stand-in does not know", CUDA_ERROR_NOT_SUPPORTED);
    Launch launch;
    launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    launch.dynamicSharedBytes = config->sharedMemBytes;
    launchKernel(driver, function, launch, config->hStream, params, extra);
  });
}
