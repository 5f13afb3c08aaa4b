#include "passes/layout/Orders.h"

#include "ir/Graphs.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowResampleOps.h"
#include "ir/StowShapeOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
namespace {

/// Convolutions: the order of x and y says nothing about the weight.
bool isConvolution(Operation *op) {
  return isa<Conv2dOp, Conv2dGradInputOp, Conv2dGradWeightOp>(op);
}

/// The images among a convolution's operands and results.
SmallVector<Value> imagesOf(Operation *op) {
  if (auto conv = dyn_cast<Conv2dOp>(op))
    return {conv.getX(), conv.getY()};
  if (auto gradient = dyn_cast<Conv2dGradInputOp>(op))
    return {gradient.getDy(), gradient.getDx()};
  auto gradient = cast<Conv2dGradWeightOp>(op);
  return {gradient.getX(), gradient.getDy()};
}

bool isStateValue(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto graph = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  return graph && isStateArgument(graph, argument.getArgNumber());
}

bool isUpdate(Operation *op) {
  auto alias = dyn_cast<AliasOpInterface>(op);
  return alias && op->getNumResults() > 0 && alias.getUpdatedOperand(0);
}

} // namespace

SmallVector<Value> Orders::groupedValues(Operation *op) {
  const Walk walk = walkOf(op);
  if (isConvolution(op) || isUpdate(op) || op->getNumResults() == 0 ||
      (walk != Walk::Alike && walk != Walk::Images))
    return {};
  // An elementwise op's space is its result's; a library's or a row kernel's is its operand's.
  bool elementwise = isa<ElementwiseOpInterface>(op);
  if (!elementwise && op->getNumOperands() == 0)
    return {};
  auto space = tensorType(elementwise ? op->getResult(0) : op->getOperand(0));
  SmallVector<Value> values;
  auto add = [&](Value value) {
    auto type = tensorType(value);
    bool fits = elementwise ? type.getShape() == space.getShape()
                            : type.getRank() == space.getRank() && type.getRank() > 1;
    if (fits && !value.getDefiningOp<ConstantOp>())
      values.push_back(value);
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  return values;
}

Orders::Orders(func::FuncOp graph, const Target &target) {
  Block &block = graph.getBody().front();
  auto create = [&](Value value) {
    if (isStateValue(value))
      return;
    groupOf[value] = groups.size();
    parents.push_back(groups.size());
    groups.emplace_back();
    groups.back().rank = tensorType(value).getRank();
  };
  llvm::for_each(block.getArguments(), create);
  for (Operation &op : block)
    llvm::for_each(op.getResults(), create);
  for (Operation &op : block) {
    SmallVector<Value> values = groupedValues(&op);
    llvm::erase_if(values, [&](Value value) { return !isFree(value); });
    for (Value value : llvm::drop_begin(values, values.empty() ? 0 : 1))
      join(values.front(), value);
  }
  for (Operation &op : block)
    collect(op, target.orderWish(&op));
  spread();
}

Orders::GroupId Orders::find(GroupId group) const {
  while (parents[group] != group)
    group = parents[group] = parents[parents[group]];
  return group;
}

/// The earlier group stays, so that groups keep program order.
void Orders::join(Value a, Value b) {
  GroupId first = find(groupOf.lookup(a)), second = find(groupOf.lookup(b));
  parents[std::max(first, second)] = std::min(first, second);
}

/// What the groups of an op's operands and results hear from it.
void Orders::collect(Operation &op, OrderWish wish) {
  SmallVector<Value> values(op.getOperands());
  llvm::append_range(values, op.getResults());
  llvm::erase_if(values, [&](Value value) { return !isFree(value); });
  if (wish == OrderWish::ChannelsLast) {
    for (Value value : isConvolution(&op) ? imagesOf(&op) : groupedValues(&op))
      if (isFree(value) && tensorType(value).getRank() > 2)
        group(value).channelsLast += storedBytesOf(value.getType());
  } else if (wish == OrderWish::Matrices) {
    for (Value value : values) {
      bool isResult = value.getDefiningOp() == &op;
      (isResult ? group(value).isResult : group(value).isMatrix) = true;
      group(value).matrices += storedBytesOf(value.getType());
    }
  } else if (wish == OrderWish::RowMajor) {
    for (Value value : values)
      group(value).isRowMajor = true;
  } else if (isa<ReshapeOp, TransposeOp, ReduceSumOp, ReduceMeanOp, ReduceMaxOp>(op) ||
             isa<ElementwiseOpInterface>(op)) {
    SmallVector<GroupId> seen;
    for (Value value : values)
      if (GroupId id = find(groupOf.lookup(value)); !llvm::is_contained(seen, id)) {
        seen.push_back(id);
        groups[id].links.push_back(&op);
      }
  }
}

bool Orders::accepts(const Group &group, const Order &order) const {
  int64_t rank = group.rank;
  if (group.isRowMajor)
    return llvm::is_sorted(order);
  if (group.isResult && order.back() != rank - 1)
    return false;
  return !group.isMatrix || order.back() >= rank - 2;
}

void Orders::suggest(Value value, const Order &order, std::deque<GroupId> &reached) {
  if (!isFree(value))
    return;
  GroupId id = find(groupOf.lookup(value));
  if (groups[id].order || static_cast<int64_t>(order.size()) != groups[id].rank || order.empty() ||
      !accepts(groups[id], order))
    return;
  groups[id].order = order;
  reached.push_back(id);
}

/// Tells the other values of `link` the order with which they see the bytes of `from`.
void Orders::spreadFrom(GroupId from, Operation *link, std::deque<GroupId> &reached) {
  const Order order = *groups[from].order;
  auto isFrom = [&](Value value) { return isFree(value) && find(groupOf.lookup(value)) == from; };
  Value y = link->getResult(0);
  if (auto transpose = dyn_cast<TransposeOp>(link)) {
    if (isFrom(transpose.getX()))
      suggest(y, transposedOrder(order, transpose.getPermutation()), reached);
    if (isFrom(y))
      suggest(transpose.getX(), untransposedOrder(order, transpose.getPermutation()), reached);
    return;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(link)) {
    auto x = reshape.getX().getType();
    if (isFrom(reshape.getX()))
      if (auto seen = reshapedOrder(withOrder(x, order), tensorType(y).getShape()))
        suggest(y, *seen, reached);
    if (isFrom(y))
      if (auto seen = reshapedOrder(withOrder(tensorType(y), order), x.getShape()))
        suggest(reshape.getX(), *seen, reached);
    return;
  }
  // Reductions that keep their dimensions, and operands that are repeated.
  for (Value value : llvm::concat<Value>(SmallVector<Value>(link->getOperands()),
                                         SmallVector<Value>(link->getResults())))
    suggest(value, order, reached);
}

void Orders::spread() {
  std::deque<GroupId> reached;
  for (GroupId id = 0; id < groups.size(); ++id) {
    Group &votes = groups[id];
    if (parents[id] != id)
      continue;
    if (votes.channelsLast > 0 && votes.channelsLast >= votes.matrices)
      votes.order = channelsLastOrder(votes.rank);
    else if (votes.isRowMajor || votes.channelsLast > 0)
      votes.order = rowMajorOrder(votes.rank);
    if (votes.order)
      reached.push_back(id);
  }
  auto follow = [&] {
    while (!reached.empty()) {
      GroupId id = reached.front();
      reached.pop_front();
      for (Operation *link : groups[id].links)
        spreadFrom(id, link, reached);
    }
  };
  follow();
  // Sequences before what they are divided into: heads, windows.
  std::vector<GroupId> rest;
  for (GroupId id = 0; id < groups.size(); ++id)
    if (parents[id] == id && !groups[id].order)
      rest.push_back(id);
  llvm::sort(rest, [&](GroupId a, GroupId b) {
    return std::pair(groups[a].rank, a) < std::pair(groups[b].rank, b);
  });
  for (GroupId id : rest) {
    if (groups[id].order)
      continue;
    groups[id].order = rowMajorOrder(groups[id].rank);
    reached.push_back(id);
    follow();
  }
}

RankedTensorType Orders::typeOf(Value value) const {
  auto type = tensorType(value);
  auto found = groupOf.find(value);
  return found == groupOf.end() ? withoutLayout(type)
                                : withOrder(type, *groups[find(found->second)].order);
}

} // namespace stow
