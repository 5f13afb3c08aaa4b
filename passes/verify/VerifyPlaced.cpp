// Checks a placed module by running it on paper: every write, while its bytes stay, is an event; a
// value is whole as long as the events that wrote it are. Every op must find its operands whole
// where they were put; every write ends the events it touches. Nothing here is shared with the
// passes that place buffers. O(n log n) in values, times the parts of concats alive at once.
//
//   bytes  0        64            192        256
//          | weight | activation 3 | (free)   |        events: weight, activation 3
//
// What lies inside a larger tensor is a comb (ArenaContent.h).
//
// A copy touches its buffer at any time between its start and its await, so that nothing else may touch it
// there: a copy out is in flight over bytes that are read, a copy in over bytes that are written. Slow memory
// is followed as the arena is, a write of it for each copy out. So it is with a started collective: it reads some bytes and writes
// others until it is awaited. All ranks run the one program, and so the same collectives in the same order, at the same offsets.
#include "ir/StowCollectiveOps.h"
#include "passes/verify/CopyReplay.h"
#include "passes/verify/ExchangeReplay.h"
#include "passes/verify/GraphChecks.h"
#include "passes/verify/Passes.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_VERIFYPLACEDPASS
#include "passes/verify/Passes.h.inc"

namespace {

/// What `value` is under other shapes: what the views that make it look at.
Value seenThroughViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    const Sharings sharings = sharingsOf(op);
    auto *view = llvm::find_if(sharings, [&](const Sharing &sharing) {
      return sharing.kind == SharingKind::View && sharing.partIn(op) == value;
    });
    if (view == sharings.end())
      break;
    value = view->wholeIn(op);
  }
  return value;
}

/// What the op says of operands that lie in its result, one for each.
Sharings joinedBy(Operation &op) {
  Sharings joined = sharingsOf(&op);
  llvm::erase_if(joined,
                 [](const Sharing &sharing) { return sharing.kind != SharingKind::PartOfResult; });
  return joined;
}

/// The numbers in stow.inside.
ArrayRef<int64_t> insideOf(Operation &op) {
  auto inside = op.getAttrOfType<DenseI64ArrayAttr>(kInsideAttr);
  return inside ? inside.asArrayRef() : ArrayRef<int64_t>();
}

/// Strides in bytes of a tensor's dimensions.
std::vector<int64_t> byteStrides(RankedTensorType type) {
  std::vector<int64_t> strides =
      outerStrides(layoutOf(type), Shape(type.getShape().begin(), type.getShape().end()));
  for (int64_t &stride : strides)
    stride *= sizeOf(dtypeOf(type.getElementType()));
  return strides;
}

/// True when `box` has the strides of `whole` wherever it has more than one element.
bool liesIn(RankedTensorType whole, RankedTensorType box) {
  Layout outer = layoutOf(whole), inner = layoutOf(box);
  if (!outer.blocks.empty() || !inner.blocks.empty() || outer.groups > 1 || inner.groups > 1)
    return false;
  for (auto [dim, strides] : llvm::enumerate(llvm::zip(byteStrides(whole), byteStrides(box))))
    if (box.getDimSize(dim) > 1 && std::get<0>(strides) != std::get<1>(strides))
      return false;
  return true;
}

int64_t bytesTo(RankedTensorType whole, ArrayRef<int64_t> starts) {
  int64_t bytes = 0;
  for (auto [start, stride] : llvm::zip(starts, byteStrides(whole)))
    bytes += start * stride;
  return bytes;
}

/// The bytes of a box of a tensor, its first element at `offset`: dimensions are joined from the
/// innermost on while they are contiguous; every gap begins a level.
Comb boxAt(int64_t offset, RankedTensorType whole, ArrayRef<int64_t> sizes) {
  if (llvm::is_contained(sizes, 0))
    return {offset, offset, 0};
  std::vector<int64_t> strides = byteStrides(whole);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, whole.getRank()));
  llvm::erase_if(dims, [&](int64_t dim) { return sizes[dim] == 1; });
  llvm::sort(dims, [&](int64_t a, int64_t b) {
    return std::pair(strides[a], a) < std::pair(strides[b], b);
  });
  Comb comb = {offset, offset, sizeOf(dtypeOf(whole.getElementType()))};
  comb.end += comb.width;
  for (int64_t dim : dims) {
    comb.end += (sizes[dim] - 1) * strides[dim];
    auto *inner = comb.levels.empty() ? nullptr : &comb.levels.front();
    if (!inner && strides[dim] == comb.width)
      comb.width *= sizes[dim];
    else if (inner && strides[dim] == inner->stride * inner->count)
      inner->count *= sizes[dim];
    else
      comb.levels.insert(comb.levels.begin(), {strides[dim], sizes[dim]});
  }
  return comb;
}

