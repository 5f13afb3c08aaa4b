#include "codegen/host/HostTarget.h"

#include "codegen/host/LibraryAnswers.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/program/LibraryCommand.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowCollectiveOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowNormPoolOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowShapeOps.h"
#include "ir/StowStatisticsOps.h"
#include "runtime/base/Error.h"
#include "runtime/format/Reduction.h"
#include "runtime/host/loops/CodedProduct.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace stow::host {
namespace {

bool isAttention(Operation *op) { return isa<AttentionOp, AttentionGradientOp>(op); }

/// Pooling and attention are calls here; their generated kernels are GPUs'.
bool isCallOfHost(Operation *op) {
  return isAttention(op) ||
         isa<MaxPoolOp, MaxPoolTrainingOp, MaxPoolGradOp, AvgPoolOp, AvgPoolGradOp>(op);
}

/// True for tensors of several channels that lie side by side.
bool isChannelsLast(Value value) {
  const RankedTensorType type = tensorType(value);
  return type.getShape()[1] > 1 && layoutOf(type) == channelsLastLayout(type.getRank());
}

/// Loops read codes for few rows of f32, bf16 or f16, all row-major.
bool readsCodes(CodedMatmulOp product) {
  const Type element = tensorType(product.getY()).getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF16())
    return false;
  for (Value value : {Value(product.getA()), Value(product.getY())})
    if (const RankedTensorType type = tensorType(value);
        type.getElementType() != element || !layoutOf(type).isRowMajor())
      return false;
  const RankedTensorType y = tensorType(product.getY());
  return takesCodes({y.getNumElements() / y.getShape().back(), y.getShape().back(),
                     tensorType(product.getA()).getShape().back(), product.getTransposeB()});
}

/// What loops of the host pool without storing it: positions in a window are bytes.
bool takesNormPool(Value x, Value pooled, Value saved) {
  return isChannelsLast(x) && isChannelsLast(pooled) &&
         tensorType(saved).getElementType().isInteger(8);
}

/// What ranks do together, in scratch of the arena.
Target::Requirements requirementsOfRanks(Operation *op) {
  auto floats = [](Value value) {
    return storedBytesOf(value.getType()) / static_cast<Bytes>(sizeof(float));
  };
  Target::Requirements requirements;
  requirements.implementation = "pieces, in the order of the ranks";
  requirements.workspaceBytes =
      llvm::TypeSwitch<Operation *, Bytes>(op)
          .Case([&](AllReduceOp reduce) {
            return reductionScratchBytes(floats(reduce.getX()),
                                         static_cast<int64_t>(reduce.getRanks()));
          })
          .Case([&](ReduceScatterOp scatter) {
            return scatterScratchBytes(floats(scatter.getX()),
                                       static_cast<int64_t>(scatter.getRanks()));
          })
          .Default([](Operation *) { return 0; });
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                         SmallVector<Value>(op->getResults())))
    requirements.layouts.push_back(layoutOf(value.getType()));
  return requirements;
}

} // namespace

/// A row per op that the library has.
std::optional<CommandOp> HostTarget::libraryCall(Operation *op) const {
  using enum CommandOp;
  using Answer = std::optional<CommandOp>;
  if (hasGeneratedKernel(op) && !isCallOfHost(op))
    return std::nullopt;
  auto onlyIf = [](bool holds, CommandOp call) { return holds ? Answer(call) : std::nullopt; };
  return llvm::TypeSwitch<Operation *, Answer>(op)
      .Case([](Conv2dOp) { return DnnlConvolution; })
      .Case([](Conv2dGradInputOp) { return DnnlConvolutionGradInput; })
      .Case([](Conv2dGradWeightOp) { return DnnlConvolutionGradWeight; })
      .Case([](MatmulOp) { return DnnlMatmul; })
      .Case([&](CodedMatmulOp product) { return onlyIf(readsCodes(product), DnnlCodedMatmul); })
      .Case([&](ProductMapOp product) {
        const std::optional<ProductForm> form = formOf(product);
        return form ? Answer(callOf(*form)) : std::nullopt;
      })
      .Case([](MaxPoolOp) { return DnnlMaxPoolInference; })
      .Case([](MaxPoolTrainingOp) { return DnnlMaxPool; })
      .Case([](MaxPoolGradOp) { return DnnlMaxPoolGrad; })
      .Case([](AvgPoolOp) { return DnnlAvgPool; })
      .Case([](AvgPoolGradOp) { return DnnlAvgPoolGrad; })
      .Case([](BatchNormOp) { return DnnlBatchNormInference; })
      .Case([](BatchNormTrainingOp) { return DnnlBatchNorm; })
      .Case([](BatchNormGradOp) { return DnnlBatchNormGrad; })
      .Case([&](BatchNormStatisticsOp op) {
        return onlyIf(isChannelsLast(op.getX()), DnnlBatchNormStatistics);
      })
      .Case([&](BatchNormMaxPoolOp op) {
        return onlyIf(takesNormPool(op.getX(), op.getY(), op.getSaved()), DnnlBatchNormMaxPool);
      })
      .Case([&](BatchNormMaxPoolGradientOp op) {
        return onlyIf(takesNormPool(op.getX(), op.getDy(), op.getSaved()) &&
                          isChannelsLast(op.getDx()),
                      DnnlBatchNormMaxPoolGrad);
      })
      .Case([](ReorderOp) { return DnnlReorder; })
      .Case([](AttentionOp) { return DnnlAttention; })
      .Case([](AttentionGradientOp) { return DnnlAttentionGradient; })
      .Default(commandOfRanks);
}

