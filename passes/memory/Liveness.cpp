#include "passes/memory/Liveness.h"

using namespace mlir;

namespace stow {

bool launchesNothing(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || isa<ConstantOp>(op))
    return true;
  auto alias = dyn_cast<AliasOpInterface>(op);
  return alias && alias.getViewedOperand();
}

Value viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto alias = dyn_cast<AliasOpInterface>(op);
    auto viewed = alias ? alias.getViewedOperand() : std::nullopt;
    if (!viewed)
      break;
    value = op->getOperand(*viewed);
  }
  return value;
}

std::optional<unsigned> sharedOperand(OpResult result) {
  Operation *op = result.getOwner();
  if (auto alias = dyn_cast<AliasOpInterface>(op)) {
    if (auto viewed = alias.getViewedOperand())
      return viewed;
    if (auto updated = alias.getUpdatedOperand(result.getResultNumber()))
      return updated;
  }
  if (auto pairs = op->getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr))
    for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
      if (pairs[i] == static_cast<int64_t>(result.getResultNumber()))
        return pairs[i + 1];
  return std::nullopt;
}

StringRef kindOfArgument(func::FuncOp graph, unsigned argument) {
  auto kind = graph.getArgAttrOfType<StringAttr>(argument, kKindAttr);
  return kind ? kind.getValue() : StringRef();
}

bool isStateKind(StringRef kind) {
  return kind == "parameter" || kind == "statistic" || kind == "optimizer";
}

Liveness::Liveness(func::FuncOp graph) {
  Block &block = graph.getBody().front();
  for (Operation &op : block)
    if (!launchesNothing(&op)) {
      numbers[&op] = commands++;
      auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
      workspaces.push_back(workspace ? workspace.getInt() : 0);
    }
  // A graph that only returns its arguments still holds them for a while.
  if (commands == 0) {
    commands = 1;
    workspaces.push_back(0);
  }

  auto create = [&](Value value, int64_t begin) {
    ids[value] = all.size();
    Storage storage;
    storage.values.push_back(value);
    storage.size = storedBytesOf(value.getType());
    storage.begin = begin;
    storage.end = std::min(begin + 1, commands);
    all.push_back(storage);
  };
  for (BlockArgument argument : block.getArguments()) {
    create(argument, 0);
    all.back().isState = isStateKind(kindOfArgument(graph, argument.getArgNumber()));
    if (all.back().isState)
      all.back().end = commands;
  }
  for (Operation &op : block) {
    auto number = numbers.find(&op);
    int64_t end = op.hasTrait<OpTrait::IsTerminator>() ? commands
                  : number == numbers.end()            ? 0
                                                       : number->second + 1;
    for (Value operand : op.getOperands())
      if (auto id = ids.find(operand); id != ids.end())
        all[id->second].end = std::max(all[id->second].end, end);
    for (OpResult result : op.getResults()) {
      if (isa<ConstantOp>(op))
        continue;
      if (auto operand = sharedOperand(result)) {
        StorageId id = ids.lookup(op.getOperand(*operand));
        ids[result] = id;
        all[id].values.push_back(result);
      } else {
        create(result, number->second);
      }
    }
  }
}

std::optional<int64_t> Liveness::commandOf(Operation *op) const {
  auto number = numbers.find(op);
  return number == numbers.end() ? std::nullopt : std::optional(number->second);
}

Bytes Liveness::transientPeak() const {
  std::vector<Bytes> change(commands + 1, 0);
  for (const Storage &storage : all)
    if (!storage.isState) {
      change[storage.begin] += storage.size;
      change[storage.end] -= storage.size;
    }
  Bytes live = 0, peak = 0;
  for (int64_t command = 0; command < commands; ++command) {
    live += change[command];
    peak = std::max(peak, live + workspaces[command]);
  }
  return peak;
}

Bytes Liveness::stateBytes() const {
  Bytes bytes = 0;
  for (const Storage &storage : all)
    if (storage.isState)
      bytes += storage.size;
  return bytes;
}

Bytes shareInPlace(func::FuncOp graph) {
  // Without in-place marks every storage is one value with its views; its end says when it dies.
  // Marks only join a dying storage with a new one, so these ends stay right along the way.
  graph.walk([](Operation *op) { op->removeAttr(kInPlaceAttr); });
  Liveness liveness(graph);
  llvm::DenseMap<Value, int64_t> end;
  for (const Storage &storage : liveness.storages())
    for (Value value : storage.values)
      end[value] = storage.isState ? liveness.commandCount() + 1 : storage.end;
  // What the caller reads outlives the last command, which may not overwrite it either.
  for (Value returned : graph.getBody().front().getTerminator()->getOperands())
    if (auto known = end.find(returned); known != end.end())
      for (Value value : liveness.storages()[liveness.storageOf(returned)].values)
        end[value] = liveness.commandCount() + 1;

  Bytes shared = 0;
  for (Operation &op : graph.getBody().front()) {
    auto command = liveness.commandOf(&op);
    auto alias = dyn_cast<AliasOpInterface>(&op);
    if (!command || !alias)
      continue;
    SmallVector<int64_t> pairs;
    SmallVector<StorageId> taken;
    for (OpResult result : op.getResults()) {
      if (sharedOperand(result))
        continue;
      for (unsigned candidate : alias.getOverwritableOperands(result.getResultNumber())) {
        Value value = op.getOperand(candidate);
        StorageId storage = liveness.storageOf(value);
        // Nothing may read it later, and the op itself only through this very value.
        bool dies = end.lookup(value) == *command + 1 && !llvm::is_contained(taken, storage) &&
                    llvm::all_of(op.getOperands(), [&](Value other) {
                      return other == value || liveness.storageOf(other) != storage;
                    });
        if (!dies || storedBytesOf(value.getType()) != storedBytesOf(result.getType()))
          continue;
        pairs.append({static_cast<int64_t>(result.getResultNumber()), candidate});
        taken.push_back(storage);
        shared += storedBytesOf(result.getType());
        break;
      }
    }
    if (!pairs.empty())
      op.setAttr(kInPlaceAttr, DenseI64ArrayAttr::get(op.getContext(), pairs));
  }
  return shared;
}

} // namespace stow
