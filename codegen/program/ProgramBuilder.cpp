#include "codegen/program/ProgramBuilder.h"

#include "codegen/kernels/device/KernelSequence.h"
#include "codegen/kernels/device/MapsTogether.h"
#include "codegen/program/LibraryCommand.h"
#include "ir/Joining.h"
#include "ir/KeptSamples.h"
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/TiedNames.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/KernelNumber.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/memory/PlanWords.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/host/Float16.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringSet.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace stow {
namespace {

/// Appends the row-major elements of `value`.
LogicalResult appendElements(std::vector<char> &bytes, ElementsAttr value, Location location) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    const Bytes size = storedBytesOf(withoutLayout(type));
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || static_cast<Bytes>(blob->getData().size()) != size)
      return emitError(location) << "initial value has no data of " << size << " bytes";
    bytes.insert(bytes.end(), blob->getData().begin(), blob->getData().end());
    return success();
  }
  auto dense = cast<DenseElementsAttr>(value);
  ArrayRef<char> raw = dense.getRawData();
  if (type.getElementType().isInteger(1)) {
    for (bool element : dense.getValues<bool>())
      bytes.push_back(element);
  } else if (dense.isSplat()) {
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      bytes.insert(bytes.end(), raw.begin(), raw.end());
  } else {
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  return success();
}

/// A launch of `kernel`.
void setKernel(Command &command, const KernelInfo &kernel) {
  command.op = CommandOp::Kernel;
  command.kernel = kernel.index;
  command.tasks = kernel.tasks;
  if (kernel.sharedBytes > 0)
    command.ints["shared_bytes"] = {kernel.sharedBytes};
}

/// Elements of a float type as f32.
std::vector<float> asFloats(const std::vector<char> &bytes, DType type, int64_t count) {
  std::vector<float> floats(count);
  if (type == DType::F64) {
    const auto *doubles = reinterpret_cast<const double *>(bytes.data());
    std::copy(doubles, doubles + count, floats.begin());
  } else if (type == DType::F32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  } else {
    host::widen(type, reinterpret_cast<const uint16_t *>(bytes.data()), floats.data(), count);
  }
  return floats;
}

/// Those of `value`, as f32.
FailureOr<std::vector<float>> floatsOf(ElementsAttr value, Location location) {
  std::vector<char> own;
  if (failed(appendElements(own, value, location)))
    return failure();
  auto type = cast<RankedTensorType>(value.getType());
  return asFloats(own, dtypeOf(type.getElementType()), type.getNumElements());
}

/// Makes room for `bytes` more, and returns where it starts.
uint64_t extend(std::vector<char> &constants, Bytes bytes) {
  const uint64_t offset = alignUp(constants.size(), 64);
  constants.resize(offset + bytes);
  return offset;
}

/// Appends the elements as they are stored, a frozen parameter's perhaps in another float type, and returns where they start.
FailureOr<uint64_t> appendData(std::vector<char> &constants, ElementsAttr value, DType stored,
                               Location location) {
  auto type = cast<RankedTensorType>(value.getType());
  if (dtypeOf(type.getElementType()) == stored) {
    const uint64_t offset = extend(constants, 0);
    if (failed(appendElements(constants, value, location)))
      return failure();
    return offset;
  }
  auto floats = floatsOf(value, location);
  if (failed(floats))
    return failure();
  const uint64_t offset = extend(constants, type.getNumElements() * sizeOf(stored));
  char *place = constants.data() + offset;
  if (stored == DType::F32)
    std::memcpy(place, floats->data(), floats->size() * sizeof(float));
  else
    host::narrow(stored, floats->data(), reinterpret_cast<uint16_t *>(place),
                 type.getNumElements());
  return offset;
}

FailureOr<uint64_t> appendQuantized(std::vector<char> &constants, ElementsAttr value,
                                    Quantization scheme, Location location) {
  auto floats = floatsOf(value, location);
  if (failed(floats))
    return failure();
  const uint64_t offset =
      extend(constants, partsOf(scheme, static_cast<int64_t>(floats->size())).size);
  quantize(scheme, *floats, constants.data() + offset);
  return offset;
}

/// True for an op that reads the samples of a batch out of `value`, all of them.
bool isBatchOf(Operation *op, Value value) {
  const auto numbers =
      op->getNumOperands() > 1 ? dyn_cast<BlockArgument>(op->getOperand(1)) : BlockArgument();
  if (!numbers || op->getOperand(0) != value)
    return false;
  auto graph = dyn_cast<func::FuncOp>(numbers.getOwner()->getParentOp());
  return graph && hasRows(graph, numbers.getArgNumber());
}