/// The bytes of a tensor whose first element lies at `offset`.
Comb rangeAt(int64_t offset, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (layoutOf(type).pitch)
    return boxAt(offset, tensor, tensor.getShape());
  int64_t bytes = storedBytesOf(type);
  return {offset, offset + bytes, bytes};
}

/// The operands in stow.inside, by number.
FailureOr<SmallVector<bool>> listInside(Operation &op) {
  SmallVector<bool> isInside(op.getNumOperands(), false);
  for (int64_t input : insideOf(op)) {
    if (input < 0 || input >= op.getNumOperands() || isInside[input])
      return op.emitError() << "lists " << input << " as inside; expected each of its "
                            << op.getNumOperands() << " inputs at most once";
    isInside[input] = true;
  }
  return isInside;
}

/// An op that can run in several ways has the scratch of the one that it runs in.
LogicalResult checkChoice(Operation &op) {
  auto ways = op.getAttrOfType<ArrayAttr>("stow.implementations");
  if (!ways)
    return success();
  auto number = op.getAttrOfType<IntegerAttr>("stow.implementation");
  if (!number || number.getInt() < 0 || number.getInt() >= static_cast<int64_t>(ways.size()))
    return op.emitError() << "names none of its " << ways.size() << " implementations";
  auto way = dyn_cast<DictionaryAttr>(ways[number.getInt()]);
  auto needed = way ? way.getAs<IntegerAttr>("workspace") : IntegerAttr();
  auto given = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
  if (!needed || needed.getInt() != (given ? given.getInt() : 0))
    return op.emitError() << "has a workspace of " << (given ? given.getInt() : 0)
                          << " bytes, which is not that of its implementation " << number.getInt();
  return success();
}

/// Bytes that the ops of the launch at hand touch.
class Launch {
public:
  /// Ops of one launch run in any order: none touches what another one writes.
  LogicalResult enter(Operation &op, ArrayRef<Comb> read, ArrayRef<Comb> written) {
    const bool isTogether = op.hasAttr("stow.together");
    if (isTogether && writes.empty())
      return op.emitError() << "runs in the launch of the op before it, and that is none";
    if (!isTogether)
      *this = {};
    if (meet(written, writes) || meet(written, reads) || meet(read, writes))
      return op.emitError() << "touches what another op of its launch writes";
    llvm::append_range(reads, read);
    llvm::append_range(writes, written);
    return success();
  }

private:
  static bool meet(ArrayRef<Comb> a, ArrayRef<Comb> b) {
    return llvm::any_of(a, [&](const Comb &x) {
      return llvm::any_of(b, [&](const Comb &y) { return x.overlaps(y); });
    });
  }

  SmallVector<Comb> reads, writes;
};

/// Where the values of a graph lie, and what of their bytes is there.
class PlacedValues {
protected:
  PlacedValues(int64_t arenaBytes, int64_t alignment, int64_t slowBytes)
      : traffic(slowBytes), arenaBytes(arenaBytes), alignment(alignment) {}

  /// Where a value lies and the writes that its bytes come from.
  struct Place {
    Comb range;
    SmallVector<Event, 1> events;
  };

  bool isWhole(const Place &place) const {
    return llvm::all_of(place.events, [&](Event event) { return content.isWhole(event); });
  }

  LogicalResult checkBounds(Comb range, Operation *place, StringRef what, bool isAligned = true) {
    if (range.begin < 0 || range.end > arenaBytes)
      return place->emitError() << what << " at [" << range.begin << ", " << range.end
                                << ") lies outside the arena of " << arenaBytes << " bytes";
    if (isAligned && range.begin % alignment != 0)
      return place->emitError() << what << " at " << range.begin << " is not aligned to "
                                << alignment << " bytes";
    return success();
  }

