// Checks a placed module by running it on paper: a map from bytes of the arena to the value they
// hold. Every op must find its operands whole where they were put; every write destroys what lay
// there. Nothing here is shared with the passes that place buffers. O(n log n) in values.
//
//   bytes  0        64            192        256
//          | weight | activation 3 | (free)   |        map: 0 -> weight, 64 -> value 3
#include "passes/verify/Passes.h"

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_VERIFYPLACEDPASS
#include "passes/verify/Passes.h.inc"

namespace {

/// Half-open range of arena bytes.
struct Range {
  int64_t begin, end;
  bool overlaps(const Range &other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Range &) const = default;
};

/// What each byte of the arena holds.
class ArenaContent {
public:
  void write(Range range, Value value) {
    if (range.begin == range.end)
      return;
    clear(range);
    pieces[range.begin] = {range.end, value};
  }

  /// True when all of `range` still holds `value`.
  bool holds(Range range, Value value) const {
    if (range.begin == range.end)
      return true;
    auto piece = pieces.upper_bound(range.begin);
    if (piece == pieces.begin())
      return false;
    --piece;
    return piece->second.value == value && piece->first <= range.begin &&
           piece->second.end >= range.end;
  }

private:
  struct Piece {
    int64_t end;
    Value value;
  };

  void clear(Range range) {
    auto piece = pieces.lower_bound(range.begin);
    if (piece != pieces.begin()) {
      auto before = std::prev(piece);
      Piece old = before->second;
      if (old.end > range.begin) {
        before->second.end = range.begin;
        if (old.end > range.end)
          pieces[range.end] = {old.end, old.value};
      }
    }
    piece = pieces.lower_bound(range.begin);
    while (piece != pieces.end() && piece->first < range.end) {
      Piece old = piece->second;
      piece = pieces.erase(piece);
      if (old.end > range.end)
        pieces[range.end] = old;
    }
  }

  std::map<int64_t, Piece> pieces;
};

/// Checks one graph.
class Replay {
public:
  Replay(func::FuncOp graph, int64_t arenaBytes, int64_t alignment,
         llvm::StringMap<Range> &stateRanges)
      : graph(graph), arenaBytes(arenaBytes), alignment(alignment), stateRanges(stateRanges) {}

  LogicalResult run() {
    bool ok = true;
    for (BlockArgument argument : graph.getArguments())
      ok &= succeeded(enter(argument));
    for (Operation &op : graph.getBody().front())
      ok &= succeeded(step(op));
    return success(ok);
  }

private:
  LogicalResult enter(BlockArgument argument) {
    auto offset = graph.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kOffsetAttr);
    auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    auto kind = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
    if (!offset || !name || !kind)
      return graph.emitError() << "argument " << argument.getArgNumber()
                               << " lacks stow.offset, stow.name or stow.kind; run "
                                  "stow-pack-buffers first";
    Range range = rangeAt(offset.getInt(), argument.getType());
    if (failed(checkRange(range, graph, name.getValue())))
      return failure();
    for (auto [other, otherRange] : arguments)
      if (otherRange.overlaps(range))
        return graph.emitError() << "arguments " << name << " and "
                                 << graph.getArgAttr(other.getArgNumber(), kNameAttr)
                                 << " overlap in the arena";
    bool isState = kind == "parameter" || kind == "statistic" || kind == "optimizer";
    if (isState) {
      auto [known, isNew] = stateRanges.try_emplace(name.getValue(), range);
      if (!isNew && !(known->second == range))
        return graph.emitError() << "state " << name << " lies at " << range.begin
                                 << " here and at " << known->second.begin << " in another graph";
      states.push_back(argument);
    }
    arguments.push_back({argument, range});
    places[argument] = {range, argument};
    content.write(range, argument);
    return success();
  }

