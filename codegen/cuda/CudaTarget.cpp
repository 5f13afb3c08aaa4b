#include "codegen/cuda/CudaTarget.h"

#include "codegen/cuda/Epilogues.h"
#include "codegen/kernels/device/KernelSequence.h"
#include "codegen/program/LibraryCommand.h"
#include "ir/StowAttentionOps.h"
#include "ir/StowEmbeddingOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowPoolOps.h"
#include "ir/StowQuantizeOps.h"
#include "ir/StowReduceOps.h"
#include "passes/memory/FuseBiasGradient.h"
#include "passes/memory/Implementations.h"
#include "runtime/base/Error.h"
#include "runtime/format/DeviceCode.h"

#include "llvm/ADT/STLExtras.h"

#include <absl/strings/str_cat.h>

#include <map>

using namespace mlir;

namespace stow::cuda {
namespace {

/// A guess, as those about engines (EngineChoices.cpp).
constexpr double kSlowdownWithoutScratch = 1.05;

constexpr Bytes kScratchOfCounters = 256;

/// Of the chosen engine with other knobs. More are likely to fail where it does: on an H200 engines 62 and 65 of cuDNN 9.19 need
/// more scratch than deviceless planning says, whatever their knobs.
constexpr int kSparesAlike = 2;

bool isConvolution(Operation *op) {
  return isa<Conv2dOp, Conv2dMapOp, Conv2dGradInputOp, Conv2dGradWeightOp>(op);
}

bool isAttention(Operation *op) { return isa<AttentionOp, AttentionGradientOp>(op); }

/// What the library does to the product or convolution of `op` before it is written.
std::optional<ProductEpilogue> writtenEpilogueOf(Operation *op) {
  if (auto convolution = dyn_cast<Conv2dMapOp>(op))
    return epilogueOf(convolution);
  auto product = dyn_cast<ProductMapOp>(op);
  return product && !addsToProduct(product) ? epilogueOf(product) : std::nullopt;
}

/// " with bias, relu" and the like.
std::string epilogueWords(Operation *op) {
  const std::optional<ProductEpilogue> epilogue = writtenEpilogueOf(op);
  return epilogue ? wordsOf(*epilogue) : "";
}

/// The command of a convolution, with what the library does to it; places and engines are not known.
Command convolutionCommand(Operation *op, CommandOp call) {
  Command command = libraryCommand(op, call);
  if (const std::optional<ProductEpilogue> epilogue = writtenEpilogueOf(op))
    setEpilogue(command, *epilogue);
  return command;
}

} // namespace

CudaTarget::CudaTarget(std::vector<Chip> chips, F32Products products, LibraryEpilogues epilogues,
                       std::string cudnnFolder)
    : chips(std::move(chips)), products(products), epilogues(epilogues),
      cudnnFolder(std::move(cudnnFolder)) {}

/// Whether calls may do that, as the user says.
bool CudaTarget::takesIn(const std::optional<ProductEpilogue> &epilogue) const {
  if (!epilogue || epilogues == LibraryEpilogues::None)
    return false;
  const bool isBias =
      epilogue->bias && !epilogue->added && !epilogue->preactivation &&
      (epilogue->function == ProductFunction::None || epilogue->function == ProductFunction::Relu);
  return epilogues == LibraryEpilogues::All || isBias;
}

bool CudaTarget::isForTensorCores(Operation *op) const {
  const Type element = tensorType(op->getOperand(0)).getElementType();
  return element.isIntOrFloat() && (element.getIntOrFloatBitWidth() == 16 ||
                                    (element.isF32() && products == F32Products::Tf32));
}

std::optional<CommandOp> CudaTarget::libraryCall(Operation *op) const {
  using enum CommandOp;
  if (isa<Conv2dOp>(op))
    return CudaConvolution;
  if (isa<Conv2dGradInputOp>(op))
    return CudaConvolutionGradInput;
  if (isa<Conv2dGradWeightOp>(op))
    return CudaConvolutionGradWeight;
  if (isa<MatmulOp>(op))
    return CudaMatmul;
  if (auto convolution = dyn_cast<Conv2dMapOp>(op); convolution && takesIn(epilogueOf(convolution)))
    return CudaConvolutionEpilogue;
  if (auto product = dyn_cast<ProductMapOp>(op)) {
    if (addsToProduct(product))
      return CudaMatmulAdd;
    if (takesIn(epilogueOf(product)))
      return CudaMatmulEpilogue;
  }
  if (const std::optional<CommandOp> together = commandOfRanks(op))
    return together;
  if (kernelSequence(op))
    return Sequence;
  return std::nullopt;
}

bool CudaTarget::decomposes(Operation *op) const {
  if (auto convolution = dyn_cast<Conv2dOp>(op))
    return static_cast<bool>(convolution.getBias());
  if (auto product = dyn_cast<MatmulOp>(op)) // whose bias is an epilogue, too
    return product.getBias() && epilogues == LibraryEpilogues::None;
  if (auto convolution = dyn_cast<Conv2dMapOp>(op))
    return !isAsGoodAsApart(convolution);
  if (isAttention(op))
    return !hasGeneratedKernel(op);
  return isa<BatchNormOp, BatchNormTrainingOp, BatchNormGradOp>(op);
}

/// Engines of convolutions with epilogues are fewer than those without. Where the fastest is slower or needs more
/// scratch, or the leanest needs more, or there is none, a kernel behind the convolution may be the better way. What
/// some engines need for counters alone, 131 bytes on an h100, is not looked at: 51,389,587 bytes instead of
/// 51,389,456 are no reason to read and write the 411 MB of VGG-16's first convolution in bf16 once more.
bool CudaTarget::isAsGoodAsApart(Conv2dMapOp op) const {
  const std::optional<CommandOp> call = libraryCall(op);
  if (!call)
    return false;
  const Command fused = convolutionCommand(op, *call);
  Command alone = libraryCommand(op, CommandOp::CudaConvolution);
  alone.operands = {alone.operands[0], alone.operands[1], alone.operands.back()};
  try {
    const std::vector<EngineChoice> with = choicesOf(fused), without = choicesOf(alone);
    auto needsMore = [](const EngineChoice &one, const EngineChoice &other) {
      return one.workspaceBytes > other.workspaceBytes + kScratchOfCounters;
    };
    return with.front().slowdown <= without.front().slowdown &&
           !needsMore(with.front(), without.front()) && !needsMore(with.back(), without.back());
  } catch (const Error &) { // which of the two has no engine, the one that stays will say
    return false;
  }
}

const std::vector<CudnnPlans *> &CudaTarget::plans() const {
  if (!opened.empty())
    return opened;
  for (const Chip &chip : chips)
    if (!chip.isNamed())
      throw Error::badInput(chip.name +
                            " names an architecture, and cuDNN plans convolutions for a chip; say "
                            "--target=cuda:CHIP, which is one of " +
                            chipsOf(chip.architecture));
  std::vector<CudnnPlans *> all;
  for (const Chip &chip : chips)
    all.push_back(&CudnnPlans::opened(cudnnFolder, chip, products));
  opened = std::move(all);
  return opened;
}

FailureOr<Target::Requirements> CudaTarget::query(Operation *op, ArrayRef<bool> freeLayouts) const {
  if (isa<MatmulOp, ProductMapOp>(op))
    return queryMatmul(op);
  if (commandOfRanks(op)) {
    Requirements requirements;
    for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
      requirements.layouts.push_back(layoutOf(type));
    requirements.implementation = "nccl, in the order of its rings";
    return requirements;
  }
  if (const std::optional<KernelSequence> sequence = kernelSequence(op)) {
    Requirements requirements;
    for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
      requirements.layouts.push_back(layoutOf(type));
    requirements.implementation = sequence->words;
    requirements.workspaceBytes = sequence->scratchBytes();
    return requirements;
  }
  return queryConvolution(op, freeLayouts);
}

FailureOr<Target::Requirements> CudaTarget::queryConvolution(Operation *op,
                                                             ArrayRef<bool> freeLayouts) const {
  Requirements requirements;
  Command command = convolutionCommand(op, *libraryCall(op));
  for (auto [operand, isFree] : llvm::zip_equal(command.operands, freeLayouts)) {
    if (isFree)
      operand.layout = operand.shape.size() > 2 && isForTensorCores(op)
                           ? channelsLastLayout(operand.shape.size())
                           : Layout();
    requirements.layouts.push_back(operand.layout);
  }
  const std::string words = epilogueWords(op);
  try {
    for (const EngineChoice &choice : choicesOf(command))
      requirements.choices.push_back({choice.name + words, choice.workspaceBytes, choice.slowdown});
  } catch (const Error &error) {
    return op->emitError() << error.what();
  }
  requirements.implementation = requirements.choices.front().name;
  requirements.workspaceBytes = requirements.choices.front().workspaceBytes;
  return requirements;
}

/// A bias of stow.conv2d, which stow-convolution-bias has taken away where there is a program to be, changes
/// nothing.
std::vector<EngineChoice> CudaTarget::choicesOf(Command command) const {
  if (command.operands.size() == 4 && command.ints.contains("has_bias"))
    command.operands.erase(command.operands.begin() + 2);
  const Convolution convolution = convolutionOf(command);
  std::vector<ChipPlans> all;
  for (auto [chip, plans] : llvm::zip_equal(chips, plans()))
    all.push_back({chip.name, &plans->of(convolution)});
  return engineChoices(all, alignment());
}

/// For each chip those that fit the scratch of `choice`, in cuDNN's order: the best of every other engine, and a few of the same.
std::vector<SpareEngine> CudaTarget::sparesOf(const Convolution &convolution,
                                              const EngineChoice &choice) const {
  std::vector<SpareEngine> spares;
  for (auto [number, cudnn] : llvm::enumerate(plans())) {
    const EnginePlan *chosen = choice.engines[number];
    std::map<int64_t, int> taken;
    for (const EnginePlan &plan : cudnn->of(convolution))
      if (&plan != chosen && plan.workspaceBytes <= choice.workspaceBytes &&
          taken[plan.engine.index]++ <
              (plan.engine.index == chosen->engine.index ? kSparesAlike : 1))
        spares.push_back({number, plan.engine});
  }
  return spares;
}

LogicalResult CudaTarget::completeCommand(Operation *op, Command &command) const {
  if (const std::optional<ProductEpilogue> epilogue = writtenEpilogueOf(op))
    setEpilogue(command, *epilogue);
  if (ReduceSumOp sum = sumBeside(op))
    setSum(command, *summedFactor(op, sum));
  if (isa<MatmulOp, ProductMapOp>(op) && products == F32Products::Tf32 &&
      tensorType(op->getOperand(0)).getElementType().isF32())
    command.ints["tf32"] = {1};
  if (!isConvolution(command))
    return success();
  const SmallVector<Implementation> all = implementationsOf(op);
  const unsigned number = chosenImplementation(op);
  try {
    for (const EngineChoice &choice : choicesOf(command)) {
      if (number >= all.size() || choice.name + epilogueWords(op) != all[number].name)
        continue;
      std::vector<ChipEngine> engines;
      for (auto [chip, plan] : llvm::zip_equal(chips, choice.engines))
        engines.push_back({architectureNumber(chip.architecture), plan->engine});
      setEngines(command, engines, plans().front()->versionNumber(), products);
      setSpareEngines(command, sparesOf(convolutionOf(command), choice));
      return success();
    }
  } catch (const Error &error) {
    return op->emitError() << error.what();
  }
  return op->emitError() << "no engine of cuDNN " << plans().front()->version()
                         << " is the one planned, "
                         << (number < all.size() ? all[number].name : "which is not named")
                         << "; plan the model again with this version";
}

/// Scratch serves to split the inner extent of products that have few tiles, whose parts are summed
/// in f32: more than kMostParts of them gain nothing, so that small products are given less.
Target::Requirements CudaTarget::queryMatmul(Operation *op) const {
  constexpr Bytes kMostParts = 32;
  Requirements requirements;
  for (Value value : op->getOperands())
    requirements.layouts.push_back(layoutOf(value.getType()));
  RankedTensorType y = tensorType(op->getResult(0));
  requirements.layouts.push_back(layoutOf(y));
  const Bytes parts = kMostParts * y.getNumElements() * Bytes{sizeof(float)};
  Bytes most = 0;
  for (const Chip &chip : chips)
    most = std::max(most, chip.matmulWorkspaceBytes);
  const Bytes room = std::min(most, alignUp(parts, workspaceAlignment()));
  const std::string library = absl::StrCat("cublaslt", epilogueWords(op));
  requirements.choices = {{absl::StrCat(library, " within ", room, " bytes"), room, 1},
                          {library + " without scratch", 0, kSlowdownWithoutScratch}};
  requirements.implementation = requirements.choices.front().name;
  requirements.workspaceBytes = room;
  return requirements;
}

RankedTensorType CudaTarget::savedType(MaxPoolOp pool) const {
  const int64_t window = llvm::product_of(pool.getKernel());
  return RankedTensorType::get(pool.getY().getType().getShape(),
                               IntegerType::get(pool.getContext(), window <= 255 ? 8 : 32));
}

bool CudaTarget::sumsRows(Operation *product, unsigned, RankedTensorType sums) const {
  if (epilogues != LibraryEpilogues::All)
    return false;
  const std::optional<CommandOp> call = libraryCall(product);
  const RankedTensorType y = tensorType(product->getResult(0));
  auto isPlainMatrix = [](RankedTensorType type) {
    return type.getRank() == 2 && layoutOf(type).isRowMajor();
  };
  const RankedTensorType a = tensorType(product->getOperand(0)),
                         b = tensorType(product->getOperand(1));
  const bool isAlone = call == CommandOp::CudaMatmul && product->getNumOperands() == 2;
  return (isAlone || call == CommandOp::CudaMatmulAdd) &&
         llvm::all_of(ArrayRef({a, b, y}), isPlainMatrix) &&
         a.getElementType() == b.getElementType() && sums.getElementType() == y.getElementType() &&
         (y.getElementType() == a.getElementType() || y.getElementType().isF32()) &&
         layoutOf(sums).isRowMajor();
}

int64_t CudaTarget::productRowStep(MatmulOp product) const {
  constexpr int64_t kVectorBits = 128;
  return epilogues != LibraryEpilogues::None && isForTensorCores(product)
             ? kVectorBits / product.getA().getType().getElementTypeBitWidth()
             : 1;
}

OrderWish CudaTarget::orderWish(Operation *op) const {
  if (isConvolution(op))
    return isForTensorCores(op) ? OrderWish::ChannelsLast : OrderWish::RowMajor;
  const OrderWish wish = wishOf(op);
  return wish == OrderWish::ChannelsLast && !isForTensorCores(op) ? OrderWish::None : wish;
}

bool CudaTarget::takesType(Operation *op, unsigned, FloatType type) const {
  if (commandOfRanks(op))
    return type.isF32();
  return !libraryCall(op) || type.getWidth() <= 32;
}

bool CudaTarget::takesPart(Operation *op, unsigned position, RankedTensorType part) const {
  return kernelTakesPart(op, position, part);
}

/// Products sum in f32 and may write it; cuDNN's convolutions have one type for what they read and
/// write. Attention's kernels convert all but the factors of its products on the way.
bool CudaTarget::takesWide(Operation *op, unsigned position, FloatType) const {
  if (isAttention(op))
    return position > 2;
  return isa<MatmulOp>(op) && position == op->getNumOperands();
}

} // namespace stow::cuda