  LogicalResult checkRead(OpOperand &operand) {
    Place place = places.lookup(operand.get());
    if (!isWhole(place))
      return operand.getOwner()->emitError()
             << "operand " << operand.getOperandNumber() << " at [" << place.range.begin << ", "
             << place.range.end << ") has been overwritten before this op reads it";
    if (failed(exchanges.checkRead(operand.getOwner(), place.range)))
      return failure();
    return traffic.checkRead(operand.getOwner(), place.range);
  }

  /// No copy and no collective under way is in the way of a write.
  LogicalResult checkUntouched(Operation &op, const Comb &range) const {
    return success(succeeded(traffic.checkWrite(&op, range)) &&
                   succeeded(exchanges.checkWrite(&op, range)));
  }

  /// A result may lie on an operand only whole, and only where the op allows it.
  LogicalResult checkOverwrite(Operation &op, OpResult result, Comb range) {
    auto alias = dyn_cast<AliasOpInterface>(&op);
    unsigned number = result.getResultNumber();
    SmallVector<unsigned> allowed;
    if (alias) {
      allowed = alias.getOverwritableOperands(number);
      if (auto updated = alias.getUpdatedOperand(number)) {
        allowed = {*updated};
        if (!(places.lookup(op.getOperand(*updated)).range == range))
          return op.emitError() << "result " << number << " must lie where operand " << *updated
                                << " lies";
      }
    }
    for (OpOperand &operand : op.getOpOperands()) {
      Comb read = places.lookup(operand.get()).range;
      if (!read.overlaps(range))
        continue;
      if (!llvm::is_contained(allowed, operand.getOperandNumber()) || !(read == range))
        return op.emitError() << "result " << number << " overwrites operand "
                              << operand.getOperandNumber() << " while the op reads it";
    }
    return success();
  }

  CopyReplay traffic;
  ExchangeReplay exchanges;
  ArenaContent content;
  llvm::DenseMap<Value, Place> places;

private:
  int64_t arenaBytes, alignment;
};

/// Checks one graph.
class Replay : PlacedValues {
public:
  Replay(func::FuncOp graph, int64_t arenaBytes, int64_t alignment, int64_t workspaceAlignment,
         int64_t slowBytes, llvm::StringMap<Comb> &stateRanges)
      : PlacedValues(arenaBytes, alignment, slowBytes), graph(graph),
        workspaceAlignment(workspaceAlignment), stateRanges(stateRanges) {}