  LogicalResult step(Operation &op) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      return leave(op);
    bool ok = true;
    for (OpOperand &operand : op.getOpOperands())
      ok &= succeeded(checkRead(operand));
    if (!ok)
      return failure();
    auto alias = dyn_cast<AliasOpInterface>(&op);
    if (alias && alias.getViewedOperand()) {
      places[op.getResult(0)] = places.lookup(op.getOperand(*alias.getViewedOperand()));
      return success();
    }
    return write(op);
  }

  LogicalResult checkRead(OpOperand &operand) {
    Place place = places.lookup(operand.get());
    if (!content.holds(place.range, place.holder))
      return operand.getOwner()->emitError()
             << "operand " << operand.getOperandNumber() << " at [" << place.range.begin << ", "
             << place.range.end << ") has been overwritten before this op reads it";
    return success();
  }

  LogicalResult write(Operation &op) {
    auto offsets = op.getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
    if (!offsets || offsets.size() != static_cast<int64_t>(op.getNumResults()))
      return op.emitError() << "lacks stow.offsets for its " << op.getNumResults() << " results";
    SmallVector<Range> written;
    for (OpResult result : op.getResults()) {
      Range range = rangeAt(offsets[result.getResultNumber()], result.getType());
      if (failed(checkRange(range, &op, "result")) || failed(checkOverwrite(op, result, range)))
        return failure();
      for (Range other : written)
        if (other.overlaps(range))
          return op.emitError() << "two results overlap in the arena";
      written.push_back(range);
    }
    if (failed(checkWorkspace(op, written)))
      return failure();
    for (auto [result, range] : llvm::zip(op.getResults(), written)) {
      places[result] = {range, result};
      content.write(range, result);
    }
    return success();
  }

  /// A result may lie on an operand only whole, and only where the op allows it.
  LogicalResult checkOverwrite(Operation &op, OpResult result, Range range) {
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
      Range read = places.lookup(operand.get()).range;
      if (!read.overlaps(range))
        continue;
      if (!llvm::is_contained(allowed, operand.getOperandNumber()) || !(read == range))
        return op.emitError() << "result " << number << " overwrites operand "
                              << operand.getOperandNumber() << " while the op reads it";
    }
    return success();
  }

  LogicalResult checkWorkspace(Operation &op, ArrayRef<Range> written) {
    auto bytes = op.getAttrOfType<IntegerAttr>(kWorkspaceAttr);
    if (!bytes || bytes.getInt() == 0)
      return success();
    auto offset = op.getAttrOfType<IntegerAttr>(kWorkspaceOffsetAttr);
    if (!offset)
      return op.emitError() << "lacks stow.workspace_offset";
    Range range = {offset.getInt(), offset.getInt() + bytes.getInt()};
    if (failed(checkRange(range, &op, "workspace")))
      return failure();
    for (Value operand : op.getOperands())
      if (places.lookup(operand).range.overlaps(range))
        return op.emitError() << "workspace overlaps an operand";
    for (Range result : written)
      if (result.overlaps(range))
        return op.emitError() << "workspace overlaps a result";
    content.write(range, Value());
    return success();
  }

  /// Outputs and state must be whole at the end, new state where the old one lay.
  LogicalResult leave(Operation &terminator) {
    bool ok = true;
    llvm::StringMap<Value> replaced;
    for (OpOperand &operand : terminator.getOpOperands()) {
      ok &= succeeded(checkRead(operand));
      auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr);
      if (!name)
        continue;
      replaced[name.getValue()] = operand.get();
      auto state = stateRanges.find(name.getValue());
      if (state == stateRanges.end() || !(places.lookup(operand.get()).range == state->second)) {
        graph.emitError() << "the new value of state " << name
                          << " does not lie where the state lies";
        ok = false;
      }
    }
    for (BlockArgument argument : states) {
      auto name = graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
      if (!replaced.contains(name.getValue()) &&
          !content.holds(places.lookup(argument).range, argument)) {
        graph.emitError() << "state " << name << " is overwritten, and not by its new value";
        ok = false;
      }
    }
    return success(ok);
  }

  Range rangeAt(int64_t offset, Type type) const { return {offset, offset + storedBytesOf(type)}; }

  LogicalResult checkRange(Range range, Operation *place, StringRef what) {
    if (range.begin < 0 || range.end > arenaBytes)
      return place->emitError() << what << " at [" << range.begin << ", " << range.end
                                << ") lies outside the arena of " << arenaBytes << " bytes";
    if (range.begin % alignment != 0)
      return place->emitError() << what << " at " << range.begin << " is not aligned to "
                                << alignment << " bytes";
    return success();
  }

  /// Where a value lies and the value whose bytes those are (views look at another's).
  struct Place {
    Range range = {0, 0};
    Value holder;
  };

  func::FuncOp graph;
  int64_t arenaBytes, alignment;
  llvm::StringMap<Range> &stateRanges;
  ArenaContent content;
  llvm::DenseMap<Value, Place> places;
  SmallVector<std::pair<BlockArgument, Range>> arguments;
  SmallVector<BlockArgument> states;
};

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
    llvm::StringMap<Range> stateRanges;
    bool ok = true;
    for (auto graph : module.getOps<func::FuncOp>())
      ok &= succeeded(Replay(graph, arena.getInt(), alignment.getInt(), stateRanges).run());
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