std::optional<ProductForm> HostTarget::formOf(ProductMapOp op) const { return proofs.formOf(op); }

/// A product by tiles saves memory and no time.
bool HostTarget::decomposes(Operation *op) const {
  if (isa<ProductMapOp>(op))
    return true;
  if (!isa<BatchNormOp, BatchNormTrainingOp, BatchNormGradOp>(op))
    return false;
  auto concat = op->getOperand(0).getDefiningOp<ConcatOp>();
  return concat && concat.getAxis() == 1;
}

FailureOr<Target::Requirements> HostTarget::query(Operation *op, ArrayRef<bool> freeLayouts) const {
  std::vector<bool> anyLayout(freeLayouts.begin(), freeLayouts.end());
  try {
    if (auto product = dyn_cast<ProductMapOp>(op)) {
      const ProductNeeds needs = productNeeds(product, *formOf(product), threads);
      Requirements requirements;
      requirements.workspaceBytes = needs.workspaceBytes;
      requirements.heapBytes = needs.heapBytes;
      requirements.implementation = "tiles";
      return requirements;
    }
    if (commandOfRanks(op))
      return requirementsOfRanks(op);
    Command command = libraryCommand(op, *libraryCall(op));
    LibraryRequirements answer = askLibrary(command, anyLayout, threads);
    for (auto [bytes, operand] : llvm::zip(answer.opaqueBytes, command.operands))
      if (bytes > 0 && bytes != storedBytes(operand.layout, operand.shape, operand.dtype))
        return op->emitError() << "the library wants " << bytes << " bytes for an operand planned "
                               << "with " << operand.shape[0];
    Requirements requirements;
    requirements.workspaceBytes = answer.workspaceBytes;
    requirements.heapBytes = answer.heapBytes;
    requirements.implementation = answer.implementation;
    requirements.isReference = answer.reference;
    requirements.isConverted = answer.converted;
    requirements.layouts.assign(answer.layouts.begin(), answer.layouts.end());
    return requirements;
  } catch (const Error &error) {
    return op->emitError() << error.what();
  }
}

RankedTensorType HostTarget::savedType(MaxPoolOp pool) const {
  const int64_t window = llvm::product_of(pool.getKernel());
  return RankedTensorType::get(pool.getY().getType().getShape(),
                               IntegerType::get(pool.getContext(), window <= 255 ? 8 : 32));
}

int64_t HostTarget::productRowStep(MatmulOp) const { return 1; }

/// Convolutions, pooling and normalizations are fast on channels-last operands and results, the
/// library's and the generated ones alike.
OrderWish HostTarget::orderWish(Operation *op) const { return wishOf(op); }

bool HostTarget::takesType(Operation *op, unsigned position, FloatType type) const {
  if (commandOfRanks(op))
    return type.isF32();
  if (!libraryCall(op) || type.isF32())
    return true;
  const bool isWide =
      (isAttention(op) || isa<BatchNormOp, BatchNormTrainingOp, BatchNormGradOp>(op)) &&
      !cast<PrecisionOpInterface>(op).takesLow(position);
  return type.getWidth() == 16 && !isWide;
}

/// Biases and results may be in f32 everywhere. Without units for bf16, and for f16 on all processors,
/// products are in f32 of what the operands are converted to on the way in.
bool HostTarget::takesWide(Operation *op, unsigned position, FloatType low) const {
  return position >= 2 || isAttention(op) || hasGeneratedKernel(op) || !low.isBF16() ||
         !supportsBf16();
}

bool HostTarget::takesPart(Operation *op, unsigned position, RankedTensorType part) const {
  if (isAttention(op))
    return true;
  return !isCallOfHost(op) && kernelTakesPart(op, position, part);
}

} // namespace stow::host