  LogicalResult run() {
    bool ok = true;
    for (Operation &op : graph.getBody().front())
      for (const Sharing &joined : joinedBy(op))
        if (llvm::is_contained(insideOf(op), joined.operand))
          parts.insert(seenThroughViews(joined.partIn(&op)));
    for (BlockArgument argument : graph.getArguments())
      ok &= succeeded(enter(argument)) && succeeded(traffic.enter(graph, argument, stateRanges));
    for (Operation &op : graph.getBody().front())
      ok &= succeeded(letNextInputsCome(op)) && succeeded(step(op));
    return success(ok);
  }

private:
  LogicalResult enter(BlockArgument argument) {
    auto offset = graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kOffsetAttr);
    auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    auto kind = kindOfArgument(graph, argument.getArgNumber());
    if (!offset || !name || !kind)
      return graph.emitError() << "argument " << argument.getArgNumber()
                               << " lacks stow.offset, stow.name or stow.kind; run "
                                  "stow-pack-buffers first";
    Comb range = rangeAt(offset.getInt(), argument.getType());
    if (failed(checkBounds(range, graph, name.getValue())))
      return failure();
    if (const std::optional<Event> other = content.met(range)) // of an argument: no op has run yet
      return graph.emitError() << "arguments " << name << " and "
                               << graph.getArgAttr(arguments[*other], kNameAttr)
                               << " overlap in the arena";
    const bool isState = kind == ArgumentKind::Parameter || kind == ArgumentKind::Frozen ||
                         kind == ArgumentKind::Statistic || kind == ArgumentKind::Optimizer ||
                         kind == ArgumentKind::Accumulator;
    if (isState) {
      auto [known, isNew] = stateRanges.try_emplace(name.getValue(), range);
      if (!isNew && !(known->second == range))
        return graph.emitError() << "state " << name << " lies at " << range.begin
                                 << " here and at " << known->second.begin << " in another graph";
      states.push_back(argument);
    }
    arguments.push_back(argument.getArgNumber());
    places[argument] = {range, {content.write(range)}};
    return success();
  }

  /// From an op with stow.next_inputs on, the device may write what the inputs hold next: at once, or as late as
  /// behind the last op. So these bytes are written here, and whole at the end.
  LogicalResult letNextInputsCome(Operation &op) {
    if (!op.hasAttr("stow.next_inputs"))
      return success();
    if (mayNextCome)
      return op.emitError() << "lets the next inputs come, and an op before it does, too";
    mayNextCome = true;
    if (op.hasAttr("stow.together") || !op.hasAttr(kOffsetsAttr))
      return op.emitError() << "lets the next inputs come, but begins no launch";
    for (BlockArgument argument : graph.getArguments()) {
      auto offset =
          graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "stow.next_offset");
      if (!offset)
        continue;
      Comb range = rangeAt(offset.getInt(), argument.getType());
      if (failed(checkBounds(range, &op, "a next input")) || failed(checkUntouched(op, range)))
        return failure();
      next.push_back({argument, {range, {content.write(range)}}});
    }
    if (next.empty())
      return op.emitError() << "lets the next inputs come, and no argument has stow.next_offset";
    return success();
  }

  /// Where they are, nothing else is until the graph has ended.
  LogicalResult keepNextInputs() {
    bool ok = true;
    for (const auto &[argument, place] : next)
      if (!isWhole(place)) {
        graph.emitError() << "the next " << graph.getArgAttr(argument.getArgNumber(), kNameAttr)
                          << " at [" << place.range.begin << ", " << place.range.end
                          << ") may have come and is overwritten";
        ok = false;
      }
    const bool isPlaced = llvm::any_of(graph.getArguments(), [&](BlockArgument argument) {
      return graph.getArgAttr(argument.getArgNumber(), "stow.next_offset") != nullptr;
    });
    if (isPlaced && !mayNextCome) {
      graph.emitError() << "has places for next inputs, and no op has stow.next_inputs";
      ok = false;
    }
    return success(ok);
  }

  LogicalResult step(Operation &op) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      return leave(op);
    // A view reads nothing; it carries the writes of what it looks at to its own readers.
    const Sharings sharings = sharingsOf(&op);
    if (!sharings.empty() && sharings.front().kind == SharingKind::PartOfOperand &&
        llvm::is_contained(insideOf(op), sharings.front().result))
      return slice(op, sharings);
    if (!sharings.empty() && sharings.front().kind == SharingKind::View) {
      Value viewed = sharings.front().wholeIn(&op);
      Comb range = places[viewed].range;
      if (!(rangeAt(range.begin, op.getResult(0).getType()) == range))
        return op.emitError() << "views its operand under another shape, but not the same bytes";
      places[op.getResult(0)] = places.lookup(viewed);
      return success();
    }
    if (isa<AwaitInOp>(op))
      return arrive(cast<AwaitInOp>(op));
    if (isa<AwaitReduceOp, AwaitGatherOp>(op))
      return awaitRanks(op);
    bool ok = true;
    for (OpOperand &operand : op.getOpOperands())
      ok &= succeeded(checkRead(operand));
    if (!ok)
      return failure();
    if (isa<CopyOutOp, AwaitOutOp, CopyInOp>(op))
      return copy(op);
    if (op.hasAttr("stow.started"))
      return startExchange(op);
    const Sharings joined = joinedBy(op);
    if (!joined.empty()) {
      launch = {};
      return join(op, joined);
    }
    return success(succeeded(write(op)) && succeeded(enterLaunch(op)));
  }

  /// Copies begin no launch that other ops run in.
  LogicalResult copy(Operation &op) {
    launch = {};
    if (op.hasAttr("stow.together"))
      return op.emitError() << "is a copy, which runs in no launch";
    if (auto await = dyn_cast<AwaitOutOp>(op))
      return traffic.await(&op, await.getToken().getDefiningOp());
    if (failed(write(op)))
      return failure();
    if (auto out = dyn_cast<CopyOutOp>(op))
      return traffic.start(out, places.lookup(out.getX()).range);
    auto in = cast<CopyInOp>(op);
    return traffic.start(in, places.lookup(in.getComing()).range);
  }

  /// What was fetched is there, where the copy wrote it.
  LogicalResult arrive(AwaitInOp op) {
    launch = {};
    auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    const Place place = places.lookup(op.getComing());
    if (!offsets || offsets.size() != 1 || offsets[0] != place.range.begin)
      return op.emitError() << "result 0 must lie where operand 1 lies";
    if (failed(traffic.await(op, op.getComing().getDefiningOp())) ||
        failed(checkRead(op->getOpOperand(1))))
      return failure();
    places[op.getY()] = place;
    return success();
  }

  /// A sum is made where its result lies; what of it lies elsewhere the op has copied before it began.
  LogicalResult startExchange(Operation &op) {
    launch = {};
    if (op.hasAttr("stow.together") ||
        !isa<AllReduceOp, ReduceScatterOp, AllGatherOp, UnshardOp>(op))
      return op.emitError() << "is started, and no collective of its own";
    if (op.hasAttr(kWorkspaceAttr))
      return op.emitError() << "is started and has a workspace, which ends with its command";
    if (failed(write(op)))
      return failure();
    SmallVector<Comb> read;
    if (!isa<AllReduceOp>(op))
      read.push_back(places.lookup(op.getOperand(0)).range);
    return exchanges.start(&op, read, {places.lookup(op.getResult(0)).range});
  }

  /// What ranks have exchanged is there, where the collective wrote it.
  LogicalResult awaitRanks(Operation &op) {
    launch = {};
    if (failed(exchanges.await(&op, op.getOperand(0).getDefiningOp())))
      return failure();
    for (OpOperand &operand : op.getOpOperands())
      if (failed(checkRead(operand)))
        return failure();
    if (op.getNumResults() == 0)
      return success();
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    const Place place = places.lookup(op.getOperand(0));
    if (!offsets || offsets.size() != 1 || offsets[0] != place.range.begin)
      return op.emitError() << "result 0 must lie where operand 0 lies";
    places[op.getResult(0)] = place;
    return success();
  }

  LogicalResult enterLaunch(Operation &op) {
    SmallVector<Comb> reads, writes;
    for (Value operand : op.getOperands())
      reads.push_back(places.lookup(operand).range);
    for (Value result : op.getResults())
      writes.push_back(places.lookup(result).range);
    if (auto bytes = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr); bytes && bytes.getInt() > 0) {
      const Bytes begin = op.getAttrOfType<IntegerAttr>(kWorkspaceOffsetAttr).getInt();
      writes.push_back({begin, begin + bytes.getInt(), bytes.getInt()});
    }
    return launch.enter(op, reads, writes);
  }

  /// Results that are read where they lie: their bytes are some of an operand's.
  LogicalResult slice(Operation &op, ArrayRef<Sharing> slices) {
    for (const Sharing &part : slices) {
      auto whole = cast<RankedTensorType>(part.wholeIn(&op).getType()),
           box = cast<RankedTensorType>(part.partIn(&op).getType());
      if (part.kind != SharingKind::PartOfOperand || !llvm::is_contained(insideOf(op), part.result))
        return op.emitError() << "lists some of its results as inside; expected all or none";
      if (!liesIn(whole, box))
        return op.emitError() << "is a view, but the strides of " << box
                              << " are not those of its operand";
      Place place = places.lookup(part.wholeIn(&op));
      place.range = rangeAt(place.range.begin + bytesTo(whole, part.starts), box);
      places[part.partIn(&op)] = place;
    }
    return success();
  }

  /// An op whose operands make up its result: some must lie where they belong, the others are
  /// copied there.
  LogicalResult join(Operation &op, ArrayRef<Sharing> joined) {
    FailureOr<SmallVector<bool>> isInside = listInside(op);
    if (failed(isInside))
      return failure();
    Value made = joined.front().wholeIn(&op);
    auto whole = cast<RankedTensorType>(made.getType());
    int64_t elements = 0;
    for (const Sharing &part : joined)
      elements += cast<RankedTensorType>(part.partIn(&op).getType()).getNumElements();
    if (joined.size() != op.getNumOperands() || elements != whole.getNumElements())
      return op.emitError() << "joins " << joined.size() << " of its " << op.getNumOperands()
                            << " operands, " << elements << " elements, to " << whole;
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    bool copies = llvm::is_contained(*isInside, false);
    if (copies && (!offsets || offsets.size() != 1))
      return op.emitError() << "lacks stow.offsets for its result";
    int64_t begin = copies ? offsets[0]
                           : places.lookup(joined.front().partIn(&op)).range.begin -
                                 bytesTo(whole, joined.front().starts);
    Place result = {rangeAt(begin, whole), {}};
    if (failed(checkBounds(result.range, &op, "result", !parts.contains(made))))
      return failure();
    SmallVector<Comb> copied;
    for (const Sharing &part : joined) {
      Value input = part.partIn(&op);
      auto type = cast<RankedTensorType>(input.getType());
      Comb box = boxAt(begin + bytesTo(whole, part.starts), whole, type.getShape());
      if (!(*isInside)[part.operand]) {
        copied.push_back(box);
        continue;
      }
      auto found = places.find(input);
      if (found == places.end())
        continue; // its op has been reported
      const Place &place = found->second;
      if (!liesIn(whole, type) || !(place.range == box))
        return op.emitError() << "input " << part.operand << " lies at [" << place.range.begin
                              << ", " << place.range.end
                              << ") and not inside the result, where it belongs, at [" << box.begin
                              << ", " << box.end << ")";
      llvm::append_range(result.events, place.events);
    }
    for (const Comb &box : copied)
      for (OpOperand &operand : op.getOpOperands())
        if (places.lookup(operand.get()).range.overlaps(box))
          return op.emitError() << "overwrites operand " << operand.getOperandNumber()
                                << " while it copies another";
    for (const Comb &box : copied) {
      if (failed(checkUntouched(op, box)))
        return failure();
      result.events.push_back(content.write(box));
    }
    places[made] = result;
    return success();
  }

  LogicalResult write(Operation &op) {
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    if (!offsets || offsets.size() != static_cast<int64_t>(op.getNumResults()))
      return op.emitError() << "lacks stow.offsets for its " << op.getNumResults() << " results";
    SmallVector<Comb> written;
    for (OpResult result : op.getResults()) {
      Comb range = rangeAt(offsets[result.getResultNumber()], result.getType());
      if (failed(checkPart(op, result, range)) ||
          failed(checkBounds(range, &op, "result", !parts.contains(result))) ||
          failed(checkOverwrite(op, result, range)) || failed(checkUntouched(op, range)))
        return failure();
      for (Comb other : written)
        if (other.overlaps(range))
          return op.emitError() << "two results overlap in the arena";
      written.push_back(range);
    }
    if (failed(checkWorkspace(op, written)))
      return failure();
    for (auto [result, range] : llvm::zip(op.getResults(), written))
      places[result] = {range, {content.write(range)}};
    return success();
  }

  /// Gaps are other tensors' bytes: only what lies inside a concat has any.
  LogicalResult checkPart(Operation &op, OpResult result, const Comb &range) {
    if (range.isDense() || parts.contains(result))
      return success();
    return op.emitError() << "result " << result.getResultNumber()
                          << " has gaps but lies inside no concat";
  }

  LogicalResult checkWorkspace(Operation &op, ArrayRef<Comb> written) {
    if (failed(checkChoice(op)))
      return failure();
    auto bytes = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
    if (!bytes || bytes.getInt() == 0)
      return success();
    auto offset = op.getAttrOfType<IntegerAttr>(kWorkspaceOffsetAttr);
    if (!offset)
      return op.emitError() << "lacks stow.workspace_offset";
    Comb range = {offset.getInt(), offset.getInt() + bytes.getInt(), bytes.getInt()};
    if (range.begin % workspaceAlignment != 0)
      return op.emitError() << "workspace at " << range.begin << " is not aligned to "
                            << workspaceAlignment << " bytes";
    if (failed(checkBounds(range, &op, "workspace", /*isAligned=*/false)))
      return failure();
    for (Value operand : op.getOperands())
      if (places.lookup(operand).range.overlaps(range))
        return op.emitError() << "workspace overlaps an operand";
    for (Comb result : written)
      if (result.overlaps(range))
        return op.emitError() << "workspace overlaps a result";
    if (failed(checkUntouched(op, range)))
      return failure();
    content.write(range);
    return success();
  }

  /// Outputs and state must be whole at the end, new state where the old one lay.
  LogicalResult leave(Operation &terminator) {
    bool ok =
        succeeded(keepNextInputs()) && succeeded(traffic.leave()) && succeeded(exchanges.leave());
    llvm::StringMap<Value> replaced;
    for (OpOperand &operand : terminator.getOpOperands()) {
      ok &= succeeded(checkRead(operand));
      auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr);
      if (!name)
        continue;
      replaced[name.getValue()] = operand.get();
      auto state = stateRanges.find(name.getValue());
      if (!operand.get().getDefiningOp<CopyOutOp>() && // whose place is in slow memory
          (state == stateRanges.end() || !(places.lookup(operand.get()).range == state->second))) {
        graph.emitError() << "the new value of state " << name
                          << " does not lie where the state lies";
        ok = false;
      }
    }
    for (BlockArgument argument : states) {
      auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
      ok &= succeeded(traffic.leave(graph, argument, replaced.lookup(name.getValue())));
      if (!replaced.contains(name.getValue()) && !isWhole(places.lookup(argument))) {
        graph.emitError() << "state " << name << " is overwritten, and not by its new value";
        ok = false;
      }
    }
    return success(ok);
  }

  func::FuncOp graph;
  int64_t workspaceAlignment;
  Launch launch;
  llvm::StringMap<Comb> &stateRanges;
  SmallVector<unsigned> arguments; ///< by the event of their entry
  SmallVector<BlockArgument> states;
  SmallVector<std::pair<BlockArgument, Place>> next; ///< what may come for these
  bool mayNextCome = false;                          ///< from an op before the one at hand on
  llvm::DenseSet<Value> parts;                       ///< inputs that lie inside a concat
};

