// Generated kernels: one function per placed stow op that is not a library call.
//
// `KernelModule::add` emits `func.func @k<i>_<op>(%begin: index, %end: index, operands...,
// results...)`, every tensor a flat memref of its stored elements, that computes the tasks [begin,
// end). Tasks are independent, results do not depend on how they are split. Ops with the same code
// share one function; on a device also ops whose code differs in nothing but the sizes of their tensors'
// storage, so that an optimizer has one for parameters of many sizes. A result may lie exactly where an operand of the same type lies: what is read
// at a position is read before the position is written.
#pragma once

#include "ir/Stow.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace stow {

struct KernelFrame;

struct KernelInfo {
  std::string symbol;
  int64_t index = 0; ///< position in the order of emission: index into stow_kernels
  int64_t tasks = 0;
  int64_t sharedBytes =
      0; ///< of shared memory that a launch gives each block, beside the kernel's own
};

/// True for the ops that `KernelModule::add` takes: those of Emit.h's table. Of convolutions those with
/// one input and one output channel per group, and their gradients; reorders between layouts without
/// blocks.
bool hasGeneratedKernel(mlir::Operation *op);

/// True when `op` has a generated kernel that reads or writes operand or result `position` (operands
/// first) as a part of a larger tensor and gives the same bits; `part` is its type there, with the
/// gaps. A type without gaps asks whether there are any gaps that the kernel takes.
bool kernelTakesPart(mlir::Operation *op, unsigned position, mlir::RankedTensorType part);

enum class KernelTarget { Host, Device };

/// A tensor that a kernel is given.
struct KernelArgument {
  mlir::RankedTensorType type;
  int64_t alignment = 1; ///< bytes that its address is a multiple of
};

class KernelModule {
public:
  /// Loads the dialects that kernels are made of into `context`.
  explicit KernelModule(mlir::MLIRContext *context, KernelTarget target = KernelTarget::Host);

  /// The kernel of `op`; fails with a diagnostic at the op when its layouts are not supported.
  /// `alignments`: bytes that the addresses of its operands, then results, are multiples of, for
  /// devices' vectors; none: kAlignment of all.
  mlir::FailureOr<KernelInfo> add(mlir::Operation *op, llvm::ArrayRef<int64_t> alignments = {});

  /// A kernel called `name` over `arguments`, of which the first `reads` are read and the others written;
  /// `emit` writes its body and counts its tasks. Fails as `emit` does, which has said why. `work`: bytes
  /// that a run moves and operations that it does; 0: not known.
  mlir::FailureOr<KernelInfo> define(llvm::StringRef name, llvm::ArrayRef<KernelArgument> arguments,
                                     size_t reads,
                                     llvm::function_ref<mlir::LogicalResult(KernelFrame &)> emit,
                                     int64_t work = 0);

  /// What no kernel profits from more than.
  static constexpr int64_t kAlignment = 16;

  mlir::ModuleOp module() { return *owned; }
  /// Symbols of the kernels, by index.
  llvm::ArrayRef<std::string> symbols() const { return names; }

private:
  KernelTarget target;
  mlir::OwningOpRef<mlir::ModuleOp> owned;
  std::vector<std::string> names;
  struct Known {
    KernelInfo info;
    mlir::Operation *function;
  };
  std::map<std::string, Known> byCode;
  llvm::DenseMap<mlir::Attribute, std::string> constants; ///< symbols of what kernels read
};

/// The operands, then the results of `op`; alignments as in KernelModule::add.
llvm::SmallVector<KernelArgument> argumentsOf(mlir::Operation *op,
                                              llvm::ArrayRef<int64_t> alignments = {});

/// Dialects that kernels are made of.
void registerKernelDialects(mlir::DialectRegistry &registry);

} // namespace stow
