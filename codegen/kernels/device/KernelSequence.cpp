#include "codegen/kernels/device/KernelSequence.h"

#include "codegen/kernels/device/FoldParts.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow {

std::optional<KernelSequence> kernelSequence(Operation *op) {
  if (const std::optional<FoldParts> parts = foldParts(op))
    return KernelSequence{parts->scratchElements(),
                          absl::StrCat("rows in ", parts->parts, " parts")};
  if (const std::optional<int64_t> elements = attentionScratch(op))
    return KernelSequence{*elements, "by queries, then by keys"};
  return std::nullopt;
}

FailureOr<SmallVector<KernelInfo>> addKernels(KernelModule &kernels, Operation *op,
                                              ArrayRef<int64_t> alignments) {
  if (const std::optional<FoldParts> parts = foldParts(op))
    return addFoldInParts(kernels, op, *parts, alignments);
  if (attentionScratch(op))
    return addAttentionGradient(kernels, op, alignments);
  auto info = kernels.add(op, alignments);
  if (failed(info))
    return failure();
  return SmallVector<KernelInfo>{*info};
}

} // namespace stow