/// What comes early lies on no argument of any graph: it is brought to these places later, and state is there
/// also while graphs run that do not know it.
LogicalResult checkNextInputs(ModuleOp module) {
  bool ok = true;
  auto visit = [&](StringRef place, auto take) {
    for (auto graph : module.getOps<func::FuncOp>())
      for (BlockArgument argument : graph.getArguments())
        if (auto offset = graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), place))
          take(graph, graph.getArgAttr(argument.getArgNumber(), kNameAttr),
               rangeAt(offset.getInt(), argument.getType()));
  };
  visit("stow.next_offset", [&](func::FuncOp graph, Attribute name, Comb range) {
    visit(kOffsetAttr, [&](func::FuncOp, Attribute other, Comb taken) {
      if (!taken.overlaps(range))
        return;
      graph.emitError() << "the next " << name << " lies where argument " << other << " lies";
      ok = false;
    });
  });
  return success(ok);
}

//===-- --stow-verify-placed -----------------------------------------------------------------===//

struct VerifyPlacedPass : impl::VerifyPlacedPassBase<VerifyPlacedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto form = module->getAttrOfType<StringAttr>(kFormAttr);
    auto arena = module->getAttrOfType<IntegerAttr>("stow.arena_bytes");
    auto alignment = module->getAttrOfType<IntegerAttr>("stow.alignment");
    if (!form || form != "placed" || !arena || !alignment || alignment.getInt() < 1) {
      module.emitError() << "expects stow.form = \"placed\", stow.arena_bytes and stow.alignment; "
                            "run stow-pack-buffers first";
      return signalPassFailure();
    }
    auto ofWorkspaces = module->getAttrOfType<IntegerAttr>("stow.workspace_alignment");
    if (ofWorkspaces && ofWorkspaces.getInt() < 1) {
      module.emitError() << "stow.workspace_alignment is " << ofWorkspaces.getInt()
                         << "; expected 1 or more";
      return signalPassFailure();
    }
    auto slow = module->getAttrOfType<IntegerAttr>(kSlowBytesAttr);
    llvm::StringMap<Comb> stateRanges;
    bool ok = succeeded(
        checkRoles(module, "placed", {},
                   {Role::Train, Role::Eval, Role::Accumulate, Role::Commit, Role::Measure}));
    for (auto graph : module.getOps<func::FuncOp>())
      ok &= succeeded(Replay(graph, arena.getInt(), alignment.getInt(),
                             (ofWorkspaces ? ofWorkspaces : alignment).getInt(),
                             slow ? slow.getInt() : 0, stateRanges)
                          .run());
    ok &= succeeded(checkNextInputs(module));
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
