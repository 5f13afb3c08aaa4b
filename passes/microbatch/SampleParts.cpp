#include "passes/microbatch/SampleParts.h"

#include "ir/Graphs.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowIndexOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowLossOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <absl/strings/str_cat.h>
#include <cmath>
#include <limits>

using namespace mlir;

namespace stow {
namespace {

/// What a value is to the samples; a count is of something of which each has as many.
enum class Relation : uint8_t { Fixed, Rows, Sum, Mean, Count };

/// True for the number of all labels, of which none is left out.
bool countsAll(Operation *op) {
  auto count = dyn_cast<CountValidOp>(op);
  return count && count.getIgnoreIndex() == std::numeric_limits<int64_t>::min();
}

/// The op's dimension along which elements meet, if it is one of those.
std::optional<int64_t> meetingDimension(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<SoftmaxOp, LogSoftmaxOp, CumSumOp, TopKOp, TakeAlongOp>(
          [](auto along) { return along.getAxis(); })
      .Case<LayerNormOp, RmsNormOp>([](auto norm) { return norm.getX().getType().getRank() - 1; })
      .Default(std::nullopt);
}

/// True for ops whose samples stay apart wherever they lie, given that results grow as operands do.
bool keepsSamplesAnywhere(Operation *op) {
  return isa<ElementwiseOpInterface, ReshapeOp, TransposeOp, ConcatOp, SliceOp, PadOp, MatmulOp,
             EmbeddingOp>(op) ||
         op->hasTrait<Reduces>() || meetingDimension(op);
}

class Comparison {
public:
  Comparison(func::FuncOp graph, func::FuncOp other, int64_t batch, int64_t otherBatch)
      : graph(graph), other(other), batch(batch), otherBatch(otherBatch) {}

  SampleParts run() {
    SampleParts parts;
    if (!compareArguments() || !compareOps() || !readResults(parts))
      parts.obstacle = obstacle;
    return parts;
  }

private:
  bool fail(Operation *op, const std::string &why) {
    obstacle = op ? absl::StrCat(sourcePlaceOf(op->getLoc()), " (",
                                 op->getName().getStringRef().str(), ") ", why)
                  : why;
    return false;
  }

  bool compareArguments() {
    if (graph.getNumArguments() != other.getNumArguments())
      return fail(nullptr, "the graph of another batch has other arguments");
    for (auto [argument, twin] : llvm::zip(graph.getArguments(), other.getArguments())) {
      twins[argument] = twin;
      const bool isState = isStateArgument(graph, argument.getArgNumber());
      auto grown = growth(argument);
      if (!grown || (!isState && !*grown) || (*grown && !growsInFirst(argument)))
        return fail(nullptr, absl::StrCat("argument ", argument.getArgNumber(),
                                          " has no rows of the batch"));
      relations[argument] = *grown ? Relation::Rows : Relation::Fixed;
    }
    return true;
  }

  bool compareOps() {
    auto twin = other.front().begin(), end = other.front().end();
    for (Operation &op : graph.front()) {
      if (twin == end || twin->getName() != op.getName() ||
          twin->getNumOperands() != op.getNumOperands() ||
          twin->getNumResults() != op.getNumResults())
        return fail(&op, "has no counterpart in the graph of another batch");
      for (auto [operand, otherOperand] : llvm::zip(op.getOperands(), twin->getOperands()))
        if (twins.lookup(operand) != otherOperand)
          return fail(&op, "reads something else in the graph of another batch");
      for (auto [result, otherResult] : llvm::zip(op.getResults(), twin->getResults()))
        twins[result] = otherResult;
      if (!op.hasTrait<OpTrait::IsTerminator>() && !relate(&op))
        return false;
      ++twin;
    }
    return true;
  }

  /// True where the value grows as the batch does, false where it does not; absent: otherwise.
  std::optional<bool> growth(Value value) const {
    auto type = cast<RankedTensorType>(value.getType());
    auto its = cast<RankedTensorType>(twins.lookup(value).getType());
    if (type == its)
      return false;
    if (type.getRank() != its.getRank() || type.getElementType() != its.getElementType() ||
        type.getNumElements() * otherBatch != its.getNumElements() * batch)
      return std::nullopt;
    return true;
  }

  bool growsIn(Value value, int64_t dim) const {
    return cast<RankedTensorType>(value.getType()).getDimSize(dim) !=
           cast<RankedTensorType>(twins.lookup(value).getType()).getDimSize(dim);
  }

  bool growsInFirst(Value value) const {
    for (int64_t dim = 1; dim < cast<RankedTensorType>(value.getType()).getRank(); ++dim)
      if (growsIn(value, dim))
        return false;
    return true;
  }

  bool relate(Operation *op) {
    bool hasRows = false, hasStatistic = false;
    for (Value operand : op->getOperands()) {
      const Relation relation = relations.lookup(operand);
      hasRows |= relation == Relation::Rows;
      hasStatistic |= relation != Relation::Fixed && relation != Relation::Rows;
    }
    if (hasRows && hasStatistic)
      return fail(op, "brings a statistic of the batch back to its samples");
    if (hasStatistic)
      return relateStatistic(op);
    return hasRows ? relateRows(op) : relateFixed(op);
  }

  bool relateFixed(Operation *op) {
    for (Value result : op->getResults()) {
      auto grown = growth(result);
      if (!grown || (*grown && !isRepeated(op)))
        return fail(op, "gives each sample of the batch something of its own");
      relations[result] = *grown ? Relation::Rows : Relation::Fixed;
    }
    return true;
  }

  /// True where every sample gets the same.
  static bool isRepeated(Operation *op) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      return value && value.isSplat();
    }
    return isa<BroadcastToOp>(op);
  }

