// Room for the next batch while a step still runs: O(commands * buffers) at worst, once.
//
//   bytes ^      +--------+
//         |  +---+        +---+              behind its peak a step empties the arena: from command k on
//         |  |                +---+=======   there is room for its inputs once more, up to its end
//         |  |      step          |  next
//         +--+--------------------+-------> commands
//                                 k
//
// What is live from a command on contains what is live from any later one on, so the places found for an
// earlier command serve a later one too: the earliest command with room is found by halving. Places are the
// first gaps, the largest input first, as in first-fit decreasing.
#include "ir/StepGraphs.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "passes/memory/PlanWords.h"

#include <numeric>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PLACENEXTINPUTSPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// 10 us at 25 GB/s: what starting a copy, waiting for it and copying again on the device takes.
constexpr Bytes kLeastBatch = 256 << 10;

/// Bytes [begin, end) of the arena.
struct Range {
  Bytes begin = 0, end = 0;
};

struct NextInput {
  unsigned argument = 0;
  Bytes bytes = 0, offset = 0;
};

/// Finds the places of one graph.
class Placer {
public:
  /// `always`: what is never free, whatever runs.
  Placer(func::FuncOp graph, std::vector<Range> always, Bytes arenaBytes, Bytes alignment)
      : graph(graph), liveness(graph), offsets(arenaOffsets(graph)), always(std::move(always)),
        arenaBytes(arenaBytes), alignment(alignment) {
    for (BlockArgument argument : graph.getArguments()) {
      const unsigned number = argument.getArgNumber();
      const auto kind = kindOfArgument(graph, number);
      const auto role = kind ? inputRoleOf(*kind) : std::nullopt;
      if (role == InputRole::Data || role == InputRole::Target)
        inputs.push_back({number, storedBytesOf(argument.getType()), 0});
    }
    llvm::sort(inputs, [](const NextInput &a, const NextInput &b) {
      return std::pair(-a.bytes, a.argument) < std::pair(-b.bytes, b.argument);
    });
  }

  void run() {
    const auto add = [](Bytes sum, const NextInput &input) { return sum + input.bytes; };
    const Bytes bytes = std::accumulate(inputs.begin(), inputs.end(), Bytes{0}, add);
    listCommands();
    if (bytes < kLeastBatch || commands.empty())
      return;
    size_t first = 0, last = commands.size();
    while (first < last) {
      const size_t middle = first + (last - first) / 2;
      if (place(middle))
        last = middle;
      else
        first = middle + 1;
    }
    if (first == commands.size())
      return;
    place(first);
    Builder builder(graph.getContext());
    for (const NextInput &input : inputs)
      graph.setArgAttr(input.argument, kNextOffsetAttr, builder.getI64IntegerAttr(input.offset));
    commands[first]->setAttr(kNextInputsAttr, builder.getUnitAttr());
  }

private:
  void listCommands() {
    for (Operation &op : graph.getBody().front())
      if (liveness.commandOf(&op) && !op.hasAttr(kTogetherAttr))
        commands.push_back(&op);
  }

  /// What is used by command `first` or a later one.
  std::vector<Range> usedFrom(size_t first) const {
    std::vector<Range> used = always;
    for (const Storage &storage : liveness.storages()) {
      if (storage.end <= static_cast<int64_t>(first))
        continue;
      const Value value = storage.values.front();
      const Bytes begin = offsets.lookup(value) - liveness.offsetOf(value);
      used.push_back({begin, begin + storage.size});
    }
    for (Operation *op : llvm::drop_begin(commands, first))
      if (const Bytes bytes = bytesAttr(op, kWorkspaceAttr)) {
        const Bytes begin = bytesAttr(op, kWorkspaceOffsetAttr);
        used.push_back({begin, begin + bytes});
      }
    return used;
  }

  /// Whether the inputs have room from command `first` on; then they have their offsets.
  bool place(size_t first) {
    std::vector<Range> used = usedFrom(first);
    for (NextInput &input : inputs) {
      llvm::sort(used, [](const Range &a, const Range &b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
      Bytes at = 0;
      for (const Range &range : used)
        if (range.begin - at < input.bytes)
          at = std::max(at, alignUp(range.end, alignment));
      if (arenaBytes - at < input.bytes)
        return false;
      input.offset = at;
      used.push_back({at, at + input.bytes});
    }
    return true;
  }

  func::FuncOp graph;
  Liveness liveness;
  llvm::DenseMap<Value, Bytes> offsets;
  const std::vector<Range> always;
  const Bytes arenaBytes, alignment;
  std::vector<NextInput> inputs;     ///< the largest first
  std::vector<Operation *> commands; ///< the op that each begins with
};

//===-- --stow-place-next-inputs -------------------------------------------------------------===//

struct PlaceNextInputsPass : impl::PlaceNextInputsPassBase<PlaceNextInputsPass> {
  using PlaceNextInputsPassBase::PlaceNextInputsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto form = module->getAttrOfType<StringAttr>(kFormAttr);
    const Bytes alignment = bytesAttr(module, kAlignmentAttr);
    if (!form || form.getValue() != "placed" || alignment < 1) {
      module.emitError() << "expects stow.form = \"placed\" and stow.alignment; run "
                            "stow-pack-buffers first";
      return signalPassFailure();
    }
    std::vector<Range> always = {{0, bytesAttr(module, kPersistentBytesAttr)}};
    for (auto graph : module.getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments()) {
        auto offset =
            graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kOffsetAttr).getInt();
        always.push_back({offset, offset + storedBytesOf(argument.getType())});
      }
    for (auto graph : module.getOps<func::FuncOp>())
      if (isStepGraph(graph))
        Placer(graph, always, bytesAttr(module, kArenaBytesAttr), alignment).run();
  }
};

} // namespace

} // namespace stow
