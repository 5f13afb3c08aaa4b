#include "passes/fission/RowChains.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowReduceOps.h"
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

namespace {

/// A product with a matrix on its right, so that rows of the left are rows of the result.
bool isRowWise(MatmulOp product) {
  return !product.getTransposeA() && product.getB().getType().getRank() == 2;
}

/// A product that sums over the rows of two matrices.
bool isRowSum(MatmulOp product) {
  return product.getTransposeA() && !product.getTransposeB() && !product.getBias() &&
         product.getA().getType().getRank() == 2 && product.getB().getType().getRank() == 2;
}

/// True for an operand of an elementwise op that every row of `type` reads alike: a number, one a
/// column, or what is broadcast along the dimension of images.
bool isSameForRows(RankedTensorType operand, RankedTensorType type, bool isMatrix) {
  if (operand.getNumElements() == 1)
    return true;
  if (!isMatrix)
    return operand.getRank() < type.getRank() || operand.getDimSize(0) == 1;
  const int64_t columns = type.getShape().back();
  return operand.getNumElements() == columns && operand.getShape().back() == columns;
}

/// Elementwise ops; none whose elements are numbered: pieces would count them anew. An update writes state,
/// which has rows only by chance.
std::optional<RowRule> elementwiseRule(Operation *op, bool isMatrix) {
  if (!isa<ElementwiseOpInterface>(op) || isa<DropoutTrainingOp, DrawOp>(op) ||
      phaseOf(op) == Phase::Update)
    return std::nullopt;
  RowRule rule;
  RankedTensorType type = tensorType(op->getResult(0));
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    if (tensorType(operand).getShape() == type.getShape())
      rule.rows.push_back(number);
    else if (!isSameForRows(tensorType(operand), type, isMatrix))
      return std::nullopt;
  }
  for (unsigned number : rule.rows)
    rule.through.push_back(op->getOperand(number));
  llvm::append_range(rule.through, op->getResults());
  return rule;
}

/// Convolutions and pooling, whose rows are images.
std::optional<RowRule> imageRule(Operation *op) {
  RowRule rule;
  rule.rows = {0};
  if (isa<Conv2dGradWeightOp>(op)) {
    rule.rows = {0, 1};
    rule.sums = true;
    return rule;
  }
  if (isa<MaxPoolGradOp>(op))
    rule.rows = {0, 1};
  else if (!isa<Conv2dOp, Conv2dGradInputOp, MaxPoolTrainingOp, AvgPoolOp, AvgPoolGradOp>(op))
    return std::nullopt;
  rule.across = {op->getOperand(0), op->getResult(0)};
  return rule;
}

std::optional<RowRule> productRule(MatmulOp product) {
  RowRule rule;
  if (isRowSum(product)) {
    rule.rows = {0, 1};
    rule.sums = true;
  } else if (isRowWise(product)) {
    rule.rows = {0};
    rule.across = {product.getA(), product.getY()};
  } else {
    return std::nullopt;
  }
  return rule;
}

std::optional<RowRule> ruleOfAny(Operation *op, bool isMatrix) {
  if (auto product = dyn_cast<MatmulOp>(op))
    return productRule(product);
  RowRule rule;
  if (auto sum = dyn_cast<ReduceSumOp>(op)) {
    if (sum.getKeepdims())
      return std::nullopt;
    rule.rows = {0};
    rule.sums = true;
  } else if (auto loss = dyn_cast<CrossEntropyRowsOp>(op)) {
    rule.rows = {0, 1};
    rule.through = {loss.getLogits(), loss.getLse()};
  } else if (auto grad = dyn_cast<CrossEntropyRowsGradOp>(op)) {
    rule.rows = {0, 1, 2, 3};
    rule.through = {grad.getLogits(), grad.getLse(), grad.getDlogits()};
  } else if (std::optional<RowRule> image = isMatrix ? std::nullopt : imageRule(op)) {
    return image;
  } else {
    return elementwiseRule(op, isMatrix);
  }
  return rule;
}

} // namespace

bool RowChain::hasRows(Value value) const {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  int64_t leading = 1;
  for (int64_t extent : shape.take_front(isMatrix ? shape.size() : 1)) {
    leading *= extent;
    if (leading == rows)
      return true;
  }
  return false;
}

int64_t RowChain::widthOf(Value value) const { return tensorType(value).getNumElements() / rows; }

std::optional<RowRule> RowChain::ruleOf(Operation *op) const {
  std::optional<RowRule> rule = ruleOfAny(op, isMatrix);
  if (!rule || rule->rows.empty() ||
      !llvm::all_of(rule->rows, [&](unsigned number) { return hasRows(op->getOperand(number)); }))
    return std::nullopt;
  if (!rule->sums && !llvm::all_of(op->getResults(), [&](Value result) { return hasRows(result); }))
    return std::nullopt;
  if (auto sum = dyn_cast<ReduceSumOp>(op)) {
    ArrayRef<int64_t> axes = sum.getAxes(), shape = sum.getX().getType().getShape();
    int64_t summed = 1;
    for (int64_t axis : axes)
      summed *= shape[axis];
    const bool areFirst = llvm::equal(axes, llvm::seq<int64_t>(0, axes.size()));
    if (isMatrix ? !areFirst || summed != rows : axes.empty() || axes.front() != 0)
      return std::nullopt;
  }
  return rule;
}