  bool relateRows(Operation *op) {
    if (isa<DrawOp>(op) || !staysApart(op))
      return fail(op, "brings samples of the batch together");
    for (Value result : op->getResults()) {
      auto grown = growth(result);
      if (!grown)
        return fail(op, "has a result that does not grow as the batch does");
      if (*grown)
        relations[result] = Relation::Rows;
      else if (isa<ReduceSumOp, ReduceSumSquaresOp>(op))
        relations[result] = Relation::Sum;
      else if (isa<ReduceMeanOp>(op))
        relations[result] = Relation::Mean;
      else if (countsAll(op))
        relations[result] = Relation::Count;
      else
        return fail(op, "makes one of all samples");
    }
    return true;
  }

  bool staysApart(Operation *op) const {
    if (!keepsSamplesAnywhere(op))
      return llvm::all_of(op->getOperands(), [&](Value value) { return growsInFirst(value); }) &&
             llvm::all_of(op->getResults(), [&](Value value) { return growsInFirst(value); });
    if (auto product = dyn_cast<MatmulOp>(op)) {
      const int64_t rank = product.getA().getType().getRank();
      return !growsIn(product.getA(), product.getTransposeA() ? rank - 2 : rank - 1);
    }
    std::optional<int64_t> along = meetingDimension(op);
    return !along || llvm::none_of(op->getOperands(), [&](Value value) {
      return *along < cast<RankedTensorType>(value.getType()).getRank() && growsIn(value, *along);
    });
  }

  /// A statistic stays one under what is linear in it.
  bool relateStatistic(Operation *op) {
    if (op->getNumResults() != 1)
      return fail(op, kNotLinear);
    Relation &relation = relations[op->getResult(0)];
    if (isa<ReshapeOp, TransposeOp, NegOp>(op)) {
      relation = relations.lookup(op->getOperand(0));
      return true;
    }
    auto scaled = [&](Value statistic, Value factor, bool divides) {
      auto change = ratioOf(factor);
      if (relations.lookup(factor) != Relation::Fixed || !change)
        return false;
      relation = relations.lookup(statistic);
      const double asBatch =
          divides ? double(otherBatch) / double(batch) : double(batch) / double(otherBatch);
      if (*change == 1)
        return true;
      if (relation != Relation::Sum || std::abs(*change / asBatch - 1) > 1e-6)
        return false;
      relation = Relation::Mean;
      return true;
    };
    bool isLinear = false;
    if (auto product = dyn_cast<MulOp>(op)) {
      const bool first = relations.lookup(product.getA()) != Relation::Fixed;
      isLinear = scaled(first ? product.getA() : product.getB(),
                        first ? product.getB() : product.getA(), false);
    } else if (auto quotient = dyn_cast<DivOp>(op)) {
      if (relations.lookup(quotient.getB()) == Relation::Count) {
        isLinear = relations.lookup(quotient.getA()) == Relation::Sum;
        relation = Relation::Mean;
      } else {
        isLinear = scaled(quotient.getA(), quotient.getB(), true);
      }
    } else if (isa<AddOp, SubOp>(op)) {
      relation = relations.lookup(op->getOperand(0));
      isLinear = relation == relations.lookup(op->getOperand(1)) && relation != Relation::Count;
    }
    return isLinear || fail(op, kNotLinear);
  }

  /// What a number is at the other batch, over what it is; absent for what is no one known number, or
  /// a parameter.
  std::optional<double> ratioOf(Value value) const {
    auto constant = value.getDefiningOp<ConstantOp>();
    auto twin = twins.lookup(value).getDefiningOp<ConstantOp>();
    if (!constant || !twin)
      return std::nullopt;
    auto own = dyn_cast<DenseElementsAttr>(constant.getValue());
    auto its = dyn_cast<DenseElementsAttr>(twin.getValue());
    if (!own || !its || !own.isSplat() || !its.isSplat() || !isa<FloatType>(own.getElementType()))
      return std::nullopt;
    return its.getSplatValue<APFloat>().convertToDouble() /
           own.getSplatValue<APFloat>().convertToDouble();
  }

  /// True where a value's rows are the samples, in order: through reshapes that keep them outermost.
  bool hasSamplesOutermost(Value value) const {
    auto type = cast<RankedTensorType>(value.getType());
    if (!growsInFirst(value))
      return false;
    if (type.getDimSize(0) == batch)
      return true;
    auto reshape = value.getDefiningOp<ReshapeOp>();
    return reshape && hasSamplesOutermost(reshape.getX());
  }

  bool readResults(SampleParts &parts) {
    for (Value value : graph.front().getTerminator()->getOperands())
      switch (relations.lookup(value)) {
      case Relation::Rows:
        if (!hasSamplesOutermost(value))
          return fail(value.getDefiningOp(), "gives a result whose rows are not the samples");
        parts.results.push_back(Joining::Rows);
        break;
      case Relation::Sum:
        parts.results.push_back(Joining::Sum);
        break;
      case Relation::Count:
        return fail(value.getDefiningOp(), kNotLinear);
      case Relation::Mean:
      case Relation::Fixed: // the same for every part
        parts.results.push_back(Joining::Mean);
        break;
      }
    return true;
  }

  static constexpr const char *kNotLinear =
      "makes of a statistic of the batch what does not follow from those of its parts";

  func::FuncOp graph, other;
  const int64_t batch, otherBatch;
  llvm::DenseMap<Value, Value> twins; ///< in `other`
  llvm::DenseMap<Value, Relation> relations;
  std::string obstacle;
};

} // namespace

SampleParts samplePartsOf(func::FuncOp graph, func::FuncOp other, int64_t batch,
                          int64_t otherBatch) {
  return Comparison(graph, other, batch, otherBatch).run();
}

} // namespace stow
