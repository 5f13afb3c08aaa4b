#include "codegen/program/LibraryCommand.h"

#include "ir/StowAttentionOps.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowNormPoolOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowQuantizeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow {
namespace {

/// Max-pool indices are opaque to everything but the library: plain bytes.
bool isOpaque(Operation *op, Type type) {
  return isa<MaxPoolTrainingOp, MaxPoolGradOp, BatchNormMaxPoolOp, BatchNormMaxPoolGradientOp>(
             op) &&
         isa<IntegerType>(cast<RankedTensorType>(type).getElementType());
}

void addAttribute(Command &command, StringRef name, Attribute attribute) {
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute))
    command.ints[name.str()] = {list.asArrayRef().begin(), list.asArrayRef().end()};
  else if (auto flag = dyn_cast<BoolAttr>(attribute))
    command.ints[name.str()] = {flag.getValue() ? 1 : 0};
  else if (auto integer = dyn_cast<IntegerAttr>(attribute))
    command.ints[name.str()] = {integer.getInt()};
  else if (auto number = dyn_cast<FloatAttr>(attribute))
    command.floats[name.str()] = number.getValueAsDouble();
}

} // namespace

Operand operandOf(Type type, Bytes offset) {
  auto tensor = cast<RankedTensorType>(type);
  return {offset, dtypeOf(tensor.getElementType()),
          Shape(tensor.getShape().begin(), tensor.getShape().end()), layoutOf(type)};
}

std::optional<CommandOp> commandOfRanks(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<CommandOp>>(op)
      .Case([](AllReduceOp) { return CommandOp::AllReduce; })
      .Case([](ReduceScatterOp) { return CommandOp::ReduceScatter; })
      .Case([](ShardOp) { return CommandOp::Shard; })
      .Case<AllGatherOp, UnshardOp>([](auto) { return CommandOp::AllGather; })
      .Default([](Operation *) { return std::nullopt; });
}

Command libraryCommand(Operation *op, CommandOp call) {
  Command command;
  command.op = call;
  command.name = sourceNameOf(op->getLoc());
  auto add = [&](Type type) {
    command.operands.push_back(isOpaque(op, type) ? Operand{0, DType::U8, {storedBytesOf(type)}, {}}
                                                  : operandOf(type, 0));
  };
  llvm::for_each(op->getOperandTypes(), add);
  llvm::for_each(op->getResultTypes(), add);
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!attribute.getName().getValue().starts_with("stow."))
      addAttribute(command, attribute.getName(), attribute.getValue());
  if (isa<Conv2dOp, MatmulOp>(op))
    command.ints["has_bias"] = {op->getNumOperands() == 3 ? 1 : 0};
  if (auto coded = dyn_cast<CodedMatmulOp>(op))
    command.ints["scheme"] = {static_cast<int64_t>(*quantizationNamed(coded.getScheme()))};
  auto addPresence = [&](auto attention) {
    command.ints["has_mask"] = {attention.getMask() ? 1 : 0};
    command.ints["has_documents"] = {attention.getKeyDocuments() ? 1 : 0};
    command.ints["has_seed"] = {attention.getSeed() ? 1 : 0};
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    addPresence(attention);
  else if (auto gradient = dyn_cast<AttentionGradientOp>(op))
    addPresence(gradient);
  return command;
}

bool addsToProduct(ProductMapOp op) {
  Block &body = op.getBody().front();
  auto sum = dyn_cast<arith::AddFOp>(body.front());
  return sum && op.getInputs().size() == 1 && op.getNumResults() == 1 &&
         body.getTerminator()->getOperand(0) == sum.getResult() &&
         sum->getNextNode() == body.getTerminator() && sum.getLhs() != sum.getRhs() &&
         tensorType(op.getInputs()[0]) == tensorType(op.getResult(0));
}

} // namespace stow