/// Rows of the smallest table that `value`, or a view of it, indexes; 0 when it indexes none.
int64_t indexedRows(Value value) {
  int64_t least = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    int64_t rows = 0;
    // Operand 0 is the table itself, which may be data, too: the nodes of a graph.
    if (isBatchOf(user, value))
      rows = indexedRows(user->getResult(0));
    else if (auto embedding = dyn_cast<EmbeddingOp>(user); embedding && use.getOperandNumber() == 1)
      rows = embedding.getTable().getType().getDimSize(0);
    else if (viewedOperand(user) == use.getOperandNumber())
      rows = indexedRows(user->getResult(0));
    if (rows > 0)
      least = least > 0 ? std::min(least, rows) : rows;
  }
  return least;
}

/// Notes the classes of a loss in the model that reads `value` or a view of it.
void noteLabels(Value value, GraphInput &input) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (viewedOperand(user) == use.getOperandNumber() || isBatchOf(user, value)) {
      noteLabels(user->getResult(0), input);
    } else if (use.getOperandNumber() != 1) {
      continue; // scores
    } else if (auto rows = dyn_cast<CrossEntropyRowsOp>(user)) {
      input.labelClasses = rows.getLogits().getType().getDimSize(1);
      input.ignoredLabel = static_cast<int64_t>(rows.getIgnoreIndex());
    } else if (auto rows = dyn_cast<NllRowsOp>(user)) {
      input.labelClasses = rows.getX().getType().getDimSize(1);
      input.ignoredLabel = static_cast<int64_t>(rows.getIgnoreIndex());
    }
  }
}

class Builder {
public:
  Builder(ModuleOp module, const Target &target, const CommandRules &rules)
      : module(module), target(target), rules(rules) {
    built.kernels = std::make_unique<KernelModule>(module.getContext(), rules.kernels());
  }

  FailureOr<BuiltProgram> build() {
    built.program.plan = describePlan(module);
    built.program.model = built.program.plan.model;
    built.program.slowBytes = bytesAttr(module, kSlowBytesAttr);
    for (auto graph : module.getOps<func::FuncOp>())
      if (failed(buildGraph(graph)))
        return failure();
    return std::move(built);
  }

private:
  /// What the walk knows of the graph at hand.
  struct Context {
    explicit Context(func::FuncOp graph) : graph(graph), liveness(graph) {}

    func::FuncOp graph;
    Liveness liveness;
    llvm::DenseMap<Value, Bytes> offsets;
    std::vector<SmallVector<Operand>> dying;     ///< by command
    llvm::DenseMap<Operation *, int64_t> copies; ///< numbers of copies, by the op that starts them
    llvm::DenseMap<Operation *, int64_t> exchanges; ///< likewise of collectives
  };

  LogicalResult buildGraph(func::FuncOp graph) {
    Context context(graph);
    context.offsets = arenaOffsets(graph);
    listDying(context);
    GraphProgram program;
    program.role = graphRoleOf(graph);
    program.shape = graphShape(graph).str();
    program.inputs = programInputs(graph);
    for (BlockArgument argument : graph.getArguments())
      if (failed(buildArgument(context, argument)))
        return failure();
    for (Operation &op : graph.getBody().front())
      if (auto ops = opsOfCommand(&op); !ops.empty())
        if (failed(buildCommand(context, ops, *context.liveness.commandOf(&op), program)))
          return failure();
        else if (op.hasAttr(kNextInputsAttr))
          program.nextFrom = program.commands.size() - 1;
    buildOutputs(context, program);
    built.program.graphs.push_back(std::move(program));
    return success();
  }

  /// Storages by the command after which they are dead, as plain bytes.
  void listDying(Context &context) {
    context.dying.resize(context.liveness.commandCount());
    for (const Storage &storage : context.liveness.storages())
      if (!storage.isState && storage.size > 0 && storage.end < context.liveness.commandCount())
        context.dying[storage.end - 1].push_back(
            {startOf(context, storage), DType::U8, {storage.size}, {}});
  }

  static Bytes startOf(const Context &context, const Storage &storage) {
    Value first = storage.values.front();
    return context.offsets.lookup(first) - context.liveness.offsetOf(first);
  }

  Operand place(Context &context, Value value) {
    return operandOf(value.getType(), context.offsets.lookup(value));
  }

