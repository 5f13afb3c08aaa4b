// What a compilation needs of the device that a program is for: one backend, chosen by --target.
//
//   passes ........ target()         how ops run, their scratch, their layouts (passes/Target.h)
//   F3 placed ..... build()          commands, kernels, initial values
//   F4 program .... writeObjects()   object files, and what links them with the runtime
//   measuring ..... load()           the kernels in this process
//
// A backend is a folder beside this file and a row in Backend.cpp: docs/adding-a-device.md.
#pragma once

#include "codegen/Linker.h"
#include "codegen/TemporaryFolder.h"
#include "codegen/kernels/Kernels.h"
#include "passes/Target.h"
#include "runtime/format/Card.h"
#include "runtime/format/Program.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace stow {

/// A program and what its object files hold besides it.
struct BuiltProgram {
  Program program;             ///< with state, graphs and plan filled in
  std::vector<char> constants; ///< initial values; StateTensor::init.dataOffset counts in it
  std::unique_ptr<KernelModule> kernels;
};

/// Kernels in this process, for as long as this lives.
class LoadedCode {
public:
  virtual ~LoadedCode() = default;
  /// By Command::kernel.
  virtual std::span<const StowKernelFn> kernels() const = 0;
};

/// A program with the commands train, eval and plan, or a library with the interface of
/// runtime/include/stowage.h.
enum class ProgramForm { Executable, SharedLibrary };

/// Memory of the device that is no part of the arena.
struct OutsideArena {
  std::optional<Bytes> bytes; ///< absent: nobody has measured it
  /// What it is, and where the figure comes from. Empty: plans add what their library calls, initial
  /// values and the library's heap take.
  std::string note;
  Bytes bytesPerCall = 0; ///< for each library call, where `note` is empty
};

class Backend {
public:
  virtual ~Backend() = default;

  /// The device's answers to the passes' questions; lives as long as the backend.
  virtual const Target &target() const = 0;

  /// The sheet of --roofline whose speed weighs plans where the user names none.
  virtual std::string dataSheet() const = 0;

  /// What a process takes on the device beside the arena.
  virtual OutsideArena outsideArena() const = 0;

  /// What a process takes there in addition for being connected to others, in a program for several devices.
  virtual OutsideArena outsideOfRanks() const = 0;

  /// The device's memory; absent where the target names no device of its own. Of several devices the one with the least.
  virtual std::optional<Card> card() const { return std::nullopt; }

  /// Bytes that this machine still has for the arena of a program that runs in this process; absent where none does.
  virtual std::optional<Bytes> availableMemory() const { return std::nullopt; }

  /// What a plan should say about the device, as a sentence; empty: nothing.
  virtual std::string note() const { return ""; }

  /// True where a launch costs more than a small update does: several then run in one.
  virtual bool gathersUpdates() const { return false; }

  /// True where the device copies a next batch beside the commands of a step that still runs.
  virtual bool copiesBesideCommands() const { return false; }

  /// True where a result's last bits may depend on the number of threads.
  virtual bool sumsDependOnThreads() const { return false; }

  /// The processor that kernels are measured on, by its maker's or LLVM's name.
  virtual std::string processor() const = 0;

  /// Throws Error(BadInput) where programs can be planned and not be built: before anything is planned.
  virtual void requireBuilds() const {}

  /// Translates every graph of the placed `module`. Fails with a diagnostic at the op.
  virtual mlir::FailureOr<BuiltProgram> build(mlir::ModuleOp module) const = 0;

  /// Compiles `built`, whose kernels are lowered in place, to object files in `folder`, and returns
  /// what link() takes to join them with the static library `runtime`. The same program gives the
  /// same bytes. Fails with a diagnostic, or throws Error.
  virtual mlir::FailureOr<LinkInput> writeObjects(BuiltProgram &built, ProgramForm form,
                                                  const std::string &runtime,
                                                  const TemporaryFolder &folder) const = 0;

  /// Compiles the kernels of `built`, lowering them in place, and loads them. Throws Error where
  /// they cannot run on this machine.
  virtual std::unique_ptr<LoadedCode> load(BuiltProgram &built) const = 0;
};

/// What a GPU's libraries do to a product or a convolution before they write it: nothing; a bias, and ReLU of the sum;
/// everything that codegen/cuda/Epilogues.h knows.
enum class LibraryEpilogues : uint8_t { None, Bias, All };

/// What programs of one target can have and those of another cannot.
enum class Feature : uint8_t {
  FolderMemory, ///< buffers travel to a folder and back: --offload=FOLDER
  HostMemory, ///< buffers travel to memory of the host that is not the arena's, and back: --offload=host
  Epilogues, ///< of library calls there is more than one kind: --epilogues
  Tf32,      ///< products of f32 values may be cut to TF32: --tf32
};

/// The target of a program where nobody names one.
inline constexpr const char *kDefaultTarget = "host";

struct BackendOptions {
  std::string target = kDefaultTarget; ///< as --target names it
  std::string device;                  ///< what follows a colon in `target`; set by createBackend
  int64_t threads = 1;                 ///< of the host
  std::string cpu = "native";          ///< processor of the host: "native" or LLVM's name
  bool tf32 = false;                   ///< products of f32 values may be cut to TF32, on GPUs
  LibraryEpilogues epilogues = LibraryEpilogues::All; ///< of a GPU's libraries
  std::string cudnnFolder; ///< that holds cuDNN's libraries; empty: where they usually lie
};

/// `name` as it is listed, where it is a target that programs can be compiled for: "cuda:rtx4090" for "RTX4090".
/// Throws Error(BadInput) listing the known ones.
std::string requireTarget(const std::string &name);

/// Why programs for `target` cannot have `feature`, as a sentence without its period; empty where they can. Makes no backend, so
/// that flags are refused before anything is asked of a device. Throws as requireTarget.
std::string whyNot(const std::string &target, Feature feature);

/// How a device reaches the memory of its host.
struct HostLink {
  std::string name;              ///< "pcie5"
  double gigabytesPerSecond = 0; ///< each way, with the other way busy
  double microseconds = 0;       ///< of each copy beside its bytes
  std::string source;            ///< where the figures come from
};

/// The link of a target that has Feature::HostMemory: `named` as --link has it; empty: as its chips' files say. Throws
/// Error(BadInput) listing the known ones, where nothing is named and none is known, and as requireTarget.
HostLink requireHostLink(const std::string &target, const std::string &named);

/// The device of `target` as PyTorch names it: "cpu", "cuda". Throws as requireTarget.
std::string torchDevice(const std::string &target);

/// What --target names for a program whose Program::target is `built`, which says more where the host is meant: its instructions.
std::string targetOfProgram(const std::string &built);

/// The backend of `options.target`. Throws as requireTarget.
std::unique_ptr<Backend> createBackend(const BackendOptions &options);

/// Dialects and passes that generated kernels go through, on any device or on one alone, for stowage-opt.
void registerBackendDialects(mlir::DialectRegistry &registry);
void registerBackendPasses();

} // namespace stow
