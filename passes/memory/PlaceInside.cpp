// Parts inside their wholes: concat by construction and slices as views.
//
// A concat's inputs, the concat itself and what is sliced from it are one storage once they are
// placed; which of them are is decided one by one by the live bytes over the commands of
// the order at hand, O(commands) each. Which op has which parts, AliasOpInterface says; which parts
// an op takes, the target.
//
// No more live bytes than with everything copied is little to ask where copies are many: where that
// is more than the order was made for, a second try leaves out what raises live bytes above that.
//
//   copied   bytes |      [ y      ]        placed         |  [ y          ]
//                  |  [ a     ]                            |  | a     |
//                  |    [ b  ]                             |  |   b  |
//                  +------------------> time               +------------------>
//
// Results before operands for concats (an inner concat is placed when its reader is), operands
// before results for slices (a slice of a slice is a view of a view).
#include "ir/StepGraphs.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include <set>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PLACEINSIDEPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// Undoes all placement.
void reset(func::FuncOp graph) {
  for (Operation &op : graph.getBody().front()) {
    op.removeAttr(kInsideAttr);
    op.removeAttr(kInPlaceAttr);
    for (Value result : op.getResults())
      if (layoutOf(result.getType()).pitch)
        result.setType(withoutPitch(tensorType(result)));
  }
}

/// True when the op may have `value` at `position` as a part of type `type`, `offset` bytes behind
/// the start of a storage.
bool takes(const Target &target, Operation *op, unsigned position, RankedTensorType type,
           Bytes offset) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return false; // the caller reads whole tensors
  return target.takesPart(op, position, type) ||
         (!layoutOf(type).pitch && offset % target.alignment() == 0);
}

bool allTake(const Target &target, Value value, RankedTensorType type, Bytes offset) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    if (auto view = viewOfPart(use, type))
      return allTake(target, view->first, view->second, offset);
    return takes(target, use.getOwner(), use.getOperandNumber(), type, offset);
  });
}

/// True when an op writes new state over the argument that `value` is or looks at.
bool isUpdated(Value value) {
  Value root = viewedValue(value);
  return isa<BlockArgument>(root) && llvm::any_of(root.getUses(), isUpdate);
}

/// True for the new value of state, which lies where the old one does.
bool isNewState(OpResult result) {
  auto alias = dyn_cast<AliasOpInterface>(result.getOwner());
  return alias && alias.getUpdatedOperand(result.getResultNumber());
}

/// True when the op may have `value` at `position` as a part somewhere in a storage, whichever
/// other values lie around it.
bool mayTake(const Target &target, Operation *op, unsigned position, RankedTensorType type) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return false;
  return !layoutOf(type).pitch || target.takesPart(op, position, withoutPitch(type));
}

/// True when a reader of `value` may have it as a part. A clone of its op may have that reader
/// alone.
bool anyMayTake(const Target &target, Value value, RankedTensorType type) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    auto view = viewOfPart(use, withoutPitch(tensorType(use.get())));
    return view ? anyMayTake(target, view->first, type)
                : mayTake(target, use.getOwner(), use.getOperandNumber(), type);
  });
}

/// A storage and the commands during which it is live.
struct LiveRange {
  int64_t begin = 0, end = 0;
  Bytes size = 0;
};

/// Where a result overwrites a dying operand, both are counted once.
struct Credit {
  StorageId result = 0, operand = 0;
  int64_t command = 0;
  Bytes size = 0;
};

using CreditId = unsigned;

/// Live bytes at every command, and the storages they consist of.
class LiveStorages {
public:
  /// Live bytes may rise up to `most`, or the peak if that is less.
  LiveStorages(func::FuncOp graph, Bytes most) : liveness(graph), live(liveness.liveBytes()) {
    for (const Storage &storage : liveness.storages()) {
      ranges.push_back({storage.begin, storage.end, storage.isState ? 0 : storage.size});
      owner.push_back(owner.size());
    }
    findCredits(graph);
    limit = std::min(most, peak());
  }

  Bytes peak() const { return *llvm::max_element(live); }

  int64_t beginOf(Value value) const { return ranges[idOf(value)].begin; }
  int64_t endOf(Value value) const { return ranges[idOf(value)].end; }

