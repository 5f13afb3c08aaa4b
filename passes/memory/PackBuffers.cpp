// From lifetimes to offsets. State first, in argument order; then one packing problem per graph,
// solved by passes/solvers/pack. All sizes are bytes as stored.
#include "passes/solvers/pack/PackBuffers.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include "ir/StowOffloadOps.h"
#include "ir/plan/pack/Bound.h"
#include "runtime/base/Error.h"
#include "runtime/format/SlowCopies.h"

#include "llvm/ADT/StringMap.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PACKBUFFERSPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// The packing problem of a graph's transient storages and workspaces.
struct TransientProblem {
  pack::Problem problem;
  std::vector<Bytes> logicalSizes; ///< by BufferId: without the padding of layouts
  std::vector<std::optional<pack::BufferId>> ofStorage; ///< by StorageId
  llvm::DenseMap<Operation *, pack::BufferId> ofWorkspace;
};

TransientProblem buildProblem(func::FuncOp graph, const Liveness &liveness, Bytes alignment,
                              Bytes workspaceAlignment) {
  TransientProblem result;
  auto add = [&](std::string name, int64_t begin, int64_t end, Bytes size, Bytes logicalSize,
                 Bytes alignment) {
    pack::Buffer buffer;
    buffer.name = std::move(name);
    buffer.life = {begin, end};
    buffer.size = size;
    buffer.alignment = alignment;
    result.problem.buffers.push_back(std::move(buffer));
    result.logicalSizes.push_back(logicalSize);
    return static_cast<pack::BufferId>(result.problem.buffers.size() - 1);
  };
  for (const auto &[id, storage] : llvm::enumerate(liveness.storages())) {
    if (storage.isState)
      result.ofStorage.push_back(std::nullopt);
    else
      result.ofStorage.push_back(add(absl::StrCat("storage", id), storage.begin, storage.end,
                                     storage.size, logicalBytesOf(storage), alignment));
  }
  for (Operation &op : graph.getBody().front())
    if (auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr)) {
      int64_t command = *liveness.commandOf(&op);
      result.ofWorkspace[&op] = add(absl::StrCat("workspace", command), command, command + 1,
                                    workspace.getInt(), workspace.getInt(), workspaceAlignment);
    }
  return result;
}

/// The bound of the same lifetimes with every buffer at its logical size.
Bytes logicalBound(const TransientProblem &transient, Bytes bound) {
  pack::Problem problem = transient.problem;
  bool padded = false;
  for (auto [buffer, size] : llvm::zip_equal(problem.buffers, transient.logicalSizes)) {
    padded |= buffer.size != size;
    buffer.size = size;
  }
  return padded ? pack::lowerBound(problem) : bound;
}

//===-- --stow-pack-buffers ------------------------------------------------------------------===//

struct PackBuffersPass : impl::PackBuffersPassBase<PackBuffersPass> {
  using PackBuffersPassBase::PackBuffersPassBase;

