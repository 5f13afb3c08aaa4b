// Checks the ordered form: only what launches or is a view, state bound, in-place marks sound.
#include "ir/StowCollectiveOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowOffloadOps.h"
#include "ir/StowShapeOps.h"
#include "passes/verify/GraphChecks.h"
#include "passes/verify/Passes.h"
#include "passes/verify/Replicas.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_VERIFYORDEREDPASS
#include "passes/verify/Passes.h.inc"

namespace {

Shape shapeOf(RankedTensorType type) {
  return Shape(type.getShape().begin(), type.getShape().end());
}

/// True when `box` has the strides of `whole` wherever it has more than one element.
bool hasStridesOf(RankedTensorType whole, RankedTensorType box) {
  Layout outer = layoutOf(whole), inner = layoutOf(box);
  if (!outer.blocks.empty() || !inner.blocks.empty() || outer.groups > 1 || inner.groups > 1)
    return false;
  auto there = outerStrides(outer, shapeOf(whole)), here = outerStrides(inner, shapeOf(box));
  for (int64_t dim = 0; dim < box.getRank(); ++dim)
    if (box.getDimSize(dim) > 1 && there[dim] != here[dim])
      return false;
  return true;
}

/// Elements of the runs that a row-major tensor consists of, and their distance; a dense one is one
/// run.
std::pair<int64_t, int64_t> runsOf(RankedTensorType type) {
  auto strides = outerStrides(layoutOf(type), shapeOf(type));
  int64_t run = 1;
  for (int64_t dim = type.getRank(); dim-- > 0; run *= type.getDimSize(dim))
    if (type.getDimSize(dim) > 1 && strides[dim] != run)
      return {run, strides[dim]};
  return {run, run};
}

/// How far each dimension of more than one element reaches and how far apart its elements lie, in
/// logical order, with dimensions joined that continue each other: the order of a tensor's
/// elements.
std::vector<std::pair<int64_t, int64_t>> walkOf(RankedTensorType type, ArrayRef<int64_t> dims) {
  auto strides = outerStrides(layoutOf(type), shapeOf(type));
  std::vector<std::pair<int64_t, int64_t>> walk;
  for (int64_t dim : dims) {
    int64_t extent = type.getDimSize(dim), stride = strides[dim];
    if (extent == 1)
      continue;
    if (!walk.empty() && walk.back().second == extent * stride) {
      extent *= walk.back().first;
      walk.pop_back();
    }
    walk.emplace_back(extent, stride);
  }
  return walk;
}

/// True when the result of a view finds its elements where they lie in the operand. Tensors with
/// gaps under another shape are checked with what they lie in.
bool seesSameElements(Operation &op, const Sharing &view) {
  auto x = tensorType(view.wholeIn(&op)), y = tensorType(view.partIn(&op));
  Layout from = layoutOf(x), to = layoutOf(y);
  if ((from.pitch || to.pitch) && view.permutation.empty())
    return true;
  if (!from.blocks.empty() || !to.blocks.empty() || from.groups > 1 || to.groups > 1)
    return false;
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, y.getRank()));
  auto sources = llvm::to_vector(llvm::seq<int64_t>(0, x.getRank()));
  if (!view.permutation.empty())
    sources.assign(view.permutation.begin(), view.permutation.end());
  return walkOf(x, sources) == walkOf(y, dims);
}

/// True for a token that is returned as state of its type that lies in slow memory.
bool replacesSlowState(OpOperand &use) {
  auto graph = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
  auto out = use.get().getDefiningOp<CopyOutOp>();
  if (!graph || !out || !use.getOwner()->hasTrait<OpTrait::IsTerminator>())
    return false;
  const Attribute name = graph.getResultAttr(use.getOperandNumber(), kStateAttr);
  return llvm::any_of(graph.getArguments(), [&](BlockArgument argument) {
    auto type = graph.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kSlowStateAttr);
    return type && type.getValue() == out.getX().getType() &&
           graph.getArgAttr(argument.getArgNumber(), kNameAttr) == name;
  });
}

/// Follows which values have been overwritten while the ops of a graph are read in order.
class OverwriteCheck {
public:
  LogicalResult run(func::FuncOp graph) {
    bool ok = true;
    for (Operation &op : graph.getBody().front()) {
      ok &= succeeded(checkKind(op)) && succeeded(checkReads(op)) && succeeded(checkMarks(op)) &&
            succeeded(checkInside(op)) && succeeded(checkCopy(op)) && succeeded(checkStarted(op));
      for (OpResult result : op.getResults())
        define(op, result);
    }
    ok &= succeeded(checkGaps(graph));
    return success(ok);
  }

private:
  LogicalResult checkKind(Operation &op) {
    if (isa<ConstantOp>(op) || (isa<ElementwiseOpInterface>(op) && !isa<MapOp>(op))) // O1
      return op.emitOpError() << "does not belong to the ordered form; run stow-fuse-elementwise";
    for (const Sharing &sharing : sharingsOf(&op))
      if (sharing.kind == SharingKind::View && !seesSameElements(op, sharing)) // O6
        return op.emitError() << "views its operand, but the elements of "
                              << sharing.partIn(&op).getType()
                              << " lie in another order than those of "
                              << sharing.wholeIn(&op).getType() << "; run stow-assign-layouts";
    return success();
  }