  /// Makes the storages of `parts` one with that of `whole`, unless live bytes would rise where they
  /// are above the limit then. True when done.
  bool join(Value whole, ArrayRef<Value> parts) {
    StorageId kept = idOf(whole);
    LiveRange merged = ranges[kept];
    SmallVector<StorageId> gone;
    for (Value part : parts)
      if (StorageId id = idOf(part); id != kept && !llvm::is_contained(gone, id)) {
        gone.push_back(id);
        merged.begin = std::min(merged.begin, ranges[id].begin);
        merged.end = std::max(merged.end, ranges[id].end);
      }
    // Parts neither overwrite nor are overwritten; the whole is, if it dies no later than before.
    std::set<CreditId> lost;
    for (StorageId id : gone)
      lost.insert(creditsOf[id].begin(), creditsOf[id].end());
    if (merged.end > ranges[kept].end)
      llvm::copy_if(creditsOf[kept], std::inserter(lost, lost.end()),
                    [&](CreditId id) { return credits[id].operand == kept; });
    auto change = [&](Bytes sign) {
      add(ranges[kept], -sign);
      for (StorageId id : gone)
        add(ranges[id], -sign);
      add(merged, sign);
      for (CreditId id : lost)
        live[credits[id].command] += sign * credits[id].size;
    };
    const std::vector<Bytes> before(live.begin() + merged.begin, live.begin() + merged.end);
    change(1);
    if (!std::equal(before.begin(), before.end(), live.begin() + merged.begin,
                    [&](Bytes old, Bytes now) { return now <= std::max(old, limit); })) {
      change(-1);
      return false;
    }
    ranges[kept] = merged;
    for (StorageId id : gone)
      owner[id] = kept;
    for (CreditId id : lost)
      for (StorageId side : {credits[id].result, credits[id].operand})
        llvm::erase(creditsOf[side], id);
    return true;
  }

private:
  /// What in-place sharing would save if everything were copied.
  void findCredits(func::FuncOp graph) {
    shareInPlace(graph);
    creditsOf.resize(ranges.size());
    for (Operation &op : graph.getBody().front()) {
      auto pairs = op.getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
      for (int64_t i = 0; pairs && i + 1 < pairs.size(); i += 2) {
        Value result = op.getResult(pairs[i]);
        credits.push_back({liveness.storageOf(result),
                           liveness.storageOf(op.getOperand(pairs[i + 1])),
                           *liveness.commandOf(&op), storedBytesOf(result.getType())});
        live[credits.back().command] -= credits.back().size;
        for (StorageId side : {credits.back().result, credits.back().operand})
          creditsOf[side].push_back(static_cast<CreditId>(credits.size() - 1));
      }
      op.removeAttr(kInPlaceAttr);
    }
  }

  StorageId idOf(Value value) const {
    StorageId id = liveness.storageOf(value);
    while (owner[id] != id)
      id = owner[id];
    return id;
  }

  void add(const LiveRange &range, Bytes sign) {
    for (int64_t command = range.begin; command < range.end; ++command)
      live[command] += sign * range.size;
  }

  Liveness liveness;
  std::vector<Bytes> live;       ///< by command; all state counts at every one
  std::vector<LiveRange> ranges; ///< by StorageId
  std::vector<StorageId> owner;
  std::vector<Credit> credits;
  std::vector<SmallVector<CreditId, 2>> creditsOf; ///< by StorageId: those still counted
  Bytes limit = 0;
};

class Placement {
public:
  Placement(func::FuncOp graph, const Target &target,
            Bytes most = std::numeric_limits<Bytes>::max())
      : block(graph.getBody().front()), target(target), storages(graph, most) {}

  /// Live bytes at their peak.
  Bytes peak() const { return storages.peak(); }

  /// Returns the bytes that are stored and copied no more.
  Bytes run() {
    for (Operation &op : llvm::reverse(block))
      placeOperands(op);
    llvm::MapVector<Value, SmallVector<Slice>> slices;
    for (Operation &op : block)
      for (Sharing &part : partsOf(&op))
        if (part.kind == SharingKind::PartOfOperand)
          slices[part.wholeIn(&op)].push_back({&op, std::move(part)});
    for (auto &[source, views] : slices)
      viewSlices(source, views);
    return bytes;
  }

private:
  /// A result that may be read where it lies in an operand.
  struct Slice {
    Operation *op;
    Sharing part;
    Value value() const { return part.partIn(op); }
  };

  /// Where the first element of `value` lies in the storage of the outermost whole.
  Bytes offsetOf(Value value) const { return offsets.lookup(value); }

  /// Gives a part and what views it under other shapes their types and offsets.
  void place(Value part, RankedTensorType type, Bytes offset) {
    part.setType(type);
    offsets[part] = offset;
    for (OpOperand &use : part.getUses())
      if (auto view = viewOfPart(use, type))
        place(view->first, view->second, offset);
  }

  /// The op result that `input` is, or looks at under another shape, and its type as a part where
  /// that of `input` is `type`; none where it must stay outside.
  std::optional<std::pair<OpResult, RankedTensorType>> partOf(Value input, RankedTensorType type,
                                                              Bytes offset) {
    if (withoutPitch(type) != withoutPitch(tensorType(input)))
      return std::nullopt;
    while (auto viewed = viewedAsPart(input, type))
      std::tie(input, type) = *viewed;
    auto result = dyn_cast<OpResult>(input);
    if (!result || placed.contains(result) || launchesNothing(result.getOwner()))
      return std::nullopt;
    Operation *producer = result.getOwner();
    if (isNewState(result) ||
        !takes(target, producer, producer->getNumOperands() + result.getResultNumber(), type,
               offset) ||
        !allTake(target, result, type, offset))
      return std::nullopt;
    return std::pair(result, type);
  }

  /// An operand that may lie inside a result.
  struct Candidate {
    Sharing part;
    OpResult value;
    RankedTensorType type;
    Bytes offset;
  };

