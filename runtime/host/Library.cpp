#include "runtime/host/Library.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Parallel.h"
#include "runtime/host/Execution.h"
#include "runtime/host/Float16.h"
#include "runtime/host/Instructions.h"
#include "runtime/host/Parts.h"
#include "runtime/host/pieces/Pieces.h"

#include <algorithm>
#include <limits>
#include <ranges>

namespace stow::host {

namespace {

struct Entry {
  CommandOp op;
  PrepareFn prepare;
  /// How it is split into pieces where the library has no code for 16-bit operands; none for ops
  /// with loops of their own.
  Split (*split)(const Command &, PrepareFn) = nullptr;
  /// Loops for some calls.
  PrepareLoopsFn prepareLoops = nullptr;
  /// True for calls whose sums the library's bf16 code rounds after every addend.
  bool (*sumsInBf16)(const Command &) = nullptr;
};

/// Gradients of pooling add up what the windows send to an element, in its own type. Where no two windows
/// share an element there is nothing to add.
bool windowsOverlap(const Command &command) {
  const std::vector<int64_t> &kernel = command.ints.at("kernel"),
                             &strides = command.ints.at("strides"),
                             &dilations = command.ints.at("dilations");
  for (size_t i = 0; i < kernel.size(); ++i)
    if ((kernel[i] - 1) * dilations[i] >= strides[i])
      return true;
  return false;
}

constexpr Entry table[] = {
    {CommandOp::DnnlConvolution, prepareConvolution, splitConvolution, prepareTaps},
    {CommandOp::DnnlConvolutionGradInput, prepareConvolutionGradInput, splitConvolutionGradInput,
     prepareTapsGradInput},
    {CommandOp::DnnlConvolutionGradWeight, prepareConvolutionGradWeight, splitGradWeight,
     prepareTapsGradWeight},
    {CommandOp::DnnlMatmul, prepareMatMul, splitMatMul, prepareMatMulLoops},
    {CommandOp::DnnlMatmulAdd, prepareMatMulAdding, splitMatMul, prepareMatMulAddingLoops},
    {CommandOp::DnnlCodedMatmul, prepareCodedMatMul},
    {CommandOp::DnnlMaxPool, prepareMaxPool, splitPool},
    {CommandOp::DnnlMaxPoolGrad, prepareMaxPoolGrad, splitPool, nullptr, windowsOverlap},
    {CommandOp::DnnlMaxPoolInference, prepareMaxPoolInference, splitPool},
    {CommandOp::DnnlAvgPool, prepareAvgPool, splitPool},
    {CommandOp::DnnlAvgPoolGrad, prepareAvgPoolGrad, splitPool, nullptr, windowsOverlap},
    {CommandOp::DnnlBatchNorm, prepareBatchNorm},
    {CommandOp::DnnlBatchNormStatistics, prepareBatchNormStatistics},
    {CommandOp::DnnlBatchNormInference, prepareBatchNormInference, splitImages},
    {CommandOp::DnnlBatchNormGrad, prepareBatchNormGrad},
    {CommandOp::DnnlBatchNormMaxPool, prepareNormMaxPool},
    {CommandOp::DnnlBatchNormMaxPoolGrad, prepareNormMaxPoolGrad},
    {CommandOp::DnnlReorder, prepareReorder},
    {CommandOp::DnnlAttention, prepareAttention},
    {CommandOp::DnnlAttentionGradient, prepareAttentionGradient},
};

/// True when the library's own code for bf16 takes the operands of `call` and is not its slow
/// reference code; `found` is then what it prepared.
bool takesBf16(const Entry &entry, const Command &call, const std::vector<bool> &anyLayout,
               Preparation &found) {
  const bool anyF16 =
      std::ranges::find(call.operands, DType::F16, &Operand::dtype) != call.operands.end();
  if (anyF16 || !supportsBf16())
    return false;
  try {
    found = entry.prepare(call, anyLayout);
    return !isReference(found.descriptor.impl_info_str()) &&
           !(entry.sumsInBf16 && entry.sumsInBf16(call));
  } catch (const Error &) { // pieces take these operands, or say what is wrong with them
    return false;
  }
}

Preparation prepare(const Command &call, const std::vector<bool> &anyLayout) {
  const bool anyLow = std::ranges::any_of(
      call.operands, [](const Operand &operand) { return is16Bit(operand.dtype); });
  for (const Entry &entry : table) {
    if (call.op != entry.op)
      continue;
    if (Preparation direct; anyLow && entry.split && takesBf16(entry, call, anyLayout, direct))
      return direct;
    if (entry.prepareLoops)
      if (auto loops = entry.prepareLoops(call, anyLayout))
        return *loops;
    if (!anyLow || !entry.split)
      return entry.prepare(call, anyLayout);
    return preparePieces(call, anyLayout, entry.prepare, entry.split);
  }
  auto names = table | std::views::transform([](const Entry &entry) { return nameOf(entry.op); });
  throw Error::badInput(concat("node '", call.name, "' calls '", nameOf(call.op),
                               "', which the host library does not have; it has ",
                               joined(names, ", ")));
}

Bytes scratchBytes(const Preparation &preparation) {
  if (preparation.pieces)
    return preparation.pieces->scratchBytes;
  if (preparation.loops)
    return preparation.loops->scratchBytes;
  return primitiveScratch(preparation);
}

/// Bound on the buffers that the library's matrix product packs into, per thread. They hold one
/// cache block of each operand: 33 KiB were measured for small and 5.0 MiB for large products.
constexpr Bytes heapBytesPerThread = Bytes{12} << 20;

Bytes heapBytes(const Preparation &preparation, int64_t threads) {
  const bool isUsed = preparation.pieces  ? preparation.pieces->usesHeap
                      : preparation.loops ? false
                                          : usesHeap(preparation.descriptor.impl_info_str());
  return isUsed ? threads * heapBytesPerThread : 0;
}

/// Opaque operands get at least one byte, so that they always have a place in the arena.
Bytes opaqueSize(const Argument &argument) {
  return std::max<Bytes>(static_cast<Bytes>(argument.desc.get_size()), 1);
}

/// A primitive on whole operands.
class PrimitiveCall : public LibraryCall {
public:
  PrimitiveCall(const Command &command, const Preparation &preparation, char *arena,
                int64_t threads)
      : title(callTitle(command)), heap(stow::host::heapBytes(preparation, threads)),
        stream(cpuEngine()), execution(wholePrimitive(preparation, threads)) {
    std::vector<char *> addresses;
    auto add = [&](int kind, const dnnl::memory::desc &desc, Bytes offset) {
      execution.add(kind, dnnl::memory(desc, cpuEngine(), arena + offset));
      addresses.push_back(arena + offset);
    };
    for (const Argument &argument : preparation.arguments)
      if (argument.desc.get_size() != 0)
        add(argument.dnnlArgument, argument.desc, command.operands[argument.operand].offset);
    addParts(execution, preparation, addresses, arena + command.workspaceOffset, threads);
    if (preparation.descriptor.scratchpad_desc().get_size() != 0 && !execution.hasParts())
      add(DNNL_ARG_SCRATCHPAD, preparation.descriptor.scratchpad_desc(), command.workspaceOffset);
  }

