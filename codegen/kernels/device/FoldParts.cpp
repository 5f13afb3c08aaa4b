#include "codegen/kernels/device/FoldParts.h"

#include "codegen/kernels/Emit.h"
#include "ir/StowNormOps.h"
#include "ir/StowReduceOps.h"

#include <bit>

using namespace mlir;

namespace stow {
namespace {

/// Blocks that keep all multiprocessors of the larger chips busy, four on each.
constexpr int64_t kFillingBlocks = 512;
/// Elements that are worth a block: 32 a thread take as long as a launch.
constexpr int64_t kBlockElements = 32 * kDeviceBlock;
/// Rows that a block takes where they lie side by side: whole lines of 128 bytes of them.
constexpr int64_t kRowsSideBySide = 32;

/// A fold whose rows are read for nothing else: what it folds, and how often.
struct Folded {
  RankedTensorType type;
  SmallVector<int64_t> axes;
  int64_t folds = 1, values = 1;
};

std::optional<Folded> foldedBy(Operation *op) {
  auto type = dyn_cast_or_null<RankedTensorType>(
      op->getNumOperands() > 0 ? op->getOperand(0).getType() : Type());
  if (!type || !isa<FloatType>(type.getElementType()) || type.getElementTypeBitWidth() > 32)
    return std::nullopt;
  auto allBut = [&](int64_t kept) {
    return llvm::filter_to_vector(llvm::seq<int64_t>(0, type.getRank()),
                                  [=](int64_t dim) { return dim != kept; });
  };
  if (op->hasTrait<Reduces>())
    return Folded{type, llvm::to_vector(op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef())};
  if (isa<LayerNormScaleGradOp>(op))
    return Folded{type, allBut(type.getRank() - 1), 1, 2};
  if (isa<RmsNormScaleGradOp>(op))
    return Folded{type, allBut(type.getRank() - 1)};
  if (isa<ChannelMomentsOp>(op))
    return Folded{type, allBut(1), 2, 2};
  if (isa<BatchNormScaleGradOp>(op))
    return Folded{type, allBut(1), 1, 2};
  return std::nullopt;
}

} // namespace

std::optional<FoldParts> foldParts(Operation *op) {
  const std::optional<Folded> folded = foldedBy(op);
  const auto strides = folded ? stridesOf(folded->type) : std::nullopt;
  if (!strides)
    return std::nullopt;
  int64_t axis = 1, rows = 1;
  bool along = false; // the axis is contiguous
  for (auto [dim, extent] : llvm::enumerate(folded->type.getShape())) {
    const bool isFolded = llvm::is_contained(folded->axes, static_cast<int64_t>(dim));
    (isFolded ? axis : rows) *= extent;
    along |= isFolded && extent > 1 && (*strides)[dim] == 1;
  }
  const int64_t ofBlock = along ? 1 : std::min(rows, kRowsSideBySide);
  const int64_t wanted = kFillingBlocks / ((rows + ofBlock - 1) / ofBlock);
  const int64_t worth = axis * ofBlock / kBlockElements;
  const auto parts = std::bit_floor(static_cast<uint64_t>(std::min(wanted, worth)));
  if (parts < 2)
    return std::nullopt;
  return FoldParts{rows, static_cast<int64_t>(parts), folded->folds, folded->values};
}

FailureOr<SmallVector<KernelInfo>> addFoldInParts(KernelModule &kernels, Operation *op,
                                                  const FoldParts &parts,
                                                  ArrayRef<int64_t> alignments) {
  SmallVector<KernelArgument> arguments = argumentsOf(op, alignments);
  auto scratch =
      RankedTensorType::get({parts.scratchElements()}, Float32Type::get(op->getContext()));
  arguments.push_back({scratch, KernelModule::kAlignment});
  SmallVector<KernelInfo> infos;
  for (int64_t number = 0; number <= parts.folds; ++number) {
    auto info =
        kernels.define(op->getName().stripDialect(), arguments, op->getNumOperands(),
                       [&](KernelFrame &frame) -> LogicalResult {
                         FoldStage stage{parts, number, frame.buffers.pop_back_val()};
                         frame.stage = &stage;
                         if (failed(KernelTable::all().find(op)(op, frame)))
                           return failure();
                         if (stage.foundFolds != parts.folds || stage.foundValues != parts.values)
                           return op->emitOpError()
                                  << "folds a row " << stage.foundFolds << " times to "
                                  << stage.foundValues << " values; its workspace is for "
                                  << parts.folds << " times and " << parts.values << " values";
                         return success();
                       });
    if (failed(info))
      return failure();
    infos.push_back(*info);
  }
  return infos;
}

} // namespace stow
