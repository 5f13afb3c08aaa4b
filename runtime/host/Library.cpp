#include "runtime/host/Library.h"

#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/Primitive.h"

#include <algorithm>

namespace stow::host {

namespace {

using PrepareFn = Preparation (*)(const Command &, const std::vector<bool> &);

struct Entry {
  const char *op;
  PrepareFn prepare;
};

constexpr Entry table[] = {
    {"dnnl.convolution", prepareConvolution},
    {"dnnl.convolution_grad_input", prepareConvolutionGradInput},
    {"dnnl.convolution_grad_weight", prepareConvolutionGradWeight},
    {"dnnl.matmul", prepareMatMul},
    {"dnnl.max_pool", prepareMaxPool},
    {"dnnl.max_pool_grad", prepareMaxPoolGrad},
    {"dnnl.max_pool_inference", prepareMaxPoolInference},
    {"dnnl.avg_pool", prepareAvgPool},
    {"dnnl.avg_pool_grad", prepareAvgPoolGrad},
    {"dnnl.batch_norm", prepareBatchNorm},
    {"dnnl.batch_norm_inference", prepareBatchNormInference},
    {"dnnl.batch_norm_grad", prepareBatchNormGrad},
    {"dnnl.reorder", prepareReorder},
};

Preparation prepare(const Command &call, const std::vector<bool> &anyLayout) {
  for (const Entry &entry : table)
    if (call.op == entry.op)
      return entry.prepare(call, anyLayout);
  std::string known;
  for (const Entry &entry : table)
    known += std::string(known.empty() ? "" : ", ") + entry.op;
  throw Error::badInput("node '" + call.name + "' calls '" + call.op +
                        "', which the host library does not have; it has " + known);
}

Bytes scratchBytes(const Preparation &preparation) {
  if (preparation.loops)
    return preparation.loops->scratchBytes;
  return static_cast<Bytes>(preparation.descriptor.scratchpad_desc().get_size());
}

/// Bound on the buffers that the library's matrix product packs into, per thread. They hold one
/// cache block of each operand: 33 KiB were measured for small and 5.0 MiB for large products.
constexpr Bytes heapBytesPerThread = Bytes{12} << 20;

Bytes heapBytes(const std::string &implementation, int64_t threads) {
  return usesHeap(implementation.c_str()) ? threads * heapBytesPerThread : 0;
}

/// Opaque operands get at least one byte, so that they always have a place in the arena.
Bytes opaqueSize(const Argument &argument) {
  return std::max<Bytes>(static_cast<Bytes>(argument.desc.get_size()), 1);
}

/// A primitive with its arguments. The argument list is kept in the C interface's form: the C++ one
/// builds a new list on every execution.
class PrimitiveCall : public LibraryCall {
public:
  PrimitiveCall(const Command &command, const Preparation &preparation, char *arena,
                int64_t threads)
      : title(command.op + " of node '" + command.name + "'"),
        heap(stow::host::heapBytes(preparation.descriptor.impl_info_str(), threads)),
        stream(cpuEngine()), primitive(preparation.descriptor.get()) {
    for (const Argument &argument : preparation.arguments)
      if (argument.desc.get_size() != 0)
        add(argument.dnnlArgument, argument.desc,
            arena + command.operands[argument.operand].offset);
    if (scratchBytes(preparation) != 0)
      add(DNNL_ARG_SCRATCHPAD, preparation.descriptor.scratchpad_desc(),
          arena + command.workspaceOffset);
    for (size_t i = 0; i < memories.size(); ++i)
      arguments.push_back({kinds[i], memories[i].get()});
  }

  void run() override {
    dnnl_status_t status = dnnl_primitive_execute(
        primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
    if (status != dnnl_success)
      throw Error::internal(title + " failed with library status " + std::to_string(status));
  }

  Bytes heapBytes() const override { return heap; }

private:
  void add(int kind, const dnnl::memory::desc &desc, char *address) {
    kinds.push_back(kind);
    memories.emplace_back(desc, cpuEngine(), address);
  }

  std::string title;
  Bytes heap;
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<int> kinds;
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
};

/// Loops with the addresses that they work on.
class LoopsCall : public LibraryCall {
public:
  LoopsCall(const Command &command, const Preparation &preparation, char *arena, int64_t threads)
      : loops(*preparation.loops), scratch(arena + command.workspaceOffset), threads(threads) {
    for (const Argument &argument : preparation.arguments)
      addresses.push_back(arena + command.operands[argument.operand].offset);
  }

  void run() override { loops.run(addresses, scratch, threads); }

private:
  Loops loops;
  std::vector<char *> addresses;
  char *scratch;
  int64_t threads;
};

/// Throws unless the planned places are large enough for what the call touches.
void checkPlaces(const Command &command, const Preparation &preparation, int64_t threads) {
  auto fail = [&](const std::string &why) {
    throw Error::badInput(command.op + " of node '" + command.name + "': " + why);
  };
  for (const Argument &argument : preparation.arguments) {
    const Operand &operand = command.operands[argument.operand];
    Bytes stored = storedBytes(operand.layout, operand.shape, operand.dtype);
    Bytes needed = static_cast<Bytes>(argument.desc.get_size());
    if (argument.opaque ? stored < needed : stored != needed)
      fail("operand " + std::to_string(argument.operand) + " has " + formatBytesExact(stored) +
           ", the library needs " + formatBytesExact(needed) +
           "; recompile the program for this machine");
  }
  Bytes needed = scratchBytes(preparation);
  if (needed > command.workspaceBytes)
    fail("the plan has " + formatBytesExact(command.workspaceBytes) +
         " of workspace, the library needs " + formatBytesExact(needed) + " with " +
         std::to_string(threads) +
         " threads on this machine; recompile with --threads=" + std::to_string(threads));
}

} // namespace

LibraryRequirements queryLibrary(const Command &call, const std::vector<bool> &anyLayout,
                                 int64_t threads) {
  ThreadScope scope(threads);
  Preparation preparation = prepare(call, anyLayout);
  LibraryRequirements requirements;
  requirements.workspaceBytes = scratchBytes(preparation);
  requirements.implementation =
      preparation.loops ? preparation.loops->name : preparation.descriptor.impl_info_str();
  requirements.reference = isReference(requirements.implementation.c_str());
  requirements.heapBytes = heapBytes(requirements.implementation, threads);
  requirements.opaqueBytes.assign(call.operands.size(), 0);
  for (const Operand &operand : call.operands)
    requirements.layouts.push_back(operand.layout);
  for (const Argument &argument : preparation.arguments) {
    if (argument.opaque)
      requirements.opaqueBytes[argument.operand] = opaqueSize(argument);
    else
      requirements.layouts[argument.operand] = argument.layout;
  }
  return requirements;
}

bool supportsBf16() {
  // The values are sets of instruction sets, the larger ones containing AVX-512's.
  constexpr int avx512 = dnnl_cpu_isa_avx512_core;
  return (static_cast<int>(dnnl_get_effective_cpu_isa()) & avx512) == avx512;
}

std::unique_ptr<LibraryCall> bindLibraryCall(const Command &call, char *arena, int64_t threads) {
  ThreadScope scope(threads);
  Preparation preparation = prepare(call, {});
  checkPlaces(call, preparation, threads);
  if (preparation.loops)
    return std::make_unique<LoopsCall>(call, preparation, arena, threads);
  try {
    return std::make_unique<PrimitiveCall>(call, preparation, arena, threads);
  } catch (const dnnl::error &error) {
    throw Error::internal(call.op + " of node '" + call.name +
                          "': the library cannot create its primitive: " + error.message);
  }
}

} // namespace stow::host