  void placeAll(Context &context, Operation *op, Command &command) {
    for (Value value : op->getOperands())
      command.operands.push_back(place(context, value));
    for (Value value : op->getResults())
      command.operands.push_back(place(context, value));
  }

  LogicalResult buildArgument(Context &context, BlockArgument argument) {
    unsigned index = argument.getArgNumber();
    const ArgumentKind kind = kindOfArgument(context.graph, index).value_or(ArgumentKind::Input);
    std::string name = context.graph.getArgAttrOfType<StringAttr>(index, kNameAttr).str();
    if (inputRoleOf(kind) || !samplesOf(context.graph, index).empty() ||
        !knownState.insert(name).second)
      return success();
    StateTensor tensor;
    tensor.name = name;
    tensor.kind = bufferKindOf(kind);
    tensor.place = place(context, argument);
    if (RankedTensorType type = slowStateOf(argument))
      tensor.place = operandOf(
          type, slowBeginOf(built.program.plan.arenaBytes) +
                    context.graph.getArgAttrOfType<IntegerAttr>(index, kSlowOffsetAttr).getInt());
    tensor.saved = !context.graph.getArgAttr(index, kUnsavedAttr);
    if (auto others = context.graph.getArgAttrOfType<ArrayAttr>(index, kOtherNamesAttr))
      for (StringAttr other : others.getAsRange<StringAttr>())
        tensor.otherNames.push_back(other.str());
    if (auto numbers = quantizedNumbers(context.graph.getArgAttr(index, kQuantizedAttr)))
      tensor.quantized = QuantizedTensor{numbers->scheme, numbers->type.getShape().vec()};
    if (auto whole = context.graph.getArgAttrOfType<TypeAttr>(index, kShardOfAttr))
      tensor.shardOf = cast<RankedTensorType>(whole.getValue()).getShape().vec();
    if (failed(buildInit(context.graph.getArgAttr(index, kInitAttr), argument.getLoc(), tensor)))
      return failure();
    built.program.state.push_back(std::move(tensor));
    return success();
  }

  LogicalResult buildInit(Attribute value, Location location, StateTensor &tensor) {
    if (auto init = dyn_cast_or_null<InitAttr>(value)) {
      tensor.init.kind = init.getDistribution() == "uniform"  ? Init::Kind::Uniform
                         : init.getDistribution() == "normal" ? Init::Kind::Normal
                                                              : Init::Kind::Constant;
      tensor.init.a = init.getA().convertToDouble();
      tensor.init.b = init.getB().convertToDouble();
      return success();
    }
    auto elements = dyn_cast_or_null<ElementsAttr>(value);
    if (!elements)
      return emitError(location) << "state \"" << tensor.name << "\" has no initial value";
    tensor.init.kind = Init::Kind::Data;
    auto offset =
        tensor.quantized
            ? appendQuantized(built.constants, elements, tensor.quantized->scheme, location)
            : appendData(built.constants, elements, tensor.place.dtype, location);
    if (failed(offset))
      return failure();
    tensor.init.dataOffset = *offset;
    return success();
  }

  static SmallVector<int64_t> alignmentsOf(const Command &command) {
    SmallVector<int64_t> alignments;
    for (const Operand &operand : command.operands)
      alignments.push_back(std::gcd(operand.offset, KernelModule::kAlignment));
    return alignments;
  }

  /// An op of several kernels: one after the other, over its operands and its workspace.
  LogicalResult buildSequence(Context &context, Operation *op, Command &command) {
    const KernelSequence shape = *kernelSequence(op);
    const Bytes planned = bytesAttr(op, kWorkspaceAttr);
    if (planned != shape.scratchBytes())
      return op->emitOpError()
             << "has " << planned
             << " bytes planned for what its kernels leave to each other and needs "
             << shape.scratchBytes() << "; run stow-plan-workspaces again";
    placeAll(context, op, command);
    auto kernels = addKernels(*built.kernels, op, alignmentsOf(command));
    if (failed(kernels))
      return failure();
    command.op = CommandOp::Sequence;
    command.name = sourceNameOf(op->getLoc());
    for (const KernelInfo &kernel : *kernels) {
      Command &part = command.parts.emplace_back();
      part.name = command.name;
      setKernel(part, kernel);
      part.operands = command.operands;
      part.operands.push_back(
          {bytesAttr(op, kWorkspaceOffsetAttr), DType::F32, {shape.scratchElements}, {}});
    }
    return success();
  }