  void run() override { execution.run(stream, title); }
  Bytes heapBytes() const override { return heap; }

private:
  std::string title;
  Bytes heap;
  dnnl::stream stream;
  Execution execution;
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
    throw Error::badInput(callTitle(command) + ": " + why);
  };
  for (const Argument &argument : preparation.arguments) {
    const Operand &operand = command.operands[argument.operand];
    Bytes stored = storedBytes(operand.layout, operand.shape, operand.dtype);
    Bytes needed = static_cast<Bytes>(argument.desc.get_size());
    // Behind the last element of a tensor with gaps the library counts one gap more.
    const bool hasGaps = operand.layout.pitch.has_value();
    if (argument.opaque ? stored < needed : hasGaps ? stored > needed : stored != needed)
      fail(concat("operand ", argument.operand, " has ", formatBytesExact(stored),
                  ", the library needs ", formatBytesExact(needed),
                  "; recompile the program for this machine"));
  }
  Bytes needed = scratchBytes(preparation);
  if (needed > command.workspaceBytes)
    fail(concat(
        "the plan has ", formatBytesExact(command.workspaceBytes),
        " of workspace, the library needs ", formatBytesExact(needed), " with ", threads,
        " threads on this machine; compile the program on this machine, with --threads=", threads));
}

/// The library divides by extents of which it keeps 32 bits.
void checkExtents(const Command &command) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (const Operand &operand : command.operands)
    for (int64_t extent : operand.shape)
      if (extent > most)
        throw Error::badInput(concat(callTitle(command), " has an operand of ", extent,
                                     " elements in one dimension; the library takes at most ", most,
                                     ": give a smaller batch with --batch=N"));
}

} // namespace

LibraryRequirements queryLibrary(const Command &call, const std::vector<bool> &anyLayout,
                                 int64_t threads) {
  checkExtents(call);
  ThreadScope scope(threads);
  Preparation preparation = prepare(call, anyLayout);
  LibraryRequirements requirements;
  requirements.workspaceBytes = scratchBytes(preparation);
  requirements.implementation = preparation.pieces  ? preparation.pieces->name
                                : preparation.loops ? preparation.loops->name
                                                    : preparation.descriptor.impl_info_str();
  requirements.reference = preparation.pieces ? preparation.pieces->isReference
                                              : isReference(requirements.implementation.c_str());
  requirements.heapBytes = heapBytes(preparation, threads);
  requirements.converted = preparation.pieces != nullptr;
  requirements.pieces = primitiveCount(preparation);
  if (preparation.pieces) {
    requirements.pieces = 0;
    for (const PieceStep &step : preparation.pieces->split.steps)
      requirements.pieces += primitiveCount(preparation.pieces->preparations[step.command]);
    if (call.op == CommandOp::DnnlMatmul)
      requirements.piece = preparation.pieces->split.commands.front().sizes;
  }
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

bool supportsBf16() { return instructions() >= InstructionSet::Avx512; }

std::unique_ptr<LibraryCall> bindLibraryCall(const Command &call, char *arena, int64_t threads) {
  ThreadScope scope(threads);
  Preparation preparation = prepare(call, {});
  checkPlaces(call, preparation, threads);
  if (preparation.loops)
    return std::make_unique<LoopsCall>(call, preparation, arena, threads);
  try {
    if (preparation.pieces)
      return bindPieces(call, *preparation.pieces, arena, threads, heapBytes(preparation, threads));
    return std::make_unique<PrimitiveCall>(call, preparation, arena, threads);
  } catch (const dnnl::error &error) {
    throw Error::internal(callTitle(call) +
                          ": the library cannot create its primitive: " + error.message);
  }
}

} // namespace stow::host