  void runOnOperation() override {
    if (alignment < 1) {
      getOperation().emitError() << "alignment is " << int64_t(alignment)
                                 << " bytes; expected 1 or more";
      return signalPassFailure();
    }
    if (workspaceAlignment < 0 || workspaceAlignment % alignment != 0) {
      getOperation().emitError() << "the alignment of workspaces is " << int64_t(workspaceAlignment)
                                 << " bytes; expected a multiple of " << int64_t(alignment);
      return signalPassFailure();
    }
    if (work < 0) {
      getOperation().emitError() << "work is " << int64_t(work) << " steps; expected 0 or more";
      return signalPassFailure();
    }
    try {
      pack();
    } catch (const Error &error) {
      getOperation().emitError() << error.what();
      signalPassFailure();
    }
  }

private:
  void pack() {
    ModuleOp module = getOperation();
    llvm::StringMap<Bytes> stateOffsets;
    Bytes persistent = 0, logicalState = 0;
    for (auto graph : module.getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments())
        if (isStateArgument(graph, argument.getArgNumber())) {
          StringRef name = nameOf(graph, argument);
          auto type = cast<RankedTensorType>(argument.getType());
          if (stateOffsets.try_emplace(name, persistent).second) {
            persistent = alignUp(persistent + storedBytesOf(type), alignment);
            logicalState = alignUp(logicalState + storedBytesOf(withoutLayout(type)), alignment);
          }
        }
    // What is packed lies above the state, whose end is thus a multiple of what workspaces need. Bounds are those of the state alone:
    // other ways to run the calls may take no workspace.
    const Bytes state = persistent;
    const Bytes stateInSlowMemory = placeSlowState();
    if (hasWorkspace())
      persistent = alignUp(persistent, forWorkspaces());
    Bytes arenaBytes = persistent, bound = state, logical = logicalState, slowBytes = 0;
    for (auto graph : module.getOps<func::FuncOp>()) {
      auto [height, lower, logicalLower] = packGraph(graph, persistent, stateOffsets);
      arenaBytes = std::max(arenaBytes, persistent + height);
      bound = std::max(bound, state + lower);
      logical = std::max(logical, logicalState + logicalLower);
      slowBytes = std::max(slowBytes, packSlowMemory(graph, stateInSlowMemory));
      graph->setAttr(kLowerBoundAttr, Builder(graph).getI64IntegerAttr(state + lower));
    }
    Builder builder(&getContext());
    module->setAttr(kArenaBytesAttr, builder.getI64IntegerAttr(arenaBytes));
    module->setAttr(kPersistentBytesAttr, builder.getI64IntegerAttr(state));
    module->setAttr(kLowerBoundAttr, builder.getI64IntegerAttr(bound));
    module->setAttr(kLogicalBoundAttr, builder.getI64IntegerAttr(logical));
    module->setAttr(kAlignmentAttr, builder.getI64IntegerAttr(alignment));
    module->removeAttr(kWorkspaceAlignmentAttr);
    if (forWorkspaces() != alignment)
      module->setAttr(kWorkspaceAlignmentAttr, builder.getI64IntegerAttr(forWorkspaces()));
    module->removeAttr(kSlowBytesAttr);
    if (slowBytes > 0)
      module->setAttr(kSlowBytesAttr, builder.getI64IntegerAttr(slowBytes));
    module->setAttr(kFormAttr, builder.getStringAttr("placed"));
  }

  Bytes forWorkspaces() const { return workspaceAlignment > 0 ? workspaceAlignment : alignment; }

