// Puts the optimizer inside the backward: a parameter is updated as soon as its gradient exists and
// nothing reads its old value any more, so that the gradient dies at once instead of living until
// the backward ends (Lv et al., "Full Parameter Fine-tuning for Large Language Models with Limited
// Resources", 2023, call this fused backward LOMO). O(ops + uses).
//
// Clipping by the norm of all gradients is the exception: no update may start before the last
// gradient exists, so all of them are alive together, and the plan says so.
#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/LossScale.h"
#include "passes/autodiff/OptimizerUpdates.h"
#include "passes/autodiff/ParameterGroups.h"
#include "passes/autodiff/Passes.h"
#include "passes/autodiff/SpecOptions.h"
#include "runtime/base/Shards.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_ATTACHOPTIMIZERPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

/// The later of `last` and the readers of `value`, views' readers included. The terminator does not
/// count.
Operation *lastReader(Value value, Operation *last) {
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    if (reader->hasTrait<OpTrait::IsTerminator>())
      continue;
    if (!last || last->isBeforeInBlock(reader))
      last = reader;
    auto alias = dyn_cast<AliasOpInterface>(reader);
    if (alias && alias.getViewedOperand() == use.getOperandNumber())
      last = lastReader(reader->getResult(0), last);
  }
  return last;
}

/// True for parameters whose state may be kept in 8 bits: tables have rows that are rarely updated.
bool isForEightBits(BlockArgument parameter) {
  RankedTensorType type = tensorType(parameter);
  return type.getRank() >= 2 && type.getElementType().isF32() &&
         isWorthEightBits(type.getNumElements()) &&
         llvm::none_of(parameter.getUsers(), [](Operation *user) {
           return isa<EmbeddingOp, Conv2dOp, Conv2dGradInputOp>(user);
         });
}

/// What buffers are a multiple of on devices: of less than that no shard takes less than the whole.
constexpr Bytes kLineBytes = 64;

/// True for what is the same for all elements.
bool isScalar(Value value) { return tensorType(value).getRank() == 0; }

//===--------------------------------------------------------------------------------------------===//
// --stow-attach-optimizer
//===--------------------------------------------------------------------------------------------===//

/// Marks what updates are computed from as part of the backward.
class BackwardMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
  }
};

struct AttachOptimizer : impl::AttachOptimizerPassBase<AttachOptimizer> {
  using Base::Base;

