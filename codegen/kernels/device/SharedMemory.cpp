#include "codegen/kernels/device/SharedMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

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

Value givenSharedMemory(OpBuilder &builder, gpu::GPUFuncOp function, int64_t offset,
                        ArrayRef<int64_t> shape, Type element, Location location) {
  constexpr llvm::StringLiteral kName = "given_shared_memory";
  auto space = gpu::AddressSpaceAttr::get(builder.getContext(), gpu::AddressSpace::Workgroup);
  auto bytes = MemRefType::get({0}, builder.getI8Type(), MemRefLayoutAttrInterface(), space);
  Operation *module = function->getParentOp();
  if (!SymbolTable::lookupSymbolIn(module, kName)) {
    OpBuilder at = OpBuilder::atBlockBegin(&module->getRegion(0).front());
    memref::GlobalOp::create(at, location, kName, /*sym_visibility=*/nullptr, bytes,
                             /*initial_value=*/nullptr, /*constant=*/false,
                             at.getI64IntegerAttr(kAccessBytes));
  }
  Value given = memref::GetGlobalOp::create(builder, location, bytes, kName);
  Value from = arith::ConstantIndexOp::create(builder, location, offset);
  auto type = MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
  return memref::ViewOp::create(builder, location, type, given, from, ValueRange{});
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
