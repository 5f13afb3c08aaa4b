#include "passes/memory/Liveness.h"

#include "ir/StowShapeOps.h"

#include <numeric>

using namespace mlir;

namespace stow {

bool launchesNothing(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || isa<ConstantOp>(op))
    return true;
  unsigned views = 0, placed = 0; // results that are there, operands that lie in a result
  for (const Sharing &sharing : sharingsOf(op)) {
    if (sharing.kind == SharingKind::PartOfResult)
      placed += isTaken(op, sharing);
    else if (sharing.kind == SharingKind::View || sharing.kind == SharingKind::PartOfOperand)
      views += isTaken(op, sharing);
  }
  return (views > 0 && views == op->getNumResults()) ||
         (placed > 0 && placed == op->getNumOperands());
}

SmallVector<Operation *> opsOfCommand(Operation *op) {
  if (launchesNothing(op) || op->hasAttr(kTogetherAttr))
    return {};
  SmallVector<Operation *> ops = {op};
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode())
    if (next->hasAttr(kTogetherAttr))
      ops.push_back(next);
    else if (!launchesNothing(next))
      break;
  return ops;
}

Value viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    std::optional<unsigned> viewed = viewedOperand(op);
    if (!viewed)
      break;
    value = op->getOperand(*viewed);
  }
  return value;
}

llvm::DenseMap<Value, Bytes> arenaOffsets(func::FuncOp graph) {
  llvm::DenseMap<Value, Bytes> offsets;
  for (BlockArgument argument : graph.getArguments())
    offsets[argument] =
        graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kOffsetAttr).getInt();
  for (Operation &op : graph.getBody().front()) {
    auto given = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    for (OpResult result : op.getResults()) {
      if (given) {
        offsets[result] = given[result.getResultNumber()];
        continue;
      }
      for (const Sharing &sharing : sharingsOf(&op)) {
        if (sharing.result != result.getResultNumber() || !isTaken(&op, sharing))
          continue;
        const Bytes offset = sharing.offsetIn(&op),
                    operand = offsets.lookup(op.getOperand(sharing.operand));
        offsets[result] =
            sharing.kind == SharingKind::PartOfResult ? operand - offset : operand + offset;
        break;
      }
    }
  }
  return offsets;
}

Bytes logicalBytesOf(const Storage &storage) {
  Bytes logical = storage.size;
  for (Value value : storage.values)
    if (storedBytesOf(value.getType()) == storage.size)
      logical =
          std::min(logical, storedBytesOf(withoutLayout(cast<RankedTensorType>(value.getType()))));
  return logical;
}

Liveness::Liveness(func::FuncOp graph) {
  Block &block = graph.getBody().front();
  numberCommands(block);
  for (BlockArgument argument : block.getArguments()) {
    create(argument, 0, std::min<int64_t>(1, commands));
    all.back().isState = isStateArgument(graph, argument.getArgNumber());
    if (all.back().isState)
      all.back().end = commands;
  }
  for (Operation &op : block) {
    auto number = numbers.find(&op);
    int64_t end = op.hasTrait<OpTrait::IsTerminator>() ? commands
                  : number == numbers.end()            ? 0
                                                       : number->second + 1;
    for (Value operand : op.getOperands())
      if (auto place = places.find(operand); place != places.end()) {
        Storage &storage = all[place->second.storage];
        storage.end = std::max(storage.end, end);
      }
    if (isa<ConstantOp>(op))
      continue;
    for (OpResult result : op.getResults())
      define(result, number == numbers.end() ? 0 : number->second);
    join(op);
  }
  dropMerged();
}

void Liveness::numberCommands(Block &block) {
  for (Operation &op : block)
    if (commands > 0 && op.hasAttr(kTogetherAttr)) {
      numbers[&op] = commands - 1;
    } else if (!launchesNothing(&op)) {
      numbers[&op] = commands++;
      auto workspace = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
      workspaces.push_back(workspace ? workspace.getInt() : 0);
    }
  // A graph that only returns its arguments still holds them for a while.
  if (commands == 0) {
    commands = 1;
    workspaces.push_back(0);
  }
}

void Liveness::create(Value value, int64_t begin, int64_t end) {
  places[value] = {static_cast<StorageId>(all.size()), 0};
  Storage storage;
  storage.values.push_back(value);
  storage.size = storedBytesOf(value.getType());
  storage.begin = begin;
  storage.end = end;
  all.push_back(storage);
}

