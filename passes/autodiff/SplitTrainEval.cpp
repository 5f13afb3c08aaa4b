// Training differs from inference in batch normalization (batch statistics, and running ones that
// follow them), in the statistics that the model itself gives a next value, in dropout (which exists
// only there), in max pooling (which remembers where the maximum lay) and where the model says so
// (in_training). This pass makes the two graphs that the rest of the pipeline works on. O(ops).
#include "ir/StowAttentionOps.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowDetachOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_SPLITTRAINEVALPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

/// Replaces the model form's random numbers by those of a counter.
void draw(RandomOp op, Value seed, int64_t stream) {
  OpBuilder builder(op);
  auto drawn = DrawOp::create(builder, op.getLoc(), op.getY().getType(), seed, op.getDistribution(),
                              op.getA(), op.getB(), stream);
  op.getY().replaceAllUsesWith(drawn);
  op.erase();
}

/// Turns a clone of the model into the training graph.
class TrainingGraph {
public:
  TrainingGraph(func::FuncOp graph, const Target &target, int64_t ranks)
      : graph(graph), target(target), ranks(ranks) {
    for (GraphResult &result : resultsOf(graph))
      results.push_back(result);
  }

  LogicalResult convert(BatchNormOp op) {
    Value mean = op.getMean(), variance = op.getVariance();
    if (failed(checkStatistic(op, mean)) || failed(checkStatistic(op, variance)))
      return failure();
    OpBuilder builder(op);
    const Normalized training =
        ranks > 1 ? normalizeOverRanks(builder, op) : normalize(builder, op);
    double count = static_cast<double>(ranks * op.getX().getType().getNumElements() /
                                       op.getX().getType().getDimSize(1));
    double unbias = count > 1 ? count / (count - 1) : 1.0;
    double momentum = op.getMomentum().convertToDouble();
    follow(builder, op.getLoc(), mean, training.mean, momentum, 1.0);
    follow(builder, op.getLoc(), variance, training.variance, momentum, unbias);
    op.getY().replaceAllUsesWith(training.y);
    op.erase();
    return success();
  }

  LogicalResult convert(DropoutOp op) {
    OpBuilder builder(op);
    Value dropped = op.getX();
    if (op.getRatio().convertToDouble() > 0) {
      needSeed();
      dropped = DropoutTrainingOp::create(builder, op.getLoc(), op.getX(), seed, op.getRatio(),
                                          nextStream++);
    }
    op.getY().replaceAllUsesWith(dropped);
    op.erase();
    return success();
  }

  /// Attention drops weights inside.
  LogicalResult convert(AttentionOp op) {
    if (op.getRatio().isZero())
      return success();
    needSeed();
    op.getSeedMutable().assign(seed);
    op.setStream(nextStream++);
    return success();
  }

  LogicalResult convert(RandomOp op) {
    needSeed();
    draw(op, seed, nextStream++);
    return success();
  }

  LogicalResult convert(MaxPoolOp op) {
    OpBuilder builder(op);
    auto training = MaxPoolTrainingOp::create(builder, op.getLoc(), op.getY().getType(),
                                              target.savedType(op), op.getX(), op.getKernel(),
                                              op.getStrides(), op.getPads(), op.getDilations());
    op.getY().replaceAllUsesWith(training.getY());
    op.erase();
    return success();
  }

  /// Returns the new running statistics beside the model's outputs.
  LogicalResult finish() {
    // Conversions above replaced values the terminator returns.
    for (auto [result, value] : llvm::zip(results, graph.front().getTerminator()->getOperands()))
      result.value = value;
    for (auto &[argument, value] : running) {
      StringRef name = argumentAttr(graph, argument.getArgNumber(), kNameAttr);
      if (llvm::any_of(results, [&](const auto &known) { return known.get(kStateAttr) == name; }))
        return graph.emitError() << "the statistic \"" << name
                                 << "\" follows a batch normalization and gets another next value "
                                    "from the model; expected one of the two";
      results.push_back({value, stringAttributes(graph.getContext(), {{kStateAttr, name}})});
    }
    setResults(graph, results);
    return success();
  }

private:
  /// What a normalization gives, and the statistics that it takes of its batch.
  struct Normalized {
    Value y, mean, variance;
  };

