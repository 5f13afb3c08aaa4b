// LLVM dialect to an ELF object.
//
// Every kernel gets a wrapper with the packed interface of runtime/format/Program.h, into which it
// is inlined. The code is position-independent and small-model, since it is linked into an ordinary
// executable.
#include "codegen/program/ObjectFile.h"

#include "codegen/SealFile.h"
#include "codegen/kernels/Passes.h"
#include "runtime/base/Error.h"
#include "runtime/host/Instructions.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace mlir;

namespace stow {
namespace {

void initializeTarget() {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
}

std::unique_ptr<llvm::TargetMachine> makeTargetMachine(ModuleOp module, const HostCpu &cpu) {
  initializeTarget();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) {
    module.emitError() << "no code generator for this machine: " << message;
    return nullptr;
  }
  const InstructionSet set = instructionSetOf(cpu);
  const bool hasBf16 = set >= InstructionSet::Avx512Bf16;
  const std::string_view level = processorOf(std::min(set, InstructionSet::Avx512));
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, level, hasBf16 ? "+avx512bf16" : "", llvm::TargetOptions(), llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

/// Schedules instructions for `cpu`, which changes their order and no result.
void tune(llvm::Module &module, const HostCpu &cpu) {
  const StringRef name = cpu.name == "native" ? llvm::sys::getHostCPUName() : StringRef(cpu.name);
  for (llvm::Function &function : module)
    function.addFnAttr("tune-cpu", name);
}

/// void wrapper(i64 begin, i64 end, ptr arguments): unpacks and calls `kernel`.
llvm::Function *emitWrapper(llvm::Module &module, llvm::Function *kernel) {
  auto &context = module.getContext();
  auto *word = llvm::Type::getInt64Ty(context);
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {word, word, pointer}, false);
  auto *wrapper = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                                         "stow_" + kernel->getName(), module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", wrapper));
  llvm::SmallVector<llvm::Value *> arguments{wrapper->getArg(0), wrapper->getArg(1)};
  for (unsigned i = 2; i < kernel->arg_size(); ++i)
    arguments.push_back(builder.CreateLoad(
        pointer, builder.CreateConstGEP1_64(pointer, wrapper->getArg(2), i - 2)));
  builder.CreateCall(kernel, arguments);
  builder.CreateRetVoid();
  wrapper->addFnAttr(llvm::Attribute::NoUnwind);
  kernel->setLinkage(llvm::GlobalValue::InternalLinkage);
  kernel->addFnAttr(llvm::Attribute::AlwaysInline);
  return wrapper;
}

/// Neither copied into its callers nor specialized for one of them, which a function of other objects' cannot be.
void keepShared(llvm::Function &function) {
  function.addFnAttr(llvm::Attribute::NoInline);
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.setVisibility(llvm::GlobalValue::HiddenVisibility);
}

void emitConstant(llvm::Module &module, llvm::Constant *value, StringRef name) {
  auto *global = new llvm::GlobalVariable(module, value->getType(), true,
                                          llvm::GlobalValue::ExternalLinkage, value, name);
  global->setAlignment(llvm::Align(16));
}

void emitTables(llvm::Module &module, const ProgramData &data,
                ArrayRef<llvm::Constant *> wrappers) {
  auto &context = module.getContext();
  auto *word = llvm::Type::getInt64Ty(context);
  auto *table = llvm::ArrayType::get(llvm::PointerType::getUnqual(context), wrappers.size());
  emitConstant(module, llvm::ConstantArray::get(table, wrappers), "stow_kernels");
  emitConstant(module, llvm::ConstantInt::get(word, wrappers.size()), "stow_kernel_count");
  emitConstant(module, llvm::ConstantDataArray::getString(context, data.json, false),
               "stow_program_json");
  emitConstant(module, llvm::ConstantInt::get(word, data.json.size()), "stow_program_json_size");
  // Not constant, so that it lies outside what it is the checksum of, nor zero, so that it lies in the file.
  auto *unsealed = llvm::ConstantDataArray::get(context, ArrayRef<uint64_t>{~0ull, ~0ull});
  new llvm::GlobalVariable(module, unsealed->getType(), false, llvm::GlobalValue::ExternalLinkage,
                           unsealed, "stow_seal");
  // Room that codegen/SealFile.h fills. Linkers put a section of a name that they do not know behind all
  // others that can be written and lie in the file.
  auto *room =
      llvm::ConstantDataArray::get(context, ArrayRef(std::vector<uint8_t>(kInterpreterRoom, 0xff)));
  auto *interpreter = new llvm::GlobalVariable(
      module, room->getType(), false, llvm::GlobalValue::ExternalLinkage, room, kInterpreterSymbol);
  interpreter->setSection(".stow_interp");
  llvm::appendToUsed(module, {interpreter}); // nothing refers to it
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

} // namespace

std::vector<std::string> targetCpus() {
  initializeTarget();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  std::vector<std::string> names;
  if (const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message)) {
    std::unique_ptr<llvm::MCSubtargetInfo> info(target->createMCSubtargetInfo(triple, "", ""));
    for (const llvm::SubtargetSubTypeKV &cpu : info->getAllProcessorDescriptions())
      names.push_back(cpu.Key);
  }
  llvm::sort(names);
  return names;
}

