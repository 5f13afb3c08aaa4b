// A data set that stays on the device: its samples are state, of which a step reads its batch by number.
//
//   @train(%x: batch)            @train(%samples of x, %rows)
//   ... %x ...             =>    %0 = rows of %samples; ... %0 ...
//
// Evaluation has data of its own, batch by batch. O(ops).
#include "ir/KeptSamples.h"
#include "ir/StepGraphs.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowIndexOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/microbatch/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_KEEPDATAPASS
#include "passes/microbatch/Passes.h.inc"

namespace {

//===--------------------------------------------------------------------------------------------===//
// --stow-keep-data
//===--------------------------------------------------------------------------------------------===//

struct KeepData : impl::KeepDataPassBase<KeepData> {
  using Base::Base;

  void runOnOperation() override {
    ownNames.clear();
    ArgumentNames names(getOperation());
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (isStepGraph(graph) && failed(keep(graph, names)))
        return signalPassFailure();
  }

  LogicalResult keep(func::FuncOp graph, ArgumentNames &names) {
    SmallVector<BlockArgument> batches;
    for (BlockArgument argument : graph.getArguments()) {
      const auto kind = kindOfArgument(graph, argument.getArgNumber());
      if ((kind == ArgumentKind::Input || kind == ArgumentKind::Target) && !argument.use_empty())
        batches.push_back(argument);
    }
    std::optional<int64_t> samples;
    for (BlockArgument batch : batches) {
      const auto type = cast<RankedTensorType>(batch.getType());
      if (type.getRank() == 0 || (samples && type.getDimSize(0) != *samples))
        return graph.emitError() << "data on the device: expected inputs with one row for each "
                                    "sample of the batch, found \""
                                 << nameOf(batch) << "\" of type " << type
                                 << "; leave --data-on-device out";
      samples = type.getDimSize(0);
    }
    if (!samples)
      return success();
    if (rows < *samples)
      return graph.emitError() << "data on the device: expected room for at least a batch of "
                               << *samples << " samples, found " << int64_t(rows)
                               << "; raise --data-on-device";
    Builder types(&getContext());
    BlockArgument numbers =
        addOwnArgument(graph, names, RankedTensorType::get({*samples}, types.getI64Type()), "rows",
                       ArgumentKind::Input, {}, graph.getLoc());
    graph.setArgAttr(numbers.getArgNumber(), kRowsAttr, types.getUnitAttr());
    OpBuilder builder = OpBuilder::atBlockBegin(&graph.front());
    for (BlockArgument batch : batches)
      readByNumber(graph, batch, numbers, names, builder);
    graph.setFunctionType(types.getFunctionType(graph.front().getArgumentTypes(),
                                                graph.getFunctionType().getResults()));
    return success();
  }

  /// Of all graphs of a step the samples are the same state.
  void readByNumber(func::FuncOp graph, BlockArgument batch, Value numbers, ArgumentNames &names,
                    OpBuilder &builder) {
    const auto type = cast<RankedTensorType>(batch.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.front() = rows;
    batch.setType(RankedTensorType::get(shape, type.getElementType()));
    const unsigned index = batch.getArgNumber();
    const StringAttr name = builder.getStringAttr(nameOf(batch));
    std::string &own = ownNames[name];
    if (own.empty())
      own = names.take((name.getValue() + ".samples").str());
    graph.setArgAttr(index, kSamplesOfAttr, name);
    graph.setArgAttr(index, kSamplesKindAttr, graph.getArgAttr(index, kKindAttr));
    graph.setArgAttr(index, kNameAttr, builder.getStringAttr(own));
    graph.setArgAttr(index, kUnsavedAttr, builder.getUnitAttr());
    setKindOfArgument(graph, index, ArgumentKind::Statistic);
    const Location location = batch.getLoc();
    const Value read =
        type.getRank() > 1
            ? EmbeddingOp::create(builder, location, type, batch, numbers, IntegerAttr())
                  .getResult()
            : TakeAlongOp::create(builder, location, type, batch, numbers, 0).getResult();
    batch.replaceAllUsesExcept(read, read.getDefiningOp());
  }

  llvm::DenseMap<StringAttr, std::string> ownNames; ///< of samples, by what they are for
};

} // namespace

} // namespace stow
