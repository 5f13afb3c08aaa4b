// Times of the ways to run a call are guesses, as cuDNN gives an order of its engines and no times:
//
//   position p of the heuristics' list    1 + p / 20
//   position p, of the fallback list      2 + p / 20
//   a product without scratch             1.05
//
// They are relative to the roofline, which the first way is taken to reach. A step's real times decide
// as soon as somebody has measured them on the device.
#include "codegen/cuda/CudaTarget.h"

#include "codegen/kernels/Kernels.h"
#include "runtime/base/Error.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow::cuda {
namespace {

constexpr double kSlowdownPerPosition = 0.05;

bool isConvolution(Operation *op) {
  return isa<Conv2dOp, Conv2dGradInputOp, Conv2dGradWeightOp>(op);
}

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The tensor in `layout`. One dimension of space counts as two, the first of extent 1: cuDNN
/// convolves planes and volumes.
StridedTensor strided(RankedTensorType type, const Layout &layout) {
  StridedTensor tensor;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  tensor.strides = outerStrides(layout, tensor.shape);
  tensor.type = dtypeOf(type.getElementType());
  if (tensor.shape.size() == 3) {
    tensor.strides.insert(tensor.strides.begin() + 2, tensor.shape[2] * tensor.strides[2]);
    tensor.shape.insert(tensor.shape.begin() + 2, 1);
  }
  return tensor;
}

std::vector<int64_t> padded(ArrayRef<int64_t> values, int64_t inFront) {
  std::vector<int64_t> all(values.begin(), values.end());
  if (all.size() == 1)
    all.insert(all.begin(), inFront);
  return all;
}

Layout channelsInnermost(int64_t rank) {
  Layout layout;
  layout.order.push_back(0);
  for (int64_t i = 2; i < rank; ++i)
    layout.order.push_back(i);
  layout.order.push_back(1);
  return layout;
}

} // namespace

CudaTarget::CudaTarget(Chip chip, F32Products products, std::string cudnnFolder)
    : chip(std::move(chip)), products(products), cudnnFolder(std::move(cudnnFolder)) {}

bool CudaTarget::isForTensorCores(Operation *op) const {
  const Type element = tensorType(op->getOperand(0)).getElementType();
  return element.isIntOrFloat() && (element.getIntOrFloatBitWidth() == 16 ||
                                    (element.isF32() && products == F32Products::Tf32));
}

StringRef CudaTarget::libraryCall(Operation *op) const {
  if (isa<Conv2dOp>(op))
    return "convolution";
  if (isa<Conv2dGradInputOp>(op))
    return "convolution_grad_input";
  if (isa<Conv2dGradWeightOp>(op))
    return "convolution_grad_weight";
  return isa<MatmulOp>(op) ? "matmul" : "";
}

bool CudaTarget::decomposes(Operation *op) const {
  return isa<BatchNormOp, BatchNormTrainingOp, BatchNormGradOp>(op);
}

CudnnPlans &CudaTarget::plans() const {
  if (!opened) {
    if (!chip.isNamed())
      throw Error::badInput(chip.name +
                            " names an architecture, and cuDNN plans convolutions for a chip; say "
                            "--target=cuda:CHIP, which is one of " +
                            chipsOf(chip.architecture));
    opened = std::make_unique<CudnnPlans>(CudnnLibrary::open(cudnnFolder), chip, products);
  }
  return *opened;
}

FailureOr<Target::Requirements> CudaTarget::query(Operation *op, ArrayRef<bool> freeLayouts) const {
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return queryMatmul(matmul);
  return queryConvolution(op, freeLayouts);
}

