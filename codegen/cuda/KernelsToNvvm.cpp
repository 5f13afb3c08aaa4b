// stow-kernels-to-nvvm: the device's side of the kernels.
//
// The bodies are those of the host; folds end in a reduction over the block. Math that the target
// computes natively becomes LLVM intrinsics, so that f32 kernels need no libdevice and square roots
// are rounded correctly.
#include "codegen/cuda/NvvmCode.h"

#include "codegen/cuda/Passes.h"
#include "codegen/kernels/Lanes.h"
#include "codegen/kernels/Passes.h"
#include "codegen/kernels/device/KernelSequence.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

#include <absl/strings/str_cat.h>
#include <set>

using namespace mlir;

namespace stow {
namespace {

/// A math op as the LLVM intrinsic of the same meaning.
template <typename MathOp> struct ToIntrinsic : OpRewritePattern<MathOp> {
  ToIntrinsic(MLIRContext *context, StringRef name)
      : OpRewritePattern<MathOp>(context), name(name) {}

  LogicalResult matchAndRewrite(MathOp op, PatternRewriter &rewriter) const override {
    Type type = op.getType(), element = getElementTypeOrSelf(type);
    if (!element.isF32() && !element.isF64())
      return failure();
    auto vector = dyn_cast<VectorType>(type);
    std::string count = vector ? absl::StrCat("v", vector.getNumElements()) : "";
    auto symbol = rewriter.getStringAttr(name + "." + count + (element.isF32() ? "f32" : "f64"));
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(op, type, symbol, op->getOperands());
    return success();
  }

  std::string name;
};

/// Shuffles of 64 bits and native math.
struct PrepareDevicePass : PassWrapper<PrepareDevicePass, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrepareDevicePass)

  void getDependentDialects(DialectRegistry &registry) const override {
    registerKernelDialects(registry);
    registry.insert<LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    populateGpuShufflePatterns(patterns);
    patterns.add<ToIntrinsic<math::AbsFOp>>(context, "llvm.fabs");
    patterns.add<ToIntrinsic<math::CeilOp>>(context, "llvm.ceil");
    patterns.add<ToIntrinsic<math::CopySignOp>>(context, "llvm.copysign");
    patterns.add<ToIntrinsic<math::FloorOp>>(context, "llvm.floor");
    patterns.add<ToIntrinsic<math::FmaOp>>(context, "llvm.fma");
    patterns.add<ToIntrinsic<math::RoundEvenOp>>(context, "llvm.roundeven");
    patterns.add<ToIntrinsic<math::SqrtOp>>(context, "llvm.sqrt");
    patterns.add<ToIntrinsic<math::TruncOp>>(context, "llvm.trunc");
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

/// What kernels say of their loops (Lanes.h), which conversions carry on as attributes that nobody reads.
struct AnnotateLoopsPass : PassWrapper<AnnotateLoopsPass, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AnnotateLoopsPass)

  void runOnOperation() override {
    getOperation()->walk([](LLVM::BrOp branch) {
      if (auto annotation = branch->getAttrOfType<LLVM::LoopAnnotationAttr>(kLoopAnnotation))
        branch.setLoopAnnotationAttr(annotation);
    });
  }
};

/// Functions that the PTX text declares and nobody defines.
std::set<std::string> unresolved(StringRef ptx) {
  std::set<std::string> names;
  const StringRef keyword = ".extern .func";
  for (size_t at = ptx.find(keyword); at != StringRef::npos; at = ptx.find(keyword, at + 1)) {
    StringRef rest = ptx.substr(at + keyword.size()).ltrim();
    if (rest.consume_front("(")) // the result
      rest = rest.split(')').second.ltrim();
    names.insert(rest.take_while([](char c) { return isalnum(c) || c == '_'; }).str());
  }
  return names;
}

LogicalResult checkResolved(ModuleOp module) {
  for (gpu::BinaryOp binary : module.getOps<gpu::BinaryOp>())
    for (Attribute attribute : binary.getObjects()) {
      auto object = cast<gpu::ObjectAttr>(attribute);
      if (object.getFormat() != gpu::CompilationTarget::Assembly)
        continue;
      auto names = unresolved(object.getObject().getValue());
      if (!names.empty())
        return module.emitError() << "kernels call functions of the CUDA toolkit's libdevice ("
                                  << llvm::join(names, ", ") << "); give the toolkit's path";
    }
  return success();
}

/// Bytes of parameters that every driver passes to a kernel, and those that PTX of version 8.1 and drivers since CUDA 12.1 do,
/// from sm_70 on (PTX ISA, kernel function parameters; CUDA C++ Programming Guide, __global__ function parameters).
constexpr int64_t kParameterBytes = 4096, kMostParameterBytes = 32764;

