// Recognizes attention, however an exporter spells it, and gives it to a call that stores no scores:
// O(ops).
//
// The chain is read upwards from the softmax to the product of queries and keys and downwards to the
// product with the values:
//
//   q, k - (scale) - matmul - { scale | mask | reshape }* - softmax - (0 for NaN) - (dropout) -
//   (reshape) - matmul - (0 for rows without a key) - y
//
// Every value between the two products has one reader; scores whose rows without a key are 0 beforehand have their
// maximum as another. Reshapes split or join leading dimensions, or move heads that share keys between the heads and the rows.
#include "passes/rewrite/AttentionMask.h"
#include "passes/rewrite/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_TILEATTENTIONPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The factor by which `op` scales an operand, and that operand, which has the result's type.
std::optional<std::pair<double, Value>> scaling(Operation *op) {
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return std::nullopt;
  for (unsigned side : {0u, 1u}) {
    std::optional<double> number = numberOf(op->getOperand(1 - side));
    if (!number || *number == 0 || op->getOperand(side).getType() != op->getResult(0).getType() ||
        (isa<DivOp>(op) && side == 1))
      continue;
    return std::pair(isa<DivOp>(op) ? 1 / *number : *number, op->getOperand(side));
  }
  return std::nullopt;
}

/// True when the gradient of `value` may be asked for.
bool mayBeTrained(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (Operation *op = reached[i].getDefiningOp()) {
      for (Value operand : op->getOperands())
        if (isa<FloatType>(tensorType(operand).getElementType()))
          reached.insert(operand);
      continue;
    }
    auto argument = cast<BlockArgument>(reached[i]);
    auto graph = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto kind = graph ? kindOfArgument(graph, argument.getArgNumber()) : std::nullopt;
    if (kind != ArgumentKind::Statistic && kind != ArgumentKind::Frozen)
      return true;
  }
  return false;
}

//===-- The chain -----------------------------------------------------------------------------===//

/// What stands between the two products, read and not yet changed.
class Chain {
public:
  /// None where something does not fit.
  static std::optional<Chain> of(SoftmaxOp softmax) {
    Chain chain;
    Value scores = chain.readEmptyRows(softmax.getX());
    if (static_cast<int64_t>(softmax.getAxis()) != tensorType(softmax.getY()).getRank() - 1 ||
        !chain.readDown(softmax.getY()) || !chain.readZeroResult() || !chain.readUp(scores))
      return std::nullopt;
    return chain;
  }

  MatmulOp product, mix; ///< of queries and keys; of weights and values
  Value y;               ///< the result, with its zeros
  double scale = 1, ratio = 0;
  SmallVector<Mask> masks;    ///< the last first
  SmallVector<int64_t> shape; ///< of the scores where they are masked and made weights
  bool zeroRows = false;

private:
  Value none; ///< holds for rows of scores without a key, where the graph looks for them

  /// The scores before a select put 0 in place of rows of minus infinity, which `none` then tells.
  Value readEmptyRows(Value scores) {
    auto select = scores.getDefiningOp<SelectOp>();
    auto compare = select ? select.getCondition().getDefiningOp<CompareOp>() : nullptr;
    auto largest = compare ? compare.getA().getDefiningOp<ReduceMaxOp>() : nullptr;
    if (!largest || compare.getPredicate() != "eq" || numberOf(compare.getB()) != -kInfinity ||
        !largest.getKeepdims() || largest.getAxes() != ArrayRef(tensorType(scores).getRank() - 1) ||
        select.getB() != largest.getX() || numberOf(select.getA()) != 0.0 ||
        scores.getType() != largest.getX().getType() || !scores.hasOneUse() ||
        !largest.getX().hasNUses(2) || !largest.getY().hasOneUse() ||
        !compare.getMask().hasNUses(2))
      return scores;
    none = compare.getMask();
    return largest.getX();
  }

  /// Behind such scores the result has to be 0 for the same rows; false where it is not.
  bool readZeroResult() {
    y = mix.getY();
    if (!none)
      return true;
    auto select = y.hasOneUse() ? dyn_cast<SelectOp>(*y.getUsers().begin()) : nullptr;
    if (!select || select.getCondition() != none || select.getB() != y ||
        numberOf(select.getA()) != 0.0 || select.getY().getType() != y.getType())
      return false;
    zeroRows = true;
    y = select.getY();
    return true;
  }