  LogicalResult checkCopy(Operation &op) { // O7
    if (auto in = dyn_cast<CopyInOp>(op))
      return in.getComing().hasOneUse() && isa<AwaitInOp>(*in.getComing().user_begin())
                 ? success()
                 : LogicalResult(op.emitError() << "expects one await_in to wait for what it "
                                                   "brings, and nothing else to read that");
    auto out = dyn_cast<CopyOutOp>(op);
    if (!out)
      return success();
    const auto waiting = llvm::count_if(out.getToken().getUsers(), llvm::IsaPred<AwaitOutOp>);
    if (waiting != 1)
      return op.emitError() << "is awaited " << waiting << " times; expected once";
    if (!llvm::all_of(out.getToken().getUses(), [](OpOperand &use) {
          return isa<AwaitOutOp, CopyInOp, AwaitInOp>(use.getOwner()) || replacesSlowState(use);
        }))
      return op.emitError() << "makes a token that an op reads which is no copy or await";
    return success();
  }

  /// Before the sum that it is exchanged together with has started it has not begun.
  LogicalResult checkTogether(Operation &op) { // O9
    if (!isa<AllReduceOp>(op) || !op.hasAttr("stow.started"))
      return op.emitError() << "is exchanged with the next collective; only started sums are";
    for (Operation *next = op.getNextNode(); next; next = next->getNextNode()) {
      if (llvm::is_contained(next->getOperands(), op.getResult(0)))
        return op.emitError() << "is awaited before the sum that it is exchanged with has started";
      if (isa<AllReduceOp>(next) && next->hasAttr("stow.started"))
        return success();
      if (isa<AllReduceOp, ReduceScatterOp, AllGatherOp, UnshardOp>(next))
        break;
    }
    return op.emitError() << "is exchanged with the next collective, which is no started sum";
  }

  LogicalResult checkStarted(Operation &op) { // O9
    if (op.hasAttr("stow.with_next") && failed(checkTogether(op)))
      return failure();
    if (!op.hasAttr("stow.started"))
      return success();
    if (!isa<AllReduceOp, ReduceScatterOp, AllGatherOp, UnshardOp>(op))
      return op.emitError() << "is started; only collectives are";
    int64_t awaits = 0;
    for (OpOperand &use : op.getResult(0).getUses()) {
      const bool isAwait =
          isa<AwaitReduceOp, AwaitGatherOp>(use.getOwner()) && use.getOperandNumber() == 0;
      awaits += isAwait;
      if (!isAwait && (!isa<AllGatherOp>(op) || !use.getOwner()->hasTrait<OpTrait::IsTerminator>()))
        return op.emitError() << "is started, and an op reads what it makes without an await";
    }
    return awaits == 1 ? success()
                       : LogicalResult(op.emitError() << "is started and awaited " << awaits
                                                      << " times; expected once");
  }

  LogicalResult checkReads(Operation &op) { // O2
    for (OpOperand &operand : op.getOpOperands())
      if (Operation *writer = overwrittenBy.lookup(rootOf(operand.get()))) {
        InFlightDiagnostic error = op.emitError() << "reads operand " << operand.getOperandNumber()
                                                  << " after its storage has been overwritten";
        error.attachNote(writer->getLoc()) << "overwritten here";
        return error;
      }
    return success();
  }

