// Chains of ops whose rows do not meet, in pieces of rows: O(pieces * ops of the chain), and the ops that
// read what leaves it.
//
//            whole                              in pieces
//   x  ----> logits ----> row losses            x[0:n]  -> logits, loss, dlogits -> dx[0:n], dw
//             |   \.                            x[n:2n] -> logits, loss, dlogits -> dx[n:2n], dw +
//             |    dlogits -> dx, dw            ...
//
// With many classes logits and dlogits are what a step's peak consists of; in pieces one of them exists at a
// time (Wijmans et al., "Cut your losses in large-vocabulary language models", 2024, and the chunked
// losses of Liger, Hsu et al., 2024, do the same in one kernel). A piece's backward runs right after its forward, for which
// the gradient by the row losses must be known before them: of means and sums over rows it is.
//
// Chains between two products, like the hidden layer of a transformer's block, run in two stages. What the forward of a piece
// makes is there for the backward of the same piece, and the planner keeps it or computes it again there; what the
// backward needs beside it exists for one piece at a time.
#include "passes/fission/Passes.h"
#include "passes/fission/RowChains.h"

#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_CUTROWSPASS
#include "passes/fission/Passes.h.inc"

namespace {

/// `count` rows of a chain from `first` on.
struct Piece {
  int64_t first = 0, count = 0;
};

class ChainCut {
public:
  ChainCut(RowChain &chain, int64_t pieces) : chain(chain) {
    const int64_t size = (chain.rows + pieces - 1) / pieces;
    for (int64_t first = 0; first < chain.rows; first += size)
      cuts.push_back({first, std::min(size, chain.rows - first)});
    made.resize(cuts.size());
    for (Operation *op : chain.ops)
      for (OpOperand &operand : op->getOpOperands())
        roots[&operand] = unshaped(operand.get());
  }

  void run() {
    Operation *place = nullptr;
    for (SmallVector<Operation *> &stage : chain.stages()) {
      for (Operation *op : stage)
        if (!place || place->isBeforeInBlock(op))
          place = op;
      runStage(stage, place);
    }
    for (Operation *op : llvm::reverse(chain.ops))
      erase(op);
  }

private:
  /// All pieces of a stage, in front of `place`.
  void runStage(ArrayRef<Operation *> stage, Operation *place) {
    OpBuilder builder(place);
    phase = llvm::all_of(stage, isForward) ? Phase::Forward : Phase::Backward;
    SmallVector<Operation *> order = rowsBeforeSums(stage);
    wholes.clear();
    for (size_t number = 0; number < cuts.size(); ++number) {
      slices.clear();
      for (Operation *op : order)
        runPiece(builder, op, number);
    }
    SmallVector<Operation *> behind = dependents(stage, place);
    for (Operation *op : order)
      join(builder, op);
    for (Operation *op : behind) {
      op->moveBefore(place);
      if (isForward(op))
        setPhase(op, phase);
    }
  }

  /// What has rows, so that the gradient of a piece is there soon, then products and other sums over them.
  SmallVector<Operation *> rowsBeforeSums(ArrayRef<Operation *> stage) const {
    SmallVector<Operation *> rows, products, others;
    for (Operation *op : stage)
      (!chain.ruleOf(op)->sums ? rows : isa<ReduceSumOp>(op) ? others : products).push_back(op);
    return llvm::to_vector(llvm::concat<Operation *>(rows, products, others));
  }

  /// The ops in front of `place` that need the results of `stage`, and belong behind them.
  SmallVector<Operation *> dependents(ArrayRef<Operation *> stage, Operation *place) const {
    SmallVector<Operation *> found;
    llvm::SmallPtrSet<Operation *, 32> makers(stage.begin(), stage.end());
    for (Operation *op = stage.front(); op != place; op = op->getNextNode())
      if (!chain.ops.contains(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
            return makers.contains(operand.getDefiningOp());
          })) {
        makers.insert(op);
        found.push_back(op);
      }
    return found;
  }

  /// What `count` rows of a tensor of all rows are.
  RankedTensorType typeOf(RankedTensorType whole, int64_t count) const {
    SmallVector<int64_t> shape = {count};
    if (!chain.isMatrix)
      llvm::append_range(shape, whole.getShape().drop_front());
    else if (whole.getRank() > 1)
      shape.push_back(whole.getNumElements() / chain.rows);
    return RankedTensorType::get(shape, whole.getElementType());
  }

  template <typename Op, typename... Args>
  Op create(OpBuilder &builder, Location location, Args &&...args) const {
    auto op = Op::create(builder, location, std::forward<Args>(args)...);
    setPhase(op, phase);
    return op;
  }

  /// What an op of a piece reads by `operand`: made by the chain, or a slice of what was there.
  Value rowsOf(OpBuilder &builder, OpOperand &operand, size_t number) {
    Value root = roots.lookup(&operand);
    if (Value own = made[number].lookup(root))
      return own;
    Location location = operand.getOwner()->getLoc();
    RankedTensorType type = typeOf(tensorType(operand.get()), chain.rows);
    Value &whole = wholes[{root, type}];
    if (!whole)
      whole =
          root.getType() == type ? root : create<ReshapeOp>(builder, location, type, root).getY();
    Value &slice = slices[whole];
    if (!slice) {
      SmallVector<int64_t> starts(type.getRank(), 0), sizes(type.getShape());
      starts[0] = cuts[number].first;
      sizes[0] = cuts[number].count;
      slice = create<SliceOp>(builder, location, whole, starts, sizes).getY();
    }
    return slice;
  }

