#include "codegen/BundledLinker.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

// lld asks for every target of LLVM, for bitcode that it would compile; what it links here is machine code. Those that nothing else
// of the compiler uses are left out by being defined here.
#define STOW_NO_TARGET(name)                                                                       \
  extern "C" void LLVMInitialize##name##TargetInfo() {}                                            \
  extern "C" void LLVMInitialize##name##Target() {}                                                \
  extern "C" void LLVMInitialize##name##TargetMC() {}                                              \
  extern "C" void LLVMInitialize##name##AsmPrinter() {}                                            \
  extern "C" void LLVMInitialize##name##AsmParser() {}
STOW_NO_TARGET(AArch64)
STOW_NO_TARGET(AMDGPU)
STOW_NO_TARGET(ARM)
STOW_NO_TARGET(AVR)
STOW_NO_TARGET(BPF)
STOW_NO_TARGET(Hexagon)
STOW_NO_TARGET(Lanai)
STOW_NO_TARGET(LoongArch)
STOW_NO_TARGET(M68k)
STOW_NO_TARGET(MSP430)
STOW_NO_TARGET(Mips)
STOW_NO_TARGET(PowerPC)
STOW_NO_TARGET(RISCV)
STOW_NO_TARGET(SPIRV)
STOW_NO_TARGET(Sparc)
STOW_NO_TARGET(SystemZ)
STOW_NO_TARGET(VE)
STOW_NO_TARGET(WebAssembly)
STOW_NO_TARGET(XCore)
STOW_NO_TARGET(Xtensa)

/// Asked for by the optimizer of bitcode, as Debian has configured it.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

int stow::runBundledLinker(int argc, char **argv, llvm::raw_ostream &messages) {
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  const llvm::ArrayRef<const char *> arguments(argv, static_cast<size_t>(argc));
  return lld::lldMain(arguments, messages, messages, drivers).retCode;
}
