#include "passes/fission/RowChains.h"

#include "ir/Graphs.h"
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowShapeOps.h"

using namespace mlir;

namespace stow {

Value unshaped(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

SmallVector<OpOperand *> readersOf(Value value) {
  SmallVector<OpOperand *> readers;
  for (OpOperand &use : value.getUses()) {
    if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
      llvm::append_range(readers, readersOf(reshape.getY()));
    else
      readers.push_back(&use);
  }
  return readers;
}

int64_t RowChain::width() const {
  int64_t widest = 0;
  for (Value value : inner)
    if (!joined.contains(value))
      widest = std::max(widest, rows.widthOf(value));
  return widest;
}

bool RowChain::isRead(OpOperand &use) const {
  return ops.contains(use.getOwner()) &&
         ruleOf(use.getOwner())->readsRowsOf(use.getOperandNumber());
}

std::vector<SmallVector<Operation *>> RowChain::stages() const {
  // How often the way to an op has left the chain and come back.
  llvm::DenseMap<Operation *, int64_t> level;
  for (Operation &op : *ops.front()->getBlock()) {
    std::optional<RowRule> rule = ops.contains(&op) ? ruleOf(&op) : std::nullopt;
    int64_t own = 0;
    for (OpOperand &operand : op.getOpOperands())
      if (Operation *maker = unshaped(operand.get()).getDefiningOp()) {
        const bool isByRows = rule && rule->readsRowsOf(operand.getOperandNumber());
        own = std::max(own, level.lookup(maker) + (ops.contains(maker) && !isByRows));
      }
    level[&op] = own;
  }
  for (Operation *op : llvm::reverse(ops)) {
    if (isForward(op) || !ruleOf(op)->hasRowResults())
      continue;
    int64_t latest = std::numeric_limits<int64_t>::max();
    for (Value result : op->getResults())
      for (OpOperand *use : readersOf(result))
        latest = std::min(latest, isRead(*use) ? level[use->getOwner()] : level[op]);
    if (latest != std::numeric_limits<int64_t>::max())
      level[op] = std::max(level[op], latest);
  }
  std::vector<SmallVector<Operation *>> found;
  for (Operation *op : ops) {
    found.resize(std::max<size_t>(found.size(), level[op] + 1));
    found[level[op]].push_back(op);
  }
  llvm::erase_if(found, [](const auto &stage) { return stage.empty(); });
  return found;
}

namespace {

/// Collects a chain around one of its values.
class ChainSearch {
public:
  /// Ops of `taken` belong to other chains.
  ChainSearch(const llvm::DenseSet<Operation *> &taken) : taken(taken) {}

  /// `rows` are those of `first`.
  RowChain from(Value first, ChainRows rows, bool goesAcross) {
    chain.rows = rows;
    add(first);
    while (!open.empty()) {
      Value value = open.pop_back_val();
      visit(value.getDefiningOp(), value, goesAcross);
      for (OpOperand *use : readersOf(value)) {
        std::optional<RowRule> rule = ruleOf(use->getOwner());
        if (rule && rule->readsRowsOf(use->getOperandNumber()))
          visit(use->getOwner(), value, goesAcross);
      }
    }
    SmallVector<Operation *> sorted(chain.ops.begin(), chain.ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    leaveOutSmall(sorted);
    chain.ops = llvm::SetVector<Operation *>(sorted.begin(), sorted.end());
    for (Value value : chain.inner)
      if (!llvm::all_of(readersOf(value), [&](OpOperand *use) { return chain.isRead(*use); }))
        chain.joined.insert(value);
    return std::move(chain);
  }

private:
  /// Leaves out of `ops`, in the graph's order, what gives a number a row and depends on no product or convolution of the chain: masks and
  /// factors, made of data that others may read long before.
  void leaveOutSmall(SmallVector<Operation *> &ops) {
    llvm::DenseSet<Operation *> dependent;
    llvm::erase_if(ops, [&](Operation *op) {
      const std::optional<RowRule> rule = chain.ruleOf(op);
      const auto isDependent = [&](Value operand) {
        return dependent.contains(unshaped(operand).getDefiningOp());
      };
      if (!rule->across.empty() || llvm::any_of(op->getOperands(), isDependent)) {
        dependent.insert(op);
        return false;
      }
      const auto isSmall = [&](Value value) { return chain.rows.widthOf(value) == 1; };
      if (!rule->hasRowResults() || !llvm::all_of(op->getResults(), isSmall) ||
          !llvm::all_of(rule->rows, [&](const RowRule::Read &read) {
            return isSmall(op->getOperand(read.operand));
          }))
        return false;
      for (Value result : op->getResults())
        chain.inner.remove(result);
      return true;
    });
  }

  std::optional<RowRule> ruleOf(Operation *op) const {
    return taken.contains(op) ? std::nullopt : chain.ruleOf(op);
  }

  void add(Value value) {
    value = unshaped(value);
    Operation *maker = value.getDefiningOp();
    if (!maker)
      return;
    std::optional<RowRule> rule = ruleOf(maker);
    if (rule && rule->hasRowResults() && chain.inner.insert(value))
      open.push_back(value);
  }

  void visit(Operation *op, Value from, bool goesAcross) {
    std::optional<RowRule> rule = ruleOf(op);
    chain.ops.insert(op);
    for (Value value : rule->through)
      add(value);
    if (goesAcross)
      for (Value value : rule->across)
        if (chain.rows.widthOf(value) >= chain.rows.widthOf(from))
          add(value);
  }

  const llvm::DenseSet<Operation *> &taken;
  RowChain chain;
  SmallVector<Value> open;
};

/// True where a product or convolution of the forward reads an inner value of `chain`, which is then one between two of them.
bool isBetween(const RowChain &chain) {
  return llvm::any_of(chain.ops, [&](Operation *op) {
    const RowRule rule = *chain.ruleOf(op);
    return isForward(op) && !rule.across.empty() &&
           llvm::any_of(rule.rows, [&](const RowRule::Read &read) {
             Value value = unshaped(op->getOperand(read.operand));
             return chain.inner.contains(value) && !chain.joined.contains(value);
           });
  });
}

/// True where chunks of `chain` save more than its sums and what leaves it take.
bool isWorthwhile(const RowChain &chain) {
  const int64_t width = chain.width();
  for (Operation *op : chain.ops)
    for (Value result : op->getResults())
      if ((!chain.inner.contains(result) || chain.joined.contains(result)) &&
          tensorType(result).getNumElements() > chain.rows.count * width)
        return false;
  return chain.rows.count > 1 && isBetween(chain);
}

/// True for an op of the forward that makes a few numbers of each row: a loss, a sum over columns, columns that are read by index.
bool isNarrowing(Operation *op, const RowChain &chain) {
  const RowRule rule = *chain.ruleOf(op);
  if (!isForward(op) || !rule.across.empty())
    return false;
  int64_t widest = 0;
  for (const RowRule::Read &read : rule.rows)
    widest = std::max(widest, chain.rows.widthOf(op->getOperand(read.operand)));
  return widest > 1 && (!rule.hasRowResults() || llvm::all_of(op->getResults(), [&](Value result) {
           return chain.rows.widthOf(result) < widest;
         }));
}

bool isHead(const RowChain &chain) {
  // Elements in a row of what the products read and give.
  int64_t least = std::numeric_limits<int64_t>::max(), widest = 0;
  for (Operation *op : chain.ops)
    if (auto product = dyn_cast<MatmulOp>(op);
        product && isForward(op) && chain.inner.contains(product.getY())) {
      least = std::min(least, chain.rows.widthOf(product.getA()));
      widest = std::max(widest, chain.rows.widthOf(product.getY()));
    }
  const bool isWide = widest > least || llvm::any_of(chain.ops, llvm::IsaPred<CrossEntropyRowsOp>);
  return chain.rows.count > 1 && widest > 0 && isWide && !isBetween(chain) &&
         llvm::any_of(chain.ops, [&](Operation *op) { return isNarrowing(op, chain); }) &&
         llvm::all_of(chain.joined, [&](Value value) {
           const int64_t width = chain.rows.widthOf(value);
           return width == 1 || width < least;
         });
}

/// The rows of what a product gives.
ChainRows rowsOfProduct(MatmulOp product) {
  const RankedTensorType type = tensorType(product.getY());
  return {type.getNumElements() / type.getShape().back(), /*areOfMatrix=*/true};
}

} // namespace

std::vector<RowChain> findHeads(func::FuncOp graph) {
  std::vector<RowChain> heads;
  llvm::DenseSet<Operation *> taken;
  for (auto product : graph.getOps<MatmulOp>()) {
    if (!isForward(product) || taken.contains(product))
      continue;
    RowChain head =
        ChainSearch(taken).from(product.getY(), rowsOfProduct(product), /*goesAcross=*/false);
    if (!isHead(head))
      continue;
    taken.insert(head.ops.begin(), head.ops.end());
    heads.push_back(std::move(head));
  }
  return heads;
}

std::vector<RowChain> findChains(func::FuncOp graph) {
  std::vector<RowChain> chains;
  llvm::DenseSet<Operation *> taken;
  for (Operation &op : graph.getOps()) {
    auto product = dyn_cast<MatmulOp>(op);
    if (!isForward(&op) || taken.contains(&op) || (!product && !isa<Conv2dOp>(op)))
      continue;
    const ChainRows rows = product ? rowsOfProduct(product)
                                   : ChainRows{tensorType(op.getResult(0)).getDimSize(0), false};
    RowChain chain = ChainSearch(taken).from(op.getResult(0), rows, /*goesAcross=*/true);
    if (llvm::any_of(chain.ops, llvm::IsaPred<CrossEntropyRowsOp>) || !isWorthwhile(chain))
      continue;
    taken.insert(chain.ops.begin(), chain.ops.end());
    chains.push_back(std::move(chain));
  }
  return chains;
}

} // namespace stow
