// Chains of ops whose rows do not meet, in chunks of rows: O(chunks * ops of the chain), and the ops that
// read what leaves it.
//
//            whole                              in chunks
//   x  ----> logits ----> row losses            x[0:n]  -> logits, loss, dlogits -> dx[0:n], dw
//             |   \.                            x[n:2n] -> logits, loss, dlogits -> dx[n:2n], dw +
//             |    dlogits -> dx, dw            ...
//
// With many classes logits and dlogits are what a step's peak consists of; in chunks one of them exists at a
// time (Wijmans et al., "Cut your losses in large-vocabulary language models", 2024, and the chunked
// losses of Liger, Hsu et al., 2024, do the same in one kernel). A chunk's backward runs right after its forward, for which
// the gradient by the row losses must be known before them: of means and sums over rows it is. Where it depends on
// other rows, the forward of all chunks comes first, as below.
//
// Chains between two products, like the hidden layer of a transformer's block, run in two stages. What the forward of a chunk
// makes is there for the backward of the same chunk, and the planner keeps it or computes it again there; what the
// backward needs beside it exists for one chunk at a time.
#include "passes/fission/Passes.h"
#include "passes/fission/RowChains.h"

#include "ir/StepGraphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_CHUNKROWSPASS
#include "passes/fission/Passes.h.inc"