  LogicalResult checkMarks(Operation &op) { // O3
    auto pairs = op.getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr);
    if (!pairs)
      return success();
    auto alias = dyn_cast<AliasOpInterface>(&op);
    if (!alias || pairs.size() % 2 != 0)
      return op.emitError() << "carries stow.in_place but overwrites nothing";
    SmallVector<Value> taken;
    for (int64_t i = 0; i < pairs.size(); i += 2)
      if (failed(checkPair(op, alias, pairs[i], pairs[i + 1], taken)))
        return failure();
    return success();
  }

  LogicalResult checkInside(Operation &op) { // O5
    if (!op.hasAttr(kInsideAttr))
      return success();
    auto inside = op.getAttrOfType<DenseI64ArrayAttr>(kInsideAttr);
    const Sharings parts = partsOf(&op);
    if (!inside || parts.empty())
      return op.emitError() << "carries stow.inside; only ops whose operands or results may lie in "
                               "one another do, with a list of them";
    for (int64_t number : inside.asArrayRef()) {
      auto *part = llvm::find_if(parts, [&](const Sharing &known) {
        return static_cast<int64_t>(known.partNumber()) == number;
      });
      if (part == parts.end())
        return op.emitError() << "lists " << number << " as inside but has " << parts.size()
                              << " parts";
      if (failed(part->kind == SharingKind::PartOfOperand ? checkSlice(op, *part)
                                                          : checkPart(op, *part)))
        return failure();
    }
    return success();
  }

  /// A result that is read where it lies in an operand.
  LogicalResult checkSlice(Operation &op, const Sharing &part) {
    Value whole = part.wholeIn(&op), value = part.partIn(&op);
    if (!hasStridesOf(tensorType(whole), tensorType(value)))
      return op.emitError() << "is a view of " << whole.getType() << ", but has other strides as "
                            << value.getType();
    return success();
  }

  /// An operand that lies inside a result.
  LogicalResult checkPart(Operation &op, const Sharing &part) {
    Value whole = part.wholeIn(&op), input = part.partIn(&op);
    if (!hasStridesOf(tensorType(whole), tensorType(input)))
      return op.emitError() << "input " << part.operand << " lies inside " << whole.getType()
                            << ", but has other strides as " << input.getType();
    Value made = input;
    while (std::optional<Sharing> view = viewOf(made))
      made = view->wholeIn(made.getDefiningOp());
    if (rootOf(input) != made || isa<BlockArgument>(made))
      return op.emitError() << "input " << part.operand
                            << " lies inside, but is an argument or a slice of another tensor";
    if (!wholeOf.try_emplace(made, whole).second)
      return op.emitError() << "input " << part.operand << " lies inside twice";
    partsInside[whole].push_back(made);
    return success();
  }

  /// How `value` is a view of an operand of the op that makes it, if it is one.
  static std::optional<Sharing> viewOf(Value value) {
    if (auto result = dyn_cast<OpResult>(value))
      for (const Sharing &sharing : sharingsOf(result.getOwner()))
        if (sharing.kind == SharingKind::View && sharing.partIn(result.getOwner()) == value)
          return sharing;
    return std::nullopt;
  }

  /// False where a view of the operand under another shape has other runs of bytes than the operand; those
  /// that transpose it are held to its strides (O6).
  static bool viewsKeepRuns(OpOperand &operand) {
    Operation *op = operand.getOwner();
    return llvm::all_of(sharingsOf(op), [&](const Sharing &sharing) {
      return sharing.kind != SharingKind::View || sharing.operand != operand.getOperandNumber() ||
             !sharing.permutation.empty() ||
             runsOf(tensorType(operand.get())) == runsOf(tensorType(sharing.partIn(op)));
    });
  }

  /// Gaps are other tensors' bytes (O5).
  LogicalResult checkGaps(func::FuncOp graph) {
    bool ok = true;
    for (Operation &op : graph.getBody().front()) {
      for (OpOperand &operand : op.getOpOperands())
        if (layoutOf(operand.get().getType()).pitch &&
            (op.hasTrait<OpTrait::IsTerminator>() || !viewsKeepRuns(operand))) {
          op.emitError() << "cannot take operand " << operand.getOperandNumber()
                         << ", which has gaps";
          ok = false;
        }
      for (OpResult result : op.getResults())
        if (layoutOf(result.getType()).pitch && !wholeOf.contains(result) && !viewOf(result) &&
            !viewedOperand(&op)) {
          op.emitError() << "result " << result.getResultNumber()
                         << " has gaps but lies inside no concat; run stow-place-inside";
          ok = false;
        }
    }
    return success(ok);
  }

  /// One pair of stow.in_place; `taken` are the storages that other pairs overwrite.
  LogicalResult checkPair(Operation &op, AliasOpInterface alias, int64_t result, int64_t operand,
                          SmallVectorImpl<Value> &taken) {
    SmallVector<unsigned> allowed;
    if (result >= 0 && result < op.getNumResults())
      allowed = alias.getOverwritableOperands(result);
    if (!llvm::is_contained(allowed, operand))
      return op.emitError() << "result " << result << " may not overwrite operand " << operand;
    auto from = tensorType(op.getOperand(operand)), to = tensorType(op.getResult(result));
    bool gaps = layoutOf(from).pitch || layoutOf(to).pitch;
    if (storedBytesOf(from) != storedBytesOf(to) || (gaps && from != to))
      return op.emitError() << "result " << result << " and operand " << operand
                            << " differ in stored size";
    Value root = rootOf(op.getOperand(operand));
    if (auto name = nameOfState(root))
      return op.emitError() << "result " << result << " overwrites state " << name
                            << "; only its new value may";
    if (llvm::is_contained(taken, root))
      return op.emitError() << "overwrites operand " << operand << " with more than one result";
    taken.push_back(root);
    for (OpOperand &other : op.getOpOperands())
      if (rootOf(other.get()) == root && !llvm::is_contained(allowed, other.getOperandNumber()))
        return op.emitError() << "result " << result << " overwrites operand " << operand
                              << ", which the op also reads as operand "
                              << other.getOperandNumber();
    return success();
  }

  /// Name of the state argument that `value` is, if it is one.
  StringAttr nameOfState(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    auto graph = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
    auto kind = graph ? kindOfArgument(graph, argument.getArgNumber()) : std::nullopt;
    const bool isState = kind == ArgumentKind::Parameter || kind == ArgumentKind::Frozen ||
                         kind == ArgumentKind::Statistic || kind == ArgumentKind::Optimizer ||
                         kind == ArgumentKind::Accumulator;
    return isState ? graph.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr)
                   : StringAttr();
  }

  void define(Operation &op, OpResult result) {
    if (std::optional<unsigned> viewed = viewedOperand(&op)) {
      roots[result] = rootOf(op.getOperand(*viewed));
      return;
    }
    auto alias = dyn_cast<AliasOpInterface>(&op);
    roots[result] = result;
    auto overwrite = [&](Value operand) {
      Value root = rootOf(operand);
      markParts(root, &op);
      for (Value whole = wholeOf.lookup(root); whole; whole = wholeOf.lookup(whole))
        overwrittenBy[whole] = &op;
    };
    if (alias)
      if (auto updated = alias.getUpdatedOperand(result.getResultNumber()))
        overwrite(op.getOperand(*updated));
    if (auto pairs = op.getAttrOfType<DenseI64ArrayAttr>(kInPlaceAttr))
      for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
        if (pairs[i] == static_cast<int64_t>(result.getResultNumber()) && pairs[i + 1] >= 0 &&
            pairs[i + 1] < op.getNumOperands()) // a pair refused by O3 may name anything
          overwrite(op.getOperand(pairs[i + 1]));
  }

  void markParts(Value root, Operation *writer) {
    overwrittenBy[root] = writer;
    for (Value part : partsInside.lookup(root))
      markParts(part, writer);
  }

  Value rootOf(Value value) const {
    auto root = roots.find(value);
    return root == roots.end() ? value : root->second;
  }

  llvm::DenseMap<Value, Value> roots; ///< the value whose bytes a view looks at
  llvm::DenseMap<Value, Operation *> overwrittenBy;
  llvm::DenseMap<Value, Value> wholeOf; ///< the result that a part lies inside of
  llvm::DenseMap<Value, SmallVector<Value>> partsInside;
};