  bool hasWorkspace() {
    return getOperation()
        .walk([](Operation *op) {
          return op->hasAttr(kWorkspaceAttr) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  StringRef nameOf(func::FuncOp graph, BlockArgument argument) {
    return graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr).getValue();
  }

  /// State that lies in slow memory lies at its bottom, at the same places for all graphs. Returns the bytes that are taken.
  Bytes placeSlowState() {
    llvm::StringMap<Bytes> offsets;
    Bytes taken = 0;
    Builder builder(&getContext());
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments())
        if (RankedTensorType type = slowStateOf(argument)) {
          const auto [place, isNew] = offsets.try_emplace(nameOf(graph, argument), taken);
          if (isNew)
            taken += alignUp(storedBytesOf(type), kSlowAlignment);
          graph.setArgAttr(argument.getArgNumber(), kSlowOffsetAttr,
                           builder.getI64IntegerAttr(place->second));
        }
    return taken;
  }

  /// Gives copies to the places of state their offsets.
  static void sendToState(func::FuncOp graph) {
    Operation *terminator = graph.getBody().front().getTerminator();
    for (BlockArgument argument : graph.getArguments()) {
      const Attribute offset = graph.getArgAttr(argument.getArgNumber(), kSlowOffsetAttr);
      for (OpOperand &operand : terminator->getOpOperands())
        if (CopyOutOp out = copyOutOf(operand.get());
            out && offset &&
            graph.getResultAttr(operand.getOperandNumber(), kStateAttr) ==
                graph.getArgAttr(argument.getArgNumber(), kNameAttr))
          out->setAttr(kSlowOffsetAttr, offset);
    }
  }

  /// What travels gets its place in slow memory, which is packed as the arena is: bytes are taken from the copy out to the
  /// last await of a copy in, as long as the token lives. It lies above `state`. Returns the bytes that are taken.
  Bytes packSlowMemory(func::FuncOp graph, Bytes state) {
    sendToState(graph);
    const Liveness liveness(graph);
    pack::Problem problem;
    SmallVector<CopyOutOp> copies = llvm::to_vector(graph.getOps<CopyOutOp>());
    llvm::erase_if(copies, [](CopyOutOp copy) { return sendsState(copy); });
    for (CopyOutOp copy : copies) {
      const Storage &token = liveness.storages()[liveness.storageOf(copy.getToken())];
      pack::Buffer &buffer = problem.buffers.emplace_back();
      buffer.name = absl::StrCat("copy", problem.buffers.size() - 1);
      buffer.life = {token.begin, token.end};
      buffer.size = alignUp(copiedBytes(copy), kSlowAlignment);
      buffer.alignment = kSlowAlignment;
    }
    if (copies.empty())
      return state;
    pack::PackOptions options;
    options.workBudget = work;
    options.explain = false;
    const pack::PackResult packed = pack::packBuffers(problem, options);
    Builder builder(&getContext());
    for (auto [copy, offset] : llvm::zip_equal(copies, packed.solution->offsets))
      copy->setAttr(kSlowOffsetAttr, builder.getI64IntegerAttr(state + offset));
    return state + packed.solution->height;
  }

  struct Region {
    Bytes height = 0, lowerBound = 0, logicalBound = 0;
  };

  /// The graph's transient region.
  Region packGraph(func::FuncOp graph, Bytes persistent,
                   const llvm::StringMap<Bytes> &stateOffsets) {
    Liveness liveness(graph);
    TransientProblem transient = buildProblem(graph, liveness, alignment, forWorkspaces());
    pack::PackOptions options;
    options.workBudget = work;
    if (enough > persistent)
      options.capacity = enough - persistent;
    options.explain = false;
    pack::PackResult packed;
    if (!transient.problem.buffers.empty())
      packed = pack::packBuffers(transient.problem, options);
    if (packed.status == pack::PackStatus::Infeasible) { // with this capacity
      options.capacity.reset();
      packed = pack::packBuffers(transient.problem, options);
    }
    auto offsetOf = [&](Value value) -> Bytes {
      StorageId id = liveness.storageOf(value);
      if (auto buffer = transient.ofStorage[id])
        return persistent + packed.solution->offsets[*buffer] + liveness.offsetOf(value);
      auto argument = cast<BlockArgument>(liveness.storages()[id].values.front());
      return stateOffsets.lookup(nameOf(graph, argument));
    };
    Builder builder(&getContext());
    SmallVector<DictionaryAttr> attributes; // all at once: one at a time each copies all others
    graph.getAllArgAttrs(attributes);
    for (auto [argument, dictionary] : llvm::zip_equal(graph.getArguments(), attributes)) {
      NamedAttrList list(dictionary);
      list.set(kOffsetAttr, builder.getI64IntegerAttr(offsetOf(argument)));
      dictionary = list.getDictionary(&getContext());
    }
    graph.setAllArgAttrs(attributes);
    for (Operation &op : graph.getBody().front()) {
      if (launchesNothing(&op))
        continue;
      SmallVector<int64_t> offsets = llvm::map_to_vector(op.getResults(), offsetOf);
      op.setAttr(kOffsetsAttr, builder.getDenseI64ArrayAttr(offsets));
      if (auto workspace = transient.ofWorkspace.find(&op);
          workspace != transient.ofWorkspace.end())
        op.setAttr(
            kWorkspaceOffsetAttr,
            builder.getI64IntegerAttr(persistent + packed.solution->offsets[workspace->second]));
    }
    return {packed.solution ? packed.solution->height : 0, packed.lowerBound,
            logicalBound(transient, packed.lowerBound)};
  }
};

} // namespace
} // namespace stow
