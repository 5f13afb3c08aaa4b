#include "codegen/kernels/Emit.h"
#include "codegen/kernels/Kernels.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace stow {

void KernelTable::put(TypeID op, Row row) {
  if (!rows.try_emplace(op, row).second)
    llvm::report_fatal_error("an op has two kernels");
}

KernelTable::Emit KernelTable::find(Operation *op) const {
  auto row = rows.find(op->getName().getTypeID());
  if (row == rows.end() || (row->second.takes && !row->second.takes(op)))
    return nullptr;
  return row->second.emit;
}

const KernelTable &KernelTable::all() {
  static const KernelTable table = [] {
    KernelTable all;
    for (auto *add :
         {addCopyKernels, addDepthwiseKernels, addEmbeddingKernels, addFoldKernels, addIndexKernels,
          addLossKernels, addMapKernels, addNormKernels, addResampleKernels, addWindowKernels})
      add(all);
    return all;
  }();
  return table;
}

bool hasGeneratedKernel(Operation *op) { return KernelTable::all().find(op) != nullptr; }

} // namespace stow