  /// Maps of one launch: one kernel over the operands and results of each, one after the other.
  LogicalResult buildTogether(Context &context, ArrayRef<Operation *> ops, Command &command) {
    SmallVector<MapOp> maps;
    for (Operation *op : ops) {
      placeAll(context, op, command);
      maps.push_back(cast<MapOp>(op));
    }
    auto kernel = addMapsTogether(*built.kernels, maps, alignmentsOf(command));
    if (failed(kernel))
      return failure();
    command.name =
        absl::StrCat(sourceNameOf(ops.front()->getLoc()), " and ", ops.size() - 1, " more");
    setKernel(command, *kernel);
    return success();
  }

  /// Where a copy reads or writes slow memory.
  static Bytes slowOffsetOf(Operation *start) {
    auto in = dyn_cast<CopyInOp>(start);
    if (auto token = in ? dyn_cast<BlockArgument>(in.getToken()) : BlockArgument())
      return cast<func::FuncOp>(start->getParentOp())
          .getArgAttrOfType<IntegerAttr>(token.getArgNumber(), kSlowOffsetAttr)
          .getInt();
    return bytesAttr(in ? copyOutOf(in.getToken()) : start, kSlowOffsetAttr);
  }

  /// The start of a copy between the arena and slow memory, or the await of one (runtime/format/SlowCopies.h).
  void buildCopy(Context &context, Operation *op, Command &command) {
    Operation *start = op;
    Value buffer;
    if (auto out = dyn_cast<CopyOutOp>(op)) {
      buffer = out.getX();
    } else if (auto in = dyn_cast<CopyInOp>(op)) {
      buffer = in.getComing();
    } else if (auto await = dyn_cast<AwaitOutOp>(op)) {
      start = copyOutOf(await.getToken());
      buffer = await.getX();
    } else {
      buffer = cast<AwaitInOp>(op).getComing();
      start = buffer.getDefiningOp();
    }
    const bool isStart = start == op;
    command.op = isStart ? isa<CopyOutOp>(op) ? CommandOp::CopyOut : CommandOp::CopyIn
                         : CommandOp::AwaitCopy;
    command.name = sourceNameOf(op->getLoc());
    command.operands = {place(context, buffer)};
    const auto next = static_cast<int64_t>(context.copies.size());
    command.ints["copy"] = {context.copies.try_emplace(start, next).first->second};
    if (isStart)
      command.ints["slow_offset"] = {slowOffsetOf(start)};
  }

  /// The await of a started collective.
  void buildAwaitOfRanks(Context &context, Operation *collective, Command &command) {
    command.op = CommandOp::AwaitRanks;
    command.name = sourceNameOf(collective->getLoc());
    command.operands = {place(context, collective->getResult(0))};
    command.ints["exchange"] = {context.exchanges.lookup(collective)};
  }