  static Normalized normalize(OpBuilder &builder, BatchNormOp op) {
    auto training = BatchNormTrainingOp::create(builder, op.getLoc(), op.getX(), op.getScale(),
                                                op.getBias(), op.getEpsilon());
    training->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return {training.getY(), training.getMean(), training.getVariance()};
  }

  /// By the statistics of all ranks' batches together: the mean first, so that the variance is that of what is left.
  Normalized normalizeOverRanks(OpBuilder &builder, BatchNormOp op) const {
    Formula f(builder, op.getLoc());
    const RankedTensorType type = tensorType(op.getX());
    SmallVector<int64_t> others, channels(type.getRank(), 1);
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      if (axis != 1)
        others.push_back(axis);
    channels[1] = type.getDimSize(1);
    const double share = static_cast<double>(type.getDimSize(1)) /
                         static_cast<double>(ranks * type.getNumElements());
    auto meanOf = [&](Value x) {
      Value sum = f.sum(x, others);
      return f.mul(f.build<AllReduceOp>(sum.getType(), sum, static_cast<uint64_t>(ranks)).getY(),
                   share);
    };
    auto spread = [&](Value vector) { return f.reshape(vector, channels); };
    Value mean = meanOf(op.getX());
    Value centred = f.sub(op.getX(), spread(mean));
    Value variance = meanOf(f.mul(centred, centred));
    Value deviation = f.build<SqrtOp>(f.add(variance, op.getEpsilon().convertToDouble())).getY();
    Value slope = f.div(op.getScale(), deviation);
    return {f.add(f.mul(centred, spread(slope)), spread(op.getBias())), mean, variance};
  }

  void needSeed() {
    if (seed)
      return;
    ArgumentNames names(graph->getParentOfType<ModuleOp>());
    seed = addOwnArgument(graph, names,
                          RankedTensorType::get({}, IntegerType::get(graph.getContext(), 64)),
                          "seed", ArgumentKind::Seed, {}, graph.getLoc());
  }

  LogicalResult checkStatistic(BatchNormOp op, Value statistic) {
    auto argument = dyn_cast<BlockArgument>(statistic);
    if (argument && kindOfArgument(graph, argument.getArgNumber()) == ArgumentKind::Statistic)
      return success();
    return op.emitOpError() << "expects its running statistics to be arguments of kind "
                               "\"statistic\", so that training can update them; use "
                               "freeze-batch-norm to keep them fixed";
  }

  /// running = (1 - momentum) * running + momentum * factor * batch. A statistic shared by several
  /// normalizations follows them in order, as the calls of a shared module do.
  void follow(OpBuilder &builder, Location location, Value statistic, Value batch, double momentum,
              double factor) {
    Value &current = running[cast<BlockArgument>(statistic)];
    Formula f(builder, location);
    current =
        f.add(f.mul(current ? current : statistic, 1 - momentum), f.mul(batch, momentum * factor));
  }

  func::FuncOp graph;
  const Target &target;
  const int64_t ranks; ///< that normalize together
  SmallVector<GraphResult> results;
  llvm::MapVector<BlockArgument, Value> running;
  Value seed;
  int64_t nextStream = 0;
};

/// Outside training, dropout is the identity and what switches something on at random is on as
/// often as it is on average.
void removeDropouts(func::FuncOp graph) {
  for (auto op : llvm::make_early_inc_range(graph.front().getOps<DropoutOp>())) {
    op.getY().replaceAllUsesWith(op.getX());
    op.erase();
  }
  for (auto op : graph.front().getOps<AttentionOp>())
    op.setRatio(llvm::APFloat(0.0));
  for (auto op : llvm::make_early_inc_range(graph.front().getOps<RandomOp>())) {
    if (op.getDistribution() != "bernoulli")
      continue;
    OpBuilder builder(op);
    auto type = op.getY().getType();
    auto mean = ConstantOp::create(
        builder, op.getLoc(),
        DenseElementsAttr::get(type, Attribute(builder.getFloatAttr(type.getElementType(),
                                                                    op.getA().convertToDouble()))));
    op.getY().replaceAllUsesWith(Value(mean));
    op.erase();
  }
}

