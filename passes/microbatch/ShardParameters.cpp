// Weights of which every rank keeps a shard: put together in front of their first reader, in every graph. O(ops).
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_SHARDPARAMETERSPASS
#include "passes/microbatch/Passes.h.inc"

namespace {

/// What a graph does to a parameter whose state lies in shards: takes its shard, and puts the new value together.
struct Update {
  ShardOp shard;
  AllGatherOp gather;
};

/// Nothing where the graph has another use of its new value, or no such update.
std::optional<Update> updateOf(BlockArgument parameter) {
  Update update;
  for (OpOperand &use : parameter.getUses()) {
    auto gather = dyn_cast<AllGatherOp>(use.getOwner());
    if (gather && use.get() == gather.getParameter())
      update.gather = gather;
  }
  if (!update.gather || !update.gather->hasOneUse())
    return std::nullopt;
  Operation *optimizer = update.gather.getX().getDefiningOp();
  update.shard = optimizer ? optimizer->getOperand(0).getDefiningOp<ShardOp>() : ShardOp();
  return update.shard && update.shard.getX() == parameter ? std::optional(update) : std::nullopt;
}

/// A parameter in all graphs that read it.
struct Uses {
  RankedTensorType type;
  SmallVector<BlockArgument> arguments;
  bool isUpdated = false; ///< in one of them, by shards
};

/// The parameters that may lie in shards, the largest first.
SmallVector<Uses> candidatesIn(ModuleOp module) {
  llvm::MapVector<StringRef, Uses> byName;
  for (auto graph : module.getOps<func::FuncOp>())
    for (BlockArgument argument : graph.getArguments())
      if (kindOfArgument(graph, argument.getArgNumber()) == ArgumentKind::Parameter) {
        Uses &uses = byName[nameOf(argument)];
        uses.type = tensorType(argument);
        uses.arguments.push_back(argument);
        uses.isUpdated |= updateOf(argument).has_value();
      }
  byName.remove_if([](const auto &named) { return !named.second.isUpdated; });
  SmallVector<Uses> candidates;
  for (auto &[name, uses] : byName)
    candidates.push_back(std::move(uses));
  llvm::stable_sort(candidates, [](const Uses &a, const Uses &b) {
    return a.type.getNumElements() > b.type.getNumElements();
  });
  return candidates;
}

/// The argument becomes a shard, which its update reads and writes; what reads the whole reads what is put together in front of the
/// first reader.
void shard(BlockArgument parameter, int64_t devices) {
  auto graph = cast<func::FuncOp>(parameter.getOwner()->getParentOp());
  const RankedTensorType whole = tensorType(parameter);
  std::optional<Update> update = updateOf(parameter);
  SmallVector<OpOperand *> readers;
  Operation *first = nullptr;
  for (OpOperand &use : parameter.getUses()) {
    Operation *reader = use.getOwner();
    if (update && (reader == update->shard || reader == update->gather))
      continue;
    readers.push_back(&use);
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  }
  parameter.setType(shardType(whole, devices));
  graph.setArgAttr(parameter.getArgNumber(), kShardOfAttr, TypeAttr::get(whole));
  if (first) {
    OpBuilder builder(first);
    auto unshard = UnshardOp::create(builder, parameter.getLoc(), whole, parameter,
                                     static_cast<uint64_t>(devices));
    if (!first->hasTrait<OpTrait::IsTerminator>())
      setPhase(unshard, phaseOf(first));
    for (OpOperand *reader : readers)
      reader->set(unshard.getY());
  }
  if (update) {
    update->gather.getY().replaceAllUsesWith(update->gather.getX());
    update->gather->erase();
    update->shard.getY().replaceAllUsesWith(parameter);
    update->shard->erase();
  }
  graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                          graph.front().getTerminator()->getOperandTypes()));
}

//===--------------------------------------------------------------------------------------------===//
// --stow-shard-parameters
//===--------------------------------------------------------------------------------------------===//

struct ShardParameters : impl::ShardParametersPassBase<ShardParameters> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (percent < 0 || percent > 100) {
      module.emitError() << "percent is " << int64_t(percent) << "; expected 0 to 100";
      return signalPassFailure();
    }
    const int64_t devices = devicesOf(module);
    const SmallVector<Uses> candidates = candidatesIn(module);
    double all = 0, taken = 0, left = 0;
    for (const Uses &uses : candidates)
      all += static_cast<double>(storedBytesOf(uses.type));
    size_t count = 0;
    for (const Uses &uses : candidates) {
      if (taken * 100 >= all * static_cast<double>(percent))
        break;
      ++count;
      taken += static_cast<double>(storedBytesOf(uses.type));
      left += static_cast<double>(storedBytesOf(shardType(uses.type, devices)));
      for (BlockArgument argument : uses.arguments)
        shard(argument, devices);
    }
    addNote(module,
            llvm::formatv("shard-state: {0} parameters lie in shards, on each of {1} devices {2:n} "
                          "bytes in place of {3:n}, and are put together where they are read",
                          count, devices, static_cast<Bytes>(left), static_cast<Bytes>(taken))
                .str());
  }
};

} // namespace
} // namespace stow
