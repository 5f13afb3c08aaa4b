// Products of few rows that share a factor, or are added up, as fewer and larger ones: O(products * terms of a group).
//
//   y0 = x0 w     y1 = x1 w     ...            y = [x0; x1; ...] w,   y0 = y[0:n], ...
//   dw = x0^T dy0 + x1^T dy1 + ...             dw = [x0; x1; ...]^T [dy0; dy1; ...]
//   db = sum(dy0) + sum(dy1) + ...             db = sum([dy0; dy1; ...])
//
// So it is in recurrent networks, which are unrolled over time: each step multiplies the same weights by a few rows, and
// a launch takes longer than the product. A group is eight of them, of up to 1,024 rows. Products that need each
// other's results stay.
//
// The chains of sums are taken from their ends: a backward goes through the steps from the last to the first, and its
// groups are then those of the forward, so that both read the same rows.
#include "passes/expand/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "passes/SmallLaunches.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_BATCHPRODUCTSPASS
#include "passes/expand/Passes.h.inc"

namespace {

/// Rows and terms of a group at most: with as many rows a product keeps a GPU busy, and of eight launches one is left. What a group reads and
/// makes is in memory at once.
constexpr int64_t kRows = 1024, kMostTerms = 8;
/// Fewer are left as they are: weights that are tied, not steps of a recurrence.
constexpr int64_t kFewestTerms = 4;

/// True for a group of so many terms that takes no further one.
bool isFull(size_t terms, int64_t rowsOfTerm) {
  const auto more = static_cast<int64_t>(terms) + 1;
  return more > kMostTerms || more * rowsOfTerm > kRows;
}

int64_t rowsOf(Value value) { return tensorType(value).getDimSize(0); }

/// The one piece of a box that is a single number of one dimension and all of the others: that dimension.
std::optional<size_t> singleDim(SliceOp slice) {
  const RankedTensorType whole = tensorType(slice.getX());
  std::optional<size_t> dim;
  for (auto [i, size] : llvm::enumerate(slice.getSizes())) {
    if (size == whole.getDimSize(i))
      continue;
    if (dim || size != 1)
      return std::nullopt;
    dim = i;
  }
  return dim;
}

SliceOp slicedBy(Value piece) {
  auto reshape = piece.getDefiningOp<ReshapeOp>();
  return reshape ? reshape.getX().getDefiningOp<SliceOp>() : SliceOp();
}

/// Values that stand below each other as one, each made once.
class Rows {
public:
  /// `pieces`, of which none has uses in front of the place that this is asked for.
  Value join(ArrayRef<Value> pieces) {
    Value &known = joined[SmallVector<Value>(pieces)];
    if (!known)
      known = make(pieces);
    return known;
  }

private:
  struct Less {
    bool operator()(const SmallVector<Value> &a, const SmallVector<Value> &b) const {
      return std::lexicographical_compare(
          a.begin(), a.end(), b.begin(), b.end(),
          [](Value x, Value y) { return x.getAsOpaquePointer() < y.getAsOpaquePointer(); });
    }
  };

  Value make(ArrayRef<Value> pieces) {
    if (Value part = partOfConcat(pieces))
      return part;
    if (Value steps = stepsOfTensor(pieces))
      return steps;
    OpBuilder builder = behind(pieces);
    auto concat = ConcatOp::create(builder, pieces.back().getLoc(), pieces, 0);
    setPhase(concat, latestPhase(pieces));
    return concat.getY();
  }

  static Phase latestPhase(ArrayRef<Value> values) {
    for (Value value : values)
      if (Operation *op = value.getDefiningOp(); op && !isForward(op))
        return phaseOf(op);
    return Phase::Forward;
  }

  /// A builder right behind what makes the last of `values`.
  static OpBuilder behind(ArrayRef<Value> values) {
    Operation *last = nullptr;
    for (Value value : values)
      if (Operation *op = value.getDefiningOp(); op && (!last || last->isBeforeInBlock(op)))
        last = op;
    OpBuilder builder(values.front().getContext());
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(Value(values.front()).getParentBlock());
    return builder;
  }