  bool readDown(Value weights) {
    shape.assign(tensorType(weights).getShape().begin(), tensorType(weights).getShape().end());
    weights = readZeroRows(weights);
    while (weights.hasOneUse()) {
      Operation *reader = *weights.getUsers().begin();
      if (auto dropout = dyn_cast<DropoutOp>(reader)) {
        if (ratio != 0)
          return false;
        ratio = dropout.getRatio().convertToDouble();
      } else if (auto matmul = dyn_cast<MatmulOp>(reader)) {
        mix = matmul;
        return matmul.getA() == weights && !matmul.getTransposeA() && !matmul.getBias();
      } else if (!isa<ReshapeOp>(reader)) {
        return false;
      }
      weights = reader->getResult(0);
    }
    return false;
  }

  /// The weights with 0 in place of NaN, where a select behind the softmax puts it there.
  Value readZeroRows(Value weights) {
    CompareOp compare;
    SelectOp select;
    for (Operation *reader : weights.getUsers())
      if (auto found = dyn_cast<CompareOp>(reader))
        compare = found;
      else if (auto found = dyn_cast<SelectOp>(reader))
        select = found;
    if (!compare || !select || compare.getA() != weights || compare.getB() != weights ||
        !compare.getMask().hasOneUse() || select.getCondition() != compare.getMask() ||
        select.getY().getType() != weights.getType())
      return weights;
    const bool isNumber = compare.getPredicate() == "eq";
    Value kept = isNumber ? select.getA() : select.getB(),
          other = isNumber ? select.getB() : select.getA();
    const auto readers =
        llvm::SmallPtrSet<Operation *, 2>(weights.user_begin(), weights.user_end());
    if (!(isNumber || compare.getPredicate() == "ne") || kept != weights ||
        numberOf(other) != 0.0 || readers.size() != 2)
      return weights;
    zeroRows = true;
    return select.getY();
  }

  bool readUp(Value scores) {
    for (bool isFirst = true; scores.hasOneUse() || (isFirst && none); isFirst = false) {
      Operation *op = scores.getDefiningOp();
      if (!op)
        return false;
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        product = matmul;
        return !matmul.getBias();
      }
      if (auto found = scaling(op)) {
        scale *= found->first;
        scores = found->second;
      } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
        scores = reshape.getX();
      } else if (auto cast = dyn_cast<CastOp>(op); cast && isSame(cast)) {
        scores = cast.getX();
      } else if (auto next = readMask(op)) {
        scores = *next;
      } else {
        return false;
      }
    }
    return false;
  }

  static bool isSame(CastOp cast) { return cast.getX().getType() == cast.getY().getType(); }

  /// What `op` masks, noting how.
  std::optional<Value> readMask(Operation *op) {
    if (!llvm::equal(tensorType(op->getResult(0)).getShape(), shape))
      return std::nullopt;
    if (auto select = dyn_cast<SelectOp>(op)) {
      for (bool keeps : {true, false}) {
        Value scores = keeps ? select.getA() : select.getB(),
              other = keeps ? select.getB() : select.getA();
        std::optional<double> excluded = numberOf(other);
        if (!excluded || *excluded > kExcluded || scores.getType() != op->getResult(0).getType())
          continue;
        masks.push_back({select.getCondition(), keeps, *excluded});
        return scores;
      }
      return std::nullopt;
    }
    if (!isa<AddOp>(op) || scale != 1)
      return std::nullopt;
    for (unsigned side : {0u, 1u}) {
      Value scores = op->getOperand(side);
      if (scores.getType() != op->getResult(0).getType() || !isScores(scores))
        continue;
      masks.push_back({op->getOperand(1 - side)});
      return scores;
    }
    return std::nullopt;
  }

  /// True when `value` comes from a product by what a chain consists of.
  static bool isScores(Value value) {
    for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
      if (isa<MatmulOp>(op))
        return true;
      if (auto found = scaling(op))
        value = found->second;
      else if (isa<ReshapeOp, CastOp>(op))
        value = op->getOperand(0);
      else if (auto select = dyn_cast<SelectOp>(op))
        value = numberOf(select.getB()) ? select.getA() : select.getB();
      else if (isa<AddOp>(op))
        return isScores(op->getOperand(0)) || isScores(op->getOperand(1));
      else
        return false;
    }
    return false;
  }
};

