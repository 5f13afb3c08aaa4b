#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace stow {

Value addSharedMemory(gpu::GPUFuncOp function, ArrayRef<int64_t> shape, Type element,
                      Location location) {
  Builder builder(function.getContext());
  auto space = gpu::AddressSpaceAttr::get(builder.getContext(), gpu::AddressSpace::Workgroup);
  Value memory = function.addWorkgroupAttribution(
      MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space), location);
  function.setWorkgroupAttributionAttr(function.getNumWorkgroupAttributions() - 1,
                                       LLVM::LLVMDialect::getAlignAttrName(),
                                       builder.getI64IntegerAttr(kAccessBytes));
  return memory;
}

void allowRegisters(gpu::GPUFuncOp function, int32_t count) {
  function->setAttr(NVVM::NVVMDialect::getMaxnregAttrName(),
                    Builder(function.getContext()).getI32IntegerAttr(count));
}

void keepRolled(Operation *loop) {
  MLIRContext *context = loop->getContext();
  auto rolled = LLVM::LoopUnrollAttr::get(context, /*disable=*/BoolAttr::get(context, true), {}, {},
                                          {}, {}, {}, {});
  auto annotation = LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, rolled, {}, {}, {}, {}, {},
                                                  {}, {}, {}, {}, {}, {});
  loop->setAttr(kLoopAnnotation, annotation);
}

} // namespace stow