  /// Rows of a concat that has the pieces below each other already.
  static Value partOfConcat(ArrayRef<Value> pieces) {
    for (Operation *user : pieces.front().getUsers()) {
      auto concat = dyn_cast<ConcatOp>(user);
      if (!concat || concat.getAxis() != 0)
        continue;
      const auto inputs = llvm::to_vector(concat.getInputs());
      const auto *first = llvm::find(inputs, pieces.front());
      if (static_cast<size_t>(inputs.end() - first) < pieces.size() ||
          ArrayRef(first, pieces.size()) != pieces)
        continue;
      if (inputs.size() == pieces.size())
        return concat.getY();
      OpBuilder builder = behind({concat.getY()});
      SmallVector<int64_t> sizes(tensorType(concat.getY()).getShape()), starts(sizes.size(), 0);
      starts[0] = concat.getStartsOf(first - inputs.begin())[0];
      sizes[0] = rowsOf(pieces.front()) * static_cast<int64_t>(pieces.size());
      auto slice = SliceOp::create(builder, concat.getLoc(), concat.getY(), starts, sizes);
      copyPhase(concat, slice);
      return slice.getY();
    }
    return {};
  }

  /// Steps that follow each other along a dimension of one tensor, which becomes the first.
  static Value stepsOfTensor(ArrayRef<Value> pieces) {
    SliceOp first = slicedBy(pieces.front());
    const std::optional<size_t> dim = first ? singleDim(first) : std::nullopt;
    if (!dim)
      return {};
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      SliceOp slice = slicedBy(piece);
      if (!slice || slice.getX() != first.getX() || singleDim(slice) != dim ||
          slice.getStarts()[*dim] != first.getStarts()[*dim] + static_cast<int64_t>(i))
        return {};
    }
    OpBuilder builder = behind({first.getX()});
    const Location location = first.getLoc();
    SmallVector<int64_t> sizes(first.getSizes()), permutation;
    sizes[*dim] = static_cast<int64_t>(pieces.size());
    permutation.push_back(static_cast<int64_t>(*dim));
    for (size_t i = 0; i < sizes.size(); ++i)
      if (i != *dim)
        permutation.push_back(static_cast<int64_t>(i));
    const bool areAll = sizes == first.getX().getType().getShape();
    Value steps =
        areAll ? Value(first.getX())
               : SliceOp::create(builder, location, first.getX(), first.getStarts(), sizes).getY();
    auto order = TransposeOp::create(builder, location, steps, permutation);
    const RankedTensorType piece = tensorType(pieces.front());
    SmallVector<int64_t> shape(piece.getShape());
    shape[0] *= static_cast<int64_t>(pieces.size());
    auto rows = ReshapeOp::create(
        builder, location, RankedTensorType::get(shape, piece.getElementType()), order.getY());
    copyPhase(first, order);
    copyPhase(first, rows);
    if (!areAll)
      copyPhase(first, steps.getDefiningOp());
    return rows.getY();
  }

  std::map<SmallVector<Value>, Value, Less> joined; ///< never gone through
};

/// The products of one graph.
class GraphProducts {
public:
  GraphProducts(func::FuncOp graph, Bytes most) : graph(graph), most(most) {}

  /// True where any are joined.
  bool run() {
    joinProducts();
    SmallVector<AddOp> ends;
    for (auto sum : graph.getOps<AddOp>())
      if (isLink(sum) && isEnd(sum))
        ends.push_back(sum);
    for (AddOp end : ends)
      joinTerms(end);
    erase();
    return !replaced.empty();
  }

private:
  /// True for few rows, of which a group is small as well.
  bool isSmall(Value factor) const {
    const RankedTensorType type = tensorType(factor);
    return type.getRank() == 2 && rowsOf(factor) <= kRows / kFewestTerms &&
           storedBytesOf(type) <= most;
  }

  //===-- One factor for all -----------------------------------------------------------------===//

  bool isShared(MatmulOp product) const {
    return !product.getTransposeA() && tensorType(product.getB()).getRank() == 2 &&
           isSmall(product.getA()) && isSmall(product.getY());
  }

  static bool areAlike(MatmulOp a, MatmulOp b) {
    return a.getB() == b.getB() && a.getBias() == b.getBias() &&
           a.getTransposeB() == b.getTransposeB() && a.getA().getType() == b.getA().getType() &&
           phaseOf(a) == phaseOf(b);
  }

  /// The ops that may move in front of a product: what it reads, as far as that is a part of something.
  static SmallVector<Operation *> viewsOf(Value value) {
    SmallVector<Operation *> views;
    for (Operation *op = value.getDefiningOp(); op && isa<SliceOp, ReshapeOp>(op);
         op = op->getOperand(0).getDefiningOp())
      views.push_back(op);
    std::reverse(views.begin(), views.end());
    return views;
  }