//===-- The op in its stead -------------------------------------------------------------------===//

class Tiling {
public:
  Tiling(Chain &chain, const Target &target, MaskReader &reader)
      : chain(chain), target(target), reader(reader), builder(chain.mix),
        location(chain.product.getLoc()) {}

  /// Replaces the chain; leaves it as it is, and false, where shapes, masks or the target do not fit.
  void run() {
    const auto shape = ArrayRef(chain.shape);
    if (shape.size() < 2)
      return;
    rows = shape.end()[-2], keys = shape.end()[-1];
    Value q = chain.product.getA(), k = chain.product.getB(), v = chain.mix.getB();
    const auto lead = shape.drop_back(2);
    if (!headsFit(q, k, v) || !readMasks())
      return;
    q = oriented(unscaled(q), chain.product.getTransposeA());
    k = oriented(unscaled(k), !chain.product.getTransposeB());
    v = oriented(v, chain.mix.getTransposeB());
    q = withLead(q, lead, rows);
    if (!sharesKeys) {
      k = withLead(k, lead, keys);
      v = withLead(v, lead, keys);
      Value ownK = beforeRepeating(k), ownV = beforeRepeating(v);
      if (ownK && ownV && leadOf(ownK) == leadOf(ownV)) {
        k = ownK;
        v = ownV;
      }
    }
    replace(q, k, v);
  }

private:
  /// Extents of the leading dimensions of a factor.
  static ArrayRef<int64_t> leadOf(Value value) { return tensorType(value).getShape().drop_back(2); }

  /// True where queries, keys and values have as many matrices as there are scores, or heads of
  /// queries share keys by lying among the rows.
  bool headsFit(Value q, Value k, Value v) {
    const auto lead = ArrayRef(chain.shape).drop_back(2);
    const int64_t matrices = llvm::product_of(lead);
    const auto scores = tensorType(chain.product.getY()).getShape();
    if (leadOf(q) != leadOf(k) || leadOf(k) != leadOf(v) || scores.drop_back(2) != leadOf(q) ||
        scores.back() != keys || tensorType(chain.mix.getA()).getShape() != scores)
      return false;
    if (scores.end()[-2] == rows && llvm::product_of(leadOf(k)) == matrices)
      return true;
    sharesKeys = lead.size() == leadOf(k).size() && !lead.empty() &&
                 lead.drop_back() == leadOf(k).drop_back() && lead.back() % leadOf(k).back() == 0 &&
                 lead.back() / leadOf(k).back() * rows == scores.end()[-2];
    return sharesKeys;
  }

  /// Splits the masks into a band, documents and the rest; false where one cannot be taken.
  bool readMasks() {
    SmallVector<std::pair<Mask, MaskContent>> masks; // that leave something out
    for (const Mask &mask : chain.masks)
      for (const auto &part : reader.read(mask, rows, keys))
        if (part.second.leaves != Leaves::All)
          masks.push_back(part);
    const bool keepsOne = keepAKey(masks);
    for (const auto &[mask, content] : masks) {
      // Where all keys may be excluded, a finite number in their place gives weights, not NaN, and their scores
      // no gradients.
      if (mask.isBoolean() && mask.excluded != -kInfinity && !keepsOne)
        return false;
      if (content.leaves == Leaves::Band && (keepsOne || content.isInfinite) &&
          takesDocuments(content)) {
        band.narrow(content.band);
        continue;
      }
      if (!mask.isBoolean() && mayBeTrained(mask.value))
        return false;
      rest.push_back(mask);
    }
    return band.keepsOne(rows, keys);
  }

  /// Notes the documents of a mask; false where another has others.
  bool takesDocuments(const MaskContent &content) {
    if (!documents)
      documents = content.documents;
    return !content.documents || *documents == *content.documents;
  }