  void placeOperands(Operation &op) {
    SmallVector<Candidate> candidates;
    Value whole;
    for (Sharing &sharing : partsOf(&op)) {
      if (sharing.kind != SharingKind::PartOfResult)
        continue;
      whole = sharing.wholeIn(&op);
      Value input = sharing.partIn(&op);
      auto type = typeInside(whole.getType(), tensorType(input));
      Bytes offset = offsetOf(whole) + sharing.offsetIn(&op);
      auto part = type ? partOf(input, *type, offset) : std::nullopt;
      if (part &&
          llvm::none_of(candidates, [&](const Candidate &c) { return c.value == part->first; }))
        candidates.push_back({std::move(sharing), part->first, part->second, offset});
    }
    auto valueOf = [](const Candidate &candidate) -> Value { return candidate.value; };
    while (!candidates.empty() && !storages.join(whole, llvm::map_to_vector(candidates, valueOf)))
      candidates.erase(llvm::min_element(candidates, [&](const Candidate &a, const Candidate &b) {
        return storages.beginOf(a.value) < storages.beginOf(b.value);
      }));
    for (const Candidate &candidate : candidates) {
      takePart(&op, candidate.part);
      bytes += storedBytesOf(candidate.value.getType());
      placed.insert(candidate.value);
      place(candidate.value, candidate.type, candidate.offset);
    }
  }

  /// Makes the slices of `source` views, without those read last where they would hold the source
  /// through the peak.
  void viewSlices(Value source, SmallVector<Slice> slices) {
    if (isUpdated(source))
      return; // a copy keeps the old value for readers behind the update
    auto offsetIn = [&](const Slice &slice) {
      return offsetOf(source) + slice.part.offsetIn(slice.op);
    };
    llvm::erase_if(slices, [&](const Slice &slice) {
      auto type = typeInside(source.getType(), tensorType(slice.value()));
      return !type || placed.contains(slice.value()) ||
             !allTake(target, slice.value(), *type, offsetIn(slice));
    });
    auto valueOf = [](const Slice &slice) { return slice.value(); };
    while (!slices.empty() && !storages.join(source, llvm::map_to_vector(slices, valueOf)))
      slices.erase(llvm::max_element(slices, [&](const Slice &a, const Slice &b) {
        return storages.endOf(a.value()) < storages.endOf(b.value());
      }));
    for (const Slice &slice : slices) {
      bytes += storedBytesOf(slice.value().getType());
      place(slice.value(), *typeInside(source.getType(), tensorType(slice.value())),
            offsetIn(slice));
      takePart(slice.op, slice.part);
    }
  }

  Block &block;
  const Target &target;
  LiveStorages storages;
  llvm::DenseSet<Value> placed;         ///< what lies inside a result
  llvm::DenseMap<Value, Bytes> offsets; ///< of parts, in bytes; 0 for all others
  Bytes bytes = 0;
};

//===-- --stow-place-inside ------------------------------------------------------------------===//

struct PlaceInsidePass : impl::PlaceInsidePassBase<PlaceInsidePass> {
  PlaceInsidePass(const Target &target, const PlaceInsidePassOptions &options)
      : PlaceInsidePassBase(options), target(target) {}

  void runOnOperation() override {
    auto step = stepGraph(getOperation());
    for (auto graph : getOperation().getOps<func::FuncOp>())
      placeInside(graph, target, graph == step ? wantedLive : std::numeric_limits<Bytes>::max());
  }

  const Target &target;
};

} // namespace

bool mayBePlaced(Operation *op, const Sharing &part, const Target &target) {
  Value whole = part.wholeIn(op), value = part.partIn(op);
  auto type = typeInside(whole.getType(), tensorType(value));
  if (!type)
    return false;
  if (part.kind == SharingKind::PartOfOperand)
    return !isUpdated(whole) && anyMayTake(target, value, *type);
  if (withoutPitch(*type) != tensorType(value))
    return false;
  while (auto viewed = viewedAsPart(value, withoutPitch(tensorType(value))))
    value = viewed->first;
  auto result = dyn_cast<OpResult>(value);
  if (!result || launchesNothing(result.getOwner()) || isNewState(result))
    return false;
  Operation *producer = result.getOwner();
  return mayTake(target, producer, producer->getNumOperands() + result.getResultNumber(), *type);
}

Bytes placeInside(func::FuncOp graph, const Target &target, Bytes wanted) {
  auto place = [&](Bytes most) {
    reset(graph);
    Placement placement(graph, target, most);
    const Bytes placed = placement.run();
    return std::pair(placement.peak(), placed);
  };
  const auto [peak, placed] = place(std::numeric_limits<Bytes>::max());
  if (peak <= wanted)
    return placed;
  const auto [lower, fewer] = place(wanted);
  return lower < peak ? fewer : place(std::numeric_limits<Bytes>::max()).second;
}

std::unique_ptr<Pass> createPlaceInsidePass(const Target &target,
                                            const PlaceInsidePassOptions &options) {
  return std::make_unique<PlaceInsidePass>(target, options);
}

} // namespace stow