  static Operation *makerOf(Value value) {
    while (isa_and_nonnull<SliceOp, ReshapeOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return value.getDefiningOp();
  }

  /// The op behind which all left factors are there, and none of `products` has been read; null where there is none such.
  static Operation *placeOf(ArrayRef<MatmulOp> products) {
    Operation *place = products.front();
    for (MatmulOp product : products)
      if (Operation *maker = makerOf(product.getA()); maker && place->isBeforeInBlock(maker))
        place = maker;
    for (MatmulOp product : products)
      for (Operation *user : product.getY().getUsers())
        if (user == place || user->isBeforeInBlock(place))
          return nullptr;
    return place;
  }

  void joinProducts() {
    llvm::MapVector<Value, SmallVector<MatmulOp>> byFactor;
    for (auto product : graph.getOps<MatmulOp>())
      if (isShared(product))
        byFactor[product.getB()].push_back(product);
    for (auto &[factor, products] : byFactor) {
      if (static_cast<int64_t>(products.size()) < kFewestTerms)
        continue;
      SmallVector<MatmulOp> group;
      for (MatmulOp product : products) {
        group.push_back(product);
        if (!areAlike(group.front(), product) || !placeOf(group)) {
          group.pop_back();
          joinGroup(group);
          group.assign(1, product);
        }
        if (isFull(group.size(), rowsOf(product.getA()))) {
          joinGroup(group);
          group.clear();
        }
      }
      joinGroup(group);
    }
  }

  void joinGroup(ArrayRef<MatmulOp> products) {
    if (static_cast<int64_t>(products.size()) < kFewestTerms)
      return;
    Operation *place = placeOf(products);
    SmallVector<Value> pieces;
    for (MatmulOp product : products) {
      for (Operation *view : viewsOf(product.getA()))
        if (place->isBeforeInBlock(view))
          view->moveAfter(place), place = view;
      pieces.push_back(product.getA());
    }
    Value joined = rows.join(pieces);
    OpBuilder builder(place->getContext());
    Operation *maker = joined.getDefiningOp();
    builder.setInsertionPointAfter(place->isBeforeInBlock(maker) ? maker : place);
    MatmulOp first = products.front();
    auto whole = MatmulOp::create(builder, first.getLoc(), joined, first.getB(), first.getBias(),
                                  first.getTransposeA(), first.getTransposeB());
    copyPhase(first, whole);
    int64_t start = 0;
    for (MatmulOp product : products) {
      const ArrayRef<int64_t> shape = product.getY().getType().getShape();
      builder.setInsertionPointAfter(product->isBeforeInBlock(whole) ? whole : product);
      auto slice = SliceOp::create(builder, product.getLoc(), whole.getY(),
                                   SmallVector<int64_t>{start, 0}, shape);
      copyPhase(product, slice);
      product.getY().replaceAllUsesWith(slice.getY());
      replaced.push_back(product);
      start += shape[0];
    }
  }

  //===-- Sums ---------------------------------------------------------------------------------===//

  /// True where both operands have the extents of the sum.
  static bool isLink(AddOp sum) {
    return sum.getA().getType() == sum.getY().getType() &&
           sum.getB().getType() == sum.getY().getType();
  }

  /// True where the chain of sums that `sum` belongs to ends.
  static bool isEnd(AddOp sum) {
    if (!sum.getY().hasOneUse())
      return true;
    auto user = dyn_cast<AddOp>(*sum.getY().getUsers().begin());
    return !user || !isLink(user);
  }

  /// What the chain adds up, in its order.
  static SmallVector<Value> leavesOf(AddOp end) {
    SmallVector<Value> leaves, open = {end.getY()};
    while (!open.empty()) {
      Value value = open.pop_back_val();
      auto sum = value.getDefiningOp<AddOp>();
      if (value == end.getY() || (sum && isLink(sum) && !isEnd(sum)))
        open.append({sum.getB(), sum.getA()});
      else
        leaves.push_back(value);
    }
    return leaves;
  }

  /// Both factors of a product that contracts few rows of them, or what a sum adds up rows of; else nothing.
  SmallVector<Value> factorsOf(Value leaf) const {
    if (!leaf.hasOneUse())
      return {};
    if (auto product = leaf.getDefiningOp<MatmulOp>())
      if (product.getTransposeA() && !product.getTransposeB() && !product.getBias() &&
          isSmall(product.getA()) && isSmall(product.getB()))
        return {product.getA(), product.getB()};
    if (auto sum = leaf.getDefiningOp<ReduceSumOp>())
      if (sum.getAxes() == ArrayRef<int64_t>{0} && isSmall(sum.getX()))
        return {sum.getX()};
    return {};
  }

  static bool haveTypesOf(ArrayRef<Value> a, ArrayRef<Value> b) {
    return llvm::equal(a, b, [](Value x, Value y) { return x.getType() == y.getType(); });
  }

  void joinTerms(AddOp end) {
    SmallVector<Value> leaves = leavesOf(end);
    if (static_cast<int64_t>(leaves.size()) < kFewestTerms)
      return;
    std::reverse(leaves.begin(), leaves.end());
    SmallVector<Value> terms; // what is left to be added
    SmallVector<Value> group;
    bool changed = false;
    auto close = [&] {
      if (static_cast<int64_t>(group.size()) < kFewestTerms) {
        llvm::append_range(terms, group);
      } else {
        terms.push_back(joined(group));
        changed = true;
      }
      group.clear();
    };
    for (Value leaf : leaves) {
      const SmallVector<Value> factors = factorsOf(leaf);
      if (!group.empty() && (factors.empty() || !haveTypesOf(factors, factorsOf(group.front()))))
        close();
      if (factors.empty()) {
        terms.push_back(leaf);
        continue;
      }
      group.push_back(leaf);
      if (isFull(group.size(), rowsOf(factors.front())))
        close();
    }
    close();
    if (changed)
      addUp(end, terms);
  }

  /// One product, or one sum, of what all terms of the group read.
  Value joined(ArrayRef<Value> group) {
    Operation *first = group.front().getDefiningOp(), *place = first;
    for (Value term : group)
      if (place->isBeforeInBlock(term.getDefiningOp()))
        place = term.getDefiningOp();
    SmallVector<Value> factors;
    for (unsigned i = 0; i < first->getNumOperands(); ++i) {
      SmallVector<Value> pieces;
      for (Value term : group)
        pieces.push_back(term.getDefiningOp()->getOperand(i));
      factors.push_back(rows.join(pieces));
    }
    for (Value factor : factors)
      if (place->isBeforeInBlock(factor.getDefiningOp()))
        place = factor.getDefiningOp();
    OpBuilder builder(place->getContext());
    builder.setInsertionPointAfter(place);
    IRMapping mapping;
    for (auto [operand, factor] : llvm::zip_equal(first->getOperands(), factors))
      mapping.map(operand, factor);
    return builder.clone(*first, mapping)->getResult(0);
  }

  /// Adds up `terms`, each as soon as it is there, and puts that in place of the chain.
  void addUp(AddOp end, SmallVector<Value> terms) {
    llvm::sort(terms, [](Value a, Value b) {
      Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
      if (!x && !y)
        return cast<BlockArgument>(a).getArgNumber() < cast<BlockArgument>(b).getArgNumber();
      return x && y ? x->isBeforeInBlock(y) : !x;
    });
    Value sum = terms.front();
    OpBuilder builder(end);
    for (Value term : llvm::drop_begin(terms)) {
      if (Operation *later = term.getDefiningOp())
        builder.setInsertionPointAfter(later);
      else
        builder.setInsertionPointToStart(end->getBlock());
      auto added = AddOp::create(builder, end.getLoc(), end.getY().getType(), sum, term);
      copyPhase(end, added);
      sum = added.getY();
    }
    moveReaders(end, sum.getDefiningOp());
    end.getY().replaceAllUsesWith(sum);
    replaced.push_back(end);
  }

  /// Moves what reads `end` behind `place`, and so what reads that.
  static void moveReaders(AddOp end, Operation *place) {
    if (place->isBeforeInBlock(end))
      return;
    llvm::SmallSetVector<Operation *, 8> readers;
    for (Operation *op = end->getNextNode(); op != place; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value operand) {
            return operand == end.getY() || readers.contains(operand.getDefiningOp());
          }))
        readers.insert(op);
    for (Operation *reader : readers) {
      reader->moveAfter(place);
      place = reader;
    }
  }

  /// What nobody reads any more: values that were joined are known by their ops until all is done.
  void erase() {
    llvm::SmallSetVector<Operation *, 32> open(replaced.begin(), replaced.end());
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!op->use_empty())
        continue;
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            isa_and_nonnull<AddOp, MatmulOp, ReduceSumOp, SliceOp, ReshapeOp>(maker))
          open.insert(maker);
      op->erase();
    }
  }

  func::FuncOp graph;
  const Bytes most; ///< of a factor
  Rows rows;
  SmallVector<Operation *> replaced;
};

//===-- --stow-batch-products ------------------------------------------------------------------===//

struct BatchProductsPass : impl::BatchProductsPassBase<BatchProductsPass> {
  explicit BatchProductsPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    if (target.launchBytes() == 0 || areLaunchesApart(getOperation()))
      return;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (GraphProducts(graph, target.launchBytes()).run())
        setLaunchesJoined(getOperation());
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createBatchProductsPass(const Target &target) {
  return std::make_unique<BatchProductsPass>(target);
}

} // namespace stow
