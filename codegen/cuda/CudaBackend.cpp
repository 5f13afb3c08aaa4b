#include "codegen/cuda/CudaBackend.h"

#include "codegen/cuda/CudaTarget.h"
#include "runtime/base/Error.h"

using namespace mlir;

namespace stow::cuda {
namespace {

class CudaBackend : public Backend {
public:
  explicit CudaBackend(const BackendOptions &options)
      : chip(requireChip(options.device)),
        answers(chip, options.tf32 ? F32Products::Tf32 : F32Products::Exact, options.cudnnFolder) {}

  const Target &target() const override { return answers; }

  std::string processor() const override { return chip.name; }

  std::string dataSheet() const override { return chip.dataSheet; }

  std::optional<OutsideArena> outsideArena() const override {
    if (chip.fixed.empty())
      return OutsideArena{std::nullopt, "context, modules and handles: not measured on " +
                                            chip.name + "; --outside=SIZE states it"};
    const FixedPart &part = chip.fixed.front();
    return OutsideArena{part.bytes,
                        "context, modules and handles, driver " + part.driver + ": " + part.source};
  }

  void requireBuilds() const override { refuse(); }

  FailureOr<BuiltProgram> build(ModuleOp) const override { refuse(); }

  FailureOr<LinkInput> writeObjects(BuiltProgram &, ProgramForm, const std::string &,
                                    const TemporaryFolder &) const override {
    refuse();
  }

  std::unique_ptr<LoadedCode> load(BuiltProgram &) const override { refuse(); }

private:
  /// The one place that says what is missing.
  [[noreturn]] void refuse() const {
    throw Error::badInput("programs for cuda:" + chip.name +
                          " can be planned and not yet be built: stowage plan, frontier, max-batch "
                          "and explain take this target; compile takes --target=host");
  }

  const Chip chip;
  const CudaTarget answers;
};

} // namespace

std::unique_ptr<Backend> createCudaBackend(const BackendOptions &options) {
  return std::make_unique<CudaBackend>(options);
}

} // namespace stow::cuda