/// O4: a state result is produced by an op that updates the argument of that name.
LogicalResult checkState(func::FuncOp graph) {
  Operation *terminator = graph.getBody().front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    auto name = graph.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kStateAttr);
    if (!name)
      continue;
    auto isArgument = [&](Value value) {
      auto argument = dyn_cast<BlockArgument>(value);
      return argument && graph.getArgAttr(argument.getArgNumber(), kNameAttr) == name;
    };
    if (isArgument(operand.get()) || replacesSlowState(operand))
      continue;
    auto result = dyn_cast<OpResult>(operand.get());
    auto alias = result ? dyn_cast<AliasOpInterface>(result.getOwner()) : nullptr;
    auto updated = alias ? alias.getUpdatedOperand(result.getResultNumber()) : std::nullopt;
    if (!updated || !isArgument(result.getOwner()->getOperand(*updated)))
      return graph.emitError() << "the new value of state " << name
                               << " does not update its argument; run stow-bind-state";
  }
  return success();
}

//===-- --stow-verify-ordered ----------------------------------------------------------------===//

struct VerifyOrderedPass : impl::VerifyOrderedPassBase<VerifyOrderedPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto form = module->getAttrOfType<StringAttr>(kFormAttr);
    if (!form || form != "ordered") {
      module.emitError() << "expects stow.form = \"ordered\"; run stow-bind-state first";
      return signalPassFailure();
    }
    bool ok = succeeded(checkRoles(module, "ordered", {},
                                   {Role::Train, Role::Eval, Role::Accumulate, Role::Commit}));
    for (auto graph : module.getOps<func::FuncOp>())
      ok &= succeeded(OverwriteCheck().run(graph)) && succeeded(checkState(graph));
    ok &= succeeded(checkReplicas(module)); // O8
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