  /// True when every query is known to keep a key behind all masks.
  bool keepAKey(ArrayRef<std::pair<Mask, MaskContent>> masks) const {
    if (masks.size() == 1)
      return masks[0].second.keepsOne;
    Band all;
    std::optional<Documents> shared;
    for (const auto &[mask, content] : masks) {
      if (content.leaves != Leaves::Band || (content.documents && !content.documents->areShared()))
        return false;
      all.narrow(content.band);
      shared = content.documents ? content.documents : shared;
    }
    return stow::keepsOne(all, shared, rows, keys);
  }

  /// `x` without constant factors, which the chain's scale takes; behind a transpose as well.
  Value unscaled(Value x) {
    if (auto found = scaling(x.getDefiningOp())) {
      chain.scale *= found->first;
      return unscaled(found->second);
    }
    Operation *op = x.getDefiningOp();
    if (!isa_and_nonnull<TransposeOp, ReshapeOp>(op) || !op->hasOneUse() ||
        !scaling(op->getOperand(0).getDefiningOp()))
      return x;
    Operation *clone = builder.clone(*op);
    clone->setOperand(0, unscaled(op->getOperand(0)));
    return clone->getResult(0);
  }

  /// `x` with its last two dimensions exchanged where `exchanged`.
  Value oriented(Value x, bool exchanged) {
    if (!exchanged)
      return x;
    if (Value before = beforeExchange(x))
      return before;
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
    std::swap(order.end()[-1], order.end()[-2]);
    return builder.createOrFold<TransposeOp>(location, x, order);
  }

  /// What `x` was before the graph exchanged its last two dimensions, or null; exporters join and split
  /// leading dimensions around it.
  Value beforeExchange(Value x) {
    const int64_t rank = tensorType(x).getRank();
    if (auto transpose = x.getDefiningOp<TransposeOp>()) {
      SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
      std::swap(order.end()[-1], order.end()[-2]);
      return transpose.getPermutation() == ArrayRef(order) ? transpose.getX() : Value();
    }
    auto reshape = x.getDefiningOp<ReshapeOp>();
    if (!reshape || tensorType(reshape.getX()).getRank() < 2 ||
        tensorType(reshape.getX()).getShape().take_back(2) != tensorType(x).getShape().take_back(2))
      return {};
    Value before = beforeExchange(reshape.getX());
    return before ? withLead(before, leadOf(x), tensorType(before).getShape().end()[-2]) : Value();
  }

  /// `x` [..., H * G, S, D] before each of its H matrices was repeated G times; null where it was not.
  Value beforeRepeating(Value x) {
    auto joined = x.getDefiningOp<ReshapeOp>();
    auto repeated = joined ? joined.getX().getDefiningOp<BroadcastToOp>() : nullptr;
    if (!repeated || tensorType(x).getRank() < 3)
      return {};
    auto from = tensorType(repeated.getX()), to = tensorType(repeated.getY());
    const auto shape = tensorType(x).getShape();
    const int64_t rank = to.getRank();
    if (rank != static_cast<int64_t>(shape.size()) + 1 || from.getRank() != rank ||
        from.getDimSize(rank - 3) != 1 || to.getShape().take_back(2) != shape.take_back(2))
      return {};
    for (int64_t i = 0; i < rank; ++i)
      if (i != rank - 3 && from.getDimSize(i) != to.getDimSize(i))
        return {};
    return withLead(repeated.getX(), to.getShape().drop_back(3), shape.end()[-2]);
  }

  Value withLead(Value x, ArrayRef<int64_t> lead, int64_t inner) {
    SmallVector<int64_t> shape(lead);
    shape.append({inner, tensorType(x).getShape().back()});
    for (; tensorType(x).getShape() != ArrayRef(shape); x = x.getDefiningOp<ReshapeOp>().getX())
      if (!x.getDefiningOp<ReshapeOp>())
        break;
    return builder.createOrFold<ReshapeOp>(
        location, RankedTensorType::get(shape, tensorType(x).getElementType()), x);
  }

