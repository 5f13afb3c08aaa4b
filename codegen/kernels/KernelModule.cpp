#include "codegen/kernels/Kernels.h"

#include "codegen/kernels/Emit.h"
#include "codegen/kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/StringExtras.h"

#include <absl/strings/str_cat.h>

using namespace mlir;

namespace stow {

FailureOr<SmallVector<SmallVector<int64_t>>> tensorStrides(Operation *op) {
  SmallVector<SmallVector<int64_t>> all;
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto strides = stridesOf(cast<RankedTensorType>(type));
    if (!strides)
      return op->emitOpError() << "cannot be generated over " << type
                               << ": a blocked layout must be shared by all tensors of the op; "
                                  "reorder the operands first";
    all.push_back(*strides);
  }
  return all;
}

/// A flat memref of the stored elements. The host keeps bf16 as integers: for vectors of a type that a
/// processor lacks, LLVM converts element by element to f32 and back, by a function that the system's
/// libraries do not have.
static MemRefType storageType(RankedTensorType tensor, KernelTarget target) {
  Type element = tensor.getElementType();
  if (element.isInteger(1))
    element = IntegerType::get(tensor.getContext(), 8);
  else if (element.isBF16() && target == KernelTarget::Host)
    element = IntegerType::get(tensor.getContext(), 16);
  Shape shape(tensor.getShape().begin(), tensor.getShape().end());
  return MemRefType::get({storedElementCount(layoutOf(tensor), shape)}, element);
}

void registerKernelDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, nvgpu::NVGPUDialect, NVVM::NVVMDialect,
                  scf::SCFDialect, vector::VectorDialect>();
}

KernelModule::KernelModule(MLIRContext *context, KernelTarget target) : target(target) {
  DialectRegistry registry;
  registerKernelDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context->getOrLoadDialect(name);
  owned = ModuleOp::create(UnknownLoc::get(context));
  if (target == KernelTarget::Device) {
    OpBuilder builder(owned->getBodyRegion());
    gpu::GPUModuleOp::create(builder, owned->getLoc(), "kernels");
  }
}

/// An empty kernel function; the builder moves into it.
static Operation *createFunction(OpBuilder &builder, FunctionType type, KernelTarget target) {
  Location location = builder.getUnknownLoc();
  if (target == KernelTarget::Host) {
    auto function = func::FuncOp::create(builder, location, "kernel", type);
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  }
  auto function = gpu::GPUFuncOp::create(builder, location, "kernel", type);
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({kDeviceBlock, 1, 1}));
  builder.setInsertionPointToStart(&function.getBody().front());
  return function;
}

/// What a kernel is made of, as text, without the extents of the tensors' storage, which have no part in
/// addresses: kernels that differ in nothing else are one.
static std::string codeOf(Operation *function) {
  std::string code;
  llvm::raw_string_ostream stream(code);
  function->print(stream, OpPrintingFlags().useLocalScope());
  static constexpr StringLiteral kStorage = "memref<";
  std::string shared;
  StringRef left = code;
  for (size_t at = left.find(kStorage); at != StringRef::npos; at = left.find(kStorage)) {
    shared += left.take_front(at + kStorage.size());
    left = left.drop_front(at + kStorage.size());
    const StringRef type = left.take_until([](char c) { return c == '>'; });
    if (!type.contains(',')) // shared memory has a space: its size counts
      left = left.drop_while(llvm::isDigit);
  }
  return shared + left.str();
}

FailureOr<KernelInfo> KernelModule::add(Operation *op, ArrayRef<int64_t> alignments) {
  const KernelTable::Emit emit = KernelTable::all().find(op);
  if (!emit)
    return op->emitOpError() << "has no generated kernel";
  double work = 0;
  if (auto cost = cast<CostOpInterface>(op); target == KernelTarget::Host)
    work = static_cast<double>(cost.getBytesMoved()) + cost.getFlops();
  return define(
      op->getName().stripDialect(), argumentsOf(op, alignments), op->getNumOperands(),
      [&](KernelFrame &frame) { return emit(op, frame); }, std::llround(work));
}

SmallVector<KernelArgument> argumentsOf(Operation *op, ArrayRef<int64_t> alignments) {
  SmallVector<KernelArgument> arguments;
  for (auto [i, type] :
       llvm::enumerate(llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())))
    arguments.push_back({cast<RankedTensorType>(type),
                         alignments.empty() ? KernelModule::kAlignment : alignments[i]});
  return arguments;
}

/// Notes the work of a run, the largest where several ops run `function`.
static void noteWork(Operation *function, int64_t work) {
  auto noted = function->getAttrOfType<IntegerAttr>(kKernelWorkAttr);
  if (work > (noted ? noted.getInt() : 0))
    function->setAttr(kKernelWorkAttr, Builder(function).getI64IntegerAttr(work));
}

FailureOr<KernelInfo> KernelModule::define(StringRef name, ArrayRef<KernelArgument> given,
                                           size_t reads,
                                           llvm::function_ref<LogicalResult(KernelFrame &)> emit,
                                           int64_t work) {
  OpBuilder builder(owned->getContext());
  Location location = builder.getUnknownLoc();
  Block *functions = owned->getBody();
  if (target == KernelTarget::Device)
    functions = cast<gpu::GPUModuleOp>(functions->front()).getBody();
  builder.setInsertionPointToEnd(functions);
  SmallVector<Type> types(2, builder.getIndexType());
  for (const KernelArgument &argument : given)
    types.push_back(storageType(argument.type, target));
  Operation *function = createFunction(builder, builder.getFunctionType(types, {}), target);
  Block *entry = builder.getInsertionBlock();

  auto lanes = target == KernelTarget::Host ? makeHostLanes(builder, location)
                                            : makeDeviceLanes(builder, location);
  KernelFrame frame{*lanes, entry->getArgument(0), entry->getArgument(1), {}, 0, {}, target, reads};
  frame.constant = [&](DenseElementsAttr value) {
    auto type = cast<RankedTensorType>(value.getType());
    auto memory = MemRefType::get(type.getShape(), type.getElementType());
    std::string &symbol = constants[value];
    if (symbol.empty()) {
      symbol = absl::StrCat("constant", constants.size());
      OpBuilder at = OpBuilder::atBlockBegin(functions);
      memref::GlobalOp::create(at, location, symbol, at.getStringAttr("private"), memory, value,
                               /*constant=*/true, /*alignment=*/nullptr);
    }
    Value address = memref::GetGlobalOp::create(builder, location, memory, symbol);
    return Buffer{address, type.getElementType()};
  };
  for (auto [i, argument] : llvm::enumerate(given))
    frame.buffers.push_back(
        {entry->getArgument(i + 2), argument.type.getElementType(), argument.alignment});
  if (failed(emit(frame))) {
    function->erase();
    return failure();
  }
  if (target == KernelTarget::Host)
    func::ReturnOp::create(builder, location);
  else
    gpu::ReturnOp::create(builder, location);

  std::string code = codeOf(function);
  if (auto known = byCode.find(code); known != byCode.end()) {
    function->erase();
    noteWork(known->second.function, work);
    KernelInfo shared = known->second.info;
    shared.tasks = frame.tasks;
    return shared;
  }
  KernelInfo info;
  info.index = names.size();
  info.symbol = ("k" + Twine(info.index) + "_" + name).str();
  info.tasks = frame.tasks;
  info.sharedBytes = frame.sharedBytes;
  SymbolTable::setSymbolName(function, info.symbol);
  names.push_back(info.symbol);
  byCode.emplace(std::move(code), Known{info, function});
  noteWork(function, work);
  return info;
}

} // namespace stow
