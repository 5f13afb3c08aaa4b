// What an optimizer keeps of large matrices, in 8 bits.
//
//   m, 4 bytes --> update --> m'       codes, scales --> dequantize_state --> update --> quantize_state --> codes', scales'
//
// Numbers exist while the update runs, those of one parameter after the other. Everything that an update is fused with stays as it is.
#include "ir/StowKernelOps.h"
#include "ir/StowQuantizeOps.h"
#include "passes/autodiff/Graph.h"
#include "passes/precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_QUANTIZESTATESPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// A state tensor, the map that updates it, its new value, and the number of the result that returns it.
struct State {
  BlockArgument argument;
  MapOp update;
  OpResult value;
  unsigned returned = 0;
};

/// The state that `argument` is, where a map alone reads it and computes its new value.
std::optional<State> stateOf(func::FuncOp graph, BlockArgument argument) {
  if (!argument.hasOneUse() || !layoutOf(argument.getType()).isRowMajor())
    return std::nullopt;
  auto map = dyn_cast<MapOp>(*argument.user_begin());
  if (!map)
    return std::nullopt;
  const auto name = graph.getArgAttr(argument.getArgNumber(), kNameAttr);
  const unsigned operand = argument.use_begin()->getOperandNumber();
  for (OpOperand &returned : graph.front().getTerminator()->getOpOperands()) {
    auto value = dyn_cast<OpResult>(returned.get());
    if (graph.getResultAttr(returned.getOperandNumber(), kStateAttr) == name && value &&
        value.getOwner() == map && value.hasOneUse() &&
        cast<AliasOpInterface>(map.getOperation()).getUpdatedOperand(value.getResultNumber()) ==
            operand)
      return State{argument, map, value, returned.getOperandNumber()};
  }
  return std::nullopt;
}

Bytes bytesOf(const State &state) { return storedBytesOf(state.argument.getType()); }

/// Stores one state tensor in 8 bits.
void quantize(func::FuncOp graph, const State &state, ArgumentNames &names) {
  MLIRContext *context = graph.getContext();
  OpBuilder builder(state.update);
  BlockArgument codes = state.argument;
  const unsigned index = codes.getArgNumber();
  RankedTensorType numbers = tensorType(codes);
  const bool isNonnegative =
      graph.getArgAttrOfType<StringAttr>(index, kEightBitsAttr) == "nonnegative";
  const std::string wanted =
      (graph.getArgAttrOfType<StringAttr>(index, kNameAttr).getValue() + ".scale").str();
  const auto scaleType =
      RankedTensorType::get({numbers.getNumElements() / kStateBlock}, numbers.getElementType());

  // The map reads numbers, and writes new ones, which may lie over them.
  codes.setType(numbers.clone(builder.getI8Type()));
  BlockArgument scales = addOwnArgument(graph, names, scaleType, wanted, ArgumentKind::Optimizer,
                                        graph.getArgAttr(index, kInitAttr), codes.getLoc());
  // The highest level is 1: the first scales are the first numbers.
  const double highest = static_cast<double>(scaleLevels().size() - 1);
  graph.setArgAttr(index, kInitAttr,
                   InitAttr::get(context, "constant", APFloat(highest), APFloat(0.0)));
  MapOp update = state.update;
  auto read =
      DequantizeStateOp::create(builder, update.getLoc(), numbers, codes, scales, isNonnegative);
  copyPhase(update, read);
  SmallVector<int64_t> updates;
  for (size_t i = 0; i + 1 < update.getUpdates().size(); i += 2)
    if (update.getUpdates()[i] != static_cast<int64_t>(state.value.getResultNumber()))
      updates.append({update.getUpdates()[i], update.getUpdates()[i + 1]});
  update.setUpdates(updates);
  update->replaceUsesOfWith(codes, read);
  builder.setInsertionPointAfter(update);
  auto written = QuantizeStateOp::create(builder, update.getLoc(), codes.getType(), scaleType,
                                         state.value, codes, scales, isNonnegative);
  copyPhase(update, written);
  graph.removeArgAttr(index, builder.getStringAttr(kEightBitsAttr));
  Operation *terminator = graph.front().getTerminator();
  terminator->setOperand(state.returned, written.getNewCodes());
  graph.setFunctionType(
      FunctionType::get(context, graph.front().getArgumentTypes(), terminator->getOperandTypes()));
  const unsigned last = terminator->getNumOperands();
  (void)graph.insertResult(last, scaleType,
                           builder.getDictionaryAttr(builder.getNamedAttr(
                               kStateAttr, graph.getArgAttr(scales.getArgNumber(), kNameAttr))));
  terminator->insertOperands(last, written.getNewScales());
}

//===-- --stow-quantize-states ---------------------------------------------------------------===//

struct QuantizeStatesPass : impl::QuantizeStatesPassBase<QuantizeStatesPass> {
  void runOnOperation() override {
    ArgumentNames names(getOperation());
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      SmallVector<State> states;
      llvm::MapVector<Operation *, Bytes> atOnce;
      Bytes kept = 0, largest = 0;
      for (BlockArgument argument : graph.getArguments())
        if (graph.getArgAttr(argument.getArgNumber(), kEightBitsAttr))
          if (auto state = stateOf(graph, argument)) {
            kept += bytesOf(*state);
            largest = std::max(largest, atOnce[state->update] += bytesOf(*state));
            states.push_back(*state);
          }
      // Numbers of one update at a time lie beside a quarter of what was kept, and the scales.
      const Bytes saved = kept - kept / 4 - kept / kStateBlock;
      if (saved < largest) {
        graph.emitWarning() << "the optimizer's state stays in f32: 8 bits save " << saved
                            << " bytes, and the largest update takes " << largest
                            << " while it runs";
        continue;
      }
      for (const State &state : states)
        quantize(graph, state, names);
    }
  }
};

} // namespace
} // namespace stow