InstructionSet instructionSetOf(const HostCpu &cpu) {
  if (cpu.name == "native")
    return host::instructions();
  initializeTarget();
  const llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  const std::unique_ptr<llvm::MCSubtargetInfo> info(
      target ? target->createMCSubtargetInfo(triple, cpu.name, "") : nullptr);
  const std::pair<InstructionSet, const char *> needs[] = {
      {InstructionSet::Sse41, "+64bit,+cx16,+popcnt,+sse4.2"},
      {InstructionSet::Avx2, "+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"},
      {InstructionSet::Avx512, "+avx512bw,+avx512cd,+avx512dq,+avx512vl"},
      {InstructionSet::Avx512Bf16, "+avx512bf16"},
      {InstructionSet::Avx512Amx, "+amx-tile,+amx-int8,+amx-bf16"},
  };
  std::optional<InstructionSet> found;
  for (const auto &[set, features] : needs) {
    if (!info || !info->checkFeatures(features))
      break;
    found = set;
  }
  if (!found)
    throw Error::badInput("--target-cpu=" + cpu.name + " has less than " +
                          describe(InstructionSet::Sse41) + ", which oneDNN needs at least");
  return *found;
}

LogicalResult emitProgramObject(ModuleOp module, const ProgramData &data, const HostCpu &cpu,
                                const std::string &path) {
  auto machine = makeTargetMachine(module, cpu);
  if (!machine)
    return failure();
  bool native = machine->getMCSubtargetInfo()->checkFeatures("+avx512bf16");
  if (failed(
          lowerKernelsToLlvm(module, native ? Bf16Conversion::Native : Bf16Conversion::Expanded)))
    return failure();
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext context;
  auto code = translateModuleToLLVMIR(module, context, "stow_kernels");
  if (!code)
    return module.emitError() << "cannot translate the kernels to LLVM IR";
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());

  SmallVector<llvm::Constant *> wrappers;
  for (const std::string &symbol : data.kernels)
    wrappers.push_back(emitWrapper(*code, code->getFunction(symbol)));
  for (llvm::Function &function : *code)
    if (function.getName().starts_with(kSharedKernelPrefix))
      keepShared(function);
  emitTables(*code, data, wrappers);
  tune(*code, cpu);
  optimize(*code, *machine);

  std::error_code error;
  llvm::raw_fd_ostream file(path, error, llvm::sys::fs::OF_None);
  if (error)
    return module.emitError() << "cannot write \"" << path << "\": " << error.message();
  llvm::legacy::PassManager emitter;
  if (machine->addPassesToEmitFile(emitter, file, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError() << "this machine's code generator cannot write object files";
  emitter.run(*code);
  file.close();
  if (file.has_error()) {
    std::string message = file.error().message();
    file.clear_error();
    return module.emitError() << "cannot write \"" << path << "\": " << message;
  }
  return success();
}

} // namespace stow