void Liveness::define(OpResult result, int64_t begin) {
  Operation *op = result.getOwner();
  if (std::optional<Sharing> sharing = sharingOf(result)) {
    Place place = places.lookup(op->getOperand(sharing->operand));
    place.offset += sharing->offsetIn(op);
    places[result] = place;
    all[place.storage].values.push_back(result);
    return;
  }
  if (launchesNothing(op)) // its life is that of the parts that `join` adds
    create(result, commands, 0);
  else
    create(result, begin, begin + 1);
}

/// The operands that are placed inside a result share its storage.
void Liveness::join(Operation &op) {
  for (const Sharing &sharing : sharingsOf(&op)) {
    if (sharing.kind != SharingKind::PartOfResult || !isTaken(&op, sharing))
      continue;
    Place whole = places.lookup(sharing.wholeIn(&op)), part = places.lookup(sharing.partIn(&op));
    Bytes offset = whole.offset + sharing.offsetIn(&op);
    if (whole.storage != part.storage)
      merge(whole.storage, part.storage, offset - part.offset);
  }
}

/// Storage `gone` lies `offset` bytes into storage `kept`, or before it where that is negative.
void Liveness::merge(StorageId kept, StorageId gone, Bytes offset) {
  Storage &into = all[kept], &from = all[gone];
  Bytes before = std::max<Bytes>(0, -offset);
  for (Value value : into.values)
    places[value].offset += before;
  for (Value value : from.values)
    places[value] = {kept, places[value].offset + offset + before};
  into.size = std::max(into.size + before, from.size + offset + before);
  into.begin = std::min(into.begin, from.begin);
  into.end = std::max(into.end, from.end);
  from.values.append(into.values);
  into.values = std::move(from.values);
  from.values.clear();
}

/// Numbers the storages that remain, in order of their first value.
void Liveness::dropMerged() {
  std::vector<Storage> kept;
  for (Storage &storage : all)
    if (!storage.values.empty())
      kept.push_back(std::move(storage));
  auto position = [](const Storage &storage) {
    Value first = storage.values.front();
    auto argument = dyn_cast<BlockArgument>(first);
    return std::pair(argument ? nullptr : first.getDefiningOp(),
                     argument ? argument.getArgNumber() : cast<OpResult>(first).getResultNumber());
  };
  llvm::sort(kept, [&](const Storage &a, const Storage &b) {
    auto [opA, numberA] = position(a);
    auto [opB, numberB] = position(b);
    if (opA == opB)
      return numberA < numberB;
    return !opA || (opB && opA->isBeforeInBlock(opB));
  });
  all = std::move(kept);
  for (auto [id, storage] : llvm::enumerate(all))
    for (Value value : storage.values)
      places[value].storage = id;
}

bool Liveness::isWhole(Value value) const {
  return all[storageOf(value)].size == storedBytesOf(value.getType());
}

std::optional<int64_t> Liveness::commandOf(Operation *op) const {
  auto number = numbers.find(op);
  return number == numbers.end() ? std::nullopt : std::optional(number->second);
}

std::vector<Bytes> Liveness::liveBytes() const {
  std::vector<Bytes> change(commands + 1, 0);
  for (const Storage &storage : all) {
    change[storage.begin] += storage.size;
    change[storage.end] -= storage.size;
  }
  std::partial_sum(change.begin(), change.end() - 1, change.begin());
  std::vector<Bytes> live(change.begin(), change.end() - 1);
  for (int64_t command = 0; command < commands; ++command)
    live[command] += workspaces[command];
  return live;
}

Bytes Liveness::transientPeak() const { return *llvm::max_element(liveBytes()) - stateBytes(); }

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
  llvm::DenseSet<Value> inside; // has its place in a larger result
  for (Operation &op : graph.getBody().front())
    for (const Sharing &part : partsOf(&op))
      if (part.kind == SharingKind::PartOfResult && isTaken(&op, part))
        inside.insert(viewedValue(part.partIn(&op))); // itself, under whatever shape it is joined
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
      if (sharingOf(result) || inside.contains(result))
        continue;
      for (unsigned candidate : alias.getOverwritableOperands(result.getResultNumber())) {
        Value value = op.getOperand(candidate);
        StorageId storage = liveness.storageOf(value);
        // Nothing may read it later, and the op itself only through this very value. A part would
        // keep all of its storage from being free.
        bool dies = end.lookup(value) == *command + 1 && liveness.isWhole(value) &&
                    !llvm::is_contained(taken, storage) &&
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