FailureOr<Target::Requirements> CudaTarget::queryConvolution(Operation *op,
                                                             ArrayRef<bool> freeLayouts) const {
  Requirements requirements;
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  SmallVector<StridedTensor> tensors;
  for (auto [value, isFree] : llvm::zip_equal(values, freeLayouts)) {
    const RankedTensorType type = tensorType(value);
    const bool isChannelsLast = isFree && type.getRank() > 2 && isForTensorCores(op);
    const Layout layout = isChannelsLast ? channelsInnermost(type.getRank())
                          : isFree       ? Layout()
                                         : layoutOf(type);
    requirements.layouts.push_back(layout);
    tensors.push_back(strided(type, layout));
  }
  auto ints = [&](StringRef name) {
    return op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
  };
  Convolution question;
  question.strides = padded(ints("strides"), 1);
  question.dilations = padded(ints("dilations"), 1);
  const ArrayRef<int64_t> pads = ints("pads");
  question.padsBefore = padded(pads.take_front(pads.size() / 2), 0);
  question.padsAfter = padded(pads.drop_front(pads.size() / 2), 0);
  if (isa<Conv2dOp>(op)) { // a bias is added in place, by a kernel behind the call
    question.kind = ConvolutionKind::Forward;
    question.x = tensors[0], question.weight = tensors[1], question.y = tensors.back();
  } else if (isa<Conv2dGradInputOp>(op)) {
    question.kind = ConvolutionKind::GradInput;
    question.y = tensors[0], question.weight = tensors[1], question.x = tensors[2];
  } else {
    question.kind = ConvolutionKind::GradWeight;
    question.x = tensors[0], question.y = tensors[1], question.weight = tensors[2];
  }
  try {
    for (const EnginePlan &plan : plans().of(question))
      requirements.choices.push_back(
          {"cudnn " + plan.identity, plan.workspaceBytes,
           (plan.isFallback ? 2 : 1) + kSlowdownPerPosition * plan.position});
  } catch (const Error &error) {
    return op->emitError() << error.what();
  }
  requirements.implementation = requirements.choices.front().name;
  requirements.workspaceBytes = requirements.choices.front().workspaceBytes;
  return requirements;
}

/// Scratch serves to split the inner extent of products that have few tiles, whose parts are summed
/// in f32: more than kMostParts of them gain nothing, so that small products are given less.
Target::Requirements CudaTarget::queryMatmul(MatmulOp op) const {
  constexpr Bytes kMostParts = 32;
  Requirements requirements;
  for (Value value : op->getOperands())
    requirements.layouts.push_back(layoutOf(value.getType()));
  requirements.layouts.push_back(layoutOf(op.getY().getType()));
  const Bytes parts = kMostParts * tensorType(op.getY()).getNumElements() * Bytes{sizeof(float)};
  const Bytes room = std::min(chip.matmulWorkspaceBytes, alignUp(parts, 256));
  requirements.choices = {{"cublaslt within " + std::to_string(room) + " bytes", room, 1},
                          {"cublaslt without scratch", 0, 1 + kSlowdownPerPosition}};
  requirements.implementation = requirements.choices.front().name;
  requirements.workspaceBytes = room;
  return requirements;
}

RankedTensorType CudaTarget::savedType(MaxPoolOp pool) const {
  const int64_t window = llvm::product_of(pool.getKernel());
  return RankedTensorType::get(pool.getY().getType().getShape(),
                               IntegerType::get(pool.getContext(), window <= 255 ? 8 : 32));
}

OrderWish CudaTarget::orderWish(Operation *op) const {
  if (isConvolution(op))
    return isForTensorCores(op) ? OrderWish::ChannelsLast : OrderWish::RowMajor;
  if (isa<MatmulOp>(op))
    return OrderWish::Matrices;
  if (isa<EmbeddingOp, EmbeddingGradOp>(op))
    return OrderWish::RowMajor;
  const bool isOfImages = isa<MaxPoolOp, MaxPoolTrainingOp, MaxPoolGradOp, AvgPoolOp, AvgPoolGradOp,
                              ChannelMomentsOp, BatchNormScaleGradOp, ChannelWindowSumOp,
                              PlaneMomentsOp, PlaneNormalizeOp, PlaneProductsOp>(op);
  return isOfImages && isForTensorCores(op) ? OrderWish::ChannelsLast : OrderWish::None;
}

bool CudaTarget::takesType(Operation *op, unsigned, FloatType type) const {
  return libraryCall(op).empty() || type.getWidth() <= 32;
}

bool CudaTarget::takesPart(Operation *op, unsigned position, RankedTensorType part) const {
  return kernelTakesPart(op, position, part);
}

/// Products sum in f32 and may write it; cuDNN's convolutions have one type for what they read and
/// write.
bool CudaTarget::takesWide(Operation *op, unsigned position, FloatType) const {
  return isa<MatmulOp>(op) && position == op->getNumOperands();
}

} // namespace stow::cuda
