#include "codegen/cuda/SplitProducts.h"

#include "codegen/program/LibraryCommand.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/bodies/Term.h"
#include "passes/memory/FuseBiasGradient.h"
#include "passes/memory/Passes.h"
#include "runtime/cuda/ProductEpilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <numeric>

using namespace mlir;

namespace stow::cuda {
namespace {

/// The product of `command` alone, or with what is added to it, into the same result.
Command productOf(Operation *op, const Command &command, const ProductEpilogue &epilogue) {
  Command product;
  product.op = epilogue.added ? CommandOp::CudaMatmulAdd : CommandOp::CudaMatmul;
  product.name = command.name;
  for (const char *flag : {"transpose_a", "transpose_b", "tf32"})
    if (const auto found = command.ints.find(flag); found != command.ints.end())
      product.ints.insert(*found);
  product.operands = {command.operands[0], command.operands[1]};
  if (epilogue.added)
    product.operands.push_back(command.operands[*epilogue.added]);
  product.operands.push_back(command.operands.rbegin()[epilogue.summed ? 1 : 0]);
  product.workspaceBytes = bytesAttr(op, kWorkspaceAttr);
  product.workspaceOffset = bytesAttr(op, kWorkspaceOffsetAttr);
  return product;
}

LogicalResult addKernel(Operation *op, std::vector<Operand> operands, Command &command,
                        KernelModule &kernels) {
  SmallVector<int64_t> alignments;
  for (const Operand &operand : operands)
    alignments.push_back(std::gcd(operand.offset, KernelModule::kAlignment));
  const FailureOr<KernelInfo> kernel = kernels.add(op, alignments);
  if (failed(kernel))
    return failure();
  Command &part = command.parts.emplace_back();
  part.op = CommandOp::Kernel;
  part.name = command.name;
  part.kernel = kernel->index;
  part.tasks = kernel->tasks;
  part.operands = std::move(operands);
  return success();
}

/// A map over values of these types, whose body is to be made, in a module of its own.
struct LoneMap {
  LoneMap(Location location, ArrayRef<Type> types, Type result) {
    OpBuilder builder(location.getContext());
    module = ModuleOp::create(location);
    builder.setInsertionPointToStart(module.get().getBody());
    auto graph =
        func::FuncOp::create(builder, location, "split", builder.getFunctionType(types, {}));
    builder.setInsertionPointToStart(graph.addEntryBlock());
    op = MapOp::create(builder, location, TypeRange{result}, graph.getArguments(),
                       builder.getDenseI64ArrayAttr({}));
    Block &body = op.getBody().emplaceBlock();
    for (Type type : types)
      body.addArgument(cast<RankedTensorType>(type).getElementType(), location);
  }

  OwningOpRef<ModuleOp> module;
  MapOp op;
};

/// The kernel behind the product, over the product in place of its result: the body of `fused`, in which what the product
/// has been added to is zero.
LogicalResult addBody(ProductMapOp fused, const ProductEpilogue &epilogue, Command &command,
                      KernelModule &kernels) {
  constexpr unsigned kFactors = 2;
  const Type result = fused.getResult(0).getType();
  SmallVector<Type> types = {result};
  std::vector<Operand> operands = {command.operands.back()};
  SmallVector<unsigned> arguments = {0}; // of the old body, behind the product's element
  for (auto [number, input] : llvm::enumerate(fused.getInputs())) {
    if (epilogue.added == number + kFactors)
      continue;
    types.push_back(input.getType());
    operands.push_back(command.operands[number + kFactors]);
    arguments.push_back(static_cast<unsigned>(number) + 1);
  }
  operands.push_back(command.operands.back());
  LoneMap map(fused.getLoc(), types, result);
  Block &old = fused.getBody().front(), &body = map.op.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  IRMapping mapping;
  for (auto [number, element] : llvm::zip_equal(arguments, body.getArguments()))
    mapping.map(old.getArgument(number),
                Term(builder, fused.getLoc(), element).as(old.getArgument(number).getType()).get());
  for (Value argument : old.getArguments())
    if (!mapping.contains(argument))
      mapping.map(argument, arith::ConstantOp::create(builder, fused.getLoc(),
                                                      builder.getFloatAttr(argument.getType(), 0)));
  for (Operation &op : old)
    builder.clone(op, mapping);
  return addKernel(map.op, std::move(operands), command, kernels);
}

/// The kernel that adds the bias of `product` to its result.
LogicalResult addBias(MatmulOp product, Command &command, KernelModule &kernels) {
  const Type result = product.getY().getType();
  LoneMap map(product.getLoc(), {result, product.getBias().getType()}, result);
  Block &body = map.op.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  const Term element(builder, product.getLoc(), body.getArgument(0)),
      bias(builder, product.getLoc(), body.getArgument(1));
  YieldOp::create(builder, product.getLoc(),
                  (element.widened() + bias.widened()).as(element.element()).get());
  const std::vector<Operand> operands = {command.operands.back(), command.operands[2],
                                         command.operands.back()};
  return addKernel(map.op, operands, command, kernels);
}

} // namespace

LogicalResult addSplitForm(Operation *op, Command &command, KernelModule &kernels) {
  const ProductEpilogue epilogue = epilogueOf(command);
  const bool isProduct =
      command.op == CommandOp::CudaMatmul || command.op == CommandOp::CudaMatmulEpilogue;
  if (!isProduct || wordsOf(epilogue).empty())
    return success();
  command.parts.push_back(productOf(op, command, epilogue));
  if (auto product = dyn_cast<MatmulOp>(op); product && !epilogue.summed)
    return addBias(product, command, kernels);
  if (!epilogue.summed)
    return addBody(cast<ProductMapOp>(op), epilogue, command, kernels);
  ReduceSumOp sum = sumBeside(op);
  const Bytes from = command.operands[*epilogue.summed].offset;
  return addKernel(sum, {operandOf(sum.getX().getType(), from), command.operands.back()}, command,
                   kernels);
}

} // namespace stow::cuda