  LogicalResult buildCommand(Context &context, ArrayRef<Operation *> ops, int64_t number,
                             GraphProgram &program) {
    Command command;
    Operation *op = ops.front();
    const std::optional<CommandOp> call = target.libraryCall(op);
    FailureOr<std::optional<Command>> own = std::optional<Command>();
    if (call)
      own = rules.commandOf(
          op, [&](Value value) { return context.offsets.lookup(value); }, *built.kernels);
    if (failed(own))
      return failure();
    if (isCopyOrAwait(op)) {
      buildCopy(context, op, command);
    } else if (Operation *collective = awaitedCollective(op)) {
      buildAwaitOfRanks(context, collective, command);
    } else if (ops.size() > 1 && !call) {
      if (failed(buildTogether(context, ops, command)))
        return failure();
    } else if (*own) {
      command = std::move(**own);
      placeAll(context, op, command);
    } else if (call == CommandOp::Sequence) {
      if (failed(buildSequence(context, op, command)))
        return failure();
    } else if (call) {
      command = libraryCommand(op, *call);
      for (auto [operand, value] :
           llvm::zip(command.operands, llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                                           SmallVector<Value>(op->getResults()))))
        operand.offset = context.offsets.lookup(value);
      for (Operation *beside : ops.drop_front())
        for (Value result : beside->getResults())
          command.operands.push_back(place(context, result));
      if (failed(rules.complete(op, command, *built.kernels)))
        return failure();
      if (isStartedCollective(op)) {
        const auto next = static_cast<int64_t>(context.exchanges.size());
        command.ints["exchange"] = {next};
        context.exchanges[op] = next;
        if (op->hasAttr(kWithNextAttr))
          command.ints["with_next"] = {1};
      }
    } else {
      placeAll(context, op, command);
      auto kernel = built.kernels->add(op, alignmentsOf(command));
      if (failed(kernel))
        return failure();
      command.name = sourceNameOf(op->getLoc());
      setKernel(command, *kernel);
    }
    for (Operation *part : ops) {
      auto cost = cast<CostOpInterface>(part);
      command.flops += cost.getFlops();
      command.bytes += static_cast<double>(cost.getBytesMoved());
      if (part != op && call) // reads what the call reads
        command.bytes -= static_cast<double>(storedBytesOf(part->getOperand(0).getType()));
    }
    SmallVector<int64_t> kernels;
    for (Operation *part : ops)
      if (auto kernel = part->getAttrOfType<IntegerAttr>(kKernelAttr))
        kernels.push_back(kernel.getInt());
    if (kernels.size() ==
        ops.size()) // of what came apart behind the prepared step nobody knows a number
      command.ints[kKernelsOfCommand].assign(kernels.begin(), kernels.end());
    command.kind =
        isCopyOrAwait(op) ? std::string(nameOf(command.op)) : op->getName().stripDialect().str();
    command.phase = stepPhaseOf(phaseOf(op));
    command.workspaceBytes = bytesAttr(op, kWorkspaceAttr);
    command.workspaceOffset = bytesAttr(op, kWorkspaceOffsetAttr);
    command.dying.assign(context.dying[number].begin(), context.dying[number].end());
    if (command.workspaceBytes > 0)
      command.dying.push_back({command.workspaceOffset, DType::U8, {command.workspaceBytes}, {}});
    program.commands.push_back(std::move(command));
    return success();
  }

  void buildOutputs(Context &context, GraphProgram &program) {
    Operation *terminator = context.graph.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      if (context.graph.getResultAttr(index, kStateAttr))
        continue;
      auto name = context.graph.getResultAttrOfType<StringAttr>(index, kNameAttr);
      program.outputs.push_back(
          {name ? name.str() : absl::StrCat("output", index), place(context, operand.get())});
      if (auto joining = context.graph.getResultAttrOfType<StringAttr>(index, kJoiningAttr))
        program.outputs.back().joining = parseJoining(joining.str());
    }
  }

  ModuleOp module;
  const Target &target;
  const CommandRules &rules;
  BuiltProgram built;
  llvm::StringSet<> knownState;
};

} // namespace

std::vector<GraphInput> programInputs(func::FuncOp graph) {
  const llvm::DenseMap<Value, Bytes> offsets = arenaOffsets(graph);
  std::vector<GraphInput> inputs;
  int64_t batch = 1; // of samples that are kept
  for (BlockArgument argument : graph.getArguments()) {
    const unsigned index = argument.getArgNumber();
    const ArgumentKind kind = kindOfArgument(graph, index).value_or(ArgumentKind::Input);
    const StringRef samples = samplesOf(graph, index);
    std::optional<InputRole> role = inputRoleOf(kind);
    if (!samples.empty())
      role =
          inputRoleOf(graph.getArgAttrOfType<ArgumentKindAttr>(index, kSamplesKindAttr).getValue());
    if (!role)
      continue;
    if (hasRows(graph, index)) {
      role = InputRole::Rows;
      batch = cast<RankedTensorType>(argument.getType()).getDimSize(0);
    }
    GraphInput input = {samples.empty() ? graph.getArgAttrOfType<StringAttr>(index, kNameAttr).str()
                                        : samples.str(),
                        *role, operandOf(argument.getType(), offsets.lookup(argument)),
                        indexedRows(argument)};
    if (role == InputRole::Data)
      noteLabels(argument, input);
    if (auto padding = graph.getArgAttrOfType<IntegerAttr>(index, kPaddingAttr))
      input.padding = padding.getInt();
    if (auto next = graph.getArgAttrOfType<IntegerAttr>(index, kNextOffsetAttr))
      input.nextOffset = next.getInt();
    if (!samples.empty())
      input.keptRows = input.place.shape.front();
    inputs.push_back(std::move(input));
  }
  for (GraphInput &input : inputs)
    if (input.keptRows)
      input.place.shape.front() = batch;
  return inputs;
}

FailureOr<BuiltProgram> buildProgram(ModuleOp module, const Target &target,
                                     const CommandRules &rules) {
  return Builder(module, target, rules).build();
}

} // namespace stow