  void runPiece(OpBuilder &builder, Operation *op, size_t number) {
    const RowRule rule = *chain.ruleOf(op);
    IRMapping mapping;
    for (unsigned operand : rule.rows)
      mapping.map(op->getOperand(operand), rowsOf(builder, op->getOpOperand(operand), number));
    if (chain.isMatrix && isa<ElementwiseOpInterface>(op))
      for (Value operand : op->getOperands())
        if (RankedTensorType type = tensorType(operand);
            !mapping.contains(operand) && type.getRank() > 1)
          mapping.map(operand, create<ReshapeOp>(builder, op->getLoc(),
                                                 RankedTensorType::get({type.getNumElements()},
                                                                       type.getElementType()),
                                                 operand)
                                   .getY());
    Operation *piece = builder.clone(*op, mapping);
    setPhase(piece, phase);
    if (auto sum = dyn_cast<ReduceSumOp>(piece); sum && chain.isMatrix)
      sum.setAxes({0});
    for (auto [whole, part] : llvm::zip(op->getResults(), piece->getResults())) {
      if (rule.sums) {
        Value &sum = sums[whole];
        sum = sum ? create<AddOp>(builder, op->getLoc(), sum, part).getY() : Value(part);
        continue;
      }
      part.setType(typeOf(tensorType(whole), cuts[number].count));
      made[number][whole] = part;
    }
  }

  /// Puts sums, and what leaves the chain, in the place of what they were.
  void join(OpBuilder &builder, Operation *op) {
    for (Value result : op->getResults()) {
      if (Value sum = sums.lookup(result)) {
        result.replaceAllUsesWith(sum);
        continue;
      }
      if (llvm::all_of(readersOf(result), [&](OpOperand *use) { return chain.isRead(*use); }))
        continue;
      SmallVector<Value> parts;
      for (auto &piece : made)
        parts.push_back(piece.lookup(result));
      Value joined = create<ConcatOp>(builder, op->getLoc(), parts, /*axis=*/0).getY();
      if (joined.getType() != result.getType())
        joined = create<ReshapeOp>(builder, op->getLoc(), result.getType(), joined).getY();
      result.replaceAllUsesWith(joined);
    }
  }

  /// Removes an op that pieces have replaced, whose readers are gone.
  static void erase(Operation *op) {
    for (Value result : op->getResults())
      for (Operation *reshape : llvm::make_early_inc_range(result.getUsers()))
        erase(reshape);
    op->erase();
  }

  RowChain &chain;
  SmallVector<Piece> cuts;
  Phase phase = Phase::Forward;
  llvm::DenseMap<OpOperand *, Value> roots;             ///< what the chain's ops read, as given
  std::vector<llvm::DenseMap<Value, Value>> made;       ///< by piece, what it has of a whole value
  llvm::DenseMap<Value, Value> sums;                    ///< so far
  llvm::DenseMap<std::pair<Value, Type>, Value> wholes; ///< what slices are of, by root and shape
  llvm::DenseMap<Value, Value> slices;                  ///< of the piece at work
};

/// The last op behind `update` that reads `state`, whose old value the update replaces, views included;
/// `last` where there is none behind it.
Operation *lastReader(Operation *update, Value state, Operation *last) {
  for (OpOperand &use : state.getUses()) {
    Operation *reader = use.getOwner();
    if (reader->hasTrait<OpTrait::IsTerminator>())
      continue;
    if (reader != update && last->isBeforeInBlock(reader))
      last = reader;
    auto alias = dyn_cast<AliasOpInterface>(reader);
    if (alias && alias.getViewedOperand() == use.getOperandNumber())
      last = lastReader(update, reader->getResult(0), last);
  }
  return last;
}

/// Moves updates behind what reads the state that they replace: pieces may read it later than the
/// whole did, where the sums that an update waits for are of an earlier stage.
void moveUpdatesBehindReaders(func::FuncOp graph) {
  for (Operation &op : llvm::make_early_inc_range(graph.getOps())) {
    if (phaseOf(&op) != Phase::Update)
      continue;
    Operation *last = &op;
    auto alias = cast<AliasOpInterface>(&op);
    for (OpResult result : op.getResults())
      if (auto operand = alias.getUpdatedOperand(result.getResultNumber()))
        last = lastReader(&op, op.getOperand(*operand), last);
    if (last != &op)
      op.moveAfter(last);
  }
}

//===-- --stow-cut-rows ----------------------------------------------------------------------===//

struct CutRowsPass : impl::CutRowsPassBase<CutRowsPass> {
  using CutRowsPassBase::CutRowsPassBase;

  void runOnOperation() override {
    if (lossPieces > 1 && cutAll(findHeads, lossPieces) == 0)
      getOperation().emitWarning()
          << "no head runs in " << int64_t(lossPieces)
          << " pieces: expected a product of 2 or more rows that the cross-entropy alone reads; "
             "the step stays as it is";
    if (pieces > 1 && cutAll(findChains, pieces) == 0)
      getOperation().emitWarning()
          << "nothing but a head runs in " << int64_t(pieces)
          << " pieces of rows: expected elementwise ops between two products that are wider than "
             "what the products have on their other side and than their weights' gradients; the "
             "step stays as it is";
  }

  /// The number of chains that were cut.
  template <typename Find> int64_t cutAll(Find find, int64_t count) {
    int64_t found = 0;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (isStepGraph(graph))
        for (RowChain &chain : find(graph)) {
          ChainCut(chain, count).run();
          ++found;
        }
    if (found > 0)
      for (auto graph : getOperation().getOps<func::FuncOp>())
        if (isStepGraph(graph))
          moveUpdatesBehindReaders(graph);
    return found;
  }
};

} // namespace
} // namespace stow