/// Those of the kernel with most: an address or a number of 8 bytes each. Fails at a kernel that no GPU takes.
FailureOr<int64_t> parameterBytes(ModuleOp module) {
  int64_t most = 0;
  const auto result = module.walk([&](gpu::GPUFuncOp kernel) {
    const int64_t bytes = 8 * int64_t{kernel.getNumArguments()};
    most = std::max(most, bytes);
    if (bytes <= kMostParameterBytes)
      return WalkResult::advance();
    kernel.emitError() << "the kernel " << kernel.getName() << " has " << bytes
                       << " bytes of parameters, an address for each tensor, and a GPU takes "
                       << kMostParameterBytes
                       << "; compute it in several ops of fewer operands in the model";
    return WalkResult::interrupt();
  });
  return result.wasInterrupted() ? FailureOr<int64_t>() : most;
}

/// The version of PTX: one that knows the chip and takes as many parameters, and no newer, so that older drivers run it.
StringRef versionFor(StringRef chip, int64_t parameterBytes) {
  if (chip.size() > 5) // sm_100 and later
    return "+ptx86";
  return parameterBytes > kParameterBytes ? "+ptx81" : "+ptx80";
}

//===-- --stow-kernels-to-nvvm ----------------------------------------------------------------===//

struct KernelsToNvvmPass : PassWrapper<KernelsToNvvmPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelsToNvvmPass)

  KernelsToNvvmPass() = default;
  KernelsToNvvmPass(const KernelsToNvvmPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "stow-kernels-to-nvvm"; }
  StringRef getDescription() const override {
    return "Replace functions by a device binary with the kernels of their ops";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registerKernelDialects(registry);
    registerNvvmDialects(registry);
  }

  void runOnOperation() override {
    KernelModule kernels(&getContext(), KernelTarget::Device);
    auto graphs = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp graph : graphs)
      for (Operation &op : graph.getBody().front())
        if (hasGeneratedKernel(&op) && failed(addKernels(kernels, &op)))
          return signalPassFailure();
    for (func::FuncOp graph : graphs)
      graph.erase();
    ModuleOp module = getOperation();
    module.getBody()->getOperations().splice(module.getBody()->end(),
                                             kernels.module().getBody()->getOperations());
    const FailureOr<int64_t> parameters = parameterBytes(module);
    if (failed(parameters))
      return signalPassFailure();
    OpPassManager passes(ModuleOp::getOperationName());
    buildNvvmPipeline(passes, {chip, format, toolkit}, *parameters);
    if (failed(runPipeline(passes, module)) || failed(checkResolved(module)))
      signalPassFailure();
  }

  static void buildNvvmPipeline(OpPassManager &passes, const NvvmOptions &options,
                                int64_t parameterBytes) {
    OpPassManager &device = passes.nest<gpu::GPUModuleOp>();
    device.addPass(createDeviceMathPass());
    device.addPass(createExpandMathPass());
    device.addPass(std::make_unique<PrepareDevicePass>());
    device.addPass(createCanonicalizerPass());
    device.addPass(createCSEPass());
    device.addPass(createSCFToControlFlowPass());
    device.addPass(createConvertNVGPUToNVVMPass());
    ConvertGpuOpsToNVVMOpsOptions conversion;
    conversion.useBarePtrCallConv = true;
    device.addPass(createConvertGpuOpsToNVVMOps(conversion));
    device.addPass(createReconcileUnrealizedCastsPass());
    device.addPass(std::make_unique<AnnotateLoopsPass>());
    for (StringRef chip : llvm::split(options.chip, ',')) {
      GpuNVVMAttachTargetOptions target;
      target.chip = chip.str();
      target.features = versionFor(chip, parameterBytes).str();
      target.optLevel = 3;
      passes.addPass(createGpuNVVMAttachTarget(target));
    }
    GpuModuleToBinaryPassOptions binary;
    binary.compilationTarget = options.format;
    binary.toolkitPath = options.toolkit;
    passes.addPass(createGpuModuleToBinaryPass(binary));
  }

  Option<std::string> chip{*this, "chip", llvm::cl::desc("Target chips, with commas between"),
                           llvm::cl::init("sm_90")};
  Option<std::string> format{*this, "format", llvm::cl::desc("isa (PTX) or bin (cubin)"),
                             llvm::cl::init("isa")};
  Option<std::string> toolkit{*this, "toolkit", llvm::cl::desc("CUDA toolkit, for bin"),
                              llvm::cl::init("")};
};

} // namespace

void registerNvvmDialects(DialectRegistry &registry) {
  registry.insert<cf::ControlFlowDialect, gpu::GPUDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
  // convert-gpu-to-nvvm asks the dialects for their patterns.
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  NVVM::registerConvertGpuToNVVMInterface(registry);
  registerConvertNVVMToLLVMInterface(registry);
  NVVM::registerNVVMTargetInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  gpu::registerOffloadingLLVMTranslationInterfaceExternalModels(registry);
}

LogicalResult compileToNvvm(ModuleOp module, const NvvmOptions &options) {
  DialectRegistry registry;
  registerNvvmDialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  PassManager passes(module.getContext());
  const FailureOr<int64_t> parameters = parameterBytes(module);
  if (failed(parameters))
    return failure();
  KernelsToNvvmPass::buildNvvmPipeline(passes, options, *parameters);
  return success(succeeded(passes.run(module)) && succeeded(checkResolved(module)));
}

std::unique_ptr<Pass> createKernelsToNvvmPass() { return std::make_unique<KernelsToNvvmPass>(); }

} // namespace stow
