#include "codegen/kernels/Emit.h"
#include "codegen/kernels/Kernels.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace stow {

void KernelTable::put(TypeID op, Row row) {
  if (!rows.try_emplace(op, row).second)
    llvm::report_fatal_error("an op has two kernels");
}

const KernelTable::Row *KernelTable::rowOf(Operation *op) const {
  auto row = rows.find(op->getName().getTypeID());
  if (row == rows.end() || (row->second.limits.takes && !row->second.limits.takes(op)))
    return nullptr;
  return &row->second;
}

KernelTable::Emit KernelTable::find(Operation *op) const {
  const Row *row = rowOf(op);
  return row ? row->emit : nullptr;
}

bool KernelTable::takesPart(Operation *op, unsigned position, RankedTensorType part) const {
  const Row *row = rowOf(op);
  return row && row->limits.takesPart && row->limits.takesPart(op, position, part);
}

const KernelTable &KernelTable::all() {
  static const KernelTable table = [] {
    KernelTable all;
    for (auto *add :
         {addAttentionKernels, addCopyKernels, addDepthwiseKernels, addEmbeddingKernels,
          addFoldKernels, addGridSampleKernels, addIndexKernels, addLossKernels, addMapKernels,
          addNormKernels, addPoolKernels, addQuantizeKernels, addResampleKernels, addWindowKernels})
      add(all);
    return all;
  }();
  return table;
}

bool hasGeneratedKernel(Operation *op) { return KernelTable::all().find(op) != nullptr; }

bool kernelTakesPart(Operation *op, unsigned position, RankedTensorType part) {
  return KernelTable::all().takesPart(op, position, part);
}

} // namespace stow