  Value number(double value, Type element) {
    auto type = RankedTensorType::get({}, element);
    return ConstantOp::create(builder, location,
                              DenseElementsAttr::get(type, builder.getFloatAttr(element, value)));
  }

  /// The rest of the masks as one: as it is where it is alone and boolean, else as floats to add.
  Value maskValue() {
    if (rest.empty())
      return {};
    if (rest.size() == 1 && rest[0].isBoolean() && rest[0].keeps && rest[0].excluded == -kInfinity)
      return rest[0].value;
    Type element = builder.getF32Type();
    Value sum;
    for (const Mask &mask : llvm::reverse(rest)) {
      Value added = mask.value;
      if (mask.isBoolean()) {
        Value kept = sum ? sum : number(0, element), excluded = number(mask.excluded, element);
        sum = SelectOp::create(builder, location, mask.value, mask.keeps ? kept : excluded,
                               mask.keeps ? excluded : kept);
        continue;
      }
      if (tensorType(added).getElementType() != element) {
        added = CastOp::create(builder, location,
                               RankedTensorType::get(tensorType(added).getShape(), element), added);
      }
      sum = sum ? Value(AddOp::create(builder, location, sum, added)) : added;
    }
    return sum;
  }

  void replace(Value q, Value k, Value v) {
    std::optional<int64_t> diagonal, window;
    if (!band.isAll())
      diagonal = band.last.value_or(keys - 1);
    if (band.first)
      window = *diagonal - *band.first + 1;
    auto integer = [&](std::optional<int64_t> value) {
      return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
    };
    Value mask = maskValue(), ofQueries, ofKeys;
    if (documents) {
      ofQueries = documents->queries.tensor(builder, location);
      ofKeys = documents->areShared() ? ofQueries : documents->keys.tensor(builder, location);
    }
    auto attention =
        AttentionOp::create(builder, location, q, k, v, mask, ofQueries, ofKeys, Value(),
                            builder.getF64FloatAttr(chain.scale), integer(diagonal),
                            integer(window), builder.getBoolAttr(chain.zeroRows),
                            builder.getF64FloatAttr(chain.ratio), builder.getI64IntegerAttr(0));
    if (!isTaken(attention)) {
      eraseUnused(attention);
      return;
    }
    Value y = builder.createOrFold<ReshapeOp>(location, chain.y.getType(), attention.getY());
    chain.y.replaceAllUsesWith(y);
    eraseUnused(chain.y.getDefiningOp());
  }

  /// Erases `op` and what only it read.
  static void eraseUnused(Operation *op) {
    llvm::SetVector<Operation *> left;
    left.insert(op);
    while (!left.empty()) {
      Operation *last = left.pop_back_val();
      if (!last->use_empty())
        continue;
      llvm::SmallSetVector<Operation *, 4> read;
      for (Value operand : last->getOperands())
        if (Operation *source = operand.getDefiningOp())
          read.insert(source);
      last->erase();
      left.insert(read.begin(), read.end());
    }
  }

  bool isTaken(AttentionOp attention) {
    if (target.decomposes(attention))
      return false;
    return llvm::all_of(attention->getOpOperands(), [&](OpOperand &operand) {
      auto type = dyn_cast<FloatType>(tensorType(operand.get()).getElementType());
      return !type || target.takesType(attention, operand.getOperandNumber(), type);
    });
  }

  Chain &chain;
  const Target &target;
  MaskReader &reader;
  OpBuilder builder;
  Location location;
  int64_t rows = 0, keys = 0;
  bool sharesKeys = false;
  Band band;
  std::optional<Documents> documents;
  SmallVector<Mask> rest;
};

//===-- --stow-tile-attention ----------------------------------------------------------------===//

struct TileAttentionPass : impl::TileAttentionPassBase<TileAttentionPass> {
  explicit TileAttentionPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    MaskReader reader;
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (SoftmaxOp softmax : llvm::to_vector(graph.getOps<SoftmaxOp>()))
        if (std::optional<Chain> chain = Chain::of(softmax))
          Tiling(*chain, target, reader).run();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createTileAttentionPass(const Target &target) {
  return std::make_unique<TileAttentionPass>(target);
}

} // namespace stow