/// What the model computes in training, or in evaluation.
void chooseMode(func::FuncOp graph, bool training) {
  for (auto op : llvm::make_early_inc_range(graph.front().getOps<InTrainingOp>())) {
    op.getY().replaceAllUsesWith(training ? op.getTraining() : op.getEvaluation());
    op.erase();
  }
}

/// Evaluation leaves statistics as they are.
void dropNextValues(func::FuncOp graph) {
  SmallVector<GraphResult> results = resultsOf(graph);
  llvm::erase_if(results,
                 [](const GraphResult &result) { return !result.get(kStateAttr).empty(); });
  setResults(graph, results);
}

/// Evaluation draws the same numbers every time.
void drawForEvaluation(func::FuncOp graph) {
  int64_t nextStream = 0;
  for (auto op : llvm::make_early_inc_range(graph.front().getOps<RandomOp>())) {
    OpBuilder builder(op);
    auto type = RankedTensorType::get({}, builder.getI64Type());
    draw(op, ConstantOp::create(builder, op.getLoc(), DenseElementsAttr::get(type, int64_t{0})),
         nextStream++);
  }
}

//===--------------------------------------------------------------------------------------------===//
// --stow-split-train-eval
//===--------------------------------------------------------------------------------------------===//

struct SplitTrainEval : impl::SplitTrainEvalPassBase<SplitTrainEval> {
  SplitTrainEval(const Target &target, const SplitTrainEvalPassOptions &options)
      : Base(options), target(target) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto model = requireGraph(module, Role::Model, "import a model first");
    if (!model)
      return signalPassFailure();
    for (auto other : module.getOps<func::FuncOp>())
      if (other != model) {
        module.emitError() << "has a function @" << other.getSymName()
                           << " beside the model; expects a module of form \"model\"";
        return signalPassFailure();
      }
    OpBuilder builder(model);
    auto makeGraph = [&](Role role) {
      func::FuncOp graph = model.clone();
      setRole(graph, role);
      graph.setSymName(stringifyRole(role));
      builder.insert(graph);
      return graph;
    };
    func::FuncOp train = makeGraph(Role::Train), eval = makeGraph(Role::Eval);
    model.erase();
    module->removeAttr(kFormAttr);
    chooseMode(train, true);
    chooseMode(eval, false);
    dropNextValues(eval);
    removeDropouts(eval);
    for (auto norm : eval.front().getOps<BatchNormOp>())
      norm.setFrozen(false);
    drawForEvaluation(eval);
    removeDetached(eval);
    if (disableDropout)
      removeDropouts(train);
    if (failed(convertTraining(train)))
      signalPassFailure();
  }

  LogicalResult convertTraining(func::FuncOp train) {
    TrainingGraph graph(train, target, ranks);
    bool failedOnce = false;
    for (Operation &op : llvm::make_early_inc_range(train.front())) {
      auto converted = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                           .Case<BatchNormOp>([&](auto norm) {
                             if (!freezeBatchNorm && !norm.getFrozen())
                               return graph.convert(norm);
                             norm.setFrozen(false); // what it does in any graph but a model
                             return success();
                           })
                           .Case<DropoutOp, AttentionOp, RandomOp, MaxPoolOp>(
                               [&](auto other) { return graph.convert(other); })
                           .Default(success());
      failedOnce |= failed(converted);
    }
    return failure(failed(graph.finish()) || failedOnce);
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createSplitTrainEvalPass(const Target &target,
                                               const SplitTrainEvalPassOptions &options) {
  return std::make_unique<SplitTrainEval>(target, options);
}

} // namespace stow