  void runOnOperation() override {
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train || failed(checkLimits()) || failed(attach(train)))
      return signalPassFailure();
    if (findGraph(getOperation(), Role::Accumulate)) {
      train.setSymName(stringifyRole(Role::Commit));
      setRole(train, Role::Commit);
    }
    getOperation()->setAttr(kFormAttr, StringAttr::get(&getContext(), "step"));
    SmallVector<StringRef> lines(notes.begin(), notes.end());
    if (!lines.empty())
      getOperation()->setAttr(kNotesAttr, Builder(&getContext()).getStrArrayAttr(lines));
  }

  LogicalResult checkLimits() {
    ModuleOp module = getOperation();
    for (auto [name, limit] : {std::pair("clip-norm", clipNorm.getValue()),
                               std::pair("clip-value", clipValue.getValue())})
      if (!(limit >= 0) || std::isinf(limit))
        return module.emitError() << name << ": expected a number above 0, found " << limit;
    if (!llvm::is_contained({"dynamic", "delayed"}, lossScale))
      return module.emitError() << "loss-scale: expected dynamic or delayed, found \"" << lossScale
                                << "\"";
    if (clipNorm > 0 && clipValue > 0)
      return module.emitError("clip-norm and clip-value both limit gradients; give one of them");
    return success();
  }

  LogicalResult attach(func::FuncOp train) {
    SmallVector<GraphResult> kept, gradients;
    for (const GraphResult &result : resultsOf(train))
      (result.get("stow.gradient_of").empty() ? kept : gradients).push_back(result);
    Builder types(&getContext());
    parameters = argumentsByName(train);
    names.emplace(getOperation());
    learningRate = addOwnArgument(train, *names, RankedTensorType::get({}, types.getF32Type()),
                                  "learning_rate", ArgumentKind::LearningRate, {}, train.getLoc());
    if (readsStep(optimizer.kind))
      step = addOwnArgument(train, *names, RankedTensorType::get({}, types.getI64Type()), "step",
                            ArgumentKind::Step, {}, train.getLoc());
    auto assigned = groupsOf(gradients);
    if (failed(assigned))
      return failure();
    chooseEightBits(gradients);
    chooseShards(gradients);
    BackwardMarker marker;
    OpBuilder builder(&getContext(), &marker);
    scaling = LossScale::of(train, lossScale == "delayed" ? LossScaleMode::Delayed
                                                          : LossScaleMode::Dynamic);
    if (scaling && failed(scaling->judge(builder, gradients)))
      return failure();
    if (clipNorm > 0)
      clipByNorm(builder, train, gradients);
    else if (scaling && scaling->waits() && batchesPerStep(getOperation()) == 1)
      noteWait(train, gradients);
    for (auto [number, gradient] : llvm::enumerate(gradients))
      if (failed(update(builder, train, number, gradient, (*assigned)[number], kept)))
        return failure();
    if (scaling)
      scaling->finish(builder, kept);
    setResults(train, kept);
    return success();
  }

  FailureOr<SmallVector<ParameterGroup>> groupsOf(ArrayRef<GraphResult> gradients) {
    SmallVector<std::string> kinds(noDecay.begin(), noDecay.end());
    SmallVector<StringRef> names;
    for (const GraphResult &gradient : gradients)
      names.push_back(gradient.get("stow.gradient_of"));
    auto assigned = assignGroups(getOperation(), names, *groups, kinds, optimizer.weightDecay);
    if (succeeded(assigned))
      llvm::append_range(notes, describeGroups(getOperation(), names, *assigned));
    return assigned;
  }

  /// torch.nn.utils.clip_grad_norm_: the gradients times min(1, limit / (norm + 1e-6)), from now on
  /// the values in `gradients`.
  void clipByNorm(OpBuilder &builder, func::FuncOp train, SmallVectorImpl<GraphResult> &gradients) {
    if (gradients.empty())
      return;
    builder.setInsertionPoint(train.front().getTerminator());
    Formula f(builder, train.getLoc());
    Value total = scaling ? scaling->squares(builder) : Value();
    if (!scaling)
      for (const GraphResult &gradient : gradients) {
        Value squares = sumOfSquares(builder, gradient.value.getLoc(), gradient.value);
        total = total ? f.add(total, squares) : squares;
      }
    Value norm = f.build<SqrtOp>(total).getY();
    Value ratio = f.div(f.scalar(clipNorm, norm), f.add(norm, 1e-6));
    clipFactor = f.build<MinimumOp>(ratio, f.scalar(1, norm)).getY();
    if (batchesPerStep(getOperation()) > 1) // their sums are kept anyway
      return;
    notes.push_back(
        llvm::formatv("clip-norm={0}: all gradients are kept until their norm is known, {1:n} "
                      "bytes together; without it each dies at its parameter's update",
                      shortText(clipNorm), bytesOf(gradients))
            .str());
    train.emitRemark() << notes.back();
  }

  /// What it costs that all updates wait for all gradients.
  void noteWait(func::FuncOp train, ArrayRef<GraphResult> gradients) {
    notes.push_back(
        llvm::formatv(
            "loss-scale=dynamic: updates wait until all gradients are known to be finite; what "
            "waits are gradients, {0:n} bytes together, or what they are computed from where that "
            "is less; with loss-scale=delayed each dies at its parameter's update",
            bytesOf(gradients))
            .str());
    train.emitRemark() << notes.back();
  }

  static Bytes bytesOf(ArrayRef<GraphResult> gradients) {
    Bytes bytes = 0;
    for (const GraphResult &gradient : gradients)
      bytes += storedBytesOf(gradient.value.getType());
    return bytes;
  }

  /// Adds the update of one parameter and its results.
  LogicalResult update(OpBuilder &builder, func::FuncOp train, size_t number,
                       const GraphResult &gradient, const ParameterGroup &group,
                       SmallVectorImpl<GraphResult> &results) {
    StringRef name = gradient.get("stow.gradient_of");
    BlockArgument parameter = parameters.lookup(name);
    if (!parameter || parameter.getType() != gradient.value.getType())
      return train.emitError() << "result marked as the gradient of \"" << name
                               << "\" has no argument of that name and type";
    const bool isInShards = inShards.contains(parameter);
    const Value whole = isInShards ? shardOf(builder, gradient.value) : gradient.value;
    Value known = scaling ? scaling->judged(number) : whole;
    Operation *last = lastReader(parameter, known.getDefiningOp());
    if (clipFactor || (scaling && scaling->waits()))
      builder.setInsertionPoint(train.front().getTerminator());
    else if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(&train.front());
    Formula f(builder, parameter.getLoc());
    Value clipped = scaling ? scaling->unscaled(builder, whole) : whole;
    if (clipFactor)
      clipped = f.mul(clipped, clipFactor);
    if (clipValue > 0)
      clipped = f.build<ClipOp>(clipped, APFloat(-clipValue), APFloat(double(clipValue))).getY();

    const Value trained = isInShards
                              ? f.build<ShardOp>(clipped.getType(), parameter, devices()).getY()
                              : Value(parameter);
    SmallVector<Value> state;
    SmallVector<std::string> stateNames = {name.str()};
    for (const OptimizerState &kept : stateOf(optimizer, tensorType(trained))) {
      BlockArgument argument = addOwnArgument(
          train, *names, kept.type, (name + kept.suffix).str(), ArgumentKind::Optimizer,
          InitAttr::get(&getContext(), "constant", APFloat(kept.init), APFloat(0.0)),
          parameter.getLoc());
      if (inEightBits.contains(parameter) && kept.type == parameter.getType())
        train.setArgAttr(
            argument.getArgNumber(), kEightBitsAttr,
            StringAttr::get(&getContext(), kept.isNeverNegative ? "nonnegative" : "signed"));
      if (isInShards && kept.type == trained.getType())
        train.setArgAttr(argument.getArgNumber(), kShardOfAttr, TypeAttr::get(parameter.getType()));
      stateNames.push_back(nameOf(argument).str());
      state.push_back(argument);
    }
    UpdateInputs inputs = {learningRate, step, group.rateScale, *group.weightDecay};
    if (scaling) {
      inputs.learningRate = scaling->rate(builder, learningRate, number);
      inputs.step = step ? scaling->step(builder, step, number) : Value();
      inputs.skippable = true;
    }
    SmallVector<Value> updated = buildUpdate(builder, optimizer, trained, clipped, state, inputs);
    if (isInShards) {
      auto gather =
          f.build<AllGatherOp>(parameter.getType(), updated.front(), parameter, devices());
      setPhase(gather, Phase::Update);
      updated.front() = gather.getY();
    }
    for (auto [value, stateName] : llvm::zip_equal(updated, stateNames))
      results.push_back({value, stringAttributes(&getContext(), {{kStateAttr, stateName}})});
    return success();
  }

  /// The largest parameters whose state may be in 8 bits, until they have the share of it that is asked for.
  void chooseEightBits(ArrayRef<GraphResult> gradients) {
    SmallVector<BlockArgument> candidates;
    double all = 0, taken = 0;
    for (const GraphResult &gradient : gradients)
      if (BlockArgument parameter = parameters.lookup(gradient.get("stow.gradient_of"));
          parameter && isForEightBits(parameter)) {
        candidates.push_back(parameter);
        all += static_cast<double>(tensorType(parameter).getNumElements());
      }
    llvm::stable_sort(candidates, [](BlockArgument a, BlockArgument b) {
      return tensorType(a).getNumElements() > tensorType(b).getNumElements();
    });
    for (BlockArgument parameter : candidates) {
      if (taken * 100 >= all * static_cast<double>(eightBitPercent))
        break;
      taken += static_cast<double>(tensorType(parameter).getNumElements());
      inEightBits.insert(parameter);
    }
  }

  uint64_t devices() { return static_cast<uint64_t>(devicesOf(getOperation())); }

  /// Of a gradient, this rank's shard. Where nothing else needs the sum over the ranks, of this alone.
  Value shardOf(OpBuilder &builder, Value gradient) {
    auto reduce = gradient.getDefiningOp<AllReduceOp>();
    auto scaled = gradient.getDefiningOp<MulOp>();
    builder.setInsertionPointAfterValue(gradient);
    Formula f(builder, gradient.getLoc());
    const RankedTensorType type = shardType(tensorType(gradient), static_cast<int64_t>(devices()));
    const bool needsSum = clipFactor || scaling; // whether all are finite is asked of whole sums
    if (reduce && !needsSum)
      return f.build<ReduceScatterOp>(type, reduce.getX(), devices()).getY();
    if (scaled && isScalar(scaled->getOperand(1)) && !needsSum) {
      Value shard = shardOf(builder, scaled->getOperand(0));
      builder.setInsertionPointAfterValue(gradient);
      return f.mul(shard, scaled->getOperand(1));
    }
    return f.build<ShardOp>(type, gradient, devices()).getY();
  }

  /// The bytes of the state that an update keeps of a value of this type, but for scalars.
  Bytes stateBytesOf(RankedTensorType type) {
    Bytes bytes = 0;
    for (const OptimizerState &kept : stateOf(optimizer, type))
      if (kept.type == type)
        bytes += alignUp(storedBytesOf(type), kLineBytes);
    return bytes;
  }

  /// The largest parameters whose state may lie in shards, until they have the share of it that is asked for. Updates go element by
  /// element; weights of convolutions lie as the library likes them, and no shard is known to be the same part of each.
  void chooseShards(ArrayRef<GraphResult> gradients) {
    if (shardPercent == 0 || devices() < 2 || optimizer.kind == OptimizerSpec::Kind::Adafactor)
      return;
    SmallVector<BlockArgument> candidates;
    auto bytesOf = [&](RankedTensorType type) {
      return stateBytesOf(type) + (shardsParameters ? alignUp(storedBytesOf(type), kLineBytes) : 0);
    };
    auto shardOfType = [&](BlockArgument parameter) {
      return shardType(tensorType(parameter), static_cast<int64_t>(devices()));
    };
    auto whole = [&](BlockArgument parameter) { return bytesOf(tensorType(parameter)); };
    auto part = [&](BlockArgument parameter) { return bytesOf(shardOfType(parameter)); };
    Bytes all = 0, taken = 0, stateBytes = 0, leftBytes = 0;
    for (const GraphResult &gradient : gradients) {
      BlockArgument parameter = parameters.lookup(gradient.get("stow.gradient_of"));
      auto isOfConvolution = [](Operation *user) { return isa<Conv2dOp, Conv2dGradInputOp>(user); };
      if (!parameter || !tensorType(parameter).getElementType().isF32() ||
          llvm::any_of(parameter.getUsers(), isOfConvolution) ||
          part(parameter) >= whole(parameter) ||
          tensorType(parameter).getNumElements() > kMostSharded)
        continue;
      candidates.push_back(parameter);
      all += whole(parameter);
    }
    llvm::stable_sort(candidates, [&](BlockArgument a, BlockArgument b) {
      return tensorType(a).getNumElements() > tensorType(b).getNumElements();
    });
    for (BlockArgument parameter : candidates) {
      if (taken * 100 >= all * static_cast<Bytes>(shardPercent))
        break;
      taken += whole(parameter);
      stateBytes += stateBytesOf(tensorType(parameter));
      leftBytes += stateBytesOf(shardOfType(parameter));
      inShards.insert(parameter);
    }
    notes.push_back(
        llvm::formatv(
            "shard-state: the optimizer's state of {0} of {1} parameters lies in shards, on "
            "each of {2} devices {3:n} bytes in place of {4:n}",
            inShards.size(), gradients.size(), devices(), leftBytes, stateBytes)
            .str());
  }

  llvm::StringMap<BlockArgument> parameters; ///< all arguments that the graph had
  std::optional<ArgumentNames> names;
  llvm::DenseSet<Value> inEightBits; ///< parameters
  llvm::DenseSet<Value> inShards;    ///< parameters
  Value learningRate, step;
  std::optional<LossScale> scaling; ///< none where the loss is not scaled
  Value clipFactor;                 ///< what scales all gradients; null without clip-norm
  SmallVector<std::string> notes;
};

} // namespace
} // namespace stow