int64_t RowChain::width() const {
  int64_t widest = 0;
  for (Value value : inner)
    if (!joined.contains(value))
      widest = std::max(widest, widthOf(value));
  return widest;
}

bool RowChain::isRead(OpOperand &use) const {
  if (!ops.contains(use.getOwner()))
    return false;
  return llvm::is_contained(ruleOf(use.getOwner())->rows, use.getOperandNumber());
}

std::vector<SmallVector<Operation *>> RowChain::stages() const {
  // How often the way to an op has left the chain and come back.
  llvm::DenseMap<Operation *, int64_t> level;
  for (Operation &op : *ops.front()->getBlock()) {
    std::optional<RowRule> rule = ops.contains(&op) ? ruleOf(&op) : std::nullopt;
    int64_t own = 0;
    for (OpOperand &operand : op.getOpOperands())
      if (Operation *maker = unshaped(operand.get()).getDefiningOp()) {
        const bool isByRows = rule && llvm::is_contained(rule->rows, operand.getOperandNumber());
        own = std::max(own, level.lookup(maker) + (ops.contains(maker) && !isByRows));
      }
    level[&op] = own;
  }
  for (Operation *op : llvm::reverse(ops)) {
    if (isForward(op) || ruleOf(op)->sums)
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

  /// `isMatrix` and `rows` of the chain are those of `first`.
  RowChain from(Value first, int64_t rows, bool isMatrix, bool goesAcross) {
    chain.rows = rows;
    chain.isMatrix = isMatrix;
    add(first);
    while (!open.empty()) {
      Value value = open.pop_back_val();
      visit(value.getDefiningOp(), value, goesAcross);
      for (OpOperand *use : readersOf(value)) {
        std::optional<RowRule> rule = ruleOf(use->getOwner());
        if (rule && llvm::is_contained(rule->rows, use->getOperandNumber()))
          visit(use->getOwner(), value, goesAcross);
        else
          chain.joined.insert(value);
      }
    }
    SmallVector<Operation *> sorted(chain.ops.begin(), chain.ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    chain.ops = llvm::SetVector<Operation *>(sorted.begin(), sorted.end());
    return std::move(chain);
  }

private:
  std::optional<RowRule> ruleOf(Operation *op) const {
    return taken.contains(op) ? std::nullopt : chain.ruleOf(op);
  }

  void add(Value value) {
    value = unshaped(value);
    Operation *maker = value.getDefiningOp();
    if (!maker)
      return;
    std::optional<RowRule> rule = ruleOf(maker);
    if (rule && !rule->sums && chain.inner.insert(value))
      open.push_back(value);
  }

  void visit(Operation *op, Value from, bool goesAcross) {
    std::optional<RowRule> rule = ruleOf(op);
    chain.ops.insert(op);
    for (Value value : rule->through)
      add(value);
    if (goesAcross)
      for (Value value : rule->across)
        if (chain.widthOf(value) >= chain.widthOf(from))
          add(value);
  }

  const llvm::DenseSet<Operation *> &taken;
  RowChain chain;
  SmallVector<Value> open;
};

/// True where pieces of `chain` save more than its sums and what leaves it take.
bool isWorthwhile(const RowChain &chain) {
  const int64_t width = chain.width();
  bool isBetween = false;
  for (Operation *op : chain.ops) {
    const RowRule rule = *chain.ruleOf(op);
    for (Value result : op->getResults())
      if ((!chain.inner.contains(result) || chain.joined.contains(result)) &&
          tensorType(result).getNumElements() > chain.rows * width)
        return false;
    if (isForward(op) && !rule.across.empty())
      isBetween |= llvm::any_of(rule.rows, [&](unsigned number) {
        Value value = unshaped(op->getOperand(number));
        return chain.inner.contains(value) && !chain.joined.contains(value);
      });
  }
  return isBetween && chain.rows > 1;
}

} // namespace

std::vector<RowChain> findHeads(func::FuncOp graph) {
  std::vector<RowChain> heads;
  llvm::DenseSet<Operation *> taken;
  for (auto grad : graph.getOps<CrossEntropyRowsGradOp>()) {
    auto loss = grad.getLse().getDefiningOp<CrossEntropyRowsOp>();
    if (!loss || taken.contains(grad) || grad.getDrow().getType().getRank() != 1)
      continue;
    RowChain head =
        ChainSearch(taken).from(grad.getDlogits(), grad.getLogits().getType().getDimSize(0),
                                /*isMatrix=*/true, /*goesAcross=*/false);
    const bool hasProduct =
        llvm::any_of(head.ops, [](Operation *op) { return isa<MatmulOp>(op) && isForward(op); });
    if (!hasProduct || head.rows < 2 || !head.joined.empty() || head.stages().size() != 1)
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
    if (!isForward(&op) || taken.contains(&op) ||
        (product ? !isRowWise(product) : !isa<Conv2dOp>(op)))
      continue;
    const RankedTensorType type = tensorType(op.getResult(0));
    const int64_t rows =
        product ? type.getNumElements() / type.getShape().back() : type.getDimSize(0);
    RowChain chain = ChainSearch(taken).from(op.getResult(0), rows, /*isMatrix=*/product != nullptr,
                                             /*goesAcross=*/true);
    if (llvm::any_of(chain.ops, llvm::IsaPred<CrossEntropyRowsOp>) || !isWorthwhile(chain))
      continue;
    taken.insert(chain.ops.begin(), chain.ops.end());
    chains.push_back(std::move(chain));
  }
  return chains;
}

} // namespace stow
