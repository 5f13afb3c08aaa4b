// What an optimizer keeps, in slow memory: fetched for its update, and sent behind it.
#include "ir/StowOffloadOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/SlowCopies.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SENDSTATESPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// A state tensor, the op that updates it, its new value, and the number of the result that returns it.
struct State {
  BlockArgument argument;
  Operation *update = nullptr;
  OpResult value;
  unsigned returned = 0;
  Bytes bytes = 0;
};

/// The state that `argument` is, where one op alone reads it and computes its new value, which nothing else reads.
std::optional<State> stateOf(func::FuncOp graph, BlockArgument argument) {
  const unsigned index = argument.getArgNumber();
  if (kindOfArgument(graph, index) != ArgumentKind::Optimizer || !argument.hasOneUse() ||
      !layoutOf(argument.getType()).isRowMajor())
    return std::nullopt;
  State state = {argument, *argument.user_begin(), {}, 0, storedBytesOf(argument.getType())};
  if (state.bytes < kSlowAlignment)
    return std::nullopt;
  const Attribute name = graph.getArgAttr(index, kNameAttr);
  for (OpOperand &returned : graph.front().getTerminator()->getOpOperands())
    if (graph.getResultAttr(returned.getOperandNumber(), kStateAttr) == name) {
      state.value = dyn_cast<OpResult>(returned.get());
      state.returned = returned.getOperandNumber();
    }
  const bool isUpdate = state.value && state.value.getOwner() == state.update &&
                        state.value.hasOneUse() && state.value.getType() == argument.getType();
  return isUpdate ? std::optional(state) : std::nullopt;
}

void send(func::FuncOp graph, const State &state) {
  OpBuilder builder(state.update);
  const Location at = state.argument.getLoc();
  const auto type = cast<RankedTensorType>(state.argument.getType());
  BlockArgument token = state.argument;
  token.setType(copyTokenType(builder.getContext()));
  graph.setArgAttr(token.getArgNumber(), kSlowStateAttr, TypeAttr::get(type));
  auto in = CopyInOp::create(builder, at, type, token);
  auto there = AwaitInOp::create(builder, at, type, token, in.getComing());
  for (OpOperand &operand : state.update->getOpOperands())
    if (operand.get() == token)
      operand.set(there.getY());
  builder.setInsertionPointAfter(state.update);
  auto out = CopyOutOp::create(builder, at, token.getType(), state.value);
  auto sent = AwaitOutOp::create(builder, at, out.getToken(), state.value);
  for (Operation *op :
       {in.getOperation(), there.getOperation(), out.getOperation(), sent.getOperation()})
    setPhase(op, phaseOf(state.update));
  Operation *terminator = graph.front().getTerminator();
  terminator->setOperand(state.returned, out.getToken());
  graph.setFunctionType(FunctionType::get(graph.getContext(), graph.front().getArgumentTypes(),
                                          terminator->getOperandTypes()));
}

//===-- --stow-send-states -------------------------------------------------------------------===//

struct SendStatesPass : impl::SendStatesPassBase<SendStatesPass> {
  using SendStatesPassBase::SendStatesPassBase;

  void runOnOperation() override {
    if (percent < 0 || percent > 100) {
      getOperation().emitError() << "percent is " << int64_t(percent) << "; expected 0 to 100";
      return signalPassFailure();
    }
    for (auto graph : getOperation().getOps<func::FuncOp>()) {
      SmallVector<State> states;
      Bytes all = 0, taken = 0;
      for (BlockArgument argument : graph.getArguments())
        if (auto state = stateOf(graph, argument)) {
          all += state->bytes;
          states.push_back(*state);
        }
      llvm::stable_sort(states, [](const State &a, const State &b) { return a.bytes > b.bytes; });
      for (const State &state : states) {
        if (static_cast<double>(taken) * 100 >=
            static_cast<double>(all) * static_cast<double>(percent))
          break;
        taken += state.bytes;
        send(graph, state);
      }
    }
  }
};

} // namespace
} // namespace stow