namespace {

/// `count` rows of a chain from `first` on.
struct Chunk {
  int64_t first = 0, count = 0;
};

class ChunkedChain {
public:
  ChunkedChain(RowChain &chain, int64_t count) : chain(chain) {
    const int64_t rows = chain.rows.count, size = (rows + count - 1) / count;
    for (int64_t first = 0; first < rows; first += size)
      chunks.push_back({first, std::min(size, rows - first)});
    made.resize(chunks.size());
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
  /// All chunks of a stage, in front of `place`.
  void runStage(ArrayRef<Operation *> stage, Operation *place) {
    OpBuilder builder(place);
    phase = llvm::all_of(stage, isForward) ? Phase::Forward : Phase::Backward;
    SmallVector<Operation *> order = rowsBeforeSums(stage);
    wholes.clear();
    for (size_t number = 0; number < chunks.size(); ++number) {
      slices.clear();
      for (Operation *op : order)
        runChunk(builder, op, number);
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

  /// What has rows, so that the gradient of a chunk is there soon, then products and other sums over them.
  SmallVector<Operation *> rowsBeforeSums(ArrayRef<Operation *> stage) const {
    SmallVector<Operation *> rows, products, others;
    for (Operation *op : stage) {
      const RowResults results = chain.ruleOf(op)->results;
      const bool isProduct = results == RowResults::Sums && !isa<ReduceSumOp>(op);
      (results == RowResults::Rows ? rows : isProduct ? products : others).push_back(op);
    }
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

  template <typename Op, typename... Args>
  Op create(OpBuilder &builder, Location location, Args &&...args) const {
    auto op = Op::create(builder, location, std::forward<Args>(args)...);
    setPhase(op, phase);
    return op;
  }

  Value reshaped(OpBuilder &builder, Location location, Value value, RankedTensorType type) const {
    return value.getType() == type ? value
                                   : create<ReshapeOp>(builder, location, type, value).getY();
  }

  /// What an op of a chunk reads by `read.operand` of `op`: made by the chain, or a slice of what was there.
  Value rowsOf(OpBuilder &builder, Operation *op, const RowRule::Read &read, bool isRepeated,
               size_t number) {
    OpOperand &operand = op->getOpOperand(read.operand);
    Location location = op->getLoc();
    const auto whole =
        RankedTensorType::get(read.shape, tensorType(operand.get()).getElementType());
    const RankedTensorType type = chain.rows.typeOf(whole, chunks[number].count);
    Value root = isRepeated ? operand.get() : roots.lookup(&operand);
    if (Value own = isRepeated ? Value() : made[number].lookup(root)) {
      Value &shaped = slices[{own, type}];
      return shaped = shaped ? shaped : reshaped(builder, location, own, type);
    }
    if (DenseElementsAttr numbers; matchPattern(root, m_Constant(&numbers)) && numbers.isSplat())
      return create<ConstantOp>(builder, location, numbers.resizeSplat(type)).getY();
    const RankedTensorType all = chain.rows.typeOf(whole, chain.rows.count);
    // What is repeated to one shape may be repeated otherwise to another of as many rows.
    Value &rows = wholes[{root, isRepeated ? whole : all}];
    if (!rows && isRepeated)
      root = create<BroadcastToOp>(builder, location, whole, root).getY();
    if (!rows)
      rows = reshaped(builder, location, root, all);
    Value &slice = slices[{rows, type}];
    if (!slice) {
      SmallVector<int64_t> starts(type.getRank(), 0);
      starts[0] = chunks[number].first;
      slice = create<SliceOp>(builder, location, rows, starts, type.getShape()).getY();
    }
    return slice;
  }

  void runChunk(OpBuilder &builder, Operation *op, size_t number) {
    const RowRule rule = *chain.ruleOf(op);
    SmallVector<Value> operands(op->getOperands());
    for (const RowRule::Read &read : rule.rows)
      operands[read.operand] = rowsOf(builder, op, read, /*isRepeated=*/false, number);
    for (const RowRule::Read &read : rule.repeated)
      operands[read.operand] = rowsOf(builder, op, read, /*isRepeated=*/true, number);
    for (const RowRule::Read &read : rule.alike) {
      Value operand = op->getOperand(read.operand);
      operands[read.operand] =
          reshaped(builder, op->getLoc(), operand,
                   RankedTensorType::get(read.shape, tensorType(operand).getElementType()));
    }
    Operation *chunk = builder.clone(*op);
    chunk->setOperands(operands);
    for (NamedAttribute attribute : rule.attributes)
      chunk->setAttr(attribute.getName(), attribute.getValue());
    setPhase(chunk, phase);
    for (auto [whole, part] : llvm::zip(op->getResults(), chunk->getResults())) {
      const RankedTensorType type = tensorType(whole);
      switch (rule.results) {
      case RowResults::Sums: {
        Value &sum = sums[whole];
        sum = sum ? create<AddOp>(builder, op->getLoc(), sum, part).getY() : Value(part);
        break;
      }
      case RowResults::Reduced:
        part.setType(RankedTensorType::get({chunks[number].count}, type.getElementType()));
        made[number][whole] = part;
        break;
      case RowResults::Rows:
        part.setType(chain.rows.typeOf(type, chunks[number].count));
        made[number][whole] = part;
      }
    }
  }

  /// What is left of a reduction whose chunks have one number a row: the one over rows.
  Value overRows(OpBuilder &builder, Operation *op, Value numbers) const {
    const RankedTensorType x = tensorType(op->getOperand(0));
    const ArrayRef<int64_t> axes = chain.ruleOf(op)->rowAxes;
    const bool keepdims = op->getAttrOfType<BoolAttr>("keepdims").getValue();
    SmallVector<int64_t> shape(x.getShape().drop_back());
    if (keepdims)
      shape.push_back(1);
    numbers =
        reshaped(builder, op->getLoc(), numbers, RankedTensorType::get(shape, x.getElementType()));
    if (isa<ReduceMeanOp>(op))
      return create<ReduceMeanOp>(builder, op->getLoc(), numbers, axes, keepdims).getY();
    if (isa<ReduceMaxOp>(op))
      return create<ReduceMaxOp>(builder, op->getLoc(), numbers, axes, keepdims).getY();
    return create<ReduceSumOp>(builder, op->getLoc(), numbers, axes, keepdims).getY();
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
      for (auto &chunk : made)
        parts.push_back(chunk.lookup(result));
      Value joined = create<ConcatOp>(builder, op->getLoc(), parts, /*axis=*/0).getY();
      if (chain.ruleOf(op)->results == RowResults::Reduced)
        joined = overRows(builder, op, joined);
      result.replaceAllUsesWith(reshaped(builder, op->getLoc(), joined, tensorType(result)));
    }
  }

  /// Removes an op that chunks have replaced, whose readers are gone.
  static void erase(Operation *op) {
    for (Value result : op->getResults())
      for (Operation *reshape : llvm::make_early_inc_range(result.getUsers()))
        erase(reshape);
    op->erase();
  }

  RowChain &chain;
  SmallVector<Chunk> chunks;
  Phase phase = Phase::Forward;
  llvm::DenseMap<OpOperand *, Value> roots;             ///< what the chain's ops read, as given
  std::vector<llvm::DenseMap<Value, Value>> made;       ///< by chunk, what it has of a whole value
  llvm::DenseMap<Value, Value> sums;                    ///< so far
  llvm::DenseMap<std::pair<Value, Type>, Value> wholes; ///< what slices are of, by root and shape
  llvm::DenseMap<std::pair<Value, Type>, Value>
      slices; ///< of the chunk at work, and its own under other shapes
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

/// Moves updates behind what reads the state that they replace: chunks may read it later than the
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

//===-- --stow-chunk-rows ----------------------------------------------------------------------===//

struct ChunkRowsPass : impl::ChunkRowsPassBase<ChunkRowsPass> {
  using ChunkRowsPassBase::ChunkRowsPassBase;

  void runOnOperation() override {
    if (lossChunks > 1 && chunkAll(findHeads, lossChunks, /*inEvaluation=*/true) == 0)
      getOperation().emitWarning()
          << "no head runs in " << int64_t(lossChunks)
          << " chunks: expected a product of 2 or more rows, wider than what it reads, which the "
             "loss alone reads and reduces to a few numbers a row; the step stays as it is";
    if (rowChunks > 1 && chunkAll(findChains, rowChunks, /*inEvaluation=*/false) == 0)
      getOperation().emitWarning()
          << "nothing but a head runs in " << int64_t(rowChunks)
          << " chunks of rows: expected elementwise ops between two products that are wider than "
             "what the products have on their other side and than their weights' gradients; the "
             "step stays as it is";
  }

  /// The number of chains of the step that run in chunks now. An evaluation whose outputs are reduced rows, as a loss of the model's
  /// own, has the step's heads without their backward.
  template <typename Find> int64_t chunkAll(Find find, int64_t count, bool inEvaluation) {
    int64_t found = 0;
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      const bool isStep = isStepGraph(graph);
      if (!isStep && !(inEvaluation && roleOf(graph) == Role::Eval))
        continue;
      std::vector<RowChain> chains = find(graph);
      for (RowChain &chain : chains)
        ChunkedChain(chain, count).run();
      if (isStep && !chains.empty())
        moveUpdatesBehindReaders(graph);
      found += isStep ? static_cast<int64_t>(chains.size()) : 0;
    }
    return found;
  }
};

} // namespace
} // namespace stow
